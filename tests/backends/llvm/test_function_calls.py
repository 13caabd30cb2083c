"""Functions of floats as calls, in kernels that have many of one kind."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.compilation.compiler import CompiledProgram
from functrax.backends.kernels.math import EXPANSIONS
from functrax.backends.llvm import function_calls
from functrax.backends.llvm.templates import llvm_type
from functrax.backends.machine_code.kernel_jit import request
from functrax.core.options.config import Override
from functrax.core.scalars.scalar import MATH, Builder
from functrax.core.types import dtypes
from tests.backends.llvm.scalar_kernels import function_name

FUNCTIONS = {
    "tanh": (jnp.tanh, 1.5),
    "log1p": (lambda x: jnp.log1p(x * x), 1.5),
    "exp": (lambda x: jnp.exp(-x * x), 1.1),
    "atan2": (lambda x: jnp.arctan2(x, 1.5 - x), 1.2),
}


def chain(function, scale, count):
    def f(x):
        for _ in range(count):
            x = function(x) * scale + 0.125
        return x

    return f


def works(jitted):
    """How the groups of a jitted function are computed."""
    (traced,) = jitted._cache.values()
    (compiled,) = [v for v in traced.jaxpr.memo.values() if isinstance(v, CompiledProgram)]
    return [w for w in compiled.works if w.code]


def texts(jitted):
    """The LLVM IR of the kernels of a jitted function."""
    return [k.emitted.text for w in works(jitted) for k in w.code.kernels]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(37,), (), (5, 64)], ids=str)
def test_calls_give_the_bits_of_what_is_written_in_place(name, shape, monkeypatch):
    x = jnp.asarray(np.random.default_rng(0).uniform(-2, 2, shape).astype(np.float32))
    function, scale = FUNCTIONS[name]
    found = {}
    for most in (function_calls.FEW_IN_PLACE, 1000):
        monkeypatch.setattr(function_calls, "FEW_IN_PLACE", most)
        with Override("strict", True):
            f = functrax.jit(chain(function, scale, 20))
            found[most] = np.asarray(f(x))
        called = [t for t in texts(f) if f"@functrax.math.{name}.float32" in t]
        assert bool(called) == (most < 20)
        for w in works(f):
            w.eqn.params["jaxpr"].memo.clear()  # equal groups share their code
    first, second = found.values()
    assert first.tobytes() == second.tobytes()
    with functrax.backend("interp"):
        wanted = np.asarray(chain(function, scale, 20)(x))
    np.testing.assert_allclose(first, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "most"),
    [(64, function_calls.FEW_IN_PLACE), (function_calls.MANY_POINTS, function_calls.IN_PLACE)],
)
def test_few_are_written_in_place(size, most):
    f = functrax.jit(chain(jnp.tanh, 0.9, most))
    f(jnp.ones(size))
    assert all("functrax.math" not in t for t in texts(f))
    f = functrax.jit(chain(jnp.tanh, 0.9, most + 1))
    f(jnp.ones(size))
    (text,) = texts(f)
    assert text.count("define internal") == 1
    assert function_name(text) == "functrax_kernel"


def test_a_function_that_branches_is_always_called():
    f = functrax.jit(jnp.sin)
    f(jnp.ones(64))
    (text,) = texts(f)
    assert text.count("define internal") == 1
    assert function_name(text) == "functrax_kernel"


@pytest.mark.parametrize("name", EXPANSIONS)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_every_function_compiles(name, dtype):
    builder = Builder()
    operands = [builder.node("given", dtype, (), n) for n in range(MATH[name])]
    node = builder.math(name, *operands)
    calls = function_calls.FunctionCalls([node] * (function_calls.IN_PLACE + 1), 1)
    assert calls.calls(node)
    lanes = 16
    type_ = llvm_type(dtype, lanes)
    call = calls.call(node, ["%x"] * len(operands), lanes)
    (function,) = calls.texts.values()
    text = f"""{function}
define void @functrax_kernel(ptr %buffers, ptr %numbers, i64 %begin, i64 %end) {{
  %x = load {type_}, ptr %buffers
  %y = {call}
  store {type_} %y, ptr %buffers
  ret void
}}
"""
    assert request(text).compiled.address
