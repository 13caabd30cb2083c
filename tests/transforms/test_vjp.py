"""``vjp``: cotangents of everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.errors import DTypeError, PyTreeError, TangentError
from tests.transforms.numeric import FUNCTIONS, POINT, jacobian, weights


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_agrees_with_finite_differences(function: Any) -> None:
    with functrax.enable_x64():
        value, pull = functrax.vjp(lambda x: function(jnp, x), jnp.asarray(POINT))
        ct = weights(value.shape)
        (found,) = pull(jnp.asarray(ct))
        wanted = np.tensordot(ct, jacobian(lambda x: function(np, x), POINT), ct.ndim)
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)


def test_pull_may_be_called_again_and_under_transformations() -> None:
    _, pull = functrax.vjp(lambda x: jnp.sin(x) * x, jnp.array([1.0, 2.0]))
    once, again = pull(jnp.ones(2))[0], pull(jnp.ones(2))[0]
    np.testing.assert_array_equal(np.asarray(once), np.asarray(again))
    jitted = functrax.jit(pull)(jnp.ones(2))[0]
    np.testing.assert_array_equal(np.asarray(once), np.asarray(jitted))
    rows = functrax.vmap(pull)(jnp.asarray([[1.0, 0.0], [0.0, 1.0]]))[0]
    np.testing.assert_allclose(np.asarray(rows), np.diag(np.asarray(once)), rtol=1e-6)


def test_pull_is_differentiable_in_the_cotangent_and_in_the_point() -> None:
    def through(x: Any, ct: Any) -> Any:
        return functrax.vjp(lambda x: x**3, x)[1](ct)[0]

    by_point, by_ct = functrax.grad(through, (0, 1))(2.0, 5.0)
    assert float(by_point) == 6 * 2.0 * 5.0 and float(by_ct) == 3 * 4.0


def test_pytrees_in_and_out() -> None:
    def f(d: dict[str, Any], xs: list[Any]) -> tuple[Any, dict[str, Any]]:
        return d["a"] * xs[0], {"z": d["b"] + xs[1], "none": None}

    value, pull = functrax.vjp(f, {"a": 2.0, "b": 3.0}, [4.0, 5.0])
    assert float(value[0]) == 8.0 and float(value[1]["z"]) == 8.0
    d, xs = pull((1.0, {"z": 10.0, "none": None}))
    assert {k: float(v) for k, v in d.items()} == {"a": 4.0, "b": 10.0}
    assert [float(v) for v in xs] == [2.0, 10.0]


def test_unused_and_integer_arguments() -> None:
    _, pull = functrax.vjp(lambda x, unused, n: x * n, 2.0, jnp.ones((2, 2)), jnp.array([1, 2]))
    x, unused, n = pull(jnp.array([1.0, 1.0]))
    assert float(x) == 3.0
    np.testing.assert_array_equal(np.asarray(unused), np.zeros((2, 2)))
    assert n.dtype == functrax.float0 and n.shape == (2,)


def test_cotangents_of_integers_do_not_count() -> None:
    _, pull = functrax.vjp(lambda x: (x * 2, x.astype(int)), jnp.ones(2))
    for ct in (jnp.arange(2), jnp.ones(2), np.zeros(2, functrax.float0)):
        np.testing.assert_array_equal(np.asarray(pull((jnp.ones(2), ct))[0]), [2.0, 2.0])
    with pytest.raises(TangentError, match=r"cotangent\[1\] is ~?i32\[3\]"):
        pull((jnp.ones(2), jnp.arange(3)))


def test_cotangents_of_an_array_used_twice_are_added() -> None:
    _, pull = functrax.vjp(lambda x: (x, x, x * x), 3.0)
    assert float(pull((1.0, 10.0, 100.0))[0]) == 1.0 + 10.0 + 600.0


def test_same_array_given_twice_is_two_arguments() -> None:
    x = jnp.array(3.0)
    a, b = functrax.vjp(lambda x, y: x * x * y, x, x)[1](jnp.array(1.0))
    assert float(a) == 18.0 and float(b) == 9.0


def test_has_aux() -> None:
    value, pull, aux = functrax.vjp(lambda x: (x * x, [x + 1.0, "kept"]), 3.0, has_aux=True)
    assert float(value) == 9.0 and float(aux[0]) == 4.0 and aux[1] == "kept"
    assert float(pull(1.0)[0]) == 6.0


def test_complex_cotangents() -> None:
    # f(z) = z^2: the cotangent of z is ct * 2z, without conjugation, as in JAX.
    z = jnp.array(1.0 + 2.0j)
    _, pull = functrax.vjp(lambda z: z * z, z)
    assert complex(pull(jnp.array(1.0 - 1.0j))[0]) == (1.0 - 1.0j) * 2 * (1.0 + 2.0j)


def test_dtype_of_the_cotangent_is_that_of_the_argument() -> None:
    _, pull = functrax.vjp(lambda x: x.astype("float16") * 2, jnp.ones(3))
    assert pull(jnp.ones(3, "float16"))[0].dtype == np.float32


@pytest.mark.parametrize(
    ("ct", "error", "match"),
    [
        ((1.0,), PyTreeError, "unexpected tree structure"),
        ([1.0, jnp.ones(3)], DTypeError, r"cotangent\[1\] is f32\[3\], the value is f32\[2\]"),
        ([1, jnp.ones(2)], DTypeError, r"cotangent\[0\] is"),
    ],
)
def test_refuses_cotangents_that_do_not_fit(ct: Any, error: Any, match: str) -> None:
    _, pull = functrax.vjp(lambda x: [x, jnp.ones(2) * x], 1.0)
    with pytest.raises(error, match=match):
        pull(ct)


def test_tangents_of_another_type_are_type_errors_and_value_errors() -> None:
    x = jnp.arange(4.0)
    for kind in (TypeError, ValueError):
        with pytest.raises(kind, match="unexpected JAX type"):
            functrax.vjp(jnp.sin, x)[1](jnp.ones(3))
        with pytest.raises(kind, match="different primal and tangent shapes"):
            functrax.jvp(jnp.sin, (x,), (jnp.ones(3),))
