"""Waiting for all arrays of a tree."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core import native

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


@pytest.mark.skipif(native.extension is None, reason="C++")
def test_what_python_has_to_look_at():
    unready = native.extension.unready
    done = functrax.jit(lambda x: x + 1)(X)
    assert unready({"a": [done, (done, None)], "b": 2.0, "c": {"d": deep(done, 100)}}) == []
    pair, keyed, leaf = Pair(done, done), {1: done}, Waited()
    assert unready([pair, {"k": keyed}, leaf, done]) == [pair, keyed, leaf]
    assert len(unready(deep(done, 300))) == 1
