"""What a kernel may hold: the facts of fusion about single equations, and groups of them.

:func:`is_fusible` says whether an equation can be part of a kernel at all; :class:`Space` is the
iteration space of a kernel, :class:`KernelGroup` what is known of equations that share one.
``backends/passes/fusion/fuse.py`` decides which do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from functrax.backends.cost import about, memory_ns, moving_ns
from functrax.backends.kernels.values import is_update, reduced_axes
from functrax.backends.passes.groups import contraction
from functrax.backends.targets import target
from functrax.core.index.expr import Condition, Dim, Mod
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.prims.mapped import Update, reindex
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.prims.reindex import Reindexing, broadcast_in_dim, reshape
from functrax.core.records import record
from functrax.core.tracing.primitive import Elementwise
from functrax.core.types import dtypes

Shape: TypeAlias = tuple[int, ...]

#: The most equations that a kernel computes for each element, counted as often as it computes them,
#: and with what it reads through views (:func:`loads`): what its compile time and registers allow.
MAX_COMPUTED = 512
TOO_LARGE = f"size: more than {MAX_COMPUTED} equations computed for each element"
#: Few equations.  A program of no more begins with a group for each.  Unrelated groups have no more
#: in one: by then starting it costs little for each, and machine code takes as long to make as it
#: is long.  No more are copied to compute a value again.
FEW = 16
#: How many groups, or views, a search looks at before it gives up.
SEARCH = 256


def squeezed(shape: Shape) -> Shape:
    """A shape without its dimensions of size 1, in which they do not matter."""
    return tuple([n for n in shape if n != 1]) if 1 in shape else shape


def nbytes(x: Atom) -> int:
    """Bytes of a value in memory."""
    return x.aval.size * x.aval.dtype.itemsize


def about_bytes(x: Atom) -> int:
    """Bytes of a value in memory, about, for decisions by cost."""
    return about(x.aval.shape) * x.aval.dtype.itemsize


def moved_ns(values: Iterable[Atom]) -> float:
    """Nanoseconds to move values to memory, or from there."""
    return memory_ns(sum(map(about_bytes, values)), target())


def is_dear_to_copy(x: Atom) -> bool:
    """Whether to copy an array takes longer than to start one kernel more."""
    return moving_ns(2 * about_bytes(x), target()) > target().kernel_ns


def loads(reads: Mapping[Var, bool]) -> int:
    """How many equations the arrays among the reads of a group count as that it sees by views.

    There may be a load for each lane of a vector, for where lanes are is not known yet.
    """
    through = sum([not here and v.aval.ndim > 0 for v, here in reads.items()])
    return through * (target().vector_bytes // dtypes.float32.itemsize) if through else 0


def is_fusible(eqn: Eqn, takes: Callable[[Jaxpr], bool] | None = None) -> bool:
    """Whether an equation can be part of a kernel; contractions those that ``takes`` says."""
    if eqn.primitive is contraction:
        if dtypes.is_complex(eqn.outvars[0].aval.dtype):
            return False  # it is one of real numbers, over another space than what is around it
        return takes is not None and takes(eqn.params["jaxpr"])
    avals = tuple([x.aval for x in eqn.invars])
    results = [v.aval for v in eqn.outvars]
    if any(a.size == 0 for a in (*avals, *results)):
        return False
    if isinstance(eqn.primitive, Elementwise):
        return eqn.primitive.lowers(avals, dict(eqn.params))
    if not isinstance(eqn.primitive, (Reindexing, ReindexReduce)):
        return False
    if isinstance(eqn.primitive, Update):
        x = avals[eqn.primitive.elements]
        how = eqn.primitive.reduction(x, **eqn.params)
        if how.carries != dtypes.parts_of(x.dtype):
            return False  # memory does not hold what it accumulates
    return all(a.dtype in dtypes.ALL for a in (*avals, *results))


def all_fusible(eqns: Sequence[Eqn], takes: Callable[[Jaxpr], bool] | None = None) -> list[bool]:
    """:func:`is_fusible` of each of many equations, most of which are like others."""
    known: dict[Any, bool] = {}
    found = []
    for eqn in eqns:
        if not isinstance(eqn.primitive, Elementwise):
            found.append(is_fusible(eqn, takes))
            continue
        key = (eqn.primitive, *[x.aval for x in eqn.invars], *[v.aval for v in eqn.outvars])
        fits = known.get(key)
        if fits is None:
            fits = known[key] = is_fusible(eqn, takes)
        found.append(fits)
    return found


def is_sum(eqn: Eqn) -> bool:
    """Whether an equation takes in many elements for each one that it gives."""
    return eqn.primitive is contraction or isinstance(eqn.primitive, ReindexReduce)


def is_view(eqn: Eqn) -> bool:
    """Whether an equation only says where values are read."""
    return isinstance(eqn.primitive, Reindexing)


def is_renaming(eqn: Eqn) -> bool:
    """Whether an equation inserts or removes dimensions of size 1 and does nothing else."""
    if eqn.primitive not in (reshape, broadcast_in_dim) or not eqn.invars:
        return False
    before, after = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    if squeezed(before) != squeezed(after):
        return False
    dims = eqn.params.get("dims", ())
    return tuple(sorted(dims)) == tuple(dims)


def has_holes(eqn: Eqn) -> bool:
    """Whether an equation is a view of elements that are set apart, with a fill value between."""
    if eqn.primitive is reindex:
        return any(map(_asks_to_be_divisible, eqn.params["map"].conditions))
    return any(eqn.params.get("interior", ()))


def _asks_to_be_divisible(condition: Condition) -> bool:
    atoms = [atom for atom, _ in condition.expr.terms]
    return condition.kind == "==0" and len(atoms) == 1 and isinstance(atoms[0], Mod)


@record
class Space:
    """What a group's kernel runs over.

    Args:
      full: the shape, without dimensions of size 1.
      row: the shape of the rows that it reduces; None if it reduces nothing.
      operand: the shape and the axes that its reductions have.
    """

    full: Shape
    row: Shape | None = None
    operand: tuple[Shape, Shape] | None = None


class KernelGroup:
    """Equations that share a kernel.

    Attributes:
      eqns: their positions in the program, views left out.
      space: what the kernel runs over.
      reads: for each value from outside how it is used: as it is, or through views.
      loads: what :func:`loads` says of them.
      ways: the ways by which it reads a value, for those that it reads through views.
      writes: the values that are used outside.
      stages: how often it goes through the rows that it reduces.
      stage_of: in which of these, from 1 on, the values that it writes are known, if not in the
        first.
      update: whether it ends with a scatter.
      serial: whether that may meet an element again with each step.
      size: how many equations it computes for each element: one more often than once, if its
        value is needed at several places.
      work: nanoseconds of what they compute for an element.
      dear: whether functions such as ``exp`` are among them.
      center: the contraction among the equations, if there is one.
      in_parts: whether there is a kernel for each remainder of the indices of its result: where
        holes of a spread operand are read, as by the gradient of a strided convolution.
    """

    __slots__ = ("center", "dear", "eqns", "in_parts", "loads", "number", "reads", "serial", "size",
                 "space", "stage_of", "stages", "update", "version", "ways", "work",
                 "writes")  # fmt: skip

    def __init__(self, number: int, eqn: Eqn) -> None:
        self.number = number
        self.eqns: set[int] = set()
        self.reads: dict[Var, bool] = {}
        self.loads = 0
        self.ways: dict[Var, frozenset[tuple[int, ...]]] = {}
        self.writes: set[Var] = set()
        self.update = is_update(eqn)
        self.serial = self.update and is_serial(eqn)
        self.space = space_of(eqn)
        self.size = 0
        self.stages = 1
        self.stage_of: dict[Var, int] = {}
        self.work = 0.0
        self.dear = False
        self.center = number if eqn.primitive is contraction else None
        self.in_parts = self.center is not None and any(map(has_holes, eqn.params["jaxpr"].eqns))
        self.version = 0

    def add(self, n: int, eqn: Eqn, work: float) -> None:
        """Let it compute an equation of the program, which takes so much work."""
        self.eqns.add(n)
        self.size += 1
        self.writes.update(eqn.outvars)
        self.work += work
        self.dear = self.dear or is_dear(eqn)

    def has_for_rows(self, v: Var) -> bool:
        """Whether a value has one element for each row of its reductions."""
        return squeezed(v.aval.shape) == self.space.row != self.space.full


def space_of(eqn: Eqn) -> Space:
    """The iteration space of one equation."""
    axes = reduced_axes(eqn)
    if axes is not None:
        shape = eqn.invars[0].aval.shape
        row = tuple(n for d, n in enumerate(shape) if d not in axes)
        return Space(squeezed(shape), squeezed(row), (shape, axes))
    if is_update(eqn):
        return Space(squeezed(eqn.params["map"].domain))
    return Space(squeezed(eqn.outvars[0].aval.shape))


def is_serial(eqn: Eqn) -> bool:
    """Whether no two elements of a scatter can be computed at once, for they may be one element."""
    index_map: IndexMap = eqn.params["map"]
    if eqn.params.get("unique") or index_map.injective():
        return False
    free = {e.number for e in index_map.exprs if isinstance(e, Dim)}
    return all(n == 1 for d, n in enumerate(index_map.domain) if d in free)


def is_dear(eqn: Eqn) -> bool:
    """Whether an equation computes a function that is dear."""
    return eqn.primitive.is_function
