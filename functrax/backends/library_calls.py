"""Equations that library functions compute: linear algebra, Fourier transforms and ``top_k``.

An equation enters, with the slots of its operands and results; launches leave, or None where the
NumPy reference is to be called instead: for empty arrays, and in a process that lacks a function
(``backends/library.py``).

Matrices of up to :data:`SMALL` rows are computed by what computes them in ``numpy.linalg``, inner
loops of ufuncs, on the same numbers, float32 made float64 on the way in and back, so the bits are
the reference's.  Larger ones stay in single precision, which takes half the time, and go to LAPACK
by its own functions where NumPy brings it (``native/lapack_loops.cpp``, decision 0027).  Small
triangular solutions and eliminations and most transforms are loops of the extension
(``native/matrix_loops.cpp``, ``native/fourier_loops.cpp``); transforms of other lengths are the
loops of ``numpy.fft``.

Start at :func:`library_launches`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from functrax.backends.fourier_tables import radices, table
from functrax.backends.library import (
    FFT,
    LINALG,
    LibraryFunction,
    lapack_function,
    numpy_loop,
    own_function,
    signature,
)
from functrax.backends.llvm.jit import LaunchCode
from functrax.backends.program import Launch
from functrax.backends.program_builder import ProgramBuilder
from functrax.core.jaxpr import Eqn
from functrax.core.prims.matrix_values import MOST_WORK
from functrax.core.records import record

#: Larger matrices are computed by one thread of ours, for LAPACK has threads of its own.
SMALL: Final = 64
#: So are matrices that take fewer nanoseconds each: OpenBLAS's calls wait for a lock.
WORTH_THREADS: Final = 5_000
#: With threads of its own LAPACK takes longer for matrices of fewer multiplications.
ALONE: Final = 1 << 25
#: Of longer rows, more than a quarter is selected by sorting.
SHORT_ROW: Final = 256
_READS, _WRITES = 1, 2
_BLOCK: Final = 64  # columns that LAPACK reflects together
_CALL: Final = 150  # estimated nanoseconds of calling LAPACK for one matrix
_DOUBLE: Final = {"f": "d", "F": "D", "d": "d", "D": "D"}
_REAL: Final = {"f": "f", "F": "f", "d": "d", "D": "d"}


class Site:
    """Where an equation's launches go.

    Args:
      builder: makes temporaries and constants.
      eqn: the equation.
      inputs: the slots of its operands.
      outputs: the slots of its results.
    """

    def __init__(
        self,
        builder: ProgramBuilder,
        eqn: Eqn,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
    ) -> None:
        self.builder = builder
        self.name = eqn.primitive.name
        self.params = eqn.params
        self.inputs, self.outputs = inputs, outputs
        self.avals = tuple([x.aval for x in eqn.invars])
        self.shape = self.avals[0].shape
        self.char = self.avals[0].dtype.char

    @property
    def units(self) -> int:
        """How many matrices there are, or vectors of pivots."""
        is_vector = self.name == "lu_pivots_to_permutation"
        return math.prod(self.shape[: -1 if is_vector else -2])

    @property
    def work(self) -> int:
        """About how many multiplications a matrix takes."""
        m, n = self.shape[-2:]
        return int(m * n * min(m, n))

    @property
    def is_small(self) -> bool:
        """Whether its matrices are so small that LAPACK takes longer than loops."""
        return self.work <= SMALL**3

    @property
    def is_alone(self) -> bool:
        """Whether LAPACK is to have one thread."""
        return not self.is_small and self.work < ALONE

    def own(
        self,
        function: str,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        params: Sequence[int],
        cost: int,
        units: int | None = None,
    ) -> Launch | None:
        """A launch of one of the extension's functions, with the cost of one unit."""
        found = own_function(function)
        if found is None:
            return None
        units = self.units if units is None else units
        return Launch(
            found.address,
            self.name,
            inputs,
            outputs,
            tuple(params),
            units,
            units * cost,
            owner=LaunchCode(found),
        )

    def by_lapack(
        self,
        functions: Sequence[str],
        scratch: tuple[int, ...],
        params: Sequence[int],
        cost: int,
    ) -> list[Launch | None]:
        """The launch of the extension's function that calls some of LAPACK, for all matrices.

        Args:
          functions: the names that they have in LAPACK.
          scratch: slots that it needs beside the results.
          params: what follows their addresses, the number of matrices, and whether it is alone.
          cost: estimated nanoseconds of a matrix.
        """
        caller = own_function(f"lapack_{self.name}_{self.char}")
        found = [lapack_function(name, self.char) for name in functions]
        if caller is None or None in found:
            return [None]
        known = [x for x in found if x is not None]
        return [
            Launch(
                caller.address,
                self.name,
                self.inputs,
                (*self.outputs, *scratch),
                (*[x.address for x in known], self.units, int(self.is_alone), *params),
                1,
                self.units * cost,
                owner=LaunchCode(caller, tuple(enumerate(known))),
            )
        ]


