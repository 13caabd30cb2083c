"""Programs with a planted fault, which the simulator must find, beside the same without it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from functrax.backends.cuda.simulator.errors import (
    DataRace,
    DivergentBarrier,
    DivergentWarp,
    EndlessLoop,
    KernelFault,
    LaunchError,
    LocalOutOfBounds,
    Misaligned,
    OutOfBounds,
    ReadOnlyWrite,
    SharedOutOfBounds,
    Trap,
    UninitializedRead,
    UninitializedRegister,
    UseAfterFree,
)
from functrax.backends.cuda.simulator.launch import launch
from functrax.backends.cuda.simulator.memory import DeviceMemory
from functrax.backends.cuda.simulator.module import Module
from tests.backends.cuda.simulated import kernel_text, run


class Case(NamedTuple):
    """A program that is right, and what is replaced in it to plant a fault.

    ``thread`` is who does it, ``line`` a part of the instruction that the error names.
    """

    body: str
    old: str
    new: str
    error: type[KernelFault]
    at: str
    thread: int | None = None
    shared: str = ""
    block: int = 64
    grid: int = 1
    words: int = 256


SHARED = ".shared .align 16 .b8 tile[256];"
INDEX = """
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd0, %r0, 4;
    add.s64 %rd1, %rd40, %rd0;
    add.s64 %rd2, %rd41, %rd0;
"""
#: Each thread writes a word of shared memory and reads its neighbour's.
EXCHANGE = (
    INDEX
    + """
    mov.u64 %rd3, tile;
    add.s64 %rd4, %rd3, %rd0;
    ld.global.u32 %r1, [%rd1];
    st.shared.u32 [%rd4], %r1;
    bar.sync 0;
    xor.b32 %r2, %r0, 1;
    mul.wide.u32 %rd5, %r2, 4;
    add.s64 %rd6, %rd3, %rd5;
    ld.shared.u32 %r3, [%rd6];
    st.global.u32 [%rd2], %r3;
"""
)
COPY = (
    INDEX
    + """
    setp.ge.u32 %p0, %r0, 60;
    @%p0 bra END;
    ld.global.u32 %r1, [%rd1];
    st.global.u32 [%rd2], %r1;
END:
"""
)
VECTOR = """
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd0, %r0, 16;
    add.s64 %rd1, %rd40, %rd0;
    add.s64 %rd2, %rd41, %rd0;
    ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
    st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};
"""
SHUFFLE = (
    INDEX
    + """
    ld.global.u32 %r1, [%rd1];
    shfl.sync.down.b32 %r2|%p1, %r1, 4, 31, -1;
    st.global.u32 [%rd2], %r2;
"""
)
HALF = (
    INDEX
    + """
    ld.global.u32 %r1, [%rd1];
    mov.u32 %r3, %r1;
    and.b32 %r5, %r0, 31;
    setp.ge.u32 %p0, %r5, 16;
    @%p0 bra JOIN;
    shfl.sync.bfly.b32 %r3, %r1, 8, 31, 0xffff;
JOIN:
    bar.sync 0;
    st.global.u32 [%rd2], %r3;
"""
)
VOTE = (
    INDEX
    + """
    setp.lt.u32 %p0, %r0, 5;
    setp.lt.u32 %p1, %r0, 64;
    @!%p1 bra END;
    vote.sync.ballot.b32 %r1, %p0, 0xffffffff;
    st.global.u32 [%rd2], %r1;
END:
"""
)
LOCAL = (
    ".local .align 16 .b8 depot[16];"
    + INDEX
    + """
    mov.u64 %rd3, depot;
    and.b32 %r1, %r0, 3;
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd5, %rd3, %rd4;
    st.local.u32 [%rd5], %r0;
    ld.local.u32 %r2, [%rd5];
    st.global.u32 [%rd2], %r2;
"""
)
LOOP = (
    INDEX
    + """
    mov.u32 %r1, 0;
LOOP:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p0, %r1, 10;
    @%p0 bra LOOP;
    st.global.u32 [%rd2], %r1;
