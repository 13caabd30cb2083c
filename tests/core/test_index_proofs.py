"""Proofs about index maps: sound by brute force on random maps; and what must be proven."""

from __future__ import annotations

import random

import numpy as np
import pytest

from functrax.core.index.bounds import bounds, decide, simplify
from functrax.core.index.expr import Dim, Load, as_expr
from functrax.core.index.map import IndexMap
from tests.core.index_oracle import (
    holds_at,
    image,
    points_of,
    random_condition,
    random_expr,
    random_map,
    random_structured_map,
    value_at,
)

MAPS = [random_map(seed) for seed in range(400)] + [
    random_structured_map(seed) for seed in range(400)
]


def images(form: IndexMap) -> dict[tuple[int, ...], tuple[int, ...]]:
    found = {point: image(form, point) for point in points_of(form.domain)}
    return {point: where for point, where in found.items() if where is not None}


@pytest.mark.parametrize("seed", range(300))
def test_bounds_and_simplification_hold_at_every_point(seed: int) -> None:
    rng = random.Random(seed)
    extents = tuple(rng.randint(1, 5) for _ in range(3))
    load = [np.array([rng.randint(-4, 4) for _ in range(9)])]
    expr = random_expr(rng, 3, 3)
    if seed % 3 == 0:
        expr = (expr + Load(0, [Dim(0) + Dim(1)])) // rng.randint(1, 4) % 5
    condition = random_condition(rng, 3)
    ranges = {0: (int(load[0].min()), int(load[0].max()))}
    interval = bounds(expr, extents, ranges)
    simple = simplify(expr, extents, ranges)
    decided = decide(condition, extents)
    assert interval is not None
    for point in points_of(extents):
        value = value_at(expr, point, load)
        assert interval[0] <= value <= interval[1]
        assert value_at(simple, point, load) == value
        assert decided is None or holds_at(condition, point) == decided


