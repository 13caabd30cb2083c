"""The language: dtypes, avals, jaxprs, index maps, primitives, tracing. Imports nothing else of functrax."""
