"""From instructions to closures over the slots of a thread group's registers.

A value of a register is an array with an element for each thread of a group, or with one element
if all threads hold the same.  Arrays in slots are never changed in place.  Constants, the addresses
of symbols and special registers have slots too, which are filled before a kernel starts, so an
operand is always a slot.  A closure is called with the list of slots and the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.cuda.simulator.errors import PtxError
from functrax.backends.cuda.simulator.syntax import (
    BOOL,
    TYPES,
    UNSIGNED,
    Array,
    DType,
    Immediate,
    Instruction,
    Pair,
    PtxFunction,
    PtxSymbol,
    Register,
    Type,
    Vector,
)

#: What executes a part of an instruction: called with the slots and the group.
Run: TypeAlias = Callable[[list[Any], Any], None]
Handler: TypeAlias = "Callable[[Decoder, Instruction], Control | None]"

_HANDLERS: dict[str, Handler] = {}
#: Special registers that have the same value as long as a kernel runs (PTX ISA 10).
SPECIAL: Final = {
    *(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    *("%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid"),
    *(f"%lanemask_{name}" for name in ("eq", "le", "lt", "ge", "gt")),
    *("%total_smem_size", "%dynamic_smem_size"),
}


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Declares which operations a function decodes."""

    def register(handler: Handler) -> Handler:
        for name in names:
            _HANDLERS[name] = handler
        return handler

    return register


@dataclass(frozen=True)
class BarrierOp:
    """What a barrier instruction does (PTX ISA 9.7.13, barrier{.cta}).

    Attributes:
      kind: ``sync``, ``arrive``, ``and``, ``or`` or ``popc``.
      number, threads: slots of the barrier's number and of how many threads it waits for; the
        latter -1 for all.
      source, target: slots of a reduction's predicate and result.
    """

    kind: str
    number: int
    threads: int = -1
    source: int = -1
    target: int = -1


@dataclass
class Control:
    """What an instruction asks of the scheduler.

    Attributes:
      kind: ``branch``, ``switch``, ``exit``, ``trap``, ``barrier`` or ``warp`` (threads of a warp
        wait for each other before it).
      labels: where a branch goes.
      slot: of a branch's predicate or index, or of a warp instruction's mask; -1 if it has none.
      negated: whether the predicate is.
      barrier: what a barrier does.
    """

    kind: str
    labels: tuple[str, ...] = ()
    slot: int = -1
    negated: bool = False
    barrier: BarrierOp | None = None


@dataclass
class Op:
    """A decoded instruction.

    Attributes:
      unused: one truth value, which its closures may look at: whether nobody reads what it writes.
    """

    runs: list[Run]
    reads: frozenset[int]
    writes: frozenset[int]
    instruction: Instruction
    unused: list[bool]
    control: Control | None = None


