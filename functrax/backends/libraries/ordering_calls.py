"""Launches that compute ``top_k``, and ``sort`` of several arrays, by loops of the extension.

Start at :func:`top_k` and :func:`sort`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from functrax.backends.executables.program import Launch
from functrax.backends.libraries.site import Site
from functrax.backends.targets import target
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType

#: What elements are, for the extension: floats, signed and unsigned integers.
_FLOAT, _SIGNED, _UNSIGNED = range(3)
#: Rows side by side that are one unit: ``kLanes`` there.
_LANES: Final = 16


def top_k(site: Site) -> list[Launch | None]:
    """Rows one after the other, or side by side; see ``native/selection_loops.cpp``."""
    k, axis = site.params["k"], site.params["axis"]
    dtype, shape = site.avals[0].dtype, site.shape
    length, inner = shape[axis], math.prod(shape[axis + 1 :])
    numbers = _numbers(dtype)
    if numbers is None:
        return [None]
    params = (k, length, inner, _width(length, k, inner > 1), numbers)
    cost = 10 + length // 4 + 6 * k * k.bit_length()
    units = math.prod(shape[:axis]) * -(-inner // _LANES)
    name = f"top_k_{dtype.itemsize}"
    return [site.own(name, site.inputs, site.outputs, params, min(inner, _LANES) * cost, units)]


def _width(length: int, k: int, is_strided: bool) -> int:
    """Of the blocks whose largest elements are found first; 0 if there would be too few.

    To find one costs as much as to read some elements of a block again.
    """
    most = 4 * length // (5 * k)
    width = max(8, math.isqrt((1 if is_strided else 16) * length // k))
    return 0 if most < 8 else min(width, most) // 8 * 8


def _numbers(dtype: DType) -> int | None:
    if dtype in dtypes.STORED:
        return None
    if dtypes.is_float(dtype):
        return _FLOAT
    return _SIGNED if dtype.kind == "i" else _UNSIGNED


def sort(site: Site) -> list[Launch | None]:
    """Several arrays by their positions; one alone is sorted faster by NumPy."""
    axis, num_keys = site.params["dimension"], site.params["num_keys"]
    shape = site.shape
    length, inner = shape[axis], math.prod(shape[axis + 1 :])
    kinds = [x.dtype for x in site.avals]
    if len(kinds) == 1 or length >= 2**32 or any(d in dtypes.STORED for d in kinds):
        return [None]
    parts = [part for n in range(num_keys) for part in _parts(n, kinds[n])]
    size = 8 if any(part[3] == 8 for part in parts) else 4
    units = math.prod(shape) // length
    if units == len(parts) == 1 and length * size > target().first_cache:
        return [None]  # NumPy sorts one long row by one key in vectors
    scratch: tuple[int, ...] = ()
    if units == 1:  # planned memory, which is used again; threads with rows have their own
        both, places = (2 * length * (size // 4),), (length,)
        scratch = site.builder.value(both, np.uint64), site.builder.value(places, np.uint32)
    params = [length, inner, len(kinds), len(parts), len(scratch)]
    params += [d.itemsize for d in kinds]
    params += [x for part in parts for x in part]
    cost = length * (len(kinds) + 2 * size * len(parts))
    outputs = (*site.outputs, *scratch)
    return [site.own(f"sort_by_{size}", site.inputs, outputs, params, cost, units)]


def _parts(operand: int, dtype: DType) -> Iterable[tuple[int, ...]]:
    """What ``Part`` holds in ``native/sorting_loops.cpp``, the most important first."""
    if dtype.kind == "c":
        real = np.dtype(f"f{dtype.itemsize // 2}")
        for offset in (0, real.itemsize):
            yield operand, _FLOAT, _infinity(real), real.itemsize, offset
    else:
        numbers = _numbers(dtype)
        assert numbers is not None
        infinity = _infinity(dtype) if numbers == _FLOAT else 0
        yield operand, numbers, infinity, dtype.itemsize, 0


def _infinity(dtype: DType) -> int:
    return int(np.array(np.inf, dtype).view(f"u{dtype.itemsize}"))
