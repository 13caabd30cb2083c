"""vectorize, apply_along_axis, apply_over_axes and piecewise, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from tests.numpy.numpy_checks import agree

RNG = np.random.default_rng(7)
A = RNG.normal(size=(2, 1, 3)).astype("f4")
B = RNG.normal(size=(4, 3)).astype("f4")
C = RNG.normal(size=(5, 1, 3, 2)).astype("f4")
V = RNG.normal(size=3).astype("f4")

SIGNATURES: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("(n),(n)->()", lambda x, y: (x * y).sum(), (A, B)),
    ("(n),(n)->(n)", lambda x, y: x + y, (A, V)),
    ("(n),(n,m)->(m)", lambda x, y: x @ y, (A[0], C)),
    ("(n)->(),()", lambda x: (x.sum(), x[0]), (A,)),
    ("(n),()->(n)", lambda x, y: x * y, (B, np.float32(2))),
    ("(n)->(k)", lambda x: x[:2], (A,)),
]


@pytest.mark.parametrize(("signature", "function", "args"), SIGNATURES)
def test_signatures(signature: str, function: Any, args: tuple[Any, ...]) -> None:
    wanted = np.vectorize(function, signature=signature)(*args)
    mapped = jnp.vectorize(function, signature=signature)
    agree(mapped(*args), wanted)
    agree(functrax.jit(mapped)(*args), wanted)


def test_scalars_and_excluded_arguments() -> None:
    assert jnp.vectorize(lambda x, y: x * y)(A, B).shape == (2, 4, 3)
    ones = jnp.vectorize(lambda x, n: x * len(n), excluded={1})(V, [1, 2])
    np.testing.assert_allclose(ones, 2 * V)
    named = jnp.vectorize(lambda x, mode: x if mode == "same" else -x, excluded={"mode"})
    np.testing.assert_allclose(named(V, mode="other"), -V)
    both = jnp.vectorize(lambda x, y=2: x * y)
    np.testing.assert_allclose(both(V, y=V), V * V)
    assert jnp.vectorize(lambda x: x + 1)(3).shape == ()


def test_gradient_of_a_vectorized_function() -> None:
    square = jnp.vectorize(lambda x: jnp.sum(x * x), signature="(n)->()")
    np.testing.assert_allclose(functrax.grad(lambda x: square(x).sum())(jnp.asarray(B)), 2 * B)


@pytest.mark.parametrize(
    ("signature", "args", "kind", "text"),
    [
        ("(n->(n)", (V,), errors.ArgumentError, "cannot be read"),
        ("(n),(m)->(n)", (V,), errors.ArgumentError, "wrong number of positional"),
        ("(n)->(n)", (np.float32(1),), errors.ShapeError, "fewer axes"),
        ("(n)->()", (V,), errors.ShapeError, "does not match the signature"),
        ("(n)->(n),(n)", (V,), errors.ArgumentError, "output must be a tuple"),
    ],
)
def test_wrong_signatures(signature: str, args: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        jnp.vectorize(lambda x: x, signature=signature)(*args)


def test_core_axes_of_two_sizes() -> None:
    with pytest.raises(errors.ShapeError, match="inconsistent size for core dimension 'n'"):
        jnp.vectorize(lambda x, y: x, signature="(n),(n)->(n)")(V, V[:2])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_apply_along_axis(axis: int) -> None:
    for function in (lambda x: x.sum(), lambda x: x[::-1], lambda x: x[:, None] * x):
        wanted = np.apply_along_axis(function, axis, A)
        agree(jnp.apply_along_axis(function, axis, A), wanted)
        traced = functrax.jit(lambda x, f=function: jnp.apply_along_axis(f, axis, x))
        agree(traced(A), wanted)


def test_apply_over_axes() -> None:
    agree(jnp.apply_over_axes(jnp.sum, A, [0, 2]), np.apply_over_axes(np.sum, A, [0, 2]))
    agree(jnp.apply_over_axes(jnp.cumsum, A, 2), np.apply_over_axes(np.cumsum, A, 2))
    with pytest.raises(errors.ShapeError, match="removed more"):
        jnp.apply_over_axes(lambda x, axis: x.sum(), A, [0])


def test_piecewise() -> None:
    conditions, functions = [V < 0, V > 0.5], [lambda x: -x, lambda x: x * x, 7.0]
    agree(jnp.piecewise(V, conditions, functions), np.piecewise(V, conditions, functions))
    agree(jnp.piecewise(V, V > 0, [3]), np.piecewise(V, V > 0, [3]))
    scaled = functrax.jit(lambda x: jnp.piecewise(x, [x < 0], [lambda x, k: k * x, 1], k=4))
    agree(scaled(V), np.where(V < 0, 4 * V, 1))
    slope = functrax.grad(lambda x: jnp.piecewise(x, [x < 0], [lambda x: -x, lambda x: x * x]))
    assert (slope(-2.0), slope(3.0)) == (-1.0, 6.0)
    with pytest.raises(errors.ArgumentError, match="piecewise"):
        jnp.piecewise(V, [V < 0], [1, 2, 3])


def test_vectorize_hands_none_on():
    def added(x, y):
        return x if y is None else x + y

    x = jnp.arange(4)
    assert jnp.vectorize(added)(x, None).tolist() == [0, 1, 2, 3]
    assert jnp.vectorize(added)(x, y=None).tolist() == [0, 1, 2, 3]
    assert jnp.vectorize(added)(x, x).tolist() == [0, 2, 4, 6]
    rows = jnp.vectorize(added, signature="(k),()->(k)")
    assert rows(jnp.ones((2, 3)), None).shape == (2, 3)
    with pytest.raises(ValueError, match="Cannot pass None"):
        jnp.vectorize(added, signature="(k),(k)->(k)")(x, None)
    with pytest.raises(TypeError, match="can only exclude"):
        jnp.vectorize(added, excluded={1.5})
