"""Elementwise operations on the bits of integers: shifts, counts, and the threefry cipher.

An amount outside of the width shifts everything out.  The values are computed in ``bits.py`` and
``threefry_values.py``.

Start at :class:`Shift`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from functrax.core.errors.typed import DTypeError, ShapeError
from functrax.core.prims import bits, lowered_bits
from functrax.core.prims.arithmetic import is_literal
from functrax.core.prims.threefry_values import threefry2x32 as threefry_values
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Elementwise,
    Ops,
    Sample,
    Tangents,
    Value,
    elementwise_shape,
    spread,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


class Shift(Elementwise):
    """Shifts; an amount outside of the width shifts everything out."""

    accepts = dtypes.INTEGER
    arity = 2

    def __init__(
        self,
        name: str,
        function: Callable[[Any, Any], Any],
        lowered: Callable[[Builder, Scalar, Scalar], Scalar],
        reads_bits: bool = False,
    ) -> None:
        self.name = name
        self.reads_bits = reads_bits
        self.function = function
        self.lowered = lowered
        super().__init__()

    def reference(self, x: Any, amount: Any) -> Any:
        return self.function(x, amount)

    def lower(self, b: Builder, x: Scalar, amount: Scalar) -> Scalar:
        return self.lowered(b, x, amount)

    def simplify(self, x: Value, amount: Value) -> Value | None:
        same = not x.aval.weak_type or amount.aval.weak_type
        return x if same and is_literal(amount, 0) else None

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4), (3, 4)), ranges=((-50.0, 50.0), (0.0, 9.0)))
        yield Sample(((), ()), ranges=((-50.0, 50.0), (0.0, 9.0)))
        yield Sample(((0, 2), (0, 2)))


class MulHi(Elementwise):
    """The upper half of the product of two integers."""

    name = "mulhi"
    arity = 2
    accepts = dtypes.INTEGER

    def reference(self, x: Any, y: Any) -> Any:
        return bits.mulhi(x, y)

    def lower(self, b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return lowered_bits.mulhi(b, x, y)

    def samples(self) -> Iterable[Sample]:
        for shape in ((3, 4), (), (0, 2)):
            yield Sample((shape, shape), ranges=((-9e18, 9e18),))


class BitCount(Elementwise):
    """Counts bits of each integer."""

    reads_bits = True
    accepts = dtypes.INTEGER

    def __init__(self, name: str, function: Callable[[Any], Any], op: str) -> None:
        self.name = name
        self.function = function
        self.op = op
        super().__init__()

    def reference(self, x: Any) -> Any:
        return self.function(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return b.logic(self.op, x)

    def samples(self) -> Iterable[Sample]:
        for shape in ((3, 4), (), (0, 2)):
            yield Sample((shape,), ranges=((-120.0, 120.0),))


class Threefry2x32(Elementwise):
    """Two words of random bits from two words of a key and two of a counter, all ``uint32``."""

    name = "threefry2x32"
    multiple_results = True
    arity = 4
    accepts = frozenset({dtypes.uint32})

    def shape_rule(self, *avals: ShapedArray) -> Avals:
        if len(avals) != self.arity:
            raise ShapeError(
                "threefry2x32 takes 4 operands",
                got=f"{len(avals)} operands",
                fix="give two words of the key and two of the counter",
            )
        shape = elementwise_shape("threefry2x32", avals)
        self.check_dtypes(avals)
        word = ShapedArray(shape, dtypes.uint32)
        return word, word

    def reference(self, k0: Any, k1: Any, x0: Any, x1: Any) -> Any:
        return threefry_values(k0, k1, x0, x1)

    def lower(self, b: Builder, *words: Scalar) -> tuple[Scalar, Scalar]:
        return b.threefry(*words)

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        return self.bind(*primals), [None, None]

    def batch(self, size: int, args: Ops, batched: Sequence[bool]) -> tuple[Any, Any]:
        return self.bind(*spread(size, args, batched)), [True, True]

    def samples(self) -> Iterable[Sample]:
        for shape in ((3, 4), (), (0, 2)):
            yield Sample((shape,) * 4, ranges=((0.0, 4e9),))

    def bad_samples(self) -> Iterable[BadSample]:
        word, ints = ShapedArray((3,), dtypes.uint32), ShapedArray((3,), dtypes.int32)
        longer = ShapedArray((4,), dtypes.uint32)
        yield BadSample((word, word, word, longer), ShapeError, "threefry2x32")
        yield BadSample((word, word, word), ShapeError, "4 operands")
        yield BadSample((ints,) * 4, DTypeError, "threefry2x32")


shift_left = Shift("shift_left", bits.shift_left, lowered_bits.shift_left)
shift_right_logical = Shift(
    "shift_right_logical",
    bits.shift_right_logical,
    lowered_bits.shift_right_logical,
    reads_bits=True,
)
shift_right_arithmetic = Shift(
    "shift_right_arithmetic", bits.shift_right_arithmetic, lowered_bits.shift_right_arithmetic
)
mulhi = MulHi()
population_count = BitCount("population_count", bits.population_count, "popcount")
clz = BitCount("clz", bits.clz, "clz")
threefry2x32 = Threefry2x32()
