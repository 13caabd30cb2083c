"""Programs for GPUs without Python, tried on the GPU of this machine: the bits of ``jit`` from C.

    python -m tests.aot.gpu_check [folder]

Each program is compiled for the GPU's family, built by a compiler of C, and called from four
threads, and where that is possible as a CUDA graph; a line says how that went, and how long a call
took there and by ``jit`` in Python.  The exit status is that of the worst.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.cuda import choice
from functrax.backends.targets.nvptx import target_of
from tests.aot.programs import PROGRAMS

HERE: Final = Path(__file__).parent / "gpu"
WARNINGS: Final = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic")
#: How many calls are timed.
TIMED: Final = 200


def power(a: Any) -> Any:
    """The largest eigenvalue of a matrix, until it changes no more; and how many rounds it took."""

    def goes_on(state: Any) -> Any:
        _, value, before, n = state
        return (jnp.abs(value - before) > 1e-5 * jnp.abs(value)) & (n < 100)

    def step(state: Any) -> Any:
        v, value, _, n = state
        w = a @ v
        size = jnp.sqrt(jnp.sum(w * w))
        return w / size, size, value, n + 1

    first = jnp.ones(a.shape[0]), jnp.float32(1), jnp.float32(0), jnp.int32(0)
    v, value, _, n = lax.while_loop(goes_on, step, first)
    return v, value, n


def matrix() -> tuple[Any, ...]:
    """An argument of :func:`power`."""
    a = np.random.default_rng(5).standard_normal((48, 48)).astype(np.float32)
    return (a @ a.T + np.eye(48, dtype=np.float32),)


#: Programs in which the host decides nothing, so that a stream that is captured takes them.
CAPTURED: Final = ("loss", "slopes", "lstm")
#: A forward pass, a gradient, a scan, a loop whose end the host reads, and branches.
CHECKED: Final[dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]]] = {
    **{name: PROGRAMS[name] for name in ("loss", "slopes", "lstm")},
    "power": (power, matrix),
    "chosen": PROGRAMS["chosen"],
}


def written(name: str, folder: Path, target: str) -> tuple[Path, list[Path]]:
    """A program's source and a file of arguments and of what ``jit`` gives on the GPU."""
    function, arguments = CHECKED[name]
    args = arguments()
    paths = functrax.aot(function, *args, name=name, target=target).write(folder)
    with functrax.backend("cuda"):
        results = functrax.tree.leaves(functrax.jit(function)(*args))
    leaves = [*functrax.tree.leaves(args), *results]
    data = folder / f"{name}.bytes"
    data.write_bytes(b"".join([np.asarray(x).tobytes() for x in leaves]))
    return data, [Path(x) for x in paths]


def build_command(name: str, folder: Path, made: Path, compiler: str, *options: str) -> list[str]:
    """The command that builds ``call_cuda.c`` around a program."""
    given = [f'-DHEADER="{name}.h"', f"-DNAME={name}", f"-I{folder}", "-D_POSIX_C_SOURCE=200809L"]
    sources = [str(HERE / "call_cuda.c"), str(folder / f"{name}.c")]
    libraries = ["-lpthread", "-ldl"]
    return [compiler, *WARNINGS, "-O2", *options, *given, "-o", str(made), *sources, *libraries]


def microseconds(name: str) -> float:
    """How long a call by ``jit`` takes, arguments being on the GPU."""
    function, arguments = CHECKED[name]
    with functrax.backend("cuda"):
        args = functrax.tree.map(functrax.device_put, arguments())
        jitted = functrax.jit(function)
        for _ in range(3):
            functrax.block_until_ready(jitted(*args))
        begin = time.perf_counter()
        for _ in range(TIMED):
            found = jitted(*args)
        functrax.block_until_ready(found)
        return (time.perf_counter() - begin) / TIMED * 1e6


def checked(name: str, folder: Path, target: str, compiler: str) -> tuple[bool, str]:
    """Whether a program gives the bits of ``jit``, and what is to be said of it."""
    data, _ = written(name, folder, target)
    made = folder / name
    options = ["-DCAPTURES"] if name in CAPTURED else []
    command = build_command(name, folder, made, compiler, *options)
    for step in (command, [str(made), str(data), "4", "8", str(TIMED)]):
        done = subprocess.run(step, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            return False, f"{step[0]} ended with status {done.returncode}: {said}"
    calls, _, took = done.stdout.strip().partition(", ")
    graph = ", as did a graph of one" if options else ""
    times = f"{took} a call, {microseconds(name):.2f} us by jit"
    return True, f"{calls} gave the bits of jit{graph}; {times}"


def main(folder: Path) -> int:
    """Check all programs; the exit status."""
    compiler = next(filter(None, map(shutil.which, ("gcc", "clang", "cc"))), None)
    if compiler is None:
        print("there is no compiler of C")
        return 1
    gpu = choice.gpu()
    target, status = target_of(gpu.capability).cpu, 0
    print(f"{gpu.name}, code for {target}, built by {compiler}", flush=True)
    for name in CHECKED:
        try:
            good, said = checked(name, folder, target, compiler)
        except Exception as error:
            good, said = False, f"{type(error).__name__}: {error}"
        status |= not good
        print(f"{name:8} {'ok' if good else 'WRONG'}: {said}", flush=True)
    return status


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as made_here:
        sys.exit(main(Path(made_here)))
