"""Tracebacks of mistakes show the user's lines alone.

A public function, a method of arrays and what a transformation returns are boundaries: an exception
that leaves one loses the frames of functrax that it went through, and gets a note that says how to
see them.  A call that succeeds pays nothing for it: with the extension a boundary is a C++ object
(``native/explained.cpp``, ``native/jit_caller.cpp``) that calls :func:`shorten` when a call failed.

An error inside of functrax keeps all frames, so that it can be reported.  What tells it from a
mistake is where and as what it was raised: see :func:`is_mistake`.

The option ``traceback_filtering`` has JAX's values.  Start at :func:`shorten`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from types import FrameType, FunctionType, TracebackType
from typing import Any, Final, TypeVar

from functrax.core import native
from functrax.core.errors.source import is_internal, is_machinery
from functrax.core.errors.typed import (
    FunctraxError,
    MiscompilationError,
    VerificationError,
    add_note,
)
from functrax.core.options.config import Config, state as options

F = TypeVar("F", bound="Callable[..., Any]")
E = TypeVar("E", bound=BaseException)
C = TypeVar("C", bound="type[Any]")

NOTE: Final = "For simplicity, frames of functrax are left out; FUNCTRAX_TRACEBACK=full shows them"
#: What functrax calls; what these raise for functrax is no mistake of the user's.
_LIBRARIES: Final = frozenset({"numpy", "ml_dtypes", "llvmlite", "scipy"})
#: The user's mistakes are found before these run.
_COMPILER: Final = (
    "functrax.backends.passes.",
    "functrax.backends.kernels.",
    "functrax.backends.llvm.",
)


class UnfilteredStackTrace(Exception):  # noqa: N818 - JAX's name
    """Not an error: it holds the frames that the exception which it is the cause of has lost."""


def deliberate(error: E) -> E:
    """Mark a built-in exception that functrax raises for a mistake of the user's."""
    vars(error)["_functrax_deliberate"] = True
    return error


def shorten(error: BaseException) -> None:
    """Leave functrax's own frames out of the traceback of a mistake, as the options say."""
    mode = options.traceback_filtering
    if mode in ("off", "full") or not isinstance(error, Exception) or not is_mistake(error):
        return
    if mode == "tracebackhide":
        _mark(error.__traceback__)
        return
    whole = error.__traceback__
    removed = _shorten_chain(error)
    if not removed:
        return
    if mode == "remove_frames":
        _keep_whole(error, whole)
    elif NOTE not in getattr(error, "__notes__", ()):
        add_note(error, NOTE)


def is_mistake(error: Exception) -> bool:
    """Whether an exception is the user's business, and not an error inside of functrax.

    It is where functrax raised it on purpose, before it compiled anything, and where it comes from
    the user's own code.
    """
    frames = [entry.tb_frame for entry in _entries(error.__traceback__)]
    if isinstance(error, FunctraxError):
        if isinstance(error, (VerificationError, MiscompilationError)):
            return False
        return not any(_module(frame).startswith(_COMPILER) for frame in frames)
    if "_functrax_deliberate" in vars(error):
        return True
    for frame in reversed(frames):
        if _is_own(frame):
            return False
        root = _module(frame).partition(".")[0]
        if root not in _LIBRARIES and root not in sys.stdlib_module_names:
            return True
    return True


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_own(frame: FrameType) -> bool:
    if frame.f_code.co_filename == "<string>":  # `python -c`, or code that functrax made
        return _module(frame).partition(".")[0] == "functrax"
    return is_internal(frame.f_code) and not is_machinery(frame.f_code)


