"""Which groups of equations can share a kernel: their common iteration space, or why not.

A kernel has one iteration space.  What a group of reductions reduces may be used in its own row
only, and again over the whole row if that stays in the cache; a scatter ends its kernel.

Start at :func:`merged_space`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

from functrax.backends.cost import about, cycles_ns
from functrax.backends.loops.strategies.reduction_blocks import in_blocks
from functrax.backends.passes.fusion.contraction_groups import (
    NO_REDUCTION,
    ONE_CONTRACTION,
    joined,
)
from functrax.backends.passes.fusion.kernel_groups import (
    MAX_COMPUTED,
    TOO_LARGE,
    KernelGroup,
    Space,
    is_dear_to_copy,
    squeezed,
)
from functrax.backends.passes.fusion.kernel_views import Views
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Var
from functrax.core.options.config import state as options
from functrax.core.prims.mapped import scatter
from functrax.core.types.size_bounds import roughly

Found: TypeAlias = "tuple[Space | None, str]"

_OTHER_AXES: Final = "reduction: along other axes"
_OUTSIDE_ROW: Final = "reduction: its result is used outside its row"
#: Reasons that hold for two groups whatever is merged into them: what a group reduces along which
#: axes, and by which views it reads a value, stays as it is.
LASTING: Final = frozenset({_OTHER_AXES, _OUTSIDE_ROW, ONE_CONTRACTION, NO_REDUCTION})


def merged_space(
    views: Views, a: KernelGroup, b: KernelGroup, written: Callable[[], set[Var]]
) -> Found:
    """The iteration space of ``a`` and ``b``, which comes after it, as one, or why they are two.

    What the two write together, ``written`` gives where it matters.
    """
    if a.size + a.loads + b.size + b.loads > MAX_COMPUTED:
        return None, TOO_LARGE
    if a.center is not None or b.center is not None:
        through = [v for v in b.reads if v in a.writes]
        center, around = (a, b) if a.center is not None else (b, a)
        assert center.center is not None
        jaxpr = views.eqns[center.center].params["jaxpr"]
        reason = joined(a, b, through, written() if through else set(), jaxpr)
        if not reason and views.with_holes(around.eqns):
            reason = "contraction: an array with holes in it is read around it"
        return (None, reason) if reason else (center.space, "")
    if a.update:
        return None, "update: a scatter ends its kernel"
    same = a.space.full == b.space.full
    if same and a.space.row is None and b.space.row is None and not b.update:
        return b.space, ""  # as are most groups: nothing is reduced, all have one shape
    through = [v for v in b.reads if v in a.writes]
    if b.update:
        return _into_update(views, a, b, through, written())
    space, reason = _common_space(views, a, b, through)
    if space is None:
        return None, reason
    if a.space.full != b.space.full or a.space.row != b.space.row:
        for v in written():
            if squeezed(v.aval.shape) not in (space.full, space.row):
                return None, "shape: a value of another shape is needed outside"
    return space, ""


def _into_update(
    views: Views, a: KernelGroup, b: KernelGroup, through: list[Var], written: set[Var]
) -> Found:
    if not through:
        return None, "update: nothing else shares the kernel of a scatter"
    if a.space.row is not None:
        return None, "reduction: its result is complete only after its kernel"
    if written != b.writes:
        return None, "update: a value that is also needed elsewhere"
    update = views.eqns[max(b.eqns)]
    x = update.invars[0]
    if update.primitive is scatter and x in a.reads and is_dear_to_copy(x):
        if views.reads_elsewhere(a.eqns, update):
            return None, "update: it is to be done in place, where these are still read"
    if b.serial and _outlasts_scatter(a.work + b.work, about(b.space.full)):
        return None, "cost: its elements are computed one after the other"
    return b.space, ""


def _outlasts_scatter(work: float, points: int) -> bool:
    """Whether elements computed without lanes take longer than to write each where it belongs."""
    machine = target()
    alone = work * (machine.vector_bytes // 4)
    hidden = cycles_ns(machine.scatter_cycles, machine)
    return alone > hidden and work * points > machine.kernel_ns


def _common_space(views: Views, a: KernelGroup, b: KernelGroup, through: list[Var]) -> Found:
    if a.space.row is None:
        if through or a.space.full in (b.space.full, b.space.row):
            return b.space, ""
        return None, "shape: different iteration spaces"
    again = False  # whether b reads the rows again, which a reduces
    for v in through:
        if a.has_for_rows(v):
            if b.reads[v]:
                fits = b.space.row is None or b.space.operand == a.space.operand
            else:
                fits = again = _spread_only(views, a, b, v)
            if not fits:
                return None, _OUTSIDE_ROW
        elif not b.reads[v] or b.space.full != a.space.full:
            return None, "reduction: a value of its rows is used elsewhere"
    if b.space.row is not None:
        if b.space.operand != a.space.operand:
            return None, _OTHER_AXES
    elif b.space.full not in (a.space.full, a.space.row):
        return None, "shape: different iteration spaces"
    if again and not _row_fits(a, b):
        return None, "row: too long to be read again from the cache"
    return a.space, ""


def _spread_only(views: Views, a: KernelGroup, b: KernelGroup, v: Var) -> bool:
    """Whether every view by which ``b`` reads ``v`` spreads it over the rows of ``a``."""
    assert a.space.operand is not None
    shape, axes = a.space.operand
    kept = [d for d in range(len(shape)) if d not in axes]
    eqns = [views.eqns[n] for n in b.eqns]
    seen = {x for eqn in eqns for x in (*eqn.invars, *eqn.outvars) if x in views.made}
    return all(views.spreads(x, v, shape, kept) for x in seen)


def _row_fits(a: KernelGroup, b: KernelGroup) -> bool:
    assert a.space.operand is not None
    shape, axes = a.space.operand
    length = math.prod(shape[d] for d in axes)
    if options.strict and in_blocks(math.prod(shape) // length, length):
        return False  # a kernel that reads it again would reduce it in another order
    whole = [v for v in {*a.reads, *b.reads} if v.aval.size >= math.prod(shape)]
    width = sum(v.aval.dtype.itemsize for v in whole)
    return roughly(length * width) <= target().reread_bytes
