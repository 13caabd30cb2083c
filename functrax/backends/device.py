"""The interface between the language and what runs it.

A :class:`Device` compiles a program without constants into an :class:`Executable`, and applies
single operations for eager use.  Raw values are NumPy arrays, NumPy scalars (literals), or values
that the device has put off computing; only the device looks inside.

The options ``backend`` and ``default_device`` choose the current device; where they say nothing it
is the GPU of this machine, if there is one.  An operation runs there, or on the device that an
operand is bound to (``places.py``).  Programs remember their compiled form
per device.

Start at :class:`Device` and :func:`execute`.
"""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.places import Committed, known, transfer, unbound
from functrax.core.arrays.array import READ_AT_ONCE, Borrowed, ConcreteArray, Pending
from functrax.core.errors.typed import (
    ArgumentError,
    FunctraxError,
    GuardError,
    ShardingError,
    UnavailableError,
)
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import (
    Override,
    compile_context,
    state as options,
)
from functrax.core.tracing.inputs import concrete
from functrax.core.tracing.primitive import Primitive
from functrax.core.types.aval import ShapedArray

#: Takes one raw value for each input of the program, returns one for each result.
Executable: TypeAlias = Callable[[Sequence[Any]], list[Any]]


class Device(ABC):
    """Something that runs programs, and keeps arrays.

    Attributes:
      name: of what runs programs there.
      platform: ``"cpu"`` or ``"gpu"``: devices of one platform and number are one place.
      id: its number among those of its platform.
      process_index: of the process that it belongs to.
      local_hardware_id: its number on this machine.
      backend: the value of the option ``backend`` with which it is the default.
      raw: the class of its raw values, if they are not in the memory of the host.
      is_recorded: whether operations outside of ``jit`` are recorded for it, or run at once.
    """

    name: str
    backend: str
    raw: type | None = None
    is_recorded = False
    platform = "cpu"
    id = 0
    process_index = 0
    local_hardware_id = 0

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

    def hold(self, value: Any) -> Any:
        """A raw value as this device keeps it: copied from another device if it is there."""
        source = _holders.get(type(value))
        if source is None or source.platform == self.platform:
            return value
        with transfer(value, source, self):
            return value.materialize()

    def operands(self, values: Sequence[Any]) -> list[Any]:
        """Raw values as operations on this device take them."""
        return [self.hold(x) for x in values]

    def copied(self, value: Any) -> Any:
        """A raw value of this device in memory of its own."""
        return np.array(value if type(value) is np.ndarray else value.materialize())

    def adopted(self, shown: np.ndarray[Any, Any]) -> Any:
        """A raw value in memory of this device that another library keeps, dense or copied.

        Args:
          shown: where it is, and what keeps it; its elements cannot be looked at from the host.
        """
        raise NotImplementedError(f"{self}: the memory of the host needs no adoption")

    def memory_stats(self) -> dict[str, int] | None:
        """Bytes that are in use and how many there are; None where nobody counts, as on a CPU."""
        return None

    def __repr__(self) -> str:
        return f"{self.name_of_kind.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.name_of_kind}:{self.id}"

    @property
    def name_of_kind(self) -> str:
        """What the platform's maker calls it, as in ``cuda:0``."""
        return self.platform


#: The file that NVIDIA's driver makes where there is a GPU.
GPU_FILE: Final = "/dev/nvidiactl"

#: The modules that register devices when they are first wanted.
_LATER: Final = {"cuda": "functrax.backends.cuda.device"}


class _Devices(dict[str, Device]):
    def __missing__(self, backend: str) -> Device:
        if backend == "auto":
            self[backend] = _usable_gpu() or self["llvm"]
        else:
            import_module(_LATER[backend])
        return self[backend]


