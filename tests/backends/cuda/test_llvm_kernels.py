"""Kernels as LLVM writes them, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from functrax.backends.cuda.simulator.errors import DataRace, OutOfBounds, UninitializedRead
from tests.backends.cuda.simulated import compiled, run

ARCHITECTURES = ("sm_75", "sm_80", "sm_90")
SREGS = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.laneid()
declare i32 @llvm.nvvm.read.ptx.sreg.warpid()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare float @llvm.nvvm.shfl.sync.down.f32(i32, float, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.up.i32(i32, i32, i32, i32)
declare { i32, i1 } @llvm.nvvm.shfl.sync.up.i32p(i32, i32, i32, i32)
"""
architectures = pytest.mark.parametrize("cpu", ARCHITECTURES)

MAP = (
    SREGS
    + """
define ptx_kernel void @k(ptr addrspace(1) noalias readonly align 16 %x,
                          ptr addrspace(1) noalias align 16 %y, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %m = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %b = mul i32 %c, %m
  %i = add i32 %b, %t
  %ok = icmp slt i32 %i, %n
  br i1 %ok, label %body, label %end
body:
  %p = getelementptr <4 x float>, ptr addrspace(1) %x, i32 %i
  %v = load <4 x float>, ptr addrspace(1) %p, align 16
  %w = fmul contract <4 x float> %v, %v
  %s = fadd contract <4 x float> %w, <float 3.0, float 3.0, float 3.0, float 3.0>
  %q = fdiv <4 x float> %s, %v
  %py = getelementptr <4 x float>, ptr addrspace(1) %y, i32 %i
  store <4 x float> %q, ptr addrspace(1) %py, align 16
  br label %end
end:
  ret void
}
"""
)