def _entries(traceback: TracebackType | None) -> Iterable[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _hidden(traceback: TracebackType | None) -> list[tuple[TracebackType, bool]]:
    """The entries of a traceback, and whether each is functrax's own.

    Python's machinery (``contextlib``) is, beside functrax's frames.
    """
    entries = list(_entries(traceback))
    own = [_is_own(entry.tb_frame) for entry in entries]
    for k, entry in enumerate(entries):
        if is_machinery(entry.tb_frame.f_code):
            own[k] = (k > 0 and own[k - 1]) or (k + 1 < len(own) and own[k + 1])
    return list(zip(entries, own, strict=True))


def _shorten_chain(error: BaseException) -> bool:
    """Leave frames out of an exception and of those that led to it; whether there were any."""
    removed = False
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        now = waiting.pop()
        if now is None or id(now) in seen or isinstance(now, UnfilteredStackTrace):
            continue
        seen.add(id(now))
        entries = _hidden(now.__traceback__)
        if any(own for _, own in entries):
            removed = True
            now.__traceback__ = _chained([entry for entry, own in entries if not own])
        context = now.__context__
        if context is not None and context is not now.__cause__ and _is_inside(context):
            now.__suppress_context__ = True  # functrax caught it, and said what it means
        waiting += [now.__cause__, now.__context__]
    return removed


def _is_inside(error: BaseException) -> bool:
    """Whether an exception went through functrax's frames alone."""
    entries = _hidden(error.__traceback__)
    return bool(entries) and all(own for _, own in entries)


def _chained(entries: list[TracebackType]) -> TracebackType | None:
    made: TracebackType | None = None
    for entry in reversed(entries):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def _mark(traceback: TracebackType | None) -> None:
    """Have pytest and IPython skip functrax's frames, which stay where they are."""
    for entry, own in _hidden(traceback):
        if own:
            entry.tb_frame.f_locals["__tracebackhide__"] = True


def _keep_whole(error: BaseException, whole: TracebackType | None) -> None:
    """Have an exception be caused by one that has all the frames."""
    before = error.__cause__
    if isinstance(before, UnfilteredStackTrace):
        whole = _joined(whole, before.__traceback__)
        before.__traceback__ = whole
        return
    kept = UnfilteredStackTrace("the traceback below has functrax's own frames left out")
    kept.__traceback__ = whole
    kept.__cause__, kept.__context__ = before, error.__context__
    kept.__suppress_context__ = error.__suppress_context__
    error.__cause__ = kept


def _joined(outer: TracebackType | None, inner: TracebackType | None) -> TracebackType | None:
    """The frames of an outer boundary, then those that an inner one left out."""
    known = {id(entry.tb_frame) for entry in _entries(inner)}
    new = [entry for entry in _entries(outer) if id(entry.tb_frame) not in known]
    return _chained([*new, *_entries(inner)])


Explained: Any = getattr(native.extension, "ExplainedFunction", None)


def boundary(function: F) -> F:
    """A function of which tracebacks show the user's frames alone.

    It has its name, and the rest only where it is given, as by ``functools.wraps``: that takes
    longer than a call.
    """
    made: Any = _in_python(function) if Explained is None else Explained(function, None)
    made.__name__, made.__qualname__ = function.__name__, function.__qualname__
    return made  # type: ignore[no-any-return]


def _in_python(function: Callable[..., Any]) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            shorten(error)
            raise

    return call


def with_boundaries(cls: C) -> C:
    """A class whose public and special methods are boundaries, but for those in ``_INSIDE``."""
    for name, member in list(vars(cls).items()):
        if not isinstance(member, FunctionType) or name in _INSIDE:
            continue
        if name.endswith("__") or not name.startswith("_"):
            setattr(cls, name, as_boundary(member))
    return cls


def as_boundary(function: F) -> F:
    """A function written in Python as a boundary with its name and docstring.

    What the extension calls by itself, and Python only where it must, stays as it is.
    """
    if not isinstance(function, FunctionType):
        return function
    made: F = boundary(function)
    functools.update_wrapper(made, function)
    return made


#: How objects are made and pickled, which looks at who calls, and what loops wait with for each
#: step: no mistake is made in these.
_INSIDE: Final = (
    *("__init__", "__new__", "__init_subclass__", "__getattr__", "__setattr__"),
    *("__reduce__", "__reduce_ex__", "block_until_ready", "is_ready"),
)

with_boundaries(Config)
if native.extension is not None:
    native.extension.boundary_configure(shorten)
