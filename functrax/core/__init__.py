"""The language: dtypes, avals, jaxprs, index maps, primitives, tracing; imports nothing else."""
