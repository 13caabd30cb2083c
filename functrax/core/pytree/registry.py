"""Registering types as pytree nodes, and ``Partial``.

A registered type says how to take an object apart into children and auxiliary data and how to put
it together again; the auxiliary data is part of the structure, so it must compare by value and
should hash.  ``OrderedDict`` and ``defaultdict`` are registered here, by the same means.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar, overload

from functrax.core.errors.typed import ArgumentError
from functrax.core.pytree.key_paths import DictKey, GetAttrKey, KeyEntry
from functrax.core.pytree.node import LEAF, NAMEDTUPLE, Registration, kind_of, registry, sorted_keys

T = TypeVar("T")
Typ = TypeVar("Typ", bound=type)
Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
FlattenWithKeys = Callable[[Any], tuple[Iterable[tuple[KeyEntry, Any]], Any]]
Unflatten = Callable[[Any, Any], Any]


def register_pytree_node(
    nodetype: type,
    flatten_func: Flatten,
    unflatten_func: Unflatten,
    flatten_with_keys_func: FlattenWithKeys | None = None,
) -> None:
    """Makes a type a pytree node.

    Args:
      nodetype: the type; its subclasses are not registered by this.
      flatten_func: takes an object, returns its children (an iterable) and auxiliary data.
      unflatten_func: takes the auxiliary data and a tuple of children, returns an object.
      flatten_with_keys_func: as ``flatten_func``, with ``(key, child)`` for each child.

    Raises:
      ArgumentError: not a type, or a type that is a node already.

    Example:
      >>> class Pair:
      ...     def __init__(self, x, y):
      ...         self.x, self.y = x, y
      >>> register_pytree_node(Pair, lambda p: ((p.x, p.y), None), lambda _, xy: Pair(*xy))
    """
    _check_new("register_pytree_node", nodetype)
    registry[nodetype] = Registration(flatten_func, unflatten_func, flatten_with_keys_func)


def register_handle(nodetype: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Makes a type a handle: a node for transformations, a leaf for users' functions of pytrees.

    Args:
      nodetype: the type; it holds arrays, and stands for one that the language does not have.
      flatten: takes an object, returns the arrays and auxiliary data.
      unflatten: takes the auxiliary data and the arrays, returns an object.
    """
    registry[nodetype] = Registration(flatten, unflatten, None, True)


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: FlattenWithKeys,
    unflatten_func: Unflatten,
    flatten_func: Flatten | None = None,
) -> None:
    """Makes a type a pytree node whose children have keys, for key paths.

    Args:
      nodetype: the type.
      flatten_with_keys: takes an object, returns an iterable of ``(key, child)`` pairs and
        auxiliary data.
      unflatten_func: takes the auxiliary data and a tuple of children, returns an object.
      flatten_func: the same as ``flatten_with_keys`` without the keys, where that is faster.

    Raises:
      ArgumentError: not a type, or a type that is a node already.

    Example:
      >>> class Celsius:
      ...     def __init__(self, degrees):
      ...         self.degrees = degrees
      >>> register_pytree_with_keys(
      ...     Celsius, lambda x: ([(GetAttrKey("degrees"), x.degrees)], None),
      ...     lambda _, children: Celsius(*children))
    """

    def without_keys(tree: Any) -> tuple[Iterable[Any], Any]:
        pairs, data = flatten_with_keys(tree)
        return tuple([child for _, child in pairs]), data

    _check_new("register_pytree_with_keys", nodetype)
    flatten = without_keys if flatten_func is None else flatten_func
    registry[nodetype] = Registration(flatten, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: Typ) -> Typ:
    """Decorates a class with ``tree_flatten(self)`` and a class method ``tree_unflatten``.

    Args:
      cls: the class; the methods are what :func:`register_pytree_node` takes.

    Returns:
      The class.

    Raises:
      ArgumentError: a class that is a node already.

    Example:
      >>> @register_pytree_node_class
      ... class Scale:
      ...     def __init__(self, value):
      ...         self.value = value
      ...     def tree_flatten(self):
      ...         return (self.value,), None
      ...     @classmethod
      ...     def tree_unflatten(cls, aux_data, children):
      ...         return cls(*children)
    """
    methods: Any = cls
    register_pytree_node(cls, methods.tree_flatten, methods.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: Typ) -> Typ:
    """Decorates a class with ``tree_flatten_with_keys(self)`` and ``tree_unflatten``.

    Args:
      cls: the class; a method ``tree_flatten(self)`` is used where there are to be no keys, if it
        has one.

    Returns:
      The class.

    Raises:
      ArgumentError: a class that is a node already.

    Example:
      >>> @register_pytree_with_keys_class
      ... class Kelvin:
      ...     def __init__(self, value):
      ...         self.value = value
      ...     def tree_flatten_with_keys(self):
      ...         return [(GetAttrKey("value"), self.value)], None
      ...     @classmethod
      ...     def tree_unflatten(cls, aux_data, children):
      ...         return cls(*children)
    """
    methods: Any = cls
    register_pytree_with_keys(
        cls,
        methods.tree_flatten_with_keys,
        methods.tree_unflatten,
        getattr(cls, "tree_flatten", None),
    )
    return cls


