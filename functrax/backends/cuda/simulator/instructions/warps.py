"""Instructions of a warp: PTX ISA 9.7.9 shfl.sync, 9.7.13 vote, match, activemask, redux.

The scheduler runs them when all threads are there that the mask names.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from functrax.backends.cuda.simulator.decode import Control, Decoder, opcode
from functrax.backends.cuda.simulator.errors import DivergentWarp
from functrax.backends.cuda.simulator.group import ThreadGroup
from functrax.backends.cuda.simulator.syntax import TYPES, Array, Instruction

_PRED, _B32, _U32 = TYPES["pred"], TYPES["b32"], TYPES["u32"]
_MODES: Final = ("up", "down", "bfly", "idx")


def _source_lanes(mode: str, lane: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """Which lane of its warp each lane reads, and whether that is within bounds."""
    by = (b & np.uint32(31)).astype(np.int64)
    clamp = (c & np.uint32(31)).astype(np.int64)
    segment = (c >> np.uint32(8) & np.uint32(31)).astype(np.int64)
    lowest = lane & segment
    bound = lowest | (clamp & ~segment)
    if mode == "up":
        source = lane - by
        inside = source >= bound
    else:
        source = {"down": lane + by, "bfly": lane ^ by, "idx": lowest | (by & ~segment)}[mode]
        inside = source <= bound
    return np.where(inside, source, lane), inside


@opcode("shfl")
def _shfl(d: Decoder, i: Instruction) -> Control:
    """shfl.sync: the value of another lane, whose number mode, b and c give; p if in bounds."""
    modes = d.only("sync", *_MODES) - {"sync"}
    if not i.has("sync") or len(modes) != 1:
        raise d.error("shfl without .sync or without a mode")
    (mode,) = modes
    results, a, b, c, mask = d.operands(5)
    first, second = d.pair(results)
    sources = [d.source(a, _B32), d.source(b, _U32), d.source(c, _U32), d.source(mask, _U32)]
    value_slot, b_slot, c_slot, mask_slot = sources
    target = d.target(first, _B32)
    predicate = d.temporary() if second is None else d.target(second, _PRED)

    def run(r: list[Any], g: ThreadGroup) -> None:
        g.at = i
        value = r[value_slot]
        lane = g.lane_ids.astype(np.int64)
        source, inside = _source_lanes(mode, lane, _u32(r[b_slot]), _u32(r[c_slot]))
        slots = g.warps * 32
        places = slots + source
        size = g.batch.blocks_count * g.batch.warps_count * 32
        own = slots + lane
        named = (_u32(r[mask_slot]) >> source.astype(np.uint32)) & np.uint32(1)
        if g.count < size or not named.all():
            present = np.zeros(size, np.bool_)
            present[own] = True
            wrong = ~(present[places] & (named == 1))
            if wrong.any():
                k = int(np.argmax(wrong))
                message = f"a thread reads lane {int(source[k])}, which does not take part"
                g.fault(DivergentWarp, message, wrong)
        if len(value) > 1:
            table = value
            if g.count < size:
                table = np.empty(size, value.dtype)
                table[own] = value
            value = table[places]
        r[target] = value
        r[predicate] = inside

    d.run(run)
    return Control("warp", slot=mask_slot)


def _u32(x: Array) -> Array:
    return x if x.dtype == np.uint32 else x.view(np.uint32)


def _teams(g: ThreadGroup, named: Array) -> tuple[Array, int]:
    """Numbers for lanes that act together: of one warp and one mask."""
    if len(named) == 1 or (named == named[0]).all():
        return g.warps, g.batch.blocks_count * g.batch.warps_count
    return _classes(g.warps, named)


def _classes(*keys: Array) -> tuple[Array, int]:
    """Numbers for lanes with equal keys."""
    keys = tuple(np.broadcast_arrays(*keys))
    order = np.lexsort(keys)
    new = np.zeros(len(order), np.bool_)
    for key in keys:
        ordered = key[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(new)
    return numbers, int(new.sum()) + 1


def _masks(g: ThreadGroup, teams: Array, count: int, chosen: Array | None = None) -> Array:
    """Of each team the lanes that are chosen, as bits."""
    bits = g.batch.lane_bit[g.lanes]
    if chosen is not None:
        teams, bits = teams[chosen], bits[chosen]
    return np.bincount(teams, weights=bits, minlength=count).astype(np.uint32)


@opcode("vote")
def _vote(d: Decoder, i: Instruction) -> Control:
    """vote.sync: whether a predicate holds for all, any, or is the same; or for which lanes."""
    modes = d.only("sync", "all", "any", "uni", "ballot") - {"sync"}
    if not i.has("sync") or len(modes) != 1:
        raise d.error("vote without .sync or without a mode")
    (mode,) = modes
    target, source, mask = d.operands(3)
    mask_slot, slot = d.source(mask, _U32), d.source(source, _PRED)
    result = d.target(target, _B32 if mode == "ballot" else _PRED)

    def run(r: list[Any], g: ThreadGroup) -> None:
        teams, count = _teams(g, _u32(r[mask_slot]))
        predicate = np.broadcast_to(r[slot], (g.count,))
        ballot = _masks(g, teams, count, predicate)[teams]
        everyone = _masks(g, teams, count)[teams]
        r[result] = {
            "ballot": ballot,
            "all": ballot == everyone,
            "any": ballot != 0,
            "uni": (ballot == everyone) | (ballot == 0),
        }[mode]

    d.run(run)
    return Control("warp", slot=mask_slot)


@opcode("activemask")
def _activemask(d: Decoder, i: Instruction) -> None:
    """activemask: the lanes of the warp that run now."""
    (target,) = d.operands(1)
    slot = d.target(target, _B32)

    def run(r: list[Any], g: ThreadGroup) -> None:
        warps = g.warps
        r[slot] = g.batch.masks(warps, g.batch.lane_bit[g.lanes])[warps]

    d.run(run)


@opcode("match")
def _match(d: Decoder, i: Instruction) -> Control:
    """match.any: the lanes with the same value; .all: all lanes and p if all have the same."""
    modes = d.only("sync", "any", "all") - {"sync"}
    (mode,) = modes
    kind = d.type()
    results, source, mask = d.operands(3)
    first, second = d.pair(results)
    mask_slot, slot = d.source(mask, _U32), d.source(source, kind)
    target = d.target(first, _B32)
    predicate = d.temporary() if second is None else d.target(second, _PRED)

    def run(r: list[Any], g: ThreadGroup) -> None:
        teams, count = _teams(g, _u32(r[mask_slot]))
        same, kinds = _classes(teams, r[slot].view(kind.dtype))
        equal = _masks(g, same, kinds)[same]
        if mode == "any":
            r[target] = equal
        else:
            whole = equal == _masks(g, teams, count)[teams]
            r[target] = np.where(whole, equal, np.uint32(0))
            r[predicate] = whole

    d.run(run)
    return Control("warp", slot=mask_slot)


_REDUCTIONS: Final[dict[str, tuple[np.ufunc, Any]]] = {
    "add": (np.add, lambda info: 0),
    "min": (np.minimum, lambda info: info.max),
    "max": (np.maximum, lambda info: info.min),
    "and": (np.bitwise_and, lambda info: info.max),
    "or": (np.bitwise_or, lambda info: 0),
    "xor": (np.bitwise_xor, lambda info: 0),
}


@opcode("redux")
def _redux(d: Decoder, i: Instruction) -> Control:
    """redux.sync: a sum, extreme or logical operation over the lanes of a warp."""
    modes = d.only("sync", *_REDUCTIONS) - {"sync"}
    (mode,) = modes
    kind = d.type()
    if kind.bits != 32 or kind.kind not in "usb":
        raise d.error(f"redux of .{kind.name}")
    ufunc, neutral = _REDUCTIONS[mode]
    start = neutral(np.iinfo(kind.dtype))
    target, source, mask = d.operands(3)
    mask_slot, slot = d.source(mask, _U32), d.source(source, kind)
    result = d.target(target, kind)

    def run(r: list[Any], g: ThreadGroup) -> None:
        teams, count = _teams(g, _u32(r[mask_slot]))
        total = np.full(count, start, kind.dtype)
        ufunc.at(total, teams, np.broadcast_to(r[slot].view(kind.dtype), (g.count,)))
        r[result] = total[teams]

    d.run(run)
    return Control("warp", slot=mask_slot)


@opcode("elect")
def _elect(d: Decoder, i: Instruction) -> Control:
    """elect.sync: the lowest lane of the mask, and whether this is it."""
    d.only("sync", types=0)
    results, mask = d.operands(2)
    first, second = d.pair(results)
    mask_slot = d.source(mask, _U32)
    target, predicate = d.target(first, _B32), d.target(second, _PRED)

    def run(r: list[Any], g: ThreadGroup) -> None:
        teams, count = _teams(g, _u32(r[mask_slot]))
        active = _masks(g, teams, count)[teams]
        lowest = np.bitwise_count((active & -active) - np.uint32(1)).astype(np.uint32)
        r[target], r[predicate] = lowest, lowest == g.lane_ids

    d.run(run)
    return Control("warp", slot=mask_slot)
