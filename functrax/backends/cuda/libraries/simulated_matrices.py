"""cuSOLVER and cuBLAS without a GPU: what they do to matrices, by NumPy on simulated memory.

Matrices lie column by column, as these libraries have them, and with no room between columns, as
functrax asks for them.

Start at :class:`SimulatedMatrices`.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.cuda.libraries.table import ADJOINT, AS_IT_IS, LEFT, LOWER, UPPER
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.backends.cuda.simulated_graphs import put
from functrax.core.prims import matrix_values as values
from functrax.core.prims.linear_systems import triangular_solve

Array = np.ndarray[Any, Any]

#: What memory holds that a library has worked in.
REST: Final = 0xFF
#: Elements of memory that the simulated functions ask for.
_WORK: Final = 7
_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    letter: np.dtype(char) for letter, char in zip("SDCZ", "fdFD")
}
_INT: Final = np.dtype(np.int32)


class _Touched:
    """Reads and writes of one piece of work, and which allocations they were in."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver = driver
        self.read: set[int] = set()
        self.written: set[int] = set()

    def numbers(self, place: int, count: int, dtype: Any) -> Array:
        """Some numbers."""
        self.read.add(self._driver.start(place))
        kind = np.dtype(dtype)
        return self._driver.memory.read(place, count * kind.itemsize).view(kind)

    def matrix(self, place: int, rows: int, columns: int, dtype: Any) -> Array:
        """A matrix."""
        return self.numbers(place, rows * columns, dtype).reshape(columns, rows).T

    def put(self, place: int, x: Any) -> None:
        """Write numbers, or a matrix."""
        self.written.add(self._driver.start(place))
        self._driver.memory.write(place, np.ascontiguousarray(np.asarray(x).T))

    def spoil(self, place: int, nbytes: int) -> None:
        """Leave what nobody is to read."""
        self.put(place, np.full(nbytes, REST, np.uint8))


