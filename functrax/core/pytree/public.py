"""The functions of pytrees as users call them, for ``functrax.tree_util`` and ``functrax.tree``.

They differ from ``operations``, which transformations call, in one thing: a handle, such as an
array of typed keys, is a leaf here and a node there (``pytree_node.HANDLES_ARE_LEAVES``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from functrax.core.boundaries.tracebacks import as_boundary
from functrax.core.errors.typed import PyTreeError
from functrax.core.pytree import operations, treedef as pytree_def
from functrax.core.pytree.key_paths import KeyPath
from functrax.core.pytree.node import HANDLES_ARE_LEAVES as _LEAVES, registry
from functrax.core.pytree.operations import broadcast_prefix
from functrax.core.pytree.treedef import LEAF_DEF, IsLeaf, PyTreeDef, match_rest

_MISSING = object()


def tree_flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a pytree, from left to right, and its structure.

    Args:
      tree: nested tuples, lists, dicts (in the order of their sorted keys), named tuples, None (a
        node without leaves), and registered types. Whatever is none of these is a leaf.
      is_leaf: called with every subtree; where it is true, the subtree is a leaf.

    Returns:
      ``(leaves, structure)``.

    Raises:
      PyTreeError: the keys of a dict cannot be sorted.

    Example:
      >>> tree_flatten({"b": (1, None), "a": 2})
      ([2, 1], PyTreeDef({'a': *, 'b': (*, None)}))
    """
    return pytree_def.engine.flatten(tree, _LEAVES if is_leaf is None else is_leaf)


def tree_leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of a pytree, from left to right.

    Example:
      >>> tree_leaves({"b": (1, None), "a": 2})
      [2, 1]

    Args:
      tree: a pytree, as for :func:`tree_flatten`.
      is_leaf: called with every subtree; where it is true, the subtree is a leaf.

    Returns:
      A list.

    Raises:
      PyTreeError: the keys of a dict cannot be sorted.
    """
    return pytree_def.engine.flatten(tree, _LEAVES if is_leaf is None else is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """The structure of a pytree.

    Example:
      >>> tree_structure([1, (2, 3)])
      PyTreeDef([*, (*, *)])

    Args:
      tree: a pytree, as for :func:`tree_flatten`.
      is_leaf: called with every subtree; where it is true, the subtree is a leaf.

    Returns:
      A structure, which can be compared and hashed.

    Raises:
      PyTreeError: the keys of a dict cannot be sorted.
    """
    return pytree_def.engine.flatten(tree, _LEAVES if is_leaf is None else is_leaf)[1]


@as_boundary
def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Applies a function to the leaves of a tree, or of several trees together.

    Args:
      f: takes a leaf of ``tree`` and what each tree of ``rest`` has in its place.
      tree: its structure is the structure of the result.
      *rest: trees that begin with the structure of ``tree``.
      is_leaf: called with every subtree of ``tree``; where it is true, the subtree is a leaf.

    Returns:
      A tree of the structure of ``tree`` with the function's results as leaves.

    Raises:
      PyTreeError: a tree of ``rest`` does not fit; the message names the path.

    Example:
      >>> tree_map(lambda x, y: x + y, {"a": 1, "b": (2, None)}, {"a": 10, "b": (20, None)})
      {'a': 11, 'b': (22, None)}
    """
    return pytree_def.engine.map(f, tree, rest, _LEAVES if is_leaf is None else is_leaf)


@as_boundary
def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Folds the leaves of a tree from the left, beginning with ``initializer`` if it is given.

    Args:
      function: takes what there is so far, and a leaf.
      tree: a pytree, as for :func:`tree_flatten`.
      initializer: what to begin with; the first leaf if it is left out.
      is_leaf: called with every subtree; where it is true, the subtree is a leaf.

    Returns:
      What the last call of the function returned.

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

    Args:
      operation: takes two leaves, or what it returned for others.
      tree: a pytree, as for :func:`tree_flatten`.
      identity: what there is without leaves.
      is_leaf: called with every subtree; where it is true, the subtree is a leaf.

    Returns:
      What the last call returned; a single leaf itself.

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


