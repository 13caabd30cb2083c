"""Schedules of large arrays: rows that no vector divides, parts, blocks, streamed stores.

Each test asks for a result that the schedule could get wrong at an edge, of a size at which the
schedule is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax, nn, random
from functrax.backends.compilation import codegen
from functrax.backends.kernels import lower
from functrax.backends.kernels.ir import Kernel
from functrax.backends.loops.strategies.schedule import can_be_left_out
from functrax.backends.runtime.subnormals import in_mode
from functrax.backends.targets import target
from functrax.core.options.config import Override
from tests.backends.machines import with_facts

pytestmark = pytest.mark.usefixtures("without_plans")


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Kernel, str]]:
    """The kernels that are emitted, with their schedules, and their texts."""
    found: list[tuple[Kernel, str]] = []

    def noting(kernel: Kernel, *args: Any) -> codegen.KernelCode:
        code = made(kernel, *args)
        found.append((kernel, code.emitted.text))
        return code

    made = codegen._kernel_code
    monkeypatch.setattr(codegen, "_kernel_code", noting)
    return found


def words(kernel: Kernel, kind: str) -> list[int]:
    """The last numbers of a kernel's rewrites of a kind: its pieces, the points of a unit."""
    found = [str(x).split() for x in kernel.schedule]
    return [int(x[-1].lstrip("db")) for x in found if x[0] == kind]


def run(function: Callable[..., Any], *args: Any) -> np.ndarray[Any, Any]:
    with functrax.backend("llvm"):
        return np.asarray(functrax.jit(function)(*args))