class SimulatedMatrices:
    """The functions of cuSOLVER and of cuBLAS.

    Args:
      driver: whose memory and streams they use.
    """

    def __init__(self, driver: SimulatedDriver) -> None:
        self.driver = driver
        self._streams: dict[int, int] = {}
        self._handles = itertools.count(1)

    def _create(self, out: int) -> None:
        handle = next(self._handles)
        self._streams[handle] = 0
        put(out, ctypes.c_void_p, handle)

    def _set_stream(self, handle: int, stream: int) -> None:
        self._streams[handle] = stream

    _cusolverDnCreate = _cublasCreate_v2 = _create
    _cusolverDnSetStream = _cublasSetStream_v2 = _set_stream

    def _work(
        self, handle: int, name: str, uses: Sequence[int], work: Callable[[_Touched], None]
    ) -> None:
        """Ask a handle's stream for work on allocations."""
        touched = _Touched(self.driver)

        def run() -> tuple[set[int], set[int]]:
            with np.errstate(all="ignore"):
                work(touched)
            return touched.read, touched.written

        starts = frozenset(self.driver.start(x) for x in uses)
        stream = self.driver.of_handle(self._streams[handle])
        self.driver.queues.ask(stream, name, run, starts)

    # ---- cuSOLVER -----------------------------------------------------------------------------

    def _size_of_work(self, letter: str, handle: int, *rest: int) -> None:
        put(rest[-1], ctypes.c_int, _WORK)

    _potrf_bufferSize = _getrf_bufferSize = _geqrf_bufferSize = _size_of_work
    _orgqr_bufferSize = _ungqr_bufferSize = _size_of_work

    def _potrf(
        self,
        letter: str,
        handle: int,
        fill: int,
        n: int,
        a: int,
        lda: int,
        work: int,
        count: int,
        failed: int,
    ) -> None:
        assert (fill, lda, count) == (UPPER, n, _WORK)

        def run(t: _Touched) -> None:
            t.spoil(work, count * _DTYPES[letter].itemsize)
            t.put(failed, _factorised(t, a, n, _DTYPES[letter]))

        self._work(handle, "potrf", (a, work, failed), run)

    def _potrfBatched(
        self, letter: str, handle: int, fill: int, n: int, each: int, lda: int, out: int, count: int
    ) -> None:
        assert (fill, lda) == (UPPER, n)

        def run(t: _Touched) -> None:
            places = t.numbers(each, count, np.uint64).tolist()
            t.put(out, np.concatenate([_factorised(t, a, n, _DTYPES[letter]) for a in places]))

        self._work(handle, "potrfBatched", (each, out), run)

    def _getrf(
        self,
        letter: str,
        handle: int,
        m: int,
        n: int,
        a: int,
        lda: int,
        work: int,
        pivots: int,
        failed: int,
    ) -> None:
        assert lda == m

        def run(t: _Touched) -> None:
            t.spoil(work, _WORK * _DTYPES[letter].itemsize)
            t.put(failed, _eliminated(t, a, m, n, pivots, _DTYPES[letter]))

        self._work(handle, "getrf", (a, work, pivots, failed), run)

    def _getrs(
        self,
        letter: str,
        handle: int,
        form: int,
        n: int,
        sides: int,
        a: int,
        lda: int,
        pivots: int,
        b: int,
        ldb: int,
        failed: int,
    ) -> None:
        assert lda == ldb == n

        def run(t: _Touched) -> None:
            _solved(t, form, n, sides, a, pivots, b, _DTYPES[letter])
            t.put(failed, np.zeros(1, _INT))

        self._work(handle, "getrs", (a, pivots, b, failed), run)

    def _geqrf(
        self,
        letter: str,
        handle: int,
        m: int,
        n: int,
        a: int,
        lda: int,
        scales: int,
        work: int,
        count: int,
        failed: int,
    ) -> None:
        assert (lda, count) == (m, _WORK)
        dtype = _DTYPES[letter]

        def run(t: _Touched) -> None:
            t.spoil(work, count * dtype.itemsize)
            wide = np.complex128 if letter in "CZ" else np.float64
            packed, tau = np.linalg.qr(t.matrix(a, m, n, dtype).astype(wide), mode="raw")
            t.put(a, packed.T.astype(dtype))
            t.put(scales, tau.astype(dtype))
            t.put(failed, np.zeros(1, _INT))

        self._work(handle, "geqrf", (a, scales, work, failed), run)

    def _orgqr(
        self,
        letter: str,
        handle: int,
        m: int,
        n: int,
        k: int,
        a: int,
        lda: int,
        scales: int,
        work: int,
        count: int,
        failed: int,
    ) -> None:
        assert (lda, count) == (m, _WORK) and k <= n <= m
        dtype = _DTYPES[letter]

        def run(t: _Touched) -> None:
            t.spoil(work, count * dtype.itemsize)
            packed, tau = t.matrix(a, m, k, dtype), t.numbers(scales, k, dtype)
            q = np.eye(m, n, dtype=dtype)
            for i in reversed(range(k)):
                v = np.where(np.arange(m) > i, packed[:, i], np.arange(m) == i)
                q -= tau[i] * np.outer(v, v.conj() @ q)
            t.put(a, q)
            t.put(failed, np.zeros(1, _INT))

        self._work(handle, "orgqr", (a, scales, work, failed), run)

    _ungqr = _orgqr

    def _laswp(
        self,
        letter: str,
        handle: int,
        n: int,
        a: int,
        lda: int,
        first: int,
        last: int,
        pivots: int,
        step: int,
    ) -> None:
        assert (letter, n, first, step) == ("S", 1, 1, 1)

        def run(t: _Touched) -> None:
            rows, exchanged = t.numbers(a, lda, np.uint32), t.numbers(pivots, last, _INT) - 1
            for k, other in enumerate(exchanged):
                rows[[k, other]] = rows[[other, k]]
            t.put(a, rows)

        self._work(handle, "laswp", (a, pivots), run)

    # ---- cuBLAS -------------------------------------------------------------------------------

    def _trsm_v2(self, letter: str, handle: int, *rest: int) -> None:
        *how, one, a, lda, b, ldb = rest
        dtype = _DTYPES[letter]
        assert np.frombuffer(ctypes.string_at(one, dtype.itemsize), dtype)[0] == 1
        assert (lda, ldb) == (_size(how), how[4])
        self._work(handle, "trsm", (a, b), lambda t: _substituted(t, how, a, b, dtype))

    def _trsmBatched(self, letter: str, handle: int, *rest: int) -> None:
        *how, one, each, lda, sides, ldb, count = rest
        dtype = _DTYPES[letter]
        assert np.frombuffer(ctypes.string_at(one, dtype.itemsize), dtype)[0] == 1
        assert (lda, ldb) == (_size(how), how[4])

        def run(t: _Touched) -> None:
            places = [t.numbers(x, count, np.uint64).tolist() for x in (each, sides)]
            for a, b in zip(*places, strict=True):
                _substituted(t, how, a, b, dtype)

        self._work(handle, "trsmBatched", (each, sides), run)

    def _getrfBatched(
        self,
        letter: str,
        handle: int,
        n: int,
        each: int,
        lda: int,
        pivots: int,
        out: int,
        count: int,
    ) -> None:
        assert lda == n

        def run(t: _Touched) -> None:
            places = t.numbers(each, count, np.uint64).tolist()
            own = [pivots + k * n * _INT.itemsize for k in range(count)]
            both = zip(places, own, strict=True)
            found = [_eliminated(t, a, n, n, p, _DTYPES[letter]) for a, p in both]
            t.put(out, np.concatenate(found))

        self._work(handle, "getrfBatched", (each, pivots, out), run)

    def _getrsBatched(
        self,
        letter: str,
        handle: int,
        form: int,
        n: int,
        sides: int,
        each: int,
        lda: int,
        pivots: int,
        b: int,
        ldb: int,
        failed: int,
        count: int,
    ) -> None:
        assert lda == ldb == n

        def run(t: _Touched) -> None:
            places = [t.numbers(x, count, np.uint64).tolist() for x in (each, b)]
            for k, (a, x) in enumerate(zip(*places, strict=True)):
                own = pivots + k * n * _INT.itemsize
                _solved(t, form, n, sides, a, own, x, _DTYPES[letter])

        put(failed, ctypes.c_int, 0)
        self._work(handle, "getrsBatched", (each, pivots, b), run)


