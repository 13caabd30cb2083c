"""The product and the sum that processors compute in one step, rounded once.

Programs do not say it: the pass ``backends/passes/clean/multiply_adds.py`` puts it in place of a
product and a sum, so that all kernels of a program round in the same places.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from functrax.core.prims.arithmetic import add, mul
from functrax.core.prims.fma_values import fma as rounded_once
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import Elementwise, Ops, Sample, Tangents
from functrax.core.types import dtypes


class Fma(Elementwise):
    """``x * y + z``, rounded once; float32 and float64."""

    name = "fma"
    arity = 3
    accepts = frozenset({dtypes.float32, dtypes.float64})

    def reference(self, x: Any, y: Any, z: Any) -> Any:
        return rounded_once(x, y, z)

    def lower(self, b: Builder, x: Scalar, y: Scalar, z: Scalar) -> Scalar:
        return b.fma(x, y, z)

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        x, y, _ = primals
        dx, dy, total = tangents
        for term in (None if dx is None else mul(dx, y), None if dy is None else mul(x, dy)):
            if term is not None:
                total = term if total is None else add(total, term)
        return self.bind(*primals), total

    def samples(self) -> Iterable[Sample]:
        for shape in ((3, 4), (), (0, 2)):
            yield Sample((shape,) * 3)


fma = Fma()