class Decoder:
    """Decodes the instructions of one function.

    Args:
      function: a function without calls.
      symbols: the variables that it can name, with their state spaces and, in the shared and local
        space and among parameters, their offsets.
      param_bytes: the size of the kernel's parameters.
    """

    def __init__(
        self, function: PtxFunction, symbols: dict[str, tuple[str, int]], param_bytes: int
    ) -> None:
        self.function, self.symbols, self.param_bytes = function, symbols, param_bytes
        self.initial: list[Any] = []
        self.names: list[str] = []
        self.registers: dict[str, int] = {}
        self.kinds: dict[str, Type] = {**function.registers}
        for name in function.registers:
            self.registers[name] = self.slot(name)
        self.constants: dict[tuple[bytes, str], int] = {}
        self.specials: dict[str, int] = {}
        #: Slots for addresses that the launch gives: name, offset.
        self.addresses: dict[tuple[str, int], int] = {}
        self.carry = self.slot("CC.CF")
        self.facts: set[str] = set()
        self.instruction: Instruction
        self.runs: list[Run] = []
        self.later: list[Run] = []
        self.reads: set[int] = set()
        self.writes: set[int] = set()
        self.unused: list[bool] = []

    def slot(self, name: str, value: Any = None) -> int:
        self.initial.append(value)
        self.names.append(name)
        return len(self.initial) - 1

    def temporary(self) -> int:
        return self.slot("")

    def error(self, message: str) -> PtxError:
        return PtxError(f"{message}, in {self.instruction.text!r}", self.instruction.line)

    def decode(self, instruction: Instruction) -> Op:
        self.instruction = instruction
        self.runs, self.later, self.reads, self.writes = [], [], set(), set()
        self.unused = [False]
        handler = _HANDLERS.get(instruction.parts[0])
        if handler is None:
            raise self.error(f"unknown instruction {instruction.parts[0]!r}")
        try:
            control = handler(self, instruction)
        except (IndexError, AttributeError) as error:
            raise self.error("operands of the wrong kind or number") from error
        runs = self.runs + self.later
        reads, writes = frozenset(self.reads), frozenset(self.writes)
        return Op(runs, reads, writes, instruction, self.unused, control)

    # Modifiers

    def type(self, position: int = -1) -> Type:
        """The type that stands at a position of the opcode."""
        name = self.instruction.parts[position]
        kind = TYPES.get(name)
        if kind is None:
            raise self.error(f"unknown type .{name}")
        return kind

    def only(self, *known: str, types: int = 1) -> set[str]:
        """The modifiers between the operation and its types, all of which must be known."""
        parts = self.instruction.parts
        modifiers = set(parts[1 : len(parts) - types])
        unknown = modifiers.difference(known)
        if unknown:
            raise self.error(f"unknown modifier .{sorted(unknown)[0]}")
        return modifiers

    def operands(self, *counts: int) -> tuple[Any, ...]:
        found = self.instruction.operands
        if len(found) not in counts:
            raise self.error(f"{len(found)} operands, not {counts[0]}")
        return found

    # Operands

    def constant(self, value: Array) -> int:
        key = (value.tobytes(), value.dtype.str)
        if key not in self.constants:
            self.constants[key] = self.slot("", value)
        return self.constants[key]

    def register(self, operand: Register) -> int:
        slot = self.registers.get(operand.name)
        if slot is None:
            raise self.error(f"unknown register {operand.name}")
        return slot

    def immediate(self, operand: Immediate, kind: Type) -> int:
        value, dtype = operand.value, kind.dtype
        if kind.kind == "f" and kind.bits > 16:
            if operand.width not in (0, kind.bytes):
                raise self.error(f"a constant of {operand.width} bytes as .{kind.name}")
            if isinstance(value, int):
                raise self.error(f"an integer as .{kind.name}")
            return self.constant(np.array([value], dtype))
        if isinstance(value, float):
            if operand.width != kind.bytes:
                raise self.error(f"a floating-point constant as .{kind.name}")
            return self.constant(np.array([value], f"f{operand.width}").view(dtype))
        if kind.kind == "p":
            return self.constant(np.array([value != 0]))
        bits = np.array([value & ((1 << kind.bits) - 1)], UNSIGNED[kind.bytes])
        return self.constant(bits.view(dtype))

    def source(self, operand: Any, kind: Type, *, narrow: bool = False) -> int:
        """The slot of an operand that is read.

        Args:
          narrow: whether a register may be wider than the type, whose low bits are read then.
        """
        if isinstance(operand, Immediate):
            return self.immediate(operand, kind)
        if isinstance(operand, PtxSymbol):
            return self.symbol(operand, kind)
        if not isinstance(operand, Register):
            raise self.error("an operand of the wrong kind")
        if operand.name in SPECIAL:
            return self.special(operand.name, kind)
        slot = self.register(operand)
        self.reads.add(slot)
        width = self.kinds[operand.name]
        if (width.kind == "p") != (kind.kind == "p"):
            raise self.error(f"{operand.name} of type .{width.name} as .{kind.name}")
        if kind.kind == "p":
            return self.inverted(slot) if operand.negated else slot
        if width.bits == kind.bits:
            return slot
        if width.bits < kind.bits or not narrow:
            raise self.error(f"{operand.name} of {width.bits} bits as .{kind.name}")
        return self.cut(slot, width, kind)

    def cut(self, slot: int, width: Type, kind: Type) -> int:
        narrow = self.temporary()
        self.pure(_cut(UNSIGNED[kind.bytes]), (narrow,), ((slot, UNSIGNED[width.bytes]),))
        return narrow

    def inverted(self, slot: int) -> int:
        result = self.temporary()
        self.pure(np.logical_not, (result,), ((slot, BOOL),))
        return result

    def special(self, name: str, kind: Type) -> int:
        if name not in self.specials:
            self.specials[name] = self.slot(name)
        slot = self.specials[name]
        self.reads.add(slot)
        word = TYPES["u32"]
        if kind.bits < 32:
            return self.cut(slot, word, kind)
        if kind.bits > 32:
            wide = self.temporary()
            self.pure(_cut(UNSIGNED[8]), (wide,), ((slot, UNSIGNED[4]),))
            return wide
        return slot

    def symbol(self, operand: PtxSymbol, kind: Type) -> int:
        """The slot of a variable's address in its own state space."""
        known = self.symbols.get(operand.name)
        if known is None:
            raise self.error(f"unknown name {operand.name!r}")
        space, offset = known
        if kind.bits not in (32, 64):
            raise self.error(f"the address of {operand.name!r} as .{kind.name}")
        if space not in ("global", "const"):
            return self.constant(np.array([offset + operand.offset], UNSIGNED[kind.bytes]))
        if kind.bits != 64:
            raise self.error(f"the address of {operand.name!r} in 32 bits")
        key = (operand.name, operand.offset)
        if key not in self.addresses:
            self.addresses[key] = self.slot(operand.name)
        self.reads.add(self.addresses[key])
        return self.addresses[key]

    def target(self, operand: Any, kind: Type, *, widen: bool = False) -> int:
        """The slot of an operand that is written.

        Args:
          widen: whether a register may be wider; it gets the value with its sign.
        """
        if not isinstance(operand, Register):
            raise self.error("a destination that is no register")
        if operand.name == "_":
            return self.temporary()
        slot = self.register(operand)
        self.writes.add(slot)
        width = self.kinds[operand.name]
        if (width.kind == "p") != (kind.kind == "p"):
            raise self.error(f"{operand.name} of type .{width.name} as .{kind.name}")
        if width.bits == kind.bits:
            return slot
        if width.bits < kind.bits or not widen:
            raise self.error(f"{operand.name} of {width.bits} bits as .{kind.name}")
        narrow = self.temporary()
        extended = np.dtype(f"{'i' if kind.kind == 's' else 'u'}{width.bytes}")
        held = kind.dtype if kind.kind in "us" else UNSIGNED[kind.bytes]
        self.pure(_cut(extended), (slot,), ((narrow, held),), later=True)
        return narrow

    def elements(self, operand: Any) -> tuple[Any, ...]:
        """The elements of a vector, or the operand alone."""
        return operand.elements if isinstance(operand, Vector) else (operand,)

    def pair(self, operand: Any) -> tuple[Any, Any]:
        """The two destinations of ``d|p``, the second None if there is one alone."""
        return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)

    # Closures

    def run(self, run: Run) -> None:
        self.runs.append(run)

    def pure(
        self,
        fn: Callable[..., Any],
        targets: Sequence[int],
        sources: Sequence[tuple[int, DType]],
        *,
        later: bool = False,
    ) -> None:
        """Adds a function of values alone; with two targets it returns two arrays."""
        (self.later if later else self.runs).append(_pure(fn, tuple(targets), tuple(sources)))

    def simple(self, fn: Callable[..., Any], target: Type, *sources: Type) -> None:
        """Adds an instruction ``d, a, b, …`` whose operands have the given types."""
        operands = self.operands(1 + len(sources))
        read = [(self.source(x, kind), kind.dtype) for x, kind in zip(operands[1:], sources)]
        self.pure(fn, (self.target(operands[0], target),), read)