"""
)
SELECT = (
    INDEX
    + """
    mov.u32 %r2, 0;
    setp.lt.u32 %p0, %r0, 7;
    @!%p0 bra JOIN;
    mov.u32 %r2, 5;
JOIN:
    add.u32 %r3, %r2, 1;
    st.global.u32 [%rd2], %r3;
"""
)
#: Two blocks write halves of the results.
BLOCKS = """
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %r2, %r1, 64, %r0;
    mul.wide.u32 %rd0, %r2, 4;
    add.s64 %rd2, %rd41, %rd0;
    st.global.u32 [%rd2], %r2;
"""
#: The sum of a block: all threads add to a word of shared memory.
ATOMIC = (
    INDEX
    + """
    setp.ne.u32 %p0, %r0, 0;
    mov.u32 %r2, 0;
    @%p0 bra CLEARED;
    st.shared.u32 [tile], %r2;
CLEARED:
    bar.sync 0;
    atom.shared.add.u32 %r3, [tile], %r0;
    bar.sync 0;
    ld.shared.u32 %r4, [tile];
    st.global.u32 [%rd2], %r4;
"""
)
WARP = (
    INDEX
    + """
    mov.u64 %rd3, tile;
    add.s64 %rd4, %rd3, %rd0;
    st.shared.u32 [%rd4], %r0;
    bar.warp.sync 0xffffffff;
    xor.b32 %r2, %r0, 3;
    mul.wide.u32 %rd5, %r2, 4;
    add.s64 %rd6, %rd3, %rd5;
    ld.shared.u32 %r3, [%rd6];
    st.global.u32 [%rd2], %r3;
"""
)
REUSE = (
    EXCHANGE
    + """
    bar.sync 0;
    st.shared.u32 [%rd4], %r0;
    ld.shared.u32 %r5, [%rd4];
"""
)
BRANCHED = (
    INDEX
    + """
    setp.lt.u32 %p0, %r0, 32;
    mov.u32 %r1, 1;
    @%p0 bra LOW;
    mov.u32 %r1, 2;
LOW:
    bar.sync 0;
    st.global.u32 [%rd2], %r1;
"""
)
ASYNC = (
    INDEX
    + """
    mov.u64 %rd3, tile;
    add.s64 %rd4, %rd3, %rd0;
    cp.async.ca.shared.global [%rd4], [%rd1], 4;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    ld.shared.u32 %r3, [%rd4];
    st.global.u32 [%rd2], %r3;
"""
)
IN_PLACE = (
    INDEX
    + """
    ld.global.u32 %r1, [%rd1];
    bar.sync 0;
    xor.b32 %r2, %r0, 1;
    mul.wide.u32 %rd5, %r2, 4;
    add.s64 %rd6, %rd40, %rd5;
    st.global.u32 [%rd6], %r1;
