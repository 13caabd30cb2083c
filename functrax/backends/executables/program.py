"""Compiled programs: a flat list of instructions over numbered slots.

What enters is what the compiler decided to run: machine-code kernels, Python functions, loops.
What leaves is a :class:`RuntimeProgram`, which is data: it prints as text (``str(program)``), and
two executors run it, ``functrax._native`` and its twin ``backends/runtime/executor.py``.

A :class:`Slot` is a dense row-major array: an *input* (memory of the caller, read only), an
*output* (memory that the caller gives and the program fills), a *temporary* (a place in the arena,
one block of memory per call, laid out by ``backends/executables/memory_plan.py``), or a *constant*.
A result of a program may also be an input or a constant as it is; at top level the array itself is
then given back, inside a loop or a branch it is copied.

Instructions run in order.  A program inside an instruction is *destination passing*: it gets the
addresses of its inputs and outputs, and its temporaries lie in the arena of the program around
it.  A kernel is ``void f(void** buffers, const int64_t* params, int64_t begin, int64_t end)``.

    Launch     a kernel over ``[begin, end)``
    HostCall   a Python function of NumPy arrays
    Copy       bytes from one slot to another
    Cond       one of several programs, chosen by an index
    While      a body as long as a condition holds
    Scan       a body for each element along the first axis of arrays

Start at :class:`RuntimeProgram`; ``backends/executables/program_builder.py`` makes one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from functrax.core.records import record
from functrax.core.types.aval import ShapedArray

Kind: TypeAlias = Literal["input", "output", "temp", "const"]
#: Pairs (output, input): the output may lie in the memory of the input.
Aliases: TypeAlias = tuple[tuple[int, int], ...]

UNKNOWN_COST: Final = 100_000
"""Estimated nanoseconds of what cannot be estimated: a Python function, a loop without a count."""


@record(eq=False)
class Slot:
    """A place for an array.

    Args:
      kind: whose memory it is.
      shape: its shape.
      dtype: its dtype.
      number: which input or output it is; counts the temporaries and constants too.
      value: the array of a constant, dense and row-major.
      offset: where a temporary lies in the arena; -1 before the plan is made.
      shares: the slot in whose memory a temporary lies instead; -1 if it has its own.
    """

    kind: Kind
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    number: int
    value: np.ndarray[Any, Any] | None = None
    offset: int = -1
    shares: int = -1

    @property
    def nbytes(self) -> int:
        """Bytes that the array takes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def name(self) -> str:
        """``i0``, ``o0``, ``t0`` or ``c0``."""
        return f"{self.kind[0]}{self.number}"

    def __str__(self) -> str:
        text = f"{self.name}:{ShapedArray(self.shape, self.dtype).str_short()}"
        return text if self.offset < 0 else f"{text} @{self.offset}"


@record(eq=False)
class Launch:
    """Run a kernel over ``[0, units)``, in one or several contiguous ranges.

    The kernel gets the addresses of ``inputs``, then of ``outputs``.  What it writes for a unit
    must not depend on the range that the unit is in, so that the result is the same for any number
    of threads.  It may read what it writes; the outputs' contents before are undefined, unless an
    instruction before wrote them.

    Args:
      function: the address of the machine code, which must stay valid as long as the program.
      name: the kernel's name.
      inputs: slots that are read only.
      outputs: slots that are written.
      params: sizes, strides and other integers.
      units: the extent of the parallel axis; a launch of 0 units does nothing.
      cost: estimated nanoseconds of the whole launch on one thread; 0 keeps it on one thread.
      grain: ranges begin at multiples of it.
      aliases: (output, input) positions which may share memory if the input is not needed later.
      owner: what keeps the machine code where it is.
      begins: of each slot the bytes that lie before the address that the kernel gets; empty if it
        gets where all of them begin.
      foreign: the name of the function of the user's own that it calls, which may fail; empty if it
        calls none.
    """

    function: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: tuple[int, ...] = ()
    units: int = 1
    cost: int = 0
    grain: int = 1
    aliases: Aliases = ()
    owner: Any = None
    begins: tuple[int, ...] = ()
    foreign: str = ""


@record(eq=False)
class HostCall:
    """Call a Python function with NumPy arrays.

    It gets read-only views of the inputs, and returns an array, or a sequence of arrays, which are
    copied into the outputs; shapes and dtypes must be theirs.  The views show memory that is used
    again after the call.

    Args:
      function: the function.
      name: what to call it in texts.
      inputs: slots that are read.
      outputs: slots that are written.
      into: give it writable views of the outputs after the inputs; it fills them, and what it
        returns is not looked at.
      cost: estimated nanoseconds.
      device: in programs of a GPU how a library computes the same there, or why none does
        (``backends/libraries/device_calls.py``).
    """

    function: Callable[..., Any]
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    into: bool = False
    cost: int = UNKNOWN_COST
    device: Any = None


