"""Threads: special registers, shuffles, votes, barriers, branches and calls."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.cuda.simulated import kernel_text, run, words

RNG = np.random.default_rng(0)


def test_special_registers():
    names = ["tid.x", "tid.y", "tid.z", "ctaid.x", "ctaid.y", "ctaid.z", "ntid.y", "nctaid.z"]
    names += ["laneid", "warpid", "nwarpid", "lanemask_lt", "lanemask_ge"]
    lines = ["mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;"]
    lines.append("mad.lo.u32 %r1, %r2, 5, %r1; mad.lo.u32 %r1, %r3, 20, %r1;")
    lines.append("mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mov.u32 %r4, %ctaid.z;")
    lines.append("mad.lo.u32 %r2, %r3, 2, %r2; mad.lo.u32 %r2, %r4, 6, %r2;")
    lines.append("mad.lo.u32 %r1, %r2, 40, %r1;")
    lines.append(f"mul.wide.u32 %rd0, %r1, {4 * len(names)}; add.s64 %rd1, %rd40, %rd0;")
    for k, name in enumerate(names):
        lines.append(f"mov.u32 %r9, %{name}; st.global.u32 [%rd1+{4 * k}], %r9;")
    count = 40 * 24
    (y,), _ = run(
        kernel_text("\n".join(lines), ("y",)),
        (count * len(names), "u4"),
        grid=(2, 3, 4),
        block=(5, 4, 2),
    )
    y = dict(zip(names, y.reshape(count, len(names)).T))
    block, thread = np.divmod(np.arange(count), 40)
    for name, expected in {
        "tid.x": thread % 5,
        "tid.y": thread // 5 % 4,
        "tid.z": thread // 20,
        "ctaid.x": block % 2,
        "ctaid.y": block // 2 % 3,
        "ctaid.z": block // 6,
        "ntid.y": 4,
        "nctaid.z": 4,
        "laneid": thread % 32,
        "warpid": thread // 32,
        "nwarpid": 2,
        "lanemask_lt": (1 << thread % 32) - 1,
        "lanemask_ge": 2**32 - (1 << thread % 32),
    }.items():
        np.testing.assert_array_equal(y[name], expected, err_msg=name)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 16, 8])
def test_shuffles(mode, width):
    x = RNG.integers(0, 1 << 32, 96).astype("u4")
    lane = np.arange(96) % 32
    clamp = (0 if mode == "up" else 31) | (32 - width) << 8
    for by in (0, 1, 5, width - 1):
        body = f"""
            shfl.sync.{mode}.b32 %r2|%p1, %r1, {by}, {clamp}, -1;
            @%p1 xor.b32 %r2, %r2, 1;
        """
        first = lane // width * width
        source = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": first + by}[mode]
        inside = (source >= first) & (source < first + width)
        source = np.where(inside, source, lane) + np.arange(96) // 32 * 32
        expected = x[source] ^ inside
        np.testing.assert_array_equal(words(body, x, block=96), expected)


def test_shuffles_of_parts_of_a_warp():
    """Lanes of two branches shuffle among themselves, then meet."""
    body = """
        and.b32 %r3, %r0, 16;
        setp.ne.u32 %p0, %r3, 0;
        @%p0 bra HIGH;
        shfl.sync.bfly.b32 %r2, %r1, 3, 31, 0xffff;
        bra.uni JOIN;
    HIGH:
        shfl.sync.idx.b32 %r2, %r1, 20, 31, 0xffff0000;
    JOIN:
        bar.warp.sync -1;
        activemask.b32 %r4;
        setp.ne.u32 %p1, %r4, 0xffffffff;
        @%p1 trap;
    """
    x = RNG.integers(0, 1 << 32, 64).astype("u4")
    lane = np.arange(64) % 32
    source = np.where(lane < 16, lane ^ 3, 20) + np.arange(64) // 32 * 32
    np.testing.assert_array_equal(words(body, x, block=64), x[source])


def test_votes_and_matches():
    x = RNG.integers(0, 5, 64).astype("u4")
    rows = x.reshape(2, 32)
    bits = np.uint64(1) << np.arange(32, dtype="u8")
    start = "setp.lt.u32 %p1, %r1, 3; "
    got = words(start + "vote.sync.ballot.b32 %r2, %p1, -1;", x, block=64)
    ballot = ((rows < 3) * bits).sum(axis=1).astype("u4")
    np.testing.assert_array_equal(got.reshape(2, 32), np.broadcast_to(ballot[:, None], (2, 32)))
    got = words(start + "vote.sync.ballot.b32 %r2, !%p1, -1;", x, block=64)
    np.testing.assert_array_equal(got.reshape(2, 32)[:, 0], ~ballot)
    for bound, answers in ((3, "010"), (9, "111"), (0, "001")):
        for mode, answer in zip(("all", "any", "uni"), answers):
            body = f"setp.lt.u32 %p1, %r1, {bound}; vote.sync.{mode}.pred %p2, %p1, -1;"
            got = words(body + "selp.u32 %r2, 1, 0, %p2;", x, block=64)
            assert set(got.tolist()) == {int(answer)}, (bound, mode)
    got = words("match.any.sync.b32 %r2, %r1, -1;", x, block=64)
    expected = [[int(((row == v) * bits).sum()) for v in row] for row in rows]
    np.testing.assert_array_equal(got.reshape(2, 32), np.array(expected, "u4"))
    body = "match.all.sync.b32 %r2|%p1, %r1, -1; @%p1 add.u32 %r2, %r2, 1;"
    x[32:] = 7
    got = words(body, x, block=64)
    assert set(got[:32].tolist()) == {0} and set(got[32:].tolist()) == {0}


@pytest.mark.parametrize(
    ("op", "ufunc"),
    [
        ("add.u32", np.add),
        ("min.s32", np.minimum),
        ("max.u32", np.maximum),
        ("and.b32", np.bitwise_and),
        ("or.b32", np.bitwise_or),
        ("xor.b32", np.bitwise_xor),
    ],
)
def test_reductions_of_warps(op, ufunc):
    x = RNG.integers(0, 1 << 32, 64).astype("u4")
    values = x.view("i4") if op.endswith("s32") else x
    got = words(f"redux.sync.{op} %r2, %r1, -1;", x, block=64)
    expected = np.repeat(ufunc.reduce(values.reshape(2, 32), axis=1), 32)
    np.testing.assert_array_equal(got, expected.astype(values.dtype).view("u4"))


def test_reductions_at_barriers():
    x = np.arange(96, dtype="u4")
    start = "setp.lt.u32 %p1, %r0, 70; "
    got = words(start + "bar.red.popc.u32 %r2, 0, %p1;", x, block=96)
    assert set(got.tolist()) == {70}
    for op, answer in (("and", 0), ("or", 1)):
        body = start + f"bar.red.{op}.pred %p2, 0, %p1; selp.u32 %r2, 1, 0, %p2;"
        assert set(words(body, x, block=96).tolist()) == {answer}
    body = start + "barrier.cta.red.popc.u32 %r2, 1, 96, !%p1;"
    assert set(words(body, x, block=96).tolist()) == {26}


def test_barriers_of_producers_and_consumers():
    """One warp writes and arrives, the other waits and reads."""
    body = """
        setp.ge.u32 %p0, %r0, 32;
        mul.wide.u32 %rd5, %r0, 4;
        mov.u64 %rd6, tile;
        add.s64 %rd6, %rd6, %rd5;
        mov.u32 %r2, 0;
        @%p0 bra READ;
        st.shared.u32 [%rd6], %r1;
        barrier.arrive 1, 64;
        bra END;
    READ:
        barrier.sync 1, 64;
        ld.shared.u32 %r2, [%rd6+-128];
    END:
    """
    x = RNG.integers(0, 99, 64).astype("u4")
    got = words(body, x, block=64, shared=".shared .align 4 .b8 tile[128];")
    np.testing.assert_array_equal(got, np.concatenate([np.zeros(32), x[:32]]))


def test_barriers_that_threads_left():
    """Threads that exit no longer count, whether they exit before the others arrive or after."""
    body = """
        setp.lt.u32 %p0, %r0, 50;
        @%p0 bra STAY;
        mov.u32 %r3, 0;
    SPIN:
        add.u32 %r3, %r3, 1;
        setp.lt.u32 %p1, %r3, %r0;
        @%p1 bra SPIN;
        exit;
    STAY:
        st.shared.u32 [%rd5], %r1;
        bar.sync 0;
        ld.shared.u32 %r2, [%rd6];
    """
    first = """
        mov.u64 %rd5, tile; mul.wide.u32 %rd6, %r0, 4; add.s64 %rd5, %rd5, %rd6;
        sub.u32 %r4, 49, %r0; mul.wide.u32 %rd7, %r4, 4; mov.u64 %rd6, tile;
        add.s64 %rd6, %rd6, %rd7;
    """
    x = RNG.integers(0, 99, 80 * 3).astype("u4")
    shared = ".shared .align 4 .b8 tile[320];"
    got = words(first + body, x, block=80, grid=3, shared=shared).reshape(3, 80)
    np.testing.assert_array_equal(got[:, :50], x.reshape(3, 80)[:, 49::-1])


def test_blocks_that_are_no_whole_warps():
    x = RNG.integers(0, 99, 3 * 40).astype("u4")
    got = words("shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;", x, block=40, grid=3)
    np.testing.assert_array_equal(got.reshape(-1, 2), x.reshape(-1, 2)[:, ::-1])
    got = words("activemask.b32 %r2;", x, block=40, grid=3).reshape(3, 40)
    assert set(got[:, :32].ravel().tolist()) == {0xFFFFFFFF}
    assert set(got[:, 32:].ravel().tolist()) == {0xFF}
    got = words("redux.sync.max.u32 %r2, %r1, -1;", x, block=40, grid=3).reshape(3, 40)
    np.testing.assert_array_equal(got[:, 35], x.reshape(3, 40)[:, 32:].max(axis=1))


def test_the_order_of_blocks_follows_the_seed():
    body = "ld.global.u32 %r3, [%rd40]; setp.eq.u32 %p0, %r0, 0; mov.u32 %r2, 0;"
    body += "@%p0 atom.global.add.u32 %r2, [counter], 1;"
    x = np.zeros(1024 * 40, "u4")
    shared = ".global .align 4 .u32 counter = 0;"
    orders = []
    for seed in (0, 1, 1, 2):
        got = words(body, x, block=1024, grid=40, shared=shared, seed=seed)
        orders.append(got[::1024].tolist())
    assert orders[0] == list(range(40))
    assert orders[1] == orders[2] != orders[3]
    assert sorted(orders[1]) == orders[0] != orders[1]


def test_loops_of_different_lengths():
    body = """
        mov.u32 %r2, 0;
        mov.u32 %r3, 0;
    LOOP:
        setp.ge.u32 %p1, %r3, %r1;
        @%p1 bra DONE;
        add.u32 %r2, %r2, %r3;
        add.u32 %r3, %r3, 1;
        bra LOOP;
    DONE:
    """
    x = RNG.integers(0, 50, 64).astype("u4")
    np.testing.assert_array_equal(words(body, x, block=64), x * (x - 1) // 2 * (x > 0))


def test_a_table_of_branches():
    body = """
        and.b32 %r3, %r1, 3;
        ts: .branchtargets L0, L1, L2, L0;
        brx.idx %r3, ts;
    L0: mov.u32 %r2, 10; bra END;
    L1: mov.u32 %r2, 11; bra END;
    L2: mov.u32 %r2, 12;
    END:
    """
    x = RNG.integers(0, 50, 64).astype("u4")
    np.testing.assert_array_equal(words(body, x, block=64), np.choose(x & 3, [10, 11, 12, 10]))


def test_calls():
    functions = """
    .func (.param .b32 result) twice(.param .b32 a) {
        .reg .b32 %r<3>;
        ld.param.b32 %r1, [a];
        .reg .pred %p<2>;
        setp.gt.u32 %p1, %r1, 100;
        @%p1 bra LARGE;
        add.u32 %r2, %r1, %r1;
        st.param.b32 [result], %r2;
        ret;
    LARGE:
        st.param.b32 [result], 0;
        ret;
    }
    .func (.reg .b32 out) thrice(.reg .b32 a) {
        .reg .b32 %r<9>;
        { .param .b32 p; .param .b32 q;
          st.param.b32 [p], a; call.uni (q), twice, (p); ld.param.b32 %r1, [q]; }
        add.u32 out, %r1, a;
        ret;
    }
    """
    body = """
        call (%r3), thrice, (%r1);
        { .param .b32 p; .param .b32 q;
          st.param.b32 [p], %r3; call.uni (q), twice, (p); ld.param.b32 %r2, [q]; }
    """
    x = RNG.integers(0, 60, 64).astype("u4")
    twice = lambda v: np.where(v > 100, 0, 2 * v)
    expected = twice(twice(x) + x)
    np.testing.assert_array_equal(words(body, x, block=64, shared=functions), expected)


def test_threads_that_wait_for_others_of_their_warp():
    """A thread of a warp spins until another, which comes later in the program, lets it go."""
    body = """
        setp.eq.u32 %p0, %r0, 0;
        @!%p0 bra RELEASE;
    SPIN:
        ld.volatile.global.u32 %r3, [flag];
        setp.eq.u32 %p1, %r3, 0;
        @%p1 bra SPIN;
        bra END;
    RELEASE:
        setp.eq.u32 %p2, %r0, 1;
        @%p2 st.volatile.global.u32 [flag], 1;
    END:
        mov.u32 %r2, %r1;
    """
    x = np.arange(32, dtype="u4")
    got = words(body, x, shared=".global .align 4 .u32 flag = 0;")
    np.testing.assert_array_equal(got, x)
