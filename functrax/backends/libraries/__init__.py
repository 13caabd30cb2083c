"""Library functions that programs launch beside kernels; see ``calls.py``."""
