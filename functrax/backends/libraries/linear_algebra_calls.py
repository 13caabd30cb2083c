"""Linear algebra by library functions.

Real matrices that a cache holds are factorised and solved by the extension, where vectors have 64
bytes (``native/dense_loops.cpp``, decision 0039).  Eigenvalues of real symmetric ones are LAPACK's,
and singular values those of the matrix's own precision.  Others of up to ``BLOCK`` rows are
computed by what computes them in ``numpy.linalg``, inner loops of ufuncs, on the same numbers,
float32 made float64 on the way in and back, so the bits are the reference's.  Larger ones stay in
single precision, which takes half the time, and go to LAPACK by its own functions where NumPy
brings it (``native/lapack_loops.cpp``, decision 0027).  Small triangular solutions and eliminations
are loops of the extension (``native/matrix_loops.cpp``).

Start at :data:`RULES`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from functrax.backends.executables.library_functions import (
    LINALG,
    LibraryFunction,
    numpy_loop,
    signature,
)
from functrax.backends.executables.program import Launch
from functrax.backends.libraries.site import (
    BLOCK,
    STRIP_BYTES,
    Argument,
    Site,
    loop_launch,
)
from functrax.backends.targets import target
from functrax.backends.threads import default_num_threads
from functrax.core.prims.determinants import cofactor, det, slogdet
from functrax.core.prims.factorisations import (
    factored_solve,
    linear_solve,
    lu,
    lu_pivots_to_permutation,
    qr,
)
from functrax.core.prims.linear_systems import cholesky, triangular_solve
from functrax.core.prims.matrix_values import MOST_WORK
from functrax.core.prims.spectra import eigh, svd
from functrax.core.tracing.primitive import Primitive

_READS, _WRITES = 1, 2
_DOUBLE: Final = {"f": "d", "F": "D", "d": "d", "D": "D"}


# ---- one ufunc ----------------------------------------------------------------------------------


def _ufunc(
    site: Site,
    name: str,
    operands: Sequence[int],
    results: Sequence[int],
    cost: int,
    changed: Sequence[int] = (),
    single: bool = False,
) -> Launch | None:
    """A launch of a ufunc of ``numpy.linalg`` for slots of dense matrices.

    The cost is that of a matrix; some of the operands may be changed.  Small matrices in single
    precision are computed in double precision, as by ``numpy.linalg``, unless ``single`` is set.
    """
    slots = [site.builder.slot(n) for n in (*operands, *results)]
    chars = [s.dtype.char for s in slots]
    given = len(operands)
    wide: Sequence[str] = chars
    loop = None
    if not site.is_small or single:
        loop = _loop_of(name, chars, given)
    if loop is None:
        wide = [_DOUBLE[c] for c in chars]
        loop = _loop_of(name, wide, given)
    if loop is None:
        return None
    cores = [
        [d.strip() for d in text.split(",") if d.strip()]
        for text in re.findall(r"\(([^)]*)\)", signature(LINALG, name))
    ]
    count = site.units
    is_split = site.is_small and cost >= target().lock_ns  # of OpenBLAS
    sizes: dict[str, int] = {}
    arguments = []
    for k, (slot, core) in enumerate(zip((*operands, *results), cores, strict=True)):
        shape = slots[k].shape
        own = shape[len(shape) - len(core) :]
        sizes.update(zip(core, own))
        size = math.prod(own)
        item = np.dtype(wide[k]).itemsize
        strides = tuple([item * math.prod(own[d + 1 :]) for d in range(len(own))])
        converted, numbers = 0, 0
        if wide[k] != chars[k]:
            is_read, is_written = k < given, k >= given or slot in changed
            converted = _READS * is_read + _WRITES * is_written
            numbers = size * (2 if chars[k] == "F" else 1)
        unit = size * slots[k].dtype.itemsize
        arguments.append(Argument(slot, unit, strides, unit, 0, converted, numbers))
    written, dims = (*results, *changed), list(sizes.values())
    if is_split:
        return loop_launch(site, loop, arguments, written, dims, count, cost)
    return loop_launch(site, loop, arguments, written, dims, 1, count * cost, count)


def _loop_of(name: str, chars: Sequence[str], given: int) -> LibraryFunction | None:
    types = f"{''.join(chars[:given])}->{''.join(chars[given:])}"
    return numpy_loop(LINALG, name, types)


def _cubic(site: Site, factor: int) -> int:
    """Nanoseconds for a matrix: some thirds of a nanosecond for each element of a cube."""
    return target().library_call_ns + factor * site.work // 3


def _spectral(site: Site, factor: int) -> int:
    """The same of what takes several calls."""
    return 4 * target().library_call_ns + _cubic(site, factor)


def _dense_ns(site: Site, products: int) -> int:
    """Nanoseconds of so many products of ``native/dense_loops.cpp``."""
    return 10 + 20 * site.shape[-1] + products * site.avals[0].dtype.itemsize // 160


def _linear_solve(site: Site) -> list[Launch | None]:
    n, count = site.avals[1].shape[-2:]
    if site.is_dense:
        (a, b), lead = site.inputs, site.shape[:-2]
        packed = site.builder.value(site.shape, site.char)
        pivots, order = (site.builder.value((*lead, n), "i") for _ in range(2))
        return [
            _eliminated(site, a, (packed, pivots, order)),
            _solved(site, (packed, order, b), n, count, transposed=False),
        ]
    cost = _cubic(site, 1) + n * n * count // 3
    scratch = ((n, n), site.char), ((n,), "l")
    found = site.by_lapack(("trsm", "trsv", "getrf"), scratch, (n, count), cost)
    return found or [_ufunc(site, "solve", site.inputs, site.outputs, cost)]


def _solved(
    site: Site, operands: tuple[int, ...], n: int, count: int, transposed: bool
) -> Launch | None:
    """The launch that solves dense systems by factors, a permutation and the other side."""
    strips = site.strips(count)
    return site.own(
        f"dense_lu_solve_{site.char}", operands, site.outputs, (n, count, int(transposed)),
        _dense_ns(site, n * n * (count // strips)), site.units * strips,
    )  # fmt: skip


def _factored_solve(site: Site) -> list[Launch | None]:
    n, count = site.avals[3].shape[-2:]
    transposed = site.params["transposed"]
    site.inputs = site.inputs[1:]  # the matrix itself is not read
    if site.is_dense:
        return [_solved(site, site.inputs, n, count, transposed)]
    cost = target().library_call_ns + n * n * count // 4
    numbers, is_large = (n, count, int(transposed)), n * n * count > MOST_WORK
    scratch = (((n, count), site.char),)
    found = site.by_lapack(("trsm", "trsv"), scratch, numbers, cost, small=is_large)
    if found or is_large:
        return found or [None]
    cost = 10 + n * count * (n + 8)
    return [site.own(f"factored_solve_{site.char}", site.inputs, site.outputs, numbers, cost)]


def _eliminated(site: Site, x: int, results: tuple[int, ...]) -> Launch | None:
    """The launch that eliminates dense matrices; of a few elements by loops."""
    m, n = site.shape[-2:]
    cost = _dense_ns(site, 2 * site.work)
    is_long = m * n * site.avals[0].dtype.itemsize > STRIP_BYTES
    name = "dense_lu" if is_long else "lu"
    return site.own(f"{name}_{site.char}", (x,), results, (m, n), cost)


def _cholesky(site: Site) -> list[Launch | None]:
    n = site.shape[-1]
    if site.is_dense:
        cost = _dense_ns(site, n**3 // 4)
        return [site.own(f"dense_cholesky_{site.char}", site.inputs, site.outputs, (n,), cost)]
    size = site.avals[0].dtype.itemsize
    cost = _cubic(site, 1)
    return site.by_lapack(("potrf",), (), (n,), cost) or [
        _ufunc(site, "cholesky_lo", site.inputs, site.outputs, cost),
        # of a matrix that is not positive definite, too, which NumPy fills with NaN
        site.own("zero_upper", (), site.outputs, (n, size), 10 + 2 * n),
    ]


def _determinant(site: Site) -> list[Launch | None]:
    return [_ufunc(site, site.primitive.name, site.inputs, site.outputs, _cubic(site, 1))]


def _sharing(site: Site, cost: int) -> int:
    """How many threads share the matrices: one, where each takes less than OpenBLAS's lock."""
    is_shared = cost >= target().lock_ns
    return max(min(site.units, default_num_threads()), 1) if is_shared else 1


