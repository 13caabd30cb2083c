"""Programs made at random, with all the redundancy that passes are there to remove."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.tracing.primitive import Primitive, registry
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

_SMOOTH = ("sin", "tanh", "neg", "square", "logistic", "copy")
_NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.7)


class Maker:
    """Appends random equations to a program of float32 arrays.

    Args:
      seed: of the random choices.
      smooth: only operations with a derivative everywhere.
      large: sizes at which the reference device puts products off.
    """

    def __init__(self, seed: int, smooth: bool = False, large: bool = False) -> None:
        self.random = np.random.default_rng(seed)
        self.smooth = smooth
        sizes = [(24, 16), (16, 24), (16,), (24, 24)] if large else [(2, 3), (3, 2), (3,), (4, 1)]
        self.invars = [Var(ShapedArray(s, "float32")) for s in sizes]
        self.values: list[Atom] = list(self.invars)
        self.eqns: list[Eqn] = []

    def pick(self, things: Any) -> Any:
        return things[self.random.integers(len(things))]

    def bind(self, primitive: str, *operands: Atom, keep: bool = True, **params: Any) -> Var:
        chosen: Primitive = registry[primitive]
        out = Var(chosen.infer(tuple(x.aval for x in operands), params))  # type: ignore[arg-type]
        self.eqns.append(Eqn(chosen, operands, (out,), params))
        if keep:
            self.values.append(out)
        return out

    def number(self, dtype: Any = dtypes.float32) -> Literal:
        return Literal(self.pick(_NUMBERS), ShapedArray((), dtype))

    def other(self, x: Atom) -> Atom:
        """Another operand of the same shape: a number, or an array."""
        same = [v for v in self.values if v.aval is x.aval]
        return self.number() if self.random.random() < 0.3 else self.pick(same)

    def step(self) -> None:
        x = self.pick(self.values[-6:] if self.random.random() < 0.7 else self.values)
        kinds = [self.unary, self.binary, self.move, self.move, self.reduce, self.product]
        if not self.smooth:
            kinds += [self.choose, self.convert]
        self.pick(kinds)(x)

    def unary(self, x: Atom) -> None:
        names = (
            _SMOOTH if self.smooth else (*_SMOOTH, "stop_gradient", "abs", "floor", "sign", "sqrt")
        )
        self.bind(self.pick(names), x)

    def binary(self, x: Atom) -> None:
        names = ("add", "sub", "mul") if self.smooth else ("add", "sub", "mul", "div", "max", "min")
        y = self.other(x)
        self.bind(self.pick(names), *((x, y) if self.random.random() < 0.7 else (y, x)))

    def choose(self, x: Atom) -> None:
        which = self.bind(self.pick(("lt", "eq", "ge")), x, self.other(x), keep=False)
        if self.random.random() < 0.5:
            which = self.bind("not", which, keep=False)
        self.bind("select_n", which, x, self.other(x))

    def convert(self, x: Atom) -> None:
        dtype = np.dtype(self.pick(("float64", "bfloat16", "int32", "bool")))
        middle = self.bind(
            "convert_element_type", x, keep=False, dtype=dtypes.as_dtype(dtype), weak_type=False
        )
        self.bind("convert_element_type", middle, dtype=dtypes.float32, weak_type=False)

    def move(self, x: Atom) -> None:
        shape, rank = x.aval.shape, x.aval.ndim
        kind = self.pick(("transpose", "reshape", "broadcast", "slice", "pad", "rev", "reindex"))
        if kind == "transpose":
            self.bind("transpose", x, perm=tuple(map(int, self.random.permutation(rank))))
        elif kind == "reshape":
            self.bind("reshape", x, shape=self.pick([(x.aval.size,), (1, *shape), (*shape, 1)]))
        elif kind == "broadcast" and rank < 3:
            self.bind("broadcast_in_dim", x, shape=(2, *shape), dims=tuple(range(1, rank + 1)))
        elif kind == "slice" and x.aval.size:
            start = tuple(int(self.random.integers(n)) for n in shape)
            self.bind("slice", x, start=start, limit=shape, strides=(self.pick((1, 2)),) * rank)
        elif kind == "pad":
            low, high, gap = ((self.pick((0, 1)),) * rank for _ in range(3))
            self.bind("pad", x, low=low, high=high, interior=gap, fill=self.number())
        elif kind == "rev" and rank:
            self.bind("rev", x, axes=(int(self.random.integers(rank)),))
        elif kind == "reindex" and rank:
            exprs = tuple(Dim(k) - self.pick((-1, 0, 0, 1)) for k in range(rank))
            self.bind("reindex", x, map=IndexMap(shape, shape, exprs), fill=self.number())

    def reduce(self, x: Atom) -> None:
        if not x.aval.ndim or (x.aval.ndim < 2 and self.random.random() < 0.7):
            return
        names = ("reduce_sum",) if self.smooth else ("reduce_sum", "reduce_max", "reduce_min")
        self.bind(self.pick(names), x, axes=(int(self.random.integers(x.aval.ndim)),))

    def product(self, x: Atom) -> None:
        """The matrix product of two matrices."""
        fit = [v for v in self.values if v.aval.ndim == 2 and v.aval.shape[0] == x.aval.shape[-1:]]
        if x.aval.ndim != 2 or not fit:
            fit = [v for v in self.values if v.aval.ndim == 2]
            x = self.pick(fit)
            fit = [v for v in fit if v.aval.shape[0] == x.aval.shape[1]]
        if not fit:
            return
        y = self.pick(fit)
        whole = (x.aval.shape[0], y.aval.shape[1], x.aval.shape[1])
        left = self.bind("broadcast_in_dim", x, keep=False, shape=whole, dims=(0, 2))
        right = self.bind("broadcast_in_dim", y, keep=False, shape=whole, dims=(2, 1))
        both = self.bind("mul", left, right, keep=False)
        self.bind("reduce_sum", both, axes=(2,))


def random_program(seed: int, steps: int = 20, **options: Any) -> Jaxpr:
    """A program of about so many steps; its results are most values that nothing else uses."""
    maker = Maker(seed, **options)
    for _ in range(steps):
        maker.step()
    used = {x for eqn in maker.eqns for x in eqn.invars}
    unused = [v for v in maker.values if v not in used]
    return Jaxpr((), maker.invars, [*unused[1:], maker.values[-1]], maker.eqns)
