"""``jax.ffi`` under compat is functrax's."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import ctypes, numpy as np
import jax, jax.ffi, jax.extend.ffi
from jax.extend import ffi

assert ffi.ffi_call is jax.ffi.ffi_call
libc = ctypes.CDLL(None)
jax.ffi.register_ffi_target("abs_of_none", jax.ffi.pycapsule(libc.abs), api_version=0)
call = jax.ffi.ffi_call("nobody", jax.ShapeDtypeStruct((), np.float32))
try:
    call(np.float32(1))
except NotImplementedError as error:
    print("nobody" in str(error), jax.ffi.include_dir().endswith("include"))
"""


def test_jax_ffi_is_found():
    said = subprocess.run(
        [sys.executable, "-m", "functrax.compat", "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["True", "True"]
