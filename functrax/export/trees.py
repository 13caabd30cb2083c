"""The structure of pytrees as JSON.

A leaf is ``0``, None is ``null``; a container is an object with one member, which says what it is::

    {"dict": [["a", 0], ["b", {"tuple": [0, 0]}]]}

Keys of dicts may be texts, numbers, bools, None, or tuples of these.  Types of the user's own have
no structure that a file could hold: their ``name`` and auxiliary data are written as
:func:`register_pytree_node_serialization` says, and who reads the file has to have registered the
same.  Named tuples that nobody registered are kept in trees of arrays as their names and fields,
``{"namedtuple": ["State", [["mean", 0], ["count", 0]]]}``; their classes are not looked for.

Start at :func:`tree_to_json` and :func:`tree_from_json`.
"""

from __future__ import annotations

import base64
import functools
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from functrax.core.errors.typed import ArgumentError, FileFormatError, PyTreeError
from functrax.core.pytree import node as pn
from functrax.core.pytree.operations import PyTreeDef, tree_flatten
from functrax.core.pytree.treedef import LEAF_DEF
from functrax.core.records import record
from functrax.random.implementations import IMPLEMENTATIONS
from functrax.random.key_array import keys_of

T = TypeVar("T")
_MAX_DEPTH: Final = 200
_PLAIN: Final = (str, int, float, bool, type(None))


class Serialization(NamedTuple):
    """How nodes of a type are written, and made again."""

    nodetype: type
    name: str
    serialize: Callable[[Any], bytes | bytearray]
    deserialize: Callable[[bytes], Any]
    build: Callable[[Any, Any], Any]


_by_type: Final[dict[type, Serialization]] = {}
_by_name: Final[dict[str, Serialization]] = {}


def register_pytree_node_serialization(
    nodetype: type[T],
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes | bytearray],
    deserialize_auxdata: Callable[[Any], Any],
    from_children: Callable[[Any, Any], Any] | None = None,
) -> type[T]:
    """Say how nodes of a type are written to files; whoever reads one has to say the same.

    Args:
      nodetype: a type that is registered as a pytree node.
      serialized_name: what the type is called in files; no other type may have the name.
      serialize_auxdata: gives the auxiliary data as bytes.
      deserialize_auxdata: gives the auxiliary data from these.
      from_children: makes a node of auxiliary data and children; the function that the type was
        registered with if omitted.

    Returns:
      The type, so that this can be a decorator.

    Raises:
      ArgumentError: if the type is no node, or the type or the name is registered already.

    >>> import functrax
    >>> from functrax import export
    >>> class Scale:
    ...     def __init__(self, value, unit):
    ...         self.value, self.unit = value, unit
    >>> functrax.tree_util.register_pytree_node(
    ...     Scale, lambda s: ((s.value,), s.unit), lambda unit, values: Scale(*values, unit))
    >>> _ = export.register_pytree_node_serialization(
    ...     Scale, serialized_name="Scale", serialize_auxdata=str.encode,
    ...     deserialize_auxdata=bytes.decode)
    """
    name = "register_pytree_node_serialization"
    if nodetype not in pn.registry and pn.kind_of(nodetype) != pn.NAMEDTUPLE:
        raise ArgumentError(
            f"{name}: the type is not registered as a pytree node",
            got=repr(nodetype),
            fix="functrax.tree_util.register_pytree_node first",
        )
    for known in (_by_type.get(nodetype), _by_name.get(serialized_name)):
        if known is not None:
            raise ArgumentError(
                f"{name}: Duplicate serialization registration",
                got=f"{known.nodetype!r} is registered as {known.name!r}",
                fix="one name for each type, registered once",
            )
    if from_children is None:
        if nodetype not in pn.registry:
            raise ArgumentError(
                f"{name}: a named tuple needs from_children",
                got=repr(nodetype),
                fix="register_namedtuple_serialization",
            )
        from_children = pn.registry[nodetype].unflatten
    found = Serialization(
        nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, from_children
    )
    _by_type[nodetype] = _by_name[serialized_name] = found
    return nodetype


