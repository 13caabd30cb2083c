"""Collectives over the named axes of ``vmap``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.errors import ArgumentError, AxisError, AxisNameError, ShapeError

X = np.array([1.0, 5.0, 3.0], np.float32)
M = np.array([[1.0, 2.0], [8.0, 4.0], [5.0, 9.0]], np.float32)


def over_i(f: Any) -> Any:
    return functrax.vmap(f, axis_name="i")


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    ("collective", "wanted"),
    [(lax.psum, 9.0), (lax.pmean, 3.0), (lax.pmax, 5.0), (lax.pmin, 1.0)],
)
def test_reductions(collective: Any, wanted: float, jit: bool) -> None:
    f = over_i(lambda x: collective(x, "i"))
    found = (functrax.jit(f) if jit else f)(X)
    np.testing.assert_array_equal(np.asarray(found), [wanted] * 3)
    single = functrax.vmap(lambda x: collective(x, "i"), axis_name="i", out_axes=None)(X)
    assert single.shape == () and float(single) == wanted


def test_pytrees_integers_booleans_and_python_numbers() -> None:
    def f(x: Any) -> Any:
        tree = {"x": x, "n": x.astype("int32"), "b": x > 2.0, "one": 1}
        return lax.psum(tree, "i"), jnp.asarray(lax.psum(2, "i"))

    tree, six = over_i(f)(X)
    found = {k: np.asarray(v)[0] for k, v in tree.items()}
    assert found == {"x": 9.0, "n": 9, "b": 2, "one": 3} and int(six[0]) == 6
    assert tree["n"].dtype == tree["b"].dtype == np.int32


def test_python_number_is_known_while_tracing() -> None:
    def f(x: Any) -> Any:
        assert lax.psum(1, "i") == 3 and isinstance(lax.psum(1, "i"), int)
        assert lax.axis_size("i") == 3
        return x

    functrax.jit(over_i(f))(X)


def test_axis_index() -> None:
    found = over_i(lambda x: lax.axis_index("i"))(X)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(np.asarray(found), [0, 1, 2])
    found = over_i(lambda x: lax.axis_index("i") * 10)(X)
    np.testing.assert_array_equal(np.asarray(found), [0, 10, 20])


def test_all_gather() -> None:
    found = over_i(lambda x: lax.all_gather(x, "i"))(X)
    np.testing.assert_array_equal(np.asarray(found), [X, X, X])
    along_1 = over_i(lambda x: lax.all_gather(x, "i", axis=1))(M)
    np.testing.assert_array_equal(np.asarray(along_1), [M.T, M.T, M.T])
    tiled = over_i(lambda x: lax.all_gather(x, "i", tiled=True))(M)
    np.testing.assert_array_equal(np.asarray(tiled), [M.reshape(-1)] * 3)
    same = over_i(lambda x: lax.all_gather(jnp.array(7.0), "i"))(X)
    np.testing.assert_array_equal(np.asarray(same), np.full((3, 3), 7.0))


def test_ppermute() -> None:
    found = over_i(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]))(M)
    np.testing.assert_array_equal(np.asarray(found), [[0.0, 0.0], M[0], M[1]])
    ring = over_i(lambda x: lax.ppermute(x, "i", [(i, (i + 1) % 3) for i in range(3)]))(X)
    np.testing.assert_array_equal(np.asarray(ring), np.roll(X, 1))


def test_nested_named_axes() -> None:
    a = np.arange(6.0, dtype=np.float32).reshape(2, 3)

    def each(x: Any) -> Any:
        return (
            x - lax.psum(x, "j"),
            lax.psum(x, "i"),
            lax.pmax(x, ("i", "j")),
            lax.axis_index(("i", "j")),
            lax.all_gather(x, "i"),
            lax.all_gather(x, "j"),
        )

    f = functrax.vmap(functrax.vmap(each, axis_name="j"), axis_name="i")
    for g in (f, functrax.jit(f)):
        rows, columns, largest, index, by_i, by_j = map(np.asarray, g(a))
        np.testing.assert_array_equal(rows, a - a.sum(1, keepdims=True))
        np.testing.assert_array_equal(columns, np.broadcast_to(a.sum(0), (2, 3)))
        np.testing.assert_array_equal(largest, np.full((2, 3), 5.0))
        np.testing.assert_array_equal(index, np.arange(6).reshape(2, 3))
        np.testing.assert_array_equal(by_i, np.broadcast_to(a.T, (2, 3, 2)))
        np.testing.assert_array_equal(by_j, np.broadcast_to(a[:, None], (2, 3, 3)))


def test_an_inner_axis_hides_an_outer_one_of_the_same_name() -> None:
    a = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    f = functrax.vmap(over_i(lambda x: lax.psum(x, "i")), axis_name="i")
    wanted = np.broadcast_to(a.sum(1, keepdims=True), (2, 3))
    for g in (f, functrax.jit(f), functrax.vmap(functrax.jit(over_i(lambda x: lax.psum(x, "i"))))):
        np.testing.assert_array_equal(np.asarray(g(a)), wanted)


def test_collective_inside_jit_inside_vmap_is_retraced_for_another_size() -> None:
    inner = functrax.jit(lambda x: x / lax.psum(1, "i") + lax.all_gather(x, "i")[-1])
    found = over_i(inner)(X)
    np.testing.assert_allclose(np.asarray(found), X / 3 + 3.0, rtol=1e-6)
    found = over_i(inner)(X[:2])
    np.testing.assert_allclose(np.asarray(found), X[:2] / 2 + 5.0, rtol=1e-6)


def test_unnamed_vmap_inside_a_named_one() -> None:
    f = over_i(lambda row: functrax.vmap(lambda x: lax.psum(x, "i"))(row))
    np.testing.assert_array_equal(np.asarray(f(M)), np.broadcast_to(M.sum(0), (3, 2)))
    g = functrax.vmap(over_i(lambda x: lax.all_gather(x, "i")), in_axes=1, out_axes=-1)
    np.testing.assert_array_equal(np.asarray(g(M)), np.broadcast_to(M, (3, 3, 2)))


# Derivatives. Outside of vmap the function is an ordinary one of the whole batch, so explicit
# formulas hold. Inside, each element's cotangent is 1 and psum sums the cotangents of all elements.


def check_gradient(f: Any, x: np.ndarray, wanted: np.ndarray) -> None:
    for g in (functrax.grad(f), functrax.jit(functrax.grad(functrax.jit(f)))):
        np.testing.assert_allclose(np.asarray(g(x)), wanted, rtol=1e-5)


W = np.array([1.0, 10.0, 100.0], np.float32)


def test_derivatives_from_outside() -> None:
    def weighted(f: Any) -> Any:
        return lambda x: jnp.sum(over_i(f)(x) * W)

    check_gradient(weighted(lambda x: lax.psum(x * x, "i")), X, 111 * 2 * X)
    check_gradient(weighted(lambda x: lax.pmean(x, "i")), X, np.full(3, 37.0))
    check_gradient(weighted(lambda x: x * lax.psum(x, "i")), X, W * X.sum() + (W * X).sum())
    check_gradient(weighted(lambda x: lax.pmax(x, "i")), X, np.array([0.0, 111.0, 0.0]))
    check_gradient(weighted(lambda x: lax.pmin(x, "i")), X, np.array([111.0, 0.0, 0.0]))
    shift = [(0, 1), (1, 2), (2, 0)]
    check_gradient(weighted(lambda x: lax.ppermute(x, "i", shift)), X, np.array([10.0, 100.0, 1.0]))
    gathered = weighted(lambda x: jnp.sum(lax.all_gather(x, "i") * jnp.arange(3.0)))
    check_gradient(gathered, X, 111 * np.arange(3.0))
    index = weighted(lambda x: x * lax.axis_index("i").astype("float32"))
    check_gradient(index, X, W * np.arange(3.0))


def test_ties_of_pmax_share_the_cotangent() -> None:
    x = np.array([2.0, 1.0, 2.0], np.float32)
    check_gradient(lambda x: jnp.sum(over_i(lambda x: lax.pmax(x, "i"))(x)), x, [1.5, 0.0, 1.5])


def test_derivatives_from_inside() -> None:
    inside = over_i(functrax.grad(lambda x: lax.psum(x * x, "i")))
    np.testing.assert_allclose(np.asarray(inside(X)), 3 * 2 * X, rtol=1e-6)
    inside = over_i(functrax.grad(lambda x: lax.pmean(x * x, "i")))
    np.testing.assert_allclose(np.asarray(functrax.jit(inside)(X)), 2 * X, rtol=1e-6)
    forward = over_i(lambda x: functrax.jvp(lambda x: lax.psum(x * x, "i"), (x,), (x,))[1])
    np.testing.assert_allclose(np.asarray(forward(X)), [2 * (X * X).sum()] * 3, rtol=1e-6)
    gather = over_i(functrax.grad(lambda m: jnp.sum(lax.all_gather(m, "i")[0])))
    np.testing.assert_allclose(np.asarray(gather(M)), [[3.0, 3.0], [0.0, 0.0], [0.0, 0.0]])


def test_second_derivatives() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(over_i(lambda x: x * lax.psum(x**2, "i"))(x))

    # f = s1 s2; H = 2 (x_i + x_j) + 2 s1 on the diagonal
    wanted = 2 * (X[:, None] + X[None, :]) + 2 * X.sum() * np.eye(3)
    for hessian in (functrax.hessian(f), functrax.jit(functrax.jacrev(functrax.jacrev(f)))):
        np.testing.assert_allclose(np.asarray(hessian(X)), wanted, rtol=1e-5)


def test_normalisation_layer_with_gradients_inside_checkpoint() -> None:
    @functrax.checkpoint
    def norm(x: Any) -> Any:
        centred = x - lax.pmean(x, "i")
        return centred / jnp.sqrt(lax.pmean(centred**2, "i") + 1.0)

    def loss(x: Any) -> Any:
        return jnp.sum(over_i(norm)(x) * W)

    def reference(x: np.ndarray) -> float:
        c = x - x.mean()
        return float((c / np.sqrt((c * c).mean() + 1.0) * W).sum())

    x = X.astype(np.float64)
    step = 1e-6
    wanted = [(reference(x + step * e) - reference(x - step * e)) / (2 * step) for e in np.eye(3)]
    with functrax.enable_x64():
        check_gradient(loss, x, np.array(wanted))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: lax.psum(x, "k"),
        lambda x: lax.pmean(x, "k"),
        lambda x: lax.psum(1, "k"),
        lambda x: lax.axis_index("k"),
        lambda x: lax.all_gather(x, "k"),
        lambda x: lax.ppermute(x, "k", [(0, 1)]),
    ],
)
def test_unbound_names(call: Any) -> None:
    with pytest.raises(AxisNameError, match=r"axis name 'k' is not bound(.|\n)*names: 'i'") as info:
        over_i(call)(X)
    assert isinstance(info.value, NameError)
    with pytest.raises(AxisNameError, match="names: none"):
        functrax.jit(call)(1.0)


def test_names_are_unbound_again_after_an_exception() -> None:
    def broken(x: Any) -> Any:
        raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        over_i(broken)(X)
    with pytest.raises(AxisNameError, match="names: none"):
        lax.psum(1.0, "i")


def test_other_refusals() -> None:
    with pytest.raises(ArgumentError, match="at most once"):
        over_i(lambda x: lax.ppermute(x, "i", [(0, 1), (2, 1)]))(X)
    with pytest.raises(ArgumentError, match="at most once"):
        over_i(lambda x: lax.ppermute(x, "i", [(0, 3)]))(X)
    with pytest.raises(ArgumentError, match="axis_index_groups is not supported"):
        over_i(lambda x: lax.psum(x, "i", axis_index_groups=[[0], [1, 2]]))(X)


def test_make_jaxpr_with_axis_env() -> None:
    closed = functrax.make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 4)])(1.0)
    (eqn,) = closed.eqns
    assert eqn.primitive.name == "psum" and eqn.params == {"axis_name": "i"}
    assert ("axis", "i") in closed.effects


PARTS = np.arange(36, dtype=np.int32).reshape(3, 6, 2)


def _exchange(f: Any) -> Any:
    return np.asarray(functrax.vmap(f, axis_name="i")(PARTS))


def test_all_to_all_swaps_the_axis() -> None:
    swapped = _exchange(lambda x: lax.all_to_all(x[:3], "i", 0, 1))
    np.testing.assert_array_equal(swapped, PARTS[:, :3].transpose(1, 2, 0))
    np.testing.assert_array_equal(
        _exchange(lambda x: lax.pswapaxes(x[:3], "i", 0)), PARTS[:, :3].swapaxes(0, 1)
    )
    tiled = _exchange(lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True))
    parts = PARTS.reshape(3, 3, 2, 2)
    np.testing.assert_array_equal(tiled, parts.transpose(1, 2, 0, 3).reshape(3, 2, 6))


@pytest.mark.parametrize("split", [0, 1])
def test_exchanges_along_several_names_count_row_major(split: int) -> None:
    x = np.arange(64, dtype=np.int32).reshape(2, 2, 4, 4)

    def both(f: Any) -> Any:
        return functrax.vmap(functrax.vmap(f, axis_name="j"), axis_name="i")(x)

    got = both(lambda v: lax.all_to_all(v, ("i", "j"), split, 0))
    flat = x.reshape(4, 4, 4)
    np.testing.assert_array_equal(
        np.reshape(got, (4, 4, 4)), np.moveaxis(flat, (0, split + 1), (1, 0))
    )
    gathered = both(lambda v: lax.all_gather(v, ("i", "j")))
    np.testing.assert_array_equal(gathered[1, 0], flat)
    tiled = both(lambda v: lax.all_gather(v, ("i", "j"), axis=1, tiled=True))
    np.testing.assert_array_equal(tiled[0, 1], np.concatenate(list(flat), 1))


def test_psum_scatter_gives_each_element_its_part() -> None:
    tiled = _exchange(lambda x: lax.psum_scatter(x, "i", tiled=True))
    np.testing.assert_array_equal(tiled, PARTS.sum(0).reshape(3, 2, 2))
    rows = _exchange(lambda x: lax.psum_scatter(x.T[:, :3], "i", scatter_dimension=1))
    np.testing.assert_array_equal(rows, PARTS.sum(0)[:3])


def test_pshuffle_and_pbroadcast() -> None:
    shuffled = _exchange(lambda x: lax.pshuffle(x, "i", [2, 0, 1]))
    np.testing.assert_array_equal(shuffled, PARTS[[2, 0, 1]])
    np.testing.assert_array_equal(
        _exchange(lambda x: lax.pbroadcast(x, "i", 1)), np.stack([PARTS[1]] * 3)
    )


def test_exchanges_are_differentiated() -> None:
    x = np.arange(9.0, dtype=np.float32).reshape(3, 3)
    w = np.arange(9.0, dtype=np.float32).reshape(3, 3) ** 2
    f = functrax.vmap(lambda r: lax.all_to_all(r, "i", 0, 0), axis_name="i")
    np.testing.assert_array_equal(functrax.grad(lambda x: (f(x) * w).sum())(x), w.T)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: lax.all_to_all(x, "i", 1, 0), ShapeError, "a part for each element"),
        (lambda x: lax.psum_scatter(x, "i", scatter_dimension=5), AxisError, "out of range"),
        (
            lambda x: lax.all_to_all(x[:3], "i", 0, 7),
            AxisError,
            "all_to_all: axis 7 is out of range",
        ),
        (lambda x: lax.all_to_all(x, "i", 7, 0), AxisError, "all_to_all: axis 7 is out of range"),
        (lambda x: lax.all_gather(x, "i", axis=7), AxisError, "all_gather: axis 7 is out of"),
        (lambda x: lax.all_gather(x, "i", axis=2, tiled=True), AxisError, "axis 2 is out of"),
        (lambda x: lax.all_gather(x, "i", axis=-4), AxisError, "axis -4 is out of range"),
        (lambda x: lax.pshuffle(x, "i", [0, 0, 1]), ArgumentError, "not a permutation"),
        (lambda x: lax.pbroadcast(x, "i", 3), ArgumentError, "no such element"),
    ],
)
def test_wrong_exchanges(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        _exchange(call)
