"""Universal functions: their attributes and methods, and ``frompyfunc``; against NumPy's."""

from __future__ import annotations

import copy
import inspect
import operator
import pickle
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from functrax.numpy.universal import IDENTITIES

RNG = np.random.default_rng(3)
INTEGERS = RNG.integers(1, 9, size=(4, 3)).astype("i4")
FLOATS = RNG.normal(size=(4, 3)).astype("f4")
BINARY = sorted(set(IDENTITIES) - {"negative"})


def weighted(x: Any, y: Any) -> Any:
    """Neither associative nor commutative, so the order shows."""
    return 2 * x + y


ours = jnp.frompyfunc(weighted, 2, 1)
theirs = np.frompyfunc(weighted, 2, 1)


def data(name: str) -> np.ndarray:
    return FLOATS if "logaddexp" in name else INTEGERS


def close(found: Any, wanted: Any) -> None:
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted.astype(found.dtype), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", sorted(IDENTITIES))
def test_attributes_are_those_of_numpy(name: str) -> None:
    function, wanted = getattr(jnp, name), getattr(np, name)
    assert isinstance(function, jnp.ufunc)
    assert (function.nin, function.nout) == (wanted.nin, wanted.nout)
    assert function.nargs == wanted.nargs - 1  # NumPy counts out
    assert function.identity == wanted.identity
    assert pickle.loads(pickle.dumps(function.reduce)) == function.reduce
    assert {function: 1}[function] == 1


def test_other_functions_are_not_universal() -> None:
    for other in (jnp.exp, jnp.sum, np.add, 3, functrax.jit(jnp.add), jnp.ufunc):
        assert not isinstance(other, jnp.ufunc)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("axis", [0, -1, None])
def test_reduce(name: str, axis: int | None) -> None:
    x, mask = data(name), FLOATS > 0
    function, wanted = getattr(jnp, name), getattr(np, name)
    if not (name == "subtract" and axis is None):  # NumPy reorders no subtraction
        close(function.reduce(x, axis=axis), wanted.reduce(x, axis=axis))
        close(
            functrax.jit(lambda x: function.reduce(x, axis=axis, keepdims=True))(x),
            wanted.reduce(x, axis=axis, keepdims=True),
        )
        options = {"axis": axis, "initial": x.dtype.type(2), "where": mask}
        close(function.reduce(x, **options), wanted.reduce(x, **options))


@pytest.mark.parametrize("name", BINARY)
def test_accumulate_at_outer_and_reduceat(name: str) -> None:
    x = data(name)
    function, wanted = getattr(jnp, name), getattr(np, name)
    close(function.accumulate(x, axis=1), wanted.accumulate(x, axis=1))
    close(function.outer(x, x[0]), wanted.outer(x, x[0]))
    starts = np.array([0, 2, 1])
    close(function.reduceat(x, starts), wanted.reduceat(x, starts))
    if name.startswith("logical"):
        return  # its results are booleans, which NumPy writes into the integers
    places, y = (np.array([1, 1, -1]), slice(None, 2)), x[:3, :2]
    changed = x.copy()
    wanted.at(changed, places, y)
    close(function.at(x, places, y, inplace=False), changed)


def test_at_of_one_operand() -> None:
    found = jnp.negative.at(INTEGERS, (jnp.array([0, 0, 1]), 2), inplace=False)
    wanted = INTEGERS.copy()
    np.negative.at(wanted, (np.array([0, 0, 1]), 2))
    close(found, wanted)


@pytest.mark.parametrize("axis", [0, 1, -1, None, (0, 1)])
def test_reduce_in_order(axis: Any) -> None:
    flat = INTEGERS.reshape(-1) if axis in (None, (0, 1)) else INTEGERS
    wanted = theirs.reduce(flat, axis=0 if flat.ndim == 1 else axis)
    close(ours.reduce(INTEGERS, axis=axis), wanted)
    assert ours.reduce(INTEGERS, axis=axis, keepdims=True).ndim == 2


def test_made_functions() -> None:
    close(ours(INTEGERS, INTEGERS[0]), theirs(INTEGERS, INTEGERS[0]))
    close(ours.accumulate(INTEGERS, axis=1), theirs.accumulate(INTEGERS, axis=1))
    close(ours.outer(INTEGERS[0], INTEGERS), theirs.outer(INTEGERS[0], INTEGERS))
    two = jnp.frompyfunc(lambda x, y: (x + y, x - y), 2, 2)
    total, difference = two(INTEGERS, 1)
    close(total, INTEGERS + 1)
    close(difference, INTEGERS - 1)
    changed = INTEGERS.astype(object)
    places = np.array([2, 0, 2])
    theirs.at(changed, places, 5)
    close(ours.at(INTEGERS, places, 5, inplace=False), changed)
    out_of_range = ours.at(INTEGERS, jnp.array([7]), 5, inplace=False)
    close(out_of_range, INTEGERS)