def _usable_gpu() -> Device | None:
    """The GPU of this machine, if there is one that programs can run on; else it says why not."""
    if not os.path.exists(GPU_FILE):
        return None
    found: Any = _devices["cuda"]
    try:
        found.open()
    except FunctraxError as error:
        if os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1"):
            why = f"{error.what} ({error.got})"
            warnings.warn(
                f"programs run on the CPU, for the GPU cannot be used: {why}", stacklevel=2
            )
        return None
    return found  # type: ignore[no-any-return]


#: By the value of the option ``backend``.
_devices: Final = _Devices()
#: Where there may be a GPU arrays are put there as they are made; its driver is opened then.
known.several = os.path.exists(GPU_FILE)


#: By the class of raw values that a device other than the host's processor keeps, the device.
_holders: Final[dict[type, Device]] = {}


def register(backend: str, device: Device, raw: type | None = None) -> None:
    """Make ``device`` run everything while the option ``backend`` has this value.

    Args:
      backend: the value.
      device: the device.
      raw: the class of its raw values, if they are not in the memory of the host.
    """
    _devices[backend] = device
    device.backend, device.raw = backend, raw
    if raw is not None:
        _holders[raw] = device
        READ_AT_ONCE.add(raw)
        known.several = True


def current_device() -> Device:
    """The device that runs everything now, but for programs of arrays bound to another."""
    default = options.default_device
    return _devices[options.backend] if default is None else _default(default)


def device_of(backend: str) -> Device:
    """The device that runs everything while the option ``backend`` has this value."""
    return _devices[backend]


def device_on(platform: str) -> Device:
    """The device of a platform: the one that the option ``backend`` chooses, if it is of it.

    Raises:
      UnavailableError: there is no such platform, or no device of it; it is a RuntimeError.
    """
    chosen = _devices[options.backend]
    if chosen.platform == "cpu" and platform in ("cpu", chosen.name):
        return chosen
    if platform == "cpu":
        return _devices["llvm"]
    if platform not in ("gpu", "cuda"):
        raise UnavailableError(
            f"Unknown backend {platform}. Available backends are ['cpu', 'cuda']",
            got=repr(platform),
            fix="'cpu', or 'gpu' where there is one",
        )
    found = _devices["cuda"]
    try:
        found.device_kind  # noqa: B018  (which opens the driver)
    except RuntimeError as error:
        raise _no_gpu(platform, error) from error
    return found


def _no_gpu(platform: str, error: RuntimeError) -> UnavailableError:
    got, fix = str(error), "'cpu'"
    if isinstance(error, FunctraxError):
        got, fix = f"{error.what}\n{error.got}", error.fix or fix
    what = f"{platform!r} requested, but no platforms that are instances of {platform} are present"
    return UnavailableError(
        f"Unknown backend: {what}. Platforms present are: cpu", got=got, fix=fix
    )


def _default(where: Any) -> Device:
    """The device that the option ``default_device`` names."""
    if isinstance(where, str) and where in ("cpu", "gpu", "cuda"):
        return device_on(where)
    if isinstance(where, Device):
        chosen = _devices[options.backend]
        return chosen if chosen.platform == where.platform else where
    raise ArgumentError(
        "jax.default_device must be passed either a Device object (e.g. `jax.devices('cpu')[0]`) "
        "or a platform name string like 'cpu' or 'gpu'",
        got=repr(where),
        fix="functrax.devices()[0], 'cpu' or 'gpu'",
    )


def running_on(device: Device) -> AbstractContextManager[None]:
    """A block in which ``device`` runs everything."""
    if device is current_device():
        return nullcontext()
    return Override("default_device", device)


def place_of(array: ConcreteArray) -> Device:
    """The device that has an array."""
    raw = array._buffer
    if type(raw) is Committed:
        return raw.device  # type: ignore[no-any-return]
    if type(raw) is Pending:
        return raw.setting.device  # type: ignore[no-any-return]
    return _holders.get(type(raw)) or device_on("cpu")


def bound_to(array: Any) -> Device | None:
    """The device that an array is bound to, if it is to one."""
    raw = array._buffer if type(array) is ConcreteArray else None
    return raw.device if type(raw) is Committed else None


