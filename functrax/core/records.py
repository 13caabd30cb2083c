"""Dataclasses that cost little to define.

``dataclass`` writes the text of six methods for each class and compiles them one by
one, about a millisecond for a class; a quarter of ``import functrax`` was that.  :func:`record`
makes the same classes in a fiftieth of the time, for their methods are closures.

Instances are dataclasses for ``dataclasses.replace`` and ``dataclasses.fields``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field as field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, overload

if TYPE_CHECKING:
    from typing import dataclass_transform
else:  # Python 3.10 has none

    def dataclass_transform(**kwargs: Any) -> Callable[[Any], Any]:
        """What tells type checkers that a function makes dataclasses."""
        return lambda function: function


@dataclass(init=False, repr=False, eq=False)
class _Example:
    """What a dataclass knows of itself besides its fields."""

    member: int


_PARAMS: Final = _Example.__dataclass_params__  # type: ignore[attr-defined]
_IS_FIELD: Final = fields(_Example)[0]._field_type  # type: ignore[attr-defined]

_Class = TypeVar("_Class", bound=type)
_Record = TypeVar("_Record")


@overload
def record(cls: _Class, /) -> _Class: ...
@overload
def record(
    cls: None = None, /, *, eq: bool = True, frozen: bool = True
) -> Callable[[_Class], _Class]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: Any = None, /, *, eq: bool = True, frozen: bool = True) -> Any:
    """A class of records: ``dataclass(frozen=frozen, eq=eq)``, cheaper to define.

    Args:
      cls: a class without bases whose annotations are the fields.
      eq: whether records with equal fields are equal, and hash so; else each equals only itself.
      frozen: whether fields cannot be changed; if they can, equal records have no hash.

    >>> from functrax.core.records import record
    >>> @record
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0)
    (Point(x=1, y=0), True)
    """
    if cls is None:
        return lambda c: record(c, eq=eq, frozen=frozen)
    if cls.__doc__ is None:  # else dataclass writes one, for which it parses a signature
        cls.__doc__ = cls.__name__
    members = _members(cls)
    cls.__dataclass_fields__ = {f.name: f for f in members}
    cls.__dataclass_params__ = _PARAMS
    cls.__match_args__ = tuple([f.name for f in members])  # type: ignore[misc]
    cls.__init__ = _init(cls, members)
    if frozen:
        cls.__setattr__ = cls.__delattr__ = _frozen
    if "__repr__" not in cls.__dict__:
        cls.__repr__ = _repr_of([f.name for f in members if f.repr])
    if eq and "__eq__" not in cls.__dict__:
        cls.__eq__, hash_ = _comparisons([f.name for f in members if f.compare])
        cls.__hash__ = hash_ if frozen else None
    return cls


def replace(old: _Record, /, **changes: Any) -> _Record:
    """A copy with other values of some fields: ``dataclasses.replace``, in a fifth of its time.

    Args:
      old: a record, or an object of another dataclass without slots all of whose fields are
        arguments of its ``__init__``.
      changes: the values, by the names of their fields.

    Raises:
      TypeError: there is no such field.

    >>> from functrax.core.records import record, replace
    >>> @record
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> replace(Point(1), y=2)
    Point(x=1, y=2)
    """
    cls: Any = type(old)
    members = cls.__dataclass_fields__
    values = old.__dict__
    new = object.__new__(cls)
    copied = new.__dict__
    if len(values) == len(members):
        copied.update(values)
    else:  # something else is kept with it
        for name in members:
            copied[name] = values[name]
    copied.update(changes)
    if len(copied) != len(members):
        wrong = ", ".join(sorted(changes.keys() - members.keys()))
        raise TypeError(f"{cls.__name__} has no field {wrong}")
    if hasattr(cls, "__post_init__"):
        new.__post_init__()
    return new  # type: ignore[no-any-return]


def _members(cls: Any) -> list[Field[Any]]:
    """The fields of a class: those of a base, then those of its annotations.

    A class attribute stays where a field has a default.
    """
    found: dict[str, Any] = dict(getattr(cls, "__dataclass_fields__", {}))
    for name, annotation in getattr(cls, "__annotations__", {}).items():
        if str(annotation).removeprefix("typing.").startswith("ClassVar"):
            continue
        member: Any = cls.__dict__.get(name, MISSING)
        if type(member) is Field:
            if member.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, member.default)
        else:
            if type(member).__hash__ is None:
                raise ValueError(f"{cls.__name__}.{name}: all records would share one default")
            member = field(default=member)
        member.name, member.type, member.kw_only = name, annotation, False
        member._field_type = _IS_FIELD
        found[name] = member
    return list(found.values())


def _init(cls: Any, members: list[Field[Any]]) -> Callable[..., None]:
    names = tuple([f.name for f in members])
    defaults: dict[int, dict[str, Any]] = {len(names): {}}  # behind so many arguments
    for k, f in reversed(list(enumerate(members))):
        if f.default is MISSING:
            break
        defaults[k] = {f.name: f.default, **defaults[k + 1]}
    known = {f.name: f.default for f in members if f.default is not MISSING}
    made = [(f.name, f.default_factory) for f in members if f.default_factory is not MISSING]
    checked = hasattr(cls, "__post_init__")
    every = frozenset(names)

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs or made:
            values = dict(known)
            values.update(zip(names, args))
            values.update(kwargs)
            for name, make in made:
                if name not in values:
                    values[name] = make()
            twice = not kwargs.keys().isdisjoint(names[: len(args)])
            if twice or len(args) > len(names) or values.keys() != every:
                values = _bound(cls, members, args, kwargs)
            self.__dict__.update(values)
        elif (rest := defaults.get(len(args))) is not None:
            self.__dict__.update(zip(names, args))
            if rest:
                self.__dict__.update(rest)
        else:
            self.__dict__.update(_bound(cls, members, args, kwargs))
        if checked:
            self.__post_init__()

    return init


def _bound(
    cls: Any, members: list[Field[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The values of all fields, in order."""
    given = dict(zip([f.name for f in members], args))
    twice = given.keys() & kwargs.keys()
    given |= kwargs
    values = {}
    for f in members:
        if f.name in given:
            values[f.name] = given.pop(f.name)
        elif f.default is not MISSING:
            values[f.name] = f.default
        elif f.default_factory is not MISSING:
            values[f.name] = f.default_factory()
    missing = [f.name for f in members if f.name not in values]
    if missing or given or twice or len(args) > len(members):
        wrong = ", ".join([*missing, *given, *twice]) or f"{len(args)} values"
        raise TypeError(f"{cls.__name__} has {len(members)} fields, each given once: {wrong}")
    return values


def _frozen(self: Any, name: str, value: Any = None) -> NoReturn:
    raise FrozenInstanceError(f"cannot change field {name!r}")


def _repr_of(names: list[str]) -> Callable[[Any], str]:
    def repr_(self: Any) -> str:
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__qualname__}({shown})"

    return repr_


def _comparisons(names: list[str]) -> tuple[Callable[[Any, Any], Any], Callable[[Any], int]]:
    key = attrgetter(*names)

    def equal(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return key(self) == key(other)
        return NotImplemented

    def hash_(self: Any) -> int:
        return hash(key(self))

    return equal, hash_
