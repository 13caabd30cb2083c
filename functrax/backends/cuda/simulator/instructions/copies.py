"""PTX ISA 9.7.9, Data Movement and Conversion Instructions: cp.async and its groups.

A copy happens when a thread waits for it.  Until then its destination counts as never written, so
a read that did not wait is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from functrax.backends.cuda.simulator.decode import Decoder, opcode
from functrax.backends.cuda.simulator.group import ThreadGroup
from functrax.backends.cuda.simulator.instructions.accesses import address_of
from functrax.backends.cuda.simulator.syntax import TYPES, Array, Instruction

_U32 = TYPES["u32"]


@dataclass
class _Copy:
    """Copies that lanes began: to, from, and of which of their groups."""

    lanes: Array
    groups: Array
    target: Array
    source: Array
    size: int
    given: Array
    instruction: Instruction


@opcode("cp")
def _cp(d: Decoder, i: Instruction) -> None:
    """cp.async: copies 4, 8 or 16 bytes to shared memory; commit_group, wait_group, wait_all."""
    parts = [p.split("::")[0] for p in i.parts[1:]]
    if parts[0] != "async":
        raise d.error("cp without .async")
    if parts[1:] == ["commit_group"]:
        d.run(_commit)
    elif parts[1:] == ["wait_all"]:
        d.run(lambda _, g: _wait(g, None))
    elif parts[1:] == ["wait_group"]:
        (pending,) = d.operands(1)
        count = int(pending.value)
        d.run(lambda _, g: _wait(g, count))
    elif parts[1] in ("ca", "cg") and parts[2:4] == ["shared", "global"]:
        _begin(d, i)
    else:
        raise d.error("this form of cp.async is not supported")


def _begin(d: Decoder, i: Instruction) -> None:
    operands = d.operands(3, 4)
    target, _ = address_of(d, operands[0], "shared")
    source, _ = address_of(d, operands[1], "global")
    size = int(operands[2].value)
    if size not in (4, 8, 16) or (i.has("cg") and size != 16):
        raise d.error(f"cp.async of {size} bytes")
    given = d.constant(np.array([size], np.uint32))
    if len(operands) == 4:
        given = d.source(operands[3], _U32)

    def run(r: list[Any], g: ThreadGroup) -> None:
        g.at = i
        batch = g.batch
        to, count = r[target], r[given].view(np.uint32)
        for index, region, offsets in g.resolve("shared", to, size):
            assert index is None
            region.none_written(offsets >> (size.bit_length() - 1), size)
        if (count != 0).any():
            reads = np.flatnonzero(np.broadcast_to(count != 0, (g.count,)))
            place = np.broadcast_to(r[source], (g.count,))[reads]
            g.part(reads).resolve("global", place, size)
        groups = _groups(g)[g.lanes]
        batch.copies.append(_Copy(g.lanes, groups, to, r[source], size, count, i))

    d.run(run)


def _groups(g: ThreadGroup) -> Array:
    batch = g.batch
    if batch.copy_groups is None:
        batch.copy_groups = np.zeros(batch.count, np.int64)
    return batch.copy_groups


def _commit(_: list[Any], g: ThreadGroup) -> None:
    _groups(g)[g.lanes] += 1


def _wait(g: ThreadGroup, pending: int | None) -> None:
    """Does the copies of all but the last ``pending`` groups, or of all."""
    batch, left = g.batch, []
    member = np.zeros(batch.count, np.bool_)
    member[g.lanes] = True
    for copy in batch.copies:
        due = member[copy.lanes]
        if pending is not None:
            due = due & (copy.groups < _groups(g)[copy.lanes] - pending)
        if due.any():
            _do(g, copy, np.flatnonzero(due))
        if not due.all():
            left.append(_rest(copy, np.flatnonzero(~due)))
    batch.copies = left


def _rest(copy: _Copy, index: Array) -> _Copy:
    whole = len(copy.lanes)
    return _Copy(
        copy.lanes[index],
        copy.groups[index],
        np.broadcast_to(copy.target, (whole,))[index],
        np.broadcast_to(copy.source, (whole,))[index],
        copy.size,
        np.broadcast_to(copy.given, (whole,))[index],
        copy.instruction,
    )


def _do(g: ThreadGroup, copy: _Copy, index: Array) -> None:
    part = _rest(copy, index)
    lanes = ThreadGroup(g.batch, part.lanes, [])
    lanes.at = copy.instruction
    word = np.dtype("u4")
    if (part.given >= part.size).all():
        values = lanes.load("global", part.source, word, part.size // 4)
    else:
        octets = np.zeros((len(part.lanes), part.size), np.uint8)
        for k in range(part.size):
            reads = np.flatnonzero(part.given > k)
            if len(reads):
                group = lanes.part(reads)
                (value,) = group.load("global", part.source[reads] + k, np.dtype("u1"), 1)
                octets[reads, k] = value
        values = list(np.ascontiguousarray(octets.view(word).T))
    lanes.store("shared", part.target, values, word)
