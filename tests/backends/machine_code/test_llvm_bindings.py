"""LLVM's functions are called as llvmlite calls them."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import pytest
from llvmlite.binding import ffi

from functrax.backends.machine_code import llvm_bindings
from functrax.backends.machine_code.llvm_bindings import SIGNATURES, Library, library_file


@pytest.fixture(scope="module")
def functions() -> Library:
    found = Library(library_file())
    found.initialize()
    return found


def alike(ours, theirs) -> bool:
    """Whether two ctypes are passed in the same way."""
    if ours is None or theirs is None:
        return ours is theirs
    if ours in (ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_char_p):
        return ours is theirs
    return ctypes.sizeof(ours) == ctypes.sizeof(theirs) == ctypes.sizeof(ctypes.c_void_p)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_of_llvmlite(name):
    result, *arguments = SIGNATURES[name]
    theirs = getattr(ffi.lib, name)._cfn
    if name == "LLVMPY_DisposeString":  # llvmlite declares nothing, and gives a pointer
        expected = [ctypes.c_void_p]
    else:
        expected = list(theirs.argtypes or ())
    assert len(arguments) == len(expected)
    assert all(map(alike, arguments, expected))
    restype = theirs.restype
    assert alike(result, restype) or (result is None and restype is ctypes.c_int)


def test_the_file_is_the_one_that_llvmlite_loads():
    assert library_file() == ffi.lib._name


def test_it_is_found_where_llvmlite_is_installed_in_an_unusual_way(monkeypatch):
    monkeypatch.setattr(llvm_bindings, "folder", lambda: "/nowhere")
    assert library_file() == ffi.lib._name


def test_facts_are_those_of_llvmlite(functions):
    assert functions.version() == ".".join(map(str, llvm.llvm_version_info))
    features = llvm.get_host_cpu_features().flatten()
    assert functions.host() == (llvm.get_host_cpu_name(), features)


def test_code_is_that_of_llvmlite(functions):
    text = "define double @f(double %x) {\n  %y = fadd double %x, 1.0\n  ret double %y\n}\n"
    cpu, features = functions.host()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu, features, 2, reloc="pic", codemodel="small")
    module = llvm.parse_assembly(text)
    ours = functions.new_machine(cpu, features, 2)
    assert functions.compiled(ours, text) == machine.emit_object(module)
    assert functions.compiled(ours, text, False).decode() == machine.emit_assembly(module)


def test_what_llvm_refuses(functions):
    machine = functions.new_machine("", "", 2)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="LLVM IR parsing error"):
            functions.compiled(machine, "define nonsense")
