"""Functions made at random from the registry of primitives, for comparing backends.

A :class:`RandomFunction` is a function of a seed: called on values it binds 1 to 40 primitives,
chosen by the seed and by the types of the values that there are, and returns some of what it made.
As it only binds, it can be differentiated and batched like any function.  ``kind`` says what may be
asked of the results:

- ``bits``: operations that every backend rounds alike; numbers of all kinds, infinities and NaN
  among them.  Equal bits, in strict mode.
- ``exact``: floats are small integers, so that no operation rounds and sums have one value in
  whatever order.  Equal, fused multiply-adds or not.
- ``smooth``: floats and functions of them; near.

Start at :meth:`RandomFunction.__call__`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import functrax
from functrax import lax
from functrax.core.arrays.array import from_numpy
from functrax.core.tracing.primitive import literal
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from tests.backends.random_elementwise import ElementwiseSteps
from tests.backends.random_moves import IndexMaps, Moves, Reductions
from tests.backends.random_values import MAX_SIZE, bind

SIZES = (1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 31, 33, 64, 65, 100)
FLOATS = ("float32", "float32", "float32", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int32", "uint8", "uint16", "uint32")


class RandomFunction:
    """A function that a seed describes, and arguments for it.

    Args:
      seed: of all choices.
      kind: ``"bits"``, ``"exact"`` or ``"smooth"``.
      control: whether it may hold loops and branches.
    """

    def __init__(self, seed: int, kind: str, control: bool = True) -> None:
        self.seed = seed
        self.kind = kind
        self.control = control
        rng = np.random.default_rng([seed, 1])
        self.arguments = self._arguments(rng)

    def __call__(self, *args: Any) -> list[Any]:
        rng = np.random.default_rng([self.seed, 2])
        maker = Maker(rng, self.kind, list(args), self.control)
        steps = 1 + int(min(rng.exponential(12), 39))
        for _ in range(steps):
            maker.step()
        return maker.results()

    def _arguments(self, rng: np.random.Generator) -> list[Any]:
        rank = int(rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 5]))
        whole = self._shape(rng, rank)
        shapes = [whole]
        for _ in range(int(rng.integers(0, 4))):
            keep = rng.random(rank) < 0.7
            how = rng.random()
            if how < 0.4:
                shapes.append(whole)
            elif how < 0.7:
                shapes.append(tuple(n for n, k in zip(whole, keep, strict=True) if k))
            else:
                shapes.append(tuple(n if k else 1 for n, k in zip(whole, keep, strict=True)))
        return [self._array(rng, s) for s in shapes]

    def _shape(self, rng: np.random.Generator, rank: int) -> tuple[int, ...]:
        if rng.random() < 0.04 and rank:
            sizes = [int(n) for n in rng.choice((0, 1, 3, 16), rank)]
            return tuple(sizes)
        if rng.random() < 0.1 and rank in (1, 2):
            long = int(rng.choice([1000, 1023, 1025, 4099, 33000, 70001]))
            return (long,) if rank == 1 else tuple(map(int, rng.permutation([long, 3])))
        shape: list[int] = []
        most = 10 * MAX_SIZE if rng.random() < 0.1 else MAX_SIZE
        for _ in range(rank):
            sizes_ = (*SIZES, 257, 1000) if most > MAX_SIZE else SIZES
            fit = [n for n in sizes_ if n * math.prod(shape) <= most]
            shape.append(int(rng.choice(fit)))
        return tuple(int(n) for n in rng.permutation(shape))

    def _array(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        float_types: Sequence[str] = FLOATS
        integers: Sequence[str] = INTEGERS
        if functrax.config.enable_x64:
            float_types, integers = (*FLOATS, "float64", "float64"), (*INTEGERS, "int64", "uint64")
        draw = rng.random()
        if self.kind == "smooth":
            name = str(rng.choice(["float32", "float32", "float32", *float_types]))
            if draw < 0.9:
                return from_numpy(
                    np.asarray(rng.uniform(-2, 2, shape)).astype(dtypes.as_dtype(name))
                )
        if draw < 0.55:
            dtype = dtypes.as_dtype(str(rng.choice(float_types)))
            if self.kind == "exact":
                values = rng.integers(-4, 5, shape)
            else:
                values = np.asarray(rng.normal(size=shape) * 3)
                special = rng.random(shape)
                values = np.where(special < 0.02, np.inf, values)
                values = np.where(special > 0.98, np.nan, values)
                values = np.where((special > 0.5) & (special < 0.55), -0.0, values)
                values = np.where((special > 0.6) & (special < 0.62), 1e-40, values)
            return from_numpy(np.asarray(values).astype(dtype))
        if draw < 0.65:
            return from_numpy(np.asarray(rng.integers(0, 2, shape)).astype(np.bool_))
        if draw < 0.7 and self.kind != "bits":
            values = rng.integers(-4, 5, shape) + 1j * rng.integers(-4, 5, shape)
            return from_numpy(np.asarray(values).astype(np.complex64))
        dtype = np.dtype(str(rng.choice(integers)))
        info = np.iinfo(dtype)
        wide = rng.random() < 0.3
        low = max(info.min, -9) if not wide else info.min
        high = 9 if not wide else info.max
        return from_numpy(
            np.asarray(rng.integers(low, high, shape, dtype=dtype, endpoint=True), dtype)
        )


class Maker(ElementwiseSteps, Moves, Reductions, IndexMaps):
    """Binds random primitives, some of them with programs inside."""

    def step(self) -> None:
        kinds: list[Callable[..., None]] = [self.unary, self.binary, self.binary, self.binary]
        kinds += [self.select, self.convert, self.move, self.move, self.move, self.move]
        kinds += [self.reduce, self.row, self.gather, self.windows]
        kinds += [self.pick((self.scatter, self.ordered, self.product, self.segments))]
        if self.kind != "smooth":
            kinds.append(self.bits)
        if self.kind == "exact":
            kinds.append(self.parts)
        if self.control and self.chance(0.12):
            kinds = [self.cond, self.scan, self.while_loop, self.fori]
        self.pick(kinds)(*self.value())

    def inner(self) -> Callable[[list[Any], list[Any]], list[Any]]:
        """A body: values in, values of the types of the second list out; the same at each call."""
        seed, steps = self.below(1 << 30), 1 + self.below(4)

        def body(given: list[Any], wanted: list[Any]) -> list[Any]:
            maker = Maker(np.random.default_rng(seed), self.kind, given, control=False)
            for _ in range(steps):
                maker.step()
            return [maker.settled(aval) for aval in wanted]

        return body

    def settled(self, aval: ShapedArray) -> Any:
        """One of the values made, in a type, and in a range that stays what it is."""
        x, _ = self.pick(self.values[self.given :] or self.values)
        x = self.fit(x, aval.shape, aval.dtype)
        if self.kind == "exact" and aval.dtype.kind not in "biuc":
            x = bind("clamp", literal(-4, aval.dtype), x, literal(4, aval.dtype))
        elif self.kind == "smooth" and dtypes.is_float(aval.dtype):
            x = bind("tanh", x)
        return x

    def arrays(self) -> list[Any]:
        """A few values for a body, within its bounds."""
        found = []
        for _ in range(1 + self.below(3)):
            x, bound = self.value()
            if self.kind == "exact" and x.aval.dtype.kind == "c" and bound > 4:
                continue
            if self.kind == "exact" and bound > 4 and x.aval.dtype.kind not in "biuc":
                x = bind("clamp", literal(-4, x.aval.dtype), x, literal(4, x.aval.dtype))
            found.append(x)
        return found or [bind("broadcast_in_dim", self.number(dtypes.float32), shape=(3,), dims=())]

    def predicate(self) -> Any:
        x, _ = self.value()
        if x.aval.size == 0 or x.aval.dtype.kind == "c":
            return literal(True, np.dtype(np.bool_))
        x = bind("reduce_max", x, axes=tuple(range(x.aval.ndim))) if x.aval.ndim else x
        return bind("gt", x, literal(1, x.aval.dtype))

    def cond(self, x: Any, bound: float) -> None:
        xs = self.arrays()
        avals = [x.aval for x in xs]
        one, two = self.inner(), self.inner()
        outs = lax.cond(
            self.predicate(), lambda *v: one(list(v), avals), lambda *v: two(list(v), avals), *xs
        )
        for out in outs:
            self.keep(out)

    def scan(self, x: Any, bound: float) -> None:
        carry = self.arrays()
        avals = [c.aval for c in carry]
        step = self.inner()
        length = self.pick((0, 1, 2, 5, 9))
        sources = [v for v, b in self.values if v.aval.ndim and v.aval.shape[0] and b <= 4]
        xs = []
        if sources:
            source = self.pick(sources)
            length = source.aval.shape[0]
            xs = [source]
        if length > 40:
            return
        extra = self.arrays()

        def body(c: Any, sliced: Any) -> Any:
            out = step([*c, *extra, *(sliced or [])], [*avals, avals[-1]])
            return out[:-1], out[-1]

        finals, ys = lax.scan(body, carry, xs or None, length=length, reverse=self.chance(0.3))
        for out in (*finals, ys):
            self.keep(out)

    def fori(self, x: Any, bound: float) -> None:
        carry = self.arrays()
        avals = [c.aval for c in carry]
        step = self.inner()
        count = self.below(5)
        for out in lax.fori_loop(0, count, lambda i, c: step([i, *c], avals), carry):
            self.keep(out)

    def while_loop(self, x: Any, bound: float) -> None:
        if self.kind == "smooth":
            self.fori(x, bound)
            return
        carry = self.arrays()
        avals = [c.aval for c in carry]
        step = self.inner()
        zero, one = literal(0, dtypes.int32), literal(1, dtypes.int32)
        number = bind("add", zero, literal(self.below(3), dtypes.int32))

        def more(state: Any) -> Any:
            few = bind("lt", state[0], literal(6, dtypes.int32))
            first = state[1]
            if first.aval.ndim or first.aval.dtype.kind == "c":
                return few
            return bind("and", few, bind("lt", first, literal(3, first.aval.dtype)))

        def body(state: Any) -> Any:
            return [bind("add", state[0], one), *step(list(state), avals)]

        for out in lax.while_loop(more, body, [number, *carry]):
            self.keep(out)

    def results(self) -> list[Any]:
        """Some of the values; at times one of them twice, an argument, or a number."""
        made = self.values[self.given :] or self.values
        outs = [made[-1][0]]
        for _ in range(self.below(6)):
            outs.append(self.pick(made)[0])
        if self.chance(0.1):
            outs.append(self.pick(self.values)[0])
        if self.chance(0.05):
            outs.append(bind("copy", self.number(dtypes.float32)))
        return outs
