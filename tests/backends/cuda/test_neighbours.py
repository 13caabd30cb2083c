"""Rows of which a thread does several neighbouring points at once, with one access for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.cuda.choice import observed_gpu
from functrax.backends.device import executable_of
from tests.backends.cuda.compared import check, kernels, numbers, on_the_gpu

ROWS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(1),
    "maximum": lambda x: x.max(1),
    "where the maximum is": lambda x: jnp.argmax(x, 1),
    "softmax": functrax.nn.softmax,
    "layer norm": lambda x: (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1),
    "scaled": lambda x: functrax.nn.softmax(x) * x[0] + x[:, :1],
    "two results": lambda x: (functrax.nn.softmax(x), x.sum(1)),
    "a row of others": lambda x: functrax.nn.softmax(x[jnp.array([1, 0, 2, 2])]),
    "backwards": lambda x: functrax.nn.softmax(x[:, ::-1]),
}


@pytest.mark.parametrize("length", [12, 64, 300, 1028, 2048])
@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, length: int) -> None:
    check(ROWS[name], numbers((3, length), np.float32))


@pytest.mark.parametrize("length", [64, 66, 67])
@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.complex64])
def test_dtypes(dtype: Any, length: int) -> None:
    with functrax.enable_x64():
        check(
            lambda x: (x.sum(1), x.max(1), x - x.max(1, keepdims=True)), numbers((3, length), dtype)
        )


@pytest.mark.parametrize(
    ("length", "count"), [(64, 4), (66, 2), (67, 0), (8, 4), (6, 2), (1028, 4)]
)
def test_how_many_points_are_done_at_once(length: int, count: int) -> None:
    for name, keeps in (("sum", 0), ("softmax", 1)):
        (kernel,) = kernels(ROWS[name], numbers((3, length), np.float32))
        assert (f"    neighbours {count} {keeps} d1" in kernel.loops) == (count > 0)
        assert ("ld.global.v4" in kernel.assembly) == (count == 4)
        if keeps:
            assert ("st.global.v4" in kernel.assembly) == (count == 4)


@pytest.mark.parametrize("name", ["sum", "softmax", "layer norm"])
def test_bits_do_not_depend_on_where_arrays_begin(name: str) -> None:
    x, found = numbers((3, 300), np.float32), []
    with on_the_gpu():
        gpu = observed_gpu()
        program = executable_of(functrax.make_jaxpr(ROWS[name])(x).jaxpr)
        (launch,) = [y for y in program.program.instructions if hasattr(y, "units")]
        code, size = launch.owner, 3 if name == "sum" else x.size
        kernel = gpu.load(code.ptx, code.name)
        given = np.asarray(launch.params or (0,), np.int64)
        for moved in (0, 4):
            blocks = [gpu.allocate(x.nbytes + 16, "the test")[0] for _ in range(2)]
            first, second = (block.address + moved for block in blocks)
            gpu.put(first, x.view(np.uint8))
            gpu.launch(kernel, code.grid(launch.units), code.block, [first, second], given)
            result = np.empty(size, np.float32)
            gpu.download(second, result.view(np.uint8), gpu.mark())
            found.append(result)
    np.testing.assert_array_equal(*found)
    want = np.asarray(functrax.jit(ROWS[name])(x)).reshape(-1)
    np.testing.assert_allclose(found[0], want, 1e-5, 1e-6)


def test_columns_of_many_rows_are_done_in_blocks() -> None:
    (kernel,) = kernels(lambda x: x.sum(0), numbers((400, 300), np.float32))
    assert kernel.loops.count("kernel reduce_sum") == 2 and "block d0 32" in kernel.loops
    (kernel,) = kernels(lambda x: x.sum(0), numbers((100, 300), np.float32))
    assert "block d0" not in kernel.loops
    check(lambda x: (x.sum(0), x.max(0)), numbers((400, 300), np.float32))
    check(lambda x: x.sum(0), numbers((3000, 2), np.float32))  # whose blocks a group adds up