def register_namedtuple_serialization(nodetype: type[T], *, serialized_name: str) -> type[T]:
    """Say what a named tuple is called in files; whoever reads one has to say the same.

    Args:
      nodetype: the type; where the file is read it has to have the same fields.
      serialized_name: what the type is called in files; no other type may have the name.

    Returns:
      The type, so that this can be a decorator.

    Raises:
      ArgumentError: if it is no named tuple, or the type or the name is registered already.

    >>> import collections
    >>> from functrax import export
    >>> State = export.register_namedtuple_serialization(
    ...     collections.namedtuple("State", "mean count"), serialized_name="State")
    """
    fields = getattr(nodetype, "_fields", None)
    if pn.kind_of(nodetype) != pn.NAMEDTUPLE or fields is None:
        raise ArgumentError(
            "register_namedtuple_serialization: the type is no named tuple",
            got=repr(nodetype),
            fix="register_pytree_node_serialization",
        )

    def check(data: bytes) -> None:
        there = tuple(bytes(data).decode().split(",")) if data else ()
        if there != fields:
            raise FileFormatError(
                f"the named tuple {serialized_name} of the file has other fields",
                got=f"{there}, where {nodetype.__name__} has {fields}",
                fix="the class with which the file was written",
            )

    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda _: ",".join(fields).encode(),
        deserialize_auxdata=check,
        from_children=lambda _, children: nodetype(*children),
    )


# ---- structures ---------------------------------------------------------------------------------


def tree_to_json(tree: PyTreeDef, by_fields: bool = False) -> Any:
    """A structure as data that JSON has.

    Args:
      tree: the structure.
      by_fields: whether named tuples that are not registered are kept as their fields.

    Raises:
      PyTreeError: if it has a node of a type, or a key, that files do not have.
    """
    kind, data = tree._kind, tree._data
    children = [tree_to_json(child, by_fields) for child in tree._children]
    if kind == pn.LEAF:
        return 0
    if kind == pn.NONE:
        return None
    if kind in (pn.TUPLE, pn.LIST):
        return {"tuple" if kind == pn.TUPLE else "list": children}
    node_type = tree._type
    assert node_type is not None, "a container"
    if kind == pn.DICT or node_type is OrderedDict:
        pairs = [[_key_to_json(k), child] for k, child in zip(data, children, strict=True)]
        return {"dict" if kind == pn.DICT else "OrderedDict": pairs}
    if pn.is_handle(node_type):
        return {"keys": [_handle_tag(node_type), *children]}
    found = _by_type.get(node_type)
    if found is None and by_fields and kind == pn.NAMEDTUPLE:
        fields: Any = getattr(node_type, "_fields", ())
        if _named_tuple(node_type.__name__, tuple(fields)) is not None:
            pairs = [list(pair) for pair in zip(fields, children, strict=True)]
            return {"namedtuple": [node_type.__name__, pairs]}
    if found is None:
        raise _unregistered(node_type, kind)
    text = base64.b64encode(bytes(found.serialize(data))).decode()
    return {"node": [found.name, text, *children]}


def _unregistered(node_type: type, kind: int) -> PyTreeError:
    register = "pytree_node" if kind == pn.CUSTOM else "namedtuple"
    return PyTreeError(
        "a pytree is written to a file, and a type in it is not registered for that. Please "
        "use export.register_pytree_node_serialization or "
        "export.register_namedtuple_serialization",
        got=f"{node_type.__module__}.{node_type.__qualname__}",
        fix=f"export.register_{register}_serialization({node_type.__name__}, "
        f'serialized_name="{node_type.__name__}"{", ..." if kind == pn.CUSTOM else ""}), here and '
        "where the file is read; or dicts, tuples and lists: save_tree(path, tree_leaves(tree)), "
        "which load_tree(path, like=tree) reads",
    )


@functools.lru_cache(maxsize=256)
def _named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    """A class that stands for a named tuple of a file; None if there is none of such names.

    It is the same for the same names, so that two files give trees of one structure.
    """
    try:
        made: Any = namedtuple(name, fields, rename=True, module=__name__)  # type: ignore[misc]
    except (ValueError, SyntaxError):
        return None
    return made if made._fields == fields else None


def tree_from_json(found: Any) -> PyTreeDef:
    """The structure that :func:`tree_to_json` gave.

    Raises:
      FileFormatError: if it is none, or has a node of a type that is not registered here.
    """
    return tree_flatten(_built(found, 0))[1] if found != 0 else LEAF_DEF