@record(eq=False)
class CopyInstruction:
    """Copy the bytes of slot ``source`` to slot ``target``; nothing where they share memory."""

    source: int
    target: int

    @property
    def inputs(self) -> tuple[int, ...]:
        """The slot that is read."""
        return (self.source,)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The slot that is written."""
        return (self.target,)


@record(eq=False)
class CondInstruction:
    """Run ``branches[clamp(index)]``, a program ``operands -> outputs``.

    Args:
      index: a slot of rank 0, integer or bool.
      branches: the programs.
      operands: slots of the branches' inputs.
      outputs: slots of their results.
    """

    index: int
    branches: tuple[RuntimeProgram, ...]
    operands: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def inputs(self) -> tuple[int, ...]:
        """All slots that are read."""
        return (self.index, *self.operands)


@record(eq=False)
class WhileInstruction:
    """``while cond(*cond_consts, *carry): carry = body(*body_consts, *carry)``.

    The carry has two places, read and written in turn, except for the parts that the body may
    update in place (see :func:`updated_in_place`).

    Args:
      cond: a program with one result, a bool of rank 0.
      body: a program whose results are the next carry.
      cond_consts: slots of the first inputs of ``cond``.
      body_consts: slots of the first inputs of ``body``.
      carry: slots of the first carry.
      outputs: slots of the last carry.
    """

    cond: RuntimeProgram
    body: RuntimeProgram
    cond_consts: tuple[int, ...]
    body_consts: tuple[int, ...]
    carry: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def inputs(self) -> tuple[int, ...]:
        """All slots that are read."""
        return (*self.cond_consts, *self.body_consts, *self.carry)


@record(eq=False)
class ScanInstruction:
    """``for t in range(length): *carry, *y[t] = body(*consts, *carry, *x[t])``.

    The body reads elements of ``xs`` and writes elements of the stacked results where they are.

    Args:
      body: a program whose results are the next carry and one element of each stacked result.
      length: how many times it runs.
      consts: slots of the first inputs of ``body``.
      carry: slots of the first carry.
      xs: slots whose first axis has size ``length``.
      outputs: slots of the last carry, and of the stacked results.
      reverse: begin with the last element.
    """

    body: RuntimeProgram
    length: int
    consts: tuple[int, ...]
    carry: tuple[int, ...]
    xs: tuple[int, ...]
    outputs: tuple[int, ...]
    reverse: bool = False

    @property
    def inputs(self) -> tuple[int, ...]:
        """All slots that are read."""
        return (*self.consts, *self.carry, *self.xs)


Instruction: TypeAlias = (
    Launch | HostCall | CopyInstruction | CondInstruction | WhileInstruction | ScanInstruction
)
LoopInstruction: TypeAlias = WhileInstruction | ScanInstruction


@record(eq=False)
class RuntimeProgram:
    """A compiled program.

    Args:
      name: what to call it.
      slots: the places of its arrays.
      inputs: the slot of each input.
      outputs: the slot of each result: an output, or an input or a constant as it is, or an output
        that is an earlier result too.
      instructions: what it does, in order.
      runs: how many instructions, one after the other, threads may share at once: launches of which
        none needs another (``backends/executables/launch_runs.py``); other instructions are runs of
        one.
      aliases: (output, input) numbers which may share memory: nothing reads the input after the
        first write to the output, but the kernel that does both at once.
      workspaces: for each instruction where its own part of the arena begins; -1 if it has none.
      arena: bytes that the temporaries and workspaces need.
      peak: the most bytes of temporaries that are alive at one time.
      flushes: whether threads that run it flush subnormal numbers to zero; of a program inside
        another one the other says so.
    """

    name: str
    slots: tuple[Slot, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    instructions: tuple[Instruction, ...]
    runs: tuple[int, ...]
    aliases: Aliases = ()
    workspaces: tuple[int, ...] = ()
    arena: int = 0
    peak: int = 0
    flushes: bool = False

    @property
    def planned(self) -> bool:
        """Whether its temporaries have places."""
        return len(self.workspaces) == len(self.instructions)

    @property
    def steps(self) -> tuple[range, ...]:
        """The numbers of the instructions of each run."""
        return tuple(range(end - n, end) for n, end in zip(self.runs, accumulate(self.runs)))

    def cost(self) -> int:
        """Estimated nanoseconds on one thread."""
        return sum(instruction_cost(x) for x in self.instructions)

    def __str__(self) -> str:
        return "\n".join(_program_lines(self))


def instruction_cost(x: Instruction) -> int:
    """Estimated nanoseconds of an instruction on one thread."""
    match x:
        case Launch() | HostCall():
            return x.cost
        case CopyInstruction():
            return 0
        case CondInstruction():
            return max((branch.cost() for branch in x.branches), default=0)
        case ScanInstruction():
            return x.length * x.body.cost()
    return UNKNOWN_COST


def subprograms(x: Instruction) -> tuple[RuntimeProgram, ...]:
    """The programs inside an instruction: of a loop the body, then a condition."""
    match x:
        case CondInstruction():
            return x.branches
        case WhileInstruction():
            return (x.body, x.cond)
        case ScanInstruction():
            return (x.body,)
    return ()


def all_programs(program: RuntimeProgram) -> tuple[RuntimeProgram, ...]:
    """The program and those inside it, each once, as they appear in its text."""
    found = {program: None}
    for x in program.instructions:
        for inner in subprograms(x):
            found |= dict.fromkeys(all_programs(inner))
    return tuple(found)


def first_carry(x: LoopInstruction) -> int:
    """The number of the body's input that is the first part of the carry."""
    return len(x.body_consts if isinstance(x, WhileInstruction) else x.consts)


