"""``vmap``: against loops of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.errors import ArgumentError, AxisError, DTypeError, PyTreeError, ShapeError
from tests.transforms.numeric import FUNCTIONS, POINT

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
Y = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4) / 7


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_agrees_with_a_loop(function: Any) -> None:
    rows = np.stack([POINT, POINT[::-1], 0.5 * POINT + 0.1])
    with functrax.enable_x64():
        found = functrax.vmap(lambda x: function(jnp, x))(rows)
    wanted = np.stack([function(np, row) for row in rows])
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-13)


@pytest.mark.parametrize("in_axis", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("out_axis", [0, 1, -1, -2])
def test_axes(in_axis: int, out_axis: int) -> None:
    found = functrax.vmap(lambda m: jnp.sin(m[0]) * m[-1], in_axis, out_axis)(Y)
    moved = np.moveaxis(Y, in_axis, 0)
    wanted = np.stack([np.sin(m[0]) * m[-1] for m in moved], axis=out_axis)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)


def test_none_in_axes_gives_every_element_the_same() -> None:
    found = functrax.vmap(lambda x, y: x * y, in_axes=(None, 0))(X[0], X)
    np.testing.assert_array_equal(np.asarray(found), X[0] * X)
    found = functrax.vmap(lambda x, y: x - y, in_axes=[1, None])(X, 2.0)
    np.testing.assert_array_equal(np.asarray(found), X.T - 2.0)


def test_pytree_prefixes() -> None:
    def f(d: Any, pair: Any) -> Any:
        return {"s": d["a"] + d["b"][0] * pair[0], "t": pair[1]}

    args = ({"a": X, "b": (X.T, None)}, (3.0, X))
    axes = ({"a": 0, "b": 1}, (None, 0))
    found = functrax.vmap(f, in_axes=axes, out_axes={"s": 1, "t": 0})(*args)
    np.testing.assert_array_equal(np.asarray(found["s"]), (X + X * 3.0).T)
    np.testing.assert_array_equal(np.asarray(found["t"]), X)


def test_keyword_arguments_are_mapped_along_axis_0() -> None:
    found = functrax.vmap(lambda x, *, y: x + y["k"], in_axes=1)(X.T, y={"k": X})
    np.testing.assert_array_equal(np.asarray(found), 2 * X)


def test_axis_size() -> None:
    found = functrax.vmap(lambda: jnp.ones(2), axis_size=3)()
    np.testing.assert_array_equal(np.asarray(found), np.ones((3, 2)))
    found = functrax.vmap(lambda x: x * 2, in_axes=None, axis_size=3)(1.5)
    np.testing.assert_array_equal(np.asarray(found), [3.0, 3.0, 3.0])
    assert functrax.vmap(lambda x: x, axis_size=3)(X).shape == (3, 4)


def test_unbatched_results() -> None:
    a, b, c = functrax.vmap(lambda x: (x, 7, jnp.ones(2)), out_axes=(0, 0, 1))(X)
    np.testing.assert_array_equal(np.asarray(b), [7, 7, 7])
    assert c.shape == (2, 3)
    a, b = functrax.vmap(lambda x: (x, jnp.arange(2)), out_axes=(0, None))(X)
    assert b.shape == (2,) and a.shape == (3, 4)


def test_results_none_empty_and_nested() -> None:
    out = functrax.vmap(lambda x: {"none": None, "empty": (), "x": [x]})(X)
    assert out["none"] is None and out["empty"] == ()
    np.testing.assert_array_equal(np.asarray(out["x"][0]), X)
    assert functrax.vmap(lambda x: None)(X) is None


def test_nested() -> None:
    outer = functrax.vmap(functrax.vmap(jnp.dot, (None, 0)), (0, None))
    np.testing.assert_allclose(np.asarray(outer(X, X)), X @ X.T, rtol=1e-6)
    thrice = functrax.vmap(functrax.vmap(functrax.vmap(lambda x: x * x + 1, -1, -1), 1), -1)
    wanted = (Y * Y + 1).transpose(2, 1, 0)
    np.testing.assert_allclose(np.asarray(thrice(Y)), wanted.transpose(0, 1, 2), rtol=1e-6)


def test_size_0_and_1() -> None:
    assert functrax.vmap(lambda x: jnp.sum(jnp.sin(x)))(jnp.ones((0, 3))).shape == (0,)
    assert functrax.vmap(functrax.grad(lambda x: x * x))(jnp.ones(0)).shape == (0,)
    assert functrax.vmap(lambda x: x)(jnp.ones((1, 3))).shape == (1, 3)


def test_vmap_of_jit_is_traced_once_per_element_type() -> None:
    traced: list[Any] = []

    @functrax.jit
    def f(x: Any) -> Any:
        traced.append(x.shape)
        return jnp.sin(x)

    found = functrax.vmap(f)(X)
    np.testing.assert_allclose(np.asarray(found), np.sin(X), rtol=1e-6)
    functrax.vmap(f)(X[:2])
    assert traced == [(4,)]


def test_vmap_of_grad_and_jacobian() -> None:
    f = lambda x: jnp.sum(x**3)
    for g in (functrax.vmap(functrax.grad(f)), functrax.jit(functrax.vmap(functrax.grad(f)))):
        np.testing.assert_allclose(np.asarray(g(X)), 3 * X**2, rtol=1e-6)
    for jacobian in (functrax.jacfwd, functrax.jacrev):
        found = functrax.vmap(jacobian(lambda x: x * x))(X)
        wanted = np.stack([np.diag(2 * row) for row in X])
        np.testing.assert_array_equal(np.asarray(found), wanted)


def test_grad_of_vmap_with_unmapped_argument() -> None:
    def loss(w: Any, x: Any) -> Any:
        return jnp.sum(functrax.vmap(lambda w, x: w @ x, (None, 0))(w, x) ** 2)

    w = np.array([1.0, -1.0, 0.5, 2.0], np.float32)
    found = functrax.grad(loss)(w, X)
    np.testing.assert_allclose(np.asarray(found), 2 * X.T @ (X @ w), rtol=1e-5)


def test_closure_over_outer_batch() -> None:
    f = lambda x: functrax.vmap(lambda y: x * y + jnp.sum(x))(jnp.arange(2.0))
    found = functrax.vmap(f)(jnp.array([1.0, 10.0]))
    np.testing.assert_array_equal(np.asarray(found), [[1.0, 2.0], [10.0, 20.0]])


def test_indexing_by_mapped_integers() -> None:
    table = np.arange(20.0, dtype=np.float32).reshape(5, 4)
    index = np.array([4, 0, 2])
    found = functrax.vmap(lambda i: jnp.asarray(table)[i])(index)
    np.testing.assert_array_equal(np.asarray(found), table[index])
    found = functrax.vmap(lambda row, i: row[i], (0, 0))(table[:3], np.array([1, 3, 0]))
    np.testing.assert_array_equal(np.asarray(found), [1.0, 7.0, 8.0])
    found = functrax.vmap(lambda row, i: row.at[i].set(-1.0))(table[:2], np.array([1, 3]))
    wanted = table[:2].copy()
    wanted[0, 1] = wanted[1, 3] = -1
    np.testing.assert_array_equal(np.asarray(found), wanted)


def test_value_dependent_python_control_flow_is_refused() -> None:
    with pytest.raises(functrax.errors.TracerBoolConversionError, match="while tracing clip"):

        def clip(x: Any) -> Any:
            return x if x > 0 else -x

        functrax.vmap(clip)(jnp.ones(3))


@pytest.mark.parametrize(
    ("options", "args", "error", "match"),
    [
        ({}, (X, X.T), ShapeError, r"size 3: axis 0 of .*0.* float32\[3,4\];\n.*size 4: axis 0 of"),
        ({"axis_size": 5}, (X,), ShapeError, "`axis_size` argument was 5;"),
        ({}, (), ArgumentError, "at least one argument"),
        ({"in_axes": (None,)}, (X,), ArgumentError, "at least one non-None value"),
        ({"in_axes": 2}, (X,), AxisError, "rank should be at least 3, but is only 2"),
        ({}, (1.0,), AxisError, "in_axes=None for what is not mapped"),
        ({"in_axes": (0, 0)}, (X,), ArgumentError, r"len\(in_axes\)=2, len\(args\)=1"),
        (
            {"in_axes": ({"a": 0},)},
            ({"b": X},),
            PyTreeError,
            "must be a tree prefix",
        ),
        ({"in_axes": (0.5,)}, (X,), ArgumentError, "in_axes must be an int, None"),
        ({"in_axes": "0"}, (X,), ArgumentError, "in_axes must be an int, None"),
        ({"out_axes": 3}, (X,), AxisError, "axis 3 is out of bounds"),
        ({"out_axes": None}, (X,), ArgumentError, "has mapped output .* but out_axes is None"),
        ({"out_axes": (0, 0)}, (X,), PyTreeError, "must be a tree prefix"),
        ({}, ("text",), DTypeError, "not an array"),
    ],
)
def test_refusals(options: Any, args: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        functrax.vmap(lambda *xs: xs[0], **options)(*args)


def test_mismatched_pytree_leaf_is_named() -> None:
    with pytest.raises(ShapeError, match=r"\['b'\]\[0\]"):
        functrax.vmap(lambda d: d["a"])({"a": X, "b": [X.T]})


def test_arguments_that_are_not_mapped_may_be_anything() -> None:
    x = jnp.arange(3.0)
    out = functrax.vmap(lambda x, f, n: f(x) * n, in_axes=(0, None, None))(x, jnp.sin, 2)
    assert np.allclose(out, 2 * np.sin(np.arange(3)))
    inside = functrax.jit(lambda x: functrax.vmap(lambda a, by: by(a) + x[0], (0, None))(x, abs))
    assert inside(x).tolist() == [0, 1, 2]
    with pytest.raises(DTypeError, match="not an array or a scalar"):
        functrax.vmap(lambda x, f: f(x))(x, jnp.sin)
    tree = functrax.vmap(lambda x: ("doubled", 2 * x, None), out_axes=(None, 0, None))(x)
    assert tree[0] == "doubled" and tree[1].tolist() == [0, 2, 4] and tree[2] is None
    with pytest.raises(DTypeError, match="is not an array or a scalar"):
        functrax.vmap(lambda x: (x, "doubled"))(x)
    with pytest.raises(ShapeError, match="inconsistent sizes"):
        functrax.vmap(lambda x, f, y: f(x), in_axes=(0, None, 0))(x, abs, x[:2])


def test_numbers_that_are_not_mapped_are_given_as_they_are():
    """So they can be static arguments of a jitted function, and shapes."""
    repeated = functrax.jit(lambda x, n: jnp.full(n, x), static_argnums=1)
    out = functrax.vmap(repeated, in_axes=(0, None))(jnp.arange(3.0), 2)
    np.testing.assert_array_equal(out, [[0, 0], [1, 1], [2, 2]])
    seen = []

    def f(x, pair, a):
        seen.append((type(pair["n"]), type(a)))
        return x * pair["n"] + a.sum()

    np.testing.assert_array_equal(
        functrax.vmap(f, in_axes=(0, {"n": None}, None))(np.arange(2.0), {"n": 3}, np.ones(4)),
        [4.0, 7.0],
    )
    assert seen == [(int, np.ndarray)]
    with pytest.raises(ValueError, match="at least one non-None"):
        functrax.vmap(f, in_axes=(None, None, None))(1.0, {"n": 3}, np.ones(4))
