"""Asynchronous copies, and instructions of matrices."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.cuda.simulated import kernel_text, run

RNG = np.random.default_rng(0)


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
