"""``jvp``: values and directional derivatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.options.config import Override
from functrax.errors import ArgumentError, DTypeError, PyTreeError
from tests.transforms.numeric import DIRECTION, FUNCTIONS, POINT, directional


class Pair(NamedTuple):
    first: Any
    second: Any


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_agrees_with_finite_differences(function: Any) -> None:
    with functrax.enable_x64():
        x, v = jnp.asarray(POINT), jnp.asarray(DIRECTION)
        value, tangent = functrax.jvp(lambda x: function(jnp, x), (x,), (v,))
        np.testing.assert_allclose(np.asarray(value), function(np, POINT), rtol=1e-13)
        wanted = directional(lambda x: function(np, x), POINT, DIRECTION)
        np.testing.assert_allclose(np.asarray(tangent), wanted, rtol=1e-5, atol=1e-5)


def test_several_arguments_and_pytrees() -> None:
    def f(pair: Pair, options: dict[str, Any]) -> dict[str, Any]:
        return {"p": pair.first * options["k"], "q": [pair.second, None]}

    primals = (Pair(2.0, 3.0), {"k": 5.0})
    value, tangent = functrax.jvp(f, primals, (Pair(1.0, 0.5), {"k": 10.0}))
    assert float(value["p"]) == 10.0 and float(value["q"][0]) == 3.0 and value["q"][1] is None
    assert float(tangent["p"]) == 1.0 * 5.0 + 2.0 * 10.0
    assert float(tangent["q"][0]) == 0.5


def test_primals_may_be_a_list() -> None:
    value, tangent = functrax.jvp(lambda x, y: x * y, [2.0, 3.0], [1.0, 0.0])
    assert (float(value), float(tangent)) == (6.0, 3.0)


def test_result_that_does_not_depend_has_zero_tangent_of_its_type() -> None:
    value, tangent = functrax.jvp(lambda x: jnp.ones((2, 3)), (1.0,), (1.0,))
    assert value.shape == tangent.shape == (2, 3)
    assert tangent.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(tangent), np.zeros((2, 3)))


def test_integer_result_has_a_float0_tangent() -> None:
    _, tangent = functrax.jvp(lambda x: jnp.array([1, 2]), (1.0,), (1.0,))
    assert tangent.dtype == functrax.float0 and tangent.shape == (2,)


def test_integer_argument_takes_a_float0_tangent() -> None:
    zero = np.zeros((), functrax.float0)
    value, tangent = functrax.jvp(lambda x, n: x * n, (2.0, 3), (1.0, zero))
    assert (float(value), float(tangent)) == (6.0, 3.0)


def test_derivative_through_integers_is_cut() -> None:
    def f(x: Any) -> Any:
        return x.astype("int32").astype("float32") * x

    _, tangent = functrax.jvp(f, (jnp.array(2.5),), (jnp.array(1.0),))
    assert float(tangent) == 2.0


def test_stop_gradient() -> None:
    _, tangent = functrax.jvp(lambda x: lax.stop_gradient(x) * x, (3.0,), (1.0,))
    assert float(tangent) == 3.0


def test_has_aux_gives_primal_values() -> None:
    def f(x: Any) -> Any:
        return x * x, {"inner": x + 1.0, "name": "text"}

    value, tangent, aux = functrax.jvp(f, (3.0,), (1.0,), has_aux=True)
    assert (float(value), float(tangent)) == (9.0, 6.0)
    assert float(aux["inner"]) == 4.0 and aux["name"] == "text"
    assert float(aux["inner"] + 1.0) == 5.0  # a plain array, not a tracer


def test_perturbation_confusion() -> None:
    # d/dx x * (d/dy (x + y)) is 1: the inner derivative must not see the outer tangent.
    inner = lambda x: functrax.jvp(lambda y: x + y, (1.0,), (1.0,))[1]
    _, tangent = functrax.jvp(lambda x: x * inner(x), (1.0,), (1.0,))
    assert float(tangent) == 1.0


def test_nested_to_order_four() -> None:
    f: Any = lambda x: x**5
    for _ in range(4):
        f = (lambda g: lambda x: functrax.jvp(g, (x,), (1.0,))[1])(f)
    assert float(f(2.0)) == 5 * 4 * 3 * 2 * 2.0


@Override("strict", True)
def test_inside_jit_equals_eager_bit_for_bit() -> None:
    def f(x: Any) -> Any:
        return functrax.jvp(lambda x: jnp.sin(x) * jnp.exp(x), (x,), (x,))

    x = jnp.array([0.1, 0.7, 2.5])
    for eager, jitted in zip(f(x), functrax.jit(f)(x)):
        np.testing.assert_array_equal(np.asarray(eager), np.asarray(jitted))


@pytest.mark.parametrize(
    ("primals", "tangents", "error", "match"),
    [
        ((1.0,), (jnp.ones(2),), DTypeError, r"tangent\[0\] is f32\[2\]"),
        ((1.0,), (1,), DTypeError, "do not match"),
        ((1.0,), (1.0, 2.0), PyTreeError, "same tree structure"),
        (({"a": 1.0},), ({"b": 1.0},), PyTreeError, "same tree structure"),
        (1.0, (1.0,), ArgumentError, "found float and tuple"),
        ((1.0,), 1.0, ArgumentError, "found tuple and float"),
    ],
)
def test_refuses_what_does_not_fit(primals: Any, tangents: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        functrax.jvp(lambda x: x, primals, tangents)


def test_refuses_what_is_not_a_function() -> None:
    with pytest.raises(ArgumentError, match="jvp: the first argument is not a function"):
        functrax.jvp(3, (1.0,), (1.0,))  # type: ignore[arg-type]
