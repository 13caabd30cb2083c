"""Radix sorts of long rows on the simulated GPU: the CPU's bits, the order of merging, and faults.

Tiles have 256 elements here, an eighth of what they have else, so that short rows have several.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.backends.cuda.simulator.errors import KernelFault
from functrax.backends.kernels.ordering import lowering, radix
from functrax.backends.targets import target
from functrax.core.errors.typed import DeviceError
from functrax.core.records import replace
from functrax.core.types import dtypes
from tests.backends.cuda.assembler import assembled, find
from tests.backends.cuda.compared import kernels, on_the_gpu, results
from tests.backends.cuda.ordering.same import DTYPES, check, kinds, numbers
from tests.backends.cuda.runtimes import RUNTIMES, altered, program_of

#: Of one, two and four bytes, with a sign and without, and of two parts.
QUICK = ("int8", "uint16", "float32")
TILE = 256


@pytest.fixture(autouse=True)
def with_64_bits() -> Iterator[None]:
    with functrax.enable_x64():
        yield


@pytest.fixture
def by_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """All sorts go by digits, and tiles are short."""
    monkeypatch.setattr(lowering, "is_by_digits", lambda *_: True)
    monkeypatch.setattr(radix, "target", lambda: replace(target(), sort_points=1))


@pytest.mark.parametrize(
    "dtype", [d if d in QUICK else pytest.param(d, marks=pytest.mark.slow) for d in DTYPES]
)
def test_every_dtype(by_digits: None, dtype: str) -> None:
    x = numbers(np.random.default_rng(0), (300,), dtype)
    check(lambda x: (lax.sort(x), jnp.argsort(x)), x)


@pytest.mark.parametrize("length", [1, TILE - 1, TILE, TILE + 1, 2 * TILE, 2 * TILE + 3])
def test_lengths(by_digits: None, length: int) -> None:
    x = np.random.default_rng(length).integers(0, 256, (2, length)).astype(np.uint8)
    check(lambda x: lax.sort((x, lax.broadcasted_iota(np.int32, x.shape, 1)), num_keys=1), x)


@pytest.mark.parametrize("shape", [(4, 1, 3), (3, 270), (270, 3), (2, 260, 2)])
def test_axes(by_digits: None, shape: tuple[int, ...]) -> None:
    x = numbers(np.random.default_rng(0), shape, "int8")
    axis = int(np.argmax(shape))
    check(lambda x: (lax.sort(x, axis), jnp.argsort(x, axis, dtype=np.int16)), x)


def test_several_keys_and_operands(by_digits: None) -> None:
    rng = np.random.default_rng(0)
    keys = numbers(rng, (300, 2), "bool"), numbers(rng, (300, 2), "float16")
    values = numbers(rng, (300, 2), "complex64"), numbers(rng, (300, 2), "int16")
    check(lambda *xs: lax.sort(xs, dimension=0, num_keys=2), *keys, *values)
    check(lambda *xs: lax.sort(xs, dimension=0, num_keys=2), *keys)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_generated_sorts(by_digits: None, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = [int(n) for n in rng.choice([1, 2], int(rng.integers(1, 4)))]
    axis, count = int(rng.integers(len(shape))), int(rng.integers(1, 4))
    shape[axis] = int(rng.choice([5, 300, 520]))
    params = {"dimension": axis, "num_keys": int(rng.integers(count)) + 1}
    arrays = [numbers(rng, shape, str(rng.choice(DTYPES))) for _ in range(count)]
    check(lambda *xs: lax.sort(xs, **params), *arrays)


@pytest.mark.parametrize("k", [150, 300])
def test_largest_elements(by_digits: None, k: int) -> None:
    x = numbers(np.random.default_rng(0), (300,), "float16")
    x[::7] = -np.abs(np.float16(np.nan))
    x[::11] = np.copysign(np.float16(np.nan), np.float16(-1))
    check(lambda x: lax.top_k(x, k), x)


def test_what_is_made_of_a_sort(by_digits: None) -> None:
    x = np.random.default_rng(0).integers(0, 9, (2, 300)).astype(np.int8)
    check(lambda x: (jnp.unique(x[0], size=12), jnp.lexsort((x[0], x[1]))), x)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("complex128", marks=pytest.mark.slow)])
def test_tiles_as_they_are(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr(lowering, "is_by_digits", lambda *_: True)
    x = numbers(np.random.default_rng(0), (2500,), dtype)
    check(lambda x: jnp.argsort(x), x)


def test_the_order_is_that_of_merging(monkeypatch: pytest.MonkeyPatch, by_digits: None) -> None:
    """Of NaN with other bits and of zeros with other signs, too."""
    x = numbers(np.random.default_rng(0), (2100,), "float16")
    x[::5].view(np.uint16)[:] |= 0xFE00

    def order(is_by_digits: bool) -> list[bytes]:
        monkeypatch.setattr(lowering, "is_by_digits", lambda *_: is_by_digits)
        with on_the_gpu():
            found = results(lambda x: lax.sort((x, lax.iota(np.int32, 2100)), num_keys=1), (x,))
        return [y.tobytes() for y in found]

    assert order(True) == order(False)


# ---- kernels ------------------------------------------------------------------------------------


def test_long_rows_are_sorted_by_digits() -> None:
    def of(*shape: int, dtype: Any = np.float32) -> Any:
        return functrax.ShapeDtypeStruct(shape, dtype)

    assert set(kinds(lax.sort, of(1 << 17))) == {"sort", "grid"}  # launches would take longer
    one = ["count", "scan", "scan", "scan", "radix"]
    assert kinds(lax.sort, of(1 << 20, dtype=np.int8)) == one
    assert kinds(lax.sort, of(1 << 20)) == 4 * one
    assert kinds(lambda x: jnp.argsort(x, dtype=np.int32), of(1 << 20)) == 4 * one
    assert kinds(jnp.argsort, of(1 << 20)) == [*4 * one, "grid"]
    assert kinds(lambda x: lax.top_k(x, 9), of(1 << 20)) == ["sort", "sort", "sort"]
    assert set(kinds(jnp.argsort, of(1 << 15, dtype=np.complex128))) == {"sort", "grid"}


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("f", [lax.sort, jnp.argsort])
def test_tiles_fit_in_shared_memory(dtype: str, f: Any) -> None:
    x = functrax.ShapeDtypeStruct((1 << 22,), np.dtype(dtype))
    (kernel,) = [k for k in kernels(f, x) if k.name == "sort"]
    texts = re.findall(r"\.entry.*?^}", kernel.assembly, re.DOTALL | re.MULTILINE)
    shared = [sum(map(int, re.findall(r"\.shared .*\[(\d+)\]", text))) for text in texts]
    assert 24 << 10 <= max(shared) <= 48 << 10


def test_sizes_are_no_part_of_the_code() -> None:
    def texts(rows: int, length: int) -> list[str]:
        x = functrax.ShapeDtypeStruct((rows, length), np.float32)
        return [kernel.assembly for kernel in kernels(lax.sort, x)]

    assert texts(3, 1_000_001) == texts(5, 900_001)


@pytest.mark.slow
@pytest.mark.skipif(find() is None, reason="no ptxas: pip install 'functrax[gpu-test]'")
@pytest.mark.parametrize("capability", [75, 80, 90, 100, 120])
def test_half_of_the_threads_have_registers(
    by_digits: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capability: int
) -> None:
    """Of a multiprocessor; and nothing is spilled."""
    monkeypatch.setattr(radix, "target", target)
    functions = (jnp.argsort, lambda x: lax.sort(x, 0), lambda x: lax.top_k(x, 4000, axis=0))
    found = {}
    for dtype in ("int8", "bfloat16", "float32", "float64"):
        x = functrax.ShapeDtypeStruct((4096, 3), dtypes.as_dtype(dtype))
        for f in functions:
            ((kernel,),) = [[k for k in kernels(f, x) if k.name in ("sort", "top_k")]]
            for text in re.split(r"(?=\.version)", kernel.assembly):
                if ".entry" in text:
                    path = tmp_path / "kernel.ptx"
                    path.write_text(re.sub(r"\.target \w+", ".target sm_75", text))
                    found |= assembled(path, f"sm_{capability}")
    assert found
    assert {name for name, x in found.items() if x.spilled or x.stack} == set()
    assert max(x.registers for x in found.values() if x.shared >= 16 << 10) <= 64


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0, 2, 3, 5, 6, 7, 8])
def test_the_simulator_finds_missing_barriers(
    monkeypatch: pytest.MonkeyPatch, by_digits: None, missing: int
) -> None:
    """But for two: the one after atomic updates, and the second one of running results."""
    monkeypatch.setattr(radix, "target", lambda: replace(target(), sort_points=2))
    x = np.random.default_rng(0).integers(0, 256, 600).astype(np.uint8)
    with on_the_gpu():
        program, runtime = program_of(lambda x: lax.sort(x), x), RUNTIMES[-1]

    def load(f: Any, module: Any, text: int) -> int:
        ptx = ctypes.string_at(text).decode()
        places = [m.span() for m in re.finditer(r"bar\.sync[^;]*;", ptx)]
        assert len(places) == 9
        begin, end = places[missing]
        changed = ctypes.create_string_buffer((ptx[:begin] + ptx[end:]).encode())
        return int(f(module, ctypes.addressof(changed)))

    simulated = SimulatedDriver()
    gpu = runtime.gpu(altered(simulated, cuModuleLoadData=load), 0)
    with pytest.raises(DeviceError):
        (y,) = runtime.executable(program, gpu)([runtime.array.of(gpu, x)])
        np.asarray(y)
    assert isinstance(simulated.fault, KernelFault)
