"""What the C++ extension tells Python about itself."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import sysconfig

import pytest

from functrax.core import native

pytestmark = pytest.mark.skipif(not native.available, reason="no extension")


class Slot(ctypes.Structure):
    """``PyModuleDef_Slot``."""

    _fields_ = (("slot", ctypes.c_int), ("value", ctypes.c_void_p))


class Definition(ctypes.Structure):
    """``PyModuleDef``, from the name on."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("doc", ctypes.c_char_p),
        ("size", ctypes.c_ssize_t),
        ("methods", ctypes.c_void_p),
        ("slots", ctypes.POINTER(Slot)),
    )


@pytest.mark.skipif(sys.version_info < (3, 13), reason="before 3.13 every module has the lock")
def test_extension_says_that_it_needs_the_lock() -> None:
    if sys.version_info >= (3, 13) and sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert sys._is_gil_enabled()
        return
    of_module = ctypes.pythonapi.PyModule_GetDef
    of_module.argtypes, of_module.restype = [ctypes.py_object], ctypes.c_void_p
    base = object.__basicsize__ + 3 * ctypes.sizeof(ctypes.c_void_p)  # PyModuleDef_Base
    definition = Definition.from_address(of_module(native.extension) + base)
    assert definition.name == b"_native"
    flags = {}
    i = 0
    while definition.slots and definition.slots[i].slot:
        flags[definition.slots[i].slot] = definition.slots[i].value
        i += 1
    works_without = 1  # Py_MOD_GIL_NOT_USED of the slot Py_mod_gil, which is 4
    assert flags.get(4) != works_without


WITHOUT = """
import sys, warnings
sys.modules["functrax._native"] = None
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import functrax, functrax.numpy as jnp
    slope = functrax.jit(functrax.grad(jnp.sin))(0.0)
print(float(slope), [(x.category.__name__, x.category is functrax.errors.MissingExtensionWarning)
                     for x in caught])
"""


@pytest.mark.parametrize(
    ("switch", "said"), [("1", "[('MissingExtensionWarning', True)]"), ("0", "[]")]
)
def test_a_missing_extension_is_said_once_unless_it_is_switched_off(switch: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        env={**os.environ, "FUNCTRAX_NATIVE": switch},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"1.0 {said}"
