"""Loads the compiler in the background, so that neither imports nor first calls wait for it.

``import functrax`` leaves the compiler out, for loading it and LLVM takes longer than most first
programs take to compile.  :func:`start` is its last act: a thread that loads the compiler while the
user's program reads its data.  Whoever needs a module that is being loaded waits for that module,
as Python's imports do; no two modules of functrax import each other, so nobody waits in a circle.

The thread ends when the interpreter does (after the module that it is at), and before a fork: the
child would have the locks of imports without the thread that gives them back.  What is not loaded
by then is loaded when it is needed.

The compiler is what any first program needs.  LLVM is not where all kernels are on disk: it is
loaded in advance only where another processor than the program's can do it.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Final

from functrax.backends.threads import default_num_threads
from functrax.core.collection import age

#: In this order; each brings along what it needs, so later ones have little left to load.
MODULES: Final = (
    "functrax.backends.pipeline",
    "functrax.backends.kernels.schedule",
    "functrax.backends.codegen",
    "functrax.backends.compiler",
    "functrax.backends.program_encoding",
)
#: Seconds before it begins: programs that end at once do not wait for its first module.
_DELAY: Final = 0.003


def _load_llvm() -> None:
    from functrax.backends.llvm.code_generator import generator

    generator()


class Preload:
    """What a thread loads.

    Args:
      steps: what to call, in this order.
      delay: seconds before the first.
    """

    def __init__(self, steps: Sequence[Callable[[], object]], delay: float) -> None:
        self._steps = steps
        self._delay = delay
        self._stop = threading.Event()
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
        """End the thread, and wait for the module that it is at."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        self._stop.wait(self._delay)
        for step in self._steps:
            if self._stop.is_set():
                return
            try:
                step()
            except Exception:  # it is raised again where the module is needed
                return
            age()


def start() -> None:
    """Load the compiler and LLVM in the background."""
    steps: list[Callable[[], object]] = [partial(import_module, name) for name in MODULES]
    if default_num_threads() > 1:
        steps.append(_load_llvm)
    Preload(steps, _DELAY).start()
