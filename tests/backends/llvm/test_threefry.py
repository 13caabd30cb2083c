"""Random bits in kernels that need them at one place, and at several."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.compilation.codegen import group_code
from functrax.backends.compilation.pipeline import run_pipeline
from functrax.backends.kernels.ir import ordered
from functrax.backends.llvm.function_calls import MANY_POINTS
from functrax.backends.passes.groups import fused
from functrax.core.prims.bitwise import threefry2x32
from functrax.core.prims.lowered_bits import threefry2x32 as threefry_words
from functrax.core.prims.threefry_values import threefry2x32 as values
from functrax.core.scalars.scalar import THREEFRY, WORK, Builder
from functrax.core.types import dtypes

KEY = np.array([0x13198A2E, 0x03707344], np.uint32)


def chain(count):
    """A function whose words are as many times the counters of others."""

    def f(key, x):
        y = x
        for _ in range(count):
            x, y = threefry2x32.bind(
                jnp.broadcast_to(key[0], x.shape), jnp.broadcast_to(key[1], x.shape), y, x
            )
        return x, y

    return f


def calls(count, size):
    """The functions that the kernel of a chain calls, by their texts."""
    jaxpr = functrax.make_jaxpr(chain(count))(KEY, np.zeros(size, np.uint32)).jaxpr
    (eqn,) = run_pipeline(jaxpr).program.eqns
    assert eqn.primitive is fused
    (kernel,) = group_code(eqn).kernels
    return [text for _, text in kernel.emitted.calls]


@pytest.mark.parametrize("size", [1, 2, 37, MANY_POINTS], ids=str)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_words_are_those_of_the_reference(count, size):
    x = np.arange(size, dtype=np.uint32)
    found = functrax.jit(chain(count))(KEY, x)
    y = x
    for _ in range(count):
        x, y = values(KEY[0], KEY[1], y, x)
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], y)


def test_small_kernels_with_several_call_one_function():
    (text,) = calls(3, 16)
    assert calls(2, 16) == [text]


def test_others_have_the_instructions_in_place():
    assert calls(1, 16) == []
    assert calls(3, MANY_POINTS) == []


def test_it_counts_as_the_operations_that_it_is():
    b = Builder()
    words = threefry_words(b, *[b.node("argument", dtypes.uint32, (), k) for k in range(4)])
    assert sum(bool(node.args) for node in ordered(words)) == WORK[THREEFRY]
