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
from functrax.core import dtypes
from functrax.core.array import from_numpy
from functrax.core.aval import ShapedArray
from functrax.core.index_expr import Dim, Load
from functrax.core.index_map import IndexMap
from functrax.core.primitive import Elementwise, Primitive, literal, registry

SIZES = (1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 31, 33, 64, 65, 100)
MAX_SIZE = 6000
FLOATS = ("float32", "float32", "float32", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int32", "uint8", "uint16", "uint32")
#: Integers up to these are exact.
EXACT = {"bfloat16": 256, "float16": 2048, "float32": 1 << 24, "float64": 1 << 53}
#: Functions that are rounded alike everywhere.
ROUNDED_ALIKE = (
    "neg",
    "add",
    "sub",
    "mul",
    "div",
    "max",
    "min",
    "clamp",
    "abs",
    "sign",
    "floor",
    "select_n",
    "stop_gradient",
    "sqrt",
    "square",
    "ceil",
    "round",
    "is_finite",
    "copy",
    "rem",
    "convert_element_type",
    "nextafter",
    "reduce_precision",
)
BITWISE = (
    "and",
    "or",
    "xor",
    "not",
    "shift_left",
    "shift_right_logical",
    "shift_right_arithmetic",
    "mulhi",
    "population_count",
    "clz",
    "threefry2x32",
)
#: With the interval to which operands are brought.
SMOOTH = {
    **dict.fromkeys(
        (
            "sin",
            "cos",
            "tanh",
            "logistic",
            "atan",
            "erf",
            "erfc",
            "asinh",
            "square",
            "neg",
            "abs",
            "copy",
        ),
        3.0,
    ),
    **dict.fromkeys(("exp", "expm1", "exp2", "sinh", "cosh", "integer_pow"), 2.0),
    **dict.fromkeys(("asin", "acos", "atanh", "erf_inv", "tan"), 0.7),
}
EXACT_UNARY = ("neg", "abs", "sign", "floor", "ceil", "copy", "stop_gradient", "square")
#: Of one plus the square of an operand.
POSITIVE = ("log", "log1p", "sqrt", "rsqrt", "cbrt", "acosh", "lgamma", "digamma")


def bind(name: str, *operands: Any, **params: Any) -> Any:
    """The result of a primitive."""
    return registry[name].bind(*operands, **params)


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


class Maker:
    """Binds random primitives.

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

    # ---- steps --------------------------------------------------------------------------------

    def step(self) -> None:
        kinds: list[Callable[..., None]] = [self.unary, self.binary, self.binary, self.binary]
        kinds += [self.select, self.convert, self.move, self.move, self.move, self.move]
        kinds += [self.reduce, self.row, self.gather, self.windows]
        kinds += [self.pick((self.scatter, self.ordered, self.product, self.segments))]
        if self.kind != "smooth":
            kinds.append(self.bits)
        if self.control and self.chance(0.12):
            kinds = [self.cond, self.scan, self.while_loop, self.fori]
        self.pick(kinds)(*self.value())

    def unary(self, x: Any, bound: float) -> None:
        dtype = x.aval.dtype
        if self.kind == "smooth" and dtypes.is_float(dtype):
            self.smooth(x)
            return
        names = {
            "exact": ("neg", "abs", "sign", "floor", "ceil", "copy", "stop_gradient", "square")
        }
        name = self.pick(names.get(self.kind, ROUNDED_ALIKE))
        primitive = registry[name]
        if not self.takes(primitive, dtype) or getattr(primitive, "arity", 0) != 1:
            return
        params: dict[str, Any] = {}
        if name == "round":
            params = next(iter(primitive.samples())).params
        if name == "reduce_precision":
            params = {"exponent_bits": 5, "mantissa_bits": 4}
        if name == "convert_element_type":
            return
        self.keep(primitive.bind(x, **params), bound * bound if name == "square" else bound)

    def takes(self, primitive: Primitive, dtype: Any) -> bool:
        return isinstance(primitive, Elementwise) and dtype in primitive.accepts

    def smooth(self, x: Any) -> None:
        dtype = x.aval.dtype
        if self.chance(0.3):
            name = self.pick(POSITIVE)
            one = literal(2.0, dtype)
            y = bind("add", bind("square", bind("tanh", x)), one)
            self.keep(bind(name, y))
            return
        name = self.pick(tuple(SMOOTH))
        limit = SMOOTH[name]
        if limit < 3:
            x = bind("mul", bind("tanh", x), literal(limit, dtype))
        self.keep(bind(name, x, y=3) if name == "integer_pow" else bind(name, x))

    def binary(self, x: Any, bound: float) -> None:
        dtype = x.aval.dtype
        y, other = self.other(x)
        if self.kind == "bits":
            name = self.pick(("add", "sub", "mul", "div", "max", "min", "rem", "nextafter"))
        else:
            name = self.pick(("add", "sub", "mul", "mul", "max", "min"))
        if dtype == np.bool_:
            name = self.pick(("and", "or", "xor", "max", "min", "mul"))
        if name in ("max", "min") and dtype.kind == "c":
            name = "add"
        if not self.takes(registry[name], dtype):
            name = "max"
        if name == "rem" and dtype.kind not in "iu" and self.chance(0.7):
            name = "mul"
        larger = bound * other if name == "mul" else bound + other
        operands = (x, y) if self.chance(0.6) else (y, x)
        if self.kind == "smooth" and dtypes.is_float(dtype) and self.chance(0.2):
            positive = bind("add", bind("square", y), literal(1.5, dtype))
            name = self.pick(("div", "pow", "atan2"))
            first = bind("add", bind("square", bind("tanh", x)), literal(0.5, dtype))
            second = bind("tanh", y) if name == "pow" else positive
            self.keep(bind(name, first, second))
            return
        out = bind(name, *operands)
        if self.kind == "smooth" and out.aval.shape and self.chance(0.3) and dtype.kind == "f":
            out = bind("tanh", out)
        self.keep(out, larger)

    def bits(self, x: Any, bound: float) -> None:
        fit = [v for v in self.values if v[0].aval.dtype.kind in "biu"]
        if not fit:
            return
        x, _ = self.pick(fit)
        name = self.pick(BITWISE)
        primitive = registry[name]
        if x.aval.dtype not in primitive.accepts:
            return
        if name == "threefry2x32":
            x1 = self.other(x)[0]
            outs = primitive.bind(x, x1, x, self.other(x)[0])
            for out in outs if isinstance(outs, list | tuple) else [outs]:
                self.keep(out)
            return
        operands = [x]
        if getattr(primitive, "arity", 1) == 2:
            operands.append(self.other(x)[0])
        self.keep(primitive.bind(*operands))

    def select(self, x: Any, bound: float) -> None:
        y, _ = self.other(x)
        names = ("eq", "ne", "lt", "le", "gt", "ge") if x.aval.dtype.kind != "c" else ("eq", "ne")
        if self.kind == "smooth":
            names = names[2:] or names
        which = bind(self.pick(names), x, y)
        if self.chance(0.3):
            self.keep(which)
        if which.aval.shape != x.aval.shape:
            return
        z, third = self.other(x)
        if self.chance(0.5) and x.aval.dtype.kind != "c":
            self.keep(bind("clamp", literal(-1 if x.aval.dtype.kind not in "ub" else 0,
                      x.aval.dtype), x, self.number(x.aval.dtype)), bound)  # fmt: skip
        chosen = (x, z) if z.aval.shape == x.aval.shape else (x, x)
        self.keep(bind("select_n", which, *chosen), max(bound, third))

    def convert(self, x: Any, bound: float) -> None:
        names = [
            "bool",
            "int8",
            "int16",
            "int32",
            "uint8",
            "uint32",
            "float32",
            "float16",
            "bfloat16",
        ]
        if functrax.config.enable_x64:
            names += ["int64", "float64"]
        if self.kind == "smooth" and dtypes.is_float(x.aval.dtype):
            names = ["float32", "float16", "bfloat16"]
        dtype = dtypes.as_dtype(self.pick(names))
        if self.kind == "exact" and x.aval.dtype.kind in "biu":
            bound = 4.0
        if self.kind == "bits" and dtype.kind in "iu" and x.aval.dtype.kind not in "biuc":
            self.keep(bind("convert_element_type", x, dtype=dtype, weak_type=False))
            return
        self.keep(self.converted(x, dtype), max(bound, 9.0))

    def move(self, x: Any, bound: float) -> None:
        names = ("transpose", "reshape", "broadcast_in_dim", "rev", "slice", "pad", "concatenate")
        self.keep(getattr(self, f"_{self.pick(names)}")(x), bound)

    def _transpose(self, x: Any) -> Any:
        return bind("transpose", x, perm=tuple(map(int, self.rng.permutation(x.aval.ndim))))

    def _reshape(self, x: Any) -> Any:
        sizes, rest = [], x.aval.size
        if rest == 0:
            return bind("reshape", x, shape=(x.aval.size, 3))
        for _ in range(self.below(4)):
            n = self.pick([n for n in (1, 2, 3, 5, 7, 8, 13, 16, 31) if rest % n == 0])
            sizes.append(n)
            rest //= n
        return bind("reshape", x, shape=tuple(map(int, self.rng.permutation([*sizes, rest]))))

    def _broadcast_in_dim(self, x: Any) -> Any:
        shape = list(x.aval.shape)
        extra = [self.pick((1, 2, 3, 5, 16, 17)) for _ in range(self.below(3))]
        places = self.rng.permutation(len(shape) + len(extra))
        whole = [0] * len(places)
        for place, n in zip(places, [*shape, *extra], strict=True):
            whole[place] = self.pick((3, 16)) if n == 1 and self.chance(0.3) else n
        if math.prod(whole) > 3 * MAX_SIZE or len(whole) > 6:
            return x
        dims = tuple(int(d) for d in places[: len(shape)])
        return bind("broadcast_in_dim", x, shape=tuple(whole), dims=dims)

    def _rev(self, x: Any) -> Any:
        axes = tuple(d for d in range(x.aval.ndim) if self.chance(0.5))
        return bind("rev", x, axes=axes)

    def _slice(self, x: Any) -> Any:
        start, limit, strides = [], [], []
        for n in x.aval.shape:
            start.append(self.below(n // 2 + 1) if self.chance(0.5) else 0)
            limit.append(n - self.below(max((n - start[-1]) // 2, 1)) if self.chance(0.5) else n)
            strides.append(self.pick((1, 1, 1, 2, 3)))
        return bind("slice", x, start=tuple(start), limit=tuple(limit), strides=tuple(strides))

    def _pad(self, x: Any) -> Any:
        rank = x.aval.ndim
        if x.aval.size > MAX_SIZE:
            return x
        interior = tuple(self.pick((0, 0, 0, 1, 2)) for _ in range(rank))
        low, high = [], []
        for n, gap in zip(x.aval.shape, interior, strict=True):
            whole = n + max(n - 1, 0) * gap
            low.append(self.pick((0, 0, 1, 2, 5, -1, -2)))
            high.append(self.pick((0, 0, 1, 3, -1, -2)))
            if whole + low[-1] + high[-1] < 0:
                low[-1] = high[-1] = 1
        fill = self.number(x.aval.dtype)
        return bind("pad", x, low=tuple(low), high=tuple(high), interior=interior, fill=fill)

    def _concatenate(self, x: Any) -> Any:
        if not x.aval.ndim or x.aval.size > 2 * MAX_SIZE:
            return x
        axis = self.below(x.aval.ndim)
        parts = [x]
        for _ in range(1 + self.below(3)):
            y, _ = self.other(x)
            parts.append(y if y.aval.shape == x.aval.shape else x)
        if self.chance(0.4) and x.aval.shape[axis] > 1:
            limit = list(x.aval.shape)
            limit[axis] = 1
            rank = x.aval.ndim
            parts.append(
                bind("slice", x, start=(0,) * rank, limit=tuple(limit), strides=(1,) * rank)
            )
        return bind("concatenate", *parts, axis=axis)

    # ---- reductions ---------------------------------------------------------------------------

    def _reduced(self, x: Any, bound: float, axes: tuple[int, ...]) -> tuple[Any, float] | None:
        dtype, count = x.aval.dtype, math.prod(x.aval.shape[a] for a in axes)
        names = ["reduce_max", "reduce_min"]
        if self.kind != "bits" or dtype.kind in "iu":
            names += ["reduce_sum", "reduce_sum"]
        if dtype.kind in "iu":
            names.append("reduce_prod")
        if dtype.kind in "biu":
            names += ["reduce_and", "reduce_or", "reduce_xor"]
        if dtype == np.bool_:
            names = ["reduce_and", "reduce_or", "reduce_max", "reduce_min"]
        if dtype.kind == "c":
            names = ["reduce_sum"]
        if count == 0 and dtype.kind not in "bc":
            names = ["reduce_sum"] if self.kind != "bits" else ["reduce_max"]
        name = self.pick(names)
        larger = bound * max(count, 1) if name == "reduce_sum" else bound
        limit = EXACT.get(str(dtype), math.inf)
        if self.kind == "exact" and larger >= limit:
            if dtype.kind == "c":
                return None
            x = bind("clamp", literal(-1, dtype), x, literal(1, dtype))
            larger = count
        if self.kind == "exact" and larger >= limit:
            name, larger = "reduce_max", 1.0
        if self.kind == "exact" and count == 0 and name != "reduce_sum":
            return None
        return bind(name, x, axes=axes), larger

    def axes(self, x: Any) -> tuple[int, ...]:
        return tuple(d for d in range(x.aval.ndim) if self.chance(0.5)) or (
            (self.below(x.aval.ndim),) if x.aval.ndim else ()
        )

    def reduce(self, x: Any, bound: float) -> None:
        axes = self.axes(x)
        if axes and self.chance(0.25) and x.aval.dtype.kind != "c":
            if self.kind != "smooth" and x.aval.shape[axes[0]]:
                name = self.pick(("argmax", "argmin"))
                kind = self.pick((np.dtype("int32"), np.dtype("int16"), np.dtype("uint8")))
                self.keep(bind(name, x, axis=axes[0], index_dtype=kind))
            return
        found = self._reduced(x, bound, axes)
        if found:
            self.keep(*found)

    def row(self, x: Any, bound: float) -> None:
        """A reduction that comes back to the shape of its operand (softmax, normalisation)."""
        axes = self.axes(x)
        kept = tuple(d for d in range(x.aval.ndim) if d not in axes)
        if x.aval.dtype.kind == "b":
            return
        found = self._reduced(x, bound, axes)
        if not found:
            return
        r, larger = found
        if self.chance(0.3):
            other = self._reduced(x, bound, axes)
            if other and other[0].aval.dtype == r.aval.dtype:
                r, larger = bind("add", r, other[0]), larger + other[1]
        if self.chance(0.3):
            self.keep(r, larger)
        back = bind("broadcast_in_dim", r, shape=x.aval.shape, dims=kept)
        out, total = bind("sub", x, back), bound + larger
        if self.kind == "smooth" and dtypes.is_float(x.aval.dtype):
            out = bind("tanh", out)
        self.keep(out, total)
        if self.chance(0.4) and (self.kind != "exact" or total < 100):
            second = self._reduced(out, total, axes)
            if second:
                self.keep(bind("broadcast_in_dim", second[0], shape=x.aval.shape, dims=kept),
                          second[1])  # fmt: skip

    # ---- index maps ---------------------------------------------------------------------------

    def indices(self, shape: tuple[int, ...]) -> Any:
        """An array of integers, many of them in range; negative and large ones too."""
        fit = [
            v[0] for v in self.values if v[0].aval.dtype.kind in "iu" and v[0].aval.shape == shape
        ]
        if fit and self.chance(0.7):
            return self.pick(fit)
        dtype = np.dtype(self.pick(("int32", "int32", "int8", "uint8")))
        number = bind("iota", shape=(*shape, 1), dtype=dtype, axis=self.below(len(shape) + 1))
        step = bind("mul", number, literal(self.pick((1, 3, 7)), dtype))
        moved = bind("sub", step, literal(self.below(3), dtype))
        return bind("reshape", moved, shape=shape)

    def gather_map(self, shape: tuple[int, ...]) -> tuple[IndexMap, tuple[int, ...]]:
        """A map that reads one index array, and the shape of the latter."""
        lead = tuple(self.pick((1, 2, 5, 16, 17, 33)) for _ in range(1 + self.below(2)))
        axis = self.below(len(shape))
        rest = [d for d in range(len(shape)) if d != axis]
        domain = (*lead, *(shape[d] for d in rest))
        load = Load(0, [Dim(k) for k in range(len(lead))])
        exprs: list[Any] = [None] * len(shape)
        exprs[axis] = load if self.chance(0.6) else load + self.pick((-1, 1, 2))
        for k, d in enumerate(rest):
            exprs[d] = Dim(len(lead) + k)
        return IndexMap(domain, shape, tuple(exprs)), lead

    def gather(self, x: Any, bound: float) -> None:
        if not x.aval.ndim or x.aval.size > MAX_SIZE:
            return
        gather_map, lead = self.gather_map(x.aval.shape)
        if math.prod(gather_map.domain) > 3 * MAX_SIZE:
            return
        fill = self.number(x.aval.dtype)
        self.keep(bind("reindex", x, self.indices(lead), map=gather_map, fill=fill), bound)

    def affine_map(self, shape: tuple[int, ...]) -> IndexMap:
        domain = list(shape)
        conditions: list[Any] = []
        exprs: list[Any] = []
        for k, n in enumerate(shape):
            i = Dim(k)
            kind = self.below(8)
            if kind == 0 and math.prod(domain) < MAX_SIZE:
                domain.append(self.pick((2, 3, 5)))
                exprs.append(i + Dim(len(domain) - 1) - 1)
            elif kind == 1:
                exprs.append(i // self.pick((2, 3)))
            elif kind == 2 and n:
                exprs.append((i * self.pick((2, 3, 5)) + 1) % n)
            elif kind == 3:
                exprs.append(n - 1 - i + self.pick((0, 0, 1, -1)))
            elif kind == 4:
                exprs.append(i * 2 - self.below(max(n, 1)))
            elif kind == 5 and k:
                exprs.append(i + Dim(k - 1) - self.below(4))
            else:
                exprs.append(i)
            if self.chance(0.1):
                conditions.append((i % 3).eq(self.below(3)))
        return IndexMap(tuple(domain), shape, tuple(exprs), tuple(conditions))

    def windows(self, x: Any, bound: float) -> None:
        if x.aval.ndim and x.aval.size:
            fill = self.number(x.aval.dtype)
            self.keep(bind("reindex", x, map=self.affine_map(x.aval.shape), fill=fill), bound)

    def segments(self, x: Any, bound: float) -> None:
        """A reindex_reduce of a value over the domain of a random map."""
        if not x.aval.ndim or x.aval.size == 0 or x.aval.dtype.kind == "c":
            return
        axis = self.below(x.aval.ndim)
        target = list(x.aval.shape)
        exprs: list[Any] = [Dim(k) for k in range(x.aval.ndim)]
        operands: list[Any] = []
        if self.chance(0.5):
            exprs[axis] = Load(0, [Dim(axis)])
            operands.append(self.indices((x.aval.shape[axis],)))
            target[axis] = self.pick((1, 3, 8))
        else:
            step = self.pick((2, 3))
            exprs[axis] = exprs[axis] // step + self.pick((0, 0, -1))
            target[axis] = max(target[axis] // step, 1)
        self.keep(*self.update("reindex_reduce", [x], operands,
                  IndexMap(x.aval.shape, tuple(target), tuple(exprs)), bound))  # fmt: skip

    def update(
        self, name: str, data: list[Any], operands: list[Any], where: IndexMap, bound: float
    ) -> tuple[Any, float]:
        dtype = data[0].aval.dtype
        ops = ["max", "min"]
        count = math.prod(where.domain)
        if dtype.kind in "iu" or (self.kind == "exact" and dtype != np.bool_):
            ops += ["add", "add", "mul"] if dtype.kind in "iu" else ["add", "add"]
        if self.kind == "smooth" and dtype.kind == "f":
            ops = ["add"]
        if name == "scatter":
            ops += ["set", "set"]
        op = self.pick(ops)
        if op == "add" and self.kind == "exact" and dtype.kind not in "iu":
            if bound * (count + 1) >= EXACT[str(dtype)]:
                op = "max"
        larger = bound * (count + 1) if op == "add" else bound
        out = bind(name, *data, *operands, map=where, op=op)
        if op in ("max", "min") and name == "reindex_reduce" and dtype.kind not in "biu":
            out = bind("clamp", literal(-9, dtype), out, literal(9, dtype))
            larger = 9.0
        return out, larger

    def scatter(self, x: Any, bound: float) -> None:
        if not x.aval.ndim or x.aval.size == 0 or x.aval.dtype.kind == "c":
            return
        where, lead = self.gather_map(x.aval.shape)
        if math.prod(where.domain) > 2 * MAX_SIZE:
            return
        y, other = self.value()
        updates = self.fit(y, where.domain, x.aval.dtype)
        self.keep(*self.update("scatter", [x, updates], [self.indices(lead)], where,
                  max(bound, other, 9.0)))  # fmt: skip

    def ordered(self, x: Any, bound: float) -> None:
        if not x.aval.ndim or x.aval.size > MAX_SIZE or x.aval.dtype.kind in "bc":
            return
        axis = self.below(x.aval.ndim)
        name = self.pick(("sort", "cumsum", "cummax"))
        if name == "sort":
            self.keep(lax.sort(x, dimension=axis), bound)
        elif name == "cummax":
            self.keep(bind("cummax", x, axis=axis, reverse=self.chance(0.3)), bound)
        elif self.kind != "bits" or x.aval.dtype.kind in "iu":
            larger = bound * max(x.aval.shape[axis], 1)
            if self.kind != "exact" or larger < EXACT.get(str(x.aval.dtype), math.inf):
                self.keep(bind("cumsum", x, axis=axis, reverse=self.chance(0.3)), larger)

    def product(self, x: Any, bound: float) -> None:
        """A contraction of one axis with another value."""
        dtype = x.aval.dtype
        if not x.aval.ndim or dtype.kind == "b" or x.aval.size > 2000 or self.kind == "bits":
            return
        k, n = x.aval.shape[-1], self.pick((1, 3, 8, 17))
        y, other = self.value()
        w = self.fit(y, (k, n), dtype)
        whole = (*x.aval.shape[:-1], n, k)
        rank = len(whole)
        larger = max(bound, 9.0) * max(other, 9.0) * k
        if self.kind == "exact" and larger >= EXACT.get(str(dtype), math.inf):
            return
        left = bind("broadcast_in_dim", x, shape=whole, dims=(*range(rank - 2), rank - 1))
        right = bind("broadcast_in_dim", w, shape=whole, dims=(rank - 1, rank - 2))
        self.keep(bind("reduce_sum", bind("mul", left, right), axes=(rank - 1,)), larger)

    # ---- control flow -------------------------------------------------------------------------

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
