"""What ``explain`` predicts of whole models, against what their kernels' loops touch.

The prediction counts bytes by the equations of a group.  Here every load and store of its loop
nests is carried out: the addresses at all points, where their conditions hold, and each distinct
element counts once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
from benchmarks.models import gpt, wgan_gp
from functrax.backends.kernels.evaluate import evaluate
from functrax.backends.kernels.ir import Kernel
from functrax.core.index_expr import Dim, IndexExpr
from functrax.core.lowering import Scalar

#: Share by which predicted and touched bytes may differ.
TOLERANCE = 0.1


def points(kernel: Kernel, d: int) -> Any:
    """The index of a dim at all points of a kernel, with size 1 along the others."""
    shape = [1] * len(kernel.extents)
    shape[d] = kernel.extents[d]
    return np.arange(kernel.extents[d], dtype=np.int64).reshape(shape)


def addresses(kernel: Kernel, address: IndexExpr) -> Any:
    total = np.full([1] * len(kernel.extents), address.const, np.int64)
    for atom, coefficient in address.terms:
        assert isinstance(atom, Dim)
        total = total + coefficient * points(kernel, atom.number)
    return total


def holds(kernel: Kernel, condition: Scalar) -> Any:
    """Where a condition on indices holds; everywhere, if it depends on values."""

    def leaf(node: Scalar, *operands: Any) -> Any:
        if node.op != "dim":
            raise LookupError
        return points(kernel, node.attr).astype(node.dtype)

    try:
        return evaluate([condition], leaf)[0]
    except LookupError:
        return np.asarray(True)


def loads(kernel: Kernel) -> Iterator[tuple[int, Any]]:
    """The number of the array, and the elements, of every load."""
    for node in kernel.nodes():
        if node.op != "load":
            continue
        buffer, address, has_offset, has_condition = node.attr
        if has_offset:  # a place that is read from memory: as many as there are points
            size = kernel.operands[buffer].size
            yield buffer, slice(min(math.prod(kernel.extents), size))
            continue
        where = addresses(kernel, address)
        if has_condition:
            where, valid = np.broadcast_arrays(where, holds(kernel, node.args[-1]))
            where = where[valid]
        yield buffer, where.reshape(-1)


def touched(kernels: list[Kernel], inputs: int) -> int:
    """Bytes of the distinct elements of inputs that some kernels load."""
    operands = kernels[0].operands[:inputs]
    read = [np.zeros(operand.size, bool) for operand in operands]
    for kernel in kernels:
        for buffer, elements in loads(kernel):
            if buffer < inputs:
                read[buffer][elements] = True
    return sum(int(r.sum()) * o.dtype.itemsize for r, o in zip(read, operands))


@pytest.mark.parametrize("model", [wgan_gp, gpt], ids=["WGAN-GP", "GPT"])
def test_predicted_bytes_are_touched(model: Any) -> None:
    e = functrax.explain(model.step(functrax))(*model.inputs())
    predicted = read = 0
    for facts in e.kernels:
        if facts.kind != "kernel" or facts.level:
            continue
        eqn = e.levels[0].jaxpr.eqns[facts.place]
        here = touched([code.kernel for code in facts.codes], len(eqn.invars))
        assert abs(here - facts.bytes_read) <= TOLERANCE * max(here, 512), (
            f"{facts.name}: {facts.bytes_read} bytes predicted, {here} read"
        )
        predicted, read = predicted + facts.bytes_read, read + here
    assert abs(predicted - read) <= 0.02 * read
