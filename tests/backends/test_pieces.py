"""Kernels that read arrays in pieces: rolled, padded, put together; in one kernel and in parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.compilation.compiler import compile_program
from functrax.backends.kernels import lower
from functrax.core.options.config import Override
from tests.backends.random_pieces import program

SHAPES = [
    (1,), (2,), (37,), (300,), (1, 1), (5, 1), (2, 33), (17, 40), (40, 17), (3, 4, 35), (2, 1, 70),
]  # fmt: skip
DTYPES = ["uint8", "int32", "int64", "float32", "bool", "int16", "float64"]


@contextmanager
def splitting(always: bool) -> Iterator[None]:
    """Within it all spaces are split where conditions change, however small; or none is."""
    if not always:
        with Override("schedule_off", "parts"):
            yield
        return
    before = lower._is_worth_splitting, lower.MOST_PARTS, lower.LEAST_SPLIT
    lower._is_worth_splitting = lambda *_: True  # type: ignore[assignment]
    lower.MOST_PARTS = 40
    lower.LEAST_SPLIT = 1  # a kernel more must save nothing
    try:
        yield
    finally:
        lower._is_worth_splitting, lower.MOST_PARTS, lower.LEAST_SPLIT = before  # type: ignore[assignment]


def sample(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Integers, of which sums are exact in every dtype."""
    values = np.random.default_rng(seed).integers(0, 90, shape)
    return values.astype(dtype) if dtype != "bool" else values > 45


@pytest.mark.parametrize("always", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_are_those_of_numpy(shape: tuple[int, ...], always: bool) -> None:
    for seed in range(8):
        dtype = DTYPES[seed % len(DTYPES)]
        x = sample(shape, dtype, seed)
        run = program(1000 * len(shape) + seed, shape, 1 + seed % 3)
        x = x.astype("int32") if dtype == "bool" else x
        with splitting(always):
            found = functrax.jit(lambda y, run=run: run(jnp, y))(x)
        expected = np.asarray(run(np, x)).astype(found.dtype)
        np.testing.assert_array_equal(np.asarray(found), expected, err_msg=f"seed {seed}, {dtype}")


@pytest.mark.parametrize("always", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_are_those_of_the_reference(shape: tuple[int, ...], always: bool) -> None:
    for seed in range(4):
        x = sample(shape, "float32", seed)
        run = program(5000 * len(shape) + seed, shape, 1 + seed % 2)

        def total(y: Any, run: Any = run) -> Any:
            moved = run(jnp, y)
            return (moved * (jnp.arange(moved.size) % 5).reshape(moved.shape)).sum()

        with splitting(always):
            found = functrax.jit(functrax.grad(total))(x)
        with Override("backend", "interp"):
            expected = functrax.jit(functrax.grad(total))(x)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected), err_msg=f"{seed}")


def neighbours(x: Any) -> Any:
    return sum(jnp.roll(x, (a, b), axis=(0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)


def test_the_interior_and_the_borders_have_loops_of_their_own() -> None:
    x = np.ones((512, 512), np.uint8)
    found = functrax.jit(neighbours)(x)
    np.testing.assert_array_equal(np.asarray(found), np.full((512, 512), 8))
    loops = functrax.explain(neighbours)(x).kernels[0].loops
    assert "extents 512 510" in loops, loops
    interior = loops[loops.index("extents 512 510") :]
    assert "select" not in interior[: interior.index("kernel ")]


def test_planes_that_stream_are_copies() -> None:
    x = np.arange(9 * 80 * 200, dtype=np.float32).reshape(9, 80, 200)
    shifts = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]

    def stream(f: Any, xp: Any = jnp) -> Any:
        return xp.stack([xp.roll(f[n], by, axis=(0, 1)) for n, by in enumerate(shifts)])

    np.testing.assert_array_equal(np.asarray(functrax.jit(stream)(x)), stream(x, np))
    assert "select" not in functrax.explain(stream)(x).kernels[0].loops


def test_a_row_is_chosen_and_not_its_values() -> None:
    x = np.arange(40 * 64, dtype=np.float32).reshape(40, 64)
    np.testing.assert_array_equal(np.asarray(jnp.roll(x, 3, 0)), np.roll(x, 3, 0))
    assert "select" not in functrax.explain(lambda x: jnp.roll(x, 3, 0))(x).kernels[0].loops


def test_sums_of_floats_keep_their_order() -> None:
    """What is added up in which order follows from the kernel, which must stay what it was."""
    x = np.random.default_rng(0).normal(size=(64, 48)).astype(np.float32)
    whole = functrax.jit(lambda x: jnp.roll(x, 1, 0))(x)
    found = functrax.jit(lambda x: jnp.roll(x, 1, 0).sum(1))(x)
    np.testing.assert_array_equal(
        np.asarray(found), np.asarray(functrax.jit(lambda x: x.sum(1))(whole))
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_rolls_of_rolls_do_not_grow_without_bound(axis: int) -> None:
    x = np.arange(40 * 48, dtype=np.int32).reshape(40, 48)

    def rolled(x: Any, xp: Any = jnp) -> Any:
        for by in range(1, 13):
            x = x + xp.roll(xp.roll(x, by, axis), -2, axis)
        return x

    np.testing.assert_array_equal(np.asarray(functrax.jit(rolled)(x)), rolled(x, np))


def test_one_byte_for_all_lanes_is_no_gather() -> None:
    """The first column, which a row that is rolled begins with, is one element of each row."""
    x = np.arange(8 * 96, dtype=np.uint8).reshape(8, 96)
    for axis, by in ((1, -1), ((0, 1), (1, -1))):

        def rolled(x: Any, xp: Any = jnp, by: Any = by, axis: Any = axis) -> Any:
            return x + xp.roll(x, by, axis)

        np.testing.assert_array_equal(np.asarray(functrax.jit(rolled)(x)), rolled(x, np))
        assert "gather" not in functrax.explain(rolled)(x).llvm


def test_plans_hold_for_boards_of_other_sizes() -> None:
    found = functrax.jit(neighbours)
    for n in (80, 84, 85, 88, 90, 97):
        x = np.random.default_rng(n).integers(0, 9, (n, n + 3)).astype(np.uint8)
        expected = sum(np.roll(x, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)
        np.testing.assert_array_equal(np.asarray(found(x)), expected)
    assert found.cache_info().planned >= 3


@pytest.mark.parametrize("join", [jnp.concatenate, jnp.stack])
def test_equal_pieces_share_machine_code(join: Any) -> None:
    arrays = [np.full((16, 64), n, np.float32) for n in range(30)]
    compiled = compile_program(functrax.make_jaxpr(lambda xs: join(xs))(arrays).jaxpr)
    texts = {k.emitted.text for w in compiled.works if w.code for k in w.code.kernels}
    assert len(compiled.program.instructions) == 30 and len(texts) <= 2
    np.testing.assert_array_equal(
        np.asarray(functrax.jit(join)(arrays)).reshape(480, 64), np.concatenate(arrays)
    )
