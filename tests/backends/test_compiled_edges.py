"""Programs at the edges of what the compiler does, each compared with the reference device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.arrays.array import from_numpy
from functrax.core.index.expr import Dim, Load
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims.arithmetic import add, sub
from functrax.core.prims.mapped import reindex, scatter
from functrax.core.tracing.primitive import like
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from tests.backends.random_checks import Judge, compare, traced


def check(function: Callable[..., Any], *args: Any, kind: str = "exact") -> None:
    """Compare a function on both backends; it returns one value or a list."""

    def flat(*xs: Any) -> list[Any]:
        out = function(*xs)
        return list(out) if isinstance(out, list | tuple) else [out]

    arrays = [from_numpy(np.asarray(x)) for x in args]
    jaxpr, values = traced(flat, arrays)
    compare(jaxpr, values, Judge(jaxpr, values, kind, np.random.default_rng(0)))


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(-4, 5, shape).astype(dtype)


def test_a_scan_of_no_steps_returns_what_it_was_given() -> None:
    check(lambda x: lax.scan(lambda c, _: (c + 1, None), x, None, length=0)[0], numbers(37))


def test_a_fori_loop_of_no_steps() -> None:
    check(lambda x: lax.fori_loop(3, 1, lambda i, c: c * 2 + i, x), numbers(37))


def test_a_truth_value_beside_lanes() -> None:
    """A loop's scalar truth value is stored where its other results are vectors."""

    def loop(x: Any, y: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, c: (c[0] + i, ~c[1]), (x, y))

    check(loop, numbers(40), np.asarray(True))


@pytest.mark.parametrize("dtype", [np.complex64, np.float32])
def test_complex_numbers_in_a_loop(dtype: Any) -> None:
    check(lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.conj(c) + c, x), numbers(5, dtype=dtype))


def test_no_elements_in_a_loop() -> None:
    def step(c: Any, _: Any) -> Any:
        return c + jnp.sum(jnp.zeros((0,), c.dtype)), None

    check(lambda x: lax.scan(step, x, None, length=3)[0], numbers(4))


# ---- reductions ---------------------------------------------------------------------------------

LONG = [((200_003,), 0), ((3, 70_001), 1), ((70_001, 3), 0), ((2, 33_001, 2), 1), ((9, 33_000), 1)]
LONG += [((40_000, 2), 1), ((5, 1), 1)]


