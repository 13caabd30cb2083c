"""The model of cost: what counts, and that it has one unit."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.cost import about, launch_ns, moving_ns, size_class
from functrax.backends.kernels.math import EXPANSIONS, FUNCTION_OPERATIONS
from functrax.backends.targets import target
from functrax.core.scalars.scalar import MATH, Builder, Scalar


def operations(name):
    """The operations that a function is written with, eight for a quotient or a square root."""
    operands = [Scalar("acc", np.dtype(np.float32), (), (n,)) for n in range(MATH[name])]
    waiting, seen, count = [EXPANSIONS[name](Builder(), *operands)], set(), 0
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.args:
            count += 8 if node.op in ("div", "rem", "sqrt") else 1
        waiting += node.args[:1] if node.op == "unlikely" else node.args
    return count


@pytest.mark.parametrize("name", sorted(MATH))
def test_functions_count_as_what_they_are_written_with(name):
    assert abs(operations(name) - FUNCTION_OPERATIONS[name]) <= 0.1 * FUNCTION_OPERATIONS[name] + 2


def cost(function, *shapes):
    """The predicted nanoseconds of the kernels of a function."""
    explained = functrax.explain(function)(*[jnp.ones(shape, jnp.float32) for shape in shapes])
    return sum(code.cost for k in explained.kernels for code in k.codes)


def test_work_grows_with_sizes_and_operations():
    small, large = (cost(lambda x: x * 2 + 1, (n,)) for n in (1 << 16, 1 << 20))
    assert 8 < large / small < 64  # the large one does not fit the cache
    assert cost(lambda x: jnp.exp(jnp.tanh(x)), (1 << 16,)) > 2 * small


def test_elements_that_lie_anywhere_cost_more_than_neighbours():
    ids = np.random.default_rng(0).permutation(4096)
    assert cost(lambda x: x[ids], (4096,)) > cost(lambda x: x + 1, (4096,))
    assert cost(lambda x: x[::9] + 1, (9 * 4096,)) > cost(lambda x: x + 1, (4096,))


def test_what_does_not_depend_on_an_inner_loop_is_done_outside_of_it():
    inside = cost(lambda x, y: (jnp.exp(x * y[:, None])).sum(1), (64, 512), (64,))
    outside = cost(lambda x, y: (x * jnp.exp(y)[:, None]).sum(1), (64, 512), (64,))
    assert outside < inside / 2


def test_it_is_in_nanoseconds():
    here = target()
    assert launch_ns((), (0.0,), (), here) == here.launch_ns
    done = launch_ns((10, 100), (1.0, 2.0, 3.0), ((4, 4),), here) - here.launch_ns
    assert done == pytest.approx((1 + 20 + 3000) * here.cycle_ns, abs=1)
    assert moving_ns(1 << 30, here) == (1 << 30) * here.byte_ns
    assert moving_ns(1 << 10, here) == 0


def test_costs_of_what_moves_are_those_of_classes_of_sizes():
    found = [size_class(n) for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 96, 97, 128, 129, 384, 1000, 1024)]
    assert found == [0, 1, 2, 3, 4, 6, 6, 6, 8, 96, 96, 128, 192, 384, 768, 1024]
    assert all(2 * n <= 3 * size_class(n) <= 4.5 * n for n in range(1, 3000))
    assert about((5, 100)) == 6 * 96 and about(()) == 1 and about((7, 0)) == 0
