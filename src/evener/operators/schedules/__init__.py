"""Load-balancing schedules of advance and gather, one file each."""