def test_empty_axes() -> None:
    nothing = jnp.zeros((0, 3))
    with_identity = jnp.frompyfunc(weighted, 2, 1, identity=7)
    close(with_identity.reduce(nothing), np.full(3, 7))
    close(ours.reduce(nothing, initial=2.0), np.full(3, 2))
    assert ours.accumulate(nothing).shape == (0, 3)
    with pytest.raises(errors.ShapeError, match="no identity"):
        ours.reduce(nothing)


def test_transforms() -> None:
    x = jnp.asarray(FLOATS[:, 0])
    np.testing.assert_allclose(functrax.grad(ours.reduce)(x), [8, 4, 2, 1])
    np.testing.assert_allclose(functrax.grad(lambda x: ours.accumulate(x)[2])(x), [4, 2, 1, 0])
    np.testing.assert_allclose(
        functrax.grad(lambda x: ours.at(x, jnp.array([0, 0]), x[1], inplace=False).sum())(x),
        [4, 4, 1, 1],
    )
    close(functrax.vmap(ours.reduce)(INTEGERS), [ours.reduce(row) for row in INTEGERS])
    close(functrax.jit(ours.reduceat)(x, jnp.array([0, 2])), [2 * x[0] + x[1], 2 * x[2] + x[3]])
    grad = functrax.grad(lambda x: jnp.logaddexp.reduce(x))(x)
    np.testing.assert_allclose(grad, functrax.nn.softmax(x), rtol=1e-6)


def test_a_made_function_as_an_object() -> None:
    again = jnp.frompyfunc(weighted, 2, 1)
    assert again == ours
    assert hash(again) == hash(ours)
    assert again != jnp.frompyfunc(weighted, 2, 1, identity=0)
    assert repr(ours) == "<jnp.ufunc 'weighted'>"
    assert ours.__doc__ == weighted.__doc__
    assert pickle.loads(pickle.dumps(ours)) == ours == copy.deepcopy(ours)
    for name in ("nin", "nout", "nargs", "identity"):
        with pytest.raises(AttributeError):
            setattr(ours, name, None)
    assert list(inspect.signature(jnp.add.reduce).parameters)[:3] == ["a", "axis", "dtype"]
    assert "axis" in (jnp.add.reduce.__doc__ or "")


def test_a_function_is_traced_once_for_its_types() -> None:
    traces = 0

    def counted(x: Any, y: Any) -> Any:
        nonlocal traces
        traces += 1
        return x + y

    function = jnp.frompyfunc(counted, 2, 1)
    function(FLOATS, FLOATS)
    function.reduce(FLOATS)
    before = traces
    function(FLOATS, FLOATS)
    jnp.frompyfunc(counted, 2, 1)(FLOATS, FLOATS)
    assert traces == before


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: jnp.add.reduce(INTEGERS, out=INTEGERS), NotImplementedError, "out="),
        (lambda: ours.accumulate(INTEGERS, out=INTEGERS), NotImplementedError, "out="),
        (lambda: ours(INTEGERS, 1, where=FLOATS > 0), NotImplementedError, "where="),
        (lambda: jnp.add.at(INTEGERS, 0, 1), NotImplementedError, "in place"),
        (lambda: jnp.negative.reduce(INTEGERS), ValueError, "two operands"),
        (lambda: jnp.negative.outer(INTEGERS, INTEGERS), ValueError, "two operands"),
        (lambda: ours.reduce(INTEGERS, where=FLOATS > 0), ValueError, "needs initial"),
        (lambda: jnp.add.reduce(INTEGERS, where=INTEGERS), ValueError, "boolean"),
        (lambda: ours.reduceat(INTEGERS, jnp.zeros((1, 1), int)), ValueError, "vector"),
        (lambda: ours.accumulate(INTEGERS, axis=None), ValueError, "axis"),
        (lambda: ours.reduce([1, 2]), TypeError, "lists are not arrays"),
        (lambda: ours(INTEGERS), ValueError, "takes 2 operands"),
        (lambda: jnp.bitwise_or.reduce(FLOATS), ValueError, "integers"),
        (lambda: jnp.add.at(INTEGERS, 0, inplace=False), ValueError, "operands"),
        (lambda: ours.reduce(INTEGERS, axis=2), IndexError, "out of range"),
    ],
)
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        call()
    assert isinstance(caught.value, errors.FunctraxError)


def test_operators_of_the_standard_library() -> None:
    function = jnp.frompyfunc(operator.mul, 2, 1, identity=1)
    close(function.reduce(INTEGERS), INTEGERS.prod(0))
