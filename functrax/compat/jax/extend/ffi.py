"""``jax.extend.ffi``, which became ``jax.ffi``; older libraries ask for it."""

from functrax.ffi import (
    ffi_call as ffi_call,
    ffi_lowering as ffi_lowering,
    include_dir as include_dir,
    pycapsule as pycapsule,
    register_ffi_target as register_ffi_target,
)