@pytest.mark.parametrize(("shape", "axis"), LONG)
def test_long_reductions(shape: tuple[int, ...], axis: int) -> None:
    def reductions(x: Any) -> list[Any]:
        return [jnp.sum(x, axis), jnp.max(x, axis), jnp.argmax(x, axis), jnp.argmin(x, axis)]

    check(reductions, numbers(*shape))
    check(lambda x: [jnp.sum(x, axis, dtype=x.dtype), jnp.any(x > 3, axis), jnp.prod(x, axis)],
          numbers(*shape, dtype=np.int8))  # fmt: skip
    rare = numbers(*shape)
    rare[tuple(n // 2 for n in shape)] = np.nan
    check(lambda x: [jnp.max(x, axis), jnp.argmax(x, axis), jnp.nanmax(x, axis)], rare)
    check(lambda x: jnp.var(jnp.clip(x, 0, 1), axis), numbers(*shape), kind="smooth")


@pytest.mark.parametrize("dtype", [np.float16, "bfloat16", np.float64, np.int16, bool])
@pytest.mark.parametrize("shape", [(3, 33_000), (33_000, 3), (65, 33)])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_of_all_sizes(shape: tuple[int, ...], axis: int, dtype: Any) -> None:
    with functrax.enable_x64():
        x = (numbers(*shape) > 3).astype(dtypes.as_dtype(dtype))
        check(lambda v: [jnp.max(v, axis), jnp.argmax(v, axis), jnp.sum(v[:100, :100], axis),
                         jnp.all(v, axis), v & v if v.dtype == bool else v * v], x)  # fmt: skip


def test_an_element_is_equal_to_the_maximum_of_its_row() -> None:
    """A row that is computed again has the same bits, whatever else uses a part of it."""

    @functrax.jit
    def function(x: Any, y: Any, z: Any) -> Any:
        product = x * y
        difference = product - z
        largest = difference.max(1, keepdims=True)
        return product, (difference == largest).sum(1)

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((64, 48)).astype(np.float32) for _ in range(3)]
    _, counts = function(*arrays)
    assert counts.tolist() == [1] * 64


def test_rows_used_again() -> None:
    def softmax_of_integers(x: Any) -> Any:
        y = x - jnp.max(x, 1, keepdims=True)
        z = y + jnp.sum(y, 1, keepdims=True)
        return [z, jnp.argmax(z, 1), z.T]

    for shape in ((1, 1), (3, 17), (129, 33), (2, 5001), (700, 16)):
        check(softmax_of_integers, numbers(*shape, dtype=np.int32))


# ---- transposes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [bool, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1000, 65), (33, 17), (16, 16), (1, 40)])
def test_transposes(shape: tuple[int, int], dtype: Any) -> None:
    def several(x: Any, y: Any) -> list[Any]:
        return [jnp.where(y == x.T, x.T, y), x.T, jnp.flip(x, 0).T, x[::2].T, (x == x).T]

    with functrax.enable_x64():
        check(several, numbers(*shape, dtype=dtype), numbers(*shape[::-1], dtype=dtype))


@pytest.mark.parametrize("perm", [(2, 0, 1), (0, 2, 1), (2, 1, 0), (1, 0, 2)])
def test_transposes_of_more_axes(perm: tuple[int, ...]) -> None:
    for shape in ((5, 33, 17), (16, 1, 65), (3, 64, 64), (65, 2, 31)):
        x, y = numbers(*shape), numbers(*(shape[p] for p in perm))
        check(lambda v, w: [jnp.transpose(v, perm) * w + jnp.transpose(v + 1, perm)], x, y)
        check(lambda v: jnp.sum(jnp.transpose(v, perm), 1), x)


# ---- index maps ---------------------------------------------------------------------------------


def test_index_arithmetic_beyond_32_bits() -> None:
    i, j = Dim(0), Dim(1)
    wide = IndexMap((5000,), (4999,), ((i * 7_000_003 + 11) % 4999,))
    check(lambda x: reindex.bind(x, map=wide, fill=like(x, 0)), numbers(4999))
    far = IndexMap((300, 4), (1000,), ((i * 2_000_000_000 + j) // 2_000_000_000,))
    check(lambda x: reindex.bind(x, map=far, fill=like(x, 7)), numbers(1000))
    big = IndexMap((40,), (70_000,), (Load(0, [i]) * 60_000 - 120_000,))
    check(lambda x, n: reindex.bind(x, n, map=big, fill=like(x, 7)),
          numbers(70_000), np.arange(40, dtype=np.int32) * 2_000_000)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_extreme_indices(dtype: Any) -> None:
    info = np.iinfo(dtype)
    n = np.asarray([0, 1, 4, 5, info.max, info.min, info.max - 3, info.min + 2, 3], dtype)
    n = np.tile(n, 5)[:41]
    i = Dim(0)
    read = IndexMap((41,), (5,), (Load(0, [i]),))
    folded = IndexMap((41,), (5,), (Load(0, [i]) % 5,))
    turned = IndexMap((41,), (5,), (4 - Load(0, [i]),))
    with functrax.enable_x64():
        x, y = numbers(5, dtype=np.int32), numbers(41, dtype=np.int32)
        for chosen in (read, folded, turned):
            check(lambda v, k: reindex.bind(v, k, map=chosen, fill=like(v, -7)), x, n)  # noqa: B023
            for op in ("add", "max", "set"):
                check(lambda v, w, k: scatter.bind(v, w, k, map=chosen, op=op), x, y, n)  # noqa: B023


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.float64, np.uint16])
def test_scatters(dtype: Any) -> None:
    n = np.random.default_rng(1).integers(-2, 22, 5000).astype(np.int32)
    with functrax.enable_x64():
        for rest in ((), (1,), (3,), (16,), (33,)):
            size = 5000 // max(int(np.prod(rest)), 1)
            x = numbers(20, *rest, dtype=dtype)
            y = np.abs(numbers(size, *rest)).astype(dtype)
            check(
                lambda v, w, k: [v.at[k].max(w * 2), v.at[k].set(w), v.at[k].min(w)], x, y, n[:size]
            )
            check(lambda v, k: v[k], x, n)


# ---- results and arguments ----------------------------------------------------------------------


def test_results_that_are_arguments_or_numbers_or_each_other() -> None:
    def results(x: Any, y: Any) -> list[Any]:
        z = x + 1
        return [z, z, x, y, x, jnp.float32(3), jnp.asarray(True), jnp.zeros((2, 3)), y + y]

    check(results, numbers(17), np.float32(2))
    out = functrax.jit(lambda x: (x, x, 2.0, x.T))(numbers(3, 4))
    assert np.array_equal(out[0], numbers(3, 4)) and np.array_equal(out[3], numbers(3, 4).T)
    assert float(out[2]) == 2


def layouts(x: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """The same elements in memory in several ways."""
    raw = np.zeros(x.nbytes + 64, np.uint8)
    odd = raw[3 : 3 + x.nbytes].view(np.uint8)
    unaligned = np.frombuffer(odd.data, dtype=np.uint8).view(x.dtype).reshape(x.shape)
    odd[:] = np.frombuffer(x.tobytes(), np.uint8)
    fixed = x.copy()
    fixed.flags.writeable = False
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    swapped = x.astype(x.dtype.newbyteorder())
    return [np.asfortranarray(x), unaligned, fixed, wide[..., ::2], x[::-1].copy()[::-1], swapped,
            np.broadcast_to(x, (2, *x.shape))[0]]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.float16, np.complex64])
