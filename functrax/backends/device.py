"""The interface between the language and what runs it.

A :class:`Device` compiles a program without constants into an :class:`Executable`, and applies
single operations for eager use.  Raw values are NumPy arrays, NumPy scalars (literals), or values
that the device has put off computing; only the device looks inside.

The option ``backend`` chooses the current device; programs remember their compiled form per device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.core.arrays.array import Borrowed, ConcreteArray
from functrax.core.errors.typed import GuardError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import compile_context, state as options
from functrax.core.tracing.inputs import concrete
from functrax.core.tracing.primitive import Primitive
from functrax.core.types.aval import ShapedArray

#: Takes one raw value for each input of the program, returns one for each result.
Executable: TypeAlias = Callable[[Sequence[Any]], list[Any]]


class Device(ABC):
    """Something that runs programs, and keeps arrays."""

    name: str
    platform = "cpu"
    id = 0
    process_index = 0

    @property
    def device_kind(self) -> str:
        """What kind of device it is, in a word."""
        return self.platform

    @property
    def compiler(self) -> Any:
        """The device whose compiler shows how programs are compiled."""
        return device_of("llvm")

    @abstractmethod
    def compile(self, jaxpr: Jaxpr) -> Executable:
        """Prepare a program without constants for running."""

    @abstractmethod
    def apply(self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run one operation: one raw result, or a list if the primitive has several."""

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"


#: The modules that register devices when they are first wanted.
_LATER: Final = {"cuda": "functrax.backends.cuda.device"}


class _Devices(dict[str, Device]):
    def __missing__(self, backend: str) -> Device:
        import_module(_LATER[backend])
        return self[backend]


#: By the value of the option ``backend``.
_devices: Final = _Devices()


def register(backend: str, device: Device) -> None:
    """Make ``device`` run everything while the option ``backend`` has this value."""
    _devices[backend] = device


def current_device() -> Device:
    """The device that runs everything now."""
    return _devices[options.backend]


def device_of(backend: str) -> Device:
    """The device that runs everything while the option ``backend`` has this value."""
    return _devices[backend]


def executable_of(jaxpr: Jaxpr) -> Executable:
    """A program without constants, compiled for the current device, and remembered."""
    device = _devices[options.backend]
    guarded = options.debug_nans or options.debug_infs
    key = ("executable", device.name, guarded, compile_context())
    executable: Executable | None = jaxpr.memo.get(key)
    if executable is None:
        executable = jaxpr.memo[key] = device.compile(jaxpr)
    return executable


def run_jaxpr(jaxpr: Jaxpr, values: Sequence[Any]) -> list[Any]:
    """Run a program on raw values, compiling it the first time.

    Results are raw values too; ``np.asarray`` gives the elements of one.
    """
    return executable_of(jaxpr)(values)


def execute(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply a primitive to concrete arrays and literals, at once."""
    if options.no_execution:
        raise GuardError(
            f"{primitive.name}: it would have to run, and no_execution forbids it",
            got=", ".join([x.aval.str_short() for x in args]) or "no operands",
            fix="functrax.eval_shape or functrax.make_jaxpr, which run nothing",
        )
    simpler = primitive.simplify(*args, **params)
    if simpler is not None:
        return concrete(simpler)
    avals = primitive.infer(tuple([x.aval for x in args]), params)
    values = [x.buffer if type(x) is ConcreteArray else x.val for x in args]
    borrowed = [x for x in values if type(x) is Borrowed]
    out = _devices[options.backend].apply(primitive, values, params)
    if type(avals) is ShapedArray:
        return ConcreteArray(_own(out, borrowed), avals)
    return [ConcreteArray(_own(v, borrowed), a) for v, a in zip(out, avals, strict=True)]


def _own(value: Any, borrowed: Sequence[Borrowed]) -> Any:
    """A result that does not change when somebody writes to what it was made of."""
    if not borrowed:
        return value
    array = value if type(value) is np.ndarray else value.materialize()
    if any(np.may_share_memory(array, x.materialize()) for x in borrowed):
        return array.copy()
    return value
