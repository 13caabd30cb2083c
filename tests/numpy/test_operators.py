"""Operators, methods and properties of arrays: what they take, what they leave to others."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.arrays.operators import Array, operator_names
from functrax.core.errors.typed import DTypeError, ImmutableError, ShapeError

ARITHMETIC = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, divmod,
]  # fmt: skip
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


class Reflecting:
    """A type that answers for arrays."""

    def __radd__(self, other):
        return "reflected"

    def __rpow__(self, other):
        return "raised"

    def __lt__(self, other):
        return "less"


class Wrapped:
    """A user's type that is an array."""

    def __jax_array__(self):
        return jnp.array([10.0, 20.0])


def as_lists(value):
    return (
        [np.asarray(v).tolist() for v in value]
        if isinstance(value, tuple)
        else (np.asarray(value).tolist())
    )


@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS, ids=lambda f: f.__name__)
def test_operators_in_all_orders(op):
    a, b = np.array([1.0, 2.5, 4.0], np.float32), np.array([3.0, 2.5, 0.5], np.float32)
    x, y = jnp.array(a), jnp.array(b)
    want = as_lists(op(a, b))
    assert as_lists(op(x, y)) == want
    assert as_lists(op(x, b)) == want
    mixed = op(a, y)
    assert isinstance(mixed[0] if isinstance(mixed, tuple) else mixed, Array)
    assert as_lists(mixed) == want
    assert as_lists(op(x, 2)) == as_lists(op(a, np.float32(2)))
    reflected = as_lists(op(np.float32(2), a))
    np.testing.assert_allclose(as_lists(op(2.0, x)), reflected, rtol=1e-6)
    np.testing.assert_allclose(as_lists(op(np.float32(2), x)), reflected, rtol=1e-6)
    assert as_lists(functrax.jit(op)(x, y)) == want


@pytest.mark.parametrize("op", BITS, ids=lambda f: f.__name__)
def test_bit_operators(op):
    a, b = np.array([12, 7, -5], np.int32), np.array([1, 2, 3], np.int32)
    assert op(jnp.array(a), jnp.array(b)).tolist() == op(a, b).tolist()
    assert op(jnp.array(a), 1).tolist() == op(a, 1).tolist()
    assert op(64, jnp.array(b)).tolist() == op(64, b).tolist()


def test_unary_operators():
    x = jnp.array([-1.5, 2.5])
    assert (-x).tolist() == [1.5, -2.5]
    assert (+x).tolist() == [-1.5, 2.5]
    assert abs(x).tolist() == [1.5, 2.5]
    assert (~jnp.array([True, False])).tolist() == [False, True]
    assert round(jnp.array([2.5, -0.4])).tolist() == [2, 0]
    assert round(jnp.array([2.5])).dtype == jnp.int32
    assert round(jnp.array([2.345]), 1).tolist() == [pytest.approx(2.3)]


def test_scalars_do_not_widen():
    half = jnp.array([1.0], jnp.bfloat16)
    assert (half * 2.0).dtype == jnp.bfloat16
    assert (2 + half).dtype == jnp.bfloat16
    assert (jnp.array([1], jnp.int8) + 1).dtype == jnp.int8
    assert (jnp.array([1], jnp.int8) + 300).tolist() == [45]
    assert (jnp.array([1], jnp.uint8) + (-2)).tolist() == [255]
    assert (jnp.array([1], jnp.int8) * 1.5).dtype == jnp.float32
    assert (jnp.array([1]) * 1.5).weak_type is True
    assert (jnp.array([True]) + 1).dtype == jnp.int32
    assert (jnp.float32(1) + np.float64(1)).dtype == jnp.float32
    assert np.signbit(np.asarray(jnp.array([1.0]) * -0.0))[0]
    assert not np.signbit(np.asarray(jnp.array([1.0]) * 0.0))[0]
    with pytest.raises(OverflowError):
        jnp.array([1], jnp.int8) + 2**40


def test_other_types_may_answer():
    x = jnp.array([1.0, 2.0])
    assert x + Reflecting() == "reflected"
    assert x ** Reflecting() == "raised"
    assert (x > Reflecting()) == "less"
    assert (x + Wrapped()).tolist() == [11, 22]
    assert (x < Wrapped()).tolist() == [True, True]
    assert (x == None) is False  # noqa: E711
    assert (x != None) is True  # noqa: E711
    assert (x == "text") is False
    for other in (None, "text", object()):
        with pytest.raises(TypeError, match="unsupported operand"):
            x + other


@pytest.mark.parametrize("other", [[1.0, 2.0], (1.0, 2.0), {}, {1.0}])
def test_containers_are_refused(other):
    x = jnp.array([1.0, 2.0])
    for op in (operator.add, operator.eq, operator.pow, operator.lt):
        with pytest.raises(DTypeError, match=r"functrax\.numpy\.array\(\.\.\.\)"):
            op(x, other)
    with pytest.raises(DTypeError):
        other + x


