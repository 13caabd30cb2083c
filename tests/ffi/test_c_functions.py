"""C functions by their address: of ctypes, of numba, of any library."""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from functrax.ffi import c_function, ffi_call

SOURCE = """
#include <stdint.h>
#include <math.h>

void twice(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = 2 * x[i];
}

/* Many arguments of all kinds, in an order of its own. */
void mixed(float* out, double a, int32_t n, const float* x, float b, int64_t m, const float* y,
           int8_t sign, int64_t c1, int64_t c2, int64_t c3, double d) {
  for (int32_t i = 0; i < n; ++i) {
    out[i] = (float)(a * x[i] + b * y[i] + sign * (double)(m + c1 + c2 + c3) + d);
  }
}

int checked(const double* x, double* sum, int64_t n) {
  *sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] < 0) return 17;
    *sum += x[i];
  }
  return 0;
}

/* XLA's older interface. */
void old_one(void* out, const void** in) {
  *(float*)out = *(const float*)in[0] + *(const float*)in[1];
}
void old_two(void* out, const void** in) {
  float** outs = (float**)out;
  outs[0][0] = ((const float*)in[0])[0] + 1;
  outs[1][0] = ((const float*)in[0])[0] + 2;
}

void slow_product(const double* x, const double* y, double* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * y[i];
}

void in_place(double* x, int64_t n) { for (int64_t i = 0; i < n; ++i) x[i] += 1; }
"""
X = np.arange(6, dtype=np.float32)


@pytest.fixture(scope="module")
def library(build: Any) -> ctypes.CDLL:
    return build(SOURCE)


def same_type(x: Any, *_: Any) -> Any:
    return x


def test_operands_results_and_a_size_by_default(library):
    twice = c_function(library.twice, same_type)
    np.testing.assert_array_equal(twice(X), 2 * X)
    np.testing.assert_array_equal(functrax.jit(twice)(X), 2 * X)
    np.testing.assert_array_equal(functrax.vmap(twice)(X.reshape(2, 3)), 2 * X.reshape(2, 3))
    np.testing.assert_array_equal(functrax.jit(lambda x: twice(x + 1) - 1)(X), 2 * X + 1)


@pytest.mark.parametrize("method", ["broadcast_all", "sequential", "sequential_unrolled"])
def test_vmap_methods(library, method):
    f = c_function(
        library.mixed,
        lambda x, y, **_: x,
        arguments=_mixed_arguments,
        vmap=method,
    )
    xs = np.arange(12, dtype=np.float32).reshape(4, 3)
    y = np.ones(3, np.float32)
    found = functrax.vmap(lambda x: f(x, y, a=2.0, n=1))(xs)
    np.testing.assert_allclose(found, 2 * xs + 0.5 * y - 10 + 0.25)


def _mixed_arguments(x: Any, y: Any, out: Any, a: float, n: int) -> tuple[Any, ...]:
    return (
        *(out, a, x.size, x, np.float32(0.5), n, y),
        *(-1, 2, 3, 4, 0.25),
    )


def test_arguments_in_any_order_with_numbers(library):
    f = c_function(library.mixed, lambda x, y, **_: x, arguments=_mixed_arguments)
    want = 3 * X + 0.5 * X - (7 + 9) + 0.25
    np.testing.assert_allclose(f(X, X, a=3.0, n=7), want)
    np.testing.assert_allclose(functrax.jit(lambda x: f(x, x, a=3.0, n=7))(X), want)


def test_status(library):
    with functrax.enable_x64():
        total = c_function(
            library.checked,
            functrax.ShapeDtypeStruct((), np.float64),
            arguments=lambda x, out: (x, out, x.size),
            status=True,
        )
        assert functrax.jit(total)(np.arange(4.0)) == 6
        for f in (total, functrax.jit(total)):
            with pytest.raises(errors.ForeignCallError, match=r"checked#.*returned 17"):
                f(np.array([1.0, -1.0]))


