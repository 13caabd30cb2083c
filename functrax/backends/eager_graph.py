"""The graph of operations that are recorded and not run: its nodes, and how one is cut out.

A :class:`Node` is one application of a primitive.  Its operands are nodes that are not computed
yet, raw values (arrays in memory) and literals.  Nodes point from results to operands only, so what
nobody can ask for any more is gone at once, and who still needs a result can be told by counting
the references to it: those that come from inside of a cut are known, and any other is an array or a
recorded operation outside.

A :class:`Cut` is what has to run for some results: their operations that are not computed, in
order, the raw values that go in, and the results that must come out, which are all that somebody
outside still refers to.  Its :attr:`~Cut.key` says what it is made of: signatures, wiring and
outputs, but no values; cuts with equal keys are the same program.

Start at :class:`Node`, then :func:`cut`.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from functrax.core import dtypes, native
from functrax.core.array import Pending
from functrax.core.aval import ShapedArray
from functrax.core.jaxpr import Literal
from functrax.core.primitive import Avals, Primitive
from functrax.core.records import record
from functrax.core.source import SourceLine

#: A result of at most so many bytes is stored whatever it was made of.
SMALL_BYTES: Final = 1 << 20
#: A result has grown when it has more than so many times the bytes of what it was made of.
GROWN: Final = 4
#: Operations on fewer bytes do not keep much alive.
FEW_BYTES: Final = 1 << 12
#: So many operations may be run again instead of storing a result that has grown.
REPEATED: Final = 8


if TYPE_CHECKING or native.extension is None:

    class EagerSignature:
        """What C++ reads of signatures."""

        __slots__ = ()

else:
    EagerSignature = native.extension.EagerSignature


class Signature(EagerSignature):
    """An operation without its operands: what nodes of equal type share.

    Args:
      primitive: the operation.
      avals: types of the operands.
      params: its parameters.
      strict: whether it was recorded in strict mode.
      results: type of the result, or a tuple of types.
      cost: about how many nanoseconds the reference takes.
    """

    __slots__ = (
        "alone", "avals", "cost", "counts", "exact", "holds", "in_bytes", "literals_are_inputs",
        "operand_bytes", "out_bytes", "params", "primitive", "results", "shares", "simplifies",
        "spreads", "strict", "types", "uses",
    )  # fmt: skip

    def __init__(
        self,
        primitive: Primitive,
        avals: tuple[ShapedArray, ...],
        params: dict[str, Any],
        strict: bool,
        results: Avals,
        cost: int,
    ) -> None:
        self.primitive = primitive
        self.avals = avals
        self.params = params
        self.strict = strict
        self.types = results
        self.results = (results,) if type(results) is ShapedArray else tuple(results)
        self.cost = cost
        self.operand_bytes = tuple([a.nbytes for a in avals])
        self.in_bytes = sum(self.operand_bytes)
        #: Whether the reference gives the bits that a program gives.
        floats = any(dtypes.is_inexact(a.dtype) for a in (*avals, *self.results))
        self.exact = primitive.exact or (primitive.exact_on_integers and not floats)
        self.out_bytes = sum(a.nbytes for a in self.results)
        #: Whether arrays of several sizes may share a program: a function of one element.
        one = primitive.family == "elementwise" and len(avals) == 1 and not self.exact
        self.shares = one and primitive.lowers(avals, params)
        #: Whether it may run without a look at the graph: it has one result, which is small.
        self.counts = type(results) is ShapedArray and self.out_bytes <= SMALL_BYTES
        #: How often it was run by itself; whether it has a program then, None while that is open.
        self.uses = 0
        self.alone: bool | None = None
        #: Whether the arrays that it keeps alive may be worth counting.
        self.holds = self.in_bytes > FEW_BYTES
        #: Whether literals among the operands may make it needless.
        self.simplifies = type(primitive).simplify is not Primitive.simplify
        #: Numbers in the program that do not change what it is: scalars of elementwise operations.
        self.literals_are_inputs = primitive.family == "elementwise"
        #: Whether its result may be computed again where it is needed, rather than stored.
        self.spreads = primitive.family in ("elementwise", "reindex") and len(self.results) == 1


class Region:
    """What operations have in common that need one another.

    Args:
      entry: the signature of an operation that needs no other.
    """

    __slots__ = ("entries", "joined", "since")

    def __init__(self, entry: Signature) -> None:
        #: Signatures of the operations that need no other.
        self.entries = {entry}
        #: For operation number n at most ``n - since`` are expected to have to run.
        self.since = 0
        #: The region that this one has become part of.
        self.joined: Region | None = None

    def join(self, other: Region, mine: int, others: int) -> Region:
        """The region of an operation that needs both.

        Args:
          other: another region.
          mine: at most so many operations have to run for what it needs of this region.
          others: the same of the other one.
        """
        since = max(self.since - others, other.since - mine)
        small, large = sorted((self, other), key=lambda x: len(x.entries))
        large.entries |= small.entries
        large.since = since
        small.joined = large
        return large


if TYPE_CHECKING or native.extension is None:

    class EagerNode:
        """What a node is made of.

        Args:
          signature: what it is.
          operands: for each operand a node or part that was not computed when the operation was
            recorded, a raw value, or a literal.
          source: the user's line.
          size: an upper bound of the number of operations that have to run for it.
          begin: when the first of them was recorded, as a number that each operation has.
          region: what it shares with what it needs; None while that is itself alone.
        """

        __slots__ = (
            "__weakref__", "begin", "operands", "parts", "region", "signature", "size", "source",
            "value",
        )  # fmt: skip

        def __init__(
            self,
            signature: Signature,
            operands: tuple[Any, ...],
            source: SourceLine | None,
            size: int,
            begin: int,
            region: Region | None,
        ) -> None:
            self.signature = signature
            self.operands = operands
            self.source = source
            self.size = size
            self.begin = begin
            self.region = region
            #: The raw result, when it is known.
            self.value: Any = None
            #: Of an operation with several results, those that somebody refers to.
            self.parts: tuple[weakref.ref[Part], ...] = ()

else:
    EagerNode = native.extension.EagerNode


class Node(EagerNode, Pending):
    """An operation that is recorded."""

    __slots__ = ()

    #: Computes nodes; ``backends/eager_run.py`` puts itself here.
    run: ClassVar[Callable[[Sequence[Node]], None]]

    def result(self) -> Any:
        if self.value is None:
            Node.run([self])
        return self.value


class Part(Pending):
    """One result of an operation that has several."""

    __slots__ = ("__weakref__", "node", "number", "value")

    def __init__(self, node: Node, number: int) -> None:
        self.node: Node | None = node
        self.number = number
        self.value: Any = None

    def result(self) -> Any:
        node = self.node
        if self.value is None and node is not None:
            Node.run([node])
        return self.value


Recorded: TypeAlias = "Node | Part"


def node_of(x: Any) -> Node | None:
    """The operation that has to run for an operand; None if it is known."""
    kind = type(x)
    if kind is Node:
        return x if x.value is None else None
    if kind is Part:
        return x.node if x.value is None else None
    return None


def region_of(node: Node) -> Region:
    """What an operation shares with what it needs and what needs it."""
    region = node.region
    if region is None:
        region = Region(node.signature)
    while region.joined is not None:
        region = region.joined
    node.region = region
    return region


def ancestors(roots: Iterable[Node]) -> list[Node]:
    """The operations that have to run for ``roots``, and those, each after its operands.

    The order follows from the graph alone.
    """
    order: list[Node] = []
    done: set[Node] = set()
    stack = list(roots)
    stack.reverse()
    while stack:
        node = stack[-1]
        operands = node.operands  # before its value: another thread drops them after setting it
        if node in done or node.value is not None:
            stack.pop()
            continue
        waiting = [n for x in operands if (n := node_of(x)) is not None and n not in done]
        if waiting:
            waiting.reverse()
            stack += waiting
            continue
        stack.pop()
        done.add(node)
        order.append(node)
    return order


@record(eq=False)
class Cut:
    """What has to run, and what comes out.

    Values are numbered: the results of the operations from 0 on, in order; the inputs -1, -2, …

    Args:
      nodes: the operations, each after its operands.
      operands: for each operation the numbers of its operands; a literal where its value is part
        of what the program is.
      inputs: the raw values that go in.
      input_avals: their types.
      outputs: the numbers of the values that come out, and who gets each.
    """

    nodes: list[Node]
    operands: list[tuple[Any, ...]]
    inputs: list[Any]
    input_avals: list[ShapedArray]
    outputs: list[tuple[int, Recorded]]

    @property
    def key(self) -> tuple[Any, ...]:
        """What the program is, without the values that go in."""
        parts: list[Any] = []
        for node, codes in zip(self.nodes, self.operands):
            parts.append(node.signature)
            parts += codes
        parts.append(None)
        parts += [number for number, _ in self.outputs]
        return tuple(parts)


class ChangedError(Exception):
    """Another thread computed an operation meanwhile; what has to run is to be looked for again."""


def cut(nodes: list[Node], requested: Sequence[Node]) -> Cut:
    """What it takes to run operations, and what comes out.

    Args:
      nodes: operations that are not computed, each after its operands: see :func:`ancestors`.
      requested: those of them whose values are wanted now.  Others that have grown are left
        recorded, while what they are made of comes out.
    """
    uses = _uses(nodes)
    wanted = _wanted(nodes, uses, frozenset(requested))
    inputs = _Inputs()
    first: dict[Node, int] = {}
    operands: list[tuple[Any, ...]] = []
    outputs: list[tuple[int, Recorded]] = []
    count = 0
    for node in nodes:
        given = node.operands
        if len(given) != len(node.signature.avals):
            raise ChangedError
        operands.append(tuple([inputs.code(node, i, x, first) for i, x in enumerate(given)]))
        first[node] = count
        outputs += [(count + number, x) for number, x in wanted.get(node, ())]
        count += len(node.signature.results)
    return Cut(nodes, operands, inputs.values, inputs.avals, outputs)


class _Inputs:
    """Numbers the operands of operations, and collects those that are inputs."""

    __slots__ = ("_numbers", "avals", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.avals: list[ShapedArray] = []
        self._numbers: dict[tuple[int, ShapedArray], int] = {}

    def code(self, node: Node, position: int, x: Any, first: dict[Node, int]) -> Any:
        kind = type(x)
        signature = node.signature
        if kind is Literal:
            return self._new(x.val, x.aval) if signature.literals_are_inputs else x
        if kind is Node or kind is Part:
            if x.value is None:
                return first[x] if kind is Node else first[x.node] + x.number
            x = x.value
        aval = signature.avals[position]
        key = (id(x), aval)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = self._new(x, aval)
        return found

    def _new(self, value: Any, aval: ShapedArray) -> int:
        self.values.append(value)
        self.avals.append(aval)
        return -len(self.values)


def _uses(nodes: Sequence[Node]) -> dict[Recorded, int]:
    """How often operands of these operations refer to each of their results."""
    uses: dict[Recorded, int] = {}
    for node in nodes:
        for x in node.operands:
            if node_of(x) is not None:
                uses[x] = uses.get(x, 0) + 1
    return uses


def _is_held(holder: Sequence[Any], n: int, uses: dict[Recorded, int], grown: bool) -> bool:
    """Whether an array, or an operation outside, refers to element ``n`` of a sequence.

    Known are the sequence's own reference, those of operands and the key in ``uses``, that of the
    set of what has grown, and one of a local variable of the caller.
    """
    x = holder[n]
    known = uses.get(x, 0) + (x in uses) + grown + 1
    return sys.getrefcount(x) - _HELD_ONCE > known


def _held_once(holder: Sequence[Any], n: int) -> int:
    x = holder[n]
    return sys.getrefcount(x)


_HELD_ONCE: Final = _held_once([object()], 0)


def _wanted(
    nodes: list[Node], uses: dict[Recorded, int], roots: frozenset[Node]
) -> dict[Node, list[tuple[int, Recorded]]]:
    """The results of each operation that must come out.

    Those that somebody outside refers to, and the roots.  One that has grown, and is no root, stays
    recorded, and what it is made of comes out instead.
    """
    grown = _grown(nodes)
    found: dict[Node, list[tuple[int, Recorded]]] = {}
    forced: set[Recorded] = set()
    for n in range(len(nodes) - 1, -1, -1):
        node = nodes[n]
        chosen: list[tuple[int, Recorded]] = []
        if node.parts:
            chosen += _wanted_parts(node, uses, forced)
        elif node in roots or node in forced or _is_held(nodes, n, uses, node in grown):
            chosen.append((0, node))
        if chosen and node in grown and node not in roots:
            forced.update(x for x in node.operands if node_of(x) is not None)
        elif chosen:
            found[node] = chosen
    return found


def _wanted_parts(
    node: Node, uses: dict[Recorded, int], forced: set[Recorded]
) -> list[tuple[int, Recorded]]:
    alive = [part for ref in node.parts for part in (ref(),) if part is not None]
    chosen: list[tuple[int, Recorded]] = []
    for n in range(len(alive)):
        part = alive[n]
        if part in forced or _is_held(alive, n, uses, False):
            chosen.append((part.number, part))
    return chosen


def _grown(nodes: Sequence[Node]) -> set[Node]:
    """The operations whose results are much larger than all that they are made of.

    Only where few operations make them, for these run again wherever the result is used.
    """
    if all(node.signature.out_bytes <= SMALL_BYTES for node in nodes):
        return set()
    made_of: dict[Node, tuple[int, int]] = {}  # bytes and operations
    found: set[Node] = set()
    for node in nodes:
        signature = node.signature
        made_of[node] = (signature.out_bytes, 0)
        if not signature.spreads:
            continue
        total, steps = 0, 1
        for x, aval in zip(node.operands, signature.avals):
            producer = node_of(x)
            nbytes, before = (aval.nbytes, 0) if producer is None else made_of[producer]
            total += nbytes
            steps += before
        if steps <= REPEATED and signature.out_bytes > max(SMALL_BYTES, GROWN * total):
            found.add(node)
            made_of[node] = (total, steps)
    return found
