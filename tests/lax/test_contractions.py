"""Contractions, reductions and orderings."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from functrax import grad, jit, lax, numpy as jnp, vmap
from functrax.core.errors.typed import ArgumentError, AxisError, DTypeError, PyTreeError, ShapeError
from functrax.core.ir.jaxpr import all_eqns
from functrax.core.options.contexts import enable_x64
from functrax.transforms.arguments.inspect_types import make_jaxpr
from tests.lax.oracles import check_derivatives

RNG = np.random.default_rng(0)


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-4, 5, size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("lhs", "rhs", "numbers", "subscripts"),
    [
        ((2, 3), (3, 4), (((1,), (0,)), ((), ())), "ab,bc->ac"),
        ((2, 3), (4, 5), (((), ()), ((), ())), "ab,cd->abcd"),
        ((5, 2, 3), (3, 5, 4), (((2,), (0,)), ((0,), (1,))), "nab,bnc->nac"),
        ((2, 3, 4, 5), (5, 6, 3, 2), (((1, 3), (2, 0)), ((0,), (3,))), "abcd,debx->xce"),
        ((2, 3), (3, 2), (((0, 1), (1, 0)), ((), ())), "ab,ba->"),
        ((4, 3), (4, 3), (((), ()), ((1, 0), (1, 0))), "ab,ab->ba"),
        ((0, 3), (3, 4), (((1,), (0,)), ((), ())), "ab,bc->ac"),
        ((2, 0), (0, 4), (((-1,), (-2,)), ((), ())), "ab,bc->ac"),
    ],
)
def test_dot_general(lhs: Any, rhs: Any, numbers: Any, subscripts: str) -> None:
    x, y = integers(*lhs), integers(*rhs)
    subscripts = subscripts.replace("x", "a")
    out = lax.dot_general(x, y, numbers)
    np.testing.assert_array_equal(out, np.einsum(subscripts, x, y))


def test_dot_is_a_sum_of_products() -> None:
    closed = make_jaxpr(lax.dot)(integers(2, 3), integers(3, 4))
    names = [e.primitive.name for e in all_eqns(closed.jaxpr)]
    assert sorted(names) == ["broadcast_in_dim", "broadcast_in_dim", "mul", "reduce_sum"]


def test_dot() -> None:
    x, y = integers(2, 3), integers(3, 4)
    for a, b in itertools.product((x, x[0]), (y, y[:, 0])):
        np.testing.assert_array_equal(lax.dot(a, b), a @ b)
    numbers = (((2,), (1,)), ((0,), (0,)))
    u, v = integers(5, 2, 3), integers(5, 3, 4)
    np.testing.assert_array_equal(lax.dot(u, v, dimension_numbers=numbers), u @ v)
    np.testing.assert_array_equal(lax.batch_matmul(u, v), u @ v)


def test_element_types() -> None:
    x = np.full((1, 300), 2, np.int8)
    out = lax.dot(x, x.T, preferred_element_type=np.int32)
    assert out.dtype == np.int32 and int(out[0, 0]) == 1200  # type: ignore[index]
    flags = np.array([[True, False]])
    np.testing.assert_array_equal(lax.dot(flags, flags.T), [[True]])
    y = integers(2, 2)
    half = lax.dot(y, y, preferred_element_type="bfloat16")
    assert str(half.dtype) == "bfloat16"
    assert lax.dot(y, y, precision=lax.Precision.HIGHEST).dtype == np.float32


PRECISIONS = [
    (lax.Precision.HIGHEST, {"highest"}),
    ("tensorfloat32", {"high"}),
    (("default", "highest"), {"default", "highest"}),
    (lax.DotAlgorithmPreset.F32_F32_F32, set()),
    ("default", set()),
    (None, set()),
]


@pytest.mark.parametrize(("precision", "words"), PRECISIONS)
def test_programs_keep_the_precision(precision: Any, words: set[str]) -> None:
    x = integers(2, 2)

    def product(y: Any) -> Any:
        return jnp.matmul(lax.dot(y, x, precision=precision), x, precision=precision)

    mapped = lambda y: vmap(product)(y[None])
    for function in (product, grad(lambda y: product(y).sum()), mapped):
        program = make_jaxpr(function)(x)
        found = {e.params["precision"] for e in all_eqns(program.jaxpr) if "precision" in e.params}
        assert found - {"default"} == words - {"default"}
    np.testing.assert_array_equal(product(x), x @ x @ x)


def test_precision_costs_compiled_programs_nothing() -> None:
    x = integers(2, 2)
    plain, asked = (
        jit(lambda y, p=p: lax.dot(y, y, precision=p)).lower(x).compile() for p in (None, "highest")
    )
    assert asked.compiled.stages.program == plain.compiled.stages.program


def test_dot_errors() -> None:
    x, y = integers(2, 3), integers(3, 4)
    with pytest.raises(ShapeError, match="neighbouring"):
        lax.dot(x, x)
    with pytest.raises(ShapeError, match="contracting"):
        lax.dot_general(x, y, (((0,), (0,)), ((), ())))
    with pytest.raises(ShapeError, match="batch"):
        lax.dot_general(x, y, (((), ()), ((0,), (0,))))
    with pytest.raises(AxisError, match="duplicate"):
        lax.dot_general(x, y, (((1,), (0,)), ((1,), (0,))))
    with pytest.raises(ArgumentError, match="pair of pairs"):
        lax.dot_general(x, y, ((1,), (0,)))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="precision"):
        lax.dot(x, y, precision="exact")
    with pytest.raises(ShapeError, match="one rank"):
        lax.batch_matmul(x, y[0])


# As jax.lax.dot_general of JAX 0.10.2 has it.
@pytest.mark.parametrize(
    ("lhs", "rhs", "wanted"),
    [
        ("float32", "int32", "float32"),
        ("float16", "bfloat16", "bfloat16"),
        ("bfloat16", "float32", "float32"),
        ("float64", "complex64", "complex64"),
        ("int32", "float16", "float16"),
        ("int8", "uint8", "int8"),
        ("bool", "uint8", "uint8"),
        ("uint16", "int8", "uint16"),
    ],
)
def test_dot_of_two_dtypes(lhs: str, rhs: str, wanted: str) -> None:
    with enable_x64():
        x, y = jnp.ones((2, 3), lhs), jnp.full((3, 4), 2, rhs)
        for a, b in ((x, y), (y.T, x.T)):
            out = lax.dot(a, b)
            assert out.dtype == wanted
            np.testing.assert_array_equal(np.asarray(out).astype(np.complex64), 6)


def test_dot_derivatives() -> None:
    x, y = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(4, 2, 3))
    with enable_x64():
        check_derivatives(lambda x, y: lax.dot_general(x, y, (((2,), (0,)), ((0,), (1,)))), x, y)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min),
     ("and", np.bitwise_and.reduce), ("or", np.bitwise_or.reduce), ("xor", np.bitwise_xor.reduce)],
)  # fmt: skip
def test_named_reductions(name: str, wanted: Any) -> None:
    x = RNG.integers(-4, 5, size=(2, 3, 4)).astype(np.int32)
    function = getattr(lax, f"reduce_{name}")
    np.testing.assert_array_equal(function(x, (0, 2)), wanted(x, axis=(0, 2)))
    np.testing.assert_array_equal(function(x, []), x)
    assert function.__name__ == f"reduce_{name}"
    with pytest.raises(AxisError, match="out of range"):
        function(x, (-1,))


def test_arguments_of_extrema() -> None:
    x = integers(3, 4)
    np.testing.assert_array_equal(lax.argmax(x, 1, np.int32), x.argmax(1))
    out = lax.argmin(x, -2, "uint8")
    np.testing.assert_array_equal(out, x.argmin(0))
    assert out.dtype == np.uint8
    with pytest.raises(DTypeError, match="integer"):
        lax.argmax(x, 0, float)
    with pytest.raises(ShapeError, match="non-empty reduced dimension"):
        lax.argmax(x[:0], 0, int)


@pytest.mark.parametrize(
    ("function", "init", "primitive"),
    [(lax.add, 0, "reduce_sum"), (lax.mul, 1, "reduce_prod"), (lax.bitwise_xor, 0, "reduce_xor"),
     (lambda a, b: lax.max(b, a), -100, "reduce_max"), (lax.min, 100, "reduce_min")],
)  # fmt: skip
def test_reduce_recognises(function: Any, init: int, primitive: str) -> None:
    x = RNG.integers(-4, 5, size=(3, 4)).astype(np.int32)
    closed = make_jaxpr(lambda x: lax.reduce(x, init, function, (0,)))(x)
    assert primitive in [e.primitive.name for e in all_eqns(closed.jaxpr)]
    expected = x[0]
    for row in x[1:]:
        expected = np.asarray(function(expected, row))
    np.testing.assert_array_equal(lax.reduce(x, init, function, (0,)), expected)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8])
def test_reduce_by_any_associative_function(count: int) -> None:
    """Products of 2x2 matrices, which do not commute: the order is kept."""
    entries = tuple(RNG.integers(-2, 3, size=(2, count)).astype(np.int32) for _ in range(4))

    def product(x: Any, y: Any) -> Any:
        (a, b, c, d), (e, f, g, h) = x, y

        def two(p: Any, q: Any, r: Any, s: Any) -> Any:
            return lax.add(lax.mul(p, q), lax.mul(r, s))

        return two(a, e, b, g), two(a, f, b, h), two(c, e, d, g), two(c, f, d, h)

    outs = lax.reduce(entries, (1, 0, 0, 1), product, (1,))
    for row in range(2):
        expected = np.eye(2, dtype=np.int32)
        for k in range(count):
            expected = expected @ np.array([e[row, k] for e in entries]).reshape(2, 2)
        np.testing.assert_array_equal(
            [int(o[row]) for o in map(np.asarray, outs)], expected.ravel()
        )


def test_reduce_initial_values_and_errors() -> None:
    x = np.arange(4, dtype=np.int32)
    assert int(lax.reduce(x, 10, lax.add, (0,))) == 16
    assert bool(lax.reduce(np.array([True, False]), True, lax.mul, (0,))) is False
    with pytest.raises(PyTreeError, match="structure"):
        lax.reduce((x, x), 0, lax.add, (0,))
    with pytest.raises(ArgumentError, match="does not return"):
        lax.reduce(x, 0, lambda a, b: lax.convert_element_type(lax.add(a, b), float), (0,))
    with pytest.raises(ShapeError, match="scalar"):
        lax.reduce(x, x, lax.add, (0,))
    with enable_x64():
        check_derivatives(
            lambda x: lax.reduce(x, 0.0, lambda a, b: lax.add(lax.add(a, b), lax.mul(a, b)), (0,)),
            RNG.normal(size=(5, 2)),
        )


@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative(reverse: bool) -> None:
    x = integers(3, 4)
    for name, wanted in (
        ("cumsum", np.cumsum),
        ("cumprod", np.cumprod),
        ("cummax", np.maximum.accumulate),
        ("cummin", np.minimum.accumulate),
    ):
        step = -1 if reverse else 1
        expected = wanted(x[:, ::step], axis=1)[:, ::step]
        np.testing.assert_array_equal(getattr(lax, name)(x, -1, reverse), expected)
    log = lax.cumlogsumexp(x, 1, reverse=reverse)
    total = np.log(np.cumsum(np.exp(x[:, ::step]), axis=1))[:, ::step]
    np.testing.assert_allclose(log, total, rtol=1e-5)


def test_ordering() -> None:
    x = RNG.permutation(12).reshape(3, 4).astype(np.float32)
    np.testing.assert_array_equal(lax.sort(x), np.sort(x))
    np.testing.assert_array_equal(lax.sort(x, dimension=0), np.sort(x, axis=0))
    keys, values = lax.sort_key_val(x, np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(keys, np.sort(x))
    np.testing.assert_array_equal(np.asarray(values) % 4, np.argsort(x))
    order = np.lexsort((-x, x // 4), axis=-1)
    for out, given in zip(lax.sort((x // 4, -x, x), num_keys=2), (x // 4, -x, x), strict=True):
        np.testing.assert_array_equal(out, np.take_along_axis(given, order, -1))
    top, places = lax.top_k(x, 2)
    np.testing.assert_array_equal(top, -np.sort(-x)[:, :2])
    np.testing.assert_array_equal(np.take_along_axis(x, np.asarray(places), 1), top)
    np.testing.assert_array_equal(lax.top_k(x, 1, axis=0)[0], x.max(0, keepdims=True))
