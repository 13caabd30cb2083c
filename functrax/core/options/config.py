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

Start at ``OPTIONS``, the table of all options (``table.py``).
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

from functrax.core import native
from functrax.core.errors.typed import ArgumentError, UnknownNameError
from functrax.core.options.jax_options import ALIASES, is_foreign
from functrax.core.options.table import BACKENDS, OPTIONS as OPTIONS, Option
from functrax.core.process.locks import new_lock

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
    threefry_partitionable: bool
    high_dynamic_range_gumbel: bool
    random_seed_offset: int
    enable_custom_prng: bool
    legacy_prng_key: str
    debug_nans: bool
    debug_infs: bool
    disable_jit: bool
    default_matmul_precision: str | None
    numpy_dtype_promotion: str
    numpy_rank_promotion: str
    check_static_indices: bool
    check_tracer_leaks: bool
    traceback_filtering: str
    log_compiles: bool
    explain_cache_misses: bool
    default_device: Any
    mesh_context: Any
    user_contexts: tuple[tuple[Any, Hashable], ...]
    eager_constant_folding: bool
    no_tracing: bool
    no_execution: bool
    transfer_guard: str | None
    transfer_guard_host_to_device: str | None
    transfer_guard_device_to_device: str | None
    transfer_guard_device_to_host: str | None
    default_prng_impl: str
    backend: str
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


def strict_was_chosen() -> bool:
    """Whether programs are compiled in strict mode because the user wants that.

    Programs of operations outside of ``jit`` are compiled so where the mode is not strict, too, but
    for their sums of products.
    """
    return state.strict and not state.strict_tiles


def flushes_subnormals() -> bool:
    """Whether programs flush subnormal numbers to zero: not in strict mode."""
    return not strict_was_chosen()


def _option(name: str) -> Option:
    plain = str(name).removeprefix("jax_")
    found = OPTIONS.get(ALIASES.get(plain, plain))
    if found is not None:
        return found
    import difflib

    own = [name for name in OPTIONS if not is_foreign(name)]
    near = difflib.get_close_matches(plain, own, n=3, cutoff=0.6)
    raise UnknownNameError(
        "config: no such option", got=repr(name), fix=" or ".join(near) or ", ".join(own)
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
            chosen = BACKENDS.get(checked) if option.sets_backend else None
            if chosen is not None and (chosen != "llvm" or State.backend in ("auto", "cuda")):
                State.backend = chosen
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

    @property
    def x64_enabled(self) -> bool:
        """Whether arrays of 64-bit dtypes are allowed: ``enable_x64`` by its older name."""
        return state.enable_x64

    def config_with_absl(self) -> None:
        """Have ``absl.app.run`` set options from the command line: ``--jax_enable_x64``.

        Raises:
          ModuleNotFoundError: without absl.
        """
        from functrax.core.options.absl_flags import define_flags

        define_flags(self)

    def parse_flags_with_absl(self) -> None:
        """Set options from the command line now; arguments other than ``--jax…`` stay as they are.

        Raises:
          ModuleNotFoundError: without absl.
          ArgumentError: if an option does not take the value.
        """
        from functrax.core.options.absl_flags import parse_command_line

        parse_command_line(self)

    def trace_context(self) -> tuple[Hashable, ...]:
        """See :func:`trace_context`."""
        return trace_context()

    def __getattr__(self, name: str) -> Any:
        return self.read(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(n for n in OPTIONS if not is_foreign(n))})

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise ArgumentError(
            "config: options are not set by assignment",
            got=f"config.{name} = {value!r}",
            fix=f"config.update({name!r}, {value!r})",
        )

    def __repr__(self) -> str:
        lines = (f"  {n}={v!r}" for n, v in self.values.items() if not is_foreign(n))
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
