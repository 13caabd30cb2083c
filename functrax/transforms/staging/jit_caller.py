"""Who makes the calls of jitted functions: C++, or its Python twin.

:class:`JitCaller` is the base class of jitted functions, and has their ``__call__``.  The C++ one
(``backends/native/jit_caller.cpp``) goes by itself from the arguments to the results of a call
whose signature was seen before.  It leaves to two methods of the subclass what it cannot do:

- ``_call_in_python(*args, **kwargs)`` makes any call.  :class:`PythonCaller`, the twin, has no
  other way.
- ``_call_and_prepare(args, kwargs)`` makes the first call of a signature, and returns beside the
  results a :class:`Prepared`, or None where later calls need Python as well.

Part of a signature are the options that a call depends on, which :func:`options_key` gives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from functrax.backends.device import current_device, executable_of
from functrax.core import native
from functrax.core.arrays.array import ConcreteArray
from functrax.core.boundaries.tracebacks import boundary
from functrax.core.events.recorder import recorder
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import compile_context, state as options, trace_context
from functrax.core.pytree.operations import PyTreeDef
from functrax.core.tracing.primitive import Value
from functrax.core.types.aval import ShapedArray


class Prepared(NamedTuple):
    """What it takes to call a program without Python.

    Args:
      executable: a program of the native runtime.
      consts: its leading inputs.
      out_avals: the types of its results.
      out_tree: the structure of its results.
    """

    executable: Callable[..., Any]
    consts: tuple[ConcreteArray, ...]
    out_avals: tuple[ShapedArray, ...]
    out_tree: PyTreeDef


class PythonCaller:
    """Makes every call in Python."""

    _direct_hits = 0  # calls that Python did not see

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not recorder.on:
            return self._call_in_python(*args, **kwargs)
        begin = time.perf_counter_ns()
        try:
            return self._call_in_python(*args, **kwargs)
        finally:
            recorder.add_call(self, begin)

    def _call_in_python(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _set_roles(
        self,
        static_nums: Iterable[int],
        static_names: frozenset[str],
        donate_nums: Iterable[int],
        donate_names: frozenset[str],
    ) -> None:
        """Say which arguments are static and which are donated, by position and by name."""

    def _drop_unused(self) -> list[Callable[..., Any]]:
        """Ask anew for signatures that were not used since this was last done; the executables of
        the others.
        """
        return []

    def _forget(self) -> None:
        """Ask for every signature anew."""


if TYPE_CHECKING:
    JitCaller = PythonCaller
else:
    JitCaller = getattr(native.extension, "JitCaller", PythonCaller)

_keys: dict[Hashable, Hashable] = {}


def options_key() -> Hashable | None:
    """The options that the call of a traced program depends on; None while calls need Python.

    Equal keys are one object, which lives forever.  Last is whether programs may run while Python
    goes on.
    """
    if options.disable_jit or options.debug_nans or options.debug_infs or options.no_execution:
        return None
    key = (trace_context(), current_device().name, compile_context(), options.async_dispatch)
    return _keys.setdefault(key, key)


def connect(jitted_class: type) -> None:
    """Let C++ make the calls of a class of jitted functions, if it is there."""
    if native.extension is not None:
        native.extension.jit_configure(ConcreteArray, jitted_class, options_key)


def prepare(jaxpr: Jaxpr, consts: tuple[Value, ...], out_tree: PyTreeDef) -> Prepared | None:
    """What C++ needs to call a program; None if it cannot."""
    if native.extension is None or any(type(c) is not ConcreteArray for c in consts):
        return None
    executable = executable_of(jaxpr)
    extension = native.extension
    if type(executable) not in (extension.Executable, extension.DeviceExecutable):
        return None
    return Prepared(executable, consts, tuple(jaxpr.out_avals), out_tree)
