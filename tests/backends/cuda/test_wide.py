"""Maps whose threads do several points at once, with one access of memory for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.cuda.choice import observed_gpu
from functrax.backends.device import executable_of
from functrax.backends.targets import nvptx
from functrax.core.records import replace
from functrax.core.types import dtypes
from tests.backends.cuda.compared import check, kernels, numbers, on_the_gpu

SHAPES = [(64,), (70,), (5,), (3, 16), (5, 7), (5, 32)]
DTYPES = ("bool", "int8", "uint16", "float16", "bfloat16", "float32", "int64", "float64")


@pytest.fixture(autouse=True)
def few_threads_are_enough(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(nvptx, "_THREAD", replace(nvptx._THREAD, busy_threads=1))
    with functrax.enable_x64():
        yield


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions(dtype: str, shape: tuple[int, ...]) -> None:
    def f(x: Any) -> Any:
        names = ("int8", "float16", "float32", "int64") if dtype != "bool" else ("bool", "float32")
        return [(x | x if dtype == "bool" else x + x).astype(name) for name in names]

    check(f, numbers(shape, dtypes.as_dtype(dtype)))


MAPS: dict[str, Callable[[Any], Any]] = {
    "bias": lambda x: jnp.tanh(x) + x[0],
    "one for each row": lambda x: x * x[:, :1],
    "transpose": lambda x: x.T * 2,
    "slice": lambda x: x[:, 1:] * 2,
    "aligned slice": lambda x: x[:, 4:] * 2,
    "backwards": lambda x: x[:, ::-1] * 2,
    "padded": lambda x: jnp.pad(x, 1) * 2,
    "side by side": lambda x: jnp.concatenate([x, x * 2], 1),
    "gathered rows": lambda x: x[jnp.array([1, 0, 3])] * 2,
    "indices": lambda x: x * jnp.arange(32) + jnp.arange(6)[:, None],
    "random numbers": lambda x: functrax.random.normal(functrax.random.key(3), x.shape) + x,
    "complex": lambda x: x * 1j,
    "several results": lambda x: (x + 1, x > 0, x.astype(jnp.int8)),
}


@pytest.mark.parametrize("name", MAPS)
def test_maps(name: str) -> None:
    check(MAPS[name], numbers((6, 32), np.float32))


@pytest.mark.parametrize(
    ("f", "dtype", "read", "written"),
    [
        (lambda x: x * 2, "float32", "ld.global.v4.b32", "st.global.v4.b32"),
        (lambda x: x * 2, "float64", "ld.global.v2.b64", "st.global.v2.b64"),
        (lambda x: x * 2, "float16", "ld.global.v4.b32", "st.global.v4.b32"),
        (lambda x: x * 2, "int8", "ld.global.v4.b32", "st.global.v4.b32"),
        (lambda x: x.astype(jnp.float32), "bfloat16", "ld.global.v4.b16", "st.global.v4.b32"),
        (lambda x: x > 0, "float32", "ld.global.v4.b32", "st.global.b32"),
    ],
)
def test_accesses(f: Callable[[Any], Any], dtype: str, read: str, written: str) -> None:
    (kernel,) = kernels(f, numbers((6, 32), dtypes.as_dtype(dtype)))
    assert "points " in kernel.loops
    assert read in kernel.assembly and written in kernel.assembly


@pytest.mark.parametrize("name", ["transpose", "slice", "backwards", "complex"])
def test_what_is_not_contiguous_is_done_point_by_point(name: str) -> None:
    for kernel in kernels(MAPS[name], numbers((6, 32), np.float32)):
        assert "    points " not in kernel.loops


def test_few_points_are_done_by_a_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (kernel,) = kernels(lambda x: x * 2, numbers((100, 100), np.float32))
    assert "    points " not in kernel.loops
    (kernel,) = kernels(lambda x: x * 2, numbers((512, 512), np.float32))
    assert "    points 4 d0" in kernel.loops


@pytest.mark.parametrize("moved", [0, 4])
def test_arrays_that_do_not_begin_at_a_whole_access(moved: int) -> None:
    x = numbers((40,), np.float32)
    with on_the_gpu():
        gpu = observed_gpu()
        program = executable_of(functrax.make_jaxpr(lambda x: x * 2 + 1)(x).jaxpr)
        (launch,) = [y for y in program.program.instructions if hasattr(y, "units")]
        code = launch.owner
        blocks = [gpu.allocate(x.nbytes + 16, "the test")[0] for _ in range(2)]
        first, second = (block.address + moved for block in blocks)
        gpu.put(first, x.view(np.uint8))
        kernel = gpu.load(code.ptx, code.name)
        given = np.asarray(launch.params or (0,), np.int64)
        gpu.launch(kernel, code.grid(launch.units), code.block, [first, second], given)
        found = np.empty_like(x)
        gpu.download(second, found.view(np.uint8), gpu.mark())
    np.testing.assert_array_equal(found, x * 2 + 1)
