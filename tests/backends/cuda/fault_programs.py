"""Programs without a fault, into which ``fault_cases.py`` plants some."""

from __future__ import annotations

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
