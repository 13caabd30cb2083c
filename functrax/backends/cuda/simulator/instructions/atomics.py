"""PTX ISA 9.7.13, Parallel Synchronization and Communication Instructions: atom, red.

Atomic operations of one instruction that meet at an address happen one after the other, in the
order of the lanes or in one drawn with the launch's seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.cuda.simulator.decode import Decoder, opcode
from functrax.backends.cuda.simulator.group import ThreadGroup
from functrax.backends.cuda.simulator.instructions.accesses import address_of, space_of
from functrax.backends.cuda.simulator.instructions.floats import element, on_elements
from functrax.backends.cuda.simulator.instructions.rounding import (
    canonical,
    round_bf16,
    widen_bf16,
)
from functrax.backends.cuda.simulator.syntax import Array, Instruction, Type

PtxFunction: TypeAlias = Callable[..., Any]

_UFUNCS: Final[dict[str, np.ufunc]] = {
    "add": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
}
#: What is stored, of what was there and the operands.
_OTHERS: Final[dict[str, PtxFunction]] = {
    "exch": lambda old, b: b,
    "cas": lambda old, b, c: np.where(old == b, c, old),
    "inc": lambda old, b: np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, b: np.where((old == 0) | (old > b), b, old - old.dtype.type(1)),
}
_MODIFIERS: Final = (
    *("relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys"),
    *("global", "shared", "shared::cta", "noftz"),
)
_ORDERED: Final = ("acquire", "release", "acq_rel")


def _update(d: Decoder, kind: Type, name: str) -> tuple[PtxFunction, np.ufunc | None]:
    """What an operation stores, and the ufunc that it is, if it is one."""
    floating = kind.kind not in ("u", "s", "b")
    if name in _OTHERS:
        if floating:
            raise d.error(f"atomic {name} of .{kind.name}")
        return _OTHERS[name], None
    if name not in _UFUNCS or (floating and name != "add"):
        raise d.error(f"atomic {name} of .{kind.name}")
    ufunc = _UFUNCS[name]
    form = element(kind)
    if form == "bf16":
        fn = on_elements(kind, lambda x, y: round_bf16(widen_bf16(x) + widen_bf16(y)))
        return fn, None
    if kind.name == "f16x2":
        fn = on_elements(kind, lambda x, y: canonical(x + y))
        return fn, None
    return (lambda x, y: canonical(x + y)) if floating else ufunc, ufunc


@opcode("atom", "red")
def _atomic(d: Decoder, i: Instruction) -> None:
    """atom: d = [a]; [a] = op([a], b); red: the same without a result."""
    kind = d.type()
    names = {*_UFUNCS, *_OTHERS}
    found = d.only(*_MODIFIERS, *names)
    operation = found & names
    if len(operation) != 1:
        raise d.error("no atomic operation")
    name = operation.pop()
    fn, ufunc = _update(d, kind, name)
    returns = i.parts[0] == "atom"
    operands = list(i.operands)
    target = d.target(operands.pop(0), kind) if returns else -1
    address, space = address_of(d, operands[0], space_of(d, i))
    if len(operands) != (3 if name == "cas" else 2):
        raise d.error("a wrong number of operands")
    sources = [d.source(x, kind) for x in operands[1:]]
    dtype, ordered = kind.dtype, any(i.has(x) for x in _ORDERED)
    unused = d.unused

    def run(r: list[Any], g: ThreadGroup) -> None:
        g.at = i
        batch = g.batch
        batch.launch.statistics.atomics += g.count
        if ordered:
            batch.launch.fence(batch, g.blocks)
        values = [np.broadcast_to(r[s], (g.count,)).view(dtype) for s in sources]
        result = np.empty(g.count, dtype) if returns and not unused[0] else None
        for index, region, offsets in g.atomic_places(space, r[address], kind.bytes):
            view = region.view(dtype, 1)
            places = offsets >> (kind.bytes.bit_length() - 1)
            cut = values if index is None else [x[index] for x in values]
            if result is None and ufunc is not None and dtype.kind in "iu":
                ufunc.at(view, places, cut[0])  # in whatever order, the sum is the same
                continue
            if batch.launch.random is not None:
                order = batch.launch.random.permutation(len(places))
                old = np.empty(len(places), dtype)
                old[order] = _apply(view, places[order], fn, ufunc, [x[order] for x in cut])
            else:
                old = _apply(view, places, fn, ufunc, cut)
            if result is not None:
                result[slice(None) if index is None else index] = old
        if result is not None:
            r[target] = result

    d.run(run)


def _apply(
    view: Array, places: Array, fn: PtxFunction, ufunc: np.ufunc | None, values: list[Array]
) -> Array:
    """Does operations one after the other; what was there before each."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.ones(len(places), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(first)
    if len(starts) == len(places):
        before: Array = view[places]
        view[places] = fn(before, *values)
        return before
    sizes = np.diff(np.append(starts, len(places)))
    before = np.empty(len(places), view.dtype)
    if ufunc is not None and sizes.max() > len(starts):
        # Few addresses with many operations each: running results of each address.
        for start, size in zip(starts.tolist(), sizes.tolist()):
            lanes = order[start : start + size]
            place = ordered[start : start + 1]
            chain = ufunc.accumulate(np.concatenate([view[place], values[0][lanes]]))
            before[lanes] = chain[:-1]
            view[place] = canonical(chain[-1:]) if chain.dtype.kind == "f" else chain[-1:]
        return before
    # The first operation at each address, then the second, and so on.
    rank = np.arange(len(places)) - np.repeat(starts, sizes)
    by_rank = order[np.argsort(rank, kind="stable")]
    ends = np.cumsum(np.bincount(rank)).tolist()
    for begin, end in zip([0, *ends], ends):
        lanes = by_rank[begin:end]
        old = view[places[lanes]]
        before[lanes] = old
        view[places[lanes]] = fn(old, *(x[lanes] for x in values))
    return before
