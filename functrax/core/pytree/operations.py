"""Pytrees: nested containers, seen as a structure and a list of leaves.

This is what transformations and libraries of functrax use; ``public`` has what users call.  What
is not defined here comes from four files, to be read in this order: ``key_paths``, ``node`` (what a
node is), ``treedef`` (structures, flattening, the text of a mismatch; ``python_twin`` and C++ hold
the loops), ``registry`` (users' types).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrax.core.pytree import node as pn, treedef as pytree_def
from functrax.core.pytree.key_paths import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    SequenceKey,
    keystr,
)
from functrax.core.pytree.registry import (
    Partial,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    static,
)
from functrax.core.pytree.treedef import (
    IsLeaf,
    PyTreeDef,
    mismatch_error,
    tree_flatten,
    tree_leaves,
    tree_structure,
    tree_unflatten,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "broadcast_prefix",
    "in_handles",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "static",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_map",
    "tree_structure",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]


def filled(treedef: PyTreeDef) -> tuple[Any, list[object]]:
    """A tree of a structure whose leaves are plain objects, and these.

    JAX fills structures with such objects, so the classes of libraries take them for arrays.
    """
    marks = [object() for _ in range(treedef.num_leaves)]
    return tree_unflatten(treedef, marks), marks


def in_handles(treedef: PyTreeDef) -> list[bool]:
    """Which leaves of a structure are arrays that a handle holds."""
    return _in_handles(treedef, False)


def _in_handles(node: pn.TreeNode, inside: bool) -> list[bool]:
    if node._kind == pn.LEAF:
        return [inside]
    inside = inside or (node._type is not None and pn.is_handle(node._type))
    return [flag for child in node._children for flag in _in_handles(child, inside)]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """The tree of what a function gives for the leaves of a tree, or of several trees together."""
    return pytree_def.engine.map(f, tree, rest, is_leaf)


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf | None = None
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """As :func:`tree_flatten`, with ``(key path, leaf)`` for each leaf."""
    stops = None if is_leaf is None else lambda path, node: is_leaf(node)
    return flatten_with_path(tree, stops)


def flatten_with_path(
    tree: Any, stops: Callable[[KeyPath, Any], Any] | None
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """As :func:`tree_flatten_with_path`, with an ``is_leaf`` of the path and the subtree.

    As everywhere, handles are leaves unless it is None.
    """
    found: list[tuple[KeyPath, Any]] = []
    return found, _walk((), tree, stops, found)


def _walk(
    path: KeyPath,
    node: Any,
    stops: Callable[..., Any] | None,
    found: list[tuple[KeyPath, Any]],
) -> PyTreeDef:
    # Not a closure: one that calls itself is a cycle, which would keep the leaves alive.
    handles = None if stops is None else pn.HANDLES_ARE_LEAVES
    stop = stops is not None and stops is not handles and stops(path, node)
    kind = pn.LEAF if stop else pn.kind_in_walk(node, handles)
    if kind == pn.LEAF:
        found.append((path, node))
        return PyTreeDef(pn.LEAF, None, None, ())
    pairs, data = pn.one_level_with_keys(kind, node)
    own = pn.is_handle(type(node))  # its arrays are called as it is
    children = tuple(
        [_walk(path if own else (*path, key), child, stops, found) for key, child in pairs]
    )
    return PyTreeDef(kind, type(node), data, children)


def broadcast_prefix(
    prefix_tree: Any,
    full_tree: Any,
    is_leaf: IsLeaf | None = None,
    full_is_leaf: IsLeaf | None = None,
    *,
    function: str = "broadcast_prefix",
    names: tuple[str, str] = ("the prefix", "the tree"),
) -> list[Any]:
    """For each leaf of a tree, the leaf of a prefix of the tree that stands above it.

    Args:
      prefix_tree: a tree with leaves where ``full_tree`` may have subtrees.
      full_tree: the tree.
      is_leaf: for ``prefix_tree``; where it is true, the subtree is a leaf.
      full_is_leaf: the same for ``full_tree``.
      function: the public function to name in an error.
      names: what to call the two trees in an error, such as ``("in_axes", "the arguments")``.

    Raises:
      PyTreeError: the prefix does not fit; the message names the path.

    Example:
      >>> broadcast_prefix((0, None), ([1, 2], {"a": 3}), is_leaf=lambda x: x is None)
      [0, 0, None]
    """
    values, treedef = tree_flatten(prefix_tree, is_leaf)
    subtrees = pytree_def.engine.flatten_up_to(treedef, full_tree)
    if subtrees is None:
        raise mismatch_error(function, names[0], treedef, names[1], full_tree)
    result: list[Any] = []
    for value, subtree in zip(values, subtrees):
        result += [value] * tree_structure(subtree, full_is_leaf).num_leaves
    return result
