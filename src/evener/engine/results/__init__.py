"""Results of runs: fields by label, frames, files, and the trace of supersteps."""
