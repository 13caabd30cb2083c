"""What callbacks may return, and how they are mapped."""

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.errors.typed import CallbackResultError, DifferentiationError, VmapMethodError
from functrax.experimental import io_callback

F32 = functrax.ShapeDtypeStruct((), "float32")
CALLBACKS = [functrax.pure_callback, io_callback]


@pytest.mark.parametrize("call", CALLBACKS)
@pytest.mark.parametrize("result", [3, np.int32(3), np.float16(3), 1j])
def test_another_dtype_than_declared_is_refused(call: Any, result: Any) -> None:
    for run in (lambda f: f, functrax.jit):
        with pytest.raises(CallbackResultError, match="Incorrect output dtype for return value"):
            run(lambda: call(lambda: result, F32))().block_until_ready()


@pytest.mark.parametrize("call", CALLBACKS)
def test_64_bit_results_become_32_bit_ones_unless_x64_is_on(call: Any) -> None:
    assert call(lambda: np.float64(2.5), F32) == 2.5
    assert call(lambda: 2, functrax.ShapeDtypeStruct((), "int32")) == 2
    with functrax.enable_x64(), pytest.raises(RuntimeError, match="Incorrect output dtype"):
        call(lambda: np.float64(2.5), F32).block_until_ready()


@pytest.mark.parametrize("call", CALLBACKS)
def test_64_bit_types_cannot_be_declared_unless_x64_is_on(call: Any) -> None:
    class Double:
        shape, dtype = (), np.dtype("float64")

    with pytest.raises(ValueError, match="cannot specify 64-bit types"):
        call(lambda: np.float64(2.5), Double())
    with functrax.enable_x64():
        assert call(lambda: np.float64(2.5), Double()).dtype == np.float64


@pytest.mark.parametrize("result", [(1.0, 2.0), np.zeros(3, np.float32)])
def test_wrong_results_are_runtime_errors_too(result: Any) -> None:
    for kind in (RuntimeError, ValueError, TypeError):
        with pytest.raises(kind):
            functrax.pure_callback(lambda: result, F32).block_until_ready()


def test_legacy_vectorized_leaves_arguments_that_are_not_mapped_alone() -> None:
    def add(x: Any, y: Any) -> Any:
        assert x.shape == (3,) and y.shape == ()
        return x + y

    mapped = functrax.vmap(
        lambda x, y: functrax.pure_callback(add, F32, x, y, vmap_method="legacy_vectorized"),
        in_axes=(0, None),
    )
    assert mapped(jnp.arange(3.0), 1.0).tolist() == [1, 2, 3]


def test_no_vmap_method() -> None:
    mapped = functrax.vmap(lambda x: functrax.pure_callback(np.sin, F32, x))
    with pytest.raises(VmapMethodError, match="vmap is only supported") as info:
        mapped(jnp.ones(2))
    assert isinstance(info.value, NotImplementedError)
    assert mapped(jnp.zeros(1)).tolist() == [0]


@pytest.mark.parametrize(
    ("call", "name"), [(functrax.pure_callback, "Pure callbacks"), (io_callback, "IO callbacks")]
)
def test_callbacks_have_no_derivatives(call: Any, name: str) -> None:
    def f(x: Any) -> Any:
        return call(np.sin, F32, x)

    with pytest.raises(ValueError, match=f"{name} do not support JVP"):
        functrax.grad(f)(1.0)
    with pytest.raises(DifferentiationError, match=f"{name} do not support transpose"):
        functrax.linear_transpose(f, np.float32(1))(1.0)
