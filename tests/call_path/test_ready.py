"""Waiting for all arrays of a tree."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.errors.typed import DonatedBufferError, PyTreeError

Pair = namedtuple("Pair", "left right")
X = jnp.arange(3.0)


class Waited:
    """A leaf of the user's, which counts how often somebody waited for it."""

    def __init__(self):
        self.times = 0

    def block_until_ready(self):
        self.times += 1


def deep(x, depth):
    for _ in range(depth):
        x = [x]
    return x


@pytest.mark.parametrize("tree", [X, [X], {"a": X}, (X, None, 2.0), np.ones(2), {"b": deep(X, 9)}])
def test_it_gives_back_the_tree(tree):
    assert functrax.block_until_ready(tree) is tree


def test_every_leaf_is_waited_for_once():
    leaf = Waited()
    tree = {"a": [leaf, (leaf, None)], "n": Pair(leaf, {"b": deep(leaf, 300)}), "x": X}
    functrax.block_until_ready(tree)
    assert leaf.times == 4
    functrax.block_until_ready({1: leaf, 2: [X, leaf]})
    assert leaf.times == 6


def test_recorded_arrays_are_computed():
    x = X + 1
    functrax.block_until_ready({"x": [x, x * 2]})
    assert x.is_ready()


def test_arrays_of_every_kind_of_node_are_computed():
    x = X + 1
    arrays = [x * n for n in range(6)]
    first, second, *others, last = arrays
    keyed = {1: second, 2: 3.0}
    tree = [first, Pair(keyed, OrderedDict(a=others)), deep(last, 300)]
    functrax.block_until_ready(tree)
    assert all(a.is_ready() for a in arrays)


def test_a_deleted_array_is_refused():
    x, y = X + 1, X + 2
    y.delete()
    with pytest.raises(DonatedBufferError, match="deleted or donated"):
        functrax.block_until_ready([x, y])


def test_keys_that_cannot_be_sorted_are_refused():
    with pytest.raises(PyTreeError, match="cannot be sorted"):
        functrax.block_until_ready({1: X, "a": X})


def test_what_a_leaf_raises_is_raised():
    class Broken:
        def block_until_ready(self):
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        functrax.block_until_ready([X + 1, Broken()])


def test_values_are_fetched_by_one_program():
    x = X + 1
    first, (second, name) = functrax.device_get([x * 2, (x * 3, "name")])
    np.testing.assert_array_equal(first, [2.0, 4.0, 6.0])
    np.testing.assert_array_equal(second, [3.0, 6.0, 9.0])
    assert name == "name"