def _eigh(site: Site) -> list[Launch | None]:
    lower, n, cost = site.params["lower"], site.shape[-1], _spectral(site, 20)
    work, integers = 1 + 6 * n + 2 * n * n, 3 + 5 * n  # as LAPACK asks for
    units = _sharing(site, cost)
    scratch = ((units, n, n), site.char), ((units, work), site.char), ((units, integers), "l")
    params = (n, int(lower), work, integers, units)
    found = site.by_lapack(("syevd",), scratch, params, cost, small=True, units=units)
    name = "eigh_lo" if lower else "eigh_up"
    return found or [_ufunc(site, name, site.inputs, site.outputs, cost)]


def _svd(site: Site) -> list[Launch | None]:
    cost = _spectral(site, 40)
    if not site.params["compute_uv"]:
        return [_ufunc(site, "svd", site.inputs, site.outputs, cost, single=True)]
    s, u, vh = site.outputs
    name = "svd_f" if site.params["full_matrices"] else "svd_s"
    return [_ufunc(site, name, site.inputs, (u, s, vh), cost, single=True)]


def _qr(site: Site) -> list[Launch | None]:
    *lead, m, n = site.shape
    temporary = site.builder.value
    whole = site.params["full_matrices"] and m > n
    k = m if whole else min(m, n)
    cost = _cubic(site, 4)
    work = BLOCK * max(m, n)
    units, is_single = _sharing(site, cost), site.char in "fF"
    scratch = [((units, x), site.char) for x in (m * max(n, k), min(m, n), work)]
    names = ("geqrf", "ungqr" if site.char in "FD" else "orgqr")
    params = (m, n, k, len(site.outputs) - 1, work, units)
    found = site.by_lapack(names, scratch, params, cost, small=is_single, units=units)
    if found or site.work > MOST_WORK:
        return found or [None]
    wide = _DOUBLE[site.char]
    (x,), (*q, r) = site.inputs, site.outputs
    a, tau = temporary((*lead, m, n), wide), temporary((*lead, min(m, n)), wide)
    copied = 10 + m * n // 2
    make = "qr_complete" if whole else "qr_reduced"
    return [
        site.own(f"part_{site.char}{wide}", (x,), (a,), (m, n, m * n, n, 0), copied),
        _ufunc(site, "qr_r_raw", (a,), (tau,), cost, changed=(a,)),
        *[_ufunc(site, make, (a, tau), (slot,), cost) for slot in q],
        site.own(f"part_{wide}{site.char}", (a,), (r,), (k, n, m * n, n, 1), copied),
    ]


