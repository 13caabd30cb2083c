"""``jit``: traces, signatures, stages ahead of time."""
