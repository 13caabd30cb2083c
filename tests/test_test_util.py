"""``check_grads`` accepts right derivatives and tells of wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.errors import ArgumentError
from functrax.test_util import check_grads, check_jvp, check_vjp

X = np.linspace(-1, 1, 3, dtype=np.float32)


@pytest.mark.parametrize(
    ("function", "args", "order"),
    [
        (lambda x, y: {"a": x * jnp.sin(y), "b": (x**2).sum()}, (X, X + 1), 2),
        (lambda z: jnp.sin(z) * z, (np.array([1 + 2j, 0.3], np.complex64),), 2),
        (lambda x, i: x[i] ** 2, (X, 1), 2),
        (lambda x: jnp.asarray(x).astype("bfloat16") * 2, (X[:1],), 1),
    ],
)
def test_right_derivatives(function: Any, args: Any, order: int) -> None:
    check_grads(function, args, order)


def test_double_precision() -> None:
    with functrax.enable_x64():
        check_grads(jnp.linalg.inv, (np.eye(2) * 2 + 0.1,), 2, atol=1e-7, rtol=1e-7)


def test_tolerances_by_dtype() -> None:
    def off(by: float) -> Any:
        @functrax.custom_jvp
        def f(x: Any) -> Any:
            return x**2

        f.defjvps(lambda t, value, x: (2 + by) * x * t)
        return f

    check_grads(off(0.5), (X,), 1, atol={np.float32: 2.0}, rtol={jnp.bfloat16: 0.1})
    check_grads(off(0.01), (X,), 1, atol={np.float64: 0.0})  # float32 has its default
    with pytest.raises(AssertionError, match="the tangent"):
        check_grads(off(0.01), (X,), 1, ("fwd",), {np.float32: 1e-3}, {"float32": 1e-3})


def test_values_that_are_infinite() -> None:
    check_grads(lambda x: jnp.stack([x, jnp.maximum(x, jnp.inf)]), (X,), 2)
    check_grads(lambda x: jnp.where(x > 0, x, -jnp.inf), (X[2],), 2)


def test_wrong_derivatives() -> None:
    @functrax.custom_jvp
    def wrong(x: Any) -> Any:
        return x**2

    wrong.defjvps(lambda t, value, x: 3 * x * t)
    for mode, said in (("fwd", "jvp of wrong: the tangent"), ("rev", "vjp of wrong")):
        with pytest.raises(AssertionError, match=said):
            check_grads(wrong, (1.0,), order=1, modes=(mode,))

    def square(x: Any) -> Any:
        return x**2

    check_jvp(square, lambda p, t: functrax.jvp(square, p, t), (X,))
    check_vjp(square, lambda *p: functrax.vjp(square, *p), (X,))
    with pytest.raises(AssertionError, match="the value"):
        check_jvp(jnp.sin, lambda p, t: functrax.jvp(jnp.cos, p, t), (X,))
    with pytest.raises(ArgumentError, match="unknown mode"):
        check_grads(square, (X,), 1, modes=("both",))
