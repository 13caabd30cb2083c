"""Kernels for processors with narrower vectors than this one's, run on this one.

``FUNCTRAX_CPU`` is read once, so each processor has a process of its own.  The default run compares
a few random programs and kernels that have masked ends, gathers, scatters and narrow floats; the
slow one runs the tests of schedules, random programs and contractions on each processor, which
takes ten minutes on two cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from functrax.backends.targets import target
from functrax.backends.targets.detect import limited, target_of
from functrax.backends.targets.facts import Facts
from functrax.backends.targets.x86_64 import KINDS
from functrax.core.errors.typed import ArgumentError

ROOT = Path(__file__).parents[2]
#: Processors without AVX-512, and the width of their vectors.
LESSER = {"x86-64-v3": 32, "x86-64-v2": 16}
LESSER_HAS_HALVES = {kind: "f16c" in KINDS[kind] for kind in LESSER}
WIDE = ("test_schedules", "test_random_programs", "test_compiled_edges", "test_in_place")
WIDE_TOO = (
    *("test_contraction", "test_random_contractions", "test_memory", "test_math"),
    "test_complex_kernels",
)

CHECKS = """
import sys
import numpy as np
import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.machine_code.code_generator import generator
from functrax.backends.targets import target
from tests.backends.random_checks import check_seed

assert target().vector_bytes == int(sys.argv[1])
assert generator().cpu == target().cpu
rng = np.random.default_rng(0)


def ends(x, rows):
    return x + rows, (x * 2).sum(1), x.max(0), jnp.argmin(x, 1), x.T * 3, lax.cumsum(x, 1)


def far(x, i):
    return x[i, ::3], x.at[i].set(x[:7] * 2), x.at[i].max(x[1:8]), jnp.pad(x, 2)[:, 1:-1]


for dtype in ("float32", "float16", "bfloat16", "int8"):
    for columns in (13, 67) if dtype == "float32" else (67,):
        x = jnp.asarray(rng.integers(-9, 9, (29, columns)), dtype)
        i = jnp.asarray(rng.permutation(29)[:7])
        for function, args in ((ends, (x, x[0])), (far, (x, i))):
            got = functrax.jit(function)(*args)
            with functrax.backend("interp"):
                want = function(*args)
            for a, b in zip(got, want, strict=True):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
for kind in ("exact", "bits", "smooth"):
    check_seed(1, kind)
"""


CALLS = """
import mmap
import numpy as np
import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.machine_code import object_loader as object_code
from functrax.backends.machine_code.code_generator import CodeGenerator

written = []
make = CodeGenerator.object_code


def collecting(self, text):
    written.append(make(self, text))
    return written[-1]


CodeGenerator.object_code = collecting
functrax.config.update("compile_threads", False)
ONE = (
    *(jnp.exp, jnp.log, jnp.log2, jnp.log1p, jnp.expm1, jnp.sin, jnp.cos, jnp.tan, jnp.tanh),
    *(jnp.sinh, jnp.arcsin, jnp.arctan, jnp.sqrt, jnp.cbrt, lax.lgamma, lax.digamma, lax.erf),
    *(lax.erf_inv, lax.logistic, lax.rsqrt, lambda x: x**1.5, lambda x: x % 0.7, lax.square),
    *(jnp.var, jnp.cumsum, lambda x: x @ x.T, lambda x: jnp.linalg.norm(x @ x, axis=0)),
    lambda x: lax.conv(x[None, None], x[None, None, :3, :3], (1, 1), "SAME"),
    lambda x: jnp.log(x + 1j * x),
    functrax.grad(lambda x: jnp.tanh(x @ jnp.sin(x)).sum()),
    lambda x: lax.fori_loop(0, 5, lambda k, y: jnp.sin(y) * y + k, x),
)
with functrax.enable_x64(True):
    for strict in (False, True):
        functrax.config.update("strict", strict)
        for dtype in (np.float32, np.float64):
            x = jnp.asarray(np.random.default_rng(0).uniform(0.1, 0.9, (32, 32)), dtype)
            for f in ONE:
                np.asarray(functrax.jit(f)(x))
assert len(written) > 60, len(written)
called = set()
for data in written:
    called.update(n for _, n in object_code.link(data, 62, mmap.PAGESIZE).calls)
assert called == set(), called
"""


def limited_to(kind: str, tmp_path: Path, *command: str) -> None:
    """Run Python with code for a kind of processor, and nothing in the cache."""
    if not KINDS[kind] <= target().flags:
        pytest.skip(f"this processor is no {kind}")
    environment = {**os.environ, "FUNCTRAX_CPU": kind, "FUNCTRAX_CACHE_DIR": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-4000:]


@pytest.mark.parametrize("kind", LESSER)
def test_kernels_of_a_lesser_processor(kind: str, tmp_path: Path) -> None:
    limited_to(kind, tmp_path, "-c", CHECKS, str(LESSER[kind]))


def test_kernels_call_no_library_for_products_and_sums(tmp_path: Path) -> None:
    limited_to("x86-64-v2", tmp_path, "-c", CALLS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LESSER)
@pytest.mark.parametrize("files", [WIDE, WIDE_TOO])
def test_everything_on_a_lesser_processor(
    kind: str, files: tuple[str, ...], tmp_path: Path
) -> None:
    paths = [f"tests/backends/{name}.py" for name in files]
    options = ["-q", "-n0", "-p", "no:cacheprovider"]
    if not LESSER_HAS_HALVES[kind]:  # it stores products of float16, by reference, and is right
        options += ["--deselect", f"{paths[1]}::test_contraction_that_was_wrong[418]"]
    limited_to(kind, tmp_path, "-m", "pytest", *options, *paths)


def test_only_lesser_processors_can_be_asked_for() -> None:
    haswell = Facts("x86_64", "a Haswell", KINDS["x86-64-v3"] | {"rtm"})
    older, same = (target_of(limited(haswell, f"x86-64-v{n}")) for n in (2, 3))
    assert (older.vector_bytes, older.has_halves) == (16, False)
    assert (same.vector_bytes, same.has_halves, same.cpu) == (32, True, "x86-64-v3")
    assert len({haswell.identity, older.identity, same.identity}) == 3
    for kind in ("x86-64-v4", "386"):
        with pytest.raises(ArgumentError, match="one of x86-64-v2, x86-64-v3"):
            limited(haswell, kind)
