"""Pytrees: nested containers, seen as a structure and a list of leaves.

This is the whole vocabulary, under the names that ``functrax.tree_util`` and ``functrax.tree``
publish.  What is not defined here comes from four files, to be read in this order: ``pytree_keys``
(key paths), ``pytree_node`` (what a node is), ``pytree_def`` (structures, flattening, the text of a
mismatch; ``pytree_python`` and C++ hold the loops), ``pytree_registry`` (users' types).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from functrax.core import pytree_def, pytree_node as pn
from functrax.core.errors import PyTreeError
from functrax.core.pytree_def import (
    LEAF_DEF,
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
from functrax.core.pytree_keys import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    SequenceKey,
    keystr,
)
from functrax.core.pytree_registry import (
    Partial,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    static,
)
from functrax.core.tracebacks import as_boundary

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "broadcast_prefix",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]

_MISSING = object()


@as_boundary
def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Applies a function to the leaves of a tree, or of several trees together.

    Args:
      f: takes a leaf of ``tree`` and what each tree of ``rest`` has in its place.
      tree: its structure is the structure of the result.
      *rest: trees that begin with the structure of ``tree``.
      is_leaf: called with every subtree of ``tree``; where it is true, the subtree is a leaf.

    Raises:
      PyTreeError: a tree of ``rest`` does not fit; the message names the path.

    Example:
      >>> tree_map(lambda x, y: x + y, {"a": 1, "b": (2, None)}, {"a": 10, "b": (20, None)})
      {'a': 11, 'b': (22, None)}
    """
    return pytree_def.engine.map(f, tree, rest, is_leaf)


@as_boundary
def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Folds the leaves of a tree from the left, beginning with ``initializer`` if it is given.

    Raises:
      PyTreeError: there are no leaves and no initializer.

    Example:
      >>> tree_reduce(lambda total, leaf: total + leaf, [1, (2, 3)])
      6
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is not _MISSING:
        return functools.reduce(function, leaves, initializer)
    if not leaves:
        raise PyTreeError(
            "tree_reduce: there are no leaves to reduce",
            got=str(tree_structure(tree, is_leaf)),
            fix="give an initializer",
        )
    return functools.reduce(function, leaves)


@as_boundary
def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Reduces the leaves by an associative operation, as a balanced tree of calls.

    Raises:
      PyTreeError: there are no leaves and no identity.

    Example:
      >>> tree_reduce_associative(lambda x, y: x + y, [1, (2, 3)])
      6
    """
    values = tree_leaves(tree, is_leaf)
    if not values:
        return tree_reduce(operation, tree, identity, is_leaf)
    while len(values) > 1:
        pairs = [operation(x, y) for x, y in zip(values[::2], values[1::2])]
        values = pairs + values[len(values) & ~1 :]
    return values[0]


def filled(treedef: PyTreeDef) -> tuple[Any, list[object]]:
    """A tree of a structure whose leaves are plain objects, and these.

    JAX fills structures with such objects, so the classes of libraries take them for arrays.
    """
    marks = [object() for _ in range(treedef.num_leaves)]
    return tree_unflatten(treedef, marks), marks


@as_boundary
def tree_all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether all leaves of a tree are true.

    Example:
      >>> tree_all([True, {"a": True}])
      True
    """
    return all(tree_leaves(tree, is_leaf))


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Whether all elements of an iterable are leaves.

    Example:
      >>> all_leaves([1, 2]), all_leaves([1, None])
      (True, False)
    """
    return all(tree_structure(element, is_leaf) == LEAF_DEF for element in iterable)


@as_boundary
def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turns a tree of trees inside out.

    Args:
      outer_treedef: the structure at the root.
      inner_treedef: the structure at each of its leaves; found from the first one when None.
      pytree_to_transpose: a tree of ``outer_treedef`` composed with ``inner_treedef``.

    Raises:
      PyTreeError: the tree is not of that structure.

    Example:
      >>> tree_transpose(tree_structure([0, 0]), None, [(1, 2), (3, 4)])
      ([1, 3], [2, 4])
    """
    if inner_treedef is None:
        subtrees = outer_treedef.flatten_up_to(pytree_to_transpose)
        inner_treedef = tree_structure(subtrees[0] if subtrees else None)
    expected = outer_treedef.compose(inner_treedef)
    leaves, treedef = tree_flatten(pytree_to_transpose)
    # A registered type may keep in its data what hangs on the children, so the leaves count there.
    if len(leaves) != expected.num_leaves or not (
        treedef == expected or _holds_custom(outer_treedef)
    ):
        if not _holds_custom(outer_treedef):
            outer_treedef.flatten_up_to(pytree_to_transpose)  # an error that names the place
        raise PyTreeError(
            "tree_transpose: Mismatch: the tree is not the inner structure at each leaf of the "
            "outer one",
            got=f"outer {outer_treedef}\ninner {inner_treedef}\ntree  {treedef}",
            fix=f"give a tree of the structure {expected}",
        )
    width = inner_treedef.num_leaves
    columns = [outer_treedef.unflatten(leaves[i::width]) for i in range(width)]
    return inner_treedef.unflatten(columns)


