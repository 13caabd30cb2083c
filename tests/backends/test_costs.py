"""Bytes and operations of groups, against counting by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compile_log import CompileLog, logged, step
from functrax.backends.passes.memory.costs import Operations, elements_read, operations
from functrax.core.ir.jaxpr import all_eqns

X = np.ones((8, 6), np.float32)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda x: x + 1, 48),
        (lambda x: x[2:5], 18),
        (lambda x: x[::2, 1:3] * 2, 8),
        (lambda x: x[2:5] + x[3:6], 24),  # rows 2 to 5
        (lambda x: x[:, ::-1][:, :2].T, 16),
        (lambda x: x[1:2] + jnp.zeros((3, 6)), 6),
        (lambda x: jnp.pad(x[0], 2), 6),
        (lambda x: jnp.pad(x, ((2, 2), (2, 2)))[1:4, 1:4], 4),
        (lambda x: jnp.concatenate([x, x * 2])[6:10], 24),
        (lambda x: x[0].reshape(2, 3)[1], 3),  # at places that are not known
        (lambda x: jnp.broadcast_to(x[:, :1], (8, 5)), 8),
        (lambda x: x[np.array([1, 1, 2])], 18),  # a bound: the indices are values
        (lambda x: jnp.exp(x)[np.array([1, 1])], 12),  # computed for two rows
        (lambda x: jnp.take_along_axis(x * 2, np.zeros((8, 1), np.int32), 1), 8),
        (lambda x: jnp.sum(x[:, 0]), 8),
        (lambda x: jnp.ones(3), 0),
        (lambda x: x[3:3], 0),
    ],
)
def test_elements_that_are_read(function: Any, count: int) -> None:
    jaxpr = functrax.make_jaxpr(function)(X).jaxpr
    assert elements_read(jaxpr)[0] == count


def test_overlapping_boxes_of_large_arrays_are_bounded_by_the_size() -> None:
    x = functrax.ShapeDtypeStruct((1 << 23,), "float32")
    jaxpr = functrax.make_jaxpr(lambda x: x[1:] + x[:-1])(x).jaxpr
    assert elements_read(jaxpr) == [1 << 23]


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: x * 2 + 1, Operations(96)),
        (lambda x: jnp.exp(x) * 2, Operations(48, 48)),
        (lambda x: jnp.sum(x, 1), Operations(40)),
        (lambda x: x.T[::2], Operations()),
        (lambda x: jnp.dot(x, x.T), Operations(8 * 8 * 11)),
        (lambda x: jnp.where(x > 0, x, 0), Operations(48)),  # the comparison
        (lambda x: lax.rsqrt(x).astype(jnp.float16), Operations(0, 48)),
    ],
)
def test_operations(function: Any, wanted: Operations) -> None:
    jaxpr = functrax.make_jaxpr(function)(X).jaxpr
    assert sum(map(operations, all_eqns(jaxpr)), Operations()) == wanted


def test_time_of_steps_inside_steps_is_counted_once() -> None:
    with logged(CompileLog()) as log, step("outer"), step("inner"):
        pass
    assert [e.stage for e in log.events] == ["inner", "outer"]
    total = log.milliseconds()
    assert total["outer"] >= 0 and total["inner"] >= 0
    assert log.events[1].span == pytest.approx(total["outer"] + total["inner"])
