"""Operations that leave values as they are, and only mean something to the compiler.

``copy`` makes another buffer; ``optimization_barrier`` keeps operations from moving across it;
``operand_precision`` says how exactly products of its operand are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functrax.core.errors.typed import ArgumentError
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Elementwise,
    Linear,
    Opaque,
    Ops,
    Sample,
    Tangents,
    Value,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

#: XLA's words for how exactly operands are multiplied.
PRECISIONS = ("default", "high", "highest")


class Copy(Elementwise):
    """The same values in another buffer."""

    name = "copy"
    rounds_nothing = True
    computes_nothing = True
    keeps_zero = True
    takes_stored = True

    def moved_operands(self, params: dict[str, Any]) -> slice:
        return slice(0, 1)

    def reference(self, x: Any) -> Any:
        return np.array(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return x

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        t = tangents[0]
        return self.bind(primals[0]), None if t is None else self.bind(t)

    def transpose(self, ct: Value, x: Any) -> list[Value | None]:
        return [self.bind(ct)]

    def bad_samples(self) -> Iterable[BadSample]:
        return ()


class OperandPrecision(Elementwise):
    """The operand of a contraction, and how exactly its products are asked for.

    functrax computes them exactly in any case; other compilers are told (``transforms/hlo``).
    """

    name = "operand_precision"
    rounds_nothing = True
    computes_nothing = True
    is_marker = True
    takes_stored = True

    def moved_operands(self, params: dict[str, Any]) -> slice:
        return slice(0, 1)

    def shape_rule(self, x: ShapedArray, *, precision: str) -> Avals:
        if precision not in PRECISIONS:
            raise ArgumentError(
                "operand_precision: unknown precision", got=repr(precision), fix=str(PRECISIONS)
            )
        return x

    def reference(self, x: Any, *, precision: str) -> Any:
        return x

    def lower(self, b: Builder, x: Scalar, *, precision: str) -> Scalar:
        return x

    def jvp(self, primals: Ops, tangents: Tangents, *, precision: str) -> tuple[Any, Any]:
        t = tangents[0]
        out = self.bind(primals[0], precision=precision)
        return out, None if t is None else self.bind(t, precision=precision)

    def transpose(self, ct: Value, x: Any, *, precision: str) -> list[Value | None]:
        return [ct]

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4),), {"precision": "highest"})
        yield Sample(((),), {"precision": "high"})

    def bad_samples(self) -> Iterable[BadSample]:
        x = ShapedArray((3,), dtypes.float32)
        yield BadSample((x,), ArgumentError, "precision", {"precision": "low"})


class OptimizationBarrier(Opaque):
    """All operands as they are; what uses a result comes after all of them.

    Tangents and cotangents pass a barrier of their own.
    """

    name = "optimization_barrier"
    takes_stored = True
    multiple_results = True
    shareable = False

    def shape_rule(self, *avals: ShapedArray) -> Avals:
        return avals

    def reference(self, *operands: Any) -> Any:
        return operands

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        return self.bind(*primals), self._over(tangents)

    def transpose(self, cts: Tangents, *operands: Any) -> list[Value | None]:
        wanted = [
            ct if isinstance(x, Linear) else None for ct, x in zip(cts, operands, strict=True)
        ]
        return self._over(wanted)

    def _over(self, values: Tangents) -> list[Value | None]:
        held = iter(self.bind(*(v for v in values if v is not None)))
        return [None if v is None else next(held) for v in values]

    def batch(self, size: int, args: Ops, batched: Sequence[bool]) -> tuple[Any, Any]:
        return self.bind(*args), list(batched)

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4), (2,)))
        yield Sample(((),))


copy, optimization_barrier = Copy(), OptimizationBarrier()
operand_precision = OperandPrecision()