@architectures
def test_map_with_accesses_of_128_bits(cpu):
    text = compiled(MAP, cpu)
    assert "v4" in text
    x = np.random.default_rng(0).normal(size=40_000).astype(np.float32)
    (_, y), statistics = run(text, x, (len(x), np.float32), len(x) // 4, grid=40, block=256)
    expected = (x.astype(np.float64) * x + 3).astype(np.float32) / x
    np.testing.assert_array_equal(y, expected)
    assert statistics.bytes_written == x.nbytes


GRID_STRIDE = (
    SREGS
    + """
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y, i64 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %m = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %g = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %b = mul i32 %c, %m
  %i32 = add i32 %b, %t
  %start = zext i32 %i32 to i64
  %s32 = mul i32 %m, %g
  %step = zext i32 %s32 to i64
  %any = icmp slt i64 %start, %n
  br i1 %any, label %loop, label %end
loop:
  %i = phi i64 [ %start, %entry ], [ %next, %loop ]
  %p = getelementptr double, ptr addrspace(1) %x, i64 %i
  %v = load double, ptr addrspace(1) %p
  %r = fptosi double %v to i32
  %e = and i32 %r, 1
  %odd = icmp eq i32 %e, 1
  %h = fmul double %v, 5.0e-01
  %d = fadd double %v, 1.0
  %z = select i1 %odd, double %h, double %d
  %py = getelementptr double, ptr addrspace(1) %y, i64 %i
  store double %z, ptr addrspace(1) %py
  %next = add i64 %i, %step
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
)


@architectures
def test_loop_over_the_grid(cpu):
    x = np.random.default_rng(1).uniform(0, 100, size=10_007)
    (_, y), _ = run(compiled(GRID_STRIDE, cpu), x, (len(x), "f8"), len(x), grid=5, block=96)
    np.testing.assert_array_equal(y, np.where(x.astype(int) & 1, x * 0.5, x + 1))


def _reduction():
    lines = []
    for name, value in (("a", "%sum"), ("b", "%mine")):
        last = value
        for k in (16, 8, 4, 2, 1):
            lines.append(
                f"  %{name}s{k} = call float @llvm.nvvm.shfl.sync.down.f32"
                f"(i32 -1, float {last}, i32 {k}, i32 31)\n"
                f"  %{name}{k} = fadd float {last}, %{name}s{k}"
            )
            last = f"%{name}{k}"
    return "\n".join(lines[:5]), "\n".join(lines[5:])


FIRST, SECOND = _reduction()
REDUCTION = (
    SREGS
    + f"""
@parts = internal addrspace(3) global [32 x float] undef, align 4
define ptx_kernel void @k(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) %y, i32 %n) {{
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %m = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %base = mul i32 %c, %n
  br label %test
test:
  %j = phi i32 [ %t, %entry ], [ %next, %loop ]
  %sum = phi float [ 0.0, %entry ], [ %more, %loop ]
  %in = icmp slt i32 %j, %n
  br i1 %in, label %loop, label %warp
loop:
  %at = add i32 %base, %j
  %p = getelementptr float, ptr addrspace(1) %x, i32 %at
  %v = load float, ptr addrspace(1) %p
  %more = fadd float %sum, %v
  %next = add i32 %j, %m
  br label %test
warp:
{FIRST}
  %lane = and i32 %t, 31
  %w = lshr i32 %t, 5
  %lead = icmp eq i32 %lane, 0
  br i1 %lead, label %put, label %sync
put:
  %pp = getelementptr float, ptr addrspace(3) @parts, i32 %w
  store float %a1, ptr addrspace(3) %pp
  br label %sync
sync:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %first = icmp ult i32 %t, 32
  br i1 %first, label %last, label %end
last:
  %warps = lshr i32 %m, 5
  %has = icmp ult i32 %t, %warps
  br i1 %has, label %get, label %got
get:
  %gp = getelementptr float, ptr addrspace(3) @parts, i32 %t
  %gv = load float, ptr addrspace(3) %gp
  br label %got
got:
  %mine = phi float [ %gv, %get ], [ 0.0, %last ]
{SECOND}
  %zero = icmp eq i32 %t, 0
  br i1 %zero, label %out, label %end
out:
  %py = getelementptr float, ptr addrspace(1) %y, i32 %c
  store float %b1, ptr addrspace(1) %py
  br label %end
end:
  ret void
}}
"""
)


@architectures
def test_reduction_of_blocks_in_two_stages(cpu):
    x = np.random.default_rng(2).integers(0, 100, size=(9, 500)).astype(np.float32)
    text = compiled(REDUCTION, cpu)
    (_, y), statistics = run(text, x, (9, np.float32), 500, grid=9, block=128)
    np.testing.assert_array_equal(y, x.sum(axis=1))
    assert statistics.barriers == 1


TRANSPOSE = (
    SREGS
    + """
@tile = internal addrspace(3) global [16 x [17 x i32]] undef, align 4
define ptx_kernel void @k(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) %y,
                          i32 %rows, i32 %columns) {
entry:
  %tx = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ty = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %x0 = shl i32 %bx, 4
  %y0 = shl i32 %by, 4
  %column = add i32 %x0, %tx
  %row = add i32 %y0, %ty
  %c1 = icmp slt i32 %column, %columns
  %c2 = icmp slt i32 %row, %rows
  %c3 = and i1 %c1, %c2
  br i1 %c3, label %read, label %middle
read:
  %r0 = mul i32 %row, %columns
  %r1 = add i32 %r0, %column
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %r1
  %v = load i32, ptr addrspace(1) %p
  %s = getelementptr [16 x [17 x i32]], ptr addrspace(3) @tile, i32 0, i32 %ty, i32 %tx
  store i32 %v, ptr addrspace(3) %s
  br label %middle
middle:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %column2 = add i32 %y0, %tx
  %row2 = add i32 %x0, %ty
  %d1 = icmp slt i32 %column2, %rows
  %d2 = icmp slt i32 %row2, %columns
  %d3 = and i1 %d1, %d2
  br i1 %d3, label %write, label %end
write:
  %s2 = getelementptr [16 x [17 x i32]], ptr addrspace(3) @tile, i32 0, i32 %tx, i32 %ty
  %v2 = load i32, ptr addrspace(3) %s2
  %w0 = mul i32 %row2, %rows
  %w1 = add i32 %w0, %column2
  %py = getelementptr i32, ptr addrspace(1) %y, i32 %w1
  store i32 %v2, ptr addrspace(1) %py
  br label %end
end:
  ret void
}
"""
)


@architectures
def test_transpose_through_shared_memory(cpu):
    x = np.arange(50 * 37, dtype=np.int32).reshape(50, 37)
    text = compiled(TRANSPOSE, cpu)
    (_, y), _ = run(text, x, (x.size, "i4"), 50, 37, grid=(3, 4, 1), block=(16, 16, 1))
    np.testing.assert_array_equal(y.reshape(37, 50), x.T)


HISTOGRAM = (
    SREGS
    + """
