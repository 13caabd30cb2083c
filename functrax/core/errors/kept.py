"""Errors that are kept to be raised later, without the frames that they went through.

A traceback holds its frames, and those hold the local variables of every caller, arrays and all.
So an exception that outlives the call in which it was caught is kept as a :class:`KeptError`: its
class, its arguments, its attributes and notes, and as text where it was raised.  Its causes are
kept the same way.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any, Final

from functrax.core.errors.source import SourceLine, is_internal
from functrax.core.errors.typed import add_note

#: What built-in exceptions hold beside their arguments; not ``obj``, which may be anybody's.
_FIELDS: Final = {
    OSError: ("filename", "filename2"),
    ImportError: ("name", "path"),
    NameError: ("name",),
    AttributeError: ("name",),
}


class KeptError:
    """An exception that holds no frame.

    Args:
      error: an exception that was caught; it is not kept itself.
      note: for what is raised anew, where it comes from; the lines of the user's functions that the
        exception went through follow it.
    """

    __slots__ = ("_args", "_attributes", "_cause", "_note", "_suppress", "_type")

    def __init__(self, error: BaseException, note: str = "") -> None:
        self._type = type(error)
        self._args = tuple([_kept(x) for x in error.args])
        self._attributes = dict(_attributes_of(error))
        self._cause = None if error.__cause__ is None else KeptError(error.__cause__)
        self._suppress = error.__suppress_context__
        lines = [f"\n  at {line}" for line in _lines(error)] if note else []
        self._note = note + "".join(lines)

    def again(self) -> BaseException:
        """A new exception like the one that was kept."""
        args = [_again(x) for x in self._args]
        # The class's own constructor may take other arguments than the exception has.
        error: BaseException = self._type.__new__(self._type, *args)
        _built_in(self._type).__init__(error, *args)
        for name, value in self._attributes.items():
            setattr(error, name, list(value) if name == "__notes__" else value)
        if self._note:
            add_note(error, self._note)
        error.__cause__ = None if self._cause is None else self._cause.again()
        error.__suppress_context__ = self._suppress
        return error


class _Inner(tuple[KeptError, ...]):
    """The exceptions of a group."""

    __slots__ = ()


def _kept(x: Any) -> Any:
    """An argument of an exception; exceptions among them hold frames as well."""
    if isinstance(x, BaseException):
        return KeptError(x)
    if type(x) in (list, tuple) and x and all(isinstance(y, BaseException) for y in x):
        return _Inner(map(KeptError, x))
    return x


def _again(x: Any) -> Any:
    if type(x) is _Inner:
        return [inner.again() for inner in x]
    return x.again() if type(x) is KeptError else x


def _attributes_of(error: BaseException) -> Iterator[tuple[str, Any]]:
    yield from vars(error).items()
    slots = [getattr(c, "__slots__", ()) for c in type(error).__mro__]
    names = [n for s in slots for n in ((s,) if isinstance(s, str) else s)]
    for kind, fields in _FIELDS.items():
        names += fields if isinstance(error, kind) else ()
    for name in names:
        value = None if name in ("__dict__", "__weakref__") else getattr(error, name, None)
        if value is not None:
            yield name, value


def _built_in(kind: type[BaseException]) -> type[BaseException]:
    """The nearest built-in class, which sets what C code keeps of the arguments."""
    for c in kind.__mro__:
        known = vars(builtins).get(c.__name__) is c
        if known and issubclass(c, BaseException):
            return c
    return BaseException


def _lines(error: BaseException) -> Iterator[SourceLine]:
    """The user's lines that an exception went through, the outermost first."""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_internal(code):
            yield SourceLine(code, trace.tb_lasti)
        trace = trace.tb_next
