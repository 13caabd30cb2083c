"""The discrete Fourier transform along the last axes: an opaque, linear operation.

Four kinds, as in ``jax.lax.fft``: FFT and IFFT take complex arrays to complex ones, RFFT takes
real ones to the first half of the transform, and IRFFT goes back.  The inverses divide by the
number of elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.prims.arithmetic import mul, select_n
from functrax.core.prims.comparisons import eq
from functrax.core.prims.convert import conj, real
from functrax.core.prims.reindex import iota
from functrax.core.prims.slicing import pad
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Opaque,
    Ops,
    Sample,
    Tangents,
    Value,
    like,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
#: What they are called in ``numpy.fft``, which is not loaded before it is used.
_FUNCTIONS = {"FFT": "fftn", "IFFT": "ifftn", "RFFT": "rfftn", "IRFFT": "irfftn"}
_WIDE = frozenset({dtypes.float64, dtypes.complex128})


class Fft(Opaque):
    """The transform of the last ``len(fft_lengths)`` axes.

    ``fft_lengths`` are the sizes of those axes in the operand; for IRFFT, in the result.
    """

    name = "fft"
    accepts = frozenset({dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128})

    def shape_rule(self, x: ShapedArray, *, kind: str, fft_lengths: tuple[int, ...]) -> Avals:
        self._check(x, kind, fft_lengths)
        count = x.ndim - len(fft_lengths)
        last = fft_lengths[-1] // 2 + 1 if kind == "RFFT" else fft_lengths[-1]
        shape = (*x.shape[:count], *fft_lengths[:-1], last)
        wide = x.dtype in _WIDE
        if kind == "IRFFT":
            return ShapedArray(shape, dtypes.float64 if wide else dtypes.float32)
        return ShapedArray(shape, dtypes.complex128 if wide else dtypes.complex64)

    def _check(self, x: ShapedArray, kind: str, lengths: tuple[int, ...]) -> None:
        if kind not in KINDS:
            raise ArgumentError("fft: unknown kind", got=repr(kind), fix=", ".join(KINDS))
        if x.dtype not in self.accepts or (kind == "RFFT") is dtypes.is_complex(x.dtype):
            raise DTypeError(
                f"fft: {kind} takes {'real' if kind == 'RFFT' else 'complex'} numbers",
                got=x.str_short(),
                fix="RFFT for real arrays, FFT for complex ones; or functrax.numpy.fft",
            )
        if not 1 <= len(lengths) <= x.ndim:
            raise ShapeError(
                "fft: needs from one length to one for each axis",
                got=f"fft_lengths {lengths} for {x.str_short()}",
                fix="a length for each of the last axes that are transformed",
            )
        wanted = (*lengths[:-1], lengths[-1] // 2 + 1) if kind == "IRFFT" else lengths
        if x.shape[x.ndim - len(lengths) :] != wanted or min(lengths) < 1:
            raise ShapeError(
                f"fft: {kind} of these lengths needs last axes of sizes {wanted}",
                got=f"fft_lengths {lengths} for {x.str_short()}",
                fix="pad or slice the array, or give the sizes of its last axes",
            )

    def reference(self, x: Any, *, kind: str, fft_lengths: tuple[int, ...]) -> Any:
        axes = tuple(range(x.ndim - len(fft_lengths), x.ndim))
        if x.size == 0:
            aval = self.shape_rule(
                ShapedArray(x.shape, x.dtype), kind=kind, fft_lengths=fft_lengths
            )
            assert isinstance(aval, ShapedArray)
            return np.zeros(aval.shape, aval.dtype)
        wide = x.dtype in _WIDE
        out = getattr(np.fft, _FUNCTIONS[kind])(x, s=fft_lengths, axes=axes)
        if kind == "IRFFT":
            return out.astype(dtypes.float64 if wide else dtypes.float32, copy=False)
        return out.astype(dtypes.complex128 if wide else dtypes.complex64, copy=False)

    def jvp(
        self, primals: Ops, tangents: Tangents, *, kind: str, fft_lengths: tuple[int, ...]
    ) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = self.bind(x, kind=kind, fft_lengths=fft_lengths)
        return out, None if t is None else self.bind(t, kind=kind, fft_lengths=fft_lengths)

    def transpose(
        self, ct: Value, x: Any, *, kind: str, fft_lengths: tuple[int, ...]
    ) -> list[Value | None]:
        if kind in ("FFT", "IFFT"):  # symmetric matrices
            return [self.bind(ct, kind=kind, fft_lengths=fft_lengths)]
        if kind == "RFFT":
            none = (0,) * ct.aval.ndim
            high = (*none[1:], fft_lengths[-1] - ct.aval.shape[-1])
            whole = pad(ct, low=none, high=high, interior=none, fill=like(ct, 0))
            return [real(self.bind(whole, kind="FFT", fft_lengths=fft_lengths))]
        half = conj(self.bind(ct, kind="RFFT", fft_lengths=fft_lengths))
        return [mul(half, _multiplicities(half, fft_lengths))]

    def batch(
        self,
        size: int,
        args: Ops,
        batched: Sequence[bool],
        *,
        kind: str,
        fft_lengths: tuple[int, ...],
    ) -> tuple[Any, Any]:
        return self.bind(args[0], kind=kind, fft_lengths=fft_lengths), True

    def samples(self) -> Iterable[Sample]:
        yield Sample(((2, 4),), {"kind": "FFT", "fft_lengths": (4,)})
        yield Sample(((2, 3),), {"kind": "IFFT", "fft_lengths": (2, 3)})
        yield Sample(((2, 4),), {"kind": "RFFT", "fft_lengths": (4,)})
        yield Sample(((2, 5),), {"kind": "RFFT", "fft_lengths": (2, 5)})
        yield Sample(((2, 3),), {"kind": "IRFFT", "fft_lengths": (4,)})
        yield Sample(((3, 3),), {"kind": "IRFFT", "fft_lengths": (3, 5)})
        yield Sample(((2, 1),), {"kind": "IRFFT", "fft_lengths": (1,)})
        yield Sample(((0, 4),), {"kind": "FFT", "fft_lengths": (4,)})

    def bad_samples(self) -> Iterable[BadSample]:
        x, z = ShapedArray((4,), dtypes.float32), ShapedArray((4,), dtypes.complex64)
        yield BadSample((x,), DTypeError, "complex", {"kind": "FFT", "fft_lengths": (4,)})
        yield BadSample((z,), DTypeError, "real", {"kind": "RFFT", "fft_lengths": (4,)})
        yield BadSample((z,), ShapeError, "sizes", {"kind": "FFT", "fft_lengths": (3,)})
        yield BadSample((z,), ShapeError, "length", {"kind": "FFT", "fft_lengths": ()})
        yield BadSample((z,), ArgumentError, "kind", {"kind": "DCT", "fft_lengths": (4,)})


def _multiplicities(half: Value, lengths: tuple[int, ...]) -> Value:
    """How often each element of a half transform occurs in the whole, over the whole's size.

    The first one occurs once, and so does the last one of an even length; the others twice.
    """
    shape = half.aval.shape
    size, n = math.prod(lengths), lengths[-1]
    place = iota.bind(shape=shape, dtype=dtypes.int32, axis=len(shape) - 1)
    once, twice = like(half, 1 / size), like(half, 2 / size)
    factor = select_n(eq(place, like(place, 0)), twice, once)
    if n % 2:
        return factor
    return select_n(eq(place, like(place, n // 2)), factor, once)


fft = Fft()
