"""Kernels of a GPU of the user's own, on the simulated driver."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from functrax.backends.cuda import choice
from functrax.ffi import gpu_code

PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry axpy(
  .param .u64 p_x, .param .u64 p_y, .param .u64 p_out, .param .align 8 .b8 numbers[16])
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .f32 %f<5>;
  .reg .b64 %rd<16>;
  ld.param.u64 %rd1, [p_x];
  ld.param.u64 %rd2, [p_y];
  ld.param.u64 %rd3, [p_out];
  ld.param.u64 %rd4, [numbers];
  ld.param.u64 %rd5, [numbers+8];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  cvt.s64.s32 %rd6, %r4;
  setp.ge.s64 %p1, %rd6, %rd4;
  @%p1 bra DONE;
  shl.b64 %rd7, %rd6, 2;
  add.s64 %rd8, %rd1, %rd7;
  add.s64 %rd9, %rd2, %rd7;
  add.s64 %rd10, %rd3, %rd7;
  ld.global.f32 %f1, [%rd8];
  ld.global.f32 %f2, [%rd9];
  cvt.rn.f32.s64 %f3, %rd5;
  fma.rn.f32 %f4, %f3, %f1, %f2;
  st.global.f32 [%rd10], %f4;
DONE:
  ret;
}
"""
X = np.arange(1000, dtype=np.float32)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    with functrax.backend("cuda"):
        yield


def axpy(**keywords):
    return functrax.code(
        PTX, {"out": lambda x, y, a: x}, operands="x y", attributes={"a": int},
        language="ptx", name="axpy", **keywords,
    )  # fmt: skip


def test_kernels_run_in_programs_and_alone(gpu):
    f = axpy(threads=128)
    want = 3 * X + 1
    np.testing.assert_array_equal(np.asarray(f(X, np.ones_like(X), a=3)), want)
    whole = functrax.jit(lambda x: f(x + 1, jnp.ones_like(x), a=3) * 2)
    np.testing.assert_array_equal(np.asarray(whole(X)), 2 * (3 * (X + 1) + 1))


def test_in_loops_with_derivatives_and_in_lanes(gpu):
    f = axpy(
        vjp=lambda xs, out, ct, a: (ct * np.float32(a), ct),
        blocks=lambda out: -(-out.size // 256),
        vmap="broadcast_all",
    )

    def looped(x):
        return functrax.lax.fori_loop(0, 3, lambda _, c: f(c, x, a=2), x)

    np.testing.assert_array_equal(np.asarray(functrax.jit(looped)(X)), 15 * X)
    slope = functrax.jit(functrax.grad(lambda x: f(x, x, a=2).sum()))
    np.testing.assert_array_equal(np.asarray(slope(X)), 3)
    rows = X.reshape(4, 250)
    mapped = functrax.jit(functrax.vmap(lambda x: f(x, x, a=2)))
    np.testing.assert_array_equal(np.asarray(mapped(rows)), 3 * rows)


def test_a_kernel_of_a_gpu_is_none_of_a_cpu(monkeypatch):
    f = axpy()
    for transform in (functrax.jit, lambda f: f):
        with pytest.raises(errors.UnavailableError, match="not registered for the platform 'cpu'"):
            np.asarray(transform(lambda x: f(x, x, a=1))(X))


def test_code_of_a_cpu_is_none_of_a_gpu(gpu):
    f = functrax.code("y[0] = 1;", {"y": lambda x: x}, operands="x")
    for transform in (functrax.jit, lambda f: f):
        with pytest.raises(errors.UnavailableError, match="not registered for the platform 'cuda'"):
            np.asarray(transform(f)(X))


def test_wrong_kernels():
    with pytest.raises(errors.ArgumentError, match="no kernel 'other'") as caught:
        functrax.code(PTX, {"y": X}, language="ptx", name="other")()
    assert "axpy" in str(caught.value)
    with pytest.raises(errors.ArgumentError, match="between 1 and 1024 threads"):
        axpy(threads=2000)(X, X, a=1)


def test_cuda_c_without_nvrtc(monkeypatch):
    monkeypatch.setattr(gpu_code, "_nvrtc", lambda: None)
    f = functrax.code('extern "C" __global__ void k(float* y, long long n) {}',
                      {"y": functrax.ShapeDtypeStruct((3,), np.float32)}, language="cuda",
                      name="k")  # fmt: skip
    with pytest.raises(errors.UnavailableError, match="CUDA C needs NVIDIA's compiler NVRTC"):
        f()


@pytest.mark.skipif(gpu_code._nvrtc() is None, reason="NVRTC is not installed")
def test_cuda_c(gpu):
    text = """
    extern "C" __global__ void scaled(const float* x, float* y, const long long* unused) {}
    extern "C" __global__ void add(const float* x, float* y, long long n) {
      long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[i] + 1;
    }
    """
    keywords = {"operands": "x", "language": "cuda"}
    f = functrax.code(text, {"y": lambda x: x}, name="add", **keywords)
    np.testing.assert_array_equal(np.asarray(functrax.jit(f)(X)), X + 1)
    with pytest.raises(errors.CompilerError, match="NVRTC does not take wrong"):
        functrax.code("nothing", {"y": lambda x: x}, name="wrong", **keywords)(X)
