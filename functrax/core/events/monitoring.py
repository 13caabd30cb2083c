"""Events that functrax and programs record, and the functions that listen to them.

An event is a text such as ``"/jax/core/compile/jaxpr_trace_duration"`` with values by name.  What
records one goes on when every listener has returned; without listeners it costs next to nothing.

functrax records, under JAX's names, :data:`TRACE` for each trace of a jitted function,
:data:`COMPILE` for each program that is compiled or found on disk, and whether the disk had it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from functrax.core.errors.typed import ArgumentError, ListenerError

Listener: TypeAlias = Callable[..., Any]

#: A jitted function was traced.
TRACE: Final = "/jax/core/compile/jaxpr_trace_duration"
#: A program was compiled, or found on disk.
COMPILE: Final = "/jax/core/compile/backend_compile_duration"
#: A program was looked for on disk; there; not there.
CACHE_ASKED: Final = "/jax/compilation_cache/compile_requests_use_cache"
CACHE_HIT: Final = "/jax/compilation_cache/cache_hits"
CACHE_MISS: Final = "/jax/compilation_cache/cache_misses"

_events: Final[list[Listener]] = []
_durations: Final[list[Listener]] = []
_spans: Final[list[Listener]] = []
_scalars: Final[list[Listener]] = []


def record_event(event: str, **kwargs: str | int) -> None:
    """Tell the listeners of events that something happened.

    Args:
      event: what.
      kwargs: more about it.

    >>> register_event_listener(print)
    >>> record_event("/my/event")
    /my/event
    >>> unregister_event_listener(print)
    """
    for listener in tuple(_events):
        listener(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Tell the listeners of durations how long something took.

    Args:
      event: what.
      duration: how long, in seconds.
      kwargs: more about it.
    """
    for listener in tuple(_durations):
        listener(event, duration, **kwargs)


def record_event_time_span(
    event: str, start_time: float, end_time: float, **kwargs: str | int
) -> None:
    """Tell the listeners of time spans when something began and ended.

    Args:
      event: what.
      start_time: when it began, in seconds, as ``time.time()``.
      end_time: when it ended.
      kwargs: more about it.
    """
    for listener in tuple(_spans):
        listener(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: str | int) -> None:
    """Tell the listeners of scalars a number.

    Args:
      event: what it is.
      value: the number.
      kwargs: more about it.
    """
    for listener in tuple(_scalars):
        listener(event, value, **kwargs)


@contextmanager
def timed(event: str, fun_name: str) -> Iterator[None]:
    """Record how long a block takes: its beginning as a scalar, a duration and a time span."""
    if not (_durations or _spans or _scalars):
        yield
        return
    begin = time.time()
    record_scalar(event, begin, fun_name=fun_name)
    try:
        yield
    finally:
        end = time.time()
        record_event_duration_secs(event, end - begin, fun_name=fun_name)
        record_event_time_span(event, begin, end, fun_name=fun_name)


def _add(listeners: list[Listener], callback: Listener) -> None:
    if not callable(callback):
        raise ArgumentError(
            "monitoring: a listener cannot be called",
            got=f"{callback!r} of type {type(callback).__name__}",
            fix="a function of the event and its values",
        )
    listeners.append(callback)


def _remove(listeners: list[Listener], callback: Listener) -> None:
    if callback not in listeners:
        raise ListenerError(
            "monitoring: there is no such listener",
            got=repr(callback),
            fix="the function that was registered",
        )
    listeners.remove(callback)


def register_event_listener(callback: Listener) -> None:
    """Have ``callback(event, **kwargs)`` called for each :func:`record_event`."""
    _add(_events, callback)


def register_event_duration_secs_listener(callback: Listener) -> None:
    """Have ``callback(event, duration, **kwargs)`` called for each duration."""
    _add(_durations, callback)


def register_event_time_span_listener(callback: Listener) -> None:
    """Have ``callback(event, start_time, end_time, **kwargs)`` called for each time span."""
    _add(_spans, callback)


def register_scalar_listener(callback: Listener) -> None:
    """Have ``callback(event, value, **kwargs)`` called for each scalar."""
    _add(_scalars, callback)


def unregister_event_listener(callback: Listener) -> None:
    """End what :func:`register_event_listener` began; a ListenerError if it did not."""
    _remove(_events, callback)


def unregister_event_duration_listener(callback: Listener) -> None:
    """End what :func:`register_event_duration_secs_listener` began."""
    _remove(_durations, callback)


def unregister_event_time_span_listener(callback: Listener) -> None:
    """End what :func:`register_event_time_span_listener` began."""
    _remove(_spans, callback)


def unregister_scalar_listener(callback: Listener) -> None:
    """End what :func:`register_scalar_listener` began."""
    _remove(_scalars, callback)


def clear_event_listeners() -> None:
    """End all listening."""
    for listeners in (_events, _durations, _spans, _scalars):
        listeners.clear()
