"""Functions of the user's own inside programs, by JAX's interface and simpler ones.

``ffi_call`` calls what ``register_ffi_target`` made known: handlers of the calling convention of
XLA's typed foreign function interface, whose header is ``functrax/ffi.h`` in ``include_dir()``.
:func:`c_function` makes a function of arrays of any C function: of a shared library, of ``ctypes``,
or of numba's ``cfunc``.  :func:`functrax.code` compiles C and C++.  See docs/ffi.md.
"""

from functrax.core.lazy import listing as _listing
from functrax.ffi.c_functions import c_function as c_function
from functrax.ffi.calling import (
    build_ffi_lowering_function as build_ffi_lowering_function,
    ffi_call as ffi_call,
    ffi_lowering as ffi_lowering,
)
from functrax.ffi.registration import (
    include_dir as include_dir,
    pycapsule as pycapsule,
    register_ffi_target as register_ffi_target,
    register_ffi_target_as_batch_partitionable as register_ffi_target_as_batch_partitionable,
    register_ffi_type as register_ffi_type,
    register_ffi_type_id as register_ffi_type_id,
)

__dir__ = _listing(globals())
