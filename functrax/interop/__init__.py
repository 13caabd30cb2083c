"""Sharing arrays and functions with others: PyTorch, and other processes.

NumPy and DLPack need nothing from here: ``numpy.asarray(x)``, ``functrax.numpy.from_dlpack(t)`` and
``torch.from_dlpack(x)`` share memory as they are, and arrays that :mod:`multiprocessing` sends to
another process travel in shared memory by themselves.
"""

from functrax.core.lazy import listing as _listing
from functrax.interop.processes import Shared as Shared
from functrax.interop.torch_functions import from_torch as from_torch, to_torch as to_torch

__dir__ = _listing(globals())
