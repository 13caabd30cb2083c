"""Frozen dataclasses that cost little to define.

``dataclass(frozen=True)`` writes the text of six methods for each class and compiles them one by
one, about a millisecond for a class; a quarter of ``import functrax`` was that.  :func:`record`
makes the same classes in a tenth of the time: of their methods only ``__init__`` is written, when
the first instance is made, and the others are closures.

Instances are dataclasses for ``dataclasses.replace`` and ``dataclasses.fields``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field as field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

if TYPE_CHECKING:
    from typing import dataclass_transform
else:  # Python 3.10 has none

    def dataclass_transform(**kwargs: Any) -> Callable[[Any], Any]:
        """What tells type checkers that a function makes dataclasses."""
        return lambda function: function


_Class = TypeVar("_Class", bound=type)


@overload
def record(cls: _Class, /) -> _Class: ...
@overload
def record(cls: None = None, /, *, eq: bool = True) -> Callable[[_Class], _Class]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: Any = None, /, *, eq: bool = True) -> Any:
    """A class of records: ``dataclass(frozen=True, eq=eq)``, cheaper to define.

    Args:
      cls: a class without bases whose annotations are the fields.
      eq: whether records with equal fields are equal, and hash so; else each equals only itself.

    >>> from functrax.core.records import record
    >>> @record
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0)
    (Point(x=1, y=0), True)
    """
    if cls is None:
        return lambda c: record(c, eq=eq)
    cls = dataclass(init=False, repr=False, eq=False)(cls)
    members: list[Field[Any]] = list(fields(cls))
    cls.__init__ = _first_init(cls, members)
    cls.__setattr__ = cls.__delattr__ = _frozen
    if "__repr__" not in cls.__dict__:
        cls.__repr__ = _repr_of([f.name for f in members if f.repr])
    if eq and "__eq__" not in cls.__dict__:
        cls.__eq__, cls.__hash__ = _comparisons([f.name for f in members if f.compare])
    return cls


def _first_init(cls: Any, members: list[Field[Any]]) -> Callable[..., None]:
    """The ``__init__`` that puts the right one in its place when it is first called."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        made = cls.__init__ = _init(members, hasattr(cls, "__post_init__"))
        made(self, *args, **kwargs)

    return init


def _init(members: list[Field[Any]], checked: bool) -> Callable[..., None]:
    values: dict[str, Any] = {"_set": object.__setattr__}
    arguments, lines = ["self"], []
    for f in members:
        value = f.name
        if f.default is not MISSING:
            values[f"_{f.name}"] = f.default
            arguments.append(f"{f.name}=_{f.name}")
        elif f.default_factory is not MISSING:
            values[f"_{f.name}"] = f.default_factory
            values["_missing"] = MISSING
            arguments.append(f"{f.name}=_missing")
            value = f"_{f.name}() if {f.name} is _missing else {f.name}"
        else:
            arguments.append(f.name)
        lines.append(f"\n    _set(self, {f.name!r}, {value})")
    if checked:
        lines.append("\n    self.__post_init__()")
    exec(f"def __init__({', '.join(arguments)}):{''.join(lines) or ' pass'}", values)
    made: Callable[..., None] = values["__init__"]
    return made


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
