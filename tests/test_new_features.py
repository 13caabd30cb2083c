"""The rows of the feature ledger that none of the other systems has, and that need a compiler.

They are called N; ``test_features.py`` has more of them, ``test_compiler_features.py`` the rows of
the other systems.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, nn
from functrax.core.options.config import Override
from tests.test_compiler_features import F32, array, explained, ratio_iou


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with functrax.backend("llvm"):
        yield


def in_double(f: Callable[..., Any], *args: Any) -> Any:
    """On the reference device, in double precision."""
    with functrax.enable_x64(), functrax.backend("interp"):
        return np.asarray(f(*[functrax.tree.map(lambda x: np.asarray(x, "f8"), a) for a in args]))


def test_N1_derivatives_of_derivatives_under_jit() -> None:
    def critic(w: Any, x: Any) -> Any:
        return jnp.sum(jnp.tanh(x @ w[0]) @ w[1])

    def penalty(w: Any, x: Any) -> Any:
        return jnp.mean((jnp.linalg.norm(functrax.grad(critic, 1)(w, x), axis=1) - 1) ** 2)

    w, x = [array(6, 8) * 0.5, array(8, 1, seed=1) * 0.5], array(10, 6, seed=2)
    slope = lambda w, x: functrax.grad(penalty)(w, x)[0]
    np.testing.assert_allclose(functrax.jit(slope)(w, x), in_double(slope, w, x), rtol=1e-4)
    loss = lambda v: critic([v, w[1]], x) ** 2
    product = lambda v, t: functrax.jvp(functrax.grad(loss), (v,), (t,))[1]
    got = functrax.jit(product)(w[0], w[0])
    np.testing.assert_allclose(got, in_double(product, w[0], w[0]), rtol=2e-4, atol=1e-4)
    fourth: Any = lambda t: jnp.tanh(t) * jnp.sin(2 * t)
    for _ in range(4):
        fourth = functrax.grad(fourth)
    np.testing.assert_allclose(functrax.jit(fourth)(0.3), in_double(fourth, 0.3), rtol=1e-4)


def test_N2_the_seventh_derivative_takes_a_fifth_of_a_second() -> None:
    """Traced and compiled, by the time that the processor works; the best of three."""
    times = []
    for _ in range(3):
        f: Any = lambda x: jnp.tanh(x) * jnp.sin(x)
        for _ in range(7):
            f = functrax.grad(f)
        functrax.clear_caches()
        begin = time.process_time()
        got = functrax.jit(f)(0.3)
        times.append(time.process_time() - begin)
    np.testing.assert_allclose(got, seventh_derivative(0.3), rtol=1e-3)
    assert min(times) < 0.2, times


def seventh_derivative(x: float) -> float:
    """Of ``tanh(x) sin(x)``: those of tanh are polynomials of tanh, those of sin go round."""
    of_tanh = [np.polynomial.Polynomial([0, 1])]
    for _ in range(7):
        of_tanh.append(of_tanh[-1].deriv() * np.polynomial.Polynomial([1, 0, -1]))
    of_sin = [np.sin(x + k * np.pi / 2) for k in range(8)]
    return float(sum(math.comb(7, k) * of_tanh[k](np.tanh(x)) * of_sin[7 - k] for k in range(8)))


def test_N3_fifty_sizes_are_compiled_once() -> None:
    f = functrax.jit(functrax.grad(lambda w, x: jnp.sum(jnp.tanh(x * w) ** 2)))
    for n in np.random.default_rng(0).permutation(np.arange(10, 60)).tolist():
        got = f(array(7), array(n, 7))
        y = np.tanh(np.asarray(array(n, 7)) * np.asarray(array(7)))
        want = (2 * y * (1 - y * y) * np.asarray(array(n, 7))).sum(0)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert f.cache_info().misses == 50 and f.cache_info().compiles <= 2


def test_N6_strict_results_depend_on_nothing_else() -> None:
    def f(x: Any) -> Any:
        return nn.softmax(jnp.sin(x) * 3).sum(0) @ jnp.cos(x[: x.shape[1]])

    x = array(300, 40)
    with Override("strict", True):
        results = [functrax.jit(f)(x) for _ in range(3)]
        with functrax.disable_jit():
            results.append(f(x))
    assert len({np.asarray(r).tobytes() for r in results}) == 1
    code = (
        "import numpy as np, functrax, functrax.numpy as jnp; from functrax import nn\n"
        "f = lambda x: nn.softmax(jnp.sin(x) * 3).sum(0) @ jnp.cos(x[: x.shape[1]])\n"
        "x = np.random.default_rng(0).normal(size=(300, 40)).astype('f4')\n"
        "print(np.asarray(functrax.jit(f)(x)).tobytes().hex())"
    )
    environment = {**os.environ, "FUNCTRAX_STRICT": "1", "FUNCTRAX_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == np.asarray(results[0]).tobytes().hex()


def test_N8_every_value_between_kernels_has_a_reason_and_bytes() -> None:
    e = explained(lambda x: jnp.sort(x.sum(0) @ x.T) + x.sum(), array(50, 50))
    assert e.edges and all(edge.code and edge.reason and edge.nbytes for edge in e.edges)


def test_N9_memory_is_kept_to_a_budget() -> None:
    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = jnp.tanh(x @ w)
        return jnp.sum(x * x)

    args = [array(16, 16, seed=k) for k in range(10)], array(128, 16)
    free = explained(functrax.grad(loss), *args).peak_bytes
    wanted = functrax.jit(functrax.grad(loss))(*args)
    with functrax.memory_budget(free // 2):
        assert explained(functrax.grad(loss), *args).peak_bytes <= free // 2
        for a, b in zip(functrax.jit(functrax.grad(loss))(*args), wanted, strict=True):
            np.testing.assert_array_equal(a, b)


#: In a new process: what the first call gives, how often LLVM was asked, what other programs were
#: started, and the seconds that the import and the call took.
_FIRST_CALL = """
import sys, time
started = []
programs = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork")
sys.addaudithook(lambda event, args: started.append(event) if event in programs else None)
begin = time.perf_counter()
import functrax
imported = time.perf_counter()
f = functrax.jit(lambda x: x * 2 + 1)
given = time.perf_counter()
result = float(f(3.0))
done = time.perf_counter()
print(result, f.cache_info().compiles, started, imported - begin, done - given, sep=";")
"""


def first_call(folder: Path) -> list[str]:
    """What a process prints that has nothing on its PATH and no cache."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FUNCTRAX")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    (folder / "bin").mkdir(exist_ok=True)
    environment |= {
        "PATH": str(folder / "bin"),
        "FUNCTRAX_CACHE": "0",
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_CALL],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip().split(";")


def test_N10_no_toolchain_is_needed(tmp_path: Path) -> None:
    """The processor's code comes from this process alone: it starts no other program."""
    assert first_call(tmp_path)[:3] == ["7.0", "1", "[]"]


@pytest.mark.slow
def test_N10_a_cold_start_takes_less_than_a_second(tmp_path: Path) -> None:
    """NumPy included, which takes a third of it; the best of eight processes."""
    times = [list(map(float, first_call(tmp_path)[3:])) for _ in range(8)]
    imported, called = (min(column[1:]) for column in zip(*times, strict=True))
    assert imported < 0.5 and called < 0.1, times


def test_N21_values_that_cross_between_kernels_say_why() -> None:
    e = explained(lambda x: (x / x.sum(1, keepdims=True)).sum(0), array(8, 100))
    assert [(edge.code, edge.nbytes) for edge in e.edges] == [("reduction", 8 * F32)]
    with pytest.raises(errors.ArgumentError, match="not a jitted function"):
        functrax.explain_misses(ratio_iou)
