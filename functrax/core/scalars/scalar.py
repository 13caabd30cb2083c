"""Scalar expressions: what one element of a kernel computes.

A primitive that can run inside a kernel says so with ``lower(builder, *operands, **params)``, which
writes the primitive with the operations of a :class:`Builder`.  The result is a small directed
graph of :class:`Scalar` nodes, equal ones shared.  A node has no lanes and no indices: the schedule
decides how many elements are computed at once, so the same expressions serve every target.

Operations and their meaning (``SIGNATURES`` names the operands; ``x`` has the dtype of the result
unless said):

- ``add sub mul neg min max``: integers wrap; ``min`` and ``max`` give NaN if an operand is one,
  and either one of two zeros.
- ``div rem``: as C, integers truncate (the divisor is never 0, of signed ones also never -1);
  ``rem`` of floats is C's ``fmod``, which is exact; ``fma(x, y, z)``: rounded once.
- ``sqrt floor ceil trunc round_even abs copysign``: as IEEE 754 says; ``abs`` of integers wraps.
- ``and or xor not``: bits of integers, truth values of bools; ``shl shr``: ``shr`` keeps the
  sign of signed integers; the count is less than the number of bits.
- ``eq ne lt le gt ge``: bools; with a NaN only ``ne`` is true; false is less than true.
- ``select(which, x, y)``: ``x`` where the bool ``which`` is true; ``unlikely`` is the same, and
  need not compute ``x`` where no lane wants it.
- ``convert(x)``: to the nearest value of another dtype; integers wrap around in fewer bits; floats
  become integers by truncation, saturate out of range, and NaN becomes 0; never to bool.  float16
  and bfloat16 are converted from and to float32 only, but for float64 to float16.
- ``bitcast(x)``: the same bits.
- ``exp2_near log2_near reciprocal_near rsqrt_near``: of float32, within about a unit in the last
  place (``log2_near`` of 1), on targets that have such instructions; subnormal numbers may be
  taken as 0.
- ``popcount clz``: of integers, the result too; ``clz`` of 0 is the number of bits.
- the functions of ``MATH``: expanded by the target into the operations above.
- ``const``: a number; ``load``, ``index``: made by the kernel, not by primitives.
- ``threefry(k0, k1, x0, x1)``: two words of random bits, as the primitive ``threefry2x32``; of
  these ``word`` gives one, whose number is its ``attr``; expanded by the target.
- ``real(z) imag(z)``: the parts of a complex number; ``complex(x, y)``: the number that has them.

No other operation takes or gives complex numbers: a Builder writes those with real ones
(``core/scalars/complex_arithmetic.py``).

Start at :class:`Builder`.
"""

from __future__ import annotations

import operator
from typing import Any, Final

import numpy as np

from functrax.core.errors.typed import DTypeError
from functrax.core.scalars.complex_arithmetic import ARITHMETIC
from functrax.core.types import dtypes
from functrax.core.types.symbolic_sizes import is_symbolic_dim

#: Functions of one or two floats which a target expands, with their number of operands.
MATH: Final[dict[str, int]] = {
    **dict.fromkeys(
        [
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log1p",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
            "atanh",
            "erf",
            "erfc",
            "erf_inv",
            "cbrt",
            "rsqrt",
            "logistic",
            "lgamma",
            "digamma",
        ],
        1,
    ),
    "pow": 2,
    "atan2": 2,
}
#: Those that ``core/scalars/complex_functions.py`` writes for complex numbers.
COMPLEX_MATH: Final = frozenset(
    (
        *("exp", "exp2", "expm1", "log", "log1p", "logistic", "pow", "rsqrt"),
        *("sin", "cos", "tan", "sinh", "cosh", "tanh"),
    )
)

#: Two words of random bits, and one of two words.
THREEFRY: Final = "threefry"
WORD: Final = "word"
#: As how many others an operation counts.
WORK: Final = {THREEFRY: 119, WORD: 0}