def _holds_custom(treedef: PyTreeDef) -> bool:
    data = treedef.node_data()
    if data is not None and data[0] in pn.registry:
        return True
    return any(map(_holds_custom, treedef.children()))


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., Any] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """As :func:`tree_flatten`, with ``(key path, leaf)`` for each leaf.

    Args:
      tree: a pytree.
      is_leaf: called with every subtree; where it is true, the subtree is a leaf.
      is_leaf_takes_path: call ``is_leaf(path, subtree)`` instead.

    Example:
      >>> tree_flatten_with_path({"a": [5]})[0]
      [((DictKey(key='a'), SequenceKey(idx=0)), 5)]
    """
    found: list[tuple[KeyPath, Any]] = []
    stops = is_leaf
    if is_leaf is not None and not is_leaf_takes_path:
        stops = lambda path, node: is_leaf(node)  # noqa: E731
    return found, _walk((), tree, stops, found)


def _walk(
    path: KeyPath,
    node: Any,
    stops: Callable[..., Any] | None,
    found: list[tuple[KeyPath, Any]],
) -> PyTreeDef:
    # Not a closure: one that calls itself is a cycle, which would keep the leaves alive.
    stop = stops is not None and stops(path, node)
    kind = pn.LEAF if stop else pn.kind_of(type(node))
    if kind == pn.LEAF:
        found.append((path, node))
        return PyTreeDef(pn.LEAF, None, None, ())
    pairs, data = pn.one_level_with_keys(kind, node)
    children = tuple([_walk((*path, key), child, stops, found) for key, child in pairs])
    return PyTreeDef(kind, type(node), data, children)


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., Any] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each with its key path; see :func:`tree_flatten_with_path`."""
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


@as_boundary
def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., Any] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """As :func:`tree_map`, with the key path as the first argument of the function.

    Raises:
      PyTreeError: a tree of ``rest`` does not fit; the message names the path.

    Example:
      >>> tree_map_with_path(lambda path, x: keystr(path) + f" is {x}", {"a": [5]})
      {'a': ["['a'][0] is 5"]}
    """
    found, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = pytree_def.match_rest(pytree_def.engine, "tree_map_with_path", treedef, rest)
    rows = zip(found, *columns) if columns else ((pair,) for pair in found)
    return treedef.unflatten([f(*pair, *others) for pair, *others in rows])


def broadcast_prefix(
    prefix_tree: Any,
    full_tree: Any,
    is_leaf: IsLeaf | None = None,
    *,
    function: str = "broadcast_prefix",
    names: tuple[str, str] = ("the prefix", "the tree"),
) -> list[Any]:
    """For each leaf of a tree, the leaf of a prefix of the tree that stands above it.

    Args:
      prefix_tree: a tree with leaves where ``full_tree`` may have subtrees.
      full_tree: the tree.
      is_leaf: for ``prefix_tree``; where it is true, the subtree is a leaf.
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
        result += [value] * tree_structure(subtree).num_leaves
    return result


@as_boundary
def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """A tree of the structure of ``full_tree`` with the leaves of a prefix of it.

    Raises:
      PyTreeError: the prefix does not fit; the message names the path.

    Example:
      >>> tree_broadcast({"a": 1, "b": 2}, {"a": (0, 0), "b": [0]})
      {'a': (1, 1), 'b': [2]}
    """
    leaves = broadcast_prefix(prefix_tree, full_tree, is_leaf, function="tree_broadcast")
    return tree_structure(full_tree).unflatten(leaves)