@bins = internal addrspace(3) global [64 x i32] undef, align 4
define ptx_kernel void @k(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) %y, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %m = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %small = icmp ult i32 %t, 64
  %bin = getelementptr i32, ptr addrspace(3) @bins, i32 %t
  br i1 %small, label %clear, label %cleared
clear:
  store i32 0, ptr addrspace(3) %bin
  br label %cleared
cleared:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %b = mul i32 %c, %m
  %i = add i32 %b, %t
  %in = icmp ult i32 %i, %n
  br i1 %in, label %count, label %counted
count:
  %p = getelementptr i8, ptr addrspace(1) %x, i32 %i
  %v = load i8, ptr addrspace(1) %p
  %k = zext i8 %v to i32
  %k6 = and i32 %k, 63
  %q = getelementptr i32, ptr addrspace(3) @bins, i32 %k6
  %old = atomicrmw add ptr addrspace(3) %q, i32 1 monotonic
  br label %counted
counted:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br i1 %small, label %add, label %end
add:
  %h = load i32, ptr addrspace(3) %bin
  %g = getelementptr i32, ptr addrspace(1) %y, i32 %t
  %old2 = atomicrmw add ptr addrspace(1) %g, i32 %h monotonic
  br label %end
end:
  ret void
}
"""
)


@architectures
@pytest.mark.parametrize("seed", [0, 7])
def test_histogram_with_atomics(cpu, seed):
    x = np.random.default_rng(3).integers(0, 256, 5000).astype(np.uint8)
    y = np.zeros(64, np.int32)
    (_, y), _ = run(compiled(HISTOGRAM, cpu), x, y, len(x), grid=40, block=128, seed=seed)
    np.testing.assert_array_equal(y, np.bincount(x & 63, minlength=64))


SCAN = (
    SREGS
    + """
@a = internal addrspace(3) global [256 x i32] undef, align 4
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %m = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %b = mul i32 %c, %m
  %i = add i32 %b, %t
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
  %v = load i32, ptr addrspace(1) %p
  %s = getelementptr i32, ptr addrspace(3) @a, i32 %t
  store i32 %v, ptr addrspace(3) %s
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %loop
loop:
  %d = phi i32 [ 1, %entry ], [ %d2, %next ]
  %has = icmp uge i32 %t, %d
  br i1 %has, label %get, label %got
get:
  %o = sub i32 %t, %d
  %q = getelementptr i32, ptr addrspace(3) @a, i32 %o
  %w = load i32, ptr addrspace(3) %q
  br label %got
got:
  %add = phi i32 [ 0, %loop ], [ %w, %get ]
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %mine = load i32, ptr addrspace(3) %s
  %sum = add i32 %mine, %add
  store i32 %sum, ptr addrspace(3) %s
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %next
next:
  %d2 = shl i32 %d, 1
  %more = icmp ult i32 %d2, %m
  br i1 %more, label %loop, label %end
end:
  %r = load i32, ptr addrspace(3) %s
  %py = getelementptr i32, ptr addrspace(1) %y, i32 %i
  store i32 %r, ptr addrspace(1) %py
  ret void
}
"""
)


@architectures
def test_scan_within_blocks(cpu):
    x = np.random.default_rng(4).integers(-50, 50, size=(6, 200)).astype(np.int32)
    (_, y), _ = run(compiled(SCAN, cpu), x, (x.size, "i4"), grid=6, block=200)
    np.testing.assert_array_equal(y.reshape(x.shape), np.cumsum(x, axis=1))


MATMUL = (
    SREGS
    + """
