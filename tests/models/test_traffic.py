"""What ``explain`` predicts of whole models, against what their kernels' loops touch.

The prediction counts bytes by the equations of a group.  Here the loads of its loop nests are
carried out: the addresses at all points, where their conditions hold, and each distinct element
counts once.  An address is a sum over the dims, and a condition a conjunction in each part of which
few dims occur (the row and the row of the filter, say): dims that no part of the condition ties
together are gone through one group after the other, so that a contraction of billions of products
is counted in the steps of its largest group.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import functrax
from benchmarks.models import gpt, wgan_gp
from functrax.backends.kernels.evaluate import evaluate
from functrax.backends.kernels.ir import Kernel, ordered
from functrax.backends.kernels.lowering import read_inputs
from functrax.core.index.expr import Dim, IndexExpr
from functrax.core.scalars.scalar import Builder, Scalar

#: Share by which predicted and touched bytes may differ.
TOLERANCE = 0.1


def points(extents: Sequence[int], dims: Sequence[int], d: int) -> Any:
    """The index of a dim at all points of some dims, with size 1 along the others."""
    shape = [extents[e] if e == d else 1 for e in dims]
    return np.arange(extents[d], dtype=np.int64).reshape(shape)


def conjuncts(condition: Scalar) -> Iterator[Scalar]:
    """The parts of a condition that all hold."""
    if condition.op == "and":
        for x in condition.args:
            yield from conjuncts(x)
    else:
        yield condition


def dims_in(condition: Scalar) -> set[int] | None:
    """The dims that a condition depends on; None if it depends on values, too."""
    leaves = [x for x in ordered([condition]) if not x.args and x.op not in ("const", "int")]
    return {x.attr for x in leaves} if all(x.op == "dim" for x in leaves) else None


def tied(dims: Iterable[int], sets: Iterable[set[int]]) -> list[set[int]]:
    """The dims in groups, so that each of the sets lies in one."""
    groups = [{d} for d in dims]
    for some in sets:
        together = [g for g in groups if g & some]
        groups = [g for g in groups if not g & some] + [some.union(*together)]
    return groups


def distinct(numbers: Any) -> Any:
    """Numbers in order, each once."""
    if (np.diff(numbers) > 0).all():
        return numbers
    ascending = np.sort(numbers)
    return ascending[np.diff(ascending, prepend=ascending[0] - 1) > 0]


def loaded(extents: Sequence[int], address: IndexExpr, condition: Scalar | None) -> Any:
    """The elements that a load with an affine address reads, each once."""
    steps = {atom.number: step for atom, step in address.terms if isinstance(atom, Dim)}
    assert len(steps) == len(address.terms)
    parts = [] if condition is None else list(conjuncts(condition))
    known = [(part, dims) for part in parts if (dims := dims_in(part)) is not None]
    elements = np.array([address.const], np.int64)
    groups = tied(steps, (dims for _, dims in known))
    # small steps first: what meets the same elements again (a row and a filter's row) comes early
    for group in sorted(groups, key=lambda group: max(abs(steps.get(d, 0)) for d in group)):
        dims = sorted(group)
        shape = tuple(extents[d] for d in dims)
        where, valid = np.zeros(shape, np.int64), np.ones(shape, bool)
        for d in dims:
            where += steps.get(d, 0) * points(extents, dims, d)
        for part, own in known:
            if own <= group:

                def leaf(node: Scalar, *operands: Any, dims: list[int] = dims) -> Any:
                    if node.op == "dim":
                        return points(extents, dims, node.attr).astype(node.dtype)
                    return np.asarray(node.attr, node.dtype)

                valid &= evaluate([part], leaf)[0]
        elements = distinct((distinct(where[valid])[:, None] + elements).reshape(-1))
    return elements


def loads(kernel: Kernel, names: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
    """The name of the array, and the elements, of every load from an array that has a name."""
    for node in kernel.nodes():
        if node.op != "load" or node.attr[0] >= len(names) or names[node.attr[0]] is None:
            continue
        buffer, address, has_offset, has_condition = node.attr
        if has_offset:  # a place that is read from memory: as many as there are points
            size = kernel.operands[buffer].size
            yield names[buffer], slice(min(math.prod(kernel.extents), size))
        else:
            condition = node.args[-1] if has_condition else None
            yield names[buffer], loaded(kernel.extents, address, condition)


def touched(codes: Any, eqn: Any) -> int:
    """Bytes of the distinct elements of its inputs that the kernels of a group load."""
    invars = eqn.invars
    read: dict[Any, Any] = {}
    for code in codes:
        places = read_inputs(eqn.params["jaxpr"]) if code.arrays is None else code.arrays[0]
        names = tuple([invars[n] if n < len(invars) else None for n in places])
        for x, elements in loads(code.kernel, names):
            seen = read.setdefault(x, np.zeros(x.aval.size, bool))
            seen[elements] = True
    return sum(int(seen.sum()) * x.aval.dtype.itemsize for x, seen in read.items())


@pytest.mark.parametrize("model", [wgan_gp, gpt], ids=["WGAN-GP", "GPT"])
def test_predicted_bytes_are_touched(model: Any) -> None:
    e = functrax.explain(model.step(functrax))(*model.inputs())
    predicted = read = 0
    for facts in e.kernels:
        if facts.kind != "kernel" or facts.level:
            continue
        eqn = e.levels[0].jaxpr.eqns[facts.place]
        here = touched(facts.codes, eqn)
        assert abs(here - facts.bytes_read) <= TOLERANCE * max(here, 512), (
            f"{facts.name}: {facts.bytes_read} bytes predicted, {here} read"
        )
        predicted, read = predicted + facts.bytes_read, read + here
    assert abs(predicted - read) <= 0.02 * read


def test_groups_of_dims_give_what_all_points_give() -> None:
    """A window in two dims: rows and columns are gone through separately."""
    extents, i64, yes = (3, 5, 7, 3, 2), np.dtype(np.int64), np.dtype(bool)
    b = Builder()
    _, h, w, i, j = (b.node("dim", i64, (), d) for d in range(5))

    def inside(x: Scalar, size: int) -> Scalar:
        least, most = (b.const(k, i64) for k in (0, size))
        return b.node("and", yes, (b.node("ge", yes, (x, least)), b.node("lt", yes, (x, most))))

    row, column = b.sub(b.add(h, i), b.const(1, i64)), b.sub(b.add(w, j), b.const(1, i64))
    address = Dim(0) * 24 + (Dim(1) + Dim(3) - 1) * 6 + (Dim(2) + Dim(4) - 1)
    got = loaded(extents, address, b.node("and", yes, (inside(row, 4), inside(column, 6))))
    want = {
        24 * n + 6 * y + x
        for n, h, w, i, j in itertools.product(*map(range, extents))
        if 0 <= (y := h + i - 1) < 4 and 0 <= (x := w + j - 1) < 6
    }
    assert got.tolist() == sorted(want)
