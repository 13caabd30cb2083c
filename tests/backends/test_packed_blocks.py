"""Large products in blocks: bits as without, memory a tenth, each part packed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.executables.program import Launch
from functrax.backends.gemm import lower_contraction, packed_blocks
from functrax.backends.gemm.blocking import Plan
from functrax.core.options.config import Override
from functrax.core.options.contexts import enable_x64
from tests.backends.test_contraction_kernels import EPS, Array, agree, draw, products, run

#: Functions, the shapes of their arguments, and which part of the memory they may pack into.
CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], int]] = {
    "steps": (lambda x, y: x @ y, [(70, 2100), (2100, 90)], 4),
    "steps, left": (lambda x, y: x @ y, [(190, 2100), (2100, 60)], 8),
    "steps, right": (lambda x, y: x @ y, [(60, 2100), (2100, 290)], 8),
    "rows": (lambda x, y: x @ y, [(901, 70), (70, 64)], 8),
    "columns": (lambda x, y: x @ y, [(40, 70), (70, 1203)], 8),
    "turned": (lambda x, y: (x @ y).T, [(190, 2100), (2100, 90)], 6),
    "one array": (lambda x: x @ x, [(1100, 1100)], 3),
    "an array and its transpose": (lambda x: x @ x.T, [(300, 2100)], 3),
    "transposes": (lambda x, y: (y.T @ x.T).T, [(170, 2100), (2100, 90)], 5),
    "batch": (lambda x, y: x @ y, [(13, 90, 120), (13, 120, 70)], 10),
    "batches and steps": (lambda x, y: x @ y, [(2, 3, 90, 2100), (2, 3, 2100, 70)], 30),
    "before and after": (
        lambda x, y, z: jnp.tanh(jnp.maximum(x, 0) @ (2 * y) + z) * z,
        [(130, 2100), (2100, 90), (130, 90)],
        6,
    ),
    "two results": (
        lambda x, y: (lambda z: (z > 0, jnp.exp(-z * z)))(x @ y),
        [(130, 2100), (2100, 90)],
        6,
    ),
    "a row is added": (lambda x, y, z: x @ y + z, [(700, 90), (90, 130), (130,)], 6),
}


@pytest.fixture
def packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products are packed, and their blocks may be short."""
    ranked = lower_contraction.ranked

    def packing(*args: Any) -> list[Plan]:
        plans = ranked(*args)
        return [x for x in plans if x.ways == ("packed", "packed")] or plans

    monkeypatch.setattr(lower_contraction, "ranked", packing)
    monkeypatch.setattr(packed_blocks, "UNITS", 0)


def compiled(
    function: Callable[..., Any], args: list[Array], blocks: bool = True
) -> tuple[list[Array], list[Launch]]:
    """The results of a function that is one contraction, and its launches."""
    with Override("strict_tiles", blocks):  # it changes nothing else, and is a key of caches
        jitted = functrax.jit(lambda *args: function(*args))
        results = functrax.tree_util.tree_leaves(jitted(*args))
        (kernel,) = functrax.explain(jitted)(*args).kernels
    launches = [x for x in kernel.instructions if isinstance(x, Launch)]
    return [np.asarray(x) for x in results], launches


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("packs")
def test_bits_are_those_of_the_whole(
    name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, shapes, part = CASES[name]
    rng = np.random.default_rng(len(name))
    args = [draw(rng, shape, dtype) for shape in shapes]
    monkeypatch.setattr(packed_blocks, "PART", part)
    with enable_x64():
        got, launches = compiled(function, args)
        monkeypatch.setattr(lower_contraction, "in_blocks", lambda *args: None)
        want, whole = compiled(function, args, False)
    assert not any(x.begins for x in whole)
    assert len({x.begins for x in launches}) > 2
    for x, y in zip(got, want, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def test_new_sizes_are_made_from_plans() -> None:
    """Sizes that have as many blocks share one compilation, and where arrays begin follows."""
    function = functrax.jit(lambda x, y: x @ y + 1)
    rng = np.random.default_rng(0)
    longest, y = draw(rng, (12_100, 512), np.float32), draw(rng, (512, 512), np.float32)
    want = longest @ y + 1
    for n in range(12_000, 12_100, 14):
        np.testing.assert_allclose(function(longest[:n], y), want[:n], rtol=0, atol=1e-3)
    (kernel,) = functrax.explain(function)(longest, y).kernels
    assert len({x.begins for x in kernel.instructions}) > 2
    assert function.cache_info().planned > 2


def test_what_is_packed_takes_less_than_a_tenth() -> None:
    """Of operands and results together, where a product is large."""
    x = functrax.ShapeDtypeStruct((4000, 4000), np.float32)
    for function, shapes in (
        (lambda x: x @ x, [x]),
        (lambda x, y: jnp.maximum(x @ y, 0), [x, x]),
        (lambda x, y: x.T @ y, [x, x]),
    ):
        (kernel,) = functrax.explain(function)(*shapes).kernels
        whole = kernel.bytes_read + kernel.bytes_written
        assert 0 < kernel.bytes_staged <= whole / 10


def test_small_products_are_packed_as_a_whole() -> None:
    x = functrax.ShapeDtypeStruct((1000, 1000), np.float32)
    (kernel,) = functrax.explain(lambda x, y: x @ y)(x, x).kernels
    assert not any(x.begins for x in kernel.instructions)


@pytest.mark.usefixtures("packs")
@pytest.mark.parametrize("axes", [(0, None), (1, None), (None, 0), (0, 1)])
def test_an_index_counts_from_the_begin_of_the_whole(
    axes: tuple[int | None, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dims whose indices are computed with are not in blocks, which know their own indices."""
    monkeypatch.setattr(packed_blocks, "PART", 6)
    rng = np.random.default_rng(0)
    x, y = draw(rng, (70, 2100), np.float32), draw(rng, (2100, 90), np.float32)

    def numbers(axis: int | None, shape: tuple[int, ...]) -> Any:
        return 0.0 if axis is None else lax.broadcasted_iota(np.float32, shape, axis)

    def function(x: Any, y: Any) -> Any:
        return (x + numbers(axes[0], x.shape)) @ y + numbers(axes[1], (70, 90))

    left = x + np.asarray(numbers(axes[0], x.shape))
    want, bound = products("mk,kn->mn", left, y)
    after = np.asarray(numbers(axes[1], (70, 90)))
    agree(run(function, x, y), want + after, bound + after, 2100, EPS[np.float32])