@record
class Argument:
    """How an argument of a loop lies in a slot, in bytes.

    Args:
      slot: the slot.
      unit: from one unit to the next.
      core: from one element to the next, along each core dimension.
      inner: from one run of the loop to the next, within a unit.
      offset: of the first element.
      converted: whether it is converted from, or to, single precision.
      numbers: in a run, of what is converted.
    """

    slot: int
    unit: int
    core: tuple[int, ...]
    inner: int = 0
    offset: int = 0
    converted: int = 0
    numbers: int = 0


def loop_launch(
    site: Site,
    loop: LibraryFunction,
    arguments: Sequence[Argument],
    written: tuple[int, ...],
    dims: Sequence[int],
    units: int,
    cost: int,
    inner: int = 1,
) -> Launch:
    """A launch of ``call_loop`` in ``native/library.cpp``, which says what its params are.

    Args:
      site: of the equation.
      loop: an inner loop of NumPy.
      arguments: its arguments.
      written: the slots that it writes; all others are read only.
      dims: the sizes of its core dimensions.
      units: how many units there are.
      cost: estimated nanoseconds of a unit.
      inner: how often the loop runs for a unit.
    """
    is_alone = loop.module == LINALG and site.is_alone
    caller = LibraryFunction("", "call_loop_alone" if is_alone else "call_loop")
    data = LibraryFunction(loop.module, loop.name, loop.types, data=True)
    inputs = tuple(dict.fromkeys(a.slot for a in arguments if a.slot not in written))
    number = {slot: n for n, slot in enumerate((*inputs, *written))}
    params = [loop.address, data.address, len(arguments), inner, len(dims)]
    params.append(sum(len(a.core) for a in arguments))
    for a in arguments:
        params += [number[a.slot], a.offset, a.unit, a.inner, a.converted, a.numbers]
    params += dims
    for a in arguments:
        params += a.core
    return Launch(
        caller.address,
        site.name,
        inputs,
        written,
        tuple(params),
        units,
        units * cost,
        owner=LaunchCode(caller, ((0, loop), (1, data))),
    )


# ---- linear algebra: one ufunc ------------------------------------------------------------------


def _ufunc(
    site: Site,
    name: str,
    operands: Sequence[int],
    results: Sequence[int],
    cost: int,
    changed: Sequence[int] = (),
) -> Launch | None:
    """A launch of a ufunc of ``numpy.linalg`` for slots of dense matrices.

    Args:
      site: of the equation.
      name: of the ufunc.
      operands: the slots of its operands.
      results: the slots of its results.
      cost: estimated nanoseconds for a matrix.
      changed: those of the operands that it changes.
    """
    slots = [site.builder.slot(n) for n in (*operands, *results)]
    chars = [s.dtype.char for s in slots]
    given = len(operands)
    wide: Sequence[str] = chars
    loop = None
    if not site.is_small:
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
    is_split = site.is_small and cost >= WORTH_THREADS
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
    m, n = site.shape[-2:]
    return _CALL + factor * m * n * min(m, n) // 3


def _linear_solve(site: Site) -> list[Launch | None]:
    n, count = site.avals[1].shape[-2:]
    cost = _cubic(site, 1) + n * n * count // 3
    if not site.is_small:
        scratch = site.builder.value((n, n), site.avals[0].dtype), site.builder.value((n,), "l")
        found = site.by_lapack(("trsm", "trsv", "getrf"), scratch, (n, count), cost)
        if None not in found:
            return found
    return [_ufunc(site, "solve", site.inputs, site.outputs, cost)]


def _cholesky(site: Site) -> list[Launch | None]:
    n = site.shape[-1]
    size = site.avals[0].dtype.itemsize
    if not site.is_small:
        found = site.by_lapack(("potrf",), (), (n,), _cubic(site, 1))
        if None not in found:
            return found
    return [
        _ufunc(site, "cholesky_lo", site.inputs, site.outputs, _cubic(site, 1)),
        # of a matrix that is not positive definite, too, which NumPy fills with NaN
        site.own("zero_upper", (), site.outputs, (n, size), 10 + 2 * n),
    ]


def _determinant(site: Site) -> list[Launch | None]:
    return [_ufunc(site, site.name, site.inputs, site.outputs, _cubic(site, 1))]


def _eigh(site: Site) -> list[Launch | None]:
    name = "eigh_lo" if site.params["lower"] else "eigh_up"
    return [_ufunc(site, name, site.inputs, site.outputs, 4 * _CALL + _cubic(site, 20))]


def _svd(site: Site) -> list[Launch | None]:
    cost = 4 * _CALL + _cubic(site, 40)
    if not site.params["compute_uv"]:
        return [_ufunc(site, "svd", site.inputs, site.outputs, cost)]
    s, u, vh = site.outputs
    name = "svd_f" if site.params["full_matrices"] else "svd_s"
    return [_ufunc(site, name, site.inputs, (u, s, vh), cost)]