def test_types_are_compared_where_they_are_known(library):
    typed = library.twice
    typed.argtypes = [
        ctypes.POINTER(ctypes.c_float),
        ctypes.POINTER(ctypes.c_float),
        ctypes.c_int64,
    ]
    try:
        twice = c_function(typed, same_type)
        np.testing.assert_array_equal(functrax.jit(twice)(X), 2 * X)
        with pytest.raises(errors.DTypeError, match=r"argument 0 of twice#\d+ points to other"):
            functrax.jit(twice)(np.arange(3))
        more = c_function(typed, same_type, arguments=lambda x, out: (x, out))
        with pytest.raises(errors.ArgumentError, match="another number of arguments"):
            more(X)
        swapped = c_function(typed, same_type, arguments=lambda x, out: (x.size, out, x))
        with pytest.raises(errors.ArgumentError, match=r"argument 0 of twice#.* another type"):
            swapped(X)
    finally:
        typed.argtypes = None


def test_wrong_use_is_refused(library):
    with pytest.raises(errors.ArgumentError, match="not the address of a function"):
        c_function("twice", same_type)
    named = {"name": "named_of_test", "arguments": lambda x, out: (x, out, x.size)}
    c_function(library.twice, same_type, **named)
    with pytest.raises(errors.ArgumentError, match="c_function: another function has this name"):
        c_function(library.twice, same_type, name="named_of_test")
    with pytest.raises(errors.ArgumentError, match="one rule"):
        c_function(library.twice, same_type, jvp=same_type, vjp=same_type)
    with pytest.raises(errors.ArgumentError, match="unknown vmap method"):
        c_function(library.twice, same_type, vmap="all")
    f = c_function(library.twice, same_type, arguments=lambda x, out: (x, out, "n"))
    with pytest.raises(errors.ArgumentError, match="an array, an integer of 64 bits"):
        functrax.jit(f)(X)
    f = c_function(library.twice, same_type, arguments=lambda x, out: [x] * 65)
    with pytest.raises(errors.ArgumentError, match="no more than 64"):
        functrax.jit(f)(X)
    with pytest.raises(errors.ArgumentError, match="attributes go where"):
        c_function(library.twice, lambda x, **_: x)(X, a=1)


def product(library):
    """A product whose derivatives are such products again."""
    one = np.ones(3)
    f = c_function(
        library.slow_product,
        lambda x, y: x,
        vmap="broadcast_all",
        jvp=lambda xs, ts: (f(*xs), ts[0] * f(xs[1], one) + ts[1] * f(xs[0], one)),
    )
    return f


def test_derivatives_to_second_order(library):
    with functrax.enable_x64():
        f = product(library)
        x = np.array([1.5, -2.0, 0.5])

        def loss(x):
            return f(f(x, x), jnp.sin(x)).sum()

        def want(x):
            return (x * x * jnp.sin(x)).sum()

        for order in (functrax.grad, lambda g: functrax.jacfwd(functrax.grad(g)), functrax.hessian):
            np.testing.assert_allclose(order(loss)(x), order(want)(x), rtol=1e-12)
            np.testing.assert_allclose(functrax.jit(order(loss))(x), order(want)(x), rtol=1e-12)
        per_row = functrax.vmap(functrax.grad(loss))(np.stack([x, 2 * x]))
        np.testing.assert_allclose(per_row[1], functrax.grad(want)(2 * x), rtol=1e-12)


def test_backward_rule_to_second_order(library):
    with functrax.enable_x64():
        g = c_function(
            library.slow_product,
            lambda x, y: x,
            vmap="broadcast_all",
            vjp=lambda xs, out, ct: (g(ct, xs[1]), g(ct, xs[0])),
        )
        x = np.array([1.5, -2.0, 0.5])
        cube = lambda x: g(g(x, x), x).sum()
        np.testing.assert_allclose(functrax.grad(cube)(x), 3 * x * x)
        second = functrax.grad(lambda x: functrax.grad(cube)(x).sum())
        np.testing.assert_allclose(functrax.jit(second)(x), 6 * x)