@ta = internal addrspace(3) global [16 x [16 x float]] undef, align 16
@tb = internal addrspace(3) global [16 x [16 x float]] undef, align 16
define ptx_kernel void @k(ptr addrspace(1) noalias readonly %a,
                          ptr addrspace(1) noalias readonly %b, ptr addrspace(1) %c, i32 %n) {
entry:
  %tx = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ty = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %x0 = shl i32 %bx, 4
  %y0 = shl i32 %by, 4
  %column = add i32 %x0, %tx
  %row = add i32 %y0, %ty
  %rown = mul i32 %row, %n
  br label %tiles
tiles:
  %k0 = phi i32 [ 0, %entry ], [ %k1, %after ]
  %acc = phi float [ 0.0, %entry ], [ %sum, %after ]
  %ac = add i32 %k0, %tx
  %ai = add i32 %rown, %ac
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %ai
  %va = load float, ptr addrspace(1) %pa
  %br = add i32 %k0, %ty
  %br2 = mul i32 %br, %n
  %bi = add i32 %br2, %column
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %bi
  %vb = load float, ptr addrspace(1) %pb
  %sa = getelementptr [16 x [16 x float]], ptr addrspace(3) @ta, i32 0, i32 %ty, i32 %tx
  store float %va, ptr addrspace(3) %sa
  %sb = getelementptr [16 x [16 x float]], ptr addrspace(3) @tb, i32 0, i32 %ty, i32 %tx
  store float %vb, ptr addrspace(3) %sb
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %inner
inner:
  %k = phi i32 [ 0, %tiles ], [ %kn, %inner ]
  %part = phi float [ %acc, %tiles ], [ %sum, %inner ]
  %qa = getelementptr [16 x [16 x float]], ptr addrspace(3) @ta, i32 0, i32 %ty, i32 %k
  %qb = getelementptr [16 x [16 x float]], ptr addrspace(3) @tb, i32 0, i32 %k, i32 %tx
  %wa = load float, ptr addrspace(3) %qa
  %wb = load float, ptr addrspace(3) %qb
  %m = fmul contract float %wa, %wb
  %sum = fadd contract float %part, %m
  %kn = add i32 %k, 1
  %again = icmp ult i32 %kn, 16
  br i1 %again, label %inner, label %after
after:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %k1 = add i32 %k0, 16
  %more = icmp ult i32 %k1, %n
  br i1 %more, label %tiles, label %end
end:
  %ci = add i32 %rown, %column
  %pc = getelementptr float, ptr addrspace(1) %c, i32 %ci
  store float %sum, ptr addrspace(1) %pc
  ret void
}
"""
)


@architectures
def test_product_of_matrices_by_shared_tiles(cpu):
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-9, 9, size=(64, 64)).astype(np.float32) for _ in range(2))
    text = compiled(MATMUL, cpu)
    (_, _, c), _ = run(text, a, b, (64 * 64, "f4"), 64, grid=(4, 4, 1), block=(16, 16, 1))
    np.testing.assert_array_equal(c.reshape(64, 64), a @ b)


DEBUG = """
define ptx_kernel void @k(ptr addrspace(1) %x) !dbg !3 {
  %p = getelementptr i32, ptr addrspace(1) %x, i64 64, !dbg !6
  %a = load i32, ptr addrspace(1) %p, !dbg !6
  store i32 %a, ptr addrspace(1) %x, !dbg !7
  ret void, !dbg !7
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!8, !9}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: FullDebug)
!1 = !DIFile(filename: "model.py", directory: "/home/u")
!2 = !DISubroutineType(types: !{})
!3 = distinct !DISubprogram(name: "k", file: !1, line: 10, type: !2, unit: !0,
                            spFlags: DISPFlagDefinition)
!6 = !DILocation(line: 12, column: 3, scope: !3)
!7 = !DILocation(line: 13, column: 3, scope: !3)
!8 = !{i32 2, !"Debug Info Version", i32 3}
!9 = !{i32 2, !"Dwarf Version", i32 2}
"""


def test_lines_of_debug_information():
    text = compiled(DEBUG, "sm_90")  # LLVM writes PTX 7.0 for sm_80, which lacks its sections
    assert ".section" in text
    with pytest.raises(OutOfBounds) as caught:
        run(text, np.zeros(64, np.int32), block=1)
    assert caught.value.source == "/home/u/model.py:12"


def test_a_barrier_less_is_a_race():
    """The same kernels without one of their barriers."""
    barrier = "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"
    rng = np.random.default_rng(5)
    a, b = (rng.normal(size=(64, 64)).astype(np.float32) for _ in range(2))
    for k, errors in ((0, (DataRace, UninitializedRead)), (1, (DataRace,))):
        pieces = MATMUL.split(barrier)
        broken = barrier.join(pieces[: k + 1]) + pieces[k + 1]
        broken += "".join(barrier + x for x in pieces[k + 2 :])
        assert broken.count(barrier) == MATMUL.count(barrier) - 1
        with pytest.raises(errors) as caught:
            run(
                compiled(broken, "sm_80"),
                *(a, b, (64 * 64, "f4"), 64),
                grid=(4, 4, 1),
                block=(16, 16, 1),
            )
        assert caught.value.kernel == "k"
        assert "shared" in caught.value.instruction
