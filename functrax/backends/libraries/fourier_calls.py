"""Fourier transforms by library functions.

Most are loops of the extension (``native/fourier_loops.cpp``), an axis at a time; those of other
lengths are the loops of ``numpy.fft``.

Start at :func:`fft`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from functrax.backends.executables.library_functions import FFT, numpy_loop
from functrax.backends.executables.program import Launch
from functrax.backends.libraries.fourier_tables import radices, table
from functrax.backends.libraries.site import Argument, Site, loop_launch
from functrax.core.types import dtypes


def fft(site: Site) -> list[Launch | None]:
    """The launches of an ``fft``."""
    kind, lengths = site.params["kind"], site.params["fft_lengths"]
    (x,), (out,) = site.inputs, site.outputs
    last = len(site.shape) - 1
    axes = list(range(last - len(lengths) + 1, last))  # but the last one
    inverse = kind in ("IFFT", "IRFFT")
    along = "ifft" if inverse else "fft"
    if kind == "IRFFT":
        found, source = [], x
        if axes:
            source = site.builder.value(site.shape, site.avals[0].dtype)
            found = _transforms(site, along, x, source, axes)
        return [*found, _transform(site, "irfft", source, out, last, lengths[-1])]
    first = along
    if kind == "RFFT":
        first = "rfft_n_odd" if lengths[-1] % 2 else "rfft_n_even"
    return [
        _transform(site, first, x, out, last, lengths[-1]),
        *_transforms(site, along, out, out, axes[::-1]),
    ]


def _transforms(
    site: Site, name: str, source: int, target: int, axes: Sequence[int]
) -> list[Launch | None]:
    """Transforms along some axes of complex arrays of one shape, one after the other."""
    found = []
    for axis in axes:
        size = site.builder.slot(target).shape[axis]
        found.append(_transform(site, name, source, target, axis, size))
        source = target
    return found


def _transform(
    site: Site, name: str, source: int, target: int, axis: int, size: int
) -> Launch | None:
    """A launch that transforms along one axis of two slots, which may be the same.

    The name is that of the ufunc of ``numpy.fft``, the size the length of the transform.
    """
    given, result = site.builder.slot(source), site.builder.slot(target)
    real = dtypes.real_dtype(result.dtype)
    scale = np.reciprocal(size, dtype=real) if name in ("ifft", "irfft") else np.ones((), real)
    units, inner = math.prod(given.shape[:axis]), math.prod(given.shape[axis + 1 :])
    places = []
    for s in (given, result):
        step = inner * s.dtype.itemsize
        places.append((s.shape[axis] * step, s.dtype.itemsize, step))
    if units == 1:  # split by threads along the other axes
        units, inner = inner, 1
        places = [(item, 0, step) for _, item, step in places]
    is_real = "r" in name
    is_halved = is_real and size % 2 == 0
    passes = radices(size // 2 if is_halved else size)
    if passes is not None:
        roots = site.builder.const(table(size, is_halved, scale, real))
        inputs = (roots,) if source == target else (source, roots)
        params = [len(inputs) if source == target else 0, len(inputs) - 1, len(inputs)]
        params += [size, int(name.startswith("i")), int(is_real), inner]
        params += [stride // real.itemsize for place in places for stride in place]
        cost = 30 + 3 * size * inner
        return site.own(
            f"transform_{real.char}",
            inputs,
            (target,),
            (*params, len(passes), *passes),
            cost,
            units,
        )
    loop = numpy_loop(FFT, name, f"{given.dtype.char}{real.char}->{result.dtype.char}")
    if loop is None:
        return None
    factor = site.builder.const(scale)
    operand, out = [
        Argument(slot, unit, (step,), apart)
        for slot, (unit, apart, step) in zip((source, target), places, strict=True)
    ]
    dims = (given.shape[axis], result.shape[axis])
    cost = 500 + 6 * size * inner
    arguments = (operand, Argument(factor, 0, ()), out)
    return loop_launch(site, loop, arguments, (target,), dims, units, cost, inner)
