"""Networks and formulas of several lines, each in a module of its own.

A module holds ``inputs`` (NumPy arrays), functions of the library for functrax and JAX (one text),
and the same by hand for PyTorch and others.
"""
