"""Calls of handlers through ctypes: the twin of ``backends/native/foreign.cpp``, in which the
structures and functions of ``functrax/ffi.h`` have their names.

An exception that a function in C++ throws ends the process here.

Start at :meth:`PythonCall.run`.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from functrax.core.foreign.attributes import ARRAY, DICTIONARY, SCALAR
from functrax.core.foreign.descriptions import MOST_NUMBERS, MOST_WORDS, Description
from functrax.core.foreign.targets import target_of
from functrax.core.process.locks import new_lock

_POINTER, _SIZE, _I32, _I64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_int64
INSTANTIATE, PREPARE, INITIALIZE, EXECUTE = range(4)
UNIMPLEMENTED, INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION = 12, 3, 5, 9
_BUFFER: Final = 1
_METADATA: Final = 1
_FUNCTIONS: Final = 18  # of the interface; behind them stand as many that fail
_NEWER: Final = 64


def _structure(*fields: tuple[str, Any]) -> type[ctypes.Structure]:
    head = [("size", _SIZE), ("extension", _POINTER)]
    return type("Structure", (ctypes.Structure,), {"_fields_": [*head, *fields]})


def _plain(*fields: tuple[str, Any]) -> type[ctypes.Structure]:
    return type("Structure", (ctypes.Structure,), {"_fields_": list(fields)})


_Buffer: Any = _structure(
    ("type", _I32), ("data", _POINTER), ("rank", _I64), ("dims", ctypes.POINTER(_I64))
)
_String: Any = _plain(("data", _POINTER), ("length", _SIZE))
_Scalar: Any = _plain(("type", _I32), ("value", _POINTER))
_Array: Any = _plain(("type", _I32), ("count", _SIZE), ("data", _POINTER))
_Values: Any = _structure(("count", _I64), ("kinds", _POINTER), ("values", _POINTER))
_Attributes: Any = _structure(
    ("count", _I64), ("kinds", _POINTER), ("names", _POINTER), ("values", _POINTER)
)
_Version: Any = _structure(("major", ctypes.c_int), ("minor", ctypes.c_int))
_About: Any = _plain(
    ("size", _SIZE), ("version", _Version), ("traits", ctypes.c_uint32), ("state", _I64)
)
_AboutExtension: Any = _plain(
    ("size", _SIZE), ("kind", _I32), ("next", _POINTER), ("about", _POINTER)
)
_Frame: Any = _structure(
    *(("api", _POINTER), ("context", _POINTER), ("stage", _I32)),
    *(("arguments", _Values), ("results", _Values), ("attributes", _Attributes)),
    ("future", _POINTER),
)
_Api: Any = _structure(
    ("version", _Version), ("internal", _POINTER), ("functions", _POINTER * (_FUNCTIONS + _NEWER))
)
_FRAME_SIZE: Final = _Frame.future.offset  # the last member does not count

_NewError: Any = _structure(("message", ctypes.c_char_p), ("code", _I32))
_ErrorMessage: Any = _structure(("error", _POINTER), ("message", _POINTER))
_NewType: Any = _structure(("name", _String), ("id", ctypes.POINTER(_I64)), ("info", _POINTER))
_TypeInfo: Any = _structure(("destroy", _POINTER))
_StateArgs: Any = _structure(
    *(("context", _POINTER), ("stage", _I32), ("id", ctypes.POINTER(_I64)), ("state", _POINTER))
)
_Memory: Any = _structure(
    ("context", _POINTER), ("bytes", _SIZE), ("alignment", _SIZE), ("data", _POINTER)
)
_OldMemory: Any = _structure(("context", _POINTER), ("bytes", _SIZE), ("data", _POINTER))
_Task: Any = _structure(("context", _POINTER), ("task", _POINTER), ("data", _POINTER))
_Count: Any = _structure(("context", _POINTER), ("count", ctypes.POINTER(_I64)))
_FutureArgs: Any = _structure(("future", _POINTER), ("error", _POINTER))
_Number: Any = _structure(("context", _POINTER), ("number", _I64))

_Stages: TypeAlias = tuple[int, int, int, int]

_Handler: Final = ctypes.CFUNCTYPE(_POINTER, _POINTER)
_Destroy: Final = ctypes.CFUNCTYPE(None, _POINTER)

# What handlers refer to, by number; numbers are never used again.
_numbers: Final = itertools.count(1)
_errors: Final[dict[int, tuple[int, Any]]] = {}
_contexts: Final[dict[int, dict[int, _State]]] = {}
_futures: Final[dict[int, _Future]] = {}
_memory: Final[dict[int, Any]] = {}
_types: Final[dict[bytes, tuple[int, int]]] = {}
_lock = new_lock()


class _State:
    """What a handler keeps between calls."""

    def __init__(self) -> None:
        self.object, self.type, self.destroy = 0, 0, 0

    def free(self) -> None:
        """Give it up."""
        if self.object and self.destroy:
            _Destroy(self.destroy)(self.object)
        self.object = 0


class _Future:
    """Results that come later, and the error if they never do."""

    def __init__(self) -> None:
        self.finished, self.error = threading.Event(), 0


def _failed(code: int, message: str | bytes) -> int:
    number = next(_numbers)
    text = message.encode() if isinstance(message, str) else message
    _errors[number] = code, ctypes.create_string_buffer(text)
    return number


def _taken(error: int) -> tuple[int, str]:
    code, text = _errors.pop(error)
    return code, text.value.decode("utf-8", "replace")


# ---- what the runtime offers: each gets its arguments -------------------------------------------


def _new_error(x: Any) -> int:
    return _failed(x.code, x.message or b"")


def _error_message(x: Any) -> None:
    x.message = ctypes.addressof(_errors[x.error][1])


def _free_error(x: Any) -> None:
    _errors.pop(x.error, None)


def _register_handler(_: Any) -> int:
    message = "handlers are registered by functrax.ffi.register_ffi_target"
    return _failed(UNIMPLEMENTED, message)


def _stream(_: Any) -> int:
    return _failed(UNIMPLEMENTED, "the CPU has no stream")


def _register_type(x: Any) -> int | None:
    name = ctypes.string_at(x.name.data, x.name.length)
    destroy = _TypeInfo.from_address(x.info).destroy or 0 if x.info else 0
    try:
        x.id[0] = register_type(name, x.id[0], destroy)
    except ValueError as error:
        return _failed(6, str(error))
    return None


def register_type(name: bytes, number: int, destroy: int) -> int:
    """Give a type's name a number, or find what it has.

    Args:
      name: of the type.
      number: what it is to be, or 0.
      destroy: the address of what frees an object, or 0.

    Raises:
      ValueError: name and number do not go together.
    """
    with _lock:
        known = _types.get(name)
        if known is not None:
            if number not in (0, known[0]):
                raise ValueError(f"the type {name!r} is registered with another number")
            return known[0]
        used = {x for x, _ in _types.values()}
        if number in used:
            raise ValueError(f"the number of the type {name!r} is that of another")
        number = number or max(used, default=0) + 1
        _types[name] = number, destroy
        return number


def add_type(name: str, number: int, info: int) -> None:
    """Register a type whose number is to be written to an address."""
    place = _I64.from_address(number)
    destroy = _TypeInfo.from_address(info).destroy or 0 if info else 0
    place.value = register_type(name.encode(), place.value, destroy)


def _context_data(_: Any) -> int:
    return _failed(NOT_FOUND, "the context has no data of this type")


def _state(x: Any) -> _State | int:
    if x.size < ctypes.sizeof(_StateArgs):
        message = "states need a handler that is built with version 0.3 of the interface"
        return _failed(UNIMPLEMENTED, message)
    found = _contexts[x.context].get(x.stage)
    return (
        _failed(FAILED_PRECONDITION, "there is no state of this stage") if found is None else found
    )


def _set_state(x: Any) -> int | None:
    state = _state(x)
    if isinstance(state, int):
        return state
    if state.object:
        return _failed(6, "the state is set already")
    for number, destroy in _types.values():
        if number == x.id[0]:
            state.object, state.type, state.destroy = x.state or 0, number, destroy
            return None
    message = "the type of the state is not registered: register_ffi_type"
    return _failed(FAILED_PRECONDITION, message)


def _get_state(x: Any) -> int | None:
    state = _state(x)
    if isinstance(state, int):
        return state
    if not state.object:
        return _failed(NOT_FOUND, "the state is not set")
    if state.type != x.id[0]:
        return _failed(INVALID_ARGUMENT, "the state is of another type")
    x.state = state.object
    return None


def _allocate(x: Any) -> None:
    block = ctypes.create_string_buffer(x.bytes + x.alignment)
    step = max(x.alignment, 1)
    x.data = -(-ctypes.addressof(block) // step) * step
    _memory[x.data] = block


def _deallocate(x: Any) -> None:
    _memory.pop(x.data, None)


def _schedule(x: Any) -> None:
    _Destroy(x.task)(x.data)


def _threads(x: Any) -> None:
    x.count[0] = 1


def _new_future(x: Any) -> None:
    x.future = next(_numbers)
    _futures[x.future] = _Future()


def _finish_future(x: Any) -> None:
    _futures[x.future].finished.set()


def _fail_future(x: Any) -> None:
    future = _futures[x.future]
    future.error = x.error
    future.finished.set()


def _run(x: Any) -> None:
    x.number = x.context


def _device(x: Any) -> None:
    _I32.from_address(ctypes.addressof(x) + _Number.number.offset).value = 0


def _unknown(_: Any) -> int:
    message = "a function of the interface that is newer than its version 0.3"
    return _failed(UNIMPLEMENTED, message)


@cache
def _api() -> Any:
    """The functions as handlers find them."""
    error, future = _structure(("error", _POINTER)), _FutureArgs
    known = (
        *((_new_error, _NewError), (_error_message, _ErrorMessage), (_free_error, error)),
        *((_register_handler, error), (_stream, error), (_register_type, _NewType)),
        *((_context_data, error), (_set_state, _StateArgs), (_get_state, _StateArgs)),
        *((_allocate, _Memory), (_deallocate, _OldMemory), (_schedule, _Task)),
        *((_threads, _Count), (_new_future, future), (_finish_future, future)),
        *((_fail_future, future), (_run, _Number), (_device, _Number)),
    )
    functions = [_offered(*x) for x in known]
    functions += [_Handler(_unknown)] * _NEWER
    version = _Version(ctypes.sizeof(_Version), None, 0, 3)
    api = _Api(_Api.functions.offset + _FUNCTIONS * ctypes.sizeof(_POINTER), None, version, None)
    for k, function in enumerate(functions):
        api.functions[k] = ctypes.cast(function, _POINTER).value
    api.kept = functions
    return api


def _offered(function: Callable[[Any], Any], of: Any) -> Any:
    return _Handler(lambda address: function(of.from_address(address)) or 0)


# ---- calls ---------------------------------------------------------------------------------------


class PythonCall:
    """A call that Python makes."""

    address = 0

    def __init__(self, description: Description) -> None:
        self._of = description
        self._attributes = _AttributeMemory(description.attributes)
        self._instances: dict[_Stages, _State] = {}
        self._making = new_lock()

    def __del__(self) -> None:
        for state in self._instances.values():
            state.free()

    def _stages(self) -> _Stages:
        """The functions of the target, which may have been registered again."""
        target = self._of.target
        return (target_of(target.name, target.platform) or target).stages

    def check(self) -> None:
        """Nothing: :meth:`run` raises."""

    def run(self, addresses: Sequence[int]) -> None:
        """Run it on arrays at these addresses."""
        x, stages = self._of, self._stages()
        places = [addresses[place] for _, _, place in x.arrays]
        if x.target.convention == "plain":
            self._plain(addresses, stages[EXECUTE])
        elif x.target.convention == "untyped":
            self._untyped(places, stages[EXECUTE])
        else:
            self._frame(places, stages)

    def _plain(self, addresses: Sequence[int], function_address: int) -> None:
        words = [addresses[value] if placed else value for placed, value in self._of.words]
        words += [0] * (MOST_WORDS - len(words))
        numbers = [*self._of.numbers, *[0.0] * (MOST_NUMBERS - len(self._of.numbers))]
        types: list[Any] = [*[_I64] * MOST_WORDS, *[ctypes.c_double] * MOST_NUMBERS]
        function = ctypes.CFUNCTYPE(_I32, *types)(function_address)
        status = function(*words, *numbers)
        if self._of.target.has_status and status:
            self._of.report(2, f"the function returned {status}")

    def _untyped(self, places: Sequence[int], function_address: int) -> None:
        count = self._of.num_operands
        arguments = (_POINTER * max(count, 1))(*places[:count])
        results = (_POINTER * max(len(places) - count, 1))(*places[count:])
        function = ctypes.CFUNCTYPE(None, _POINTER, _POINTER)(function_address)
        one = len(places) - count == 1
        function(places[count] if one else ctypes.addressof(results), ctypes.addressof(arguments))

    def _frame(self, places: Sequence[int], stages: _Stages) -> None:
        x = self._of
        kept: list[Any] = []
        buffers = []
        for (code, dims, _), place in zip(x.arrays, places, strict=True):
            sizes = (_I64 * max(len(dims), 1))(*dims)
            buffers.append(_Buffer(ctypes.sizeof(_Buffer), None, code, place, len(dims), sizes))
            kept.append(sizes)
        operands, results = buffers[: x.num_operands], buffers[x.num_operands :]
        states = {PREPARE: _State(), INITIALIZE: _State()}
        frame = _frame(_values(operands, kept), _values(results, kept), self._attributes.view)
        context = frame.context = next(_numbers)
        _contexts[context] = states
        try:
            if stages[INSTANTIATE]:
                states[INSTANTIATE] = self._instance(stages)
            for stage in (PREPARE, INITIALIZE, EXECUTE):
                self._stage(frame, stage, stages[stage])
        finally:
            del _contexts[context]
            states[PREPARE].free()
            states[INITIALIZE].free()

    def _instance(self, stages: _Stages) -> _State:
        with self._making:
            if stages not in self._instances:
                state = _State()
                frame = _frame(_values([], []), _values([], []), self._attributes.view)
                context = frame.context = next(_numbers)
                _contexts[context] = {INSTANTIATE: state}
                try:
                    self._stage(frame, INSTANTIATE, stages[INSTANTIATE])
                finally:
                    del _contexts[context]
                self._instances[stages] = state
            return self._instances[stages]

    def _stage(self, frame: Any, stage: int, address: int) -> None:
        if not address:
            return
        frame.stage, frame.future = stage, None
        error = _Handler(address)(ctypes.addressof(frame))
        if not error and frame.future:
            future = _futures[frame.future]
            future.finished.wait()
            del _futures[frame.future]
            error = future.error
        if error:
            self._of.report(*_taken(error))


def _frame(arguments: Any, results: Any, attributes: Any) -> Any:
    api = ctypes.addressof(_api())
    return _Frame(_FRAME_SIZE, None, api, None, EXECUTE, arguments, results, attributes, None)


def _values(buffers: Sequence[Any], kept: list[Any]) -> Any:
    count = max(len(buffers), 1)
    kinds = (_I32 * count)(*[_BUFFER] * len(buffers))
    values = (_POINTER * count)(*[ctypes.addressof(x) for x in buffers])
    kept += [kinds, values, *buffers]
    addresses = ctypes.addressof(kinds), ctypes.addressof(values)
    return _Values(ctypes.sizeof(_Values), None, len(buffers), *addresses)


class _AttributeMemory:
    """Attributes as handlers read them."""

    def __init__(self, described: Sequence[tuple[Any, ...]]) -> None:
        count = max(len(described), 1)
        self._kept: list[Any] = []
        kinds = (_I32 * count)(*[kind for _, kind, *_ in described])
        names = (_POINTER * count)()
        values = (_POINTER * count)()
        for k, (name, kind, *rest) in enumerate(described):
            names[k] = self._keep(_String(self._bytes(name.encode()), len(name.encode())))
            values[k] = self._value(kind, *rest)
        places = [self._keep(x) for x in (kinds, names, values)]
        self.view = _Attributes(ctypes.sizeof(_Attributes), None, len(described), *places)

    def _keep(self, thing: Any) -> int:
        self._kept.append(thing)
        return ctypes.addressof(thing)

    def _bytes(self, data: bytes) -> int:
        return self._keep(ctypes.create_string_buffer(data, len(data) + 1))

    def _value(self, kind: int, first: Any, count: int = 0, data: bytes = b"") -> int:
        if kind == DICTIONARY:
            inner = _AttributeMemory(first)
            self._kept.append(inner)
            return ctypes.addressof(inner.view)
        place = self._bytes(data)
        if kind == SCALAR:
            return self._keep(_Scalar(first, place))
        return self._keep(_Array(first, count, place) if kind == ARRAY else _String(place, count))


def metadata(handler: int) -> tuple[str | None, int, int, int, int]:
    """What a handler says of itself: an error or None, major, minor, traits, type of its state."""
    about = _About(ctypes.sizeof(_About))
    extension = _AboutExtension(
        ctypes.sizeof(_AboutExtension), _METADATA, None, ctypes.addressof(about)
    )
    frame = _frame(_values([], []), _values([], []), _AttributeMemory([]).view)
    frame.extension = ctypes.addressof(extension)
    error = _Handler(handler)(ctypes.addressof(frame))
    message = _taken(error)[1] if error else None
    version = about.version
    return message, version.major, version.minor, about.traits, about.state
