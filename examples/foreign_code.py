"""Code of one's own in programs: a sparse matrix in C, a function of numba's, a kernel in PTX.

Run:
    python examples/foreign_code.py

The matrix is that of heat on a line, in compressed rows.  Its product with a vector is a few lines
of C, whose derivative is the product with the transposed matrix; conjugate gradients call it in a
compiled `while_loop`, and the conductivities are fitted by gradients through the solution.  numba's
part runs where numba is installed; the kernel runs on a simulated GPU.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

os.environ.setdefault("FUNCTRAX_CUDA_DRIVER", "simulated")  # leave this out where there is a GPU

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import lax

N = 40

# ---- C -------------------------------------------------------------------------------------------

HEAD = {"operands": "data columns starts x", "vmap": "sequential"}
product = functrax.code(
    """
    for (int64_t i = 0; i < y_size; ++i) {
      float sum = 0;
      for (int32_t k = starts[i]; k < starts[i + 1]; ++k) sum += data[k] * x[columns[k]];
      y[i] = sum;
    }
    """,
    {"y": lambda data, columns, starts, x: x},
    name="product",
    vjp=lambda given, y, ct: (outer(*given, ct), None, None, transposed(*given[:3], ct)),
    **HEAD,
)
transposed = functrax.code(
    """
    memset(y, 0, y_size * sizeof *y);
    for (int64_t i = 0; i < y_size; ++i) {
      for (int32_t k = starts[i]; k < starts[i + 1]; ++k) y[columns[k]] += data[k] * x[i];
    }
    """,
    {"y": lambda data, columns, starts, x: x},
    name="transposed",
    **HEAD,
)
outer = functrax.code(
    """
    for (int64_t i = 0; i < x_size; ++i) {
      for (int32_t k = starts[i]; k < starts[i + 1]; ++k) d[k] = ct[i] * x[columns[k]];
    }
    """,
    {"d": lambda data, columns, starts, x, ct: data},
    operands="data columns starts x ct",
    name="outer",
)


def heat(conductivity):
    """The matrix of heat on a line with ends at 0: data, columns and the starts of rows."""
    left, right = conductivity[:-1], conductivity[1:]
    rows = jnp.stack([-left, left + right + 0.1, -right], axis=1)
    columns = (np.arange(N)[:, None] + [-1, 0, 1]).clip(0, N - 1).astype(np.int32)
    inside = np.ones((N, 3), np.float32)
    inside[0, 0] = inside[-1, 2] = 0
    return (rows * inside).reshape(-1), columns.reshape(-1), np.arange(0, 3 * N + 1, 3, np.int32)


def solved(matrix, b):
    """A solution by conjugate gradients, each step of which is a product in C."""

    def step(state):
        x, r, p, n = state
        q = product(*matrix, p)
        alpha = r @ r / (p @ q)
        left = r - alpha * q
        return x + alpha * p, left, left + (left @ left) / (r @ r) * p, n + 1

    start = (jnp.zeros_like(b), b, b, 0)
    return lax.while_loop(lambda s: (s[1] @ s[1] > 1e-10) & (s[3] < 4 * N), step, start)[0]


def solution(matrix, b):
    """The same with a derivative: that of the equation, for the matrix is symmetric."""
    return lax.custom_linear_solve(
        lambda x: product(*matrix, x), b, lambda _, b: solved(lax.stop_gradient(matrix), b),
        symmetric=True,
    )  # fmt: skip


def fit():
    """Conductivities from the temperatures that they lead to."""
    source = jnp.sin(jnp.linspace(0, 9, N)) + 1
    true = 1 + 0.5 * jnp.cos(jnp.linspace(0, 3, N + 1))
    seen = solution(heat(true), source)
    loss = functrax.jit(
        functrax.value_and_grad(lambda c: ((solution(heat(c), source) - seen) ** 2).mean())
    )
    guess = jnp.ones(N + 1)
    first, _ = loss(guess)
    for _ in range(400):
        last, slope = loss(guess)
        guess = guess - 0.02 * slope / (jnp.abs(slope).max() + 1e-6)
    print(f"C: loss {first:.6f} -> {last:.6f}")


# ---- numba ---------------------------------------------------------------------------------------


def with_numba():
    """A function that numba compiles, as an operation."""
    if find_spec("numba") is None:
        print("numba: not installed")
        return
    import numba

    array = numba.types.CPointer(numba.float32)

    @numba.cfunc(numba.void(array, array, numba.int64))
    def running_maximum(x, out, n):
        most = x[0]
        for i in range(n):
            most = max(most, x[i])
            out[i] = most

    function = functrax.ffi.c_function(running_maximum, results=lambda x: x)
    x = jnp.sin(jnp.arange(8.0))
    agrees = jnp.array_equal(functrax.jit(function)(x), lax.cummax(x))
    print(f"numba: a running maximum is lax.cummax: {agrees}")


# ---- PTX -----------------------------------------------------------------------------------------

HALVED = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry halved(.param .u64 px, .param .u64 py, .param .u64 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<5>;
  .reg .f32 %f<3>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [px];
  ld.param.u64 %rd2, [py];
  ld.param.u64 %rd3, [n];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  cvt.s64.s32 %rd4, %r4;
  setp.ge.s64 %p1, %rd4, %rd3;
  @%p1 bra DONE;
  shl.b64 %rd5, %rd4, 2;
  add.s64 %rd6, %rd1, %rd5;
  add.s64 %rd7, %rd2, %rd5;
  ld.global.f32 %f1, [%rd6];
  mul.rn.f32 %f2, %f1, 0f3F000000;
  st.global.f32 [%rd7], %f2;
DONE:
  ret;
}
"""


def with_ptx():
    """A kernel of one's own between kernels of the compiler's."""
    halved = functrax.code(
        HALVED, {"y": lambda x: x}, operands="x", language="ptx", name="halved",
        vjp=lambda xs, y, ct: halved(ct),
    )  # fmt: skip
    with functrax.backend("cuda"):
        slope = functrax.jit(functrax.grad(lambda x: (halved(x * x) ** 2).sum()))
        found = np.asarray(slope(jnp.arange(4.0)))
    print(f"PTX: the gradient of (x² / 2)² is x³: {found}")


if __name__ == "__main__":
    fit()
    with_numba()
    with_ptx()
