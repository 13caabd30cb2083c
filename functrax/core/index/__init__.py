"""Index maps: their expressions, bounds, proofs and text, and what they mean in NumPy."""
