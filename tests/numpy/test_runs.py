"""What reads runs of an axis, and what counts in the program, against NumPy.

Functions that only move elements have a matrix, found by moving unit vectors with NumPy: their
gradients are compared with it, and their results under vmap with those of each row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors

RNG = np.random.default_rng(7)
LENGTHS = (0, 1, 2, 3, 7, 50)
SHIFTS = (0, 1, -1, 3, -8, 10**12, -(10**12))
WIDTHS = ((0, 0), (1, 0), (0, 2), (5, 3), (70, 111))
MODES = ("edge", "reflect", "symmetric", "wrap")
Function = Callable[[Any, Any], Any]


def line(size: int) -> np.ndarray:
    return RNG.integers(-99, 99, size).astype(np.float32)


def agree(function: Function, size: int) -> None:
    """``function(module, x)`` is the same in both modules, with its gradient and under vmap."""
    x = line(size)
    wanted = function(np, x)
    ours = lambda x: function(jnp, x)
    for found in (ours(jnp.asarray(x)), functrax.jit(ours)(x)):
        np.testing.assert_array_equal(np.asarray(found), wanted)
    rows = np.stack([x, x[::-1] * 2])
    np.testing.assert_array_equal(
        np.asarray(functrax.vmap(ours)(jnp.asarray(rows))),
        np.stack([function(np, row) for row in rows]),
    )
    weights = line(wanted.size)
    constant = function(np, np.zeros_like(x))  # what was inserted
    matrix = [function(np, unit) - constant for unit in np.eye(size, dtype=np.float32)]
    slope = functrax.grad(lambda x: (ours(x) * weights).sum())(jnp.asarray(x))
    expected = np.array([row @ weights for row in matrix], np.float32).reshape(size)
    np.testing.assert_allclose(slope, expected, rtol=1e-5)


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("shift", SHIFTS)
def test_roll(size: int, shift: int) -> None:
    agree(lambda m, x: m.roll(x, shift), size)


@pytest.mark.parametrize("size", LENGTHS[1:])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8, np.uint32])
def test_roll_by_a_traced_shift(size: int, dtype: Any) -> None:
    x = line(size)
    for shift in (0, 1, 90, 200 if dtype == np.uint8 else -77 if dtype != np.uint32 else 2**32 - 1):
        by = np.array(shift, dtype)
        np.testing.assert_array_equal(functrax.jit(jnp.roll)(x, by), np.roll(x, int(by)))


@pytest.mark.parametrize("axes", [None, 0, (0, 1), (-1, 0, -1)])
def test_roll_along_axes(axes: Any) -> None:
    x = line(12).reshape(3, 4)
    shifts = (1, -2, 5)[: len(axes)] if isinstance(axes, tuple) else 5
    np.testing.assert_array_equal(jnp.roll(x, shifts, axes), np.roll(x, shifts, axes))


@pytest.mark.parametrize("size", LENGTHS)
def test_shifts_of_frequencies(size: int) -> None:
    agree(lambda m, x: m.fft.fftshift(x), size)
    agree(lambda m, x: m.fft.ifftshift(x), size)


@pytest.mark.parametrize("size", LENGTHS[1:])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("widths", WIDTHS)
def test_pad(size: int, mode: str, widths: tuple[int, int]) -> None:
    agree(lambda m, x: m.pad(x, widths, mode=mode), size)


@pytest.mark.parametrize("size", LENGTHS[1:])
@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("widths", WIDTHS)
def test_pad_by_odd_reflections(size: int, mode: str, widths: tuple[int, int]) -> None:
    agree(lambda m, x: m.pad(x, widths, mode=mode, reflect_type="odd"), size)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.complex64])
@pytest.mark.parametrize("widths", WIDTHS)
def test_odd_reflections_of_other_dtypes(dtype: Any, widths: tuple[int, int]) -> None:
    x = np.arange(3, 8).astype(dtype)
    options = {"mode": "reflect", "reflect_type": "odd"}
    np.testing.assert_array_equal(jnp.pad(x, widths, **options), np.pad(x, widths, **options))


def test_negative_zeros_are_padded_as_they_are() -> None:
    found = jnp.pad(np.float32([-0.0, 1, -0.0]), 1, mode="reflect", reflect_type="odd")
    assert np.signbit(np.asarray(found)[1:4]).tolist() == [True, False, True]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 100])
@pytest.mark.parametrize("size", LENGTHS)
def test_repeat_by_one_count(size: int, count: int) -> None:
    agree(lambda m, x: m.repeat(x, count), size)


@pytest.mark.parametrize("most", [1, 2, 5, 300])
@pytest.mark.parametrize("size", LENGTHS[1:])
def test_repeat_by_counts(size: int, most: int) -> None:
    counts = RNG.integers(0, most + 1, size)
    agree(lambda m, x: m.repeat(x, counts), size)
    total = int(counts.sum())
    for length in (0, total // 2, total, total + 9):
        positions = np.repeat(np.arange(size), counts)
        positions = np.append(positions, np.full(max(length - total, 0), size - 1))[:length]

        def taken(m: Any, x: Any, length: int = length, at: Any = positions) -> Any:
            known = m.repeat(x, counts, total_repeat_length=length) if m is jnp else x[at]
            return known

        agree(taken, size)
        x = line(size)
        traced = functrax.jit(lambda x, c, n=length: jnp.repeat(x, c, total_repeat_length=n))
        np.testing.assert_array_equal(traced(x, counts), x[positions])


def test_repeat_of_few_elements_many_times_makes_no_table() -> None:
    x = line(40)
    counts = RNG.integers(100, 900, 40)
    assert functrax.jit(lambda x: jnp.repeat(x, counts)).lower(x).as_text().count("reindex_reduce")
    agree(lambda m, x: m.repeat(x, counts), 40)


def test_repeat_refuses_lengths_that_nothing_fills() -> None:
    for x, length in ((jnp.zeros(0), 3), (jnp.zeros(3), -1)):
        with pytest.raises(errors.ShapeError, match="total_repeat_length"):
            jnp.repeat(x, 2, total_repeat_length=length)


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("count", [0, 2, 9, 40])
def test_insert(size: int, count: int) -> None:
    places = RNG.integers(-size, size + 1, count)
    values = line(count)
    agree(lambda m, x: m.insert(x, places, values), size)
    agree(lambda m, x: m.insert(x, size // 2, values), size)
    agree(lambda m, x: m.insert(x, -size, np.float32(7)), size)


@pytest.mark.parametrize("size", LENGTHS[1:])
@pytest.mark.parametrize("step", [1, 2, 3, -1, -4])
def test_slices_inserted_and_deleted(size: int, step: int) -> None:
    for part in (
        slice(None, None, step),
        slice(2, -1, step),
        slice(-1, 1, step),
        slice(5, 5, step),
    ):
        count = len(range(size)[part])
        agree(lambda m, x, part=part: m.delete(x, part), size)
        if count != 1:
            values = line(count)
            agree(lambda m, x, part=part, values=values: m.insert(x, part, values), size)


@pytest.mark.parametrize("size", LENGTHS[1:])
@pytest.mark.parametrize("count", [0, 1, 3, 20])
def test_delete(size: int, count: int) -> None:
    places = RNG.integers(-size, size, count)
    mask = RNG.random(size) < 0.4
    agree(lambda m, x: m.delete(x, places), size)
    agree(lambda m, x: m.delete(x, mask), size)


def test_few_places_of_a_long_axis() -> None:
    places = RNG.integers(0, 5000, 30)
    values = line(30)
    x = line(5000)
    for how in (lambda f: f, functrax.jit):
        deleted = how(lambda x: jnp.delete(x, places))(x)
        inserted = how(lambda x: jnp.insert(x, places, values))(x)
        np.testing.assert_array_equal(deleted, np.delete(x, places))
        np.testing.assert_array_equal(inserted, np.insert(x, places, values))


@pytest.mark.parametrize("function", ["insert", "delete"])
@pytest.mark.parametrize("places", [[4, 1], [-4, 0], 9, [0.5, 1.0]])
def test_places_that_are_none(function: str, places: Any) -> None:
    more = (1,) if function == "insert" else ()
    with pytest.raises(errors.ArgumentError):
        getattr(jnp, function)(jnp.zeros(3), np.array(places), *more)


@pytest.mark.parametrize("function", ["tril_indices", "triu_indices"])
@pytest.mark.parametrize("rows", [0, 1, 4, 7])
@pytest.mark.parametrize("columns", [None, 0, 1, 3, 9])
def test_indices_of_triangles(function: str, rows: int, columns: int | None) -> None:
    for k in range(-8, 11):
        wanted = getattr(np, function)(rows, k, columns)
        found = getattr(jnp, function)(rows, k, columns)
        for x, y in zip(found, wanted, strict=True):
            assert x.dtype == "int32"
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("function", ["tril_indices", "triu_indices"])
def test_indices_of_a_large_triangle(function: str) -> None:
    wanted = getattr(np, function)(1500, 3, 1400)
    found = functrax.jit(lambda: getattr(jnp, function)(1500, 3, 1400))()
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("window", ["bartlett", "blackman", "hamming", "hanning"])
@pytest.mark.parametrize("x64", [False, True])
def test_windows_are_those_of_numpy(window: str, x64: bool) -> None:
    with functrax.enable_x64(x64):
        for size in (0, 1, 2, 3, 10, 1001):
            wanted = getattr(np, window)(size)
            ours = functools.partial(getattr(jnp, window), size)
            for found in (ours(), functrax.jit(ours)()):
                if x64:
                    np.testing.assert_allclose(found, wanted, atol=4e-16)
                else:
                    np.testing.assert_array_equal(found, wanted.astype(np.float32))


@pytest.mark.parametrize("step", [1, 2, -3, 0.1, -0.25, 1.7])
@pytest.mark.parametrize("dtype", [None, np.float16, np.float32, np.int32, np.int8, np.complex64])
def test_arange_counts_as_numpy_does(step: float, dtype: Any) -> None:
    for start in (0, 5, -2.5):
        stop = start + 90 * step
        kind = jnp.arange(start, stop, step, dtype).dtype
        wide = np.float32 if kind == np.float16 else kind
        wanted = np.arange(start, stop, step, wide).astype(kind)
        for found in (
            jnp.arange(start, stop, step, dtype),
            functrax.jit(lambda a=start, b=stop: jnp.arange(a, b, step, dtype))(),
        ):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "key",
    [np.s_[0:5], np.s_[:5:2], np.s_[0:1:5j], np.s_[0:5, 1:4], np.s_[0:1:3j, 2:9:2], np.s_[5:0:-1]],
)
def test_grids(key: Any) -> None:
    np.testing.assert_allclose(jnp.mgrid[key], np.mgrid[key], rtol=1e-6)
    found, wanted = jnp.ogrid[key], np.ogrid[key]
    for x, y in zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]:
        np.testing.assert_allclose(x, y, rtol=1e-6)


@pytest.mark.parametrize("size", [3, 200])
def test_polynomials_of_few_and_many_coefficients(size: int) -> None:
    p, x = (line(size) / 100).astype(np.float32), np.float32([0.3, -0.5])
    places = np.linspace(-0.3, 0.2, size).astype(np.float32)
    np.testing.assert_allclose(jnp.polyval(p, x), np.polyval(p, x), rtol=1e-5)
    np.testing.assert_allclose(jnp.polyder(p, 2), np.polyder(p, 2), rtol=1e-5)
    np.testing.assert_allclose(jnp.polyint(p, 2), np.polyint(p, 2), rtol=1e-5)
    np.testing.assert_allclose(jnp.poly(places), np.poly(places), atol=2e-5)
    np.testing.assert_allclose(jnp.vander(x, size), np.vander(x, size), rtol=1e-4, atol=1e-30)
    quotient, rest = jnp.polydiv(p, np.float32([2, 1, 0.5]))
    wanted, left = np.polydiv(p, np.float32([2, 1, 0.5]))
    np.testing.assert_allclose(quotient, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rest[-2:], left[-2:], rtol=1e-4, atol=1e-5)


def test_positions_beyond_32_bits_are_traced() -> None:
    x = functrax.ShapeDtypeStruct((3 * 10**9,), np.float32)
    i = functrax.ShapeDtypeStruct((5,), np.int32)
    for function in (
        lambda x, i: x[i],
        lambda x, i: x[np.array([2, -1])],
        lambda x, i: jnp.roll(x, i[0]),
        lambda x, i: jnp.take(x, i, mode="wrap"),
        lambda x, i: jnp.delete(x, np.arange(50) * 3),
        lambda x, i: jnp.insert(x, np.arange(50) * 3, 1.0),
        lambda x, i: jnp.pad(x, 7, mode="reflect", reflect_type="odd"),
    ):
        functrax.make_jaxpr(function)(x, i)
