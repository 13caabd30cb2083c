"""Elementwise primitives of random functions: bits, small integers, and smooth functions."""

from __future__ import annotations

from typing import Any

import numpy as np

import functrax
from functrax.core.tracing.primitive import Elementwise, Primitive, literal, registry
from functrax.core.types import dtypes
from tests.backends.random_values import Values, bind

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


class ElementwiseSteps(Values):
    """Functions, arithmetic, bits, choices and conversions of values."""

    def unary(self, x: Any, bound: float) -> None:
        dtype = x.aval.dtype
        if self.kind == "smooth" and dtypes.is_float(dtype):
            self.smooth(x)
            return
        name = self.pick(EXACT_UNARY if self.kind == "exact" else ROUNDED_ALIKE)
        if self.kind == "exact" and dtype.kind == "c" and name in ("abs", "sign"):
            return  # which round
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

    def parts(self, x: Any, bound: float) -> None:
        """Complex numbers of floats, and what they are made of."""
        dtype = x.aval.dtype
        if dtype.kind == "c":
            self.keep(bind(self.pick(("real", "imag", "conj")), x), bound)
            return
        y, other = self.other(x)
        if dtype.kind == "f" and dtype.itemsize > 2 and y.aval.shape == x.aval.shape:
            self.keep(bind("complex", x, y), bound + other)

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
