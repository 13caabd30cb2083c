"""Bits on the simulated GPU: the same at each run, for any order of blocks, and, in strict mode and
where no sum has another order, those of the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.cuda import choice
from functrax.backends.targets import target
from functrax.core.options.config import Override
from functrax.core.types import dtypes

RNG = np.random.default_rng(3)
X = RNG.normal(size=(9, 70)).astype(np.float32)
LONG = RNG.normal(size=40_000).astype(np.float32)
PLACES = RNG.integers(0, 50, 3000)


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    yield


def bits(f: Callable[..., Any], backend: str, *args: Any) -> list[bytes]:
    with functrax.backend(backend):
        leaves = functrax.tree.leaves(functrax.jit(lambda *a: f(*a))(*args))
        return [with_one_nan(np.asarray(x)).tobytes() for x in leaves]


def with_one_nan(x: Any) -> Any:
    """An array whose NaN are one: arithmetic of GPUs gives others than that of CPUs."""
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return np.where(np.isnan(x), np.array(np.nan, x.dtype), x)


SUMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "of rows": (lambda x: x.sum(1), (X,)),
    "of columns": (lambda x: x.sum(0), (X,)),
    "of all": (lambda x: x.sum(), (LONG,)),
    "running": (lambda x: jnp.cumsum(x), (LONG,)),
    "of products": (lambda x: x @ x.T, (X,)),
    "of a softmax": (lambda x: functrax.nn.softmax(jnp.tile(x, (1, 30))), (X,)),
    "at places": (lambda x: jnp.zeros(50).at[PLACES].add(x[:3000]), (LONG,)),
    "of segments": (lambda x: functrax.ops.segment_sum(x[:3000], PLACES, 50), (LONG,)),
    "of a gradient": (functrax.grad(lambda x: jnp.tanh(x @ x.T).sum()), (X,)),
    "of a window": (lambda x: jnp.convolve(x[:2000], x[:9]), (LONG,)),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_have_one_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, args = SUMS[name]
    found = set()
    for seed in (0, 0, 1, 2):
        monkeypatch.setattr(choice.table().owner, "block_seed", seed)
        found.add(tuple(bits(f, "cuda", *args)))
    assert len(found) == 1


def edges(dtype: Any) -> Any:
    special = [0.0, -0.0, np.inf, -np.inf, 1e-40, 1e30, 7e4, 1.0]
    with np.errstate(over="ignore"):
        return np.concatenate([special, RNG.normal(size=200) * 30]).astype(dtypes.as_dtype(dtype))


FUNCTIONS = (
    *("exp", "expm1", "log1p", "sin", "cos", "tan", "tanh", "sinh", "arctan", "sqrt", "cbrt"),
    *("floor", "rint", "square", "reciprocal", "negative", "sign", "exp2", "arcsinh"),
)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_functions_have_the_bits_of_the_cpu(dtype: str) -> None:
    if not target().has_fma:
        pytest.skip("this processor has no fused multiply-add")
    with functrax.enable_x64(), Override("strict", True):
        x = edges(dtype)

        def f(x: Any) -> Any:
            return [getattr(jnp, name)(x) for name in FUNCTIONS]

        for name, here, there in zip(FUNCTIONS, bits(f, "cuda", x), bits(f, "llvm", x)):
            assert here == there, name


EXACT: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: (x * 3 + 1) / (x - 2) - x * x,
    "integers": lambda x: [(x * 100).astype(np.int32) // 7, (x * 9).astype(np.int8) * 3],
    "extrema": lambda x: [x.max(1), x.min(0), jnp.argmax(x), jnp.argmin(x, 1)],
    "moves": lambda x: [x.T[::-1], jnp.roll(x, 3, 1), jnp.pad(x, 2), x[np.array([5, 0, 5])]],
    "orders": lambda x: [jnp.sort(x, 1), jnp.argsort(x, 0), lax.top_k(x, 5)],
    "sets": lambda x: x.at[jnp.array([3, 3, 1])].set(x[:3] * 2),
    "maxima at places": lambda x: x.at[jnp.array([3, 3, 1])].max(x[:3] * 2),
    "running maxima": lambda x: lax.cummax(x, 1),
    "counts": lambda x: [(x > 0).sum(1), jnp.cumsum(x > 0), jnp.count_nonzero(x)],
    "bits": lambda x: functrax.random.bits(functrax.random.key(3), x.shape),
    "normal": lambda x: functrax.random.normal(functrax.random.key(3), x.shape) + x,
    "choices": lambda x: functrax.random.permutation(functrax.random.key(1), x, axis=1),
    "narrow": lambda x: [x.astype(t).astype(np.float32) * 2 for t in ("float16", "bfloat16")],
    "complex": lambda x: (x + 1j) * (x - 2j) / (x * 1j + 3),
    "loop": lambda x: lax.fori_loop(0, 5, lambda i, c: c * 0.5 + i, x),
    "scan": lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c - r), x[0], x),
    "cond": lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
}


@pytest.mark.parametrize("name", EXACT)
def test_what_is_no_sum_has_the_bits_of_the_cpu(name: str) -> None:
    with Override("strict", True):
        assert bits(EXACT[name], "cuda", X) == bits(EXACT[name], "llvm", X)
