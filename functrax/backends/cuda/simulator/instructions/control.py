"""PTX ISA 9.7.12, Control Flow Instructions, and barriers and fences of 9.7.13."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.backends.cuda.simulator.decode import BarrierOp, Control, Decoder, opcode
from functrax.backends.cuda.simulator.errors import DataRace
from functrax.backends.cuda.simulator.group import ThreadGroup
from functrax.backends.cuda.simulator.syntax import TYPES, Immediate, Instruction, PtxSymbol

_PRED, _U32 = TYPES["pred"], TYPES["u32"]


@opcode("bra")
def _bra(d: Decoder, i: Instruction) -> Control:
    """bra: goes to a label, if there is a guard only where it holds."""
    if set(i.parts[1:]) - {"uni"}:
        raise d.error("unknown modifier")
    (label,) = d.operands(1)
    if not isinstance(label, PtxSymbol):
        raise d.error("a branch to what is no label")
    if i.guard is None:
        return Control("branch", (label.name,))
    slot = d.source(i.guard._replace(negated=False), _PRED)
    return Control("branch", (label.name,), slot, i.guard.negated)


@opcode("brx")
def _brx(d: Decoder, i: Instruction) -> Control:
    """brx.idx: goes to the label of a list that an index names."""
    index, table = d.operands(2)
    if isinstance(table, PtxSymbol):
        names: tuple[str, ...] = (table.name,)
    else:
        names = tuple(x.name for x in table.elements)
    return Control("switch", names, d.source(index, _U32))


@opcode("ret", "exit")
def _exit(d: Decoder, i: Instruction) -> Control:
    """Ret of a kernel, exit: ends the thread."""
    d.operands(0)
    return Control("exit")


@opcode("trap")
def _trap(d: Decoder, i: Instruction) -> Control:
    """trap: ends the kernel with an error."""
    return Control("trap")


@opcode("bar", "barrier")
def _bar(d: Decoder, i: Instruction) -> Control:
    """bar.sync: waits for all threads; .arrive does not wait; .red reduces a predicate over them.

    bar.warp.sync: waits for the threads of a warp that a mask names.
    """
    parts = {p for p in i.parts[1:] if p not in ("cta", "aligned")}
    if "warp" in parts:
        (mask,) = d.operands(1)
        d.run(_warp_barrier)
        return Control("warp", slot=d.source(mask, _U32))
    operands = list(i.operands)
    if parts == {"sync"}:
        return Control("barrier", barrier=_barrier(d, "sync", operands))
    if parts == {"arrive"}:
        return Control("barrier", barrier=_barrier(d, "arrive", operands))
    kind = next((p for p in ("popc", "and", "or") if p in parts), "")
    if "red" not in parts or not kind or parts - {"red", kind, "u32", "pred"}:
        raise d.error("an unknown barrier")
    target = d.target(operands.pop(0), _U32 if kind == "popc" else _PRED)
    source = d.source(operands.pop(), _PRED)
    return Control("barrier", barrier=_barrier(d, kind, operands, source, target))


def _barrier(
    d: Decoder, kind: str, operands: list[Any], source: int = -1, target: int = -1
) -> BarrierOp:
    number = d.source(operands[0] if operands else Immediate(0), _U32)
    threads = d.source(operands[1], _U32) if len(operands) > 1 else -1
    return BarrierOp(kind, number, threads, source, target)


def _warp_barrier(_: list[Any], g: ThreadGroup) -> None:
    g.batch.synchronize_warps(g)


@opcode("call")
def _set_condition(d: Decoder, i: Instruction) -> None:
    """cudaGraphSetConditional: gives a handle of a conditional node a value.

    CUDA C++ Programming Guide, Conditional Graph Nodes: calls for one handle must not race.
    """
    handle, value = d.operands(2)
    slots = d.source(handle, TYPES["b64"]), d.source(value, _U32)

    def call(r: list[Any], g: ThreadGroup) -> None:
        g.at = i
        conditions = g.batch.launch.statistics.conditions
        handles, values = (np.broadcast_to(r[slot], (g.count,)) for slot in slots)
        for k, x in enumerate(handles.tolist()):
            if x in conditions:
                g.fault(DataRace, "a condition is set twice by one launch", np.arange(g.count) == k)
            conditions[x] = int(values[k])

    d.run(call)


@opcode("membar", "fence")
def _fence(d: Decoder, i: Instruction) -> None:
    """membar, fence: orders a thread's accesses; those to shared memory need a barrier too."""
    if i.has("proxy") or i.has("mbarrier_init"):
        raise d.error("fences of proxies are not supported")
    if not (i.has("cta")):
        d.run(_fenced)


def _fenced(_: list[Any], g: ThreadGroup) -> None:
    g.batch.launch.fence(g.batch, g.blocks)


@opcode("nanosleep", "pmevent")
def _nothing(d: Decoder, i: Instruction) -> None:
    """nanosleep: takes some time; pmevent: tells a profiler."""
