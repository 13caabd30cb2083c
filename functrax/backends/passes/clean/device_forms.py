"""Operations in the form in which NVIDIA's libraries compute them, in programs of a GPU.

An inverse Fourier transform leaves as one that is not scaled, and a product, which is a part of
what kernel comes next.  The half transform that IRFFT takes is first made what a real array has:
cuFFT assumes it, while NumPy takes no notice of imaginary parts where a real array has none.

In strict mode results are those of the host's functions, so programs stay as they are.

Start at :func:`device_forms`.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.errors.source import SourceLine
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.options.config import state as options
from functrax.core.prims.arithmetic import add, mul, select_n
from functrax.core.prims.comparisons import eq, or_
from functrax.core.prims.convert import complex_, conj, imag, real
from functrax.core.prims.fourier import fft
from functrax.core.prims.reindex import iota, rev
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.tracing.primitive import Avals, Opaque, Primitive
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

#: The most axes that one plan of cuFFT transforms.
MOST_AXES = 3
_INVERSES = frozenset({"IFFT", "IRFFT"})


class UnscaledInverse(Opaque):
    """An inverse Fourier transform that divides by nothing; params are those of ``fft``.

    It exists in the compiler alone, after differentiation and batching.
    """

    name = "unscaled_inverse_fft"
    accepts = fft.accepts

    def shape_rule(self, x: ShapedArray, *, kind: str, fft_lengths: tuple[int, ...]) -> Avals:
        return fft.shape_rule(x, kind=kind, fft_lengths=fft_lengths)

    def reference(self, x: Any, *, kind: str, fft_lengths: tuple[int, ...]) -> Any:
        scaled = fft.reference(x, kind=kind, fft_lengths=fft_lengths)
        return scaled * scaled.real.dtype.type(math.prod(fft_lengths))

    def jvp(self, *args: Any, **params: Any) -> NoReturn:
        raise self._compiled("differentiated")

    def batch(self, *args: Any, **params: Any) -> NoReturn:
        raise self._compiled("batched")

    def _compiled(self, what: str) -> AssertionError:
        return AssertionError(
            f"{self.name} was {what}: it exists in compiled programs alone, which no "
            "transformation sees"
        )


unscaled_inverse_fft = UnscaledInverse()


def device_forms(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with inverse transforms as cuFFT computes them; in strict mode as it was."""
    if options.strict or not options.cuda_libraries:
        return jaxpr
    return _changed(jaxpr, rewrites)


def _changed(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    eqns: list[Eqn] = []
    for eqn in with_bodies(jaxpr.eqns, lambda inner: _changed(inner, rewrites)):
        if _is_inverse(eqn) and rewrites.allow("scaled by a kernel", eqn):
            eqns += _inverse(eqn)
        else:
            eqns.append(eqn)
    return with_eqns(jaxpr, eqns)


def _is_inverse(eqn: Eqn) -> bool:
    if eqn.primitive is not fft or eqn.params["kind"] not in _INVERSES:
        return False
    return len(eqn.params["fft_lengths"]) <= MOST_AXES and eqn.outvars[0].aval.size > 0


def _inverse(eqn: Eqn) -> list[Eqn]:
    """An inverse transform without a scale, and the product with it."""
    write = _Writer(eqn.source)
    (x,), (out,) = eqn.invars, eqn.outvars
    kind, lengths = eqn.params["kind"], eqn.params["fft_lengths"]
    if kind == "IRFFT":
        x = _of_real(write, x, lengths)
    whole = write(unscaled_inverse_fft, x, kind=kind, fft_lengths=lengths)
    real_dtype = dtypes.real_dtype(out.aval.dtype)
    factor = np.reciprocal(math.prod(lengths), dtype=real_dtype)
    write.eqns.append(Eqn(mul, (whole, _number(factor, out.aval.dtype)), (out,), {}, eqn.source))
    return write.eqns


def _of_real(write: _Writer, x: Atom, lengths: tuple[int, ...]) -> Atom:
    """The half transform of the real array that NumPy computes from any half transform.

    Along the last axis the first element, and the last one of an even length, belong to sums that
    are real: of each the even part along the other axes is taken.
    """
    shape = x.aval.shape
    last = len(shape) - 1
    place = write(iota, shape=shape, dtype=dtypes.int32, axis=last)
    is_edge: Atom = write(eq, place, _number(0, dtypes.int32))
    if lengths[-1] % 2 == 0:
        second = write(eq, place, _number(shape[-1] - 1, dtypes.int32))
        is_edge = write(or_, is_edge, second)
    if len(lengths) == 1:
        part = write(imag, x)
        none = _number(0, part.aval.dtype)
        return write(complex_, write(real, x), write(select_n, is_edge, part, none))
    turned: Atom = x
    for axis in range(last - len(lengths) + 1, last):
        turned = _turned(write, turned, axis)
    both = write(add, x, write(conj, turned))
    even = write(mul, both, _number(0.5, x.aval.dtype))
    return write(select_n, is_edge, x, even)


def _turned(write: _Writer, x: Atom, axis: int) -> Atom:
    """Element ``-k`` of an axis, modulo its length, at each place ``k``."""
    backwards, size = write(rev, x, axes=(axis,)), x.aval.shape[axis]
    start, limit = [0] * x.aval.ndim, [*x.aval.shape]
    steps = (1,) * x.aval.ndim
    start[axis] = limit[axis] = size - 1
    rest = write(slice_, backwards, start=(0,) * x.aval.ndim, limit=tuple(limit), strides=steps)
    first = write(slice_, backwards, start=tuple(start), limit=tuple(x.aval.shape), strides=steps)
    return write(concatenate, first, rest, axis=axis) if size > 1 else backwards


class _Writer:
    """Writes equations that stand for one line of the user's."""

    def __init__(self, source: SourceLine | None) -> None:
        self.source = source
        self.eqns: list[Eqn] = []

    def __call__(self, primitive: Primitive, *operands: Atom, **params: Any) -> Var:
        aval = primitive.infer(tuple([x.aval for x in operands]), params)
        assert isinstance(aval, ShapedArray), "it has one result"
        out = Var(aval)
        self.eqns.append(Eqn(primitive, operands, (out,), params, self.source))
        return out


def _number(value: Any, dtype: np.dtype[Any]) -> Literal:
    return Literal(np.asarray(value, dtype), ShapedArray((), dtype))
