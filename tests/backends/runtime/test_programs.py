"""Compiled programs as data: their text, their rules and the plan of their memory."""

from __future__ import annotations

import numpy as np
import pytest

from functrax.backends.executables.memory_plan import plan_text
from functrax.backends.executables.program import (
    CopyInstruction,
    HostCall,
    Launch,
    RuntimeProgram,
    ScanInstruction,
    WhileInstruction,
)
from functrax.backends.executables.program_builder import ProgramBuilder
from functrax.core.errors.typed import VerificationError
from tests.backends.runtime.programs import F32, I32, function_program, host

VEC = ((16,), F32)  # 64 bytes
SCALAR = ((), I32)


def chain(length: int, **options: object) -> RuntimeProgram:
    """A chain of operations, by kernels that nobody runs."""
    b = ProgramBuilder("chain")
    x = b.input(*VEC)
    for _ in range(length):
        y = b.value(*VEC)
        b.add(Launch(1, "f", (x,), (y,), units=16, **options))
        x = y
    return b.build((x,))


def test_a_program_prints_all_that_it_does() -> None:
    b = ProgramBuilder("step")
    x, _ = b.input(*VEC), b.input(*SCALAR)
    c = b.const(np.arange(3, dtype=np.int32))
    t, y = b.value(*VEC), b.value(*VEC)
    b.add(Launch(1, "kernel", (x,), (t,), params=(16, 4), units=16, cost=12))
    body = function_program([VEC, SCALAR], [(lambda v, i: v, VEC)], name="body")
    b.add(ScanInstruction(body, 3, (), (t,), (c,), (y,)))
    assert str(b.build((y, x))) == (
        "program step(i0:f32[16], i1:i32[]) -> (o0:f32[16], i0:f32[16])  arena 128 bytes\n"
        "  const c0:i32[3]\n"
        "  temp t0:f32[16] @0\n"
        "  launch kernel(i0) -> (t0)  units=16 cost=12 params=[16, 4]\n"
        "  scan 3 forwards (t0 | c0) -> (o0)  consts=()\n"
        "    program body(i0:f32[16], i1:i32[]) -> (o0:f32[16])\n"
        "      host f(i0, i1) -> (o0)"
    )


def test_a_chain_needs_two_buffers() -> None:
    program = chain(100)
    assert program.peak == program.arena == 128


def test_a_chain_updated_in_place_needs_none() -> None:
    program = chain(100, aliases=((0, 0),))
    assert program.arena == 0
    assert all(s.shares >= 0 for s in program.slots if s.kind == "temp")


def test_the_smallest_hole_is_taken() -> None:
    b = ProgramBuilder("holes")
    x = b.input(*VEC)
    sizes = (48, 16, 32, 16)
    values = [b.value((n,), F32) for n in sizes]
    for v in values:
        b.add(HostCall(np.copy, "make", (x,), (v,)))
    last = b.value(*VEC)
    b.add(HostCall(np.copy, "use", (values[1], values[3]), (last,)))  # the two others die before
    late = [b.value((n,), F32) for n in (32, 16)]
    for v in late:
        b.add(HostCall(np.copy, "late", (last,), (v,)))
    out = b.value(*VEC)
    b.add(HostCall(np.copy, "end", (*late, values[1], values[3]), (out,)))
    program = b.build((out,))
    temps = [s for s in program.slots if s.kind == "temp"]
    places = [(s.offset, s.offset + s.nbytes) for s in temps]
    assert all(begin % 64 == 0 and end <= program.arena for begin, end in places)
    assert program.peak <= program.arena <= 6 * 64


def test_large_values_begin_at_different_places_of_a_page() -> None:
    large = ((1 << 16,), F32)
    b = ProgramBuilder("large")
    x = b.input(*large)
    values = [host(b, np.copy, (x,), large) for _ in range(6)]
    out = b.value(*large)
    b.add(HostCall(np.copy, "use", tuple(values), (out,)))
    program = b.build((out,))
    offsets = [s.offset for s in program.slots if s.kind == "temp"]
    assert len({offset % 4096 for offset in offsets}) == 6
    assert program.arena <= 6 * ((1 << 18) + 512)


def test_the_plan_is_text() -> None:
    text = plan_text(chain(3)).splitlines()
    assert text[0] == "arena 128 bytes, at most 128 alive"
    assert "  t1: 64 bytes @64, instructions 1 to 2" in text
    assert text[-1].endswith("64  launch f(t1) -> (o0)  units=16 cost=0")


def test_a_carry_that_dies_is_not_copied() -> None:
    body = function_program([VEC], [(lambda v: v, VEC)], aliases=((0, 0),))
    cond = function_program([VEC], [(lambda v: False, ((), np.bool_))])
    b = ProgramBuilder("loop")
    x = b.input(*VEC)
    t = host(b, np.copy, (x,), VEC)
    y = b.value(*VEC)
    b.add(WhileInstruction(cond, body, (), (), (t,), (y,)))
    program = b.build((y,))
    assert program.slots[t].shares == y


def test_an_output_in_an_inputs_memory_takes_nobody_in() -> None:
    b = ProgramBuilder("update")
    x = b.input(*VEC)
    t, y = b.value(*VEC), b.value(*VEC)
    b.add(Launch(1, "f", (x,), (t,)))
    b.add(Launch(1, "g", (t, x), (y,), aliases=((0, 0), (0, 1))))
    program = b.build((y,), aliases=((0, 0),))
    assert program.slots[t].shares < 0 <= program.slots[t].offset


@pytest.mark.parametrize(
    "what",
    [
        *("read early", "write input", "unwritten result", "late read", "used const", "sizes"),
        *("types", "begins"),
    ],
)
def test_broken_rules_are_found(what: str) -> None:
    b = ProgramBuilder("wrong")
    x = b.input(*VEC)
    t, y = b.value(*VEC), b.value(*VEC)
    aliases: tuple[tuple[int, int], ...] = ()
    match what:
        case "read early":
            b.add(Launch(1, "f", (t,), (y,)))
        case "write input":
            b.add(Launch(1, "f", (x,), (x,)))
            b.add(Launch(1, "f", (x,), (y,)))
        case "late read":
            b.add(Launch(1, "f", (), (y,)))
            b.add(Launch(1, "f", (x,), (t,)))
            aliases = ((0, 0),)
        case "used const":
            b.add(Launch(1, "f", (x,), (y,)))  # reads what it writes, without saying so
            aliases = ((0, 0),)
        case "sizes":
            small = b.value((3,), F32)
            b.add(CopyInstruction(x, small))
            b.add(CopyInstruction(x, y))
        case "begins":
            b.add(Launch(1, "f", (x,), (y,), begins=(4,)))
        case "types":
            body = function_program([SCALAR], [(lambda v: v, SCALAR)])
            b.add(ScanInstruction(body, 3, (), (x,), (), (y,)))
    with pytest.raises(VerificationError, match="program wrong"):
        b.build((y,), aliases)
