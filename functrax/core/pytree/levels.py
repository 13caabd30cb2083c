"""One level of a pytree at a time, and the registry as an object, as JAX has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from functrax.core.boundaries.tracebacks import as_boundary, with_boundaries
from functrax.core.errors.typed import PyTreeError
from functrax.core.pytree import node as pn
from functrax.core.pytree.public import tree_flatten
from functrax.core.pytree.registry import (
    FlattenWithKeys,
    Unflatten,
    register_dataclass,
    register_pytree_node,
)
from functrax.core.pytree.treedef import IsLeaf, PyTreeDef


def is_tree_node(nodetype: Any) -> bool:
    """Whether objects of a type are containers: built-in ones, or of a registered type.

    Args:
      nodetype: a type.

    Returns:
      True also of named tuples, though their types are not registered.

    Raises:
      TypeError: if it cannot be hashed.

    Example:
      >>> is_tree_node(dict), is_tree_node(int)
      (True, False)
    """
    return pn.kind_for_users(nodetype) != pn.LEAF


@as_boundary
def flatten_one_level(tree: Any) -> tuple[Any, Any]:
    """The children of a container, which may be containers themselves, and its data.

    Args:
      tree: a tuple, list, dict, None, named tuple, or an object of a registered type.

    Returns:
      ``(children, data)``: the data of a dict are its keys, of a named tuple its type.

    Raises:
      PyTreeError: for a leaf.

    Example:
      >>> flatten_one_level([1, {"a": 2}])
      ([1, {'a': 2}], None)
      >>> flatten_one_level({"b": 1, "a": (2, 3)})
      (((2, 3), 1), ('a', 'b'))
    """
    kind = pn.kind_for_users(type(tree))
    if kind == pn.LEAF:
        _refuse("flatten_one_level", tree)
    if kind == pn.NAMEDTUPLE:
        return list(tree), type(tree)
    children, data = pn.one_level(kind, tree)
    return (children if kind in (pn.TUPLE, pn.DICT, pn.NONE) else list(children)), data


@as_boundary
def flatten_one_level_with_keys(tree: Any) -> tuple[Any, Any]:
    """As :func:`flatten_one_level`, with ``(key, child)`` for each child.

    Args:
      tree: a container.

    Returns:
      ``(pairs, data)``.

    Raises:
      PyTreeError: for a leaf.

    Example:
      >>> flatten_one_level_with_keys({"a": 5})
      (((DictKey(key='a'), 5),), ('a',))
    """
    kind = pn.kind_for_users(type(tree))
    if kind == pn.LEAF:
        _refuse("flatten_one_level_with_keys", tree)
    pairs, data = pn.one_level_with_keys(kind, tree)
    return tuple(pairs), type(tree) if kind == pn.NAMEDTUPLE else data


def _refuse(function: str, tree: Any) -> NoReturn:
    raise PyTreeError(
        f"{function}: can't tree-flatten type: {type(tree)}",
        got=f"a leaf of type {type(tree).__name__}",
        fix="functrax.tree_util.is_tree_node(type(x)) tells containers from leaves",
    )


@with_boundaries
class PyTreeRegistry:
    """The types that are containers.  There is one registry, :data:`default_registry`."""

    __slots__ = ()

    def flatten(self, tree: Any, leaf_predicate: IsLeaf | None = None) -> tuple[Any, PyTreeDef]:
        """Leaves and structure."""
        return tree_flatten(tree, leaf_predicate)

    def flatten_one_level(self, tree: Any) -> tuple[Any, Any] | None:
        """Children and data of a container, None for a leaf."""
        return flatten_one_level(tree) if is_tree_node(type(tree)) else None

    def flatten_one_level_with_keys(self, tree: Any) -> tuple[Any, Any] | None:
        """Children with their keys, and data, of a container, None for a leaf."""
        return flatten_one_level_with_keys(tree) if is_tree_node(type(tree)) else None

    def is_node(self, nodetype: type) -> bool:
        """Whether objects of a type are containers."""
        return is_tree_node(nodetype)

    def register_node(
        self,
        nodetype: type,
        to_iterable: Callable[[Any], Any],
        from_iterable: Unflatten,
        to_iterable_with_keys: FlattenWithKeys | None = None,
    ) -> None:
        """As ``register_pytree_node``."""
        register_pytree_node(nodetype, to_iterable, from_iterable, to_iterable_with_keys)

    def register_dataclass_node(
        self, nodetype: type, data_fields: list[str], meta_fields: list[str]
    ) -> None:
        """As ``register_dataclass``."""
        register_dataclass(nodetype, data_fields, meta_fields)


default_registry = PyTreeRegistry()

#: What ``functrax.tree_util`` has of this module.
PUBLIC: Final = (
    *("default_registry", "flatten_one_level", "flatten_one_level_with_keys"),
    "is_tree_node",
)
