"""Small programs for the tests of the runtime, made of Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrax.backends.executables.program import Aliases, HostCall, RuntimeProgram, ScanInstruction
from functrax.backends.executables.program_builder import ProgramBuilder

F32 = np.dtype(np.float32)
I32 = np.dtype(np.int32)

#: A shape and a dtype.
Type = tuple[tuple[int, ...], Any]


def host(
    b: ProgramBuilder, function: Callable[..., Any], inputs: Sequence[int], type_: Type, **kw: Any
) -> int:
    """Call ``function``, whose result has the given type; returns the result's slot."""
    out = b.value(*type_)

    def typed(*args: Any) -> Any:
        return np.asarray(function(*args)).astype(type_[1])

    b.add(HostCall(typed, "f", tuple(inputs), (out,), **kw))
    return out


def function_program(
    inputs: Sequence[Type],
    functions: Sequence[tuple[Callable[..., Any], Type] | int],
    aliases: Aliases = (),
    name: str = "inner",
) -> RuntimeProgram:
    """A program whose results are functions of all inputs, or (a number) an input as it is."""
    b = ProgramBuilder(name)
    slots = [b.input(*t) for t in inputs]
    outs = [slots[f] if isinstance(f, int) else host(b, f[0], slots, f[1]) for f in functions]
    return b.build(outs, aliases)


def counted(
    b: ProgramBuilder,
    body: RuntimeProgram,
    numbers: range,
    consts: tuple[int, ...],
    carry: tuple[int, ...],
    outputs: tuple[int, ...],
) -> None:
    """A loop whose body gets a number of a range, an int32, behind its carry."""
    given = b.const(np.array(numbers, np.int32))
    b.add(ScanInstruction(body, len(numbers), consts, carry, (given,), outputs))
