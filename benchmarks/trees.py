"""Nests of tuples, lists and dicts, for the frameworks that have no such notion themselves.

Leaves come in JAX's order: dicts by sorted key, ``None`` is no leaf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def leaves(tree: Any) -> list[Any]:
    """The leaves of a nest."""
    if tree is None:
        return []
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def map_leaves(f: Callable[[Any], Any], tree: Any) -> Any:
    """The nest with ``f`` of each leaf in its place."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: map_leaves(f, tree[key]) for key in sorted(tree)}
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_leaves(f, part) for part in tree)
    return f(tree)
