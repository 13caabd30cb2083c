"""From a fused group of equations to kernels.

What enters: the group's program, whose equations satisfy the contract in
``backends/passes/groups.py``.  What leaves: :class:`Kernel` s without a schedule: one, of the
group's expressions (``kernels/lowering.py``), or some for parts of its space.  Short reductions are
written out where that saves time.

Start at :func:`lower_group`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from functrax.backends.kernels.accesses import accesses, coefficient
from functrax.backends.kernels.ir import Kernel
from functrax.backends.kernels.lowering import (
    Lowering,
    iteration_space,
    point_of,
    split_dims,
)
from functrax.backends.kernels.refusal import Refusal, answered
from functrax.backends.kernels.values import Shape, is_update
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.records import replace
from functrax.core.types.size_bounds import roughly
from functrax.core.types.symbolic_sizes import is_symbolic_dim

#: A group's space of this many points is split where conditions change, into at most so many parts,
#: if it has at most twice as many equations: the parts take a tenth to a third less time, and
#: machine code two to four times as long to make.  Others are split where that saves much more.
LEAST_SPLIT = 1 << 17
MOST_PARTS = 12
#: Predicts how many nanoseconds a kernel takes.
Costs: TypeAlias = Callable[[Kernel], float]


def lower_group(
    jaxpr: Jaxpr, name: str, strict: bool = False, costs: Costs | None = None
) -> list[Kernel] | Refusal:
    """The kernels of a group, without a schedule: one, or some for parts of its results.

    Args:
      jaxpr: the group's program, without constants; no array in it has size 0.
      name: for people.
      strict: whether dims that are reduced stay whole, for the order depends on them.
      costs: how many nanoseconds a kernel is predicted to take, if a large space may be split.

    Returns:
      The kernels; refused if the group does not fit the form of a kernel.
    """
    return answered(lambda: _lowered(jaxpr, name, strict, costs))


def _lowered(jaxpr: Jaxpr, name: str, strict: bool, costs: Costs | None) -> list[Kernel]:
    shape, axes = iteration_space(jaxpr)
    plain = Lowering(jaxpr, name, shape, axes, tuple((n,) for n in shape), strict=strict)
    kernel = plain.kernel()
    divisors = plain.indices.divisors
    if strict:
        divisors = {d: found for d, found in divisors.items() if d not in axes}
    elif axes and axes[-1] == len(shape) - 1:
        divisors = plain.indices.divisors_but_of_holes(axes[-1])
    pieces = split_dims(divisors, shape)
    if pieces is not None:
        return [Lowering(jaxpr, name, shape, axes, pieces, strict=strict).kernel()]
    if costs is None:
        return [kernel]
    if axes:
        return [kernel if strict else _written_out(plain, kernel, costs) or kernel]
    return _parts(plain, kernel, costs) or [kernel]


def _written_out(plain: Lowering, kernel: Kernel, costs: Costs) -> Kernel | None:
    """A kernel in which short loops are written out.

    The elements of a window, say, are read and added up in one block of instructions: no loop
    starts for each point, and what is asked of one of them is asked where it changes.  Or several
    long rows are reduced in one loop, as for the gradient of a filter, so that what they share is
    read once.  None if it does not save what the machine code takes longer to make.
    """
    from functrax.backends.kernels.steps import MOST_OPERATIONS, MOST_TERMS  # which few need

    jaxpr, shape, rows = plain.jaxpr, plain.full_shape, plain.row_shape
    if any(point_of(x.aval.shape, rows, plain.row_point) is None for x in jaxpr.outvars):
        return None
    axes = iteration_space(jaxpr)[1]
    most = target().registers // 4
    spread: tuple[int, ...] = ()
    if _has_windows(kernel):
        most = min(MOST_TERMS // 2, MOST_OPERATIONS // max(kernel.work, 1))
        spread = _short_axes([d for d in range(len(shape)) if d not in axes], shape, most)
    known = not any(is_symbolic_dim(shape[d]) for d in axes)
    is_short = known and math.prod([shape[d] for d in axes]) <= most
    if not is_short and not spread:
        return None
    before, copies = costs(kernel), math.prod([shape[d] for d in (axes if is_short else spread)])
    if not _pays(before, 0.0, copies):
        return None
    if is_short:
        sizes = tuple((n,) for n in rows)
        lowering = Lowering(jaxpr, plain.name, rows, (), sizes, hows=plain.hows)
    else:
        sizes = tuple((1 if d in spread else n,) for d, n in enumerate(shape))
        lowering = Lowering(jaxpr, plain.name, shape, axes, sizes, hows=plain.hows, spread=spread)
    found = answered(lambda: [lowering.kernel()])
    if isinstance(found, Refusal) or not _pays(before, costs(found[0]), copies):
        return None
    return found[0]


def _has_windows(kernel: Kernel) -> bool:
    """Whether neighbouring points read some of the same elements, as those of windows.

    What others reduce may be a batch, of another size each time, which code that is written out for
    a size would be compiled for.
    """
    for address, _, stored in accesses(kernel):
        steps = {} if stored else {d: abs(coefficient(address, d)) for d in kernel.inner}
        for d, step in steps.items():
            reach = step * kernel.extents[d]
            moves = [abs(coefficient(address, x)) for x in kernel.outer]
            if any(step and move and move % step == 0 and move < reach for move in moves):
                return True
    return False


def _short_axes(kept: Sequence[int], shape: Shape, most: int) -> tuple[int, ...]:
    """The innermost of the axes of rows, so many that registers hold what their rows carry.

    That is two registers for each, in which float32 are added up as float64.
    """
    found: list[int] = []
    rows = 1
    for d in reversed(kept):
        rows *= shape[d]
        if rows > min(most, target().registers // 2):
            break
        found.append(d)
    return tuple(reversed(found)) if math.prod([shape[d] for d in found]) > 1 else ()


def _pays(before: float, after: float, copies: int) -> bool:
    """Whether a kernel saves as much time as machine code must that takes longer to make.

    A few copies of what a loop does take as long as another kernel.
    """
    return before - after >= max(copies / 4, 1) * target().split_ns


def _parts(whole: Lowering, kernel: Kernel, costs: Costs) -> list[Kernel] | None:
    """Kernels for parts of a large space, in each of which less remains to be asked.

    What is padded, rolled or put together from arrays is a few copies then: the interior and the
    borders, each with loops of its own.  None if it is not worth it: a large space of few equations
    is split into a few parts whatever they are, others where costs say so.
    """
    jaxpr, shape = whole.jaxpr, whole.full_shape
    points = math.prod(shape)
    if any(map(is_update, jaxpr.eqns)):
        return None
    if not _is_worth_splitting(points, kernel, LEAST_SPLIT):
        return None
    large = roughly(points) >= LEAST_SPLIT
    # Where nothing else is asked, parts that read rows from end to end are worth it, too.
    also_rows = large and not whole.indices.breaks
    if not whole.indices.breaks and not also_rows:
        return None
    todo = [_Part(whole, kernel, (0,) * len(shape), shape)]
    if large and len(jaxpr.eqns) <= 2 * MOST_PARTS:
        few = _split(todo, also_rows, MOST_PARTS)
        if few is not None:
            return few
    return _split(todo, also_rows, 4 * MOST_PARTS, costs)


def _split(
    todo: list[_Part], also_rows: bool, most: int, costs: Costs | None = None
) -> list[Kernel] | None:
    """Kernels for parts of parts; None if there are too many, or they take too long.

    Args:
      todo: the parts, not changed.
      also_rows: whether they are split where another row is read.
      most: how many kernels there are at most.
      costs: if not None, each kernel more must save ``Target.split_ns``.
    """
    todo, machine = list(todo), target()
    least = int(machine.kernel_ns / machine.element_ns)
    allowed = 0.0 if costs is None else costs(todo[0].kernel)
    done: list[_Part] = []
    more = 0  # parts whose machine code is, as a rule, that of others of their size
    each: dict[Shape, float] = {}  # what a part of a size costs
    while todo:
        todo.sort(key=_Part.size)
        part = todo.pop()
        parts: list[_Part] = []
        if _is_worth_splitting(part.size(), part.kernel, least):
            parts = part.split(also_rows)
        if len(parts) > 1:
            todo.extend(parts)
            sizes = Counter([part.lowering.extents for part in parts])
            forms = sum(min(count, 2) for count in sizes.values())
            more += len(parts) - forms
            allowed -= (forms - 1) * machine.split_ns
        else:
            done.append(part)
            size = part.lowering.extents
            if costs is not None and size not in each:
                each[size] = costs(_with_what_it_touches(part.kernel))
            allowed -= each.get(size, 0.0)
        if len(done) + len(todo) - more > most or (costs is not None and allowed < 0):
            return None
    return [part.kernel for part in sorted(done, key=lambda part: part.begins)]


def _with_what_it_touches(kernel: Kernel) -> Kernel:
    """A kernel of a part whose arrays have no more elements than it reads or writes of them."""
    points = math.prod(kernel.extents)
    touched = Counter([node.attr[0] for node in kernel.nodes() if node.op == "load"])
    touched.update([store.buffer for store in kernel.stores()])
    operands = [
        replace(x, size=min(x.size, points * touched[n])) for n, x in enumerate(kernel.operands)
    ]
    return replace(kernel, operands=operands)


def _is_worth_splitting(points: int, kernel: Kernel, least: int) -> bool:
    """Whether a kernel does as much as a choice at so many points."""
    return roughly(points) >= least or roughly(points * kernel.work) >= 4 * least


class _Part:
    """A part of the space of a group.

    Args:
      lowering: of the part.
      kernel: of the part, or None to make it when it is needed.
      begins: for each axis where it begins.
      ends: and where it ends.
    """

    def __init__(
        self, lowering: Lowering, kernel: Kernel | None, begins: Shape, ends: Shape
    ) -> None:
        self.lowering, self._kernel, self.begins, self.ends = lowering, kernel, begins, ends

    def size(self) -> int:
        """How many points it has."""
        return math.prod(self.lowering.extents)

    @property
    def kernel(self) -> Kernel:
        """Its kernel."""
        if self._kernel is None:
            self._kernel = self.lowering.kernel()
        return self._kernel

    def split(self, also_rows: bool) -> list[_Part]:
        """Parts between the places along the first axis where something changes, which its kernel
        has asked for; none if there are no such places.
        """
        whole, begins, ends = self.lowering, self.begins, self.ends
        places = whole.indices.breaks or (whole.indices.turns if also_rows else {})
        if not places:
            return []
        d = min(places)
        inside = [begins[d] + n for n in places[d] if 0 < n < whole.extents[d]]
        parts = []
        for low, high in itertools.pairwise(sorted({begins[d], *inside, ends[d]})):
            begin = (*begins[:d], low, *begins[d + 1 :])
            end = (*ends[:d], high, *ends[d + 1 :])
            sizes = tuple((y - x,) for x, y in zip(begin, end, strict=True))
            lowered = Lowering(
                whole.jaxpr, whole.name, whole.full_shape, (), sizes, begin,
                hows=whole.hows,
            )  # fmt: skip
            parts.append(_Part(lowered, None, begin, end))
        return parts
