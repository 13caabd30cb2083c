"""Shared objects for the tests, compiled once for each process."""

from __future__ import annotations

import ctypes
import importlib.util
import pathlib
import shutil
import subprocess
from collections.abc import Callable

import pytest

import functrax

HERE = pathlib.Path(__file__).parent

#: Makes a shared object of text of C, or of C++ if the suffix says so.
Build = Callable[..., ctypes.CDLL]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile text, and load it."""
    folder = tmp_path_factory.mktemp("objects")

    def make(
        source: str, suffix: str = ".c", include: str = "", flags: tuple[str, ...] = ()
    ) -> ctypes.CDLL:
        compiler = shutil.which("cc" if suffix == ".c" else "c++")
        if compiler is None:
            pytest.skip("no compiler")
        file = folder / f"{abs(hash((source, flags)))}{suffix}"
        file.write_text(source)
        target = file.with_suffix(".so")
        if not target.exists():
            include = include or functrax.ffi.include_dir()
            standard = "-std=c11" if suffix == ".c" else "-std=c++17"
            command = [compiler, standard, "-O1", "-shared", "-fPIC", f"-I{include}", *flags]
            subprocess.run([*command, str(file), "-o", str(target)], check=True)
        return ctypes.CDLL(str(target))

    return make


@pytest.fixture(scope="session")
def include() -> str:
    """Where the headers of jaxlib are."""
    found = importlib.util.find_spec("jaxlib")
    for place in [] if found is None else found.submodule_search_locations or ():
        folder = pathlib.Path(place) / "include"
        if (folder / "xla" / "ffi" / "api" / "ffi.h").exists():
            return str(folder)
    pytest.skip("jaxlib is not installed")


@pytest.fixture(scope="session")
def xla(build: Build, include: str) -> ctypes.CDLL:
    """Handlers that were compiled with the headers of jaxlib, registered by their names."""
    library = build((HERE / "xla_handlers.cc").read_text(), ".cc", include, ("-w",))
    names = "scaled split attributes fails throws throws_number later services unavailable newer"
    for name in names.split():
        symbol = getattr(library, name)
        functrax.ffi.register_ffi_target(f"xla_{name}", functrax.ffi.pycapsule(symbol))
    library.counter_id.restype = library.counter_info.restype = ctypes.c_void_p
    library.counters_freed.restype = ctypes.c_int64
    capsule = functrax.ffi.pycapsule
    functrax.ffi.register_ffi_type(
        "xla_counter",
        {"type_id": capsule(library.counter_id()), "type_info": capsule(library.counter_info())},
    )
    stages = {"instantiate": capsule(library.make_counter), "execute": capsule(library.count)}
    functrax.ffi.register_ffi_target("xla_count", stages)
    return library
