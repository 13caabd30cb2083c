"""Options: what there is to set, who has set it, and how it is read.

Three layers, the later ones winning: a default; an environment variable ``FUNCTRAX_<NAME>`` (read
once, when this module is imported) or :meth:`Config.update`, for the whole process; and a context
manager (``with enable_x64():``), for the thread that runs it.

``state`` holds all of them. It is a ``threading.local`` whose *class* attributes are the values of
the process and whose *instance* attributes are the overrides of one thread, so that Python's own
attribute look-up does the layering. Hot paths read ``state.enable_x64`` (about 30 ns);
``config.enable_x64`` and ``config.jax_enable_x64`` are the same value for users.

:func:`trace_context` is the part of the options that changes what a traced program means, and so
belongs in the key of every cache of traced programs; :func:`compile_context` is the part that
changes what the compiler makes of a program.

Start at ``OPTIONS``, the table of all options (``options.py``).
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

from functrax.core import native
from functrax.core.errors import ArgumentError, UnknownNameError
from functrax.core.locks import new_lock
from functrax.core.options import OPTIONS as OPTIONS, Option

P = ParamSpec("P")
R = TypeVar("R")

_TRACED: Final[tuple[str, ...]] = tuple(name for name, o in OPTIONS.items() if o.traced)
_COMPILED: Final[tuple[str, ...]] = tuple(name for name, o in OPTIONS.items() if o.compiled)
_STALE: Final[tuple[int, tuple[Hashable, ...]]] = (-1, ())


class State(threading.local):
    """The options as the running thread sees them; written through ``config`` and overrides only.

    The values of the process are set on the class below, from ``OPTIONS`` and the environment.
    """

    enable_x64: bool
    debug_nans: bool
    debug_infs: bool
    disable_jit: bool
    default_matmul_precision: str | None
    numpy_dtype_promotion: str
    numpy_rank_promotion: str
    check_tracer_leaks: bool
    traceback_filtering: str
    log_compiles: bool
    default_device: Any
    mesh_context: Any
    eager_constant_folding: bool
    no_tracing: bool
    no_execution: bool
    transfer_guard: str | None
    transfer_guard_host_to_device: str | None
    transfer_guard_device_to_device: str | None
    transfer_guard_device_to_host: str | None
    default_prng_impl: str
    eager: str
    schedule_off: str
    autotune: str
    cache: bool
    cache_programs: bool
    plans: bool
    compilation_cache_dir: str | None
    cache_limit: str
    memory_budget: str
    opt: bool
    check: bool
    opt_limit: str
    log: str
    dump: str
    dump_dir: str | None
    async_dispatch: bool
    cached_context: tuple[int, tuple[Hashable, ...]] = _STALE  # and the epoch it was made in


def _load(environment: Any) -> None:
    """Set the values of the process: defaults, and what ``environment`` says instead."""
    for option in OPTIONS.values():
        text = environment.get(option.variable)
        setattr(State, option.name, option.default if text is None else option.read(text))


_load(os.environ)
state: Final[State] = State()

_epoch = 0  # counts the changes of the process's values; every thread's cached context ends with it
_epoch_lock = new_lock()
_contexts: dict[tuple[Hashable, ...], tuple[Hashable, ...]] = {}


def _tell_nobody() -> None:
    """Without C++ nobody else remembers options."""


#: Called after every change of an option.
_tell: Final[Callable[[], None]] = getattr(native.extension, "options_changed", _tell_nobody)


def trace_context() -> tuple[Hashable, ...]:
    """The options that change what a traced program means, as one hashable value.

    Equal contexts are the same tuple, so comparing them takes no time. It is kept per thread and
    worked out again only after a change.
    """
    epoch, context = state.cached_context
    return context if epoch == _epoch else _fresh_context()


def context_values(context: tuple[Hashable, ...]) -> list[tuple[str, Hashable]]:
    """The options in a value of :func:`trace_context`, by name."""
    return list(zip(_TRACED, context))


def _fresh_context() -> tuple[Hashable, ...]:
    epoch = _epoch  # before the values: a change in between makes this one stale, not wrong
    values = tuple(getattr(state, name) for name in _TRACED)
    context = _contexts.setdefault(values, values)
    state.cached_context = (epoch, context)
    return context


def compile_context() -> tuple[Hashable, ...]:
    """The options that change what the compiler makes of a program, as one hashable value."""
    return tuple([getattr(state, name) for name in _COMPILED])


def _option(name: str) -> Option:
    plain = str(name).removeprefix("jax_")
    found = OPTIONS.get(plain)
    if found is not None:
        return found
    import difflib

    near = difflib.get_close_matches(plain, OPTIONS, n=3, cutoff=0.5)
    raise UnknownNameError(
        "config: no such option", got=repr(name), fix=" or ".join(near) or ", ".join(OPTIONS)
    )


class Config:
    """The options, for users: ``config.update("enable_x64", True)``, ``config.enable_x64``.

    Every name may also be written with ``jax_`` in front.

    >>> config.jax_numpy_rank_promotion
    'allow'
    """

    state: Final[State] = state

    def update(self, name: str, value: Any) -> None:
        """Set an option for the whole process; a context manager still wins in its thread.

        Raises:
          UnknownNameError: if there is no such option; it names the near ones.
          ArgumentError: if the option does not take the value.
        """
        global _epoch
        option = _option(name)
        checked = option.check(value)
        with _epoch_lock:
            setattr(State, option.name, checked)
            _epoch += 1
            _tell()

    def read(self, name: str) -> Any:
        """The value of an option in this thread.

        Raises:
          UnknownNameError: if there is no such option.
        """
        return getattr(state, _option(name).name)

    @property
    def values(self) -> dict[str, Any]:
        """All options and their values in this thread."""
        return {name: getattr(state, name) for name in OPTIONS}

    @property
    def config(self) -> Config:
        """Itself, for ``from functrax.config import config``."""
        return self

    def trace_context(self) -> tuple[Hashable, ...]:
        """See :func:`trace_context`."""
        return trace_context()

    def __getattr__(self, name: str) -> Any:
        return self.read(name)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise ArgumentError(
            "config: options are not set by assignment",
            got=f"config.{name} = {value!r}",
            fix=f"config.update({name!r}, {value!r})",
        )

    def __repr__(self) -> str:
        lines = (f"  {name}={value!r}" for name, value in self.values.items())
        return "Config(\n" + ",\n".join(lines) + "\n)"


config: Final[Config] = Config()

_UNSET: Final[object] = object()


class Override:
    """A context manager (or decorator) that sets one option in the running thread.

    It puts back what was there before, also after an exception; one object may be entered again
    while it is active, and by several threads.
    """

    __slots__ = ("_name", "_saved", "_value")

    def __init__(self, name: str, value: Any) -> None:
        option = _option(name)
        self._name = option.name
        self._value = option.check(value)
        self._saved: dict[int, list[Any]] = {}  # by thread, the values to put back

    def __enter__(self) -> None:
        local = vars(state)
        saved = self._saved.setdefault(threading.get_ident(), [])
        saved.append(local.get(self._name, _UNSET))
        local[self._name] = self._value
        local["cached_context"] = _STALE
        _tell()

    def __exit__(self, *exception: object) -> None:
        local = vars(state)
        before = self._saved[threading.get_ident()].pop()
        if before is _UNSET:
            del local[self._name]
        else:
            local[self._name] = before
        local["cached_context"] = _STALE
        _tell()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def overridden(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return overridden


def thread_options() -> dict[str, Any]:
    """The options that context managers have set in the running thread, for another thread."""
    return {name: value for name, value in vars(state).items() if name in OPTIONS}


@contextmanager
def as_in_thread(overrides: dict[str, Any]) -> Iterator[None]:
    """Have the options that :func:`thread_options` gave in another thread."""
    local = vars(state)
    before = thread_options()
    try:
        _replace(local, overrides)
        yield
    finally:
        _replace(local, before)


def _replace(local: dict[str, Any], overrides: dict[str, Any]) -> None:
    for name in thread_options():
        del local[name]
    local.update(overrides, cached_context=_STALE)
    _tell()


def enable_x64(new_val: bool = True) -> Override:
    """Allow 64-bit dtypes within a block, or forbid them with False.

    >>> with enable_x64():
    ...     config.enable_x64
    True
    """
    return Override("enable_x64", new_val)


def debug_nans(new_val: bool = True) -> Override:
    """Raise NonFiniteError within the block when a result holds a NaN."""
    return Override("debug_nans", new_val)


def debug_infs(new_val: bool = True) -> Override:
    """Raise NonFiniteError within the block when a result holds an infinity."""
    return Override("debug_infs", new_val)


def disable_jit(disable: bool = True) -> Override:
    """Run jitted functions operation by operation within the block, to look inside them."""
    return Override("disable_jit", disable)


def check_tracer_leaks(new_val: bool = True) -> Override:
    """Raise LeakedTracerError within the block when a traced value outlives its function."""
    return Override("check_tracer_leaks", new_val)


def checking_leaks() -> Override:
    """``check_tracer_leaks(True)``."""
    return Override("check_tracer_leaks", True)


def default_matmul_precision(new_val: str | None) -> Override:
    """Precision within the block of products of 32-bit floats where the call names none."""
    return Override("default_matmul_precision", new_val)


def numpy_dtype_promotion(new_val: str) -> Override:
    """``"standard"`` promotes operands of different dtypes, ``"strict"`` refuses."""
    return Override("numpy_dtype_promotion", new_val)


def numpy_rank_promotion(new_val: str) -> Override:
    """Within the block ``"allow"``, ``"warn"`` of, or ``"raise"`` on broadcasting between ranks."""
    return Override("numpy_rank_promotion", new_val)


def log_compiles(new_val: bool = True) -> Override:
    """Log every compilation within the block."""
    return Override("log_compiles", new_val)


def default_device(new_val: Any) -> Override:
    """Where arrays are made and functions run within the block; None is the first device."""
    return Override("default_device", new_val)


def default_prng_impl(new_val: str) -> Override:
    """The random number generator behind keys made within the block."""
    return Override("default_prng_impl", new_val)


def memory_budget(new_val: int | str) -> Override:
    """How many bytes the temporaries of a program may take that is compiled within the block.

    Values that would wait in memory are computed again, those first that are cheap for their size.
    A budget that cannot be kept is neared; ``explain(f)(*args).peak_bytes`` says how nearly.
    """
    return Override("memory_budget", str(new_val))


def backend(new_val: str) -> Override:
    """What runs programs within the block: ``"llvm"`` compiles them, ``"interp"`` interprets them.

    >>> with backend("interp"):
    ...     config.backend
    'interp'
    """
    return Override("backend", new_val)


def eager(new_val: str) -> Override:
    """When operations outside of ``jit`` run within the block: ``"lazy"`` or ``"immediate"``.

    >>> with eager("immediate"):
    ...     config.eager
    'immediate'
    """
    return Override("eager", new_val)


def no_tracing(new_val: bool = True) -> Override:
    """Within the block refuse to trace jitted functions: a GuardError, which is a RuntimeError.

    Functions that were traced for the types of their arguments before run as usual, and so do
    operations outside of ``jit``, which are not traced one by one.
    """
    return Override("no_tracing", new_val)


def no_execution(new_val: bool = True) -> Override:
    """Within the block refuse to run operations: a GuardError, which is a RuntimeError.

    Tracing, ``eval_shape`` and ``make_jaxpr`` go on, and arrays of operations that were recorded
    before can be looked at.
    """
    return Override("no_execution", new_val)


def transfer_guard(new_val: str) -> Override:
    """What happens within the block at transfers between the host and the device: none happen.

    Arrays of the CPU are in the memory of the host, so that ``"disallow"`` has nothing to disallow.

    Args:
      new_val: ``"allow"``, ``"log"``, ``"disallow"``, ``"log_explicit"``, ``"disallow_explicit"``.

    Raises:
      ArgumentError: for another value.
    """
    return Override("transfer_guard", new_val)


def transfer_guard_host_to_device(new_val: str) -> Override:
    """As :func:`transfer_guard`, of transfers to the device."""
    return Override("transfer_guard_host_to_device", new_val)


def transfer_guard_device_to_device(new_val: str) -> Override:
    """As :func:`transfer_guard`, of transfers between devices."""
    return Override("transfer_guard_device_to_device", new_val)


def transfer_guard_device_to_host(new_val: str) -> Override:
    """As :func:`transfer_guard`, of transfers from the device."""
    return Override("transfer_guard_device_to_host", new_val)
