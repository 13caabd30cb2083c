"""Compiled programs as functions, on the device that they were compiled for.

Start at :func:`executables`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from functrax.backends.compilation.compiler import CompiledProgram, compile_program
from functrax.backends.runtime.choice import CURRENT, load
from functrax.backends.runtime.executor import Executable, Observer
from functrax.backends.targets import Target, making_for
from functrax.core.ir.jaxpr import Jaxpr

if TYPE_CHECKING:
    from functrax.backends.cuda.run import DeviceExecutable

#: From a raw value for each input to those of the results.
Runs: TypeAlias = Callable[[Sequence[Any]], list[Any]]


def executables(compiled: CompiledProgram, observer: Observer | None = None) -> dict[str, Runs]:
    """A program in each runtime, by its name; the first one lets an observer look.

    Args:
      compiled: the compiler's record.
      observer: looks at each instruction; see ``runtime/executor.py``.
    """
    if compiled.target.warp:
        return {"cuda": device_executable(compiled, observer)}
    program = compiled.program
    return {"python": Executable(program, observer), CURRENT.name: load(program)}


def device_executable(
    compiled: CompiledProgram, observer: Observer | None = None
) -> DeviceExecutable:
    """A program that was compiled for a GPU, there."""
    from functrax.backends.cuda.choice import observed_gpu  # which only programs of a GPU need
    from functrax.backends.cuda.run import DeviceExecutable

    return DeviceExecutable(compiled.program, observed_gpu(), observer)


def compiled_alone(jaxpr: Jaxpr, target: Target) -> Runs:
    """A program compiled for a target, as a function."""
    with making_for(target):
        compiled = compile_program(jaxpr)
    *_, last = executables(compiled).values()
    return last
