"""The values that a random function has made so far, and how one is chosen and made to fit.

What the parts of :class:`tests.backends.random_functions.Maker` have in common.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap
from functrax.core.tracing.primitive import literal, registry

MAX_SIZE = 6000
#: Integers up to these are exact.
EXACT = {"bfloat16": 256, "float16": 2048, "float32": 1 << 24, "float64": 1 << 53}


def bind(name: str, *operands: Any, **params: Any) -> Any:
    """The result of a primitive."""
    return registry[name].bind(*operands, **params)


class Values:
    """Values to choose from, and to make others fit.

    Attributes:
      values: what there is to use, each with a bound of its magnitude (kind ``exact``).
    """

    def __init__(
        self, rng: np.random.Generator, kind: str, values: list[Any], control: bool = True
    ) -> None:
        self.rng = rng
        self.kind = kind
        self.control = control
        self.values = [(v, 4.0) for v in values]
        self.given = len(values)

    # ---- choices ------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def pick(self, things: Sequence[Any]) -> Any:
        return things[self.below(len(things))]

    def value(self) -> tuple[Any, float]:
        return self.pick(self.values[-5:] if self.chance(0.6) else self.values)

    def number(self, dtype: Any) -> Any:
        if dtype == np.bool_:
            return literal(self.chance(0.5), dtype)
        if dtype.kind in "iu":
            return literal(self.below(5), dtype)
        if self.kind == "exact":
            return literal(self.below(5) - 2 if dtype.kind != "u" else self.below(3), dtype)
        return literal(self.pick((0.0, 1.0, -1.0, 0.5, 2.0, 1.7, -3.25)), dtype)

    def keep(self, x: Any, bound: float = 4.0) -> None:
        """Remember a value, brought back to where it is exact."""
        if x.aval.size > 4 * MAX_SIZE and x.aval.size > 80000:
            return
        dtype = x.aval.dtype
        if self.kind == "exact" and dtype.kind not in "biuc":
            if bound >= EXACT[str(dtype)]:
                return
            if bound > math.sqrt(EXACT[str(dtype)]):
                x, bound = bind("clamp", literal(-4, dtype), x, literal(4, dtype)), 4.0
        if self.kind == "exact" and dtype.kind == "c" and bound > 1000:
            return
        self.values.append((x, bound))

    def other(self, x: Any, dtype: Any = None) -> tuple[Any, float]:
        """Another value of the same shape, and of a dtype: that of ``x`` if none is given."""
        dtype = x.aval.dtype if dtype is None else dtype
        if self.chance(0.2):
            return self.number(dtype), 4.0
        same = [v for v in self.values if v[0].aval.shape == x.aval.shape]
        fit = [v for v in same if v[0].aval.dtype == dtype]
        if fit:
            return self.pick(fit)
        y, bound = self.pick(same) if same else self.value()
        return self.fit(y, x.aval.shape, dtype), bound

    def fit(self, x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """A value of a shape and dtype, made of another."""
        x = self.converted(x, dtype)
        have = x.aval.shape
        if have == shape:
            return x
        if x.aval.size == math.prod(shape):
            return bind("reshape", x, shape=shape)
        dims: list[int] | None = []
        for n in have:
            free = [d for d, m in enumerate(shape) if d not in dims and m == n]  # type: ignore[operator]
            if not free:
                dims = None
                break
            dims.append(self.pick(free))
        if dims is None:
            if x.aval.size == 0:
                return bind("broadcast_in_dim", self.number(dtype), shape=shape, dims=())
            flat = bind("reshape", x, shape=(x.aval.size,))
            index = sum((Dim(k) * (k + 1) for k in range(len(shape))), start=Dim(0) * 0)
            fitting = IndexMap(shape, (x.aval.size,), (index % x.aval.size,))
            return bind("reindex", flat, map=fitting, fill=literal(0, dtype))
        return bind("broadcast_in_dim", x, shape=shape, dims=tuple(dims))

    def converted(self, x: Any, dtype: Any) -> Any:
        have = x.aval.dtype
        if have == dtype:
            return x
        if have.kind == "c":
            x = bind("real", x)
            have = x.aval.dtype
        if dtype.kind in "iu" and have.kind not in "biu":
            x = bind("clamp", literal(0, have), x, literal(9, have))
            if self.kind == "smooth":
                x = bind("floor", x)
        elif self.kind != "bits" and have.kind in "iu" and dtype.kind not in "biu":
            low = 0 if have.kind == "u" else -4
            x = bind("clamp", literal(low, have), x, literal(4, have))
        elif self.kind == "exact" and dtype.kind not in "biu" and have.kind not in "biu":
            x = bind("clamp", literal(-4, have), x, literal(4, have))
        if have == dtype:
            return x
        return bind("convert_element_type", x, dtype=dtype, weak_type=False)