def _factorised(t: _Touched, place: int, n: int, dtype: Any) -> Array:
    """Write the upper factor of a Hermitian matrix; the number that says whether it failed."""
    a = t.matrix(place, n, n, dtype)
    whole = np.triu(a) + np.triu(a, 1).conj().T
    np.fill_diagonal(whole, a.diagonal().real)
    factor = values.cholesky(whole).conj().T
    failed = bool(np.isnan(factor).any())
    t.put(place, np.tril(a, -1) + (np.triu(a) * 3 if failed else factor))
    found = values.indefinite(whole) if failed else None
    return np.array([1 if failed and found is None else found[1] if found else 0], _INT)


def _eliminated(t: _Touched, place: int, m: int, n: int, pivots: int, dtype: Any) -> Array:
    """Write factors and pivots; the number that says whether a pivot is zero."""
    factors, exchanged, _ = values.lu(np.ascontiguousarray(t.matrix(place, m, n, dtype)))
    t.put(place, factors)
    t.put(pivots, exchanged + np.int32(1))
    zeros = np.flatnonzero(factors.diagonal() == 0)
    return np.array([zeros[0] + 1 if len(zeros) else 0], _INT)


def _solved(
    t: _Touched, form: int, n: int, sides: int, a: int, pivots: int, b: int, dtype: Any
) -> None:
    """Write the solutions of the system of a matrix whose factors are there."""
    factors, x = t.matrix(a, n, n, dtype), t.matrix(b, n, sides, dtype)
    order = values.permutation_of_pivots(t.numbers(pivots, n, _INT) - 1, n)
    matrix = np.empty_like(factors)
    matrix[order] = (np.tril(factors, -1) + np.eye(n, dtype=dtype)) @ np.triu(factors)
    if form != AS_IT_IS:
        matrix = matrix.conj().T if form == ADJOINT else matrix.T
    t.put(b, values.solve(matrix, x))


def _size(how: Sequence[int]) -> int:
    """Rows of the triangular matrix."""
    side, _, _, _, m, n = how
    return m if side == LEFT else n


def _substituted(t: _Touched, how: Sequence[int], a: int, b: int, dtype: Any) -> None:
    """Write the solution of a triangular system in the place of its other sides."""
    side, fill, form, unit, m, n = how
    size = _size(how)
    triangle, x = t.matrix(a, size, size, dtype), t.matrix(b, m, n, dtype)
    found = triangular_solve.reference(
        triangle,
        x,
        left_side=side == LEFT,
        lower=fill == LOWER,
        transpose_a=form != AS_IT_IS,
        conjugate_a=form == ADJOINT,
        unit_diagonal=bool(unit),
    )
    t.put(b, found)
