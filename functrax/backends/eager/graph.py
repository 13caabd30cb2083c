"""What Python knows of the graph of operations that are recorded and not run.

The graph itself is C++ (``native/eager_node.h``): who may still ask for a result is written down
with the result, and never deduced.  Python sees three things of it: a :class:`Signature` is what
operations of one kind share, :class:`functrax.core.arrays.array.Pending` is what an array holds of
a result, and a :class:`Cut` is a copy of what has to run for some results.

Start at :class:`Cut`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from functrax.backends.eager.settings import Setting
from functrax.backends.reference.strided import SMALL
from functrax.backends.targets.facts import PORTABLE, SECOND_CACHE
from functrax.core import native
from functrax.core.errors.source import SourceLine
from functrax.core.prims.reindex import Reindexing
from functrax.core.records import record
from functrax.core.tracing.primitive import Avals, Elementwise, Primitive
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

#: A result that fits into a cache is stored whatever it was made of.
SMALL_BYTES: Final = SECOND_CACHE
#: Operations on fewer bytes do not keep much alive.
FEW_BYTES: Final = PORTABLE.page
#: So many operations may be run again instead of storing a result that has outgrown its sources.
REPEATED: Final = 8
#: Operations for which the reference takes at most so many nanoseconds are left to it.
CHEAP: Final = 300_000


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
      setting: with which it is recorded.
      results: type of the result, or a tuple of types.
      cost: about how many nanoseconds the reference takes.
    """

    __slots__ = (
        "alone", "avals", "cost", "exact", "holds", "is_brief", "literals_are_inputs",
        "operand_bytes", "out_bytes", "params", "primitive", "results", "shares", "simplifies",
        "pays", "reference_ns", "setting", "spent", "spreads", "types",
    )  # fmt: skip

    def __init__(
        self,
        primitive: Primitive,
        avals: tuple[ShapedArray, ...],
        params: dict[str, Any],
        setting: Setting,
        results: Avals,
        cost: int,
    ) -> None:
        self.primitive = primitive
        self.avals = avals
        self.params = params
        self.setting = setting
        self.types = results
        self.results = (results,) if type(results) is ShapedArray else tuple(results)
        self.cost = cost
        self.operand_bytes = tuple([a.nbytes for a in avals])
        #: Whether the reference gives the bits that a program gives.
        floats = any(dtypes.is_inexact(a.dtype) for a in (*avals, *self.results))
        self.exact = primitive.exact or (primitive.exact_on_integers and not floats)
        self.out_bytes = sum(a.nbytes for a in self.results)
        #: Whether arrays of several sizes may share a program: a function of one element.
        one = isinstance(primitive, Elementwise) and len(avals) == 1 and not self.exact
        self.shares = one and primitive.lowers(avals, params)
        #: Whether NumPy may run it without a look at the graph: little work, one small result.
        small = type(results) is ShapedArray and self.out_bytes <= SMALL_BYTES
        self.is_brief = small and cost <= CHEAP and setting.on_host
        #: About how many nanoseconds the reference takes where it runs again and again.
        self.reference_ns = cost * primitive.reference_calls
        #: Whether a program of its own is quicker than the reference: for few elements it is, but
        #: a view of many, or what NumPy does as quickly, is left to NumPy.
        sizes = [a.size for a in (*avals, *self.results)]
        slow = isinstance(primitive, Elementwise) or primitive.reference_calls > 1
        self.pays = slow or max(sizes, default=0) <= SMALL
        #: For how long it was run by itself; whether it has a program, None while that is open.
        self.spent = 0
        self.alone: bool | None = None
        #: Whether the arrays that it keeps alive may be worth counting.
        self.holds = sum(self.operand_bytes) > FEW_BYTES
        #: Whether literals among the operands may make it needless.
        self.simplifies = type(primitive).simplify is not Primitive.simplify
        #: Numbers in the program that do not change what it is: scalars of elementwise operations.
        self.literals_are_inputs = isinstance(primitive, Elementwise)
        #: Whether its result may be computed again where it is needed, rather than stored.
        self.spreads = isinstance(primitive, (Elementwise, Reindexing)) and len(self.results) == 1


@record(eq=False)
class Cut:
    """What has to run, and what comes out.

    Values are numbered: the results of the operations from 0 on, in order; the inputs -1, -2, …

    Args:
      signatures: the operations, each after its operands.
      lines: the user's line of each.
      operands: for each operation the numbers of its operands; a literal where its value is part
        of what the program is.
      inputs: the raw values that go in.
      input_avals: their types.
      outputs: the numbers of the values that come out.
    """

    signatures: Sequence[Signature]
    lines: Sequence[SourceLine | None]
    operands: Sequence[tuple[Any, ...]]
    inputs: Sequence[Any]
    input_avals: Sequence[ShapedArray]
    outputs: Sequence[int]

    @property
    def setting(self) -> Setting:
        """With which the operations were recorded."""
        return self.signatures[0].setting

    @property
    def key(self) -> tuple[Any, ...]:
        """What the program is, without the values that go in."""
        parts: list[Any] = []
        for signature, codes in zip(self.signatures, self.operands):
            parts.append(signature)
            parts += codes
        return (*parts, None, *self.outputs)