def updated_in_place(x: LoopInstruction) -> tuple[bool, ...]:
    """For each part of a loop's carry whether the body updates it where it is, or never.

    It does where the body declares the alias, or gives the part back as it got it.
    """
    first, body = first_carry(x), x.body
    return tuple(
        (k, first + k) in body.aliases or body.outputs[k] == body.inputs[first + k]
        for k in range(len(x.carry))
    )


def shared_by_branches(x: CondInstruction) -> tuple[tuple[int, int], ...]:
    """Pairs (result, operand) which may share memory, whichever branch runs.

    A branch allows it by declaring it, or by giving back the operand as it got it.
    """

    def pairs(branch: RuntimeProgram) -> set[tuple[int, int]]:
        number = {slot: i for i, slot in enumerate(branch.inputs)}
        same = {(j, number[slot]) for j, slot in enumerate(branch.outputs) if slot in number}
        return same | set(branch.aliases)

    return tuple(sorted(set.intersection(*map(pairs, x.branches))))


def _program_lines(program: RuntimeProgram, indent: str = "") -> list[str]:
    slots = program.slots
    inputs = ", ".join(str(slots[s]) for s in program.inputs)
    outputs = ", ".join(str(slots[s]) for s in program.outputs)
    lines = [f"{indent}program {program.name}({inputs}) -> ({outputs})"]
    if program.arena:
        lines[0] += f"  arena {program.arena} bytes"
    for output, source in program.aliases:
        lines.append(f"{indent}  alias o{output} = i{source}")
    for s in slots:
        if s.kind in ("temp", "const"):
            place = "" if s.shares < 0 else f" in {slots[s.shares].name}"
            lines.append(f"{indent}  {s.kind} {s}{place}")
    first = {step.start for step in program.steps}
    for n, x in enumerate(program.instructions):
        mark = "" if n in first else "& "  # at once with the one before
        lines.append(f"{indent}  {mark}{instruction_text(x, slots)}")
        for sub in subprograms(x):
            lines += _program_lines(sub, indent + "    ")
    return lines


def instruction_text(x: Instruction, slots: Sequence[Slot]) -> str:
    """One line that says what an instruction does, without the programs inside it."""

    def names(numbers: Sequence[int]) -> str:
        return ", ".join(slots[s].name for s in numbers)

    outputs = names(x.outputs)
    match x:
        case Launch():
            params = f" params={list(x.params)}" if x.params else ""
            begins = f" begins={list(x.begins)}" if x.begins else ""
            extent = f"  units={x.units} cost={x.cost}{params}{begins}"
            return f"launch {x.name}({names(x.inputs)}) -> ({outputs}){extent}"
        case HostCall():
            return f"host {x.name}({names(x.inputs)}) -> ({outputs})"
        case CopyInstruction():
            return f"copy {names(x.inputs)} -> {outputs}"
        case CondInstruction():
            return f"cond {slots[x.index].name} ({names(x.operands)}) -> ({outputs})"
        case WhileInstruction():
            consts = f"body {names(x.body_consts)}; cond {names(x.cond_consts)}"
            return f"while ({names(x.carry)}) -> ({outputs})  consts=({consts})"
    arrow = "backwards" if x.reverse else "forwards"
    head = f"scan {x.length} {arrow} ({names(x.carry)} | {names(x.xs)}) -> ({outputs})"
    return f"{head}  consts=({names(x.consts)})"
