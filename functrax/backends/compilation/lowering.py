"""From a group, a contraction or a loop to its kernels: what the stage ``lower`` does.

What enters is an equation; what leaves are its kernels, not scheduled yet, and which arrays of the
equation they take; or why it is no kernel.  What contractions and loops need is imported with the
first one.

Start at :func:`lower`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.backends.kernels.ir import Kernel, Operand
from functrax.backends.kernels.lower import lower_group
from functrax.backends.kernels.lowering import read_inputs
from functrax.backends.kernels.math import EXPANSIONS
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.loops.strategies.schedule import estimated_ns
from functrax.backends.passes.fusion.contraction_groups import has_few_parts, is_small
from functrax.backends.passes.groups import contraction, fused
from functrax.backends.targets import schedule_target, target
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.options.config import state as options, strict_was_chosen
from functrax.core.options.option_text import words
from functrax.core.prims.cumulative import Cumulative, cumlogsumexp
from functrax.core.prims.mapped import reindex_reduce, scatter
from functrax.core.prims.ordering import Ordering
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.records import record
from functrax.core.scalars.scalar import MATH
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

if TYPE_CHECKING:
    from functrax.backends.gemm.shared_arrays import Arrays


@record
class LoweredGroup:
    """The kernels of an equation.

    Arrays are numbered: the operands of the equation, its results, then temporaries.

    Args:
      kernels: what runs, in order.
      arrays: for each the numbers of those that it reads, and of those that it writes.  Where it is
        empty all take the arrays ``reads``, all results, and the temporaries of the last one.
      begins: for each the bytes of each of these arrays that are before what it takes; empty if it
        takes whole arrays.
      reads: see ``arrays``.
      temporaries: arrays between the kernels, besides those that schedules add.
      copies: pairs (from, to) of arrays that are copied first.
      fill: what runs before: it fills the last result, which it takes alone.
    """

    kernels: Sequence[Kernel]
    arrays: Sequence[Arrays] = ()
    begins: Sequence[tuple[int, ...]] = ()
    reads: tuple[int, ...] = ()
    temporaries: tuple[Operand, ...] = ()
    copies: tuple[tuple[int, int], ...] = ()
    fill: Kernel | None = None


def lower(eqn: Eqn, runs: Callable[[Kernel, Sequence[int]], Any]) -> LoweredGroup | Refusal:
    """The kernels of an equation.

    Args:
      eqn: a group, a contraction, a loop, a cumulative operation or, for a GPU, a sort.
      runs: makes functions that run a kernel on arrays, to measure it (the option ``autotune``).

    Returns:
      The kernels; refused if it does not fit the form of a kernel.
    """
    if eqn.primitive is contraction:
        return _contraction(eqn, runs)
    if isinstance(eqn.primitive, Ordering):
        return _ordering(eqn)
    return _group(eqn) if eqn.primitive is fused else _loop(eqn)


def without_schedules() -> frozenset[str]:
    """The kinds of rewrites that schedules do without (the option ``schedule_off``)."""
    return words(options.schedule_off)


def _contraction(eqn: Eqn, runs: Any) -> LoweredGroup | Refusal:
    """A sum of products: tiles of it, else loops if they are few, else a host call."""
    jaxpr: Jaxpr = eqn.params["jaxpr"]
    if target().warp:
        return _on_threads(eqn)
    if not strict_was_chosen() and not has_few_parts(jaxpr):
        tiles = _tiles(jaxpr, eqn.params["name"], runs, not is_small(jaxpr))
        if isinstance(tiles, LoweredGroup):
            return tiles
    if not is_small(jaxpr):
        return Refusal("a product of matrices, which the host computes")
    return _group(eqn)


def _tiles(jaxpr: Jaxpr, name: str, runs: Any, needed: bool) -> LoweredGroup | Refusal:
    """A sum of products in tiles; refused if it is another sum, or other loops do it better.

    ``needed``: there are no other loops.
    """
    from functrax.backends.gemm.lower_contraction import contraction_kernels
    from functrax.backends.gemm.shared_arrays import with_own_arrays

    pick = None
    if options.autotune == "on":
        from functrax.backends.compilation.autotune import fastest

        pick = partial(fastest, runs=runs)
    launched = contraction_kernels(
        jaxpr, name, schedule_target(), without_schedules(), pick, needed
    )
    if isinstance(launched, Refusal):
        return launched
    kernels = {id(x.kernel): x.kernel for x in launched}
    refusal = _without_instructions([*kernels.values()])
    if refusal is not None:
        return refusal
    known = len(jaxpr.invars) + len(jaxpr.outvars)
    operands = launched[-1].kernel.operands
    own = [n for n, o in enumerate(operands) if n >= known and not o.scratch and o.alias is None]
    number = {n: k for k, n in enumerate((*range(known), *own))}
    alone = {key: with_own_arrays(kernel) for key, kernel in kernels.items()}
    plain, arrays, begins = [], [], []
    for x in launched:
        kernel, (read, written) = alone[id(x.kernel)]
        plain.append(kernel)
        arrays.append((tuple([number[n] for n in read]), tuple([number[n] for n in written])))
        firsts = dict(x.begins)
        places = [firsts.get(n, 0) * operands[n].dtype.itemsize for n in (*read, *written)]
        begins.append(tuple(places) if firsts else ())
    temporaries = tuple([operands[n] for n in own])
    return LoweredGroup(plain, arrays, begins, temporaries=temporaries)


def _on_threads(eqn: Eqn) -> LoweredGroup | Refusal:
    """A sum of products for threads in groups, whose strategies choose the tiles."""
    jaxpr: Jaxpr = eqn.params["jaxpr"]
    if options.strict or has_few_parts(jaxpr):
        return _group(eqn)
    from functrax.backends.gemm.lower_contraction import lower_contraction

    kernels = lower_contraction(jaxpr, eqn.params["name"])
    if isinstance(kernels, Refusal) or _without_instructions(kernels) is not None:
        return _group(eqn)
    known = range(len(jaxpr.invars) + len(jaxpr.outvars))
    return LoweredGroup(*_with_own_arrays(kernels, dict(enumerate(known))))


def _with_own_arrays(
    kernels: Sequence[Kernel], number: Mapping[int, int]
) -> tuple[list[Kernel], list[Arrays]]:
    """Kernels that have their own arrays alone.

    And which of a group's they are, given for all operands the number of the array.
    """
    from functrax.backends.gemm.shared_arrays import with_own_arrays  # which few programs need

    plain, arrays = [], []
    for kernel in kernels:
        alone, (read, written) = with_own_arrays(kernel)
        plain.append(alone)
        arrays.append((tuple([number[n] for n in read]), tuple([number[n] for n in written])))
    return plain, arrays


def _group(eqn: Eqn) -> LoweredGroup | Refusal:
    jaxpr: Jaxpr = eqn.params["jaxpr"]
    last = jaxpr.eqns[-1]
    on_value = last.primitive is scatter and last.invars[0] not in jaxpr.invars
    number = _constant_of(jaxpr, last.invars[0]) if on_value else None
    if on_value and number is None:
        return Refusal("a scatter into a value that its own kernel computes")
    costs = (
        None if "parts" in without_schedules() else partial(estimated_ns, target=schedule_target())
    )
    kernels = lower_group(jaxpr, eqn.params["name"], options.strict, costs)
    if isinstance(kernels, Refusal):
        return kernels
    copies: tuple[tuple[int, int], ...] = ()
    fill = None
    if last.primitive is reindex_reduce:
        how = reindex_reduce.reduction(last.invars[0].aval, **last.params)
        assert how.identity is not None
        fill = _fill(last.outvars[0], how.identity[0])
    elif on_value:
        fill = _fill(last.outvars[0], number)
    elif last.primitive is scatter:
        copies = ((jaxpr.invars.index(last.invars[0]), len(jaxpr.invars)),)
    refusal = _without_instructions(kernels)
    if refusal is not None:
        return refusal
    reads = read_inputs(jaxpr)
    if len(kernels) > 1:  # for parts of the space, of which many do the same with other arrays
        known = range(len(jaxpr.invars), len(jaxpr.invars) + len(jaxpr.outvars))
        return LoweredGroup(*_with_own_arrays(kernels, dict(enumerate((*reads, *known)))))
    return LoweredGroup(kernels, reads=reads, copies=copies, fill=fill)


def _loop(eqn: Eqn) -> LoweredGroup | Refusal:
    """A loop, or a cumulative operation, as one kernel.

    It is refused if the points of a loop depend on one another, or a step is too large.
    """
    from functrax.backends.kernels.interchanged_loops import lower_loop
    from functrax.backends.kernels.lower_cumulative import lower_cumulative

    if eqn.primitive is cumlogsumexp and (strict_was_chosen() or not target().warp):
        return Refusal("the reference adds up one element after the other")
    if isinstance(eqn.primitive, Cumulative):
        found = lower_cumulative(eqn)
    else:
        found = lower_loop(eqn, options.strict)
    if isinstance(found, Refusal):
        return found
    number = {x: n for n, x in reversed(list(enumerate(eqn.invars)))}
    copies = tuple([(number[x], len(eqn.invars) + k) for x, k in found.copies])
    reads = tuple([number[x] for x in found.reads])
    refusal = _without_instructions([found.kernel])
    return refusal or LoweredGroup([found.kernel], reads=reads, copies=copies)


def _ordering(eqn: Eqn) -> LoweredGroup | Refusal:
    """A sort, or the largest elements: groups of threads sort pieces, which are merged."""
    from functrax.backends.kernels.ordering.lowering import lower_ordering  # which only GPUs need

    found = lower_ordering(eqn)
    if isinstance(found, Refusal):
        return found
    return LoweredGroup(found.kernels, found.arrays, temporaries=found.temporaries)


def _without_instructions(kernels: Sequence[Kernel]) -> Refusal | None:
    """What of kernels there are no instructions for, if any."""
    for kernel in kernels:
        missing = {node.op for node in kernel.nodes()} & (MATH.keys() - EXPANSIONS.keys())
        if missing:
            return Refusal(f"no instructions for {sorted(missing)}")
        if not target().has_halves and any(x.dtype == dtypes.float16 for x in kernel.nodes()):
            return Refusal("this processor has no instructions for float16")
    return None


def _constant_of(jaxpr: Jaxpr, x: Atom) -> Any | None:
    """The number that an array is full of, if it is a broadcast literal."""
    for eqn in jaxpr.eqns:
        if x in eqn.outvars and eqn.primitive is broadcast_in_dim:
            (source,) = eqn.invars
            return source.val if isinstance(source, Literal) else None
    return None


def _fill(out: Var, value: Any) -> Kernel:
    """A kernel that fills an array with a number."""
    result = Var(out.aval)
    number = Literal(np.asarray(value, out.aval.dtype), ShapedArray((), out.aval.dtype))
    eqn = Eqn(broadcast_in_dim, (number,), (result,), {"shape": out.aval.shape, "dims": ()})
    lowered = lower_group(Jaxpr((), (), (result,), (eqn,), "fill"), "fill")
    assert not isinstance(lowered, Refusal), "a broadcast number is a kernel"
    (kernel,) = lowered
    return kernel
