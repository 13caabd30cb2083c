"""One call of a target, with all decided but where its arrays are.

Types, attributes and a target enter; a :class:`BoundCall` leaves, which runs on addresses: the
extension's ``ForeignCall`` where there is one, or its twin in Python.  The addresses are those of
the operands, but for operands that share memory with a result, then those of the results.

Start at :func:`call`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from functrax.core import native
from functrax.core.errors.source import SourceLine
from functrax.core.foreign.attributes import Attributes
from functrax.core.foreign.descriptions import Shared, description
from functrax.core.foreign.targets import ForeignTarget
from functrax.core.types.aval import ShapedArray


class BoundCall(Protocol):
    """What runs a call; any number of threads may at once."""

    @property
    def address(self) -> int:
        """Where it is, for launches; 0 where launches cannot run it."""

    def run(self, addresses: Sequence[int], /) -> None:
        """Run it on arrays at these addresses, without the lock of Python.

        Raises:
          ForeignCallError: the function says that it failed.
        """

    def check(self) -> None:
        """Raise if a launch of it failed in this thread."""


def call(
    target: ForeignTarget,
    in_avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    shared: Shared,
    attributes: Attributes,
    where: SourceLine | None,
) -> BoundCall:
    """A call of a target.

    Args:
      target: for the CPU.
      in_avals: the types of the operands.
      out_avals: the types of the results.
      shared: operands that lie in the memory of a result.
      attributes: by name.
      where: the user's line, for errors.
    """
    found = description(target, in_avals, out_avals, shared, attributes, where)
    if native.extension is None:
        from functrax.core.foreign.frames import PythonCall

        return PythonCall(found)
    made: BoundCall = native.extension.ForeignCall(
        *(target.convention, target.place, found.arrays, found.num_operands, found.attributes),
        *(found.words, found.numbers, target.has_status, found.report),
    )
    return made
