"""Memory, loads and stores of all kinds, parameters, and atomic operations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from functrax.backends.cuda.simulator.launch import launch
from functrax.backends.cuda.simulator.memory import GLOBAL_START, DeviceMemory, MemoryLimitError
from functrax.backends.cuda.simulator.module import Module
from tests.backends.cuda.simulated import HEADER, kernel_text, run, words

RNG = np.random.default_rng(0)


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
