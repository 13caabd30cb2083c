"""The reference device: programs, what passes between them, and ``debug_nans``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from functrax.backends.device import run_jaxpr
from functrax.backends.reference.deferred import Deferred
from functrax.backends.reference.reference_device import _RULES
from functrax.core.errors.typed import NonFiniteError
from functrax.core.options.checking_contexts import debug_infs, debug_nans
from functrax.core.options.contexts import backend, enable_x64
from functrax.core.prims.arithmetic import add, div, mul, sub
from functrax.core.prims.reindex import broadcast_in_dim, full
from functrax.core.prims.slicing import slice_
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Elementwise, like, registry
from functrax.core.tracing.stage import stage
from functrax.core.types import dtypes
from functrax.transforms.differentiation.derivatives import grad
from functrax.transforms.mapping.vmap import vmap
from functrax.transforms.staging.jit import jit
from tests.backends.programs import dot, normal, peak, total, values


@pytest.fixture(autouse=True)
def on_the_reference_device() -> Iterator[None]:
    with backend("interp"):
        yield


def outer(x: Any, y: Any) -> Any:
    m, n = x.aval.shape[0], y.aval.shape[0]
    left = broadcast_in_dim.bind(x, shape=(m, n), dims=(0,))
    return mul.bind(left, broadcast_in_dim.bind(y, shape=(m, n), dims=(1,)))


def mlp_loss(params: Any, x: Any) -> Any:
    for w, b in params:
        y = dot(x, w)
        x = add.bind(y, broadcast_in_dim.bind(b, shape=y.aval.shape, dims=(1,)))
        x = mul.bind(x, x)
    return total(x)


def test_eager_and_compiled_give_the_same_bits() -> None:
    params = [
        (normal(1, 60, 90), normal(2, 90)),
        (normal(3, 90, 8), normal(4, 8)),
    ]
    x, batch = normal(0, 33, 60), normal(5, 3, 33, 60)
    each = vmap(mlp_loss, in_axes=(None, 0))
    for function, data in ((mlp_loss, x), (grad(mlp_loss), x), (each, batch)):
        once, compiled = function(params, data), jit(function)(params, data)
        for left, right in zip(values(once), values(compiled), strict=True):
            np.testing.assert_array_equal(left, right)


def test_results_of_rank_0_and_literals_are_arrays() -> None:
    x = normal(0, 3)
    out = jit(lambda x: (like(x, 2), x, total(x)))(x)
    assert [type(v) for v in values(out)] == [np.ndarray] * 3
    assert [v.shape for v in values(out)] == [(), (3,), ()]


def test_a_product_passes_through_calls_without_being_computed() -> None:
    n = 1000
    x, y = normal(0, n), normal(1, n)
    inner = jit(total)
    expected = x.value.astype(np.float64).sum() * y.value.astype(np.float64).sum()
    assert type(jit(outer)(x, y).buffer) is Deferred
    for function in (lambda x, y: inner(outer(x, y)), jit(lambda x, y: inner(outer(x, y)))):
        assert peak(function, x, y) < n * n
        assert float(function(x, y).value) == pytest.approx(expected, rel=1e-4)


def test_a_deferred_value_outlives_a_deleted_operand() -> None:
    x, y = normal(0, 100), normal(1, 100)
    expected = np.outer(x.value, y.value)
    out = outer(x, y)
    x.delete()
    np.testing.assert_array_equal(out.value, expected)


def test_results_cannot_be_written_through_numpy() -> None:
    x = normal(0, 100)
    spread = np.asarray(broadcast_in_dim.bind(x, shape=(100, 100), dims=(0,)))
    with pytest.raises(ValueError, match="read-only"):
        spread[0, 0] = 1


def test_repeated_operands_count_as_whole_arrays() -> None:
    x = normal(0, 100)
    wide = broadcast_in_dim.bind(x, shape=(100, 20, 30), dims=(0,))
    out = div.bind(add.bind(wide, like(wide, 1)), full(wide.aval.shape, like(wide, 3)))
    expected = ((x.value + 1) / np.float32(3))[:, None, None]
    np.testing.assert_array_equal(out.value, np.broadcast_to(expected, (100, 20, 30)))


def test_updates_are_computed() -> None:
    """What is put off must not pile up from one step of a training loop to the next."""
    p, g, row = normal(0, 100, 100), normal(1, 100, 100), normal(2, 100)
    rate = broadcast_in_dim.bind(as_value(np.float32(0.1)), shape=(100, 100), dims=())
    rows = broadcast_in_dim.bind(row, shape=(100, 100), dims=(0,))
    for scale in (rate, rows):
        assert type(sub.bind(p, mul.bind(scale, g)).buffer) is np.ndarray


def test_numpy_takes_raw_results_of_a_program() -> None:
    x, y = normal(0, 100), normal(1, 100)
    jaxpr, _ = stage(lambda x, y: [outer(x, y)], [x.aval, y.aval])
    (raw,) = run_jaxpr(jaxpr, [x.value, y.value])
    expected = np.outer(x.value, y.value)
    np.testing.assert_array_equal(np.stack([raw, raw]), [expected, expected])
    assert np.asarray(raw, np.float64).dtype == np.float64


def test_a_small_part_of_a_product_is_computed() -> None:
    x, y = normal(0, 100), normal(1, 100)

    def function(x: Any, y: Any) -> Any:
        part = slice_.bind(outer(x, y), start=(0, 0), limit=(3, 4), strides=(1, 1))
        return mul.bind(part, part)

    expected = np.outer(x.value[:3], y.value[:4]) ** 2
    for run in (function, jit(function)):
        np.testing.assert_array_equal(run(x, y).value, expected)


class TestDebugNans:
    def test_names_the_primitive_and_the_line(self) -> None:
        x = as_value(np.array([1, 0, -2], np.float32))
        zeros = as_value(np.zeros(3, np.float32))

        def function(x: Any, y: Any) -> Any:
            z = div.bind(y, x)  # the line at fault
            return add.bind(z, z)

        compiled = jit(function)
        compiled(x, zeros)  # traced without the option
        for run in (function, compiled):
            with debug_nans(), pytest.raises(NonFiniteError) as caught:
                run(x, zeros)
            assert str(caught.value.where).endswith("in function")
            line = function.__code__.co_firstlineno + 1
            assert f"test_reference.py:{line} " in str(caught.value.where)
            assert str(caught.value).startswith("debug_nans: div gave a NaN")
            assert "operand 1: f32[3] from -2 to 1" in str(caught.value)
            assert "0, 1 NaN" in str(caught.value)
            assert "at index (1,): 0.0, 0.0 gave nan" in str(caught.value)

    def test_checks_a_program_that_is_compiled_already(self) -> None:
        x = as_value(np.array([np.inf], np.float32))
        jaxpr, _ = stage(lambda x: [sub.bind(x, x)], [x.aval])
        assert np.isnan(run_jaxpr(jaxpr, [x.value])[0])
        with debug_nans(), pytest.raises(NonFiniteError, match="sub gave a NaN"):
            run_jaxpr(jaxpr, [x.value])

    def test_infinities_are_another_option(self) -> None:
        x = as_value(np.array([1.0, 0.0], np.float32))
        with debug_nans():
            div.bind(like(x, 1), x)
        with debug_infs(), pytest.raises(NonFiniteError, match="debug_infs: div gave an infinity"):
            div.bind(like(x, 1), x)

    def test_product_that_is_put_off(self) -> None:
        x, y = np.ones(100, np.float32), np.ones(100, np.float32)
        x[3], y[4] = np.inf, 0
        with debug_nans():
            outer(as_value(y), as_value(y))
            with pytest.raises(NonFiniteError, match="mul gave a NaN"):
                outer(as_value(x), as_value(y))

    def test_overflow_of_a_product_that_is_put_off(self) -> None:
        big = as_value(np.full(100, 1e30, np.float32))
        with debug_infs(), pytest.raises(NonFiniteError, match="mul gave an infinity"):
            outer(big, big)

    @pytest.mark.parametrize("name", ["bfloat16", "float16", "complex64", "float64"])
    def test_dtypes(self, name: str) -> None:
        with enable_x64():
            x = as_value(np.zeros(3, dtypes.as_dtype(name)))
            with debug_nans(), pytest.raises(NonFiniteError, match="div gave a NaN"):
                div.bind(x, x)

    def test_inner_programs_name_the_innermost_operation(self) -> None:
        x = as_value(np.zeros(3, np.float32))
        function = jit(lambda x: jit(lambda y: div.bind(y, y))(x))
        with debug_nans(), pytest.raises(NonFiniteError, match="div gave a NaN"):
            function(x)

    def test_integers_are_not_looked_at(self) -> None:
        x = as_value(np.arange(3, dtype=np.int32))
        with debug_nans(), debug_infs():
            np.testing.assert_array_equal(add.bind(x, x).value, [0, 2, 4])


def test_every_rule_agrees_with_the_family() -> None:
    """A rule is for a primitive that there is, and elementwise ones have one result."""
    assert set(_RULES) <= set(registry.values())
    for name in ("mul", "neg", "add", "sub", "convert_element_type"):
        assert isinstance(registry[name], Elementwise)
