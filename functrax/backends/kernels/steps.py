"""The programs of a loop, as its kernel evaluates them: opened, and where their values come from.

What enters is a program that went through the pipeline.  :func:`opened` writes groups as what they
hold, or says why an equation can be in no step of a kernel.  :class:`Step` gives the values of one
step to ``kernels/values.py``.  Start at :func:`opened`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from functrax.backends.kernels.refusal import Refusal, refuse
from functrax.backends.kernels.values import (
    Point,
    reduced_axes,
)
from functrax.core.index.expr import as_expr
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.prims.control import Grouping
from functrax.core.prims.identity import OptimizationBarrier
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.prims.reindex import Reindexing
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import Elementwise
from functrax.core.types import dtypes

Leaf: TypeAlias = Callable[[Point, "Scalar | None"], Scalar]
#: The inputs, equations and results of a program.
Opened: TypeAlias = tuple[list[Var], list[Eqn], list[Atom]]

#: The most scalars that a point carries.
MAX_CARRIED = 64


def opened(jaxpr: Jaxpr) -> Opened | Refusal:
    """A program's inputs, equations and results, with groups replaced by what they hold.

    It is refused if an equation can be in no step.
    """
    refusal = _refusal_in(jaxpr)
    if refusal is not None:
        return refusal
    eqns: list[Eqn] = []

    def write(program: Jaxpr, operands: Sequence[Atom]) -> list[Atom]:
        env: dict[Atom, Atom] = dict(zip(program.invars, operands, strict=True))
        for eqn in program.eqns:
            invars = [env.get(x, x) for x in eqn.invars]
            if isinstance(eqn.primitive, Grouping):
                env.update(zip(eqn.outvars, write(eqn.params["jaxpr"], invars), strict=True))
                continue
            if isinstance(eqn.primitive, OptimizationBarrier):  # all are computed at once
                env.update(zip(eqn.outvars, invars, strict=True))
                continue
            outvars = [Var(v.aval) for v in eqn.outvars]
            eqns.append(Eqn(eqn.primitive, invars, outvars, eqn.params, eqn.source))
            env.update(zip(eqn.outvars, outvars, strict=True))
        return [env.get(x, x) for x in program.outvars]

    inputs = [Var(v.aval) for v in jaxpr.invars]
    return inputs, eqns, write(jaxpr, inputs)


def _refusal_in(program: Jaxpr) -> Refusal | None:
    """Why an equation of a program, or of a group in it, can be in no step."""
    inner = []
    for eqn in program.eqns:
        if isinstance(eqn.primitive, Grouping):
            inner.append(eqn.params["jaxpr"])
        elif not isinstance(eqn.primitive, OptimizationBarrier):
            refusal = _refusal_of(eqn)
            if refusal is not None:
                return refusal
    return next((found for found in map(_refusal_in, inner) if found is not None), None)


def _refusal_of(eqn: Eqn) -> Refusal | None:
    """Why an equation can be in no step: no scalar expression, or it does something besides."""
    if eqn.primitive.has_side_effects(dict(eqn.params)):
        return Refusal("a step has effects")
    if not isinstance(eqn.primitive, (Elementwise, Reindexing, ReindexReduce)):
        return Refusal(f"{eqn.primitive.name} inside a kernel")
    avals = tuple(x.aval for x in (*eqn.invars, *eqn.outvars))
    if not all(a.dtype in dtypes.ALL and a.size for a in avals):
        return Refusal("no numbers at all")
    operands = tuple(x.aval for x in eqn.invars)
    if isinstance(eqn.primitive, Elementwise):
        if not eqn.primitive.lowers(operands, dict(eqn.params)):
            return Refusal(f"{eqn.primitive.name} has no scalar expression")
    return None


class Step:
    """Where the values of a step come from.

    Args:
      builder: makes the expressions.
      leaves: what each input of the program is.
    """

    def __init__(self, builder: Builder, leaves: dict[Var, Leaf]) -> None:
        self.builder = builder
        self.leaves = leaves

    def read(self, x: Var, point: Point, guard: Scalar | None) -> Scalar:
        """An input of the program."""
        return self.leaves[x](point, guard)

    def reduced_points(self, eqn: Eqn, point: Point) -> list[Point]:
        """The points of a small array that a reduction puts together."""
        axes = reduced_axes(eqn)
        assert axes is not None
        shape = eqn.invars[0].aval.shape
        if math.prod(shape[d] for d in axes) > MAX_CARRIED:
            refuse("a reduction of a large array in a step")
        kept = iter(point)
        ranges = [
            map(as_expr, range(n)) if d in axes else (next(kept),) for d, n in enumerate(shape)
        ]
        return list(itertools.product(*ranges))

    def reduced(self, eqn: Eqn, point: Point, operands: list[Scalar]) -> Scalar:
        """Their reduction, written out."""
        b = self.builder
        how = eqn.primitive.reduction(eqn.invars[0].aval, **eqn.params)  # type: ignore[attr-defined]
        places = (b.const(k, how.place) for k in range(len(operands)))
        carried = [how.start(b, x, place) for x, place in zip(operands, places, strict=True)]
        total = carried[0]
        for part in carried[1:]:
            total = how.combine(b, total, part)
        result: Scalar = how.finish(b, total)
        return result