def _cut(dtype: DType) -> Callable[[Array], Array]:
    def cut(x: Array) -> Array:
        return x.astype(dtype)

    return cut


def _pure(
    fn: Callable[..., Any], targets: tuple[int, ...], sources: tuple[tuple[int, DType], ...]
) -> Run:
    if len(targets) == 1 and len(sources) == 1:
        return _unary(fn, targets[0], *sources[0])
    if len(targets) == 1 and len(sources) == 2:
        return _binary(fn, targets[0], *sources[0], *sources[1])

    def run(r: list[Any], _: Any) -> None:
        values = []
        for slot, dtype in sources:
            x = r[slot]
            values.append(x if x.dtype is dtype else x.view(dtype))
        if len(targets) == 1:
            r[targets[0]] = fn(*values)
        else:
            for target, x in zip(targets, fn(*values)):
                r[target] = x

    return run


def _unary(fn: Callable[..., Any], d: int, a: int, ta: DType) -> Run:
    def run(r: list[Any], _: Any) -> None:
        x = r[a]
        r[d] = fn(x if x.dtype is ta else x.view(ta))

    return run


def _binary(fn: Callable[..., Any], d: int, a: int, ta: DType, b: int, tb: DType) -> Run:
    def run(r: list[Any], _: Any) -> None:
        x, y = r[a], r[b]
        r[d] = fn(x if x.dtype is ta else x.view(ta), y if y.dtype is tb else y.view(tb))

    return run


@opcode("implicit-def")
def _implicit(d: Decoder, i: Instruction) -> None:
    """LLVM's mark for a register whose value the program does not depend on."""
    (operand,) = d.operands(1)
    if isinstance(operand, Register) and operand.name in d.registers:
        kind = d.kinds[operand.name]
        bits = np.array([1]) if kind.kind == "p" else np.array([0xA5]).view(np.uint64)
        slot, value = d.target(operand, kind), bits.astype(kind.dtype)
        d.run(lambda r, _: r.__setitem__(slot, value))
