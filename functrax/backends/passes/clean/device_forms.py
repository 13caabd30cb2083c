"""Operations in the form in which NVIDIA's libraries compute them, in programs of a GPU.

An inverse Fourier transform leaves as one that is not scaled, and a product, which is a part of
what kernel comes next.  The half transform that IRFFT takes is first made what a real array has:
cuFFT assumes it, while NumPy takes no notice of imaginary parts where a real array has none.
Matrices are those of ``device_matrices.py``.

Programs stay as they are where the target has no libraries, as in strict mode.

Start at :func:`device_forms`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from functrax.backends.passes.clean.device_matrices import MATRIX_FORMS
from functrax.backends.passes.clean.device_primitives import (
    number,
    unscaled_inverse_fft,
)
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.passes.writer import EquationWriter
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr
from functrax.core.prims.arithmetic import add, mul, select_n
from functrax.core.prims.comparisons import eq, or_
from functrax.core.prims.convert import complex_, conj, imag, real
from functrax.core.prims.fourier import fft
from functrax.core.prims.reindex import iota, rev
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.tracing.primitive import Primitive
from functrax.core.types import dtypes

#: The most axes that one plan of cuFFT transforms.
MOST_AXES = 3
_INVERSES = frozenset({"IFFT", "IRFFT"})


def device_forms(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with operations as libraries compute them."""
    eqns: list[Eqn] = []
    for eqn in with_bodies(jaxpr.eqns, lambda inner: device_forms(inner, rewrites)):
        form = FORMS.get(eqn.primitive)
        is_empty = any(x.aval.size == 0 for x in (*eqn.invars, *eqn.outvars))
        found = None if form is None or is_empty else form(eqn)
        if found is not None and rewrites.allow("as a library computes it", eqn):
            eqns += found
        else:
            eqns.append(eqn)
    return with_eqns(jaxpr, eqns)


def _fourier(eqn: Eqn) -> list[Eqn] | None:
    lengths = eqn.params["fft_lengths"]
    is_inverse = eqn.params["kind"] in _INVERSES and len(lengths) <= MOST_AXES
    return _inverse(eqn) if is_inverse else None


def _inverse(eqn: Eqn) -> list[Eqn]:
    """An inverse transform without a scale, and the product with it."""
    write = EquationWriter(eqn.source)
    (x,), (out,) = eqn.invars, eqn.outvars
    kind, lengths = eqn.params["kind"], eqn.params["fft_lengths"]
    if kind == "IRFFT":
        x = _of_real(write, x, lengths)
    whole = write.new(unscaled_inverse_fft, x, kind=kind, fft_lengths=lengths)
    real_dtype = dtypes.real_dtype(out.aval.dtype)
    factor = np.reciprocal(math.prod(lengths), dtype=real_dtype)
    return write.define(out, mul, whole, number(factor, out.aval.dtype))


def _of_real(write: EquationWriter, x: Atom, lengths: tuple[int, ...]) -> Atom:
    """The half transform of the real array that NumPy computes from any half transform.

    Along the last axis the first element, and the last one of an even length, belong to sums that
    are real: of each the even part along the other axes is taken.
    """
    shape = x.aval.shape
    last = len(shape) - 1
    place = write.new(iota, shape=shape, dtype=dtypes.int32, axis=last)
    is_edge: Atom = write.new(eq, place, number(0, dtypes.int32))
    if lengths[-1] % 2 == 0:
        second = write.new(eq, place, number(shape[-1] - 1, dtypes.int32))
        is_edge = write.new(or_, is_edge, second)
    if len(lengths) == 1:
        part = write.new(imag, x)
        none = number(0, part.aval.dtype)
        return write.new(complex_, write.new(real, x), write.new(select_n, is_edge, part, none))
    turned: Atom = x
    for axis in range(last - len(lengths) + 1, last):
        turned = _turned(write, turned, axis)
    both = write.new(add, x, write.new(conj, turned))
    even = write.new(mul, both, number(0.5, x.aval.dtype))
    return write.new(select_n, is_edge, x, even)


def _turned(write: EquationWriter, x: Atom, axis: int) -> Atom:
    """Element ``-k`` of an axis, modulo its length, at each place ``k``."""
    backwards, size = write.new(rev, x, axes=(axis,)), x.aval.shape[axis]
    start, limit = [0] * x.aval.ndim, [*x.aval.shape]
    steps = (1,) * x.aval.ndim
    start[axis] = limit[axis] = size - 1
    rest = write.new(slice_, backwards, start=(0,) * x.aval.ndim, limit=tuple(limit), strides=steps)
    first = write.new(
        slice_, backwards, start=tuple(start), limit=tuple(x.aval.shape), strides=steps
    )
    return write.new(concatenate, first, rest, axis=axis) if size > 1 else backwards


#: What writes an operation in another form, or leaves it.
FORMS: Final[dict[Primitive, Callable[[Eqn], list[Eqn] | None]]] = {fft: _fourier, **MATRIX_FORMS}
