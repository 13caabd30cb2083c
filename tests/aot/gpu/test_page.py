"""The block of docs/aot.md for GPUs, built without CUDA's toolkit and run on a simulated GPU."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

import pytest

from tests.aot.building import STRICT, need, run
from tests.aot.gpu.fake_libcuda import FakeLibcuda
from tests.aot.test_page import PAGE, pairs
from tests.test_docs import assert_says, run_block

#: What the block calls of CUDA's runtime, by the driver, in the context that is current.
_RUNTIME: Final = """
#include <stddef.h>
#include <stdint.h>
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
extern int cuMemAlloc_v2(uint64_t *, size_t);
extern int cuMemcpyHtoD_v2(uint64_t, const void *, size_t);
extern int cuMemcpyDtoHAsync_v2(void *, uint64_t, size_t, void *);
extern int cuStreamSynchronize(void *);
static inline int cudaMalloc(void **place, size_t bytes) {
  uint64_t found = 0;
  const int error = cuMemAlloc_v2(&found, bytes);
  *place = (void *)(uintptr_t)found;
  return error;
}
static inline int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
  if (kind == cudaMemcpyHostToDevice) {
    const int error = cuMemcpyHtoD_v2((uint64_t)(uintptr_t)to, from, bytes);
    return error ? error : cuStreamSynchronize(NULL);
  }
  cuMemcpyDtoHAsync_v2(to, (uint64_t)(uintptr_t)from, bytes, NULL);
  return cuStreamSynchronize(NULL);
}
"""


@need("gcc")
def test_the_block_for_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = next(block for block, _ in pairs() if 'target="sm_80"' in block.code)
    block, said = next((b, s) for b, s in pairs() if "cuda_runtime.h" in b.code)
    imports = "import functrax, functrax.numpy as jnp\nfrom functrax import ShapeDtypeStruct\n"
    start = f"{imports}f32 = jnp.float32\n"
    _, error = run_block(before._replace(code=start + before.code), PAGE.name, {})
    assert error is None
    fake = FakeLibcuda(tmp_path)
    context = ctypes.c_void_p()
    fake.driver.table("cuDevicePrimaryCtxRetain", ctypes.addressof(context), 0)
    fake.stack.append(context.value or 0)  # CUDA's runtime makes it current
    (tmp_path / "cuda_runtime.h").write_text(_RUNTIME)
    (tmp_path / "main.c").write_text(block.code)
    made = tmp_path / "main.so"
    sources = ("main.c", "out/slope.c", fake.path)
    run("gcc", *STRICT, fake.option, "-shared", "-fPIC", "-I.", "-Iout", "-o", made, *sources)
    assert ctypes.CDLL(str(made)).main() == 0, fake.driver.fault
    ctypes.CDLL(None).fflush(None)
    assert_says(said.code, capfd.readouterr().out, f"{PAGE.name}:{block.line}")
    assert len(fake.stack) == 1
