"""The Python twin of backends/native/pytree.cpp and pytree_map.cpp: the loops over pytrees.

A tree goes in; a list of leaves and a structure of :class:`TreeNode` objects come out, and the
other way round.  Both halves are told which subclass of ``TreeNode`` to build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from functrax.core.pytree import node as pn
from functrax.core.pytree.node import TreeNode

N = TypeVar("N", bound=TreeNode)

_HASH_PRIME = 1099511628211  # of the FNV hash
_HASH_MASK = (1 << 60) - 1  # what both halves can hold, and hash() leaves as it is


class PythonEngine(Generic[N]):
    """Flatten, unflatten, map and compare, in Python.

    Args:
      node_class: the subclass of TreeNode to build.
      leaf: the structure of a leaf, shared by all leaves.
      match_rest: takes further trees apart as the first one; called with this object, the name of
        the function, the structure, and the trees.
    """

    def __init__(
        self, node_class: type[N], leaf: N, match_rest: Callable[..., list[list[Any]]]
    ) -> None:
        self._node_class = node_class
        self._leaf = leaf
        self._match_rest = match_rest

    def flatten(self, tree: Any, is_leaf: Callable[[Any], Any] | None) -> tuple[list[Any], N]:
        """The leaves from left to right, and the structure."""
        leaves: list[Any] = []
        return leaves, self._flatten(tree, is_leaf, leaves)

    def _flatten(self, tree: Any, is_leaf: Callable[[Any], Any] | None, leaves: list[Any]) -> N:
        kind = pn.kind_in_walk(tree, is_leaf)
        if kind == pn.LEAF:
            leaves.append(tree)
            return self._leaf
        children, data = pn.one_level(kind, tree)
        below = tuple([self._flatten(child, is_leaf, leaves) for child in children])
        return self._node_class(kind, type(tree), data, below)

    def unflatten(self, treedef: N, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with these leaves."""
        values = tuple(leaves)
        if len(values) != treedef.num_leaves:
            pn.wrong_count(treedef.num_leaves, len(values))
        return self._unflatten(treedef, iter(values))

    def _unflatten(self, node: TreeNode, leaves: Iterator[Any]) -> Any:
        kind = node._kind
        if kind == pn.LEAF:
            return next(leaves)
        if kind == pn.NONE:
            return None
        children = [self._unflatten(child, leaves) for child in node._children]
        if kind == pn.LIST:
            return children
        if kind == pn.TUPLE:
            return tuple(children)
        if kind == pn.DICT:
            return dict(zip(node._data, children))
        assert node._type is not None
        if kind == pn.NAMEDTUPLE:
            return node._type(*children)
        return pn.registry[node._type].unflatten(node._data, tuple(children))

    def flatten_up_to(self, treedef: N, tree: Any) -> list[Any] | None:
        """The subtrees at the structure's leaves; None when the tree does not have it on top."""
        subtrees: list[Any] = []
        return subtrees if self._flatten_up_to(treedef, tree, subtrees) else None

    def _flatten_up_to(self, node: TreeNode, tree: Any, subtrees: list[Any]) -> bool:
        if node._kind == pn.LEAF:
            subtrees.append(tree)
            return True
        children = matching_children(node, tree)
        if children is None:
            return False
        return all(
            self._flatten_up_to(below, child, subtrees)
            for below, child in zip(node._children, children)
        )

    def map(
        self,
        f: Callable[..., Any],
        tree: Any,
        rest: tuple[Any, ...],
        is_leaf: Callable[[Any], Any] | None,
    ) -> Any:
        """The tree of the results of ``f`` on the leaves and what other trees have there."""
        leaves, treedef = self.flatten(tree, is_leaf)
        columns = self._match_rest(self, "tree_map", treedef, rest)
        return self.unflatten(treedef, [f(*row) for row in zip(leaves, *columns)])

    def equal(self, left: TreeNode, right: TreeNode) -> bool:
        """Whether two structures are the same."""
        if left is right:
            return True
        if (
            left._kind != right._kind
            or left._type is not right._type
            or left.num_leaves != right.num_leaves
            or left.num_nodes != right.num_nodes
            or len(left._children) != len(right._children)
            or not same_data(left._data, right._data)
        ):
            return False
        return all(map(self.equal, left._children, right._children))

    def hash(self, node: TreeNode) -> int:
        """A hash that agrees with ``equal``; data that cannot be hashed is left out of it."""
        if node._hash is not None:
            return node._hash
        result = _mix(_mix(0, node._kind), hash(node._type) if node._type is not None else 0)
        try:
            result = _mix(result, hash(node._data) if node._data is not None else 0)
        except TypeError:
            result = _mix(result, 0)
        for child in node._children:
            result = _mix(result, self.hash(child))
        node._hash = result
        return result


def _mix(seed: int, value: int) -> int:
    return ((seed ^ value) * _HASH_PRIME) & _HASH_MASK


def same_data(left: Any, right: Any) -> bool:
    """Whether the auxiliary data of two nodes is the same."""
    return left is right or bool(left == right)


def matching_children(node: TreeNode, tree: Any) -> tuple[Any, ...] | None:
    """The children of ``tree`` when its top level is that of ``node`` (not a leaf), else None."""
    given: type = type(tree)
    if given is not node._type:
        return None
    if node._kind == pn.DICT:
        return _children_by_keys(node._data, tree)
    children, data = pn.one_level(node._kind, tree)
    same = len(children) == len(node._children) and same_data(node._data, data)
    return children if same else None


def _children_by_keys(keys: tuple[Any, ...], tree: dict[Any, Any]) -> tuple[Any, ...] | None:
    """The children under exactly these keys; not sorted, for the dict's own may not be sortable."""
    if len(tree) != len(keys) or not all(key in tree for key in keys):
        return None
    return tuple([tree[key] for key in keys])
