"""The primitives, one class each in one file per family, and the NumPy values that define them."""
