"""What a run found: fields under labels, frames, files, and the trace of its supersteps."""
