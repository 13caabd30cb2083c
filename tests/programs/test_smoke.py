"""Fifty small programs against NumPy: what to run where a machine, or an emulator, is new.

``scripts/emulate.sh`` runs them on emulated processors.  They need NumPy and pytest alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax, nn

_random: Final = np.random.default_rng(0)
X: Final = _random.normal(size=(24, 17)).astype(np.float32)
Y: Final = _random.normal(size=(17, 24)).astype(np.float32)
POSITIVE: Final = np.abs(X) + np.float32(0.5)
SQUARE: Final = (Y @ X / 17 + 3 * np.eye(17)).astype(np.float32)
VECTOR: Final = _random.normal(size=1000).astype(np.float32)
IMAGE: Final = _random.normal(size=(2, 3, 10, 9)).astype(np.float32)
FILTER: Final = _random.normal(size=(4, 3, 3, 3)).astype(np.float32)
INTEGERS: Final = _random.integers(-50, 50, (24, 17)).astype(np.int32)
PLACES: Final = _random.permutation(24)[:9].astype(np.int32)


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _convolved(x: Any, k: Any) -> Any:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, k)


def _with_rows(x: Any, places: Any, rows: Any, add: bool) -> Any:
    out = x.copy()
    if add:
        np.add.at(out, places, rows)
    else:
        out[places] = rows
    return out


def _linear_recurrence(x: Any) -> Any:
    out, carry = [], np.zeros_like(x[0])
    for row in x:
        carry = 0.5 * carry + row
        out.append(carry)
    return np.stack(out)


def _scan(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        carry = 0.5 * carry + row
        return carry, carry

    return lax.scan(step, jnp.zeros(x.shape[1], x.dtype), x)[1]


def _collatz(n: Any) -> Any:
    def step(state: Any) -> Any:
        n, count = state
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return lax.while_loop(lambda state: state[0] != 1, step, (n, 0))[1]


_erf: Final = np.vectorize(math.erf)
_lgamma: Final = np.vectorize(math.lgamma)

#: By name: the program, what it is in NumPy, and its arguments.
PROGRAMS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]]] = {
    # elementwise
    "arithmetic": (lambda x: (x * 2 + 1) / (x * x + 1), lambda x: (x * 2 + 1) / (x * x + 1), (X,)),
    "exp": (jnp.exp, np.exp, (X,)),
    "expm1": (jnp.expm1, np.expm1, (X,)),
    "log": (jnp.log, np.log, (POSITIVE,)),
    "log1p": (jnp.log1p, np.log1p, (POSITIVE,)),
    "sin": (jnp.sin, np.sin, (X * 100,)),
    "cos": (jnp.cos, np.cos, (X * 1e6,)),
    "tan": (jnp.tan, np.tan, (X,)),
    "tanh": (jnp.tanh, np.tanh, (X,)),
    "arctan2": (lambda x: jnp.arctan2(x, x[::-1]), lambda x: np.arctan2(x, x[::-1]), (X,)),
    "power": (lambda x: x**2.5, lambda x: x**2.5, (POSITIVE,)),
    "erf": (lax.erf, _erf, (X,)),
    "lgamma": (lax.lgamma, _lgamma, (POSITIVE,)),
    "sigmoid": (nn.sigmoid, lambda x: 1 / (1 + np.exp(-x)), (X,)),
    "remainder": (lambda x: x % 0.7, lambda x: x % np.float32(0.7), (POSITIVE,)),
    "where": (
        lambda x: jnp.where(x > 0, x, jnp.abs(x)),
        lambda x: np.where(x > 0, x, np.abs(x)),
        (X,),
    ),
    "integers": (
        lambda x: (x // 7, x % 7, x << 2, x ^ 5),
        lambda x: (x // 7, x % 7, x << 2, x ^ 5),
        (INTEGERS,),
    ),
    "float16": (
        lambda x: jnp.asarray(x, jnp.float16) * 2,
        lambda x: x.astype(np.float16) * np.float16(2),
        (X,),
    ),
    "complex": (
        lambda x: jnp.abs(jnp.exp(1j * x) + x),
        lambda x: np.abs(np.exp(np.complex64(1j) * x) + x),
        (X,),
    ),
    # reductions
    "sum": (jnp.sum, np.sum, (X,)),
    "sum of columns": (lambda x: x.sum(0), lambda x: x.sum(0), (X,)),
    "mean and variance": (
        lambda x: (x.mean(1), x.var(1)),
        lambda x: (x.mean(1), x.var(1)),
        (X,),
    ),
    "max": (lambda x: x.max(0), lambda x: x.max(0), (X,)),
    "argmin": (lambda x: jnp.argmin(x, 1), lambda x: np.argmin(x, 1), (X,)),
    "prod": (lambda x: jnp.prod(x, 1), lambda x: np.prod(x, 1), (POSITIVE,)),
    "any and all": (
        lambda x: ((x > 2).any(1), (x > -2).all(0)),
        lambda x: ((x > 2).any(1), (x > -2).all(0)),
        (X,),
    ),
    "softmax": (nn.softmax, _softmax, (X,)),
    "norm": (lambda x: jnp.linalg.norm(x, axis=1), lambda x: np.linalg.norm(x, axis=1), (X,)),
    # products
    "matrix product": (lambda x, y: x @ y, lambda x, y: x @ y, (X, Y)),
    "product with a vector": (lambda x: x @ x[0], lambda x: x @ x[0], (X,)),
    "einsum": (
        lambda x, y: jnp.einsum("ij,jk->ki", x, y),
        lambda x, y: np.einsum("ij,jk->ki", x, y),
        (X, Y),
    ),
    "outer product": (jnp.outer, np.outer, (X[0], X[1])),
    "convolution": (lambda x, k: lax.conv(x, k, (1, 1), "SAME"), _convolved, (IMAGE, FILTER)),
    "convolution of vectors": (
        lambda x: jnp.convolve(x, x[:9], "same"),
        lambda x: np.convolve(x, x[:9], "same"),
        (VECTOR,),
    ),
    # moves
    "transpose": (lambda x: x.T.reshape(3, -1), lambda x: x.T.reshape(3, -1), (X,)),
    "concatenate": (
        lambda x: jnp.concatenate([x[::2], x[1::3, ::-1]]),
        lambda x: np.concatenate([x[::2], x[1::3, ::-1]]),
        (X,),
    ),
    "pad and roll": (
        lambda x: jnp.roll(jnp.pad(x, 2), 5, 1),
        lambda x: np.roll(np.pad(x, 2), 5, 1),
        (X,),
    ),
    "gather": (lambda x, i: x[i], lambda x, i: x[i], (X, PLACES)),
    "scatter": (
        lambda x, i: x.at[i].set(x[:9]),
        lambda x, i: _with_rows(x, i, x[:9], add=False),
        (X, PLACES),
    ),
    "scatter of sums": (
        lambda x, i: x.at[i % 4].add(x[:9]),
        lambda x, i: _with_rows(x, i % 4, x[:9], add=True),
        (X, PLACES),
    ),
    # order
    "sort": (lambda x: jnp.sort(x, 0), lambda x: np.sort(x, 0), (X,)),
    "argsort": (jnp.argsort, np.argsort, (VECTOR,)),
    "cumsum": (lambda x: jnp.cumsum(x, 0), lambda x: np.cumsum(x, 0), (X,)),
    # loops
    "scan": (_scan, _linear_recurrence, (X,)),
    "fori_loop": (
        lambda x: lax.fori_loop(0, 5, lambda k, y: y * 0.5 + k, x),
        lambda x: x / 32 + sum(k * 0.5 ** (4 - k) for k in range(5)),
        (X,),
    ),
    "while_loop": (_collatz, lambda n: np.int32(111), (np.int32(27),)),
    "cond": (
        lambda x: lax.cond(x[0] > 1e9, jnp.sin, jnp.square, x),
        lambda x: x * x,
        (VECTOR,),
    ),
    "vmap": (
        functrax.vmap(lambda x, y: jnp.dot(x, y) + x),
        lambda x, y: (x * y).sum(1)[:, None] + x,
        (X, Y.T),
    ),
    # libraries
    "fft": (jnp.fft.fft, np.fft.fft, (VECTOR,)),
    "solve": (jnp.linalg.solve, np.linalg.solve, (SQUARE, X[:17, :2])),
    "cholesky": (
        lambda a: jnp.linalg.cholesky(a @ a.T),
        lambda a: np.linalg.cholesky(a @ a.T),
        (SQUARE,),
    ),
    "determinant": (jnp.linalg.det, np.linalg.det, (SQUARE,)),
    # derivatives
    "grad": (
        functrax.grad(lambda x: jnp.sum(jnp.sin(x) * x)),
        lambda x: np.cos(x) * x + np.sin(x),
        (X,),
    ),
    "grad of a product": (
        functrax.grad(lambda x, y: jnp.sum((x @ y) ** 2)),
        lambda x, y: 2 * (x @ y) @ y.T,
        (X, Y),
    ),
    "hessian": (
        functrax.hessian(lambda x: jnp.sum(x**3)),
        lambda x: np.diag(6 * x),
        (X[0],),
    ),
    "jvp": (
        lambda x: functrax.jvp(jnp.tanh, (x,), (x,))[1],
        lambda x: (1 - np.tanh(x) ** 2) * x,
        (X,),
    ),
}


def _wide(x: Any) -> Any:
    """Arguments for NumPy, which computes with more digits."""
    return x.astype(np.float64) if x.dtype == np.float32 else x


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("compiled", [True, False], ids=["jit", "eager"])
def test_a_program_gives_what_numpy_gives(name: str, compiled: bool) -> None:
    program, reference, args = PROGRAMS[name]
    exact = name in ("remainder", "float16")  # which differ where float64 rounds less
    want = reference(*(args if exact else [_wide(x) for x in args]))
    function = functrax.jit(program) if compiled else program
    got = function(*[jnp.asarray(x) for x in args])
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    assert len(got) == len(want)
    for found, expected in zip(got, want, strict=True):
        values = np.asarray(found)
        assert values.shape == np.shape(expected)
        np.testing.assert_allclose(values, expected, rtol=2e-4, atol=2e-4)


def test_there_are_enough_programs() -> None:
    assert len(PROGRAMS) >= 50