def register_static(cls: Typ) -> Typ:
    """Makes a type a node without children, whose objects are part of the structure.

    Args:
      cls: the type; it must compare and hash by value for equal objects to give equal structures.

    Returns:
      The type.

    Raises:
      ArgumentError: a type that is a node already.

    Example:
      >>> @register_static
      ... @dataclasses.dataclass(frozen=True)
      ... class Unit:
      ...     name: str
      >>> from functrax.core.pytree.operations import tree_leaves
      >>> tree_leaves((1.0, Unit("m")))
      [1.0]
    """
    register_pytree_with_keys(cls, lambda obj: ((), obj), lambda obj, _: obj)
    return cls


def static(**options: Any) -> Any:
    """A field of a dataclass that is part of the structure, not of the leaves.

    Args:
      options: those of ``dataclasses.field``.

    Returns:
      What ``dataclasses.field`` returns.

    Raises:
      TypeError: for other options.

    Example:
      >>> from functrax.core.pytree.operations import tree_leaves
      >>> @register_dataclass
      ... @dataclasses.dataclass
      ... class Length:
      ...     value: float
      ...     unit: str = static(default="m")
      >>> tree_leaves(Length(2.0))
      [2.0]
    """
    metadata = {"static": True, **options.pop("metadata", {})}
    return dataclasses.field(metadata=metadata, **options)


