"""Basic blocks, which registers live into them, and which may be read before they are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functrax.backends.cuda.simulator.decode import Control, Decoder, Op, Run
from functrax.backends.cuda.simulator.errors import PtxError, UninitializedRegister
from functrax.backends.cuda.simulator.syntax import Instruction, Label


@dataclass
class BasicBlock:
    """Instructions that run one after the other.

    Attributes:
      runs: what executes them.
      count: how many instructions they are.
      first: the first instruction; ``last`` the last, a branch perhaps.
      wait: what its threads wait for before it, or None.
      end: the branch or exit at its end, or None if it falls through to the next block.
      targets: the blocks that a branch leads to; after it the next block, if it is conditional.
      live: the slots that it or later blocks read.
    """

    index: int
    runs: list[Run] = field(default_factory=list)
    count: int = 0
    ops: list[Op] = field(default_factory=list)
    wait: Control | None = None
    end: Control | None = None
    targets: tuple[int, ...] = ()
    live: tuple[int, ...] = ()

    @property
    def first(self) -> Instruction:
        return self.ops[0].instruction

    @property
    def last(self) -> Instruction:
        return self.ops[-1].instruction


def blocks_of(decoder: Decoder, body: list[Instruction | Label]) -> list[BasicBlock]:
    """Decodes a function's body into basic blocks, in the order of the text."""
    blocks = [BasicBlock(0)]
    labels: dict[str, int] = {}
    tables: dict[str, tuple[str, ...]] = {}

    def begin() -> None:
        if blocks[-1].ops:
            blocks.append(BasicBlock(len(blocks)))

    for item in body:
        if isinstance(item, Label):
            if item.targets:
                tables[item.name] = item.targets
                continue
            if item.name in labels:
                raise PtxError(f"label {item.name!r} is there twice", item.line)
            begin()
            labels[item.name] = blocks[-1].index
            continue
        op = decoder.decode(item)
        control = op.control
        if control is not None and control.kind in ("barrier", "warp"):
            begin()
            blocks[-1].wait = control
            blocks[-1].ops.append(op)
            if control.kind == "barrier":
                begin()
            continue
        blocks[-1].ops.append(op)
        if control is not None:
            blocks[-1].end = control
            begin()
    _close(decoder, blocks)
    for block in blocks:
        block.targets = _targets(block, labels, tables)
    _track_registers(decoder, blocks)
    _liveness(blocks)
    for block in blocks:
        block.runs = [run for op in block.ops for run in op.runs]
        block.count = len(block.ops)
    return blocks


def _close(decoder: Decoder, blocks: list[BasicBlock]) -> None:
    """The end of the text ends a thread, as ``ret`` does."""
    last = blocks[-1]
    if not last.ops:
        line = decoder.function.line
        leave = Instruction(("ret",), (), None, line, "", "the end of the function")
        last.ops.append(decoder.decode(leave))
        last.end = last.ops[-1].control
    elif last.end is None:
        last.end = Control("exit")


def _targets(
    block: BasicBlock, labels: dict[str, int], tables: dict[str, tuple[str, ...]]
) -> tuple[int, ...]:
    end = block.end
    if end is None:
        return (block.index + 1,)
    if end.kind in ("exit", "trap"):
        return ()
    names = end.labels
    if end.kind == "switch":
        names = tables.get(names[0], names)
    for name in names:
        if name not in labels:
            raise PtxError(f"unknown label {name!r}", block.last.line)
    found = tuple(labels[name] for name in names)
    conditional = end.kind == "branch" and end.slot >= 0
    return (*found, block.index + 1) if conditional else found


def _predecessors(blocks: list[BasicBlock]) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for target in block.targets:
            before[target].append(block.index)
    return before


def _unwritten_reads(decoder: Decoder, blocks: list[BasicBlock]) -> Iterator[tuple[Op, int]]:
    """The reads of registers that some way through the function does not write before."""
    everything = frozenset(range(len(decoder.initial)))
    start = everything.difference(decoder.registers.values(), (decoder.carry,))
    after = [everything for _ in blocks]
    before = _predecessors(blocks)
    writes = [frozenset().union(*(op.writes for op in block.ops)) for block in blocks]

    def known(block: BasicBlock) -> frozenset[int]:
        ways = [after[k] for k in before[block.index]]
        if block.index == 0:
            ways.append(start)
        return frozenset.intersection(*ways) if ways else everything

    changed = True
    while changed:
        changed = False
        for block in blocks:
            new = known(block) | writes[block.index]
            if new != after[block.index]:
                after[block.index], changed = new, True
    for block in blocks:
        written = set(known(block))
        for op in block.ops:
            for slot in op.reads - written:
                yield op, slot
            written |= op.writes


def _track_registers(decoder: Decoder, blocks: list[BasicBlock]) -> None:
    """Gives registers that may be read unwritten a predicate that says who wrote them."""
    suspects = list(_unwritten_reads(decoder, blocks))
    flags = {slot: decoder.slot("", np.array([False])) for _, slot in suspects}
    if not flags:
        return
    for op, slot in suspects:
        flag, name = flags[slot], decoder.names[slot]
        op.runs = [_check(flag, name, op.instruction), *op.runs]
        op.reads |= {flag}
    for block in blocks:
        for op in block.ops:
            for slot in op.writes & flags.keys():
                op.runs.append(_mark(flags[slot]))
                op.writes |= {flags[slot]}


def _check(flag: int, name: str, instruction: Instruction) -> Run:
    def run(r: list[Any], g: Any) -> None:
        if not r[flag].all():
            g.at = instruction
            message = f"register {name} is read, and this thread did not write it"
            g.fault(UninitializedRegister, message, ~r[flag])

    return run


_WRITTEN = np.array([True])


def _mark(flag: int) -> Run:
    def run(r: list[Any], _: Any) -> None:
        r[flag] = _WRITTEN

    return run


def _liveness(blocks: list[BasicBlock]) -> None:
    use, define = [], []
    for block in blocks:
        used: set[int] = set()
        defined: set[int] = set()
        for op in block.ops:
            used |= op.reads - defined
            defined |= op.writes
        use.append(used)
        define.append(defined)
    live = [set(x) for x in use]
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            after: set[int] = set().union(*(live[k] for k in block.targets))
            new = use[block.index] | (after - define[block.index])
            if new != live[block.index]:
                live[block.index], changed = new, True
    for block in blocks:
        block.live = tuple(sorted(live[block.index]))
        after = set().union(*(live[k] for k in block.targets))
        for op in reversed(block.ops):
            op.unused[0] = not op.writes & after
            after = (after - op.writes) | op.reads
