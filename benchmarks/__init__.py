"""The benchmark suite: functrax against JAX, PyTorch, NumPy, Dr.Jit and numba (see README.md)."""
