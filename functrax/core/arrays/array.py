"""``ConcreteArray``: an immutable array with a value.

It holds a NumPy array that nobody may write to, or a value that the executor keeps in a form of its
own (anything with ``materialize()``), or one that is recorded and not computed (:class:`Pending`),
which is computed when it is looked at.  Whoever wants the data asks :attr:`ConcreteArray.value`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from functrax.core import native
from functrax.core.arrays import dlpack
from functrax.core.arrays.operators import Array, ambiguous_truth
from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.typed import ArgumentError, DonatedBufferError, DTypeError, IndexingError
from functrax.core.events.recorder import recorder
from functrax.core.process import shared_memory
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

if TYPE_CHECKING:

    class BufferExporter:
        """The base that gives arrays the buffer protocol; there is none without the extension."""

    class Pending:
        """What an array holds whose operation is recorded, and runs when somebody looks.

        ``value`` is the raw value, or None while it is not computed, ``setting`` how and where the
        operation is recorded, and ``size`` an upper bound of the operations that have to run for
        it.  Without the extension there is none.
        """

        value: Any
        setting: Any
        size: int

        def result(self) -> Any:
            """The raw value, computed the first time; never pending."""

else:
    Pending = getattr(native.extension, "EagerValue", type("Pending", (), {}))
    BufferExporter = getattr(native.extension, "BufferExporter", object)


#: What programs fill, perhaps later.
_Buffer: Any = getattr(native.extension, "Buffer", None)


class Borrowed:
    """A NumPy array in memory that others may write to, so that operations read it at once."""

    __slots__ = ("_value",)

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self._value = value

    def materialize(self) -> np.ndarray[Any, Any]:
        """The elements as they are now, without a copy."""
        return self._value


#: Kinds of raw values that are not recorded: operations on them run at once.
READ_AT_ONCE: Final[set[type]] = {Borrowed}


@with_boundaries
class ConcreteArray(Array, BufferExporter):
    """An array whose elements are known, or can be computed at once.

    Args:
      buffer: a NumPy array (taken as it is; it must not be written to afterwards), a value with a
        method ``materialize() -> numpy.ndarray``, or a :class:`Pending` one.
      aval: its type.
    """

    __slots__ = ("__weakref__", "_buffer", "aval")

    def __init__(self, buffer: Any, aval: ShapedArray) -> None:
        self._buffer = buffer
        self.aval = aval

    @property
    def value(self) -> np.ndarray[Any, Any]:
        """The elements, as a NumPy array that must not be written to."""
        buffer = self._buffer
        if type(buffer) is np.ndarray:
            return buffer
        # The deferred form stays: what is computed from it must not depend on looking at it.
        if recorder.on:
            with recorder.span("fetch", self.aval.str_short(), bytes=self.nbytes):
                return self._elements()
        return self._elements()

    def _elements(self) -> np.ndarray[Any, Any]:
        known = self.buffer
        return known if type(known) is np.ndarray else known.materialize()

    @property
    def buffer(self) -> Any:
        """The NumPy array or the value in the executor's form; what is pending is computed."""
        buffer = self._buffer
        if type(buffer) is Pending:
            buffer = self._buffer = buffer.result()
        elif buffer is None:
            raise DonatedBufferError(
                "Array has been deleted: an array was used after it was deleted or donated",
                got=self.aval.str_short(),
                fix="use the result of the call that it was donated to, or do not donate it",
            )
        return buffer

    def delete(self) -> None:
        """Free the memory now; using the array afterwards is an error."""
        self._buffer = None

    def is_deleted(self) -> bool:
        """Whether the memory was freed by :meth:`delete` or by donation."""
        return self._buffer is None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        value = self.value
        if copy or (dtype is not None and np.dtype(dtype) != value.dtype):
            return np.array(value, dtype=dtype)
        view = value.view()
        view.flags.writeable = False
        return view

    def __dlpack__(self, **options: Any) -> Any:
        if native.extension is not None:
            native.extension.eager_settle(self.buffer)  # what reads it and is recorded runs now
            native.extension.tasks_drain()  # programs that read what may be written to now
        memory = dlpack.memory_of(self.buffer)
        if memory is not None:
            return self._gpu_capsule(memory, **options)
        return dlpack.exported(self.value, self.aval, **options)

    def _gpu_capsule(
        self, memory: dlpack.GpuMemory, *, copy: bool | None = None, **options: Any
    ) -> Any:
        """A capsule of elements on a GPU; on the host where the consumer asks for it."""
        if tuple(options.get("dl_device") or memory.device) == dlpack.CPU and copy is not False:
            return dlpack.exported(self.value, self.aval, **options)
        if copy:
            raise ArgumentError(
                "__dlpack__: a copy on a GPU is made by functrax",
                got="copy=True",
                fix="functrax.device_put(x, x.device, may_alias=False), without copy",
            )
        return dlpack.exported_memory(memory, self.aval, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        memory = dlpack.memory_of(self.buffer)
        return dlpack.CPU if memory is None else memory.device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where the elements are on a GPU, for libraries that share its memory.

        Raises:
          AttributeError: they are on the host, or of a dtype that the protocol lacks.
        """
        memory = dlpack.memory_of(self.buffer)
        if memory is None or self.aval.dtype.kind not in "biufc":
            raise AttributeError(f"no __cuda_array_interface__: {self.aval.str_short()}")
        return {**dlpack.interface(memory), "stream": 1}

    def item(self, *args: int) -> Any:
        """The element as a Python scalar; ``args`` choose it as in NumPy."""
        return self.value.item(*args)

    def tolist(self) -> Any:
        """The elements as nested Python lists."""
        return self.value.tolist()

    def __bool__(self) -> bool:
        if self.aval.size != 1:
            raise ambiguous_truth(self.aval)
        return bool(self.value)

    def __int__(self) -> int:
        return int(self._real_scalar("int"))

    def __index__(self) -> int:
        if self.aval.shape or not dtypes.is_integer(self.aval.dtype):
            raise ArgumentError(
                "index: Only integer scalar arrays can be converted to a scalar index.",
                got=self.aval.str_short(),
                fix="x.astype(int)",
            )
        return int(self.value[()])

    def __float__(self) -> float:
        return float(self._real_scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def _scalar(self, kind: str) -> Any:
        if self.aval.shape:
            raise ArgumentError(
                f"{kind}: Only scalar arrays can be converted to Python scalars.",
                got=self.aval.str_short(),
                fix="x[i] for one element, x.tolist() for all",
            )
        return self.value[()]

    def _real_scalar(self, kind: str) -> Any:
        if self.aval.dtype.kind == "c":
            raise DTypeError(
                f"{kind}: a complex number is no Python {kind}",
                got=self.aval.str_short(),
                fix="x.real, abs(x), or complex(x)",
            )
        return self._scalar(kind)

    #: None, not a method that raises: this is how ``isinstance(x, Hashable)`` knows.
    __hash__ = None  # type: ignore[assignment]

    def __format__(self, spec: str) -> str:
        return format(self.value[()] if not self.aval.shape else self.value, spec)

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        """The elements; where some are left out or there are none, also the shape, as in NumPy.

        An array that was deleted or donated says so, so that debuggers and notebooks can show it.
        """
        weak = ", weak_type=True" if self.aval.weak_type else ""
        prefix = "Array("
        kind = f"dtype={self.aval.dtype.name}{weak}"
        if self.is_deleted():
            return f"{prefix}shape={self.aval.shape}, {kind}, deleted)"
        body = np.array2string(self.value, separator=", ", prefix=prefix)
        is_short = self.size > np.get_printoptions()["threshold"]
        is_empty = not self.size and self.aval.shape != (0,)
        shape = f" shape={self.aval.shape}," if is_short or is_empty else ""
        place = f", device={self.device}" if is_short and str(self.device) != "cpu:0" else ""
        return f"{prefix}{body},{shape} {kind}{place})"

    def __reduce__(self) -> tuple[Any, ...]:
        if not shared_memory.is_sending(1) or self.nbytes < shared_memory.LEAST_BYTES:
            return (_unpickle, (np.asarray(self), self.aval))
        if not shared_memory.available():
            return (_unpickle, (np.asarray(self), self.aval))
        self._buffer = value = shared_memory.shared(self.value)  # to be sent again without a copy
        return (_attach, (self.aval, *shared_memory.handle(value)))

    def another(self) -> ConcreteArray:
        """An array of the same elements, which stays when this one is donated or deleted."""
        # What is pending stays so; the buffer of an array that is gone is an error.
        return ConcreteArray(self.buffer if self._buffer is None else self._buffer, self.aval)

    __copy__ = another

    def __deepcopy__(self, memo: Any) -> ConcreteArray:
        if type(self.buffer) in dlpack.MEMORY:
            return self.another()  # on its device; nobody writes to it
        return _unpickle(self.value.copy(), self.aval)

    def block_until_ready(self) -> ConcreteArray:
        """Wait until the elements are computed; returns the array itself."""
        buffer = self._buffer
        if type(buffer) is _Buffer:
            buffer.wait()
        elif type(buffer) is not np.ndarray:
            known = self.buffer
            if hasattr(known, "wait"):  # it is in the memory of a device
                known.wait()
            else:
                _ = self.value
        return self

    def is_ready(self) -> bool:
        """Whether the elements are computed, so that nobody has to wait for them."""
        buffer = self.buffer if self._buffer is None else self._buffer
        if type(buffer) is Pending:
            return False
        return bool(buffer.is_ready()) if hasattr(buffer, "is_ready") else True

    def copy_to_host_async(self) -> None:
        """Nothing to do: the elements are in the host's memory."""

    def on_device_size_in_bytes(self) -> int:
        """Bytes that the elements take where they are kept."""
        return self.nbytes

    def addressable_data(self, index: int) -> ConcreteArray:
        """The part of the array on device ``index``: all of it, on the only one.

        Raises:
          IndexingError: if there is no such part.
        """
        if index not in (0, -1):
            raise IndexingError(
                "addressable_data: the array is on one device", got=f"index {index}", fix="index 0"
            )
        return self


# Errors of Python call arrays what they print as; pickles and ``repr`` of the class read
# ``__qualname__``, which stays.
ConcreteArray.__name__ = "Array"


def _unpickle(value: np.ndarray[Any, Any], aval: ShapedArray) -> ConcreteArray:
    value.flags.writeable = False
    return ConcreteArray(value, aval)


def _attach(aval: ShapedArray, *handle: Any) -> ConcreteArray:
    return ConcreteArray(shared_memory.attached(*handle), aval)


def from_numpy(value: Any, *, weak_type: bool = False) -> ConcreteArray:
    """Wrap a NumPy array (or scalar) that nobody will write to, without a copy."""
    array = value if type(value) is np.ndarray else np.asarray(value)
    return ConcreteArray(array, ShapedArray(array.shape, array.dtype, weak_type))


def known_index(index: Any) -> Any:
    """An index as it is given; NumPy's integers of 64 bits stay so, also where x64 is off, if the
    narrower ones that arrays are made of do not hold them.
    """
    if not isinstance(index, (np.ndarray, np.generic)) or index.dtype.kind not in "iu":
        return index
    narrow = dtypes.canonicalize_dtype(index.dtype)
    if narrow == index.dtype or not index.size:
        return index
    limits = dtypes.iinfo(narrow)
    fits = limits.min <= int(index.min()) and int(index.max()) <= limits.max
    return index if fits else from_numpy(np.array(index))


def compute_together(leaves: Iterable[Any]) -> None:
    """Compute the arrays among some leaves by one program, not one after the other."""
    buffers = [x._buffer for x in leaves if type(x) is ConcreteArray]
    pending = [x for x in buffers if type(x) is Pending]
    if native.extension is not None and len(pending) > 1:
        native.extension.eager_compute(pending)


def living_arrays() -> list[ConcreteArray]:
    """The arrays that are alive and not deleted, in no particular order."""
    return [a for a in gc.get_objects() if type(a) is ConcreteArray and not a.is_deleted()]