def _qr(site: Site) -> list[Launch | None]:
    *lead, m, n = site.shape
    temporary = site.builder.value
    whole = site.params["full_matrices"] and m > n
    k = m if whole else min(m, n)
    cost = _cubic(site, 4)
    if not site.is_small:
        work = _BLOCK * max(m, n)
        scratch = [temporary((x,), site.char) for x in (m * max(n, k), min(m, n), work)]
        names = ("geqrf", "ungqr" if site.char in "FD" else "orgqr")
        params = (m, n, k, len(site.outputs) - 1, work)
        found = site.by_lapack(names, tuple(scratch), params, cost)
        if None not in found or site.work > MOST_WORK:
            return found
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


# ---- linear algebra: the extension's loops ------------------------------------------------------


def _triangular_solve(site: Site) -> list[Launch | None]:
    params = site.params
    n = site.shape[-1]
    rows, columns = site.avals[1].shape[-2:]
    count = columns if params["left_side"] else rows
    conjugated = params["conjugate_a"] and site.char in "FD"
    if not site.is_small and (params["transpose_a"] or not conjugated):
        names = ("left_side", "lower", "transpose_a", "unit_diagonal")
        left, lower, transposed, unit = [int(params[x]) for x in names]
        how = (left, lower, transposed, int(conjugated), unit)
        cost = _CALL + n * n * count // 8
        found = site.by_lapack(("trsm", "trsv"), (), (rows, columns, *how), cost)
        if None not in found:
            return found
    if n * n * count > MOST_WORK:
        return [None]
    row, column = n, 1
    lower = params["lower"]
    if params["transpose_a"] is params["left_side"]:  # x op(a) = b is op(a)^T x^T = b^T
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
    work = m * n * min(m, n)
    if not site.is_small:
        k = min(m, n)
        scratch = site.builder.value((m, n), site.avals[0].dtype), site.builder.value((k,), "l")
        return site.by_lapack(("getrf",), scratch, (m, n), _cubic(site, 1))
    if work > MOST_WORK:
        return [None]
    cost = 10 + work // 3 + 4 * m * n
    return [site.own(f"lu_{site.char}", site.inputs, site.outputs, (m, n), cost)]


def _cofactor(site: Site) -> list[Launch | None]:
    n = site.shape[-1]
    if n**3 > MOST_WORK:
        return [None]
    return [site.own(f"cofactor_{site.char}", site.inputs, site.outputs, (n,), 10 + 2 * n**3)]


def _permutation(site: Site) -> list[Launch | None]:
    count, size = site.shape[-1], site.params["permutation_size"]
    name = "permutation_i" if site.avals[0].dtype.itemsize == 4 else "permutation_l"
    return [site.own(name, site.inputs, site.outputs, (count, size), 10 + 3 * size)]


# ---- selection ----------------------------------------------------------------------------------


def _top_k(site: Site) -> list[Launch | None]:
    k, axis = site.params["k"], site.params["axis"]
    dtype, shape = site.avals[0].dtype, site.shape
    length, inner = shape[axis], math.prod(shape[axis + 1 :])
    if (4 * k > length > SHORT_ROW) or dtype.kind not in "fi" or dtype.itemsize < 4:
        return [None]
    units = math.prod(shape) // length
    name = f"top_k_{dtype.kind}{dtype.itemsize}"
    cost = 10 + length // 4 + 40 * k
    return [site.own(name, site.inputs, site.outputs, (length, k, inner), cost, units)]


# ---- Fourier transforms -------------------------------------------------------------------------


def _fft(site: Site) -> list[Launch | None]:
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

    Args:
      site: of the equation.
      name: of the ufunc of ``numpy.fft``.
      source: the slot of the operand.
      target: the slot of the result.
      axis: the axis.
      size: the length of the transform.
    """
    given, result = site.builder.slot(source), site.builder.slot(target)
    real = np.dtype(_REAL[result.dtype.char])
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


#: What these give by library functions has other last bits than the reference's results.
OTHER_BITS: Final = frozenset(
    (
        *("triangular_solve", "lu", "cofactor", "fft", "linear_solve", "qr"),
        *("cholesky", "det", "slogdet", "eigh", "svd"),
    )
)

_RULES: Final[dict[str, Callable[[Site], list[Launch | None]]]] = {
    "linear_solve": _linear_solve,
    "cholesky": _cholesky,
    "det": _determinant,
    "slogdet": _determinant,
    "eigh": _eigh,
    "svd": _svd,
    "qr": _qr,
    "triangular_solve": _triangular_solve,
    "lu": _lu,
    "cofactor": _cofactor,
    "lu_pivots_to_permutation": _permutation,
    "fft": _fft,
    "top_k": _top_k,
}
#: What library functions compute.
PRIMITIVES: Final = frozenset(_RULES)


def library_launches(
    builder: ProgramBuilder, eqn: Eqn, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> list[Launch] | None:
    """Launches that compute an equation; None where there are none.

    Args:
      builder: of the program that it is in.
      eqn: an equation that no kernel computes.
      inputs: the slots of its operands.
      outputs: the slots of its results.
    """
    rule = _RULES.get(eqn.primitive.name)
    if rule is None or own_function("call_loop") is None:
        return None
    if any(x.aval.size == 0 for x in (*eqn.invars, *eqn.outvars)):
        return None
    found = rule(Site(builder, eqn, inputs, outputs))
    return None if None in found else [x for x in found if x is not None]
