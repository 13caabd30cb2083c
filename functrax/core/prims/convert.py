"""Elementwise conversions: between dtypes, between bit patterns, between real and complex."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from functrax.core.errors.typed import DTypeError
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims import lowered_stored
from functrax.core.prims.arithmetic import neg
from functrax.core.prims.lowered_arithmetic import truth
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Elementwise,
    Linear,
    Ops,
    Sample,
    Tangents,
    Value,
    like,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.symbolic_sizes import is_symbolic_dim


class ConvertElementType(Elementwise):
    """The nearest value of another dtype; floats become integers by truncation."""

    name = "convert_element_type"
    computes_nothing = True
    distributes = True
    keeps_zero = True
    by_parts = True
    takes_stored = True

    def shape_rule(self, x: ShapedArray, *, dtype: Any, weak_type: bool = False) -> Avals:
        return ShapedArray(x.shape, dtype, weak_type)

    def reference(self, x: Any, *, dtype: Any, weak_type: bool = False) -> Any:
        x = np.asarray(x)
        if dtypes.is_complex(x.dtype) and not dtypes.is_complex(dtype):
            x = x.real
        if dtypes.is_integer(dtype) and dtypes.is_float(x.dtype):
            return _saturate(x, dtype)
        if x.dtype in dtypes.STORED_INTEGERS:  # ml_dtypes before 0.5.4 makes no bfloat16 of int2
            x = x.astype(dtypes.compute_dtype(x.dtype))
        return x.astype(dtype)

    def lower(self, b: Builder, x: Scalar, *, dtype: Any, weak_type: bool = False) -> Scalar:
        if x.dtype in dtypes.STORED:
            x = lowered_stored.decode(b, x)
        if dtype in dtypes.STORED:
            return lowered_stored.encode(b, b.parts(x)[0], dtype)
        return truth(b, x) if dtype == dtypes.bool_ else b.convert(x, dtype)

    def simplify(self, x: Value, *, dtype: Any, weak_type: bool = False) -> Value | None:
        if type(x) is Literal and not is_symbolic_dim(x.val):
            return Literal(self.reference(x.val, dtype=dtype), ShapedArray((), dtype, weak_type))
        return x if x.aval.dtype == dtype and x.aval.weak_type == weak_type else None

    def jvp(
        self, primals: Ops, tangents: Tangents, *, dtype: Any, weak_type: bool = False
    ) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = self.bind(x, dtype=dtype, weak_type=weak_type)
        if t is None or not dtypes.is_inexact(dtype):
            return out, None
        return out, self.bind(t, dtype=dtype, weak_type=weak_type)

    def transpose(
        self, ct: Value, x: Linear, *, dtype: Any, weak_type: bool = False
    ) -> list[Value | None]:
        return [self.bind(ct, dtype=x.aval.dtype, weak_type=x.aval.weak_type)]

    def samples(self) -> Iterable[Sample]:
        for dtype in (dtypes.bool_, dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.bfloat16):
            yield Sample(((3, 4),), {"dtype": dtype}, ranges=((0.0, 9.0),))
        for dtype in (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.complex64):
            yield Sample(((3, 4),), {"dtype": dtype})

    def bad_samples(self) -> Iterable[BadSample]:
        return ()


def _saturate(x: Any, dtype: np.dtype[Any]) -> Any:
    """Floats to integers as XLA does it: truncate, clamp to the range, NaN becomes 0."""
    info = dtypes.iinfo(dtype)
    wide = x.astype(np.float64)
    inside = np.nan_to_num(np.trunc(wide), nan=0.0, posinf=np.inf, neginf=-np.inf)
    result = np.clip(
        inside,
        float(info.min),
        np.nextafter(float(info.max), 0) if info.bits == 64 else float(info.max),
    ).astype(dtype)
    return np.where(inside >= float(info.max), np.array(info.max, dtype), result)


class Real(Elementwise):
    """Real part."""

    name = "real"
    rounds_nothing = True
    computes_nothing = True
    accepts = dtypes.COMPLEX

    def result_dtype(self, *args: Any) -> np.dtype[Any]:
        return dtypes.real_dtype(args[0])

    def reference(self, x: Any) -> Any:
        return np.real(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return b.real(x)

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        return self.bind(primals[0]), None if tangents[0] is None else self.bind(tangents[0])

    def transpose(self, ct: Value, x: Any) -> list[Value | None]:
        return [complex_(ct, like(ct, 0))]


class Imag(Elementwise):
    """Imaginary part."""

    name = "imag"
    rounds_nothing = True
    computes_nothing = True
    accepts = dtypes.COMPLEX

    def result_dtype(self, *args: Any) -> np.dtype[Any]:
        return dtypes.real_dtype(args[0])

    def reference(self, x: Any) -> Any:
        return np.imag(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return b.imag(x)

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        return self.bind(primals[0]), None if tangents[0] is None else self.bind(tangents[0])

    def transpose(self, ct: Value, x: Any) -> list[Value | None]:
        return [complex_(like(ct, 0), neg(ct))]


class Complex(Elementwise):
    """``x + iy`` of two real operands."""

    name = "complex"
    rounds_nothing = True
    computes_nothing = True
    arity = 2
    accepts = frozenset({dtypes.float32, dtypes.float64})

    def result_dtype(self, *args: Any) -> np.dtype[Any]:
        return dtypes.complex64 if args[0] == dtypes.float32 else dtypes.complex128

    def reference(self, x: Any, y: Any) -> Any:
        x, y = np.broadcast_arrays(x, y)
        out = np.empty(x.shape, self.result_dtype(x.dtype))
        out.real, out.imag = x, y
        return out

    def lower(self, b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return b.complex(x, y)

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        out = self.bind(*primals)
        if tangents[0] is None and tangents[1] is None:
            return out, None
        zero = like(primals[0], 0)
        return out, self.bind(*(zero if t is None else t for t in tangents))

    def transpose(self, ct: Value, x: Any, y: Any) -> list[Value | None]:
        return [
            real(ct) if isinstance(x, Linear) else None,
            neg(imag(ct)) if isinstance(y, Linear) else None,
        ]


class Conj(Elementwise):
    """Complex conjugate."""

    name = "conj"
    rounds_nothing = True
    by_parts = True
    accepts = dtypes.COMPLEX

    def reference(self, x: Any) -> Any:
        return np.conj(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return b.complex(b.real(x), b.neg(b.imag(x)))

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        return self.bind(primals[0]), None if tangents[0] is None else self.bind(tangents[0])

    def transpose(self, ct: Value, x: Any) -> list[Value | None]:
        return [self.bind(ct)]


class BitcastConvertType(Elementwise):
    """The same bits read as another dtype of the same width."""

    name = "bitcast_convert_type"
    rounds_nothing = True
    computes_nothing = True
    takes_stored = True

    def shape_rule(self, x: ShapedArray, *, dtype: Any) -> Avals:
        widths = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(dtype)
        if widths[0] != widths[1] or (x.dtype == dtypes.bool_) != (dtype == dtypes.bool_):
            raise DTypeError(
                "bitcast_convert_type: the dtypes have different widths",
                got=f"{x.str_short()} to {dtype}",
                fix="functrax.lax.bitcast_convert_type, which splits or joins a trailing axis",
            )
        return ShapedArray(x.shape, dtype)

    def reference(self, x: Any, *, dtype: Any) -> Any:
        return np.ascontiguousarray(x).reshape(np.shape(x)).view(dtype)

    def lower(self, b: Builder, x: Scalar, *, dtype: Any) -> Scalar:
        return b.bitcast(x, dtype)

    def lowers(self, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> bool:
        whole = dtypes.is_complex(avals[0].dtype) or dtypes.is_complex(params["dtype"])
        return not whole and super().lowers(avals, params)

    def jvp(self, primals: Ops, tangents: Tangents, *, dtype: Any) -> tuple[Any, Any]:
        return self.bind(primals[0], dtype=dtype), None

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4),), {"dtype": None})

    def bad_samples(self) -> Iterable[BadSample]:
        f32 = ShapedArray((3,), dtypes.float32)
        yield BadSample((f32,), DTypeError, "widths", {"dtype": dtypes.int8})


convert_element_type = ConvertElementType()


def as_positions(index: Value, size: int) -> Value:
    """Integers in a dtype that holds positions along ``size`` elements, and ``size`` itself."""
    dtype = index.aval.dtype
    if dtype.itemsize >= 4 and size <= dtypes.iinfo(dtype).max:
        return index
    wide: Value = convert_element_type.bind(index, dtype=dtypes.position_dtype(size))
    return wide


real, imag, complex_, conj = Real(), Imag(), Complex(), Conj()
bitcast_convert_type = BitcastConvertType()
