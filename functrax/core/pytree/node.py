"""What a pytree node is: the kinds of containers, the registry of users' types, one level.

:class:`TreeNode` is the data of a tree's structure: a kind, the container's type, what else is
needed to rebuild it (the keys of a dict), and the children.  ``registry`` maps a registered type
to its :class:`Registration`.  :func:`kind_of` decides what an object is, and :func:`one_level`
takes one container apart.  Everything about pytrees rests on these two; the Python twin calls
them, and the C++ half follows the same rules over the same registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from functrax.core.errors.typed import PyTreeError
from functrax.core.pytree.key_paths import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    SequenceKey,
)

# The kinds, also written down in backends/native/pytree.cpp.
LEAF: Final = 0
NONE: Final = 1
TUPLE: Final = 2
LIST: Final = 3
DICT: Final = 4
NAMEDTUPLE: Final = 5
CUSTOM: Final = 6

_BUILTIN_KINDS: dict[type, int] = {type(None): NONE, tuple: TUPLE, list: LIST, dict: DICT}


class TreeNode:
    """The structure of one node and of all below it; never changed once it is made.

    Args:
      kind: LEAF, NONE, TUPLE, LIST, DICT, NAMEDTUPLE or CUSTOM.
      node_type: the container's type, None for a leaf.
      data: sorted keys for a dict, auxiliary data for a registered type, else None.
      children: the structures of the children.
    """

    # C++ writes these slots directly, by their offsets.
    __slots__ = ("_children", "_data", "_hash", "_kind", "_type", "num_leaves", "num_nodes")

    def __init__(
        self, kind: int, node_type: type | None, data: Any, children: tuple[Any, ...]
    ) -> None:
        self._kind: int = kind
        self._type: type | None = node_type
        self._data: Any = data
        self._children: tuple[Any, ...] = children
        self._hash: int | None = None
        self.num_leaves: int = 1 if kind == LEAF else sum(c.num_leaves for c in children)
        self.num_nodes: int = 1 + sum(c.num_nodes for c in children)


class Registration(NamedTuple):
    """How to take apart and rebuild a registered type."""

    flatten: Callable[[Any], tuple[Iterable[Any], Any]]
    unflatten: Callable[[Any, tuple[Any, ...]], Any]
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[KeyEntry, Any]], Any]] | None = None
    is_handle: bool = False


registry: dict[type, Registration] = {}

#: An ``is_leaf`` with which handles are leaves, and which is not called.  A handle holds arrays and
#: stands for one that the language does not have, as an array of typed keys does: users see a leaf,
#: and transformations, which give no ``is_leaf``, a node whose leaves are arrays.
HANDLES_ARE_LEAVES: Final[Any] = type("HandlesAreLeaves", (), {"__slots__": ()})()


def kind_of(node_type: type) -> int:
    """The kind of node that an object of this type is."""
    kind = _BUILTIN_KINDS.get(node_type)
    if kind is not None:
        return kind
    if node_type in registry:
        return CUSTOM
    if issubclass(node_type, tuple) and hasattr(node_type, "_fields"):
        return NAMEDTUPLE
    return LEAF


def is_handle(node_type: type) -> bool:
    """Whether objects of a type are handles."""
    registration = registry.get(node_type)
    return registration is not None and registration.is_handle


def kind_for_users(node_type: type) -> int:
    """As :func:`kind_of`, where handles are leaves."""
    return LEAF if is_handle(node_type) else kind_of(node_type)


def kind_in_walk(tree: Any, is_leaf: Callable[[Any], Any] | None) -> int:
    """The kind of node that an object is where a tree is taken apart with ``is_leaf``."""
    if is_leaf is None:
        return kind_of(type(tree))
    if is_leaf is not HANDLES_ARE_LEAVES and is_leaf(tree):
        return LEAF
    return kind_for_users(type(tree))


def one_level(kind: int, tree: Any) -> tuple[tuple[Any, ...], Any]:
    """The children and the data of a container (not of a leaf)."""
    if kind in (TUPLE, LIST, NAMEDTUPLE):
        return tuple(tree), None
    if kind == DICT:
        keys = sorted_keys(tree)
        return tuple([tree[key] for key in keys]), keys
    if kind == NONE:
        return (), None
    node_type = type(tree)
    return checked_children(node_type, registry[node_type].flatten(tree))


def one_level_with_keys(kind: int, tree: Any) -> tuple[list[tuple[KeyEntry, Any]], Any]:
    """The keys and children, and the data, of a container (not of a leaf)."""
    if kind == CUSTOM:
        with_keys = registry[type(tree)].flatten_with_keys
        if with_keys is not None:
            pairs, data = checked_children(type(tree), with_keys(tree))
            return [(key, child) for key, child in pairs], data
    children, data = one_level(kind, tree)
    keys: Iterable[KeyEntry]
    if kind == DICT:
        keys = map(DictKey, data)
    elif kind == NAMEDTUPLE:
        keys = map(GetAttrKey, tree._fields)
    elif kind == CUSTOM:
        keys = map(FlattenedIndexKey, range(len(children)))
    else:
        keys = map(SequenceKey, range(len(children)))
    return list(zip(keys, children)), data


def sorted_keys(tree: dict[Any, Any]) -> tuple[Any, ...]:
    """The keys of a dict in the order in which its children are flattened."""
    try:
        return tuple(sorted(tree))
    except TypeError as error:
        shown = ", ".join(repr(key) for key in list(tree)[:8])
        raise PyTreeError(
            "tree_flatten: the keys of a dict cannot be sorted",
            got=f"a dict with keys {shown}: {error}",
            fix="use keys of one type, or a collections.OrderedDict, whose order is kept",
        ) from None


def checked_children(node_type: type, result: Any) -> tuple[tuple[Any, ...], Any]:
    """What a registered flatten function returned, or an error when it is not a pair."""
    try:
        children, data = result
        return tuple(children), data
    except (TypeError, ValueError):
        raise PyTreeError(
            "tree_flatten: The to_iterable function for a custom PyTree node should return a "
            f"(children, aux_data) tuple{_iterable(result)}, got {result!r}",
            got=f"what the flatten function of {node_type.__name__} returned",
            fix="return (children, aux_data)",
        ) from None


def _iterable(result: Any) -> str:
    is_pair = isinstance(result, (tuple, list)) and len(result) == 2
    return " where 'children' is iterable" if is_pair else ""


def wrong_count(expected: int, got: int) -> None:
    """Raises: there are too few or too many leaves for a structure."""
    raise PyTreeError(
        f"tree_unflatten: too {'few' if got < expected else 'many'} leaves for the structure",
        got=f"{got} leaves where the structure has {expected}",
        fix="give one leaf for each * that the structure prints",
    )