"""
)

CASES = {
    "barrier removed": Case(
        EXCHANGE, "bar.sync 0;", "", DataRace, "ld.shared", 0, SHARED, block=32
    ),
    "barrier before reuse removed": Case(
        REUSE, "bar.sync 0;\n    st.shared", "st.shared", DataRace, "st.shared", 0, SHARED
    ),
    "barrier between atomics and the read removed": Case(
        ATOMIC,
        "CLEARED:\n    bar.sync 0;",
        "CLEARED:",
        DataRace,
        "atom.shared",
        1,
        SHARED,
    ),
    "barrier between global read and write removed": Case(
        IN_PLACE, "bar.sync 0;", "", DataRace, "st.global", 0
    ),
    "warp barrier removed": Case(
        WARP.replace(
            "st.shared.u32 [%rd4], %r0;",
            "st.shared.u32 [%rd4], %r0;\nbar.sync 0;\nst.shared.u32 [%rd4], %r1;",
        ).replace("mov.u64 %rd3", "mov.u32 %r1, 7;\nmov.u64 %rd3"),
        "bar.warp.sync 0xffffffff;",
        "",
        DataRace,
        "ld.shared",
        0,
        SHARED,
    ),
    "warp barrier where the block's is needed": Case(
        EXCHANGE.replace("xor.b32 %r2, %r0, 1", "xor.b32 %r2, %r0, 32").replace(
            "bar.sync 0;", "bar.sync 0; st.shared.u32 [%rd4], %r0; bar.sync 0;"
        ),
        "%r0; bar.sync 0;",
        "%r0; bar.warp.sync 0xffffffff;",
        DataRace,
        "ld.shared",
        0,
        SHARED,
    ),
    "index off by one": Case(
        COPY, "ld.global.u32 %r1, [%rd1];", "ld.global.u32 %r1, [%rd1+788];", OutOfBounds, "ld", 59
    ),
    "index off by one below": Case(
        COPY, "ld.global.u32 %r1, [%rd1];", "ld.global.u32 %r1, [%rd1+-4];", OutOfBounds, "ld", 0
    ),
    "mask missing": Case(COPY, "@%p0 bra END;", "", OutOfBounds, "ld.global", 60, words=60),
    "mask of <= for <": Case(
        COPY,
        "setp.ge.u32 %p0, %r0, 60;",
        "setp.gt.u32 %p0, %r0, 60;",
        OutOfBounds,
        "ld",
        60,
        words=60,
    ),
    "vector misaligned": Case(
        VECTOR, "[%rd1];", "[%rd1+4];", Misaligned, "ld.global.v4", 0, block=32
    ),
    "word misaligned": Case(
        COPY, "ld.global.u32 %r1, [%rd1]", "ld.global.u32 %r1, [%rd1+2]", Misaligned, "ld.global", 0
    ),
    "stride of words for vectors": Case(
        VECTOR, "mul.wide.u32 %rd0, %r0, 16;", "mul.wide.u32 %rd0, %r0, 4;", Misaligned, "ld", 1
    ),
    "two threads write a word": Case(
        COPY, "st.global.u32 [%rd2], %r1;", "st.global.u32 [%rd41], %r1;", DataRace, "st.global", 0
    ),
    "two threads write a word of shared memory": Case(
        EXCHANGE,
        "st.shared.u32 [%rd4], %r1;",
        "st.shared.u32 [tile], %r1;",
        DataRace,
        "st.shared",
        0,
        SHARED,
    ),
    "neighbours' words overlap": Case(
        VECTOR,
        "    st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};",
        "    mul.wide.u32 %rd0, %r0, 8; add.s64 %rd2, %rd41, %rd0;"
        "    st.global.u32 [%rd2], %r1; st.global.v2.u32 [%rd2+8], {%r2, %r3};",
        DataRace,
        "st.global.v2",
        0,
        block=32,
    ),
    "two blocks write a word": Case(
        BLOCKS,
        "mad.lo.u32 %r2, %r1, 64, %r0;",
        "mad.lo.u32 %r2, %r1, 63, %r0;",
        DataRace,
        "st.global",
        63,
        grid=2,
    ),
    "shared memory read unwritten": Case(
        EXCHANGE, "st.shared.u32 [%rd4], %r1;", "", UninitializedRead, "ld.shared", 0, SHARED
    ),
    "atomic on shared memory unwritten": Case(
        ATOMIC, "st.shared.u32 [tile], %r2;", "", UninitializedRead, "atom", 0, SHARED
    ),
    "part of a shared vector unwritten": Case(
        EXCHANGE,
        "ld.shared.u32 %r3, [%rd6];",
        "ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [tile+16];",
        UninitializedRead,
        "ld.shared.v4",
        0,
        ".shared .align 16 .b8 tile[256];",
        block=6,
    ),
    "write past shared memory": Case(
        EXCHANGE,
        "st.shared.u32 [%rd4], %r1;",
        "st.shared.u32 [%rd4+4], %r1;",
        SharedOutOfBounds,
        "st.shared",
        63,
        SHARED,
    ),
    "write past a shared variable into the next": Case(
        EXCHANGE + "mov.u64 %rd9, other;",
        "st.shared.u32 [%rd4], %r1;",
        "st.shared.u32 [%rd4], %r1; st.shared.u32 [%rd4+4], %r1;",
        SharedOutOfBounds,
        "st.shared",
        63,
        SHARED + "\n.shared .align 4 .u32 other;",
    ),
    "local memory overflow": Case(
        LOCAL, "and.b32 %r1, %r0, 3;", "and.b32 %r1, %r0, 7;", LocalOutOfBounds, "st.local", 4
    ),
    "local memory read unwritten": Case(
        LOCAL, "st.local.u32 [%rd5], %r0;", "", UninitializedRead, "ld.local", 0
    ),
    "register unwritten on one way": Case(
        SELECT, "mov.u32 %r2, 0;", "", UninitializedRegister, "add.u32 %r3", 7
    ),
    "register unwritten": Case(
        SELECT,
        "add.u32 %r3, %r2, 1;",
        "add.u32 %r3, %r2, %r9;",
        UninitializedRegister,
        "add.u32",
        0,
    ),
    "register unwritten under a guard": Case(
        SELECT,
        "@!%p0 bra JOIN;\n    mov.u32 %r2, 5;",
        "@%p0 mov.u32 %r5, 5;\n @%p0 mov.u32 %r6, %r5;mov.u32 %r2, %r5;",
        UninitializedRegister,
        "mov.u32 %r2, %r5",
        7,
    ),
    "shuffle's partner left": Case(
        SHUFFLE,
        "ld.global.u32 %r1, [%rd1];",
        "setp.ge.u32 %p3, %r0, 60;\n@%p3 exit;\nld.global.u32 %r1, [%rd1];",
        DivergentWarp,
        "shfl.sync",
        56,
    ),
    "shuffle in a branch with a full mask": Case(
        HALF, "0xffff;", "0xffffffff;", DivergentWarp, "shfl.sync", 0, block=32
    ),
    "shuffle with a narrow mask": Case(
        SHUFFLE, "4, 31, -1;", "4, 31, 0xffff;", DivergentWarp, "shfl.sync", 16
    ),
    "shuffle reads a lane outside the mask": Case(
        HALF, "%r1, 8, 31, 0xffff;", "%r1, 16, 31, 0xffff;", DivergentWarp, "shfl.sync", 0
    ),
    "shuffle of a wrong width": Case(
        HALF,
        "shfl.sync.bfly.b32 %r3, %r1, 8, 31, 0xffff;",
        "shfl.sync.down.b32 %r3, %r1, 8, 31, 0xffff;",
        DivergentWarp,
        "shfl.sync",
        8,
    ),
    "vote with lanes missing": Case(
        VOTE.replace("END:\n", "END:\n    bar.warp.sync 0xffffffff;\n"),
        "setp.lt.u32 %p1, %r0, 64;",
        "setp.lt.u32 %p1, %r0, 40;",
        DivergentWarp,
        "sync",
        32,
    ),
    "barrier for some threads": Case(
        BRANCHED,
        "@%p0 bra LOW;\n    mov.u32 %r1, 2;\nLOW:\n    bar.sync 0;",
        "@%p0 bra LOW;\n    bar.sync 0;\nLOW:\n bar.sync 1;",
        DivergentBarrier,
        "bar.sync",
        None,
    ),
    "barrier in both branches": Case(
        BRANCHED,
        "@%p0 bra LOW;\n    mov.u32 %r1, 2;\nLOW:\n    bar.sync 0;",
        "@%p0 bra LOW;\n    mov.u32 %r1, 2;\n    bar.sync 0; bra DONE;\n"
        "LOW:\n    bar.sync 0;\nDONE:",
        DivergentBarrier,
        "bar.sync",
        None,
    ),
    "barrier within a warp's branch": Case(
        BRANCHED.replace("%r0, 32;", "%r0, 20;"),
        "LOW:\n    bar.sync 0;",
        "bar.sync 0;\nLOW:\n bar.sync 0;",
        DivergentBarrier,
        "bar.sync",
        None,
    ),
    "barrier counts too many threads": Case(
        BRANCHED, "bar.sync 0;", "bar.sync 0, 96;", DivergentBarrier, "bar.sync", 0
    ),
    "loop without end": Case(
        LOOP, "add.u32 %r1, %r1, 1;", "add.u32 %r1, %r1, 0;", EndlessLoop, "add.u32 %r1", 0
    ),
    "asynchronous copy not waited for": Case(
        ASYNC,
        "cp.async.wait_group 0;",
        "cp.async.wait_group 1;",
        UninitializedRead,
        "ld.shared",
        0,
        SHARED,
    ),
    "asynchronous copy without a group": Case(
        ASYNC, "cp.async.commit_group;", "", UninitializedRead, "ld.shared", 0, SHARED
    ),
    "asynchronous copy and no barrier": Case(
        ASYNC.replace("ld.shared.u32 %r3, [%rd4];", "ld.shared.u32 %r3, [%rd3];"),
        "bar.sync 0;",
        "",
        DataRace,
        "ld.shared",
        1,
        SHARED,
    ),
    "write to constant memory": Case(
        COPY,
        "st.global.u32 [%rd2], %r1;",
        "mov.u64 %rd9, table; st.global.u32 [%rd9], %r1;",
        ReadOnlyWrite,
        "st.global",
        0,
        ".const .align 4 .u32 table[64] = {1, 2};",
    ),
    "write to what is read by .nc": Case(
        COPY.replace("ld.global.u32", "ld.global.nc.u32"),
        "st.global.u32 [%rd2], %r1;",
        "st.global.u32 [%rd1], %r1;",
        DataRace,
        "st.global",
        0,
    ),
    "read by .nc of what was written": Case(
        COPY,
        "st.global.u32 [%rd2], %r1;",
        "st.global.u32 [%rd2], %r1; ld.global.nc.u32 %r1, [%rd2];",
        DataRace,
        "ld.global.nc",
        0,
    ),
    "trap": Case(COPY, "st.global.u32 [%rd2], %r1;", "trap;", Trap, "trap", 0),
    "a pointer into nothing": Case(
        COPY,
        "ld.global.u32 %r1, [%rd1];",
        "mov.u64 %rd1, 64;\nld.global.u32 %r1, [%rd1];",
        OutOfBounds,
        "ld.global",
        0,
    ),
    "a generic pointer past the window": Case(
        EXCHANGE.replace(
            "ld.shared.u32 %r3, [%rd6];", "cvta.shared.u64 %rd7, %rd6;\nld.u32 %r3, [%rd7];"
        ),
        "ld.u32 %r3, [%rd7];",
        "ld.u32 %r3, [%rd7+256];",
        SharedOutOfBounds,
        "ld.u32",
        0,
        SHARED,
    ),
}


def launched(case, text):
    x = np.arange(case.words, dtype=np.uint32)
    return run(text, x, (case.words, np.uint32), block=case.block, grid=case.grid, step_limit=2000)


@pytest.mark.parametrize("name", CASES)
def test_a_planted_fault_is_found(name):
    case = CASES[name]
    assert case.old in case.body
    broken = case.body.replace(case.old, case.new, 1)
    text = kernel_text(broken, shared=case.shared)
    with pytest.raises(case.error) as caught:
        launched(case, text)
    fault = caught.value
    assert type(fault) is case.error
    assert fault.kernel == "k"
    assert fault.block is not None
    assert case.at in fault.instruction
    assert case.at in text.splitlines()[fault.line - 1]
    if case.thread is not None:
        assert fault.thread == (case.thread, 0, 0)


@pytest.mark.parametrize("name", CASES)
def test_the_program_without_it_is_silent(name):
    case = CASES[name]
    launched(case, kernel_text(case.body, shared=case.shared))


def test_a_freed_buffer():
    memory = DeviceMemory()
    k = Module(kernel_text(COPY)).kernels["k"]
    x, y = memory.allocate(1024), memory.allocate(1024)
    memory.write(x, np.zeros(256, np.uint32))
    launch(k, (1, 1, 1), (64, 1, 1), [x, y], memory)
    memory.free(x)
    again = memory.allocate(1024)
    memory.write(again, np.zeros(256, np.uint32))
    with pytest.raises(UseAfterFree) as caught:
        launch(k, (1, 1, 1), (64, 1, 1), [x, y], memory)
    assert caught.value.address == x
    with pytest.raises(ValueError, match="freed"):
        memory.read(x, 4)
    with pytest.raises(ValueError, match="freed before"):
        memory.free(x)


def test_a_buffer_that_nobody_wrote():
    memory = DeviceMemory()
    k = Module(kernel_text(COPY)).kernels["k"]
    x, y = memory.allocate(1024), memory.allocate(1024)
    memory.write(x, np.zeros(59, np.uint32))
    with pytest.raises(UninitializedRead) as caught:
        launch(k, (1, 1, 1), (64, 1, 1), [x, y], memory)
    assert caught.value.thread == (59, 0, 0)
    assert caught.value.address == x + 4 * 59
    launch(k, (1, 1, 1), (64, 1, 1), [x, y], memory, checks=False)


def test_the_source_line_is_named():
    body = COPY.replace("ld.global.u32 %r1, [%rd1]", ".loc 1 42 7\n ld.global.u32 %r1, [%rd1+4096]")
    text = kernel_text(body).replace(".visible", '.file 1 "model.py"\n.visible')
    with pytest.raises(OutOfBounds, match=r"model\.py:42") as caught:
        run(text, np.zeros(256, np.uint32), (256, np.uint32), block=64)
    assert caught.value.source == "model.py:42"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": 128}, "maxntid"),
        ({"block": 2048}, "block"),
        ({"block": (32, 32, 2)}, "1024"),
        ({"grid": 0}, "grid"),
        ({"shared_bytes": 1 << 20}, "shared"),
    ],
)
def test_launches_that_a_driver_refuses(options, message):
    bound = ".maxntid 64, 1, 1" if "maxntid" in message else ""
    text = kernel_text(COPY, bound=bound)
    with pytest.raises(LaunchError, match=message):
        run(text, np.zeros(256, np.uint32), (256, np.uint32), **options)


def test_wrong_arguments():
    text = kernel_text(COPY)
    with pytest.raises(LaunchError, match="2 arguments, not 1"):
        run(text, np.zeros(256, np.uint32))
    module = Module(text)
    with pytest.raises(LaunchError, match="does not fit"):
        launch(module.kernels["k"], (1, 1, 1), (1, 1, 1), [1 << 70, 0], DeviceMemory())


def test_a_fence_orders_blocks():
    """A block writes, makes a fence and sets a flag; the next waits for it."""
    body = """
        mov.u32 %r0, %ctaid.x;
        setp.eq.u32 %p0, %r0, 0;
        @!%p0 bra READ;
        mov.u32 %r1, 17;
        st.global.u32 [%rd41], %r1;
        membar.gl;
        mov.u32 %r2, 1;
        st.volatile.global.u32 [%rd40], %r2;
        bra END;
    READ:
        ld.volatile.global.u32 %r3, [%rd40];
        setp.eq.u32 %p1, %r3, 0;
        @%p1 bra READ;
        membar.gl;
        ld.global.u32 %r4, [%rd41];
        st.global.u32 [%rd41+4], %r4;
    END:
    """
    flag = np.zeros(1, np.uint32)
    (_, y), _ = run(kernel_text(body), flag, (2, np.uint32), grid=2, block=1)
    assert y.tolist() == [17, 17]
    with pytest.raises(DataRace, match="block \\(0, 0, 0\\)"):
        run(kernel_text(body.replace("membar.gl;", "")), flag, (2, np.uint32), grid=2, block=1)
