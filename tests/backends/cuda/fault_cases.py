"""Programs, and what is replaced in each to plant a fault."""

from __future__ import annotations

from typing import NamedTuple

from functrax.backends.cuda.simulator.errors import (
    DataRace,
    DivergentBarrier,
    DivergentWarp,
    EndlessLoop,
    KernelFault,
    LocalOutOfBounds,
    Misaligned,
    OutOfBounds,
    ReadOnlyWrite,
    SharedOutOfBounds,
    Trap,
    UninitializedRead,
    UninitializedRegister,
)
from tests.backends.cuda.fault_programs import (
    ASYNC,
    ATOMIC,
    BLOCKS,
    BRANCHED,
    COPY,
    EXCHANGE,
    HALF,
    IN_PLACE,
    LOCAL,
    LOOP,
    REUSE,
    SELECT,
    SHARED,
    SHUFFLE,
    VECTOR,
    VOTE,
    WARP,
)


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
