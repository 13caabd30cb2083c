"""The process that one framework lives in: it prepares workloads and takes samples on request.

Each framework has a process of its own, so that thread pools and allocators do not meet, and one
that crashes or runs over its time can be ended alone.  ``Worker`` is the runner's end: ``ask``
sends a request and waits for the answer; ``serve`` is the other end, and ``Session`` what it does.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import sys
import time
import timeit
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.frameworks import Framework, load, same, version
from benchmarks.workload import Workload

MOST_COMPARED = 1 << 19  # elements of one output that are sent for comparing
SAMPLE_SECONDS = 1e-3  # a sample lasts at least this long, in as many calls as it takes
STARTING_SECONDS = 60.0
OVER_LIMIT = "over the time limit"


class MeasurementError(Exception):
    """A framework could not do what it was asked; the text says why."""


class Worker:
    """A framework's process, started when first asked and again after it was ended.

    ``checkout`` is where the framework is imported from, if not from where Python finds it.
    """

    def __init__(
        self,
        framework: str,
        environment: Mapping[str, str] | None = None,
        checkout: Path | None = None,
    ) -> None:
        self.framework = framework
        self._environment = dict(environment or {})
        self._checkout = checkout
        self._process: Any = None
        self._connection: Any = None

    def ask(self, limit: float, request: str, *details: Any) -> Any:
        """Send a request and wait for its answer.

        Raises:
            MeasurementError: it is not installed, raised, crashed, or took more than ``limit``
                seconds; in the last two cases its process is gone.
        """
        if self._process is None:
            self._start()
        self._connection.send((request, details))
        return self._answer(limit)

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        self._process.kill()
        self._process.join()
        self._connection.close()
        self._process = None

    def _start(self) -> None:
        if version(self.framework) is None:
            raise MeasurementError("not installed")
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        details = (theirs, self.framework, self._environment, self._checkout)
        self._process = context.Process(target=serve, args=details, daemon=True)
        self._process.start()
        theirs.close()
        self._answer(STARTING_SECONDS)

    def _answer(self, limit: float) -> Any:
        if not self._connection.poll(max(limit, 0.0)):
            self.close()
            raise MeasurementError(OVER_LIMIT)
        try:
            done, answer = self._connection.recv()
        except (EOFError, ConnectionResetError):
            self.close()
            raise MeasurementError("crashed") from None
        if not done:
            raise MeasurementError(answer)
        return answer


class CheckoutFinder(MetaPathFinder):
    """Finds a package and its modules in a checkout, before an installation does.

    An editable one has a finder of its own, to which ``sys.path`` does not matter.
    """

    def __init__(self, package: str, checkout: Path) -> None:
        self._package, self._checkout = package, checkout

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        """Where a module is, if it is of the package."""
        if fullname.partition(".")[0] != self._package:
            return None
        return PathFinder.find_spec(fullname, [str(self._checkout)] if path is None else path)


def serve(
    connection: Connection,
    framework: str,
    environment: Mapping[str, str],
    checkout: Path | None = None,
) -> None:
    """Answer requests, (method of ``Session``, arguments), until the runner goes away."""
    os.environ.update(environment)
    if checkout is not None:
        sys.meta_path.insert(0, CheckoutFinder(framework, checkout))
    session: Session | None = None
    request: tuple[str, tuple[Any, ...]] = ("load", ())
    while True:
        try:
            if session is None:
                session = Session(load(framework))
                connection.send((True, None))
            else:
                connection.send((True, answer(session, *request)))
        except Exception as error:  # whatever a framework raises is an answer too
            connection.send((False, one_line(error)))
        try:
            request = connection.recv()
        except EOFError:
            return


def answer(session: Session, request: str, details: tuple[Any, ...]) -> Any:
    """What one request asks for: a method of the session, or a function given by its name."""
    if request == "call":
        module, name, *rest = details
        return getattr(importlib.import_module(module), name)(session, *rest)
    return getattr(session, request)(*details)


def one_line(error: BaseException) -> str:
    """An error's class and the first line of its text."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:160]


class Session:
    """What a framework's process holds: the workload at hand, its inputs, and its function."""

    def __init__(self, framework: Framework) -> None:
        self.framework = framework
        self.timer: timeit.Timer | None = None
        self.calls = 1

    def prepare(self, name: str) -> tuple[float, list[np.ndarray]]:
        """Make inputs and function, call once; the first call's microseconds, and its values."""
        self.drop()
        workload = workloads.find(name)
        args = self.framework.place(workload.inputs())
        function = self.framework.build(workload)
        begin = time.perf_counter()
        result = self.framework.block(function(*args))
        first = (time.perf_counter() - begin) * 1e6
        values = compared(self.framework.arrays(result))
        self.timer = self._timer(workload, function, args, result)
        return first, values

    def sample(self, seconds: float, most: int) -> list[float]:
        """Microseconds a call: one call to warm up, then samples for so many seconds."""
        assert self.timer is not None
        begin = time.perf_counter()
        once = self.timer.timeit(1)
        if most == 1:
            return [once * 1e6]
        if once < SAMPLE_SECONDS:
            once = min(self.timer.timeit(1) for _ in range(5))
            self.calls = max(1, round(SAMPLE_SECONDS / max(once, 1e-7)))
        taken = [self._sample()]
        while time.perf_counter() - begin < seconds and len(taken) < most:
            taken.append(self._sample())
        return taken

    def drop(self) -> None:
        """Forget the workload."""
        self.timer, self.calls = None, 1
        gc.collect()

    def _sample(self) -> float:
        assert self.timer is not None
        return self.timer.timeit(self.calls) / self.calls * 1e6

    def _timer(
        self, workload: Workload, function: Any, args: tuple[Any, ...], result: Any
    ) -> timeit.Timer:
        """Times ``block(function(*args))``, written out so that nothing else is timed."""
        names = [f"a{i}" for i in range(len(args))]
        call = f"function({', '.join(names)})"
        if workload.mode != "record":
            has_method = hasattr(result, "block_until_ready")
            call = f"{call}.block_until_ready()" if has_method else f"block({call})"
        if self.framework.block is same:
            call = call.removeprefix("block")
        scope = {"function": function, "block": self.framework.block, **dict(zip(names, args))}
        return timeit.Timer(call, globals=scope)


def compared(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs, thinned out where they are large."""
    thin = []
    for array in arrays:
        step = 1 + array.size // MOST_COMPARED
        step += step > 1 and step % 2 == 0  # odd, so that it meets all columns
        thin.append(np.ascontiguousarray(array.ravel()[::step]))
    return thin