@overload
def register_dataclass(
    nodetype: Typ,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Typ: ...
@overload
def register_dataclass(
    *,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Callable[[Typ], Typ]: ...


def register_dataclass(
    nodetype: Any = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Makes a dataclass a pytree node; also a decorator.

    Args:
      nodetype: the class; it is rebuilt by calling it with keyword arguments.
      data_fields: the fields that are children. When left out, with ``meta_fields``: all fields
        but those with ``field(metadata=dict(static=True))``.
      meta_fields: the fields that are part of the structure; they must compare by value.
      drop_fields: fields that are neither, and keep their defaults.

    Returns:
      The class, or a decorator if none was given.

    Raises:
      ArgumentError: the fields are not those that the class is initialised with.

    Example:
      >>> @register_dataclass
      ... @dataclasses.dataclass
      ... class Point:
      ...     x: float
      ...     y: float
      ...     unit: str = dataclasses.field(default="m", metadata=dict(static=True))
    """
    if nodetype is None:
        return functools.partial(
            register_dataclass,
            data_fields=data_fields,
            meta_fields=meta_fields,
            drop_fields=drop_fields,
        )
    data, meta = _split_fields(nodetype, data_fields, meta_fields, drop_fields)

    def flatten_with_keys(tree: Any) -> tuple[Iterable[tuple[KeyEntry, Any]], Any]:
        children, aux = flatten(tree)
        return tuple(zip(map(GetAttrKey, data), children)), aux

    def flatten(tree: Any) -> tuple[tuple[Any, ...], Any]:
        return tuple([getattr(tree, n) for n in data]), tuple([getattr(tree, n) for n in meta])

    def unflatten(aux: tuple[Any, ...], children: tuple[Any, ...]) -> Any:
        return nodetype(**dict(zip(meta, aux)), **dict(zip(data, children)))

    register_pytree_node(nodetype, flatten, unflatten, flatten_with_keys)
    return nodetype


def _split_fields(
    nodetype: type,
    data_fields: Sequence[str] | None,
    meta_fields: Sequence[str] | None,
    drop_fields: Sequence[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if (data_fields is None) != (meta_fields is None):
        raise ArgumentError(
            "register_dataclass: data_fields and meta_fields must both be specified when either is "
            f"specified. Got data_fields={data_fields} meta_fields={meta_fields}.",
            got=repr(nodetype),
            fix="give both, or neither and mark the static fields with metadata=dict(static=True)",
        )
    if not dataclasses.is_dataclass(nodetype):
        if data_fields is None or meta_fields is None:
            raise ArgumentError(
                "register_dataclass: data_fields and meta_fields are required when nodetype is not "
                f"a dataclass. Got nodetype={nodetype!r}",
                got=f"data_fields={data_fields}, meta_fields={meta_fields}",
                fix="decorate it with dataclasses.dataclass, or give data_fields and meta_fields",
            )
        return tuple(data_fields), tuple(meta_fields)
    fields = dataclasses.fields(nodetype)
    if data_fields is None and meta_fields is None:
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
    assert data_fields is not None and meta_fields is not None
    if set(data_fields) & set(meta_fields):
        raise ArgumentError(
            "register_dataclass: data_fields and meta_fields must not overlap. Overlapping "
            f"fields: {set(data_fields) & set(meta_fields)}",
            got=f"data_fields={list(data_fields)}, meta_fields={list(meta_fields)}",
            fix="a field is a child or part of the structure",
        )
    wanted = {f.name for f in fields if f.init}.difference(drop_fields)
    given = {*data_fields, *meta_fields}
    if given != wanted:
        raise ArgumentError(
            "register_dataclass: data_fields and meta_fields must include all dataclass fields of "
            f"{nodetype.__name__} with init=True and only them. "
            + _field_difference(wanted, given),
            got=f"data_fields={list(data_fields)}, meta_fields={list(meta_fields)}",
            fix="name all fields with init=True and only them; drop_fields leaves some out",
        )
    return tuple(data_fields), tuple(meta_fields)


def _field_difference(wanted: set[str], given: set[str]) -> str:
    parts = []
    if missing := wanted - given:
        parts.append(f"Missing fields: {missing}.")
    if unexpected := given - wanted:
        parts.append(f"Unexpected fields: {unexpected}.")
    return " ".join(parts)


def _check_new(function: str, nodetype: type) -> None:
    if not isinstance(nodetype, type):
        raise ArgumentError(
            f"{function}: only types can be registered",
            got=f"{nodetype!r} of type {type(nodetype).__name__}",
            fix="give the class itself",
        )
    if kind_of(nodetype) not in (LEAF, NAMEDTUPLE):  # a named tuple may have its own way
        raise ArgumentError(
            f"{function}: {nodetype.__name__} is a pytree node already",
            got=repr(nodetype),
            fix="register each type once; use a subclass for other behaviour",
        )


class Partial(functools.partial[T]):
    """``functools.partial`` that is a pytree: its arguments are children, its function is not.

    A ``functools.partial`` given as the function is kept whole, as a function, so that the
    arguments inside it stay out of the tree.

    Example:
      >>> from functrax.core.pytree.treedef import tree_leaves
      >>> tree_leaves(Partial(max, 1, key=None))
      [1]
    """

    __slots__ = ()

    def __new__(cls, func: Callable[..., T], /, *args: Any, **keywords: Any) -> Partial[T]:
        """Binds arguments to a function."""
        whole = _Whole(func) if isinstance(func, functools.partial) else func
        return super().__new__(cls, whole, *args, **keywords)


class _Whole:
    """A partial as an opaque function, which ``functools.partial`` would otherwise merge."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.func(*args, **keywords)

    def __eq__(self, other: object) -> bool:
        return self.func == (other.func if isinstance(other, _Whole) else other)

    def __hash__(self) -> int:
        return hash(self.func)

    def __repr__(self) -> str:
        return repr(self.func)


def _flatten_partial(partial: Partial[Any]) -> tuple[tuple[Any, ...], Hashable]:
    return (partial.args, partial.keywords), partial.func


def _unflatten_partial(func: Callable[..., Any], children: tuple[Any, ...]) -> Partial[Any]:
    args, keywords = children
    return Partial(func, *args, **keywords)


def _flatten_ordered(tree: OrderedDict[Any, Any]) -> tuple[tuple[Any, ...], Any]:
    return tuple(tree.values()), tuple(tree)


def _flatten_default(tree: defaultdict[Any, Any]) -> tuple[tuple[Any, ...], Any]:
    keys = sorted_keys(tree)
    return tuple([tree[key] for key in keys]), (tree.default_factory, keys)


def _flatten_default_with_keys(tree: defaultdict[Any, Any]) -> tuple[Iterable[Any], Any]:
    values, data = _flatten_default(tree)
    return tuple(zip(map(DictKey, data[1]), values)), data


register_pytree_node(
    OrderedDict,
    _flatten_ordered,
    lambda keys, values: OrderedDict(zip(keys, values)),
    lambda tree: ([(DictKey(key), value) for key, value in tree.items()], tuple(tree)),
)
register_pytree_node(
    defaultdict,
    _flatten_default,
    lambda data, values: defaultdict(data[0], zip(data[1], values)),
    _flatten_default_with_keys,
)
register_pytree_node(
    Partial,
    _flatten_partial,
    _unflatten_partial,
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
)