def test_arguments_in_any_layout(dtype: Any) -> None:
    x = numbers(33, 17, dtype=dtype)
    f = functrax.jit(lambda v: (v + v, v.T * 3, v, jnp.sum(v, 0)))
    wanted = f(x)
    assert np.array_equal(wanted[0], x + x)
    for other in layouts(x):
        before = other.copy()
        for got, want in zip(f(other), wanted, strict=True):
            assert np.array_equal(got, want) and got.dtype == want.dtype
        assert np.array_equal(other, before)


def test_an_argument_that_changes_after_the_call() -> None:
    x = numbers(40)
    y = functrax.jit(lambda v: (v, v + 0, v.reshape(4, 10)))(x)
    kept = x.copy()
    x[:] = 9
    for got in y:
        assert np.array_equal(np.asarray(got).ravel(), kept)


def test_donated_arguments() -> None:
    f = functrax.jit(lambda x, y: (x + y, y, x * 2, x.T), donate_argnums=(0, 1))
    for _ in range(3):
        x, y = numbers(33, 17), numbers(33, 17) + 1
        out = f(jnp.asarray(x), jnp.asarray(y))
        for got, want in zip(out, (x + y, y, x * 2, x.T), strict=True):
            assert np.array_equal(got, want)
    shift = functrax.jit(lambda x: jnp.concatenate([x[1:], x[:1]]), donate_argnums=0)
    assert np.array_equal(shift(jnp.arange(1000)), np.roll(np.arange(1000), -1))
    update = functrax.jit(lambda x, y: (x.at[jnp.asarray([1, 2])].add(y), x), donate_argnums=0)
    new, old = update(jnp.zeros(5), 3.0)
    assert np.array_equal(new, [0, 3, 3, 0, 0]) and np.array_equal(old, np.zeros(5))


def test_donation_of_what_numpy_holds() -> None:
    x = numbers(100)
    functrax.jit(lambda v: v + 1, donate_argnums=0)(x)
    assert np.array_equal(x, numbers(100))


# ---- what takes too long ------------------------------------------------------------------------


def test_views_of_views_of_both_halves() -> None:
    """Each element of the last has 2**20 ways to the first: no kernel follows them all."""

    def doubled(x: Any) -> Any:
        for k in range(20):
            x = jnp.concatenate([x[: 8 + k], x[-8:]])
        return -x

    check(doubled, numbers(17))


def test_carries_that_move_from_one_to_the_next() -> None:
    """LLVM does not end where such carries are copied by casts that do nothing."""

    def loop(x: Any) -> Any:
        return lax.scan(lambda c, _: ((x, c[0]), c[0]), (x, x), None, length=5)

    def flat(x: Any) -> list[Any]:
        (a, b), stacked = loop(x)
        return [a, b, stacked]

    check(flat, np.float16(2))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64", "float32"])
def test_zeros_that_tracing_knows(dtype: Any) -> None:
    """Numbers of every dtype are compared with 0, sign included, to leave operations out."""
    zero = jnp.asarray(0, dtype) * 1
    x = numbers(5).astype(dtypes.as_dtype(dtype))
    check(lambda v: [v - zero, v + zero, v + (-zero), zero + v * 1], x)
    literal = Literal(dtypes.as_dtype(dtype).type(0), ShapedArray((), dtypes.as_dtype(dtype)))
    check(lambda v: [sub.bind(v, literal), add.bind(v, literal)], x)


@pytest.mark.parametrize("shape", [(), (40,)])
def test_doubles_rounded_to_singles_and_then_to_halves(shape: tuple[int, ...]) -> None:
    def rounded(x: Any) -> Any:
        single = lax.convert_element_type(x * 1.5, "float32")
        return lax.convert_element_type(single, "float16")

    with functrax.enable_x64():
        check(rounded, np.random.default_rng(0).normal(size=shape), kind="bits")
