"""Compiled programs as nested tuples, for the C++ executor.

A planned :class:`~functrax.backends.executables.program.RuntimeProgram` enters; a tuple of numbers,
strings, tuples, dtypes, arrays and functions leaves, in which everything is decided: C++ looks at
no Python object while a program runs, except to call it.

    program      (name, slots, inputs, outputs, aliases, instructions, arena, unlocked cost,
                  number among all the programs, lengths of runs, flushes)
    slot         (kind, number, nbytes, offset, shares, shape, dtype, value, text)
    instruction  (opcode, inputs, outputs, workspace, rest)

and ``rest`` by opcode, where ``loop`` is (carry slots, number of constants, number of the body's
first carry, updated in place, second places, cell, arena):

    LAUNCH  (function, params, units, cost, grain, begins, foreign)
    HOST    (function of two lists, cost, function of addresses of a GPU or None)
    COPY    ()
    COND    (unsigned, branches)
    WHILE   (loop, body, cond, cond_consts)
    SCAN    (loop, body, length, reverse)

The inputs are those that the instruction names first: of a loop its body's constants, of ``Scan``
then the arrays, of ``Cond`` the index in front.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.executables.memory_plan import workspace
from functrax.backends.executables.program import (
    CondInstruction,
    CopyInstruction,
    HostCall,
    Instruction,
    Launch,
    LoopInstruction,
    RuntimeProgram,
    ScanInstruction,
    Slot,
    all_programs,
    first_carry,
    instruction_cost,
    updated_in_place,
)
from functrax.backends.executables.program_inputs import adapter
from functrax.core.types.aval import ShapedArray

LAUNCH, HOST, COPY, COND, WHILE, SCAN = range(6)  # as ``native/program.h`` numbers them
_KINDS: Final = {"input": 0, "output": 1, "temp": 2, "const": 3}


#: Makes the rest of a launch.
Launching: TypeAlias = Callable[[Launch], tuple[Any, ...]]


#: Makes what asks a library for a call, with addresses of a GPU; None where the host computes.
Calling: TypeAlias = Callable[[HostCall], Any]


def _by_host(x: HostCall) -> None: ...


def _on_threads(x: Launch) -> tuple[Any, ...]:
    return x.function, x.params, x.units, x.cost, x.grain, x.begins, bool(x.foreign)


def encode(
    program: RuntimeProgram, launching: Launching = _on_threads, calling: Calling = _by_host
) -> tuple[Any, ...]:
    """The program as nested tuples."""
    return _encode(program, {p: n for n, p in enumerate(all_programs(program))}, launching, calling)


def _encode(
    program: RuntimeProgram,
    numbers: dict[RuntimeProgram, int],
    launching: Launching,
    calling: Calling,
) -> tuple[Any, ...]:
    def inner(p: RuntimeProgram) -> tuple[Any, ...]:
        return _encode(p, numbers, launching, calling)

    return (
        program.name,
        tuple(_slot(s) for s in program.slots),
        program.inputs,
        program.outputs,
        program.aliases,
        tuple(
            _instruction(x, program.slots, place, inner, launching, calling)
            for x, place in zip(program.instructions, program.workspaces, strict=True)
        ),
        program.arena,
        sum(_unlocked_cost(x) for x in program.instructions),
        numbers[program],
        program.runs,
        program.flushes,
    )


def _slot(s: Slot) -> tuple[Any, ...]:
    kind, text = _KINDS[s.kind], _type_text(s.shape, s.dtype)
    return kind, s.number, s.nbytes, s.offset, s.shares, s.shape, s.dtype, s.value, text


@lru_cache(maxsize=256)
def _type_text(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """A type for people; most slots of a program have one of a few."""
    return ShapedArray(shape, dtype).str_short()


def _instruction(
    x: Instruction,
    slots: tuple[Slot, ...],
    place: int,
    inner: Callable[[RuntimeProgram], tuple[Any, ...]],
    launching: Launching,
    calling: Calling,
) -> tuple[Any, ...]:
    def encoded(opcode: int, inputs: tuple[int, ...], rest: tuple[Any, ...]) -> tuple[Any, ...]:
        return opcode, inputs, x.outputs, max(place, 0), rest

    match x:
        case Launch():
            return encoded(LAUNCH, x.inputs, launching(x))
        case HostCall():
            return encoded(HOST, x.inputs, (adapter(x), x.cost, calling(x)))
        case CopyInstruction():
            return encoded(COPY, x.inputs, ())
        case CondInstruction():
            branches = tuple(inner(b) for b in x.branches)
            return encoded(COND, x.inputs, (slots[x.index].dtype.kind in "bu", branches))
    loop, body = _loop(x, slots), inner(x.body)
    if isinstance(x, ScanInstruction):
        return encoded(SCAN, (*x.consts, *x.xs), (loop, body, x.length, x.reverse))
    return encoded(WHILE, x.body_consts, (loop, body, inner(x.cond), x.cond_consts))


def _loop(x: LoopInstruction, slots: tuple[Slot, ...]) -> tuple[Any, ...]:
    space = workspace(x, slots)
    places = (updated_in_place(x), space.carry, space.cell, space.arena)
    return (x.carry, first_carry(x), first_carry(x), *places)


def _unlocked_cost(x: Instruction) -> int:
    """Estimated nanoseconds of an instruction, but for Python functions, which hold the lock."""
    match x:
        case HostCall():
            return 0
        case CondInstruction():
            return max(sum(map(_unlocked_cost, b.instructions)) for b in x.branches)
    return instruction_cost(x)
