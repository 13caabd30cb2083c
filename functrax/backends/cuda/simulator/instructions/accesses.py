"""PTX ISA 9.7.9, Data Movement and Conversion Instructions: moves, loads, stores, addresses."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from functrax.backends.cuda.simulator.decode import Decoder, opcode
from functrax.backends.cuda.simulator.group import WINDOWS, ThreadGroup
from functrax.backends.cuda.simulator.memory import GLOBAL_START
from functrax.backends.cuda.simulator.syntax import (
    TYPES,
    UNSIGNED,
    Address,
    Array,
    DType,
    Instruction,
    PtxSymbol,
    Register,
    Type,
    Vector,
)

_PRED, _U64, _U32 = TYPES["pred"], TYPES["u64"], TYPES["u32"]
_I64: Final[DType] = np.dtype("i8")
_SPACES: Final = ("global", "shared", "local", "const", "param")
#: Modifiers of caches and of the order of memory; the latter make an access no plain one.
_CACHES: Final = ("ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc")
_ORDERS: Final = ("volatile", "relaxed", "acquire", "release", "mmio")
_SCOPES: Final = ("cta", "cluster", "gpu", "sys")


# Moves


@opcode("mov")
def _mov(d: Decoder, i: Instruction) -> None:
    """mov: a register, constant, special register, or address; or packs and unpacks a vector."""
    d.only()
    kind = d.type()
    target, source = d.operands(2)
    if isinstance(source, Register) and source.name in _CHANGING:
        slot, fn = d.target(target, kind), _CHANGING[source.name]

        def change(r: list[Any], g: ThreadGroup) -> None:
            r[slot] = fn(g)

        d.run(change)
    elif isinstance(source, Vector):
        _pack(d, kind, target, source)
    elif isinstance(target, Vector):
        _unpack(d, kind, target, source)
    else:
        a, b = d.source(source, kind), d.target(target, kind)

        def move(r: list[Any], _: Any) -> None:
            r[b] = r[a]

        d.run(move)


def _clock(g: ThreadGroup) -> Array:
    return np.array([g.batch.launch.step_limit - g.batch.launch.steps], np.uint64)


#: Special registers that change while a kernel runs.
_CHANGING: Final = {
    "%clock": lambda g: _clock(g).astype(np.uint32),
    "%clock64": _clock,
    "%globaltimer": _clock,
}


def _parts(d: Decoder, kind: Type, vector: Vector) -> tuple[Type, list[Any]]:
    count = len(vector.elements)
    name = f"b{kind.bits // count}" if count else ""
    if name not in TYPES or count < 2:
        raise d.error(f"a vector of {count} as .{kind.name}")
    return TYPES[name], list(vector.elements)


def _pack(d: Decoder, kind: Type, target: Any, vector: Vector) -> None:
    part, elements = _parts(d, kind, vector)
    wide = UNSIGNED[kind.bytes]

    def pack(*x: Array) -> Array:
        result = x[0].astype(wide)
        for k, value in enumerate(x[1:], 1):
            result = result | (value.astype(wide) << wide.type(k * part.bits))
        return result

    read = [(d.source(x, part), part.dtype) for x in elements]
    d.pure(pack, (d.target(target, kind),), read)


def _unpack(d: Decoder, kind: Type, vector: Vector, source: Any) -> None:
    part, elements = _parts(d, kind, vector)
    wide, narrow = UNSIGNED[kind.bytes], part.dtype
    targets = [d.target(x, part) for x in elements]

    def unpack(x: Array) -> list[Array]:
        return [(x >> wide.type(k * part.bits)).astype(narrow) for k in range(len(targets))]

    d.pure(unpack, targets, [(d.source(source, kind), wide)])


# Addresses


def address_of(d: Decoder, operand: Any, space: str) -> tuple[int, str]:
    """The slot of an address as int64, and its space: that of the variable that it names."""
    if not isinstance(operand, Address):
        raise d.error("an operand that is no address")
    base, offset = operand
    if isinstance(base, PtxSymbol):
        known = d.symbols.get(base.name)
        if known is None:
            raise d.error(f"unknown name {base.name!r}")
        own = "global" if known[0] == "const" else known[0]
        if space == "generic" and own in WINDOWS:
            raise d.error(f"{base.name!r} of .{own} memory at a generic address")
        slot = d.symbol(PtxSymbol(base.name, offset), _U64)
        result = d.temporary()
        d.pure(lambda x: x, (result,), [(slot, _I64)])
        return result, own
    if not isinstance(base, Register):
        return d.constant(np.array([base.value + offset], _I64)), space
    slot = d.register(base)
    d.reads.add(slot)
    width = d.kinds[base.name]
    if width.bits not in (32, 64):
        raise d.error(f"an address of {width.bits} bits")
    result = d.temporary()
    held = _I64 if width.bits == 64 else UNSIGNED[4]

    def add(x: Array) -> Array:
        x = x if held is _I64 else x.astype(_I64)
        return x + offset if offset else x

    d.pure(add, (result,), [(slot, held)])
    return result, space


def space_of(d: Decoder, i: Instruction) -> str:
    """The state space that an opcode names; const lies among the global addresses."""
    for part in i.parts[1:]:
        name = part.split("::")[0]
        if name in _SPACES:
            return "global" if name == "const" else name
    return "generic"


def _check_modifiers(d: Decoder, i: Instruction) -> None:
    for part in i.parts[1:-1]:
        known = (*_SPACES, *_CACHES, *_ORDERS, *_SCOPES, "v2", "v4", "v8", "weak", "unified")
        if part.split("::")[0] not in known and part.split("::")[0] not in ("L1", "L2"):
            raise d.error(f"unknown modifier .{part}")


def _parameter(d: Decoder, operand: Address, nbytes: int) -> int:
    """Where an address lies that names a parameter of the kernel and is aligned; else -1."""
    if not isinstance(operand.base, PtxSymbol):
        return -1
    space, start = d.symbols[operand.base.name]
    start += operand.offset
    inside = start >= 0 and start + nbytes <= d.param_bytes and start % nbytes == 0
    return start if space == "param" and inside else -1


def _is_plain(i: Instruction) -> bool:
    return not any(order in i.parts for order in _ORDERS)


def _fences(i: Instruction) -> bool:
    return i.has("acquire") or i.has("release")


def _count(i: Instruction) -> int:
    return next((int(p[1:]) for p in i.parts[1:-1] if p in ("v2", "v4", "v8")), 1)


@opcode("ld", "ldu")
def _ld(d: Decoder, i: Instruction) -> None:
    """ld: loads one, two, four or eight elements; .nc from memory that nobody writes."""
    _check_modifiers(d, i)
    kind, count = d.type(), _count(i)
    operands = d.operands(2, 3)
    address, space = address_of(d, operands[1], space_of(d, i))
    elements = d.elements(operands[0])
    if len(elements) != count:
        raise d.error(f"{len(elements)} registers for {count} elements")
    targets = [d.target(x, kind, widen=True) for x in elements]
    dtype, fences = kind.dtype, _fences(i)
    start = _parameter(d, operands[1], kind.bytes * count)
    if start >= 0:

        def load_parameter(r: list[Any], g: ThreadGroup) -> None:
            values = g.batch.launch.params.data[start : start + kind.bytes * count].view(dtype)
            for k, target in enumerate(targets):
                r[target] = values[k : k + 1]

        d.run(load_parameter)
        return
    # A load that is not plain may meet plain writes that a fence orders, but is a read like others.
    constant = i.has("nc") or space == "param"

    def load(r: list[Any], g: ThreadGroup) -> None:
        g.at = i
        if fences:
            g.batch.launch.fence(g.batch, g.blocks)
        for target, value in zip(
            targets, g.load(space, r[address], dtype, count, constant=constant)
        ):
            r[target] = value

    d.run(load)


@opcode("st")
def _st(d: Decoder, i: Instruction) -> None:
    """st: stores one, two, four or eight elements."""
    _check_modifiers(d, i)
    kind, count = d.type(), _count(i)
    operands = d.operands(2, 3)
    address, space = address_of(d, operands[0], space_of(d, i))
    elements = d.elements(operands[1])
    if len(elements) != count:
        raise d.error(f"{len(elements)} registers for {count} elements")
    sources = [d.source(x, kind, narrow=True) for x in elements]
    dtype, plain, fences = kind.dtype, _is_plain(i), _fences(i)

    def store(r: list[Any], g: ThreadGroup) -> None:
        g.at = i
        if fences:
            g.batch.launch.fence(g.batch, g.blocks)
        values = [r[slot] for slot in sources]
        g.store(space, r[address], values, dtype, plain=plain)

    d.run(store)


@opcode("prefetch", "prefetchu", "applypriority")
def _prefetch(d: Decoder, i: Instruction) -> None:
    """prefetch: a hint to the caches, which has no meaning here."""


@opcode("cvta")
def _cvta(d: Decoder, i: Instruction) -> None:
    """cvta: an address of a space as a generic one; .to the other way."""
    to = i.has("to")
    parts = [p.split("::")[0] for p in i.parts[1:-1] if p != "to"]
    if len(parts) != 1 or parts[0] not in _SPACES:
        raise d.error("no state space")
    kind = d.type()
    base = np.int64(WINDOWS.get(parts[0], 0))
    if kind.bits != 64:
        raise d.error("generic addresses have 64 bits")
    target, source = d.operands(2)
    if isinstance(source, PtxSymbol) and to:
        raise d.error("the address of a variable is no generic one")
    shift = -base if to else base
    read = [(d.source(source, kind), _I64)]
    d.pure(lambda x: x + shift if shift else x, (d.target(target, kind),), read)


@opcode("isspacep")
def _isspacep(d: Decoder, i: Instruction) -> None:
    """isspacep: whether a generic address lies in a space's window."""
    space = i.parts[1].split("::")[0]
    target, source = d.operands(2)

    def inside(x: Array) -> Array:
        window = x >> 44
        if space in WINDOWS:
            result: Array = window == WINDOWS[space] >> 44
            return result
        return window >= GLOBAL_START >> 44

    d.pure(inside, (d.target(target, _PRED),), [(d.source(source, _U64), _I64)])
