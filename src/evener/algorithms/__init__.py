"""The algorithms, one file each: program, public function, verifier."""
