"""Elementwise analytic functions: exponentials, logarithms, trigonometry, powers, erf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.core import dtypes
from functrax.core.primitive import Elementwise, Value, like
from functrax.core.prims.arithmetic import mul, neg, sub

Ops = Sequence[Value]


class Unary(Elementwise):
    """A function of one operand with a derivative in terms of operand and result."""

    accepts = dtypes.INEXACT


class Exp(Unary):
    name = "exp"

    def reference(self, x: Any) -> Any:
        return np.exp(x)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return out


class Sin(Unary):
    name = "sin"

    def reference(self, x: Any) -> Any:
        return np.sin(x)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return cos.bind(operands[0])


class Cos(Unary):
    name = "cos"

    def reference(self, x: Any) -> Any:
        return np.cos(x)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return neg.bind(sin.bind(operands[0]))


class Tanh(Unary):
    name = "tanh"

    def reference(self, x: Any) -> Any:
        return np.tanh(x)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return sub.bind(like(out, 1), mul.bind(out, out))


exp, sin, cos, tanh = Exp(), Sin(), Cos(), Tanh()
