"""The process that functrax runs in: locks, control groups, memory, garbage collection."""
