"""A tape without its known values, so that they can be given with each use.

Start at :class:`DetachedTape`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.core.ir.jaxpr import Literal
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.trace import EVAL
from functrax.core.types.aval import ShapedArray
from functrax.transforms.interpreters.linearize import Entry, PartialTrace, Tape, UnknownTracer


class Residual:
    """The place of a known value in a tape that has been detached from its values."""

    __slots__ = ("aval", "number")

    def __init__(self, number: int, aval: ShapedArray) -> None:
        self.number = number
        self.aval = aval


class DetachedTape:
    """A tape without its known values, which are given with each use.

    Args:
      tape: what to detach.  It stays as it is.

    ``values`` of :meth:`of` are the values in their order.
    """

    __slots__ = ("avals", "entries", "inputs", "outputs", "trace")

    def __init__(self, tape: Tape, avals: list[ShapedArray], places: dict[int, Residual]) -> None:
        # A trace of its own: that of the tape leads to the caller's, and all that it holds.
        self.trace = PartialTrace(EVAL, tape.trace.name)
        self.trace.end()
        self.avals = avals
        moved: dict[int, UnknownTracer] = {}

        def own(x: Any) -> Any:
            if not tape.trace.is_unknown(x):
                return places.get(id(x), x)
            if id(x) not in moved:
                moved[id(x)] = UnknownTracer(self.trace, x.aval, x.source)
            return moved[id(x)]

        self.inputs = [own(x) for x in tape.inputs]
        self.entries = [
            Entry(
                e.primitive,
                [own(x) for x in e.inputs],
                list(map(own, e.outputs)),
                e.params,
                e.source,
            )
            for e in tape.entries
        ]
        self.outputs = [own(x) for x in tape.outputs]

    @classmethod
    def of(cls, tape: Tape) -> tuple[DetachedTape, list[Value]]:
        """A tape without its values, and these."""
        values: list[Value] = []
        places: dict[int, Residual] = {}
        for entry in tape.entries:
            for x in entry.inputs:
                if tape.trace.is_unknown(x) or type(x) is Literal or id(x) in places:
                    continue
                places[id(x)] = Residual(len(values), x.aval)
                values.append(x)
        return cls(tape, [x.aval for x in values], places), values

    def attached(self, values: Sequence[Value]) -> Tape:
        """The tape with known values."""
        tape = Tape(self.trace, self.inputs, self.outputs)
        tape.entries = [
            Entry(
                e.primitive,
                [values[x.number] if type(x) is Residual else x for x in e.inputs],
                e.outputs,
                e.params,
                e.source,
            )
            for e in self.entries
        ]
        return tape