_COMPARISONS: Final = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_BOOL: Final = np.dtype(np.bool_)
_LOW_PRECISION: Final = frozenset((dtypes.float16, dtypes.bfloat16))


class Scalar:
    """One operation of a kernel on one element.

    Args:
      op: the operation.
      dtype: of its result.
      args: its operands.
      attr: what else it depends on: the value of a constant, the place of a load.
    """

    __slots__ = ("args", "attr", "dtype", "op")

    def __init__(
        self, op: str, dtype: np.dtype[Any], args: tuple[Scalar, ...], attr: Any = None
    ) -> None:
        self.op = op
        self.dtype = dtype
        self.args = args
        self.attr = attr

    @property
    def is_constant(self) -> bool:
        """Whether it is a number."""
        return self.op == "const"

    def __repr__(self) -> str:
        if self.op == "const":
            return f"{self.attr}:{self.dtype}"
        inside = ", ".join(map(repr, self.args))
        return f"{self.op}({inside}):{self.dtype}"


class Builder:
    """Makes scalar expressions; equal ones are one object.

    Operands of arithmetic have one dtype.  Arithmetic on float16 and bfloat16 is done in float32
    and rounded after each operation, as the references do.
    """

    def __init__(self) -> None:
        self._nodes: dict[Any, Scalar] = {}
        self._integers: dict[tuple[int, np.dtype[Any]], Scalar] = {}

    def node(
        self, op: str, dtype: np.dtype[Any], args: tuple[Scalar, ...] = (), attr: Any = None
    ) -> Scalar:
        """The node of an operation, made if there is none."""
        key = (op, dtype, args, attr)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = Scalar(op, dtype, args, attr)
        return found

    def const(self, value: Any, dtype: np.dtype[Any]) -> Scalar:
        """A number of a dtype; converted to it as NumPy would.

        A size that has no value is given when the kernel runs.
        """
        if is_symbolic_dim(value) and dtype.kind in "iu":
            return self.node("int", dtype, (), value)
        if type(value) is not int:
            return self._converted(value, dtype)
        found = self._integers.get((value, dtype))
        if found is None:
            found = self._integers[value, dtype] = self._converted(value, dtype)
        return found

    def _converted(self, value: Any, dtype: np.dtype[Any]) -> Scalar:
        number = np.asarray(value).astype(dtype)[()]
        if dtype.kind == "c":
            part = dtypes.real_dtype(dtype)
            return self.complex(self.const(number.real, part), self.const(number.imag, part))
        # Keyed by the bits: 0.0 and -0.0 differ, and a NaN is equal to itself.
        return self._constant(number, dtype)

    def _constant(self, number: Any, dtype: np.dtype[Any]) -> Scalar:
        key = ("const", dtype, number.tobytes())
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = Scalar("const", dtype, (), number)
        return found

    def like(self, x: Scalar, value: complex) -> Scalar:
        """A number of the dtype of ``x``."""
        return self.const(value, x.dtype)

    def _arithmetic(self, op: str, *args: Scalar) -> Scalar:
        dtype = args[0].dtype
        for x in args:
            if x.dtype is not dtype and x.dtype != dtype:
                raise DTypeError(
                    f"a kernel's {op} takes operands of one dtype",
                    got=", ".join(str(a.dtype) for a in args),
                    fix="convert them first, with Builder.convert",
                )
        if dtype in _LOW_PRECISION:
            wide = [self.widen(a) for a in args]
            return self.convert(self.node(op, dtypes.float32, tuple(wide)), dtype)
        if dtype.kind == "c":
            return ARITHMETIC[op](self, *args)
        return self.node(op, dtype, args)

    def complex(self, x: Scalar, y: Scalar) -> Scalar:
        """The complex number ``x + iy`` of two floats."""
        if x.op == "real" and y.op == "imag" and x.args == y.args:
            return x.args[0]
        return self.node("complex", dtypes.complex_dtype(x.dtype), (x, y))

    def real(self, z: Scalar) -> Scalar:
        """The real part of a complex number."""
        return self._part("real", 0, z)

    def imag(self, z: Scalar) -> Scalar:
        """The imaginary part of a complex number."""
        return self._part("imag", 1, z)

    def _part(self, name: str, number: int, z: Scalar) -> Scalar:
        if z.op == "complex":
            return z.args[number]
        return self.node(name, dtypes.real_dtype(z.dtype), (z,))

    def parts(self, x: Scalar) -> tuple[Scalar, ...]:
        """The real numbers that ``x`` is: itself, or its parts if it is complex."""
        return (self.real(x), self.imag(x)) if x.dtype.kind == "c" else (x,)

    def whole(self, parts: tuple[Scalar, ...]) -> Scalar:
        """The number whose :meth:`parts` are given."""
        return parts[0] if len(parts) == 1 else self.complex(*parts)

    def add(self, x: Scalar, y: Scalar) -> Scalar:
        """``x + y``."""
        return self._arithmetic("add", x, y)

    def sub(self, x: Scalar, y: Scalar) -> Scalar:
        """``x - y``."""
        return self._arithmetic("sub", x, y)

    def mul(self, x: Scalar, y: Scalar) -> Scalar:
        """``x * y``."""
        return self._arithmetic("mul", x, y)

    def div(self, x: Scalar, y: Scalar) -> Scalar:
        """``x / y``; of integers the quotient rounded towards 0, for ``y`` that is not 0."""
        return self._arithmetic("div", x, y)

    def rem(self, x: Scalar, y: Scalar) -> Scalar:
        """``x - trunc(x / y) * y``, with the sign of ``x``; of integers for ``y`` not 0."""
        return self._arithmetic("rem", x, y)

    def fma(self, x: Scalar, y: Scalar, z: Scalar) -> Scalar:
        """``x * y + z``, rounded once."""
        return self._arithmetic("fma", x, y, z)

    def min(self, x: Scalar, y: Scalar) -> Scalar:
        """The smaller one, or NaN if one is NaN."""
        return self._arithmetic("min", x, y)

    def max(self, x: Scalar, y: Scalar) -> Scalar:
        """The larger one, or NaN if one is NaN."""
        return self._arithmetic("max", x, y)

    def neg(self, x: Scalar) -> Scalar:
        """``-x``."""
        return self._arithmetic("neg", x)

    def abs(self, x: Scalar) -> Scalar:
        """``|x|``."""
        return x if x.dtype.kind == "u" else self._arithmetic("abs", x)

    def sqrt(self, x: Scalar) -> Scalar:
        """The square root, correctly rounded."""
        return self._arithmetic("sqrt", x)

    def floor(self, x: Scalar) -> Scalar:
        """Rounded down."""
        return self._arithmetic("floor", x)

    def ceil(self, x: Scalar) -> Scalar:
        """Rounded up."""
        return self._arithmetic("ceil", x)

    def trunc(self, x: Scalar) -> Scalar:
        """Rounded towards 0."""
        return self._arithmetic("trunc", x)

    def round_even(self, x: Scalar) -> Scalar:
        """Rounded to the nearest integer, ties to even."""
        return self._arithmetic("round_even", x)

    def copysign(self, x: Scalar, y: Scalar) -> Scalar:
        """``|x|`` with the sign of ``y``."""
        return self._arithmetic("copysign", x, y)

    def math(self, name: str, *args: Scalar) -> Scalar:
        """A function of ``MATH``, of floats."""
        assert len(args) == MATH[name], f"{name} takes {MATH[name]} operands"
        if args[0].dtype.kind == "c":
            # Imported here, for few programs need it.
            from functrax.core.scalars.complex_functions import FUNCTIONS

            return FUNCTIONS[name](self, *args)
        return self._arithmetic(name, *args)

    def compare(self, kind: str, x: Scalar, y: Scalar) -> Scalar:
        """A bool: ``eq ne lt le gt ge``."""
        assert kind in _COMPARISONS
        assert x.dtype == y.dtype, f"{kind} of {x.dtype} and {y.dtype}"
        if x.dtype.kind == "c":
            re, im = map(self.compare, (kind, kind), self.parts(x), self.parts(y))
            return self.logic("and" if kind == "eq" else "or", re, im)
        if x.is_constant and y.is_constant:
            return self.const(getattr(operator, kind)(x.attr, y.attr), _BOOL)
        return self.node(kind, _BOOL, (self.widen(x), self.widen(y)))

    def select(self, which: Scalar, x: Scalar, y: Scalar) -> Scalar:
        """``x`` where ``which`` is true, else ``y``."""
        assert which.dtype == _BOOL
        assert x.dtype == y.dtype, f"select of {x.dtype} and {y.dtype}"
        if x is y:
            return x
        if which.is_constant:
            return x if which.attr else y
        if x.dtype.kind == "c":
            re, im = map(self.select, (which, which), self.parts(x), self.parts(y))
            return self.complex(re, im)
        return self.node("select", x.dtype, (which, x, y))

    def logic(self, op: str, *args: Scalar) -> Scalar:
        """``and or xor not`` of integers or bools, ``shl shr popcount clz`` of integers."""
        assert args[0].dtype.kind in "iub"
        assert all(a.dtype == args[0].dtype for a in args)
        return self.node(op, args[0].dtype, args)

    def both(self, x: Scalar, y: Scalar) -> Scalar:
        """Whether two bools are true."""
        for one, other in ((x, y), (y, x)):
            if one.is_constant:
                return other if one.attr else one
        return self.logic("and", x, y)

    def convert(self, x: Scalar, dtype: np.dtype[Any]) -> Scalar:
        """``x`` as another dtype, which is not bool; of a complex number its real part."""
        if x.dtype == dtype:
            return x
        if x.dtype.kind == "c" or dtype.kind == "c":
            return self._convert_parts(x, dtype)
        # NumPy leaves open what integer a float out of range becomes.
        if x.is_constant and (dtype.kind not in "iu" or x.dtype.kind in "iub"):
            return self.const(x.attr, dtype)
        assert dtype != _BOOL, "a comparison makes bools"
        if self._goes_through_single(x.dtype, dtype):
            x = self.node("convert", dtypes.float32, (x,))
        return self.node("convert", dtype, (x,))

    def _convert_parts(self, x: Scalar, dtype: np.dtype[Any]) -> Scalar:
        """From complex numbers, or to them."""
        part = dtypes.real_dtype(dtype)
        parts = [self.convert(p, part) for p in self.parts(x)]
        if dtype.kind != "c":
            return parts[0]
        return self.complex(parts[0], parts[1] if len(parts) > 1 else self.const(0, part))

    @staticmethod
    def _goes_through_single(old: np.dtype[Any], new: np.dtype[Any]) -> bool:
        """Whether the references convert by way of float32, as NumPy and ml_dtypes do."""
        if dtypes.float32 in (old, new):
            return False
        return old in _LOW_PRECISION or (
            new in _LOW_PRECISION and (old, new) != (dtypes.float64, dtypes.float16)
        )

    def widen(self, x: Scalar) -> Scalar:
        """float16 and bfloat16 as float32, else ``x``: to compute on and round once at the end."""
        return self.convert(x, dtypes.float32) if x.dtype in _LOW_PRECISION else x

    def bitcast(self, x: Scalar, dtype: np.dtype[Any]) -> Scalar:
        """The bits of ``x`` as another dtype of the same size."""
        if x.dtype == dtype:
            return x
        if x.is_constant:
            return self._constant(np.asarray(x.attr).view(dtype)[()], dtype)
        return self.node("bitcast", dtype, (x,))

    def threefry(self, *words: Scalar) -> tuple[Scalar, Scalar]:
        """Two words of random bits from two words of a key and two of a counter, ``uint32``."""
        both = self.node(THREEFRY, words[0].dtype, words)
        return self.node(WORD, both.dtype, (both,), 0), self.node(WORD, both.dtype, (both,), 1)

    def is_nan(self, x: Scalar) -> Scalar:
        """Whether a float is NaN."""
        return self.compare("ne", x, x)
