"""Indices past 2^31, without the memory: what is read of a long array is computed where it is.

``iota`` of more than 2^31 elements, seen through views and read at a few places, is a kernel of
these places.  So its machine code computes with the indices of an array that nobody stores.  Arrays
that are stored are in ``test_long_arrays.py``, which is slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.errors.typed import FunctraxError
from functrax.core.types.promotion import IntegerOverflowError

N = 2**31 + 1003
HALF = N // 2
U32 = np.dtype(np.uint32)
#: Places that the results of all views have.
PLACES = np.array([0, 5, 2**30 - 9, 2**30, 2**31 - 9, 2**31, 2**31 + 7])


def read(view: Callable[..., Any], places: np.ndarray, *args: Any) -> np.ndarray:
    """What a view of the numbers from 0 to ``N`` has at places."""
    with functrax.enable_x64():
        compiled = functrax.jit(lambda places, *args: view(lax.iota(U32, N), *args)[places])
        return np.asarray(compiled(places, *args)).astype(np.int64)


VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "itself": (lambda x: x, lambda p: p),
    "reverse": (lambda x: x[::-1], lambda p: N - 1 - p),
    "slice": (lambda x: x[7:], lambda p: p + 7),
    "slice far": (lambda x: jnp.concatenate([x, x])[2**31 + 9 :], lambda p: (p + 2**31 + 9) % N),
    "negative pad": (lambda x: lax.pad(x, U32.type(1), ((-9, 0, 0),)), lambda p: p + 9),
    "pad": (
        lambda x: jnp.pad(x, (9, 9), constant_values=1),
        lambda p: np.where(p < 9, 1, p - 9),
    ),
    "interior": (
        lambda x: lax.pad(x, U32.type(1), ((2, 0, 1),)),
        lambda p: np.where((p % 2 == 0) & (p >= 2), (p - 2) // 2, 1),
    ),
    "concatenate": (
        lambda x: jnp.concatenate([x[100:], x]),
        lambda p: np.where(p < N - 100, p + 100, p - (N - 100)),
    ),
    "roll": (lambda x: jnp.roll(x, 2**31 + 7), lambda p: (p - 2**31 - 7) % N),
    "transpose": (
        lambda x: x[: 2 * HALF].reshape(2, HALF).T.reshape(-1),
        lambda p: p % 2 * HALF + p // 2,
    ),
    "seven rows": (
        lambda x: x[: N // 7 * 7].reshape(7, -1).T.reshape(-1),
        lambda p: p % 7 * (N // 7) + p // 7,
    ),
    "tile": (lambda x: jnp.tile(x, 3)[N:], lambda p: p),
    "repeat": (lambda x: jnp.repeat(x, 3)[N:], lambda p: (p + N) // 3),
    "broadcast": (
        lambda x: jnp.broadcast_to(x[None, : 2**29], (5, 2**29)).reshape(-1),
        lambda p: p % 2**29,
    ),
    "where": (lambda x: jnp.where(x > U32.type(2**31), x, 3), lambda p: np.where(p > 2**31, p, 3)),
    "delete": (lambda x: jnp.delete(x, 2**31 - 3), lambda p: p + (p >= 2**31 - 3)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name: str) -> None:
    view, wanted = VIEWS[name]
    np.testing.assert_array_equal(read(view, PLACES), wanted(PLACES))


def test_every_second_element() -> None:
    places = PLACES // 2
    np.testing.assert_array_equal(read(lambda x: x[3::2], places), 3 + 2 * places)


@pytest.mark.parametrize("dtype", ["int64", "uint32", "uint64"])
@pytest.mark.parametrize("start", [2**31 + 50, 2**32 - 1, 3])
def test_traced_starts(dtype: str, start: int) -> None:
    places = np.arange(3)
    first = np.dtype(dtype).type(start)
    found = read(lambda x, s: lax.dynamic_slice(x, (s,), (100,)), places, first)
    np.testing.assert_array_equal(found, min(start, N - 100) + places)
    found = read(lambda x, s: jnp.roll(x, s), places, first)
    np.testing.assert_array_equal(found, (places - start) % N)


@pytest.mark.parametrize("jitted", [False, True])
def test_int32_counts_from_the_end_of_what_it_does_not_reach(jitted: bool) -> None:
    """Without x64: ``-1`` is the last element, which no positive int32 is."""
    index = np.array([-1, -(2**31), 2**31 - 1, 0], np.int32)

    def reads(index: Any) -> Any:
        x = lax.iota(U32, N)
        return x[index], jnp.take(x, index), lax.dynamic_slice(x, (index[1],), (2,))[0]

    # Outside of jit the array would be stored.
    taken, also, first = functrax.jit(reads if jitted else lambda _: reads(jnp.asarray(index)))(
        index
    )
    np.testing.assert_array_equal(taken, [N - 1, N - 2**31, 2**31 - 1, 0])
    np.testing.assert_array_equal(also, taken)
    assert int(first) == N - 2**31


@pytest.mark.parametrize("index", [2**31 + 3, np.int64(2**31 + 3), -N + 2**31 + 3])
def test_known_indices(index: Any) -> None:
    """Indices that are known while tracing need no x64."""
    x = functrax.ShapeDtypeStruct((N,), U32)
    several = np.array([index, 0])

    def reads() -> Any:
        x = lax.iota(U32, N)
        start = np.asarray(index)  # a NumPy array of rank 0
        one = lax.dynamic_slice(x, (start,), (1,)), lax.dynamic_index_in_dim(x, index)
        numbers = lax.GatherDimensionNumbers((), (0,), (0,))
        windows = lax.gather(x, several[:1, None] % N, numbers, (1,))
        along = jnp.take_along_axis(x, several, 0)
        return [found[0] for found in (*one, x[several], jnp.take(x, several), windows, along)]

    assert [int(found) for found in functrax.jit(reads)()] == [2**31 + 3] * 6
    for update in (lambda x: x.at[index].set(1), lambda x: x.at[several].add(1)):
        assert functrax.eval_shape(update, x).shape == (N,)
    (known, *_) = functrax.make_jaxpr(lambda x: x.at[several].add(1))(x).consts
    assert known.dtype == np.int64 and known.ravel().tolist() == [2**31 + 3, 0]


X = functrax.ShapeDtypeStruct((N,), np.int8)
F = functrax.ShapeDtypeStruct((N,), np.float32)
REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "arange": (lambda: jnp.arange(N), ()),
    "arange in steps": (lambda: jnp.arange(0, 2**33, 2**31), ()),
    "iota": (lambda: lax.iota(np.int32, N), ()),
    "argmax": (jnp.argmax, (X,)),
    "argmin of rows": (lambda x: jnp.argmin(x[None], 1), (X,)),
    "argmax in int32": (lambda x: lax.argmax(x, 0, np.int32), (X,)),
    "nanargmax": (jnp.nanargmax, (F,)),
    "argsort": (jnp.argsort, (X,)),
    "argpartition": (lambda x: jnp.argpartition(x, 3), (X,)),
    "lexsort": (lambda x: jnp.lexsort((x,)), (X,)),
    "top_k": (lambda x: lax.top_k(x, 3), (X,)),
    "nonzero": (lambda x: jnp.nonzero(x, size=3), (X,)),
    "flatnonzero": (lambda x: jnp.flatnonzero(x, size=3), (X,)),
    "searchsorted": (lambda x: jnp.searchsorted(x, np.int8(3)), (X,)),
    "digitize": (lambda x: jnp.digitize(np.int8(3), x), (X,)),
    "unique": (lambda x: jnp.unique(x, size=3), (X,)),
    "axis_index": (
        functrax.vmap(lambda x: x + lax.axis_index("i"), axis_name="i"),
        (X,),
    ),
    "categorical": (lambda x: functrax.random.categorical(functrax.random.key(0), x), (F,)),
    "int of an array": (lambda x: x[jnp.array([2**31 + 3])], (X,)),
    "take": (lambda x: jnp.take(x, 2**31 + 3), (X,)),
    "fori_loop": (lambda: lax.fori_loop(0, N, lambda i, x: x + i, 0), ()),
    "size": (lambda x: x + x.size, (X,)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_int32_does_not_hold_is_refused(name: str) -> None:
    """With JAX some of these wrap in silence."""
    function, args = REFUSED[name]
    with pytest.raises(IntegerOverflowError, match=r"(?s)got.*try"):
        functrax.eval_shape(function, *args)


SHORT = {"argpartition", "axis_index", "top_k"}  # int32 whatever is asked for


@pytest.mark.parametrize("name", sorted(REFUSED.keys() - SHORT - {"argmax in int32", "iota"}))
def test_x64_holds_them(name: str) -> None:
    function, args = REFUSED[name]
    with functrax.enable_x64():
        assert functrax.eval_shape(function, *args) is not None


def test_narrow_positions() -> None:
    assert lax.argmax(np.zeros(128), 0, np.int8).dtype == np.int8
    with pytest.raises(IntegerOverflowError, match="int8 does not hold all positions"):
        lax.argmax(np.zeros(129), 0, np.int8)


def test_narrow_indices_of_long_axes() -> None:
    """An int8 counts from the end of 300 elements, and tells 300 classes apart."""
    x, index = np.arange(300), np.array([-1, 100, -128], np.int8)
    np.testing.assert_array_equal(jnp.asarray(x)[index], x[index])
    wrapped = jnp.take(x, functrax.jit(lambda i: i)(index), mode="wrap")
    np.testing.assert_array_equal(wrapped, x[index])
    classes = np.asarray(functrax.nn.one_hot(np.array([5, 100], np.int8), 300))
    assert classes.sum() == 2 and classes[0, 5] == classes[1, 100] == 1


@pytest.mark.parametrize("offset", [0, 5, 2**31 + 2, -5, 2**40, -(2**40)])
def test_diagonals_of_wide_matrices(offset: int) -> None:
    made = functrax.jit(lambda: jnp.tri(2, N, offset, np.int8)[:, jnp.asarray([0, 3, 2**31 - 1])])()
    wanted = [[column <= row + offset for column in (0, 3, 2**31 - 1)] for row in range(2)]
    np.testing.assert_array_equal(made, np.array(wanted, np.int8))


def test_errors_are_overflow_errors() -> None:
    assert issubclass(IntegerOverflowError, OverflowError)
    assert issubclass(IntegerOverflowError, FunctraxError)