def test_every_operator_is_there():
    missing = [name for name in operator_names() if name not in vars(Array)]
    assert missing == []


def test_methods_are_the_functions():
    x = jnp.array([[3.0, 1.0], [2.0, 4.0]])
    for name in ("sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "argmax"):
        for axis in (None, 0, 1):
            ours = getattr(x, name)(axis)
            np.testing.assert_array_equal(np.asarray(ours), getattr(np.asarray(x), name)(axis))
    assert x.sum(axis=0, keepdims=True).shape == (1, 2)
    assert x.cumsum(axis=1).tolist() == [[3, 4], [2, 6]]
    assert x.cumprod().tolist() == [3, 3, 6, 24]
    assert x.astype(int).dtype == jnp.int32
    assert x.round(1).tolist() == x.tolist()
    assert x.clip(max=2).tolist() == [[2, 1], [2, 2]]
    assert x.conj().tolist() == x.tolist()
    assert x.real.tolist() == x.tolist()
    assert x.imag.tolist() == [[0, 0], [0, 0]]
    assert jnp.array([1 + 2j]).imag.tolist() == [2]
    assert x.T.tolist() == x.mT.tolist() == [[3, 2], [1, 4]]
    assert x.reshape(4).tolist() == x.reshape((4,)).tolist() == x.reshape(2, -1).ravel().tolist()
    assert x.transpose().tolist() == x.transpose(1, 0).tolist() == x.transpose((1, 0)).tolist()
    assert x.flatten().tolist() == [3, 1, 2, 4]
    assert (x @ x).tolist() == x.dot(x).tolist() == (np.asarray(x) @ x).tolist()
    assert x.copy().tolist() == x.tolist()
    assert x.__array_namespace__() is jnp
    assert functrax.jit(lambda v: v.sum() + v.T[0, 1])(x) == 12


def test_indexing_and_iteration():
    x = jnp.arange(6).reshape(2, 3)
    assert x[1, -1] == 5
    assert [row.tolist() for row in x] == [[0, 1, 2], [3, 4, 5]]
    _, second = x
    assert len(x) == 2
    assert second.tolist() == [3, 4, 5]
    assert x.at[0, 0].set(9)[0, 0] == 9
    with pytest.raises(TypeError, match="rank 0"):
        iter(jnp.array(3))
    with pytest.raises(TypeError, match="rank 0"):
        len(jnp.array(3))
    with pytest.raises(ImmutableError, match=r"x\.at\[index\]\.set"):
        x[0] = 1


def test_view():
    x = jnp.array([1.0, -2.0])
    assert x.view("int32").tolist() == np.array([1, -2], np.float32).view("int32").tolist()
    wide = np.arange(8, dtype=np.uint8)
    for dtype in ("uint16", "int32", "float32"):
        ours = jnp.array(wide).view(dtype)
        np.testing.assert_array_equal(np.asarray(ours), wide.view(dtype))
        np.testing.assert_array_equal(np.asarray(ours.view("uint8")), wide)
    assert jnp.array([True, False]).view("uint8").tolist() == [1, 0]
    with pytest.raises(ShapeError, match="multiple of 4"):
        jnp.array(wide[:3]).view("float32")


def test_python_protocols():
    x = jnp.float32(2.5)
    assert (float(x), int(x), bool(x), complex(x)) == (2.5, 2, True, 2.5)
    assert [10, 20, 30][jnp.int32(1)] == 20
    assert f"{x:.2f}" == "2.50"
    assert x.item() == 2.5
    assert repr(jnp.arange(2)) == "Array([0, 1], dtype=int32)"
    assert repr(jnp.asarray(1.0)) == "Array(1., dtype=float32, weak_type=True)"
    y = jnp.array([1.0, 2.0])
    assert pickle.loads(pickle.dumps(y)).tolist() == copy.deepcopy(y).tolist() == [1, 2]
    assert np.asarray(y).sum() == 3
    assert np.from_dlpack(y, device="cpu").tolist() == [1, 2]  # also of an array on a GPU
    assert (y.size, y.nbytes, y.itemsize, y.ndim, y.shape) == (2, 8, 4, 1, (2,))
    with pytest.raises(TypeError, match="unhashable"):
        hash(y)
    with pytest.raises(ValueError, match="more than one element is ambiguous"):
        bool(y)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(y)[0] = 3


def test_functions_can_be_pickled():
    for name in ("sum", "exp", "add", "where", "matmul"):
        function = getattr(jnp, name)
        assert pickle.loads(pickle.dumps(function)) is function
    assert jnp.abs is jnp.absolute


def test_properties_on_tracers():
    def function(x):
        assert x.shape == (2, 3)
        assert x.ndim == 2
        assert x.weak_type is False
        return x.T.real + x.mT.sum() + (x == x).any()

    assert functrax.jit(function)(jnp.ones((2, 3))).shape == (3, 2)
    assert functrax.grad(lambda x: (x.T @ x).trace())(jnp.ones((2, 2))).tolist() == [[2, 2], [2, 2]]