def put_on(array: ConcreteArray, device: Device) -> ConcreteArray:
    """An array bound to a device, where it is copied to if it is not there."""
    return ConcreteArray(Committed(device.hold(unbound(array.buffer)), device), array.aval)


def free(array: Any) -> Any:
    """An array that is bound to no device; others, and other values, as they are."""
    if type(array) is not ConcreteArray or type(array._buffer) is not Committed:
        return array
    return ConcreteArray(array._buffer.value, array.aval)


def another_copy(array: ConcreteArray) -> ConcreteArray:
    """An array of the same elements in memory of its own, where the first one is."""
    raw, device = array.buffer, place_of(array)
    copied = device.copied(unbound(raw))
    return ConcreteArray(
        Committed(copied, device) if type(raw) is Committed else copied, array.aval
    )


def made_on_default(value: Any) -> Any:
    """An array that was made of elements of the host, on the current device; not bound to it."""
    if not known.several or type(value) is not ConcreteArray:
        return value
    device = current_device()
    raw = value._buffer
    if device.platform == "cpu" or type(raw) is not np.ndarray:
        return value
    return ConcreteArray(device.hold(raw), value.aval)


def device_for(name: str, args: Sequence[Any]) -> Device:
    """The device that an operation on arrays runs on: that which one is bound to, or the current.

    Raises:
      ShardingError: two arrays are bound to different devices.
    """
    first: tuple[int, Device] | None = None
    for number, x in enumerate(args):
        device = bound_to(x)
        if device is None:
            continue
        if first is None:
            first = number, device
        elif first[1].platform != device.platform:
            shown = [
                f"argument {n} of {name} with shape {args[n].aval.str_short()} and with device ids "
                f"[{d.id}] on platform {d.platform.upper()}"
                for n, d in (first, (number, device))
            ]
            raise ShardingError(
                "Received incompatible devices for jitted computation. Got " + " and ".join(shown),
                got=f"arrays that were put on {first[1]} and on {device}",
                fix="functrax.device_put(x, device) for one of them",
            )
    current = current_device()
    return current if first is None or first[1].platform == current.platform else first[1]


def executable_of(jaxpr: Jaxpr) -> Executable:
    """A program without constants, compiled for the current device, and remembered."""
    device = current_device()
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
    if known.several:
        return _execute_somewhere(primitive, args, values, params, avals)
    borrowed = [x for x in values if type(x) is Borrowed]
    out = current_device().apply(primitive, values, params)
    if type(avals) is ShapedArray:
        return ConcreteArray(_own(out, borrowed), avals)
    return [ConcreteArray(_own(v, borrowed), a) for v, a in zip(out, avals, strict=True)]


def _execute_somewhere(
    primitive: Primitive,
    args: Sequence[Any],
    values: Sequence[Any],
    params: dict[str, Any],
    avals: Any,
) -> Any:
    """:func:`execute` where there are several devices: on that of the operands."""
    program = params.get("jaxpr")
    name = program.name if type(program) is Jaxpr else primitive.name
    device = device_for(name, args)
    bound = any(type(x) is Committed for x in values)
    held = device.operands([unbound(x) for x in values])
    borrowed = [x for x in held if type(x) is Borrowed]
    with running_on(device):
        out = device.apply(primitive, held, params)

    def array(value: Any, aval: ShapedArray) -> ConcreteArray:
        own = _own(value, borrowed)
        return ConcreteArray(Committed(own, device) if bound else own, aval)

    if type(avals) is ShapedArray:
        return array(out, avals)
    return [array(v, a) for v, a in zip(out, avals, strict=True)]


def _own(value: Any, borrowed: Sequence[Borrowed]) -> Any:
    """A result that does not change when somebody writes to what it was made of."""
    if not borrowed:
        return value
    array = value if type(value) is np.ndarray else value.materialize()
    if any(np.may_share_memory(array, x.materialize()) for x in borrowed):
        return array.copy()
    return value
