"""Loads the compiler in the background, so that neither imports nor first calls wait for it.

``import functrax`` leaves the compiler out, for loading it and LLVM takes longer than most first
programs take to compile.  :func:`start` is its first act: a thread that loads LLVM, which takes no
lock of Python's for the most part, and after the import, which :func:`imported` ends, the compiler
while the user's program reads its data.  Whoever needs a module that is being loaded waits for that
module, as Python's imports do.  No two of the modules that are loaded late import each other, and
no package of them a module of its own: who imports that module holds its lock while he waits for
the package.  So nobody waits in a circle.

The thread ends when the interpreter does (after the step that it is at), and before a fork: the
child would have the locks of imports without the thread that gives them back.  What is not loaded
by then is loaded when it is needed.

What looking for programs on disk needs comes first.  Where the disk cache holds something, programs
are probably found there, and need neither LLVM nor the compiler: both wait a while then.  LLVM is
loaded in advance only where another processor than the program's can do it.

While a program is compiled the thread rests before modules that only some programs need: loading
them would take Python's lock, and a fifth of a small program's first call.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Final

from functrax.backends import disk_cache
from functrax.backends.threads import default_num_threads
from functrax.core.process.gc_pause import age

#: In this order; each brings along what it needs, so later ones have little left to load.
MODULES: Final = (
    "functrax.backends.passes.fusion.fuse",
    "functrax.backends.loops.strategies.schedule",
    "functrax.backends.compilation.codegen",
    "functrax.backends.compilation.compiler",
)
#: What only some programs need.
MORE_MODULES: Final = (
    "functrax.backends.passes.contractions.recognise",
    "functrax.backends.passes.contractions.batch",
    "functrax.backends.passes.contractions.orientation",
    "functrax.backends.gemm.lower_contraction",
    "functrax.backends.gemm.shared_arrays",
    "functrax.backends.passes.contractions.added_products",
    "functrax.backends.passes.contractions.repeats",
    "functrax.backends.passes.clean.spread",
    "functrax.backends.kernels.math.exponential",
    "functrax.backends.kernels.math.logarithm",
    "functrax.backends.kernels.math.trigonometric",
    "functrax.backends.kernels.interchanged_loops",
    "functrax.backends.llvm.tile_calls",
    "functrax.backends.machine_code.joined_modules",
)
#: Seconds after the import before it loads modules: programs that end at once do not wait for one.
_DELAY: Final = 0.003
#: Seconds for which it leaves Python's lock to a program that begins to be compiled, and after the
#: import to those that may find their first programs on disk.
_REST: Final = 0.2


class Preload:
    """What a thread loads.

    Args:
      steps: what to call, in this order; a number says to wait until :meth:`ready`, and then so
        many seconds.
      later: what to call after that, and while it is not to rest.
    """

    def __init__(
        self,
        steps: Sequence[Callable[[], object] | float],
        later: Sequence[Callable[[], object]] = (),
    ) -> None:
        self._steps, self._later = steps, later
        self._rest_until = 0.0
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="functrax-preload", daemon=True)

    def start(self) -> None:
        """Begin, if the system allows another thread."""
        try:
            self._thread.start()
        except RuntimeError:
            return
        atexit.register(self.stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.stop)

    def stop(self) -> None:
        """End the thread, and wait for the step that it is at."""
        self._stop.set()
        self._ready.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def ready(self) -> None:
        """Let the thread go on behind a number."""
        self._ready.set()

    def rest(self, seconds: float) -> None:
        """Begin no later step for so many seconds."""
        self._rest_until = time.monotonic() + seconds

    def _run(self) -> None:
        for n, step in enumerate((*self._steps, *self._later)):
            while n >= len(self._steps) and (rest := self._rest_until - time.monotonic()) > 0:
                if self._stop.wait(rest):
                    return
            if self._stop.is_set():
                return
            try:
                if isinstance(step, float):
                    self._ready.wait()
                    self._stop.wait(step)
                else:
                    step()
            except Exception:  # it is raised again where the module is needed
                return
            age()


_preload: Preload | None = None


def start() -> None:
    """Begin to load LLVM while functrax is imported, and the compiler after that.

    Until :func:`imported` is called the thread imports nothing, lest it meets modules half made.
    """
    global _preload
    warm, threads = disk_cache.current().filled(), default_num_threads()
    llvm: list[Callable[[], object]] = []
    if threads > 1:
        from functrax.backends.machine_code.code_generator import generator

        llvm.append(lambda: generator().warm_up())
    modules = [partial(import_module, name) for name in MODULES]
    more = [partial(import_module, name) for name in MORE_MODULES]
    _preload = Preload(
        (_DELAY, _look_for_programs, _REST, *modules, *llvm)
        if warm
        else (*llvm, _DELAY, _look_for_programs, *modules),
        more,
    )
    _preload.start()


def imported() -> None:
    """The import has ended."""
    assert _preload is not None, "it was started"
    _preload.ready()


def compiling() -> None:
    """A program is compiled now: it imports what it needs, and waits for nothing else."""
    if _preload is not None:
        _preload.rest(_REST)


def _look_for_programs() -> None:
    """Load what finds programs on disk and runs them; work out what their keys have in common."""
    import_module("functrax.backends.cache.program_cache")
    import_module("functrax.backends.executables.program_encoding")
    from functrax.backends.cache.program_key import compiler
    from functrax.backends.machine_code.kernel_jit import circumstances
    from functrax.backends.targets import target

    compiler()
    if target().identity:  # else it asks LLVM
        circumstances()