@pytest.mark.parametrize("columns", [255, 256, 257, 319, 1000])
def test_the_last_vector_of_a_row(columns: int) -> None:
    x = numbers(37, columns)
    bias = numbers(columns)
    np.testing.assert_array_equal(run(lambda v, b: v + b, x, bias), x + bias)
    np.testing.assert_array_equal(run(lambda v: jnp.max(v, 1), x), x.max(1))
    total = x.astype(np.float64).sum(1)
    np.testing.assert_allclose(run(lambda v: jnp.sum(v, 1), x), total, rtol=1e-5, atol=1e-5)
    powers = np.exp(x - x.max(1, keepdims=True), dtype=np.float64)
    np.testing.assert_allclose(run(nn.softmax, x), powers / powers.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("size", [1, 15, 64, 4095, 4096, 4097, 12_345])
def test_units_of_a_vector_dim(size: int) -> None:
    """The last unit may be shorter than a vector, others have whole vectors only."""
    x = numbers(size)
    np.testing.assert_array_equal(run(lambda v: v * 2, x), x * 2)


def test_an_extremum_keeps_nan_wherever_it_is() -> None:
    x = numbers(300, 300)
    x[np.arange(300), np.arange(300)] = np.nan
    assert np.isnan(run(lambda v: jnp.max(v, 1), x)).all()
    assert np.isnan(run(lambda v: jnp.min(v, 0), x)).all()
    clipped = run(lambda v: jnp.maximum(jnp.minimum(v, 1), 0), x)
    np.testing.assert_array_equal(clipped, np.maximum(np.minimum(x, 1), 0))


def test_what_is_put_together_is_copied_by_parts(emitted: list[tuple[Kernel, str]]) -> None:
    x, y = numbers(300, 301), numbers(150, 301)
    assert x.size + y.size >= lower.LEAST_SPLIT
    got = run(lambda v, w: jnp.concatenate([v, w, v[:2]], 0), x, y)
    np.testing.assert_array_equal(got, np.concatenate([x, y, x[:2]], 0))
    assert len(emitted) == 3
    assert all(node.op != "select" for kernel, _ in emitted for node in kernel.nodes())


@pytest.mark.parametrize("widths", [((3, 3), (3, 3)), ((0, 5), (7, 0)), ((0, 0), (1, 40))])
def test_padding_by_parts(widths: Any) -> None:
    x = numbers(401, 403)
    np.testing.assert_array_equal(run(lambda v: jnp.pad(v, widths), x), np.pad(x, widths))


def test_parts_meet_in_sums_of_shifted_arrays() -> None:
    x = numbers(500, 301)
    want = np.roll(x, 5, 0) + np.roll(x, -7, 1)
    np.testing.assert_array_equal(run(lambda v: jnp.roll(v, 5, 0) + jnp.roll(v, -7, 1), x), want)


@pytest.mark.parametrize("shape", [(5000, 129), (1025, 1000), (70_001, 9)])
def test_long_columns_are_summed_in_blocks(
    shape: tuple[int, int],
    emitted: list[tuple[Kernel, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_facts(monkeypatch, second_cache=2 << 20)
    x = numbers(*shape)
    assert x.nbytes >= 2 << 20
    got = run(lambda v: jnp.sum(v, 0), x)
    assert len(emitted) == 2
    assert any(x.kind == "block" for x in emitted[0][0].rewrites)
    np.testing.assert_allclose(got, x.sum(0, dtype=np.float64), rtol=1e-6, atol=1e-5)


def test_a_large_array_is_streamed_whether_or_not_it_lies_at_a_cache_line(
    monkeypatch: pytest.MonkeyPatch, emitted: list[tuple[Kernel, str]]
) -> None:
    with_facts(monkeypatch, streamed_bytes=0)
    rows = numbers(7, 1023)  # of no whole number of cache lines

    def function(xs: Any) -> Any:
        return lax.scan(lambda c, x: (jnp.sort(x + c), x * 3 + c), xs[0], xs)[1]

    got = run(function, rows)
    assert any("!nontemporal" in text for _, text in emitted)
    carried, want = rows[0], []
    for row in rows:
        want.append(row * np.float32(3) + carried)
        carried = np.sort(row + carried)
    np.testing.assert_allclose(got, np.stack(want), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 4097, (1 << 20) + 16 * 8 + 3])
def test_long_rows_are_read_in_pieces_side_by_side(
    size: int, monkeypatch: pytest.MonkeyPatch, emitted: list[tuple[Kernel, str]]
) -> None:
    with_facts(monkeypatch, streamed_bytes=0, several_pages=True, second_cache=2 << 20)
    x, y = numbers(size), numbers(size)[::-1].copy()
    np.testing.assert_array_equal(run(lambda v, w: v * 4 - w, x, y), x * 4 - y)
    np.testing.assert_allclose(
        run(lambda v: jnp.sum(v * 5), x), 5 * x.sum(dtype=np.float64), rtol=1e-5
    )
    assert run(lambda v: jnp.max(v * 5), x) == x.max() * 5
    assert run(lambda v: jnp.argmin(v * 5), x) == x.argmin()
    wide = numbers(37, 32_771)
    sums = wide.sum(1, dtype=np.float64)
    np.testing.assert_allclose(run(lambda v: jnp.sum(v, 1), wide), sums, rtol=1e-4)
    pieces = [n for kernel, _ in emitted for n in words(kernel, "interleave")]
    assert max(pieces) > 2


def test_rows_are_in_one_piece_where_a_processor_fetches_across_pages(
    monkeypatch: pytest.MonkeyPatch, emitted: list[tuple[Kernel, str]]
) -> None:
    with_facts(monkeypatch, streamed_bytes=0, several_pages=False, second_cache=2 << 20)
    x = numbers(1 << 20)
    np.testing.assert_array_equal(run(lambda v: v * 4 - 9, x), x * 4 - 9)
    run(lambda v: jnp.sum(v * 9), x)
    assert emitted and not any(words(kernel, "interleave") for kernel, _ in emitted)


@pytest.mark.parametrize("columns", [259, 1024, 1027, 70_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_])
def test_rows_that_begin_in_the_middle_of_a_line(
    columns: int, dtype: Any, monkeypatch: pytest.MonkeyPatch, emitted: list[tuple[Kernel, str]]
) -> None:
    with_facts(monkeypatch, streamed_bytes=0)
    with functrax.enable_x64():
        x = (numbers(11, columns) * 2).astype(dtype)
        got = run(lambda v: jnp.concatenate([v[:, 7:], jnp.roll(v, 1, 1)], 1), x)
        np.testing.assert_array_equal(got, np.concatenate([x[:, 7:], np.roll(x, 1, 1)], 1))
        np.testing.assert_array_equal(run(lambda v: v[:, 5:], x), x[:, 5:])
    if columns > 1024 and x.itemsize > 1:
        assert any(words(kernel, "align") for kernel, _ in emitted)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((100_003,), 0),
        ((2, 70_001), 1),
        ((7, 4099), 1),
        ((70, 65), 0),
        ((9, 15), 1),
        ((3, 5, 33), 1),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8])
def test_running_results(
    shape: tuple[int, ...], axis: int, dtype: Any, strict: bool, emitted: list[tuple[Kernel, str]]
) -> None:
    x = (numbers(*shape) * 3).astype(dtype)
    sums = np.cumsum(x, axis, np.float64 if dtype == np.float32 else dtype)
    with Override("strict", strict):
        got = run(lambda v: lax.cumsum(v, axis), x)
        np.testing.assert_allclose(got, sums, rtol=2e-7, atol=1e-6)
        largest = run(lambda v: lax.cummax(v, axis), x)
        np.testing.assert_array_equal(largest, np.maximum.accumulate(x, axis))
        signs = np.sign(x) + (x == 0)
        got = run(lambda v: lax.cumprod(v, axis), signs)
        np.testing.assert_array_equal(got, np.cumprod(signs, axis, dtype))
        back = run(lambda v: lax.cumsum(v, axis, reverse=True), x)
        sums = np.flip(np.cumsum(np.flip(x, axis), axis, sums.dtype), axis)
        np.testing.assert_allclose(back, sums, rtol=2e-7, atol=1e-6)
    if len(shape) == 1 and emitted:  # blocks, what comes before each, and the rest
        assert len({kernel.name for kernel, _ in emitted if "cumsum" in kernel.name}) == 3


def test_a_running_maximum_keeps_nan_from_where_it_is() -> None:
    x = numbers(100_003)
    x[70_000] = np.nan
    found = np.isnan(run(lax.cummax, x))
    np.testing.assert_array_equal(found, np.arange(len(x)) >= 70_000)


@pytest.mark.parametrize("decision", can_be_left_out())
@pytest.mark.parametrize("strict", [False, True])
def test_each_decision_can_be_left_out(decision: str, strict: bool) -> None:
    x, row = numbers(600, 401), numbers(401)
    functions: dict[str, Callable[..., Any]] = {
        "long sum": lambda v, r: jnp.sum(v * r),
        "columns": lambda v, r: jnp.sum(jnp.concatenate([v, v, v, v]) * 2, 0),
        "softmax": lambda v, r: nn.softmax(v + r, 1),
        "transpose": lambda v, r: (v + r).T * 3,
        "pad": lambda v, r: jnp.pad(v * r, 2),
        "functions of rows": lambda v, r: jnp.tanh(jnp.sum(v * r, 1)) + jnp.exp(jnp.max(v, 1)),
        "product": lambda v, r: (v @ v.T * 0.5 + v[:, :1], (v @ v.T) * v[:, 1:2])[1],
        "scatter": lambda v, r: jnp.zeros(401).at[jnp.arange(401) // 2].add(r),
        "loop of rows": lambda v, r: lax.fori_loop(0, 9, lambda _, c: jnp.sin(c)[::-1], v[0, :12]),
    }
    with Override("strict", strict):
        want = {name: run(f, x, row) for name, f in functions.items()}
        with Override("schedule_off", decision):
            for name, function in functions.items():
                got = run(function, x, row)
                if strict and decision not in ("vectorize", "block"):
                    np.testing.assert_array_equal(got, want[name], name)
                else:
                    np.testing.assert_allclose(got, want[name], rtol=2e-6, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("rows", [64, 67, 1000])
def test_functions_of_the_sums_of_rows_are_computed_for_many_rows_at_once(
    emitted: list[tuple[Kernel, str]], rows: int, strict: bool
) -> None:
    """What a product with a vector goes through, in each step of a recurrent network."""
    x, row, bias = numbers(rows, 65), numbers(65), numbers(rows)

    def f(v: Any, r: Any, b: Any) -> Any:
        s = jnp.sum(v * r, 1)
        return jnp.tanh(s + b), s * 2, jnp.logaddexp(s, jnp.max(v, 1))

    with Override("strict", strict):
        got = run(f, x, row, bias)
        first, last = (kernel for kernel, _ in emitted[-2:])
        assert first.name == f"{last.name}.rows" and first.vector in first.inner
        assert last.vector in last.outer and last.lanes > 1
        with Override("schedule_off", "apart"):
            for a, b in zip(got, run(f, x, row, bias), strict=True):
                np.testing.assert_array_equal(a, b)
    sums = (x.astype(np.float64) * row).sum(1)
    np.testing.assert_allclose(got[0], np.tanh(sums + bias), rtol=1e-5, atol=1e-5)
    run(f, numbers(3, 65), row, numbers(3))
    assert not emitted[-1][0].name.endswith(".rows"), "a kernel more takes longer"


def test_the_next_row_is_fetched_while_one_is_computed(
    emitted: list[tuple[Kernel, str]],
) -> None:
    """Also at the ends of rows that no vector divides, and after the last row."""
    x = numbers(1100, 1003)
    got = run(lambda v: nn.softmax(v * 7, 1), x)
    assert words(emitted[-1][0], "prefetch") and "llvm.prefetch" in emitted[-1][1]
    with Override("schedule_off", "prefetch"):
        np.testing.assert_array_equal(run(lambda v: nn.softmax(v * 7, 1), x), got)
    assert "llvm.prefetch" not in emitted[-1][1]
    run(lambda v: nn.softmax(v * 9, 1), numbers(64, 1003))
    assert not words(emitted[-1][0], "prefetch"), "it is in a cache"


@pytest.mark.parametrize("fast", [False, True])
def test_quotients_by_a_number_of_the_row_are_rounded_once(
    fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any bits: zeros, infinities, NaN and subnormal numbers on both sides."""
    with_facts(monkeypatch, divides_fast=fast)
    sign = -1 if fast else 1  # equal programs are compiled once
    random = np.random.default_rng(0)
    x, rows = (random.integers(0, 2**32, s, np.uint32).view("f4") for s in ((300, 257), (300, 1)))
    rows[:9, 0] = [0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3e-39, 2.0**-126, 3.4e38]
    x[:, :7] = [0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3.4e38]
    with np.errstate(all="ignore"):
        near = (random.normal(size=x.shape) * rows).astype("f4")
        for values in (x, near):
            got = sign * run(lambda v, r: v / r * sign, values, rows)
            want = in_mode(True, np.divide, values, rows)
            np.testing.assert_array_equal(got, want)
            there = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got)[there], np.signbit(want)[there])


@pytest.mark.parametrize("columns", [256, 333, 5000])
def test_vectors_of_float32_are_added_up_before_they_are_widened(
    columns: int, emitted: list[tuple[Kernel, str]]
) -> None:
    """A few additions of each sum are in float32, whatever its length."""
    x = numbers(50, columns) + 3
    got = run(lambda v: jnp.sum(v * 2 - 1, 1), x)
    (kernel, text), *_ = emitted
    assert kernel.lanes > 16 and f"<{kernel.lanes} x double>" not in text
    terms = x.astype("f8") * 2 - 1
    assert np.all(np.abs(got - terms.sum(1)) <= 2.0**-21 * np.abs(terms).sum(1))
    with Override("strict", True):
        run(lambda v: jnp.sum(v * 2 - 1, 1), x)
    assert f"<{emitted[-1][0].lanes} x double>" in emitted[-1][1]
    short = x[:, :255]
    rounded = (short * 2 - 1).astype("f8").sum(1).astype("f4")
    np.testing.assert_array_equal(run(lambda v: jnp.sum(v * 2 - 1, 1), short), rounded)


@pytest.mark.parametrize("columns", [33, 96, 130, 192, 200, 300, 400])
@pytest.mark.parametrize("rows", [100, 300])
def test_columns_of_few_vectors_need_few_masks(
    rows: int, columns: int, emitted: list[tuple[Kernel, str]]
) -> None:
    x = numbers(rows, columns)
    got = run(lambda v: jnp.sum(v * 3, 0), x)
    np.testing.assert_allclose(got, 3 * x.sum(0, dtype="f8"), rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(run(lambda v: jnp.max(v * 3, 0), x), (x * 3).max(0))
    for kernel, text in emitted:
        whole = f"load <{kernel.lanes} x float>, ptr" in text
        if columns % 32 == 0:
            assert columns % kernel.lanes == 0 and "masked" not in text
        elif columns > kernel.lanes:
            assert whole == (rows >= 256 or columns >= 4 * kernel.lanes) and "masked" in text


def test_sums_of_many_numbers_lose_none_of_them() -> None:
    ones = np.ones((1 << 24) + 3, "f4")
    assert run(lambda v: jnp.sum(v), ones) == np.float32(ones.size)


def test_lanes_go_along_rows_whose_sums_are_few(emitted: list[tuple[Kernel, str]]) -> None:
    """What is stored once for each row does not decide."""
    x = numbers(16, 32, 8, 8)

    def statistics(v: Any) -> Any:
        mean = jnp.mean(v, (0, 2, 3), keepdims=True)
        return mean, jnp.mean((v - mean) ** 2, (0, 2, 3))

    run(lambda v: statistics(v)[1], x)
    assert emitted[0][0].vector in emitted[0][0].inner


@pytest.mark.parametrize("shape", [(1000, 2), (517, 3), (40, 25, 4), (999, 2, 2)])
@pytest.mark.parametrize("reduces", [False, True])
def test_lanes_go_across_short_rows_of_dear_values(
    shape: tuple[int, ...], reduces: bool, emitted: list[tuple[Kernel, str]]
) -> None:
    def function(x: Any) -> Any:
        y = x[..., : shape[-1]] + 0.1 * random.normal(random.key(3), shape)
        return (y**2).sum(-1) if reduces else y

    x = numbers(*shape[:-1], shape[-1] + 1)
    got = run(function, x)
    (kernel,) = [k for k, _ in emitted if any(node.op == "erf_inv" for node in k.nodes())]
    assert kernel.vector is not None and kernel.lanes >= target().vector_bytes // 4
    assert kernel.extents[kernel.vector] >= kernel.lanes
    with functrax.backend("interp"):
        wanted = np.asarray(function(x))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_lanes_stay_along_short_rows_that_are_only_moved(emitted: list[tuple[Kernel, str]]) -> None:
    x = numbers(4096, 8)
    np.testing.assert_array_equal(run(lambda x: 2 * x[:, :3], x), 2 * x[:, :3])
    assert emitted[0][0].lanes == 4


def test_rows_with_holes_are_reduced_along_the_lanes(emitted: list[tuple[Kernel, str]]) -> None:
    """Where elements are set apart, what is read beside them stays contiguous."""
    x, y, gain = numbers(8, 16, 16, 32), numbers(8, 16, 8, 16), numbers(16)

    def function(x: Any, y: Any, gain: Any) -> Any:
        spread = lax.pad(y, 0.0, ((0, 0, 0), (0, 0, 0), (0, 1, 1), (0, 1, 1)))
        terms = (x + spread) * gain[:, None, None]
        return terms - jnp.mean(terms, (0, 2, 3), keepdims=True)

    got = run(function, x, y, gain)
    kernel = emitted[0][0]
    assert kernel.vector in kernel.inner and kernel.extents[kernel.vector or 0] == 32
    want = x.astype("f8")
    want[:, :, ::2, ::2] += y
    want *= gain[:, None, None]
    np.testing.assert_allclose(got, want - want.mean((0, 2, 3), keepdims=True), atol=1e-5)


def test_what_is_written_through_the_caches_is_not_done_in_pieces(
    monkeypatch: pytest.MonkeyPatch, emitted: list[tuple[Kernel, str]]
) -> None:
    with_facts(monkeypatch, several_pages=True, second_cache=2 << 20)
    run(lambda v: v * 5 - 3, numbers(1 << 20))
    assert not words(emitted[0][0], "interleave")


def check_transposes(shape: tuple[int, ...], perm: tuple[int, ...], scale: int) -> None:
    """A transposed array times a number, and with another added; equal ones are compiled once."""
    x = numbers(*shape)
    turned = x.transpose(perm)
    np.testing.assert_array_equal(run(lambda v: jnp.transpose(v, perm) * scale, x), turned * scale)
    y = numbers(*turned.shape)
    got = run(lambda v, w: jnp.transpose(v, perm) * scale + w, x, y)
    np.testing.assert_array_equal(got, turned * scale + y)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((40, 5001), (1, 0)),  # long rows, in pieces
        ((5001, 40), (1, 0)),  # short rows, shared by tiles along the columns
        ((600, 600), (1, 0)),
        ((30, 150, 96), (2, 1, 0)),  # stripes of two dims
        ((64, 9, 128), (2, 1, 0)),
        ((33, 40, 50), (0, 2, 1)),  # matrices, each for itself
        ((3, 320, 200), (2, 0, 1)),
        ((3, 2, 100, 1, 130), (4, 1, 0, 3, 2)),
    ],
)
def test_stripes_of_transposes(
    shape: tuple[int, ...],
    perm: tuple[int, ...],
    streamed: bool,
    monkeypatch: pytest.MonkeyPatch,
    emitted: list[tuple[Kernel, str]],
) -> None:
    with_facts(monkeypatch, streamed_bytes=0 if streamed else 1 << 60)
    check_transposes(shape, perm, 4 if streamed else 8)
    (kernel, text), *_ = emitted
    assert words(kernel, "turn") and words(kernel, "parallelize")
    assert streamed or "!nontemporal" not in text


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("shape", "perm", "cached", "past"),
    [
        ((512, 512), (1, 0), 4, 4),
        ((528, 500), (1, 0), 1, 1),  # no multiples of 1 KiB
        ((520, 512), (1, 0), 4, 4),  # rows are not whole lines of the result, so it is not streamed
        ((512, 1033), (1, 0), 4, 2),  # rows that are far apart
        ((272, 512), (1, 0), 4, 2),  # the last block has one tile
        ((256, 256), (1, 0), 2, 2),  # few tiles for threads to share
        ((48, 80, 256), (2, 1, 0), 4, 2),
        ((20, 256, 130), (0, 2, 1), 4, 4),
        ((20, 256, 100), (0, 2, 1), 4, 1),  # few lines in a stripe
    ],
)
def test_lines_that_collide_are_written_side_by_side(
    shape: tuple[int, ...],
    perm: tuple[int, ...],
    cached: int,
    past: int,
    streamed: bool,
    monkeypatch: pytest.MonkeyPatch,
    emitted: list[tuple[Kernel, str]],
) -> None:
    with_facts(monkeypatch, streamed_bytes=0 if streamed else 1 << 60)
    check_transposes(shape, perm, 16 if streamed else 32)
    kernel, beside = emitted[0][0], past if streamed else cached
    assert words(kernel, "split") == ([beside * kernel.lanes] if beside > 1 else [])


@pytest.mark.parametrize(
    ("shape", "lanes"),
    [
        ((301, 3), 1),
        ((301, 5), 8),
        ((301, 9), 16),
        ((9, 301), 16),
        ((301, 12), 16),
        ((301, 19), 16),
    ],
)
def test_tiles_of_short_dims_have_lanes_for_all_of_one(
    shape: tuple[int, int], lanes: int, emitted: list[tuple[Kernel, str]]
) -> None:
    x = numbers(*shape)
    np.testing.assert_array_equal(run(lambda v: v.T * 3, x), x.T * 3)
    kernel, _ = emitted[-1]
    if lanes == 1:
        assert not words(kernel, "turn")
    else:
        assert kernel.lanes == min(lanes, target().vector_bytes // 4)


def test_only_large_arrays_are_streamed(emitted: list[tuple[Kernel, str]]) -> None:
    run(lambda v: v * 5 - 2, numbers(4096))
    assert not any("!nontemporal" in text for _, text in emitted)
