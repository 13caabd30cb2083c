"""Loads and stores of all kinds, atomics, shuffles, votes, barriers, calls, copies, matrices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from functrax.backends.cuda.simulator.errors import PtxError
from functrax.backends.cuda.simulator.launch import launch
from functrax.backends.cuda.simulator.memory import GLOBAL_START, DeviceMemory, MemoryLimitError
from functrax.backends.cuda.simulator.module import Module
from tests.backends.cuda.simulated import HEADER, each, kernel_text, run

RNG = np.random.default_rng(0)
INDEX = """
    mov.u32 %r0, %tid.x;
    mov.u32 %r10, %ctaid.x;
    mov.u32 %r11, %ntid.x;
    mad.lo.u32 %r9, %r10, %r11, %r0;
    mul.wide.u32 %rd0, %r9, 4;
    add.s64 %rd1, %rd40, %rd0;
    add.s64 %rd2, %rd41, %rd0;
    ld.global.u32 %r1, [%rd1];
"""
STORE = "\n    st.global.u32 [%rd2], %r2;"


def words(body, x, *, block=32, grid=1, shared="", **options):
    """Runs a body that makes ``%r2`` of the word ``%r1``, of thread ``%r0``."""
    text = kernel_text(INDEX + body + STORE, shared=shared)
    (_, y), _ = run(text, x, (len(x), "u4"), block=block, grid=grid, **options)
    return y


# Memory


@pytest.mark.parametrize(
    ("width", "count"),
    [
        *itertools.product(["b8", "u16", "s8", "s16", "f32", "b64"], [1, 2, 4]),
        ("f32", 8),
    ],
)
def test_loads_and_stores(width, count):
    bits = int(width[1:])
    x = RNG.integers(0, 256, 32 * count * bits // 8).astype("u1")
    kind = {"f": "f32", "b": f"b{max(bits, 16)}"}.get(width[0], f"b{max(bits, 32)}")
    registers = [f"v{k}" for k in range(count)]
    vector = f".v{count}" if count > 1 else ""
    operand = "{" + ", ".join(registers) + "}" if count > 1 else registers[0]
    body = f"""
        .reg .{kind} {", ".join(registers)};
        mov.u32 %r0, %tid.x;
        mul.wide.u32 %rd0, %r0, {count * bits // 8};
        add.s64 %rd1, %rd40, %rd0;
        add.s64 %rd2, %rd41, %rd0;
        ld.global{vector}.{width} {operand}, [%rd1];
        st.global{vector}.b{bits} [%rd2], {operand};
    """
    text = kernel_text(body)
    if count * bits == 256:  # 32 bytes at once came with sm_100
        text = text.replace(".version 8.0", ".version 8.8").replace("sm_90", "sm_100")
    (_, y), _ = run(text, x, (len(x), "u1"))
    np.testing.assert_array_equal(x, y)


def test_narrow_loads_are_extended():
    x = np.arange(-16, 16, dtype="i1")
    body = """
        mov.u32 %r0, %tid.x;
        cvt.u64.u32 %rd0, %r0;
        add.s64 %rd1, %rd40, %rd0;
        mul.wide.u32 %rd2, %r0, 8;
        add.s64 %rd2, %rd41, %rd2;
        ld.global.s8 %r1, [%rd1];
        ld.global.u8 %r2, [%rd1];
        st.global.v2.u32 [%rd2], {%r1, %r2};
    """
    (_, y), _ = run(kernel_text(body), x, (64, "i4"))
    np.testing.assert_array_equal(y.reshape(-1, 2), np.stack([x, x.view("u1")], axis=1))


def test_generic_addresses_of_several_spaces():
    """Lanes of one instruction load from shared, local, constant and global memory."""
    body = """
        .local .align 4 .u32 own;
        mov.u64 %rd5, own;
        st.local.u32 [%rd5], 100;
        mov.u64 %rd6, tile;
        setp.eq.u32 %p0, %r0, 0;
        @%p0 st.shared.u32 [tile], 200;
        bar.sync 0;
        cvta.local.u64 %rd5, %rd5;
        cvta.shared.u64 %rd6, %rd6;
        mov.u64 %rd7, table;
        cvta.const.u64 %rd7, %rd7;
        and.b32 %r3, %r0, 3;
        mov.u64 %rd8, %rd1;
        setp.eq.u32 %p1, %r3, 1;
        selp.b64 %rd8, %rd5, %rd8, %p1;
        setp.eq.u32 %p1, %r3, 2;
        selp.b64 %rd8, %rd6, %rd8, %p1;
        setp.eq.u32 %p1, %r3, 3;
        selp.b64 %rd8, %rd7, %rd8, %p1;
        ld.u32 %r2, [%rd8];
        isspacep.shared %p2, %rd8;
        @%p2 add.u32 %r2, %r2, 1;
        cvta.to.shared.u64 %rd9, %rd6;
        ld.shared.u32 %r4, [%rd9];
        add.u32 %r2, %r2, %r4;
    """
    shared = ".shared .align 4 .b8 tile[4];\n.const .align 4 .u32 table[2] = {300, 0};"
    x = np.arange(32, dtype="u4")
    expected = np.choose(x % 4, [x, 100, 201, 300]) + 200
    np.testing.assert_array_equal(words(body, x, shared=shared), expected)


def test_variables_with_values_and_addresses():
    shared = (
        ".global .align 4 .b32 numbers[4] = {1, 0x10, -1, 7};\n"
        ".visible .global .align 8 .u64 pointer = generic(numbers)+4;\n"
        ".global .align 4 .f32 half[1] = {0f3F000000};\n"
        ".const .align 1 .b8 octets[4] = {1, 2, 3, 255};"
    )
    body = """
        ld.global.u64 %rd5, [pointer];
        ld.global.u32 %r2, [%rd5];
        ld.global.u32 %r3, [numbers+12];
        add.u32 %r2, %r2, %r3;
        ld.global.f32 %f1, [half];
        mul.f32 %f1, %f1, 0f40000000;
        cvt.rzi.u32.f32 %r4, %f1;
        add.u32 %r2, %r2, %r4;
        ld.const.u8 %r5, [octets+3];
        add.u32 %r2, %r2, %r5;
    """
    x = np.zeros(32, "u4")
    assert set(words(body, x, shared=shared).tolist()) == {16 + 7 + 1 + 255}


def test_variables_outlive_launches():
    memory = DeviceMemory()
    module = Module(
        kernel_text(
            "atom.global.add.u32 %r1, [counter], 1;",
            (),
            ".visible .global .align 4 .u32 counter = 5;",
        )
    )
    for _ in range(3):
        launch(module.kernels["k"], (2, 1, 1), (32, 1, 1), [], memory)
    place = module.address(memory, "counter")
    assert memory.read(place, 4).view("u4")[0] == 5 + 3 * 64
    other = DeviceMemory()
    assert other.read(module.address(other, "counter"), 4).view("u4")[0] == 5


def test_parameters_of_all_types():
    text = (
        HEADER
        + """
    .visible .entry k(
        .param .u64 .ptr .global .align 16 k_param_0,
        .param .u8 a, .param .s16 b, .param .f32 c, .param .f64 d, .param .align 8 .b8 e[16],
        .param .align 2 .b8 h[2]
    ) {
        .reg .b32 %r<9>; .reg .f32 %f<3>; .reg .f64 %fd<3>; .reg .b64 %rd<9>; .reg .b16 %h<3>;
        ld.param.u64 %rd1, [k_param_0];
        ld.param.u8 %r1, [a]; ld.param.s16 %r2, [b]; ld.param.f32 %f1, [c]; ld.param.f64 %fd1, [d];
        ld.param.v2.u32 {%r3, %r4}, [e]; ld.param.u64 %rd2, [e+8]; ld.param.b16 %h1, [h];
        cvt.f32.f16 %f2, %h1;
        st.global.u32 [%rd1], %r1; st.global.s32 [%rd1+4], %r2; st.global.f32 [%rd1+8], %f1;
        st.global.f32 [%rd1+12], %f2; st.global.f64 [%rd1+16], %fd1;
        st.global.v2.u32 [%rd1+24], {%r3, %r4}; st.global.u64 [%rd1+32], %rd2;
        ret;
    }"""
    )
    memory = DeviceMemory()
    out = memory.allocate(40)
    block = np.array([1, 2, 3, 4], "u4")
    arguments = [np.uint64(out), 200, -5, 1.5, 2.5, block, np.float16(0.25)]
    k = Module(text).kernels["k"]
    assert [p.offset for p in k.parameters] == [0, 8, 10, 12, 16, 24, 40]
    launch(k, (1, 1, 1), (1, 1, 1), arguments, memory)
    got = memory.read(out, 40)
    np.testing.assert_array_equal(got[:8].view("i4"), [200, -5])
    np.testing.assert_array_equal(got[8:16].view("f4"), [1.5, 0.25])
    assert got[16:24].view("f8")[0] == 2.5
    np.testing.assert_array_equal(got[24:].view("u4"), block)


def test_memory():
    memory = DeviceMemory(1000)
    a = memory.allocate(600)
    assert a == GLOBAL_START and a % 256 == 0
    with pytest.raises(MemoryLimitError, match="500 bytes do not fit: 600 of 1000"):
        memory.allocate(500)
    memory.free(a)
    b = memory.allocate(1000)
    assert b > a + 600 and b % 256 == 0
    memory.write(b + 8, np.arange(3, dtype="i4"))
    np.testing.assert_array_equal(memory.read(b + 8, 12).view("i4"), [0, 1, 2])
    with pytest.raises(ValueError, match="nobody wrote"):
        memory.read(b, 12)
    for bad in (a, b + 996, b - 1, b + 1200):
        with pytest.raises(ValueError, match=r"in no allocation|were freed"):
            memory.write(bad, np.zeros(2, "i4"))
    memory.copy(b + 100, b + 8, 12)
    np.testing.assert_array_equal(memory.read(b + 100, 12).view("i4"), [0, 1, 2])
    empty = DeviceMemory(10).allocate(0)
    assert empty == GLOBAL_START


def test_dynamic_shared_memory():
    body = """
        mov.u64 %rd5, dynamic;
        mul.wide.u32 %rd6, %r0, 4;
        add.s64 %rd5, %rd5, %rd6;
        st.shared.u32 [%rd5], %r1;
        bar.sync 0;
        mov.u64 %rd7, dynamic;
        ld.shared.u32 %r2, [%rd7+20];
        mov.u32 %r3, %dynamic_smem_size;
        add.u32 %r2, %r2, %r3;
    """
    x = np.arange(32, dtype="u4") * 3
    got = words(body, x, shared=".extern .shared .align 16 .b8 dynamic[];", shared_bytes=128)
    assert set(got.tolist()) == {15 + 128}


# Threads


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


# Atomic operations

ATOMICS = {
    "add.u32": lambda old, b: old + b,
    "min.s32": lambda old, b: min(old - (old >> 31 << 32), b - (b >> 31 << 32)),
    "max.u32": max,
    "and.b32": lambda old, b: old & b,
    "or.b32": lambda old, b: old | b,
    "xor.b32": lambda old, b: old ^ b,
    "exch.b32": lambda old, b: b,
    "inc.u32": lambda old, b: 0 if old >= b else old + 1,
    "dec.u32": lambda old, b: b if old == 0 or old > b else old - 1,
}


@pytest.mark.parametrize("name", ATOMICS)
@pytest.mark.parametrize("places", [1, 5, 64])
def test_atomics_happen_one_after_the_other(name, places):
    body = f"""
        rem.u32 %r3, %r9, {places};
        mul.wide.u32 %rd5, %r3, 4;
        mov.u64 %rd6, cells;
        add.s64 %rd6, %rd6, %rd5;
        atom.global.{name} %r2, [%rd6], %r1;
    """
    x = RNG.integers(0, 1 << 32, 64).astype("u4")
    if name[:3] in ("inc", "dec"):
        x %= 7
    expected, cells = [], [3] * places
    for k, v in enumerate(x.tolist()):
        expected.append(cells[k % places])
        cells[k % places] = ATOMICS[name](cells[k % places], v) & 0xFFFFFFFF
    shared = f".global .align 4 .u32 cells[{places}] = {{{', '.join(['3'] * places)}}};"
    got = words(body, x, block=32, grid=2, shared=shared)
    np.testing.assert_array_equal(got, np.array(expected, "u4"))


@pytest.mark.parametrize("seed", [0, 3])
def test_a_lock_free_sum_by_compare_and_swap(seed):
    body = """
        ld.volatile.shared.u32 %r5, [cell];
    AGAIN:
        mov.b32 %f1, %r5;
        cvt.rn.f32.u32 %f2, %r1;
        add.f32 %f1, %f1, %f2;
        mov.b32 %r6, %f1;
        atom.shared.cas.b32 %r7, [cell], %r5, %r6;
        setp.eq.u32 %p1, %r7, %r5;
        mov.u32 %r5, %r7;
        @!%p1 bra AGAIN;
        bar.sync 0;
        ld.shared.f32 %f3, [cell];
        cvt.rzi.u32.f32 %r2, %f3;
    """
    first = "setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [cell], 0; bar.sync 0;"
    x = RNG.integers(0, 99, 64).astype("u4")
    got = words(first + body, x, block=64, shared=".shared .align 4 .u32 cell;", seed=seed)
    assert set(got.tolist()) == {int(x.sum())}


def test_atomic_sums_of_floats():
    for kind, dtype in (("f32", "f4"), ("f64", "f8")):
        x = RNG.normal(size=64).astype(dtype)
        size = x.itemsize
        body = f"""
            mov.u32 %r0, %tid.x;
            mul.wide.u32 %rd0, %r0, {size};
            add.s64 %rd1, %rd40, %rd0;
            ld.global.{kind} %{"f" if size == 4 else "fd"}1, [%rd1];
            red.global.add.{kind} [%rd41], %{"f" if size == 4 else "fd"}1;
        """
        (_, y), _ = run(kernel_text(body), x, np.zeros(1, dtype), block=64)
        total = np.zeros(1, dtype)
        for v in x:
            total += v
        assert y[0] == total[0]
    x = RNG.integers(-8, 8, 64).astype("f2")
    body = """
        mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 4; add.s64 %rd1, %rd40, %rd0;
        ld.global.u32 %r1, [%rd1]; red.global.add.noftz.f16x2 [%rd41], %r1;
    """
    (_, y), _ = run(kernel_text(body), x, np.zeros(2, "f2"), block=32)
    np.testing.assert_array_equal(y, x.reshape(-1, 2).sum(axis=0))


# Control flow


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


# Copies and matrices


def test_asynchronous_copies():
    """Three stages of copies of 16 bytes, each waited for as its turn comes."""
    lines = ["mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 16; mov.u64 %rd3, tile;"]
    lines.append("add.s64 %rd1, %rd40, %rd0; add.s64 %rd2, %rd41, %rd0; add.s64 %rd3, %rd3, %rd0;")
    for k in range(3):
        lines.append(f"cp.async.cg.shared.global [%rd3+{512 * k}], [%rd1+{512 * k}], 16;")
        lines.append("cp.async.commit_group;")
    for k in range(3):
        lines.append(f"cp.async.wait_group {2 - k};")
        lines.append(f"ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [%rd3+{512 * k}];")
        lines.append(f"st.global.v4.u32 [%rd2+{512 * k}], {{%r4, %r3, %r2, %r1}};")
    x = RNG.integers(0, 1 << 32, 384).astype("u4")
    text = kernel_text("\n".join(lines), shared=".shared .align 16 .b8 tile[1536];")
    (_, y), _ = run(text, x, (384, "u4"))
    np.testing.assert_array_equal(y.reshape(-1, 4), x.reshape(-1, 4)[:, ::-1])
    lines = lines[:2]
    lines += ["and.b32 %r9, %r0, 15; cp.async.ca.shared.global [%rd3], [%rd1], 16, %r9;"]
    lines += ["cp.async.wait_all; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%rd3];"]
    lines += ["st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};"]
    text = kernel_text("\n".join(lines), shared=".shared .align 16 .b8 tile[1536];")
    (_, y), _ = run(text, x, (128, "u4"))
    octets = x[:128].view("u1").reshape(32, 16) * (np.arange(16) < (np.arange(32) & 15)[:, None])
    np.testing.assert_array_equal(y.view("u1").reshape(32, 16), octets)


def fragments(matrix, kind):
    """The fragments of A (16×k) or B (k×8) that lanes hold, as words of shape (registers, 32)."""
    lane = np.arange(32)
    g, t = lane >> 2, lane & 3
    wide = matrix.dtype == np.float32
    found = []
    rows, columns = matrix.shape
    if kind == "a":
        for k in range(columns // (4 if wide else 8)):
            for half in (0, 8):
                if wide:
                    found.append(matrix[g + half, t + 4 * k].view("u4"))
                else:
                    pair = [matrix[g + half, 2 * t + j + 8 * k] for j in (0, 1)]
                    found.append(np.stack(pair, axis=1).view("u4")[:, 0])
    else:
        for k in range(rows // (4 if wide else 8)):
            if wide:
                found.append(matrix[t + 4 * k, g].view("u4"))
            else:
                pair = [matrix[2 * t + j + 8 * k, g] for j in (0, 1)]
                found.append(np.stack(pair, axis=1).view("u4")[:, 0])
    return np.array(found)


@pytest.mark.parametrize(
    ("shape", "kind", "accumulator"),
    [
        ("m16n8k16", "f16", "f32"),
        ("m16n8k8", "f16", "f32"),
        ("m16n8k16", "bf16", "f32"),
        ("m16n8k8", "bf16", "f32"),
        ("m16n8k8", "tf32", "f32"),
        ("m16n8k4", "tf32", "f32"),
        ("m16n8k16", "f16", "f16"),
    ],
)
def test_matrix_products(shape, kind, accumulator):
    import ml_dtypes

    depth = int(shape[6:])
    dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}[kind]
    a, b = (RNG.integers(-8, 8, s).astype(dtype) for s in ((16, depth), (depth, 8)))
    left, right = fragments(a, "a"), fragments(b, "b")
    inputs = np.concatenate([left, right]).T.copy().astype("u4")
    count, results = inputs.shape[1], 4 if accumulator == "f32" else 2
    lines = [f"mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, {4 * count};"]
    lines.append("add.s64 %rd1, %rd40, %rd0;")
    lines.append(f"mul.wide.u32 %rd2, %r0, {4 * results}; add.s64 %rd2, %rd41, %rd2;")
    lines += [f"ld.global.u32 %r{10 + k}, [%rd1+{4 * k}];" for k in range(count)]
    A = ", ".join(f"%r{10 + k}" for k in range(len(left)))
    B = ", ".join(f"%r{10 + len(left) + k}" for k in range(len(right)))
    if accumulator == "f32":
        C, D = "%f1, %f1, %f1, %f1", "%f2, %f3, %f4, %f5"
        lines.append("mov.f32 %f1, 0f3F800000;")
        store = "st.global.v4.f32 [%rd2], {%f2, %f3, %f4, %f5};"
    else:
        C, D = "%r50, %r50", "%r51, %r52"
        lines.append("mov.u32 %r50, 0x3C003C00;")
        store = "st.global.v2.u32 [%rd2], {%r51, %r52};"
    opcode = f"mma.sync.aligned.{shape}.row.col.{accumulator}.{kind}.{kind}.{accumulator}"
    lines.append(f"{opcode} {{{D}}}, {{{A}}}, {{{B}}}, {{{C}}};")
    (_, y), _ = run(kernel_text("\n".join([*lines, store])), inputs, (32 * results, "u4"))
    y = y.view(accumulator.replace("f32", "f4").replace("f16", "f2")).reshape(32, 4).astype("f4")
    expected = a.astype("f4") @ b.astype("f4") + 1
    g, t = np.arange(32) >> 2, np.arange(32) & 3
    for k in range(4):
        np.testing.assert_array_equal(y[:, k], expected[g + 8 * (k // 2), 2 * t + k % 2])


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_loads_of_matrices(trans):
    tiles = RNG.integers(0, 1 << 16, (4, 8, 8)).astype("u2")
    body = f"""
        mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 16;
        mov.u64 %rd3, tile; add.s64 %rd3, %rd3, %rd0; add.s64 %rd1, %rd40, %rd0;
        ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%rd1];
        st.shared.v4.u32 [%rd3], {{%r1, %r2, %r3, %r4}};
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r5, %r6, %r7, %r8}}, [%rd3];
        add.s64 %rd2, %rd41, %rd0;
        st.global.v4.u32 [%rd2], {{%r5, %r6, %r7, %r8}};
    """
    text = kernel_text(body, shared=".shared .align 16 .b8 tile[512];")
    (_, y), _ = run(text, tiles, (256, "u2"))
    y = y.reshape(32, 4, 2)
    source = tiles.transpose(0, 2, 1) if trans else tiles
    for lane in range(32):
        for k in range(4):
            expected = source[k, lane >> 2, 2 * (lane & 3) : 2 * (lane & 3) + 2]
            np.testing.assert_array_equal(y[lane, k], expected)


# What is not PTX


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("frobnicate.u32 %r1, %r2;", "unknown instruction 'frobnicate'"),
        ("add.u33 %r1, %r2, %r3;", "unknown type .u33"),
        ("add.fancy.u32 %r1, %r2, %r3;", "unknown modifier .fancy"),
        ("add.u32 %r1, %r2;", "2 operands, not 3"),
        ("add.u32 %r1, %r2, %nothing;", "unknown register %nothing"),
        ("add.u32 %r1, %rd2, %r3;", "%rd2 of 64 bits as .u32"),
        ("add.f32 %f1, %f2, 3;", "an integer as .f32"),
        ("setp.lt.u32 %r1, %r2, %r3;", "%r1 of type .b32 as .pred"),
        ("bra NOWHERE;", "unknown label 'NOWHERE'"),
        ("ld.global.u32 %r1, [nothing];", "unknown name 'nothing'"),
        ("call missing, ();", "which the text does not define"),
        ("add.u32 %r1 %r2;", "expected ',' or ';'"),
        ("ld.global.v2.u32 %r1, [%rd1];", "1 registers for 2 elements"),
        ("mov.u32 %r1, #;", "unknown character '#'"),
    ],
)
def test_text_that_is_not_known(body, message):
    text = kernel_text(body)
    with pytest.raises(PtxError) as caught:
        Module(text)
    assert message in str(caught.value)
    assert body.split()[0].rstrip(";") in text.splitlines()[caught.value.line - 1]


def test_addresses_of_32_bits_are_not_supported():
    with pytest.raises(PtxError, match="32 bits"):
        Module(HEADER.replace("64", "32"))


def test_undefined_registers_of_llvm():
    x = np.arange(4, dtype="u4")
    body = "// implicit-def: %r30\n mov.b32 {%h1, %h2}, %r30; mov.b32 <d>, <a>;"
    np.testing.assert_array_equal(each(body, x, out="u4"), x)
