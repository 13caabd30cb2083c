"""Sums that scatter give what the sums that gather give."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from functrax.backends.passes.contractions.inverse_maps import inverse_of
from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap


def gathered(index_map, values, compact=True):
    """``reindex_reduce[add, map]`` by the inverse, one point after the other."""
    inverse = inverse_of(index_map, compact)
    conditions = tuple(c for found in inverse.conditions.values() for c in found)
    back = IndexMap(inverse.domain, index_map.domain, inverse.exprs, conditions)
    summands = back.gather(values)
    computed = summands.sum(tuple(range(inverse.kept, len(inverse.domain))))
    out = inverse.after.gather(computed)
    assert out.shape == index_map.codomain
    return out


def windows(rng):
    """A random map of windows along one axis, with strides, dilations, holes and a flip."""
    places, taps = rng.integers(1, 7, 2)
    stride, dilation, hole = rng.integers(1, 4, 3)
    offset = int(rng.integers(-3, 4))
    size = int(rng.integers(1, 12))
    turned = -1 if rng.integers(4) == 0 else 1
    expr = turned * (int(stride) * Dim(1) + int(dilation) * Dim(2)) - offset
    conditions = ()
    if hole > 1:
        conditions = ((expr % int(hole)).eq(0),)
        expr = expr // int(hole)
    domain = (3, int(places), int(taps), 2)
    return IndexMap(domain, (3, size), (Dim(0), expr), conditions)


@pytest.mark.parametrize("seed", range(4))
def test_windows(seed):
    rng = np.random.default_rng(seed)
    count = 0
    for _ in range(100):
        index_map = windows(rng)
        if inverse_of(index_map) is None:
            continue  # a condition that never holds
        count += 1
        values = rng.integers(-9, 9, index_map.domain).astype(float)
        wanted = index_map.scatter(values, index_map.codomain, "add", 0)
        for compact in (True, False):
            found = gathered(index_map, values, compact)
            np.testing.assert_array_equal(found, wanted, str(index_map))
    assert count > 80


def test_digits():
    """An index that is a number whose digits are the dims is taken apart."""
    for sizes in itertools.product((2, 3), (1, 4), (2, 5)):
        unit = 3
        number = unit * (Dim(2) + sizes[2] * (Dim(1) + sizes[1] * Dim(0))) + 1
        index_map = IndexMap((*sizes, 2), (unit * int(np.prod(sizes)) + 2,), (number,))
        inverse = inverse_of(index_map)
        assert inverse.domain[-1] == 2
        assert inverse.kept == len(inverse.domain) - 1, "only what the map ignores is summed"
        values = np.arange(np.prod(index_map.domain), dtype=float).reshape(index_map.domain)
        wanted = index_map.scatter(values, index_map.codomain, "add", 0)
        np.testing.assert_array_equal(gathered(index_map, values), wanted)


def test_places_without_elements_are_not_computed():
    """Where an array is read with holes, most places meet no element."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(400):
        index_map = windows(rng)
        inverse = inverse_of(index_map)
        if inverse is not None:
            found += inverse.domain != inverse_of(index_map, compact=False).domain
            assert np.prod(inverse.domain[: inverse.kept]) <= 2 * np.prod(index_map.codomain)
    assert found > 10
    holes = IndexMap((3, 9, 2), (3, 3), (Dim(0), Dim(1) // 3), ((Dim(1) % 3).eq(0),))
    assert inverse_of(holes).domain == (3, 3, 2)
    assert inverse_of(holes, compact=False).domain == (3, 9, 2)


def test_an_axis_of_nothing():
    index_map = IndexMap((4, 3), (2, 3), (1, Dim(1)))
    values = np.arange(12.0).reshape(4, 3)
    wanted = index_map.scatter(values, index_map.codomain, "add", 0)
    np.testing.assert_array_equal(gathered(index_map, values), wanted)


def test_strided_sums_say_that_they_divide():
    strided = IndexMap((8, 3), (17,), (2 * Dim(0) + Dim(1),))
    assert inverse_of(strided).divides
    dense = IndexMap((8, 3), (10,), (Dim(0) + Dim(1),))
    assert not inverse_of(dense).divides
    assert inverse_of(dense).domain == (10, 3)


def test_maps_that_have_no_inverse():
    diagonal = IndexMap((4,), (4, 4), (Dim(0), Dim(0)))
    assert inverse_of(diagonal) is None
    folded = IndexMap((8,), (4,), (Dim(0) % 4,))
    assert inverse_of(folded) is None
    empty = IndexMap((0, 3), (3,), (Dim(1),))
    assert inverse_of(empty) is None
