"""Fourier transforms by library functions.

Most are loops of the extension (``native/fourier_transforms.h``), an axis at a time; those of other
lengths are the loops of ``numpy.fft``.

Start at :func:`fft`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.executables.library_functions import FFT, numpy_loop, own_function
from functrax.backends.executables.program import Launch
from functrax.backends.libraries.fourier_tables import (
    GROUP,
    long_roots,
    radices,
    table,
    two_lengths,
)
from functrax.backends.libraries.site import Argument, Site, loop_launch
from functrax.backends.targets import target
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
        return [*found, *_transform(site, "irfft", source, out, last, lengths[-1])]
    first = along
    if kind == "RFFT":
        first = "rfft_n_odd" if lengths[-1] % 2 else "rfft_n_even"
    return [
        *_transform(site, first, x, out, last, lengths[-1]),
        *_transforms(site, along, out, out, axes[::-1]),
    ]


def _transforms(
    site: Site, name: str, source: int, target: int, axes: Sequence[int]
) -> list[Launch | None]:
    """Transforms along some axes of complex arrays of one shape, one after the other."""
    found = []
    for axis in axes:
        size = site.builder.slot(target).shape[axis]
        found += _transform(site, name, source, target, axis, size)
        source = target
    return found


def _transform(
    site: Site, name: str, source: int, target: int, axis: int, size: int
) -> list[Launch | None]:
    """Launches that transform along one axis of two slots, which may be the same.

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
        cost = _cost(size, real, is_real) * inner
        function = _function("transform", real)
        return [site.own(function, inputs, (target,), (*params, len(passes), *passes), cost, units)]
    pair = two_lengths(size)
    if pair is not None and inner == 1 and name != "irfft":
        return _long(site, name, source, target, pair)
    loop = numpy_loop(FFT, name, f"{given.dtype.char}{real.char}->{result.dtype.char}")
    if loop is None:
        return [None]
    factor = site.builder.const(scale)
    operand, out = [
        Argument(slot, unit, (step,), apart)
        for slot, (unit, apart, step) in zip((source, target), places, strict=True)
    ]
    dims = (given.shape[axis], result.shape[axis])
    cost = 500 + 6 * size * inner
    arguments = (operand, Argument(factor, 0, ()), out)
    return [loop_launch(site, loop, arguments, (target,), dims, units, cost, inner)]


def _long(
    site: Site, name: str, source: int, target: int, pair: tuple[int, int]
) -> list[Launch | None]:
    """Launches that transform long vectors, one after the other in memory.

    As a matrix of ``length`` rows and ``columns``, each is transformed along columns, then rows
    (``native/fourier_long.h``, which says what the params are).
    """
    length, columns = pair
    size = length * columns
    given, result = site.builder.slot(source), site.builder.slot(target)
    real = dtypes.real_dtype(result.dtype)
    is_real = given.dtype == real
    vectors = math.prod(given.shape) // size
    wanted = math.prod(result.shape) // vectors
    numbers = 1 if is_real else 2
    scale = np.reciprocal(size, dtype=real) if name == "ifft" else np.ones((), real)
    whole = int(name == "ifft"), int(is_real)
    rows = site.builder.value((vectors, size), result.dtype)
    roots = site.builder.const(long_roots(columns, length, real))
    first = site.builder.const(table(length, False, np.ones((), real), real))
    second = site.builder.const(table(columns, False, scale, real))
    strides = numbers * size, numbers, numbers * columns, 2 * size, 2, 2 * columns
    passes = radices(length) or ()
    params = [0, 1, 3, length, 0, 0, 1, *strides, len(passes), *passes, *whole, columns, 2, wanted]
    found = [
        site.own(
            _function("long_columns", real),
            (source, first, roots),
            (rows,),
            params,
            GROUP * _cost(length, real, False),
            vectors * math.ceil(columns / GROUP),
        )
    ]
    strides = 2 * size, 2 * columns, 2, 2 * wanted, 2, 2
    passes = radices(columns) or ()
    params = [0, 1, 2, columns, 0, 0, 1, *strides, len(passes), *passes, *whole, length, 0, wanted]
    found.append(
        site.own(
            _function("long_rows", real),
            (rows, second),
            (target,),
            params,
            GROUP * _cost(columns, real, False),
            vectors * math.ceil(length / GROUP),
        )
    )
    return found


def _function(name: str, dtype: np.dtype[Any]) -> str:
    """The extension's function for the longest vectors that the target has."""
    for nbytes in (64, 32):
        found = f"{name}_{dtype.char}{nbytes}"
        if nbytes <= target().vector_bytes and own_function(found) is not None:
            return found
    return f"{name}_{dtype.char}16"


def _cost(size: int, dtype: np.dtype[Any], is_real: bool) -> int:
    """Estimated nanoseconds of one transform among several, which has a lane of vectors: five
    operations a point and pass of radix 2, of which a processor does two vectors a nanosecond.
    """
    operations = 5 * size * size.bit_length() // (2 if is_real else 1)
    return 5 + operations * dtype.itemsize // (2 * target().vector_bytes)