@pytest.mark.parametrize("seed", range(200))
def test_operators_keep_the_value(seed: int) -> None:
    rng = random.Random(seed)
    a, b = random_expr(rng, 2, 2), random_expr(rng, 2, 2)
    k, d = rng.randint(-6, 6), rng.choice((-5, -3, -2, 1, 2, 3, 4, 6, 12))
    for point in points_of((4, 5)):
        x, y = value_at(a, point), value_at(b, point)
        assert value_at(a + b, point) == x + y
        assert value_at(a - b * k, point) == x - y * k
        assert value_at((a * 4 + b * 2) // d, point) == (x * 4 + y * 2) // d
        assert value_at((a * 3 + b * 2 + k) % d, point) == (x * 3 + y * 2 + k) % d
        assert value_at((a // 3) // 2 + (a % 6) % 3, point) == x // 6 + x % 3
        for made, truth in (
            (a < b, x < y),
            (a <= b, x <= y),
            (a > b, x > y),
            (a >= b, x >= y),
            (a.eq(b), x == y),
            (a.ne(b), x != y),
            ((a * 2).ge(k), x * 2 >= k),
        ):
            assert holds_at(made, point) == truth
            assert holds_at(made.negate(), point) != truth


@pytest.mark.parametrize("number", range(len(MAPS)))
def test_proofs_are_sound(number: int) -> None:
    form = MAPS[number]
    valid = images(form)
    points = int(np.prod(form.domain))
    if form.in_bounds():
        for point in points_of(form.domain):
            for expr, size in zip(form.exprs, form.codomain, strict=True):
                assert 0 <= value_at(expr, point) < size
    if form.total():
        assert len(valid) == points
    if form.injective():
        assert len(set(valid.values())) == len(valid)
    if form.surjective():
        assert len(set(valid.values())) == int(np.prod(form.codomain))
    if form.contiguous():
        positions = [
            int(np.ravel_multi_index(valid[p], form.codomain)) if form.codomain else 0
            for p in points_of(form.domain)
        ]
        assert positions == list(range(positions[0], positions[0] + points))


@pytest.mark.parametrize("number", range(len(MAPS)))
def test_the_inverse_is_exact(number: int) -> None:
    form = MAPS[number]
    inverse = form.invert()
    if inverse is None:
        return
    assert {where: point for point, where in images(form).items()} == images(inverse)


def test_one_column_repeated_is_no_identity() -> None:
    repeated = IndexMap((3, 2), (3, 2), (Dim(0), as_expr(0)))
    assert not repeated.is_identity
    assert repeated.as_transpose() is None
    assert IndexMap((3, 1), (3, 1), (Dim(0), as_expr(0))).is_identity


@pytest.mark.parametrize("number", range(len(MAPS)))
def test_recognition_is_sound(number: int) -> None:
    form = MAPS[number]
    codomain, again = form.codomain, None
    if form.is_identity:
        assert form == IndexMap.identity(codomain)
    if (perm := form.as_transpose()) is not None:
        again = IndexMap.transpose(codomain, perm)
        assert images(again) == images(form)
    if (dims := form.as_broadcast()) is not None:
        assert images(IndexMap.broadcast(codomain, form.domain, dims)) == images(form)
    if (pad := form.as_pad()) is not None:
        assert images(IndexMap.pad(codomain, *pad)) == images(form)
    if (axes := form.as_reverse()) is not None:
        assert images(IndexMap.reverse(codomain, axes)) == images(form)
    if (parts := form.as_slice()) is not None:
        for point, where in images(form).items():
            assert where == tuple(a + s * p for a, s, p in zip(*parts, point, strict=True))
    if form.is_reshape:
        assert images(IndexMap.reshape(codomain, form.domain)) == images(form)
    assert form.describe() in {
        "identity",
        "reshape",
        "transpose",
        "reverse",
        "slice",
        "broadcast",
        "pad",
        "reindex",
    }


def test_most_structured_maps_are_decided() -> None:
    """Soundness alone is cheap: this counts what the proofs miss."""
    missed = {"injective": 0, "total": 0, "surjective": 0}
    for form in MAPS[400:]:
        valid = images(form)
        points = int(np.prod(form.domain))
        missed["injective"] += not form.injective() and len(set(valid.values())) == len(valid)
        missed["total"] += not form.total() and len(valid) == points
        missed["surjective"] += not form.surjective() and (
            len(set(valid.values())) == int(np.prod(form.codomain))
        )
    assert missed["injective"] <= 12 and missed["total"] <= 2 and missed["surjective"] <= 16


@pytest.mark.parametrize(
    ("form", "name"),
    [
        (IndexMap.identity((3, 4)), "identity"),
        (IndexMap.transpose((3, 4, 5), (2, 0, 1)), "transpose"),
        (IndexMap.reshape((12,), (3, 4)), "reshape"),
        (IndexMap.reshape((6, 4), (4, 6)), "reshape"),
        (IndexMap.reverse((3, 4), (1,)), "reverse"),
        (IndexMap.slice_((9, 4), (1, 0), (9, 4), (2, 1)), "slice"),
        (IndexMap.broadcast((3, 1), (3, 7), (0, 1)), "broadcast"),
        (IndexMap.pad((3, 4), (1, 0), (0, 2), (1, 0)), "pad"),
        (IndexMap((3,), (4,), (Load(0, [Dim(0)]),)), "gather"),
        (IndexMap((3, 3), (5,), (Dim(0) + Dim(1),)), "reindex"),
    ],
)
def test_names(form: IndexMap, name: str) -> None:
    assert form.describe() == name


@pytest.mark.parametrize(
    ("shape", "middle"),
    [((6, 4), (4, 6)), ((2, 3, 4), (24,)), ((5, 1, 6), (3, 10)), ((8,), (2, 2, 2))],
)
def test_reshape_there_and_back_is_the_identity(
    shape: tuple[int, ...], middle: tuple[int, ...]
) -> None:
    there, back = IndexMap.reshape(shape, middle), IndexMap.reshape(middle, shape)
    assert back.compose(there).is_identity
    inverse = there.invert()
    assert inverse is not None and inverse.total() and inverse.is_reshape
    assert there.injective() and there.surjective() and there.contiguous()


def test_chains_become_one_map() -> None:
    x = IndexMap.transpose((4, 6), (1, 0))
    turned = IndexMap.transpose((6, 4), (1, 0)).compose(x)
    assert turned == IndexMap.identity((4, 6))
    sliced = IndexMap.slice_((8,), (1,), (8,), (2,)).compose(
        IndexMap.slice_((20,), (4,), (20,), (2,))
    )
    assert sliced == IndexMap.slice_((20,), (6,), (20,), (4,))
    assert IndexMap.reverse((7,), (0,)).compose(IndexMap.reverse((7,), (0,))).is_identity
    unpadded = IndexMap.slice_((7,), (2,), (5,)).compose(IndexMap.pad((3,), (2,), (2,)))
    assert unpadded.is_identity


@pytest.mark.parametrize("shape", [(16, 16), (8, 8, 8)])
def test_places_in_a_transposed_array_keep_their_digits(shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    digits, place = IndexMap.reshape(shape, (size,)), IndexMap.reshape((size,), shape)
    turned = IndexMap.transpose(shape, tuple(reversed(range(len(shape)))))
    (there,) = digits.compose(turned).compose(place).exprs
    assert bounds(there, (size,)) == (0, size - 1)
    assert simplify(there.substitute({0: there}), (size,)) == Dim(0)


def test_sums_of_a_number_and_its_quotient() -> None:
    i = Dim(0)
    assert str(16 * i - 255 * (i // 16)) == str(16 * (i % 16) + i // 16) == "d0//16 + 16*(d0%16)"
    assert 4 * (i // 4) + i % 4 == i
    assert i - 4 * (i // 4) == i % 4
    assert str(i + i // 4) == "d0 + d0//4"


def test_inverses_of_the_specialisations() -> None:
    assert IndexMap.slice_((9,), (1,), (9,), (2,)).invert() == IndexMap.pad((4,), (1,), (1,), (1,))
    assert IndexMap.pad((4,), (1,), (1,), (1,)).invert() == IndexMap.slice_((9,), (1,), (9,), (2,))
    perm = IndexMap.transpose((2, 3, 4), (2, 0, 1))
    assert perm.invert() == IndexMap.transpose((4, 2, 3), (1, 2, 0))
    diagonal = IndexMap.from_function((4,), (4, 4), lambda i: (i, i))
    assert diagonal.invert() == IndexMap.from_function(
        (4, 4), (4,), lambda i, j: (i, (i - j).eq(0))
    )
    skewed = IndexMap.from_function((4, 5), (9, 9), lambda i, j: (i + j, i - j + 4))
    assert skewed.injective() and not skewed.surjective()
    assert IndexMap.broadcast((3,), (2, 3), (1,)).invert() is None


def test_windows_of_a_convolution() -> None:
    rows = IndexMap.from_function((6, 3), (8,), lambda i, k: (i + k,))
    assert rows.in_bounds() and rows.surjective() and not rows.injective()
    blocks = IndexMap.from_function((2, 4), (8,), lambda i, k: (4 * i + k,))
    assert blocks.injective() and blocks.surjective() and blocks.contiguous()
    pool = IndexMap.from_function((8,), (2,), lambda i: (i // 4,))
    assert pool.total() and not pool.injective()


def test_loads_are_unknown_until_bounded() -> None:
    form = IndexMap((3,), (4,), (Load(0, [Dim(0)]),))
    assert not form.in_bounds()
    assert not form.in_bounds({0: (0, 3)})
    assert not form.in_bounds({0: (0, 4)}, {0: (3,)})
    assert not form.in_bounds({0: (0, 3)}, {0: (2,)})
    assert form.in_bounds({0: (0, 3)}, {0: (3,)})
    assert form.total({0: (0, 3)}, {0: (3,)})
    assert not form.injective() and form.invert() is None
