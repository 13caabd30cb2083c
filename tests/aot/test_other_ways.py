"""What is compiled ahead of time from C++, from CMake, from Rust, and on other processors."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import functrax
from functrax.backends.targets import target
from functrax.backends.targets.x86_64 import KINDS
from functrax.core import native
from functrax.core.options.config import Override
from tests.aot.building import HERE, STRICT, Folder, need, run
from tests.aot.loading import Loaded, need_linker
from tests.aot.programs import PROGRAMS, compiled_results
from tests.aot.test_random_programs import same_bits

ROOT = HERE.parents[1]
CROSS, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
OTHERS = ("slopes", "wgan_step", "lstm", "newton", "ode", "chosen", "nested", "kinds", "products")


@pytest.mark.slow
@need("g++")
def test_wrapper(tmp_path: Path) -> None:
    check_wrapper("g++", tmp_path)


@pytest.mark.slow
@need("g++")
def test_addresses_of_wrapper(tmp_path: Path) -> None:
    check_wrapper("g++", tmp_path, "-fsanitize=address,undefined")


@pytest.mark.slow
@need("clang++")
def test_wrapper_by_clang(tmp_path: Path) -> None:
    check_wrapper("clang++", tmp_path)


def check_wrapper(compiler: str, path: Path, *more: str) -> None:
    """Build wrapper.cpp, and compare what it prints."""
    folder = Folder(path, "slopes")
    options = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", *more)
    built = folder.build(
        compiler, *options, '-DHEADER_OF_CPP="slopes.hpp"', source=HERE / "wrapper.cpp"
    )
    assert run(built, folder.data).splitlines() == [
        "1",
        "out_1_b2: an array of shape [4] is needed, and it has 32 elements",
        "params_w1: an array of shape [16,32] is needed, and it has shape [32,16]",
    ]


@pytest.mark.slow
@need("cmake", "gcc", "ld")
@pytest.mark.parametrize("kind", ["object", "static", "shared"])
def test_cmake(kind: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "program", "newton", kind=kind)
    source = tmp_path / "source"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(
        f"""
        cmake_minimum_required(VERSION 3.18)
        project(caller C)
        find_package(Threads REQUIRED)
        find_package(newton 1.0 REQUIRED CONFIG)
        add_executable(caller {HERE / "call.c"})
        target_compile_definitions(caller PRIVATE HEADER="newton.h" NAME=newton)
        target_link_libraries(caller newton::newton Threads::Threads)
        """
    )
    build = tmp_path / "build"
    run("cmake", "-S", source, "-B", build, f"-Dnewton_DIR={folder.path}")
    run("cmake", "--build", build)
    folder.call(build / "caller", threads=2, calls=3)


def kinds_of_this() -> list[str]:
    """Kinds of processors that this one is."""
    return [kind for kind, needed in KINDS.items() if needed <= target().flags]


@pytest.mark.slow
@need("gcc")
@pytest.mark.parametrize("kind", kinds_of_this())
def test_bits_of_jit_on_lesser_processors(kind: str, tmp_path: Path) -> None:
    code = """
import sys
import time
from pathlib import Path
from tests.aot.building import STRICT, Folder
kind, path, *names = sys.argv[1:]
for name in names:
    folder = Folder(Path(path) / name, name, target=kind)
    folder.call(folder.build("gcc", *STRICT), threads=2, calls=3)
"""
    names = list(OTHERS)
    if kind == "x86-64-v2":  # whose processors do not convert float16
        names.remove("kinds")
    given = [kind, str(tmp_path), *names]
    environment = {**os.environ, "FUNCTRAX_CPU": kind, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code, *given],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@need_linker
@pytest.mark.skipif(platform.machine() != "x86_64", reason="it loads code for x86-64")
def test_strict_bits_are_the_same_where_instructions_are(tmp_path: Path) -> None:
    function, arguments = PROGRAMS["slopes"]
    args = arguments()
    found = dict[str, list[Any]]()
    with Override("strict", True):
        for kind in (*kinds_of_this(), "x86_64"):
            made = functrax.aot(function, *args, name="slopes", target=kind)
            found[kind] = Loaded(made, tmp_path / kind)(*functrax.tree.leaves(args))
        if target().has_fma:  # sums of products are rounded once for each product
            wanted = compiled_results(function, args)
            for kind in found.keys() - {"x86-64-v2", "x86_64"}:
                same_bits(found[kind], wanted)
    if "x86-64-v2" in found:
        same_bits(found["x86_64"], found["x86-64-v2"])


def emulated(path: Path, name: str) -> None:
    """Call a program for AArch64, in strict mode, whose bits are those of all machines."""
    with Override("strict", True):
        folder = Folder(path, name, target="aarch64")
        built = folder.build(CROSS, *STRICT, "-static")
        folder.call(built, threads=2, calls=3, before=[EMULATOR])


@need(CROSS, EMULATOR)
def test_aarch64(tmp_path: Path) -> None:
    emulated(tmp_path, "slopes")


@pytest.mark.slow
@need(CROSS, EMULATOR)
@pytest.mark.parametrize("name", OTHERS[1:])
def test_more_on_aarch64(name: str, tmp_path: Path) -> None:
    emulated(tmp_path, name)


@pytest.mark.slow
@need(CROSS, EMULATOR)
def test_subnormals_on_aarch64(tmp_path: Path) -> None:
    function, arguments = PROGRAMS["tiny"]
    x = arguments()[0]
    folder = Folder(tmp_path, "tiny", target="aarch64")
    wanted, _ = compiled_results(function, (x,))
    assert wanted[0] == 0.0, "subnormal results are flushed here"
    folder.call(folder.build(CROSS, *STRICT, "-static"), threads=1, calls=2, before=[EMULATOR])


def test_code_for_other_architectures_is_made_anywhere() -> None:
    function, arguments = PROGRAMS["slopes"]
    made = functrax.aot(function, *arguments(), target="aarch64", name="f")
    assert made.object[:4] == b"\x7fELF"
    assert made.object[18] == 183, "the number of AArch64"
    if platform.machine() == "x86_64":
        assert made.for_target(None).object[18] == 62


@pytest.mark.slow
@need("gcc")
@pytest.mark.skipif(native.extension is None, reason="the runtime is the one in C++")
@pytest.mark.parametrize("name", ["loss", "wgan_step", "lstm_slopes", "ode", "products"])
def test_calls_take_no_longer_than_the_runtimes(name: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path, name)
    built = folder.build("gcc", *STRICT, "-O2", source=HERE / "timing.c")
    function, arguments = PROGRAMS[name]
    jitted = functrax.jit(function)
    args = functrax.tree.map(functrax.numpy.asarray, arguments())
    functrax.block_until_ready(jitted(*args))
    runtime: Any = native.extension
    threads = runtime.num_threads()
    runtime.set_num_threads(1)
    try:
        here, there = [], []
        for _ in range(4):  # in turns
            there.append(float(run(built, folder.data, "1", "300")))
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                begin = time.thread_time_ns()
                for _ in range(10):
                    results = jitted(*args)
                functrax.block_until_ready(results)
                here.append((time.thread_time_ns() - begin) / 10)
    finally:
        runtime.set_num_threads(threads)
    assert min(there) <= 1.1 * min(here)
