"""Kernels for NVIDIA's GPUs: from trees to LLVM IR for a thread, and to PTX.

Start at :mod:`functrax.backends.ptx.emit`.
"""
