"""Loops whose neighbouring points are computed at once, in the lanes of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from functrax.backends.kernels.ir import Reduce
from functrax.backends.loops.rewrites.rewrite import Rewrite, carried, changed, nest, nested
from functrax.backends.loops.tree import Carried, Function, Let, Loop, Statement
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Scalar
from functrax.core.types import dtypes


@record
class Vectorize(Rewrite):
    """All loops over a dim take so many points in each step.

    A loop whose extent is no multiple of that is masked.  What loops around it or inside of it
    carry has a value for each lane; a reduction along the dim combines them after its loops.

    Args:
      dim: the innermost of the loops that stand one inside the other.
      lanes: a power of two.
    """

    kind: ClassVar[str] = "vectorize"
    dim: int
    lanes: int

    def apply(self, tree: Function) -> Function:
        """The tree with vector loops."""

        def change(s: Statement) -> Sequence[Statement] | None:
            if type(s) is not Loop:
                return None
            if s.carries:
                loops = nest(s)
                along = loops[-1].dim == self.dim
                return self._reduction(tree, loops) if along else [s]
            if s.dim != self.dim:
                return None
            return [replace(self._vector(tree, s), body=changed(s.body, self._in_lanes))]

        body = changed(tree.body, change)
        return replace(tree, body=body, vector=self.dim, lanes=self.lanes)

    def _vector(self, tree: Function, loop: Loop) -> Loop:
        grain = grain_of(loop.begin)
        ragged = tree.extents[self.dim] % self.lanes != 0 or grain % self.lanes != 0
        return replace(loop, kind="vector", step=self.lanes, masked=ragged)

    def _wide(self, carries: tuple[Carried, ...]) -> tuple[Carried, ...]:
        return tuple([replace(c, lanes=self.lanes) if c.varies else c for c in carries])

    def _in_lanes(self, s: Any) -> Sequence[Statement] | None:
        """A statement inside of a vector loop: what it carries has lanes."""
        if not getattr(s, "carries", ()):
            return None
        body = changed(s.body, self._in_lanes)
        return [replace(s, body=body, carries=self._wide(s.carries))]

    def _reduction(self, tree: Function, loops: list[Loop]) -> list[Statement]:
        """The loops of a reduction along the lanes, which are combined in the end."""
        loops[-1] = self._vector(tree, loops[-1])
        loops = [replace(loop, carries=self._wide(loop.carries)) for loop in loops]
        return combined(tree, loops, "across", 1)


def combined(tree: Function, loops: list[Loop], op: str, *more: int) -> list[Statement]:
    """The nest of a reduction whose results are parts, and their combination after it.

    Args:
      tree: that they are of.
      loops: one inside the other.
      op: of the nodes that combine: ``across`` lanes, ``together`` in a group of threads.
      more: what follows in their attributes on the reduction and the number of the result.
    """
    names: list[Scalar] = []
    values: list[Scalar] = []
    last: dict[Scalar, Scalar] = {}
    for reduction, positions in reductions_of(loops[-1]):
        results = [loops[0].carries[n].result for n in positions]
        fresh = tuple([tree.leaf("result", x.dtype) for x in results])
        last.update(zip(results, fresh))
        names += results
        values += [
            tree.builder.node(op, x.dtype, fresh, (reduction.how, n, *more))
            for n, x in enumerate(fresh)
        ]
    results = [last.get(c.result, c.result) for c in loops[0].carries]
    loops[0] = replace(loops[0], carries=carried(loops[0].carries, results=results))
    after: list[Statement] = [Let(tuple(names), tuple(values))] if names else []
    return [nested(loops, loops[-1].body), *after]


def reductions_of(loop: Loop) -> list[tuple[Reduce, list[int]]]:
    """The reductions in a loop, and which of its carries are theirs."""
    place = {c.new: n for n, c in enumerate(loop.carries)}
    return [(s, [place[x] for x in s.results]) for s in loop.body if type(s) is Reduce]


def grain_of(begin: Scalar) -> int:
    """What all first indices of a loop are a multiple of: 0 where it begins at 0."""
    if begin.op == "mul" and begin.args[1].op == "number":
        value: int = begin.args[1].attr[1]
        return value
    return 0


@record
class Narrow(Rewrite):
    """Sums of float32 that are carried in float64: vectors are added up before they are widened.

    So most conversions are saved: lanes are added up in float32 until they fill one vector.

    Args:
      dim: of vector loops along which sums go.
      lanes: that are left.
    """

    kind: ClassVar[str] = "narrow"
    dim: int
    lanes: int

    def apply(self, tree: Function) -> Function:
        """The tree whose sums carry fewer lanes."""
        if tree.vector != self.dim:
            return tree

        def change(s: Statement) -> Sequence[Statement] | None:
            loops = nest(s) if type(s) is Loop and s.carries else []
            return [self._narrow(loops)] if loops and loops[-1].dim == self.dim else None

        return replace(tree, body=changed(tree.body, change))

    def _narrow(self, loops: list[Loop]) -> Loop:
        places = {n for r, (n, *_) in reductions_of(loops[-1]) if is_widened_sum(r)}
        for k, loop in enumerate(loops):
            carries = [
                replace(c, lanes=self.lanes) if n in places else c
                for n, c in enumerate(loop.carries)
            ]
            loops[k] = replace(loop, carries=tuple(carries))
        return nested(loops, loops[-1].body)


def is_widened_sum(reduction: Reduce) -> bool:
    """Whether float32 are added up in float64."""
    value, *others = reduction.values
    wide = value.op == "convert" and value.dtype == dtypes.float64 and not others
    return wide and reduction.how.name == "add" and value.args[0].dtype == dtypes.float32
