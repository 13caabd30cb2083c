"""The loop IR: what a kernel does, as a tree of statements.

A :class:`Function` has buffers and a body.  A statement is a loop, a store, or one of a few others
that follow; their values are the scalar expressions of ``core/scalars/scalar.py``, whose equal ones
are one object.  Their leaves are:

- ``load``: attr ``(buffer, address)``, where ``address`` is affine in the indices of loops;
  operands: a further offset where it is not (attr[2]), and a bool outside which nothing is read and
  the value is arbitrary (attr[3]);
- ``dim``: the index of a loop or a :class:`Bind`; ``int``: an integer that depends on sizes, a
  run-time argument; ``given``: a float that is one too, by its bits; ``number``: attr ``(key,
  value)``, an integer that loops begin, end or step by, equal only to those with its key;
- ``acc``, ``result``: what a loop carries, in a step and after the last one, and what a
  :class:`Let` names;
- ``tail``: whether a lane is inside the vector loop around it, or a thread inside the loop of its
  group; ``first``: whether the thread is the first one of its group; ``aligned``: whether some
  arrays, which attr has, begin at a multiple of the longest access of a thread;
- ``line``: attr ``(buffer, address, dim)``, operand an index of that dim: the first index from it
  on at whose address a cache line begins; ``units``: the first unit of the launch, and their end.

A value has lanes if it depends on the index of the vector loop around it.  ``across`` combines
lanes: attr ``(how, n, lanes)``, the ``n``-th of what a reduction makes of its operands' lanes.
``together`` combines what the threads of a group have: attr ``(how, n)``.  ``turn`` is what the
thread has whose turn it is.

Start at :class:`Function`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import count
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.kernels.ir import Operand, Reduce, Store, ordered
from functrax.backends.kernels.tiling import Reading
from functrax.core.index.expr import IndexExpr
from functrax.core.records import field, record
from functrax.core.scalars.scalar import Builder, Scalar

INDEX: Final = np.dtype(np.int64)


@record(eq=False)
class Carried:
    """What goes from one step of a loop to the next.

    Args:
      first: its value before the first step.
      acc: the leaf that stands for it in a step.
      new: its value after the step.
      result: the leaf that stands for it after the last step.
      lanes: how many values it is.
      varies: whether it has a value for each lane of a vector loop around.
    """

    first: Scalar
    acc: Scalar
    new: Scalar
    result: Scalar
    lanes: int = 1
    varies: bool = True


@record(eq=False)
class Loop:
    """Steps over the indices of a dim.

    Args:
      kind: ``"parallel"``, whose steps do not depend on one another; ``"serial"``; ``"threads"``,
        which threads share; ``"vector"``, whose steps are of ``step`` neighbouring points at once;
        ``"grid"``, each of whose steps a group of threads does; ``"group"``, which the threads of a
        group share; ``"wide"``, whose few steps are written out, with one access of memory for all;
        ``"member"``, of which each thread of a group does one step, all at once.
      dim: whose index it steps.
      begin: the first index.
      end: where the indices end.
      step: between indices; of a group's loop, how many neighbouring points a thread takes in each
        step.
      body: what is done in each step.
      carries: what goes from step to step.
      masked: a vector may reach past the end, and its lanes that do are left out; so may the steps
        that the threads of a group take together.
      maybe_empty: there may be no step; else the first one is done in any case.
      peeled: the first or the last steps of a loop, which were taken off.
      by: the step as a number that is given when the kernel runs; None to have it in the code.
      kept: the steps that a thread of a group takes are written out, and what it reads in them
        stays in its registers: loops over the same indices later on do not read it again.
    """

    kind: str
    dim: int
    begin: Scalar
    end: Scalar
    step: int
    body: Body
    carries: tuple[Carried, ...] = ()
    masked: bool = False
    maybe_empty: bool = False
    peeled: bool = False
    by: Scalar | None = None
    kept: bool = False


@record(eq=False)
class While:
    """Steps as long as a condition holds.

    Args:
      dim: the number of the step.
      condition: a bool, of what is carried.
      body: what is done in each step.
      carries: what goes from step to step.
    """

    dim: int
    condition: Scalar
    body: Body
    carries: tuple[Carried, ...]


@record(eq=False)
class Bind:
    """Statements with an index that is given: one step of a loop that is unrolled.

    Args:
      dim: whose index it is.
      index: its value.
      body: the statements.
      carries: what goes from the step before to the next.
      vector: whether the index is that of the first of all lanes.
      inside: a bool; where it is false nothing is done.  None for always.
      tile: where the index is the first of a tile's, the dim that it is along, and the most points
        that the tile has from there on; or None.
    """

    dim: int
    index: Scalar
    body: Body
    carries: tuple[Carried, ...] = ()
    vector: bool = False
    inside: Scalar | None = None
    tile: tuple[int, int] | None = None


@record(eq=False)
class If:
    """Statements that are done where a bool holds, and others where it does not.

    Args:
      condition: the bool.
      body: where it holds.
      otherwise: where it does not.
      in_turn: in a loop of a group that is taken in step: one after the other, in the order of the
        threads for which it holds, and each time by all threads.
    """

    condition: Scalar
    body: Body
    otherwise: Body = ()
    in_turn: bool = False


@record(eq=False)
class Tile:
    """A square of points: the lanes of a vector loop, and as many indices of another dim.

    What is contiguous along that dim is read in rows, once for all points, and transposed.

    Args:
      corner: the dim of a loop by as many, whose index is the first of the other one's.
      points: what is done with each of its indices.
    """

    corner: int
    points: tuple[Bind, ...]


@record(eq=False)
class Let:
    """Names for values, which are computed here.

    Args:
      names: leaves that stand for them from here on; none if they are only to be computed.
      values: the values.
    """

    names: tuple[Scalar, ...]
    values: tuple[Scalar, ...]


@record(eq=False)
class Running:
    """Running results of an associative operation, along the loop around it or a group's threads.

    Args:
      scan: how values are put together: the values, leaves for the results of the step before, and
        the running results.
      last: leaves for what goes on; in a vector loop the result of the last lane, in all lanes, in
        a loop of a group that of the last thread.
    """

    scan: Reduce
    last: tuple[Scalar, ...]


@record(eq=False)
class Place:
    """Rows in memory.

    Args:
      buffer: the array.
      address: of the first element, affine in the indices of loops.
      offset: added to the address; None for nothing.
      pitch: bytes from row to row.
    """

    buffer: int
    address: IndexExpr
    offset: Scalar | None
    pitch: Scalar


@record(eq=False)
class TileSum:
    """Adds up the products of a tile, which stays in registers meanwhile.

    The tile is ``height`` rows, along which the left side steps, of ``width`` vectors, along which
    the right side is contiguous.

    Args:
      dtype: of the sums.
      height: rows of the tile.
      width: vectors of a row.
      lanes: of a vector.
      left: how the left side is read.
      right: how the right side is read.
      columns: the dim of the columns; beyond its extent nothing is read of the right side.
      loops: the dims that are summed along, outermost first.
      length: how many points of the first of these.
      begun: the dim of which a loop around has an index, where the sums begin; None if all begin
        at 0.
      to: where the sums go.
      whole: a bool; where it is false they go to ``instead``.  None for always.
      instead: another place.
      more: not 0 if the sums are added to what is there.
      dot: see :class:`~functrax.backends.kernels.tiling.Tiling`.
      panel: where the vectors that are read of the right side are copied to, and then read from;
        None to read them where they are.
      copies: a bool; whether this tile copies them.
      later: how far after what is read of the right side is what other tiles will read, of which
        this one asks for a part; None to ask for nothing.
      parts: in how many parts tiles ask for that.
    """

    dtype: np.dtype[Any]
    height: int
    width: int
    lanes: int
    left: Reading
    right: Reading
    columns: int
    loops: tuple[int, ...]
    length: Scalar
    begun: int | None
    to: Place
    whole: Scalar | None
    instead: Place | None
    more: Scalar
    dot: tuple[str, ...] = ()
    panel: Place | None = None
    copies: Scalar | None = None
    later: Scalar | None = None
    parts: int = 1

    @property
    def on_unit(self) -> bool:
        """Whether a matrix unit multiplies."""
        return bool(self.dot) and self.dot[0].startswith("tile ")


@record(eq=False)
class TurnTile:
    """Writes the columns of a tile as rows.

    Args:
      dtype: of its elements.
      tile: where its rows are.
      to: where its columns go.
      whole: a bool; where it is false they go to ``instead``.  None for always.
      instead: another place.
      height: how many rows.
      width: how many columns.
      masked: whether nothing is written beyond the last row.
    """

    dtype: np.dtype[Any]
    tile: Place
    to: Place
    whole: Scalar | None
    instead: Place | None
    height: Scalar
    width: Scalar
    masked: bool


@record(eq=False)
class Prefetch:
    """Asks for the lines of elements that will be read or written.

    Args:
      buffer: the array.
      address: of the first element; or of the one before it along ``dim``.
      dim: an outer dim, of which the elements are one step further on; or None.
      count: how many elements; None for those of a vector.
      write: whether they will be written.
    """

    buffer: int
    address: IndexExpr
    dim: int | None = None
    count: int | None = None
    write: bool = False


@record(eq=False)
class Barrier:
    """Threads of a group wait here for one another: what they wrote before, all read after."""


@record(eq=False)
class Poll:
    """Asks now and then whether the kernel is to end."""


Statement: TypeAlias = (
    "Loop | While | Bind | If | Tile | TileSum | TurnTile | Let | Reduce | Running | Prefetch"
    " | Barrier | Poll | Store"
)
Body: TypeAlias = "tuple[Statement, ...]"


@record(frozen=False, eq=False)
class Function:
    """A kernel as a tree.

    Args:
      name: for people.
      builder: that made its expressions.
      operands: the arrays, in the order of the launch.
      extents: the sizes of dims, of those that have one.
      body: what it does.
      units: how many units of work threads share.
      group: how many threads each unit has, where threads work in groups; else 0.
      resident: how many groups a multiprocessor has registers for at once, at least.
      vector: the dim whose neighbouring points are computed at once, or None.
      lanes: how many.
      tile: the dim that a :class:`Tile` is over, or None.
      fetches: whether rows are asked for some lines before they are read.
      updated: the arrays of which a loop may write an element more than once.
      points: how many points its loops have.
      work: how many operations and reads a point takes.
      nodes_: the values of its statements, operands first, where they are known.
      counter: gives numbers of dims and leaves that nothing else has.
    """

    name: str
    builder: Builder
    operands: list[Operand]
    extents: tuple[int, ...]
    body: Body
    units: int = 1
    group: int = 0
    resident: int = 1
    vector: int | None = None
    lanes: int = 1
    tile: int | None = None
    fetches: bool = False
    updated: frozenset[int] = frozenset()
    points: int = 1
    work: int = 1
    nodes_: list[Scalar] | None = field(default=None, repr=False)
    counter: Iterator[int] = field(default_factory=lambda: count(1 << 20), repr=False)

    def new_dim(self) -> int:
        """A dim that no other loop has."""
        return next(self.counter)

    def leaf(self, op: str, dtype: np.dtype[Any]) -> Scalar:
        """A leaf that no other value is."""
        return self.builder.node(op, dtype, (), ("loop", next(self.counter)))

    def statements(self) -> Iterator[Statement]:
        """All statements, outer ones first."""
        stack: list[Any] = list(self.body[::-1])
        while stack:
            statement = stack.pop()
            yield statement
            for name in reversed(BODIES):
                stack += getattr(statement, name, ())[::-1]

    def nodes(self) -> list[Scalar]:
        """The values that statements need, operands first."""
        if self.nodes_ is None:
            found: list[Scalar] = []
            for s in self.statements():
                found += [x for c in getattr(s, "carries", ()) for x in (c.first, c.new)]
                found += [s.condition] if type(s) is While else []
                found += used(s)
            self.nodes_ = ordered(found)
        return self.nodes_


#: The fields of statements that have statements in them.
BODIES: Final = ("points", "body", "otherwise")


def used(s: Any) -> list[Scalar]:
    """The values that a statement uses where it stands: none that are known in its steps alone."""
    if type(s) is While:
        return []
    if type(s) is Let:
        return [*s.values]
    if type(s) in (Reduce, Running):
        reduction = s if type(s) is Reduce else s.scan
        return [*reduction.values, *reduction.accs]
    found = [getattr(s, f.name) for f in fields(s)]
    places = [x for place in found if type(place) is Place for x in (place.offset, place.pitch)]
    return [x for x in (*found, *places) if type(x) is Scalar]


def defined(s: Any) -> list[Scalar]:
    """The leaves that stand for something after a statement."""
    found = [c.result for c in getattr(s, "carries", ())]
    if type(s) is Let:
        found += s.names
    elif type(s) is Reduce:
        found += s.results
    elif type(s) is Running:
        found += (*s.scan.results, *s.last)
    return found


# ---- bounds of loops ----------------------------------------------------------------------------


class Number(tuple[Any, int]):
    """The key and the value of a run-time argument, told apart by key.

    A size that stands for others, too (``core/types/symbolic_sizes.py``), is not hashed, which
    would ask which sizes are equal by chance.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(self[0])

    def __eq__(self, other: object) -> bool:
        if type(other) is not Number or self[0] != other[0]:
            return False
        x, y = self[1], other[1]
        return x is y or (type(x) is int and type(y) is int and x == y)


def number(b: Builder, key: object, value: int) -> Scalar:
    """An integer that loops begin, end or step by: a run-time argument."""
    return b.node("number", INDEX, (), Number((key, value)))


def extent(b: Builder, dim: int, value: int) -> Scalar:
    """The extent of a dim."""
    return number(b, ("extent", dim), value)


def index(b: Builder, dim: int) -> Scalar:
    """The index of a loop."""
    return b.node("dim", INDEX, (), dim)


def smaller(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """The smaller one of two integers."""
    return b.select(b.compare("lt", x, y), x, y)


def plus(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """A sum of integers, of which one may be 0."""
    return y if _is_zero(x) else x if _is_zero(y) else b.add(x, y)


def length(b: Builder, low: Scalar, high: Scalar) -> Scalar:
    """How many indices there are from one on to before another."""
    return high if _is_zero(low) else b.sub(high, low)


def _is_zero(x: Scalar) -> bool:
    return x.op == "const" and not x.attr