@as_boundary
def tree_all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether all leaves of a tree are true.

    Args:
      tree: a pytree, as for :func:`tree_flatten`.
      is_leaf: called with every subtree; where it is true, the subtree is a leaf.

    Returns:
      True of a tree without leaves.

    Raises:
      PyTreeError: the keys of a dict cannot be sorted.

    Example:
      >>> tree_all([True, {"a": True}])
      True
    """
    return all(tree_leaves(tree, is_leaf))


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Whether all elements of an iterable are leaves.

    Args:
      iterable: of pytrees.
      is_leaf: called with every subtree; where it is true, the subtree is a leaf.

    Returns:
      True of an empty iterable.

    Raises:
      PyTreeError: the keys of a dict cannot be sorted.

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

    Returns:
      A tree of ``inner_treedef`` composed with ``outer_treedef``.

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
    if data is not None and data[0] in registry:
        return True
    return any(map(_holds_custom, treedef.children()))


@as_boundary
def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """A tree of the structure of ``full_tree`` with the leaves of a prefix of it.

    Args:
      prefix_tree: a tree that ends, in leaves, where ``full_tree`` may go on.
      full_tree: a pytree.
      is_leaf: called with every subtree of the prefix; where it is true, the subtree is a leaf.

    Returns:
      A tree that has each leaf of the prefix as often as ``full_tree`` has leaves there.

    Raises:
      PyTreeError: the prefix does not fit; the message names the path.

    Example:
      >>> tree_broadcast({"a": 1, "b": 2}, {"a": (0, 0), "b": [0]})
      {'a': (1, 1), 'b': [2]}
    """
    stops = _LEAVES if is_leaf is None else is_leaf
    leaves = broadcast_prefix(prefix_tree, full_tree, stops, _LEAVES, function="tree_broadcast")
    return tree_structure(full_tree).unflatten(leaves)


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., Any] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """As :func:`tree_flatten`, with ``(key path, leaf)`` for each leaf.

    Args:
      tree: a pytree, as for :func:`tree_flatten`.
      is_leaf: called with every subtree; where it is true, the subtree is a leaf.
      is_leaf_takes_path: call ``is_leaf(path, subtree)`` instead.

    Returns:
      ``(pairs, structure)``.

    Raises:
      PyTreeError: the keys of a dict cannot be sorted.

    Example:
      >>> tree_flatten_with_path({"a": [5]})[0]
      [((DictKey(key='a'), SequenceKey(idx=0)), 5)]
    """
    stops: Any = _LEAVES if is_leaf is None else is_leaf
    if is_leaf is not None and not is_leaf_takes_path:
        stops = lambda path, node: is_leaf(node)  # noqa: E731
    return operations.flatten_with_path(tree, stops)


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., Any] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each with its key path; see :func:`tree_flatten_with_path`.

    Args:
      tree: a pytree, as for :func:`tree_flatten`.
      is_leaf: called with every subtree; where it is true, the subtree is a leaf.
      is_leaf_takes_path: call ``is_leaf(path, subtree)`` instead.

    Returns:
      A list of ``(key path, leaf)``.

    Raises:
      PyTreeError: the keys of a dict cannot be sorted.

    Example:
      >>> tree_leaves_with_path({"a": [5]})
      [((DictKey(key='a'), SequenceKey(idx=0)), 5)]
    """
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

    Args:
      f: takes a key path, a leaf of ``tree`` and what each tree of ``rest`` has in its place.
      tree: its structure is the structure of the result.
      *rest: trees that begin with the structure of ``tree``.
      is_leaf: called with every subtree of ``tree``; where it is true, the subtree is a leaf.
      is_leaf_takes_path: call ``is_leaf(path, subtree)`` instead.

    Returns:
      A tree of the structure of ``tree`` with the function's results as leaves.

    Raises:
      PyTreeError: a tree of ``rest`` does not fit; the message names the path.

    Example:
      >>> from functrax.tree_util import keystr
      >>> tree_map_with_path(lambda path, x: keystr(path) + f" is {x}", {"a": [5]})
      {'a': ["['a'][0] is 5"]}
    """
    found, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = match_rest(pytree_def.engine, "tree_map_with_path", treedef, rest)
    rows = zip(found, *columns) if columns else ((pair,) for pair in found)
    return treedef.unflatten([f(*pair, *others) for pair, *others in rows])