def is_sequence(found: Any) -> bool:
    """Whether JSON is the structure of a leaf alone, or of a list or tuple of leaves."""
    if isinstance(found, dict) and len(found) == 1:
        ((kind, parts),) = found.items()
        return kind in ("list", "tuple") and isinstance(parts, list) and not any(parts)
    return type(found) is int


@record(eq=False)
class _Place:
    """A leaf of a tree that is built for its structure alone."""


def _built(found: Any, depth: int) -> Any:
    """A tree of a structure, with places for leaves."""
    if found is None:
        return None
    if type(found) is int and found == 0:
        return _Place()
    if not (isinstance(found, dict) and len(found) == 1 and depth < _MAX_DEPTH):
        raise _damaged(found)
    ((kind, parts),) = found.items()
    if not isinstance(parts, list):
        raise _damaged(found)
    if kind in ("tuple", "list"):
        children = [_built(x, depth + 1) for x in parts]
        return tuple(children) if kind == "tuple" else children
    if kind in ("dict", "OrderedDict"):
        if not all(isinstance(x, list) and len(x) == 2 for x in parts):
            raise _damaged(found)
        pairs = [(_key_from_json(k), _built(x, depth + 1)) for k, x in parts]
        made = dict(pairs) if kind == "dict" else OrderedDict(pairs)
        if len(made) != len(pairs):
            raise _damaged(found)
        return made
    if kind == "namedtuple" and len(parts) == 2:
        return _of_fields(parts, depth)
    if kind == "keys" and len(parts) == 2 and parts[1] == 0:
        return _handle_of(parts[0])
    if kind == "node" and len(parts) >= 2 and isinstance(parts[1], str):
        return _node(parts, depth)
    raise _damaged(found)


def _of_fields(parts: list[Any], depth: int) -> Any:
    name, pairs = parts
    if not isinstance(name, str) or not isinstance(pairs, list):
        raise _damaged(parts)
    if not all(isinstance(x, list) and len(x) == 2 and isinstance(x[0], str) for x in pairs):
        raise _damaged(parts)
    made = _named_tuple(name, tuple([field for field, _ in pairs]))
    if made is None:
        raise _damaged(parts)
    return made(*[_built(x, depth + 1) for _, x in pairs])


def _node(parts: list[Any], depth: int) -> Any:
    name, text, *children = parts
    known = _by_name.get(name) if isinstance(name, str) else None
    if known is None:
        raise FileFormatError(
            "a pytree of the file has a node of a type that is not registered here",
            got=repr(name),
            fix="export.register_pytree_node_serialization or register_namedtuple_serialization, "
            "with this serialized_name; of arrays alone load_tree(path, like=tree)",
        )
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise _damaged(parts) from None
    return known.build(known.deserialize(raw), tuple([_built(x, depth + 1) for x in children]))


def _key_to_json(key: Any) -> Any:
    if isinstance(key, tuple) and type(key) is tuple:
        return {"tuple": [_key_to_json(x) for x in key]}
    if type(key) in _PLAIN:
        return key
    raise PyTreeError(
        "a dict is written to a file, and a key of it is no text, number, bool, None or tuple",
        got=f"{key!r} of type {type(key).__name__}",
        fix="text as keys",
    )


def _key_from_json(key: Any, depth: int = 0) -> Any:
    if type(key) in _PLAIN:
        return key
    if isinstance(key, dict) and list(key) == ["tuple"] and depth < _MAX_DEPTH:
        parts = key["tuple"]
        if isinstance(parts, list):
            return tuple([_key_from_json(x, depth + 1) for x in parts])
    raise _damaged(key)


def _handle_tag(node_type: type) -> str:
    implementation: Any = getattr(node_type, "implementation", None)
    return str(implementation.tag)


def _handle_of(tag: Any) -> Any:
    """An array of typed keys of a generator, which stands for its type."""
    for implementation in IMPLEMENTATIONS.values():
        if implementation.tag == tag:
            return keys_of(implementation)(_Place())
    raise _damaged(tag)


def _damaged(found: Any) -> FileFormatError:
    text = repr(found)
    return FileFormatError(
        "the file does not say what a pytree is",
        got=text if len(text) < 100 else text[:100] + "...",
        fix="a file that functrax wrote, unchanged",
    )
