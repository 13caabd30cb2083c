"""What a program spends its time on: a page, a time line for Perfetto or Chrome, and a table.

    with functrax.profiler.trace("out.json"):
        train()
    print(functrax.profiler.report())

The names are those of ``jax.profiler``.  One recording is made at a time, of all threads.  While
none is made, a call of a jitted function costs one look at a flag.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from functrax.core.errors.typed import ArgumentError
from functrax.core.events.recorder import recorder
from functrax.core.lazy import listing as _listing
from functrax.profiler.chrome import write
from functrax.profiler.tables import Report as Report, Row as Row, report_of
from functrax.transforms.arguments.flat import name_of

_path: list[Path | None] = []  # of the recording that is being made
_last: list[Report] = []


def start_trace(path: str | os.PathLike[str] | None = None) -> None:
    """Begin to record.

    Args:
      path: the file that :func:`stop_trace` writes: one that ends in ``.html`` is a page that
        needs nothing else, one in ``.json`` is for Perfetto or ``chrome://tracing``; a directory
        (any other name) gets a file ``trace.json``; None for :func:`report` alone.

    Raises:
      ArgumentError: if a recording is being made.

    >>> import functrax
    >>> functrax.profiler.start_trace()
    >>> functrax.profiler.stop_trace()
    """
    if recorder.on:
        raise ArgumentError(
            "start_trace: a recording is being made already",
            got="a second start",
            fix="stop_trace() first",
        )
    _path[:] = [None if path is None else Path(path)]
    recorder.start()


def stop_trace() -> None:
    """End the recording, and write its file.

    Raises:
      ArgumentError: if no recording is being made.

    >>> import functrax
    >>> functrax.profiler.start_trace()
    >>> functrax.profiler.stop_trace()
    """
    if not recorder.on:
        raise ArgumentError(
            "stop_trace: no recording is being made", got="a stop", fix="start_trace(path) first"
        )
    recording = recorder.stop()
    _last[:] = [report_of(recording)]
    path = _path[0]
    if path is not None:
        file = path if path.suffix in (".json", ".html") else path / "trace.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".html":
            from functrax.profiler.page import recording_page

            file.write_text(recording_page(recording, _last[0]), encoding="utf-8")
        else:
            write(recording, file)


@contextmanager
def trace(path: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Record a block; see :func:`start_trace`.

    Args:
      path: the file that is written, as for :func:`start_trace`.

    Returns:
      A context manager.

    Raises:
      ArgumentError: if a recording is being made.

    >>> import functrax, functrax.numpy as jnp
    >>> f = functrax.jit(lambda x: jnp.sin(x).sum())
    >>> with functrax.profiler.trace():
    ...     y = f(jnp.ones(1000))
    >>> functrax.profiler.report().kernels[0].count
    1
    """
    start_trace(path)
    try:
        yield
    finally:
        stop_trace()


def report() -> Report:
    """What the last recording shows, as a table.

    Returns:
      A :class:`Report`.

    Raises:
      ArgumentError: if there was none.

    >>> import functrax
    >>> with functrax.profiler.trace():
    ...     pass
    >>> len(functrax.profiler.report().kernels)
    0
    """
    if not _last:
        raise ArgumentError(
            "report: nothing was recorded",
            got="no recording",
            fix="with functrax.profiler.trace(): ...",
        )
    return _last[0]


class TraceAnnotation:
    """Names a block on the time line.

    Args:
      name: what it is called.
      facts: what the time line says of it besides.

    >>> import functrax
    >>> with functrax.profiler.TraceAnnotation("loading", epoch=3):
    ...     pass
    """

    kind = "user"

    def __init__(self, name: str, **facts: Any) -> None:
        self._name = name
        self._facts = facts

    def __enter__(self) -> TraceAnnotation:
        self._span = recorder.span(self.kind, self._name, **self._facts)
        self._span.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._span.__exit__(kind, error, traceback)


def StepTraceAnnotation(name: str, step_num: int = 0, **facts: Any) -> TraceAnnotation:
    """Names one step of a loop on the time line.

    Args:
      name: what the step is called.
      step_num: its number.
      facts: what the time line says of it besides.

    Returns:
      A context manager.

    >>> import functrax
    >>> with functrax.profiler.StepTraceAnnotation("train", step_num=3):
    ...     pass
    """
    return TraceAnnotation(f"{name} {step_num}", step_num=step_num, **facts)


def annotate_function(
    fun: Callable[..., Any] | None = None, name: str | None = None, **facts: Any
) -> Any:
    """A function whose calls are blocks on the time line.

    Args:
      fun: the function; None to get a decorator.
      name: what the blocks are called; the function's own name if None.
      facts: what the time line says of them besides.

    Returns:
      A function of the same arguments, or a decorator.

    >>> import functrax
    >>> @functrax.profiler.annotate_function(name="loading")
    ... def load(path):
    ...     return path
    >>> load("data")
    'data'
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with TraceAnnotation(name or name_of(function), **facts):
                return function(*args, **kwargs)

        return annotated

    return decorate if fun is None else decorate(fun)


__dir__ = _listing(globals())
