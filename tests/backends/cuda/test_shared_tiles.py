"""Transposes and products in tiles on the simulated GPU: values of generated shapes, and faults."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.backends.cuda.simulator.errors import KernelFault
from functrax.core.errors.typed import DeviceError
from functrax.core.types import dtypes
from tests.backends.cuda.compared import check, kernels, numbers
from tests.backends.cuda.runtimes import RUNTIMES, altered, program_of

DTYPES = (
    *("bool", "int8", "uint16", "int32", "int64", "float16", "bfloat16", "float32", "float64"),
    *("complex64", "complex128"),
)


@pytest.fixture(autouse=True)
def with_64_bits() -> Iterator[None]:
    with functrax.enable_x64():
        yield


def keeps_tiles(f: Any, *args: Any) -> bool:
    """Whether a kernel of a function keeps tiles in shared memory."""
    return any(re.search(r"^ +(product|staged) ", k.loops, re.M) for k in kernels(f, *args))


# ---- transposes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_transposes_of_every_dtype(dtype: str) -> None:
    x = numbers((35, 41), dtypes.as_dtype(dtype))
    check(lambda x: x.T, x)
    assert keeps_tiles(lambda x: x.T, x)


@pytest.mark.parametrize("seed", range(8))
def test_generated_transposes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(2, 5))
    shape = tuple(int(n) for n in rng.choice([1, 3, 9, 16, 33, 64], rank))
    order = tuple(int(d) for d in rng.permutation(rank))
    ends = tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (rank, 2)))
    steps = tuple(slice(None, None, int(n)) for n in rng.choice([-1, 1, 2], rank))

    def f(x: Any, y: Any) -> Any:
        moved = jnp.pad(x.transpose(order), ends) * 2
        return moved[steps] + jnp.where(x > 0, x, y).transpose(order[::-1]).sum()

    check(f, numbers(shape, np.float32), numbers(shape, np.float32, 1), close=1e-4)


def test_what_follows_a_transpose_is_in_its_kernel() -> None:
    x, y = numbers((40, 50), np.float32), numbers((50, 40), np.float32)
    for f in (
        lambda x, y: jnp.tanh(x.T) * y,
        lambda x, y: jnp.where(y > 0, x.T, y) + jnp.roll(x.T, 3, 0),
        lambda x, y: x[jnp.arange(40)[::-1]].T + y,
    ):
        check(f, x, y)
        assert keeps_tiles(f, x, y)


# ---- products -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_products_of_every_dtype(dtype: str) -> None:
    x, y = numbers((35, 41), dtypes.as_dtype(dtype)), numbers((41, 70), dtypes.as_dtype(dtype), 1)
    check(jnp.matmul, x, y, close=5e-2 if dtypes.as_dtype(dtype) in dtypes.HALF else 1e-4)
    assert keeps_tiles(jnp.matmul, x, y)


def test_narrow_operands_and_wide_results() -> None:
    x, y = numbers((20, 33), np.int8), numbers((33, 12), np.int8, 1)
    check(lambda x, y: jnp.matmul(x, y, preferred_element_type=np.int32), x, y)
    x, y = numbers((20, 33), np.float16), numbers((33, 12), np.float16, 1)
    check(lambda x, y: jnp.matmul(x, y, preferred_element_type=np.float32), x, y)


@pytest.mark.parametrize("seed", range(10))
def test_generated_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch, rows, columns, steps = "a", "bc", "de", "fg"
    few, many = [1, 2, 3], [1, 2, 3, 8, 9, 17]  # elements of a dim
    sizes = {d: int(rng.choice(few if d in "abdf" else many)) for d in "abcdefg"}
    orders = ["".join(rng.permutation(list(batch + own + steps))) for own in (rows, columns)]
    result = "".join(rng.permutation(list(batch + rows + columns)))
    shapes = [tuple(sizes[d] for d in x) for x in orders]

    def f(x: Any, y: Any) -> Any:
        z = jnp.einsum(f"{orders[0]},{orders[1]}->{result}", x, y)
        return jnp.tanh(z * 0.1) if seed % 2 else z

    check(f, *(numbers(shape, np.float32, n) for n, shape in enumerate(shapes)), close=1e-3)


def test_what_is_around_a_product_is_in_its_kernel() -> None:
    x, y, z = (numbers(s, np.float32, n) for n, s in enumerate([(40, 20), (20, 70), (70,)]))

    def f(x: Any, y: Any, z: Any) -> Any:
        return functrax.nn.gelu((x * 2) @ y + z)

    check(f, x, y, z, close=1e-4)
    (kernel,) = kernels(f, x, y, z)
    assert "product 32 8 8 2" in kernel.loops
    check(functrax.grad(lambda *args: f(*args).sum(), (0, 1, 2)), x, y, z, close=1e-3)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions(stride: int, padding: str) -> None:
    x, w = numbers((1, 8, 7, 8), np.float32), numbers((8, 8, 3, 2), np.float32, 1)

    def f(x: Any, w: Any) -> Any:
        return lax.conv(x, w, (stride, stride), padding)

    check(f, x, w, close=1e-3)
    assert keeps_tiles(f, x, w)
    check(functrax.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1)), x, w, close=1e-2)


@pytest.mark.parametrize("shape", [(3000, 9, 10), (1100, 9, 40)])
def test_long_sums_of_few_tiles(shape: tuple[int, ...]) -> None:
    x, y = numbers(shape[:2], np.float32), numbers((shape[0], shape[2]), np.float32, 1)
    check(lambda x, y: jnp.tanh((x.T @ y) * 0.01), x, y, close=1e-3)


def test_products_of_many_points_are_in_tiles() -> None:
    x = functrax.ShapeDtypeStruct((4096, 4096), np.float32)
    assert keeps_tiles(jnp.matmul, x, x)  # 2^36 products


# ---- faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize("product", [False, True])
def test_the_simulator_finds_missing_barriers(product: bool) -> None:
    x = numbers((40, 33), np.float32)
    program, runtime = program_of(lambda x: x @ x.T if product else x.T * 2, x), RUNTIMES[-1]
    barriers, found = 1, 0
    for missing in range(8):
        if missing == barriers:
            break

        def load(f: Any, module: Any, text: int, missing: int = missing) -> int:
            nonlocal barriers
            ptx = ctypes.string_at(text).decode()
            places = [m.span() for m in re.finditer(r"bar\.sync[^;]*;|barrier\.sync[^;]*;", ptx)]
            barriers = len(places)
            begin, end = places[missing]
            changed = ctypes.create_string_buffer((ptx[:begin] + ptx[end:]).encode())
            return int(f(module, ctypes.addressof(changed)))

        simulated = SimulatedDriver()
        gpu = runtime.gpu(altered(simulated, cuModuleLoadData=load), 0)
        with pytest.raises(DeviceError):
            (y,) = runtime.executable(program, gpu)([runtime.array.of(gpu, x)])
            np.asarray(y)
        found += isinstance(simulated.fault, KernelFault)
    assert found == barriers == (3 if product else 1)
