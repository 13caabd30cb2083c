"""Programs flush subnormal numbers to zero outside of strict mode, and Python code never does."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation.compiler import compile_program
from functrax.backends.device import device_of
from functrax.backends.executables.program import RuntimeProgram
from functrax.backends.runtime import subnormals
from functrax.backends.runtime.choice import NATIVE, Runtime
from functrax.core.options.config import Override

pytest.importorskip("llvmlite")

LEAST = np.float32(np.finfo(np.float32).tiny)
SMALL = LEAST / np.float32(4)
ONE = np.float32(1)


def python_flushes() -> bool:
    """Whether this thread does now, as NumPy sees it."""
    return bool(np.multiply(np.full(4, SMALL), ONE).any()) is False


@pytest.fixture(autouse=True)
def _python_never_flushes() -> Iterator[None]:
    assert not python_flushes()
    yield
    assert not python_flushes()


def compiled(function: Callable[..., Any], *args: Any) -> RuntimeProgram:
    return compile_program(functrax.make_jaxpr(function)(*args).jaxpr).program


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_operands_and_results_are_flushed(runtime: Runtime, dtype: Any) -> None:
    least = dtype(np.finfo(dtype).tiny)
    x, half = np.array([least / 4, -least / 4, least, 1], dtype), dtype(0.5)
    with functrax.enable_x64():
        program = compiled(lambda x, c: (x * c, x + x, (x > 0) * 1.0), x, half)
        with Override("strict", True):
            strict = compiled(lambda x, c: (x * c, x + x, (x > 0) * 1.0), x, half)
    product, total, positive = (np.asarray(y) for y in runtime.load(program)([x, half]))
    np.testing.assert_array_equal(product, [0, 0, 0, 0.5])
    np.testing.assert_array_equal(np.signbit(product), [False, True, False, False])
    np.testing.assert_array_equal(total, [0, 0, 2 * least, 2])
    np.testing.assert_array_equal(positive, [0, 0, 1, 1])
    product, total, positive = (np.asarray(y) for y in runtime.load(strict)([x, half]))
    np.testing.assert_array_equal(product, x * half)
    np.testing.assert_array_equal(total, x + x)
    np.testing.assert_array_equal(positive, [1, 0, 1, 1])


@pytest.mark.parametrize("strict", [False, True])
def test_all_threads_do_the_same(runtime: Runtime, strict: bool) -> None:
    """Also after loops of the other mode, whose workers are the same."""
    runtime.set_num_threads(3)
    x = np.full(3_000_000, SMALL)
    calls = {}
    for mode in (True, False):
        with Override("strict", mode):
            calls[mode] = runtime.load(compiled(lambda x, c: x * c, x, ONE))
    for mode in (not strict, strict, not strict, strict):
        np.testing.assert_array_equal(calls[mode]([x, ONE])[0], x if mode else np.zeros_like(x))


def test_python_functions_do_not_flush(runtime: Runtime) -> None:
    seen = []

    def look(x: Any) -> Any:
        seen.append(python_flushes())
        return x * ONE

    def function(x: Any) -> Any:
        y = functrax.pure_callback(look, functrax.ShapeDtypeStruct((4,), np.float32), x * 2)
        return y * ONE, y

    x = np.full(4, SMALL)
    flushed, kept = runtime.load(compiled(function, x))([x])
    assert seen == [False]
    x = np.full(4, LEAST)
    flushed, kept = runtime.load(compiled(lambda x: function(x * 0.5), x))([x])
    assert seen == [False, False] and not np.asarray(flushed).any() and not np.asarray(kept).any()


def test_a_python_function_that_raises(runtime: Runtime) -> None:
    def fail(_: Any) -> Any:
        raise ValueError("on purpose")

    shape = functrax.ShapeDtypeStruct((4,), np.float32)
    x = np.full(4, SMALL)
    call = runtime.load(compiled(lambda x: functrax.pure_callback(fail, shape, x * 2) * 2, x))
    with pytest.raises(ValueError, match="on purpose"):
        call([x])
    assert not python_flushes()


@pytest.mark.skipif(NATIVE is None, reason="the C++ runtime handles signals")
def test_signal_handlers_do_not_flush() -> None:
    seen = []

    def handler(*_: Any) -> None:
        seen.append(python_flushes())
        raise KeyboardInterrupt

    endless = functrax.jit(
        lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] * 1.0, c[1] * 0.5), (0.0, n))
    )
    endless(np.float32(-1))
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            endless(np.float32(3))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen == [False] and not python_flushes()


def test_a_thread_that_flushes_itself_has_ieee_numbers_in_strict_mode() -> None:
    x = np.full(4, SMALL)
    with Override("strict", True):
        function = functrax.jit(lambda x, c: x * c)
        function(x, ONE)
        before = subnormals.flush(True)
        try:
            found = function(x, ONE)
            still = subnormals.flush(True)
        finally:
            subnormals.flush(before)
    assert not before and still
    np.testing.assert_array_equal(found, x)


def test_programs_that_run_while_python_goes_on() -> None:
    x = jnp.asarray(np.full(2_000_000, SMALL))
    with Override("async_dispatch", True):
        out = functrax.jit(lambda x, c: jnp.sin(x * c) + x)(x, ONE)
        assert not python_flushes()
        assert not np.asarray(out).any()


@pytest.mark.parametrize("size", [5, 500_000])
@pytest.mark.parametrize("eager", ["lazy", "immediate"])
def test_operations_outside_of_jit(size: int, eager: str) -> None:
    """By NumPy, or as a program: with the same bits."""
    x = jnp.asarray(np.tile(np.array([SMALL, -SMALL, LEAST, 1, 0], np.float32), size // 5))
    with functrax.eager(eager):
        for function in (lambda x: x * 0.5, lambda x: (x + x) / 4, lambda x: x.max() * 0.5):
            with Override("strict", True):
                np.testing.assert_array_equal(function(x), function(np.asarray(x)))
            found = np.asarray(function(x))
            expected = subnormals.in_mode(True, function, np.asarray(x))
            np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))
    assert not np.asarray(x * 0.5)[:3].any()


def test_what_only_moves_numbers_keeps_them() -> None:
    x = np.array([SMALL, -SMALL, LEAST, 1], np.float32)
    moved = functrax.jit(lambda x: (x[::-1], jnp.abs(x), -x, jnp.where(x < 2, x, 0.0), jnp.sort(x)))
    expected = (x[::-1], np.abs(x), -x, x, np.sort(x))
    for found, wanted in zip(moved(x), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    bits = functrax.jit(lambda x: lax.bitcast_convert_type(x, np.uint32))(x)
    np.testing.assert_array_equal(bits, x.view(np.uint32))


@pytest.mark.parametrize("jit", [functrax.jit, lambda f: f])
def test_the_next_number_is_by_bits(jit: Any) -> None:
    x = np.array([0, -0.0, SMALL, -SMALL, LEAST, -LEAST, 1], np.float32)
    for y in (np.full(7, LEAST), np.full(7, -1, np.float32), x, np.zeros(7, np.float32)):
        found = np.asarray(jit(jnp.nextafter)(x, y))
        np.testing.assert_array_equal(found.view(np.uint32), np.nextafter(x, y).view(np.uint32))


def test_subnormal_float16_is_a_number_like_others() -> None:
    """It is computed in float32, where it is not subnormal."""
    x = np.array([2.0**-20, 2.0**-24], np.float16)
    np.testing.assert_array_equal(functrax.jit(lambda x: x * 2)(x), x * np.float16(2))
    np.testing.assert_array_equal(functrax.jit(lambda x: x.astype(np.float32))(x), x)


def test_the_reference_keeps_them() -> None:
    x = np.full(4, SMALL)
    found = device_of("interp").compile(functrax.make_jaxpr(lambda x: x + x)(x).jaxpr)([x])
    np.testing.assert_array_equal(found[0], x + x)