# ---- the extension's loops ----------------------------------------------------------------------


def _triangular_solve(site: Site) -> list[Launch | None]:
    params = site.params
    n = site.shape[-1]
    rows, columns = site.avals[1].shape[-2:]
    count = columns if params["left_side"] else rows
    is_large = n * n * count > MOST_WORK
    conjugated = params["conjugate_a"] and site.char in "FD"
    turned = params["transpose_a"] is params["left_side"]  # x op(a) = b is op(a)^T x^T = b^T
    is_long = count > 1 and rows * columns * site.avals[1].dtype.itemsize > STRIP_BYTES
    if site.is_dense and is_long:
        strips = site.strips(count)
        flags = (turned is not params["lower"], params["unit_diagonal"], not params["left_side"])
        strides = (1, n) if turned else (n, 1)
        return [
            site.own(
                f"dense_triangular_solve_{site.char}", site.inputs, site.outputs,
                (n, count, *strides, *map(int, flags)),
                _dense_ns(site, n * n * (count // strips) // 2), site.units * strips,
            )
        ]  # fmt: skip
    found: list[Launch | None] = []
    if params["transpose_a"] or not conjugated:
        names = ("left_side", "lower", "transpose_a", "unit_diagonal")
        left, lower, transposed, unit = [int(params[x]) for x in names]
        how = (left, lower, transposed, int(conjugated), unit)
        cost = target().library_call_ns + n * n * count // 8
        sizes = (rows, columns, *how)
        found = site.by_lapack(("trsm", "trsv"), (), sizes, cost, small=is_large)
    if found or is_large:
        return found or [None]
    row, column = n, 1
    lower = params["lower"]
    if turned:
        row, column, lower = column, row, not lower
    step, apart = (columns, 1) if params["left_side"] else (1, columns)
    first, start = 0, 0
    if not lower:  # from the last pivot backwards
        first, row, column = n * n - 1, -row, -column
        start, step = (n - 1) * step, -step
    numbers = (
        *(n, count, n * n, rows * columns),
        *(first, row, column, int(conjugated), int(params["unit_diagonal"])),
        *(start, step, apart),
    )
    cost = 10 + n * count * (n + 8) // 2
    return [site.own(f"triangular_solve_{site.char}", site.inputs, site.outputs, numbers, cost)]


def _lu(site: Site) -> list[Launch | None]:
    m, n = site.shape[-2:]
    if site.is_dense:
        return [_eliminated(site, site.inputs[0], site.outputs)]
    scratch = ((m, n), site.char), ((min(m, n),), "l")
    found = site.by_lapack(("getrf",), scratch, (m, n), _cubic(site, 1))
    if found or site.work > MOST_WORK:
        return found or [None]
    cost = 10 + site.work // 3 + 4 * m * n
    return [site.own(f"lu_{site.char}", site.inputs, site.outputs, (m, n), cost)]


def _cofactor(site: Site) -> list[Launch | None]:
    *lead, n, _ = site.shape
    if site.is_dense:
        packed = site.builder.value(site.shape, site.char)
        pivots, order = (site.builder.value((*lead, n), "i") for _ in range(2))
        (x,), strips = site.inputs, site.strips(n)
        return [
            _eliminated(site, x, (packed, pivots, order)),
            site.own(
                f"dense_cofactor_{site.char}", (x, packed, pivots, order), site.outputs, (n,),
                _dense_ns(site, n * n * (n // strips)), site.units * strips,
            ),
        ]  # fmt: skip
    if n**3 > MOST_WORK:
        return [None]
    return [site.own(f"cofactor_{site.char}", site.inputs, site.outputs, (n,), 10 + 2 * n**3)]


def _permutation(site: Site) -> list[Launch | None]:
    count, size = site.shape[-1], site.params["permutation_size"]
    name = "permutation_i" if site.avals[0].dtype.itemsize == 4 else "permutation_l"
    units = math.prod(site.shape[:-1])
    return [site.own(name, site.inputs, site.outputs, (count, size), 10 + 3 * size, units)]


#: Of primitives what makes their launches.
RULES: Final[dict[Primitive, Callable[[Site], list[Launch | None]]]] = {
    linear_solve: _linear_solve,
    factored_solve: _factored_solve,
    cholesky: _cholesky,
    det: _determinant,
    slogdet: _determinant,
    eigh: _eigh,
    svd: _svd,
    qr: _qr,
    triangular_solve: _triangular_solve,
    lu: _lu,
    cofactor: _cofactor,
    lu_pivots_to_permutation: _permutation,
}
