"""What runs compiled programs: the C++ extension where there is one, or its Python twins.

:func:`load` makes a :class:`~functrax.backends.executables.program.RuntimeProgram` callable; the
rest is about memory and threads.  ``NATIVE`` and ``PYTHON`` are the two implementations, with the
same names and the same behaviour; ``CURRENT`` is the one in use, and the names below are its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from functrax.backends.runtime import buffer
from functrax.backends.runtime.pool import PoolStats, default_limits, pool
from functrax.backends.threads import default_num_threads, thread_pool
from functrax.core import native
from functrax.core.records import record

if TYPE_CHECKING:
    from functrax.backends.executables.program import RuntimeProgram

#: Takes the raw inputs and the numbers of those donated; returns the results.
Loaded = Callable[..., list[Any]]


@record
class Runtime:
    """One implementation.

    Args:
      name: ``"native"`` or ``"python"``.
      buffer: the class of arrays in memory of the pool, ``buffer(shape, dtype)``.
      load: makes a program callable: ``load(program)(values, donated=())``.
      pool_stats: what the memory pool holds and has done.
      pool_reset_peak: lets the peak begin anew.
      pool_trim: returns cached memory to the system, down to a number of bytes.
      pool_limit: the most bytes that are cached, which an argument sets.
      pool_most: the most bytes that there may be, which an argument sets.
      num_threads: how many threads run a large kernel.
      set_num_threads: chooses how many.
    """

    name: str
    buffer: type[Any]
    load: Callable[[RuntimeProgram], Loaded]
    pool_stats: Callable[[], PoolStats]
    pool_reset_peak: Callable[[], None]
    pool_trim: Callable[..., None]
    pool_limit: Callable[..., int]
    pool_most: Callable[..., int]
    num_threads: Callable[[], int]
    set_num_threads: Callable[[int], None]


def _load_in_python(program: RuntimeProgram) -> Loaded:
    from functrax.backends.runtime.executor import Executable  # imported with the first program

    return Executable(program)


PYTHON: Final = Runtime(
    "python",
    buffer.Buffer,
    _load_in_python,
    pool.stats,
    pool.reset_peak,
    pool.trim,
    pool.limit,
    pool.most,
    lambda: thread_pool.num_threads,
    thread_pool.set_num_threads,
)


def _native() -> Runtime | None:
    extension = native.extension
    if extension is None:
        return None
    extension.set_num_threads(default_num_threads())
    cached, most = default_limits()
    extension.pool_limit(cached)
    extension.pool_most(most)

    def load(program: RuntimeProgram) -> Loaded:
        from functrax.backends.executables.program_encoding import encode

        loaded: Loaded = extension.Executable(encode(program), program)
        return loaded

    return Runtime(
        "native",
        extension.Buffer,
        load,
        lambda: PoolStats(*extension.pool_stats()),
        extension.pool_reset_peak,
        extension.pool_trim,
        extension.pool_limit,
        extension.pool_most,
        extension.num_threads,
        extension.set_num_threads,
    )


NATIVE: Final = _native()
CURRENT: Final = NATIVE or PYTHON

load: Final = CURRENT.load
"""Make a program callable: ``load(program)(values, donated=())``."""
Buffer: Final = CURRENT.buffer
pool_stats: Final = CURRENT.pool_stats
"""What the memory pool holds and has done."""