def test_vmap_rule(library):
    seen = []

    def rule(size, batched, x):
        seen.append((size, batched))
        return f(x), True

    f = c_function(library.twice, same_type, vmap=rule)
    xs = X.reshape(2, 3)
    np.testing.assert_array_equal(functrax.vmap(f)(xs), 2 * xs)
    assert seen[0][0] == 2


def test_older_interface(library):
    functrax.ffi.register_ffi_target(
        "old_one", functrax.ffi.pycapsule(library.old_one), api_version=0
    )
    functrax.ffi.register_ffi_target(
        "old_two", functrax.ffi.pycapsule(library.old_two), api_version=0
    )
    scalar = functrax.ShapeDtypeStruct((), np.float32)
    one = ffi_call("old_one", scalar, custom_call_api_version=1)
    two = ffi_call("old_two", (scalar, scalar), custom_call_api_version=1)
    for transform in (functrax.jit, lambda f: f):
        assert transform(one)(np.float32(1), np.float32(2)) == 3
        assert tuple(map(float, transform(two)(np.float32(1)))) == (2, 3)
    with pytest.raises(errors.ArgumentError, match="another version of the interface"):
        ffi_call("old_one", scalar)(np.float32(1), np.float32(2))
    with pytest.raises(errors.ArgumentError, match="attributes need"):
        one(np.float32(1), np.float32(2), a=1)


def test_operands_in_the_memory_of_results(library):
    with functrax.enable_x64():
        type_ = functrax.ShapeDtypeStruct((4,), np.float64)
        name = "in_place_of_test"
        c_function(library.in_place, type_, arguments=lambda x, out: (x, x.size), name=name)
        f = ffi_call(name, type_, input_output_aliases={0: 0})
        x = np.arange(4.0)
        for transform in (functrax.jit, lambda f: f):
            a = jnp.asarray(x)
            np.testing.assert_array_equal(transform(f)(a), x + 1)
            np.testing.assert_array_equal(a, x)  # which others see
            both = transform(lambda x: (f(x), x + 0, f(x * 2)))(a)
            for found, want in zip(both, (x + 1, x, 2 * x + 1), strict=True):
                np.testing.assert_array_equal(found, want)
        looped = functrax.jit(lambda x: functrax.lax.fori_loop(0, 10, lambda _, c: f(c), x))
        np.testing.assert_array_equal(looped(x), x + 10)


def test_threads_run_it_without_the_lock(library):
    f = functrax.jit(c_function(library.twice, same_type))
    f(X)
    found: list[Any] = [None] * 8

    def run(k):
        for _ in range(200):
            found[k] = np.asarray(f(X + k))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(8):
        np.testing.assert_array_equal(found[k], 2 * (X + k))


def test_functions_of_python_may_be_called_back():
    """A function of ctypes that is Python takes the lock, which the program has given up."""
    pointer = ctypes.POINTER(ctypes.c_float)

    @ctypes.CFUNCTYPE(None, pointer, pointer, ctypes.c_int64)
    def negative(x, out, n):
        for i in range(n):
            out[i] = -x[i]

    f = c_function(negative, same_type, vmap="broadcast_all")
    np.testing.assert_array_equal(functrax.jit(f)(X), -X)
    np.testing.assert_array_equal(functrax.vmap(f)(X.reshape(3, 2)), -X.reshape(3, 2))


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is not installed")
def test_numba():
    import numba

    @numba.cfunc(numba.void(*[numba.types.CPointer(numba.float32)] * 2, numba.int64))
    def squared(x, out, n):
        for i in range(n):
            out[i] = x[i] * x[i]

    f = c_function(squared, same_type)
    np.testing.assert_array_equal(functrax.jit(f)(X), X * X)
    with pytest.raises(errors.DTypeError):
        f(np.arange(3))
