"""Factorisations and linear systems by cuSOLVER and cuBLAS.

Matrices of these libraries lie column by column, so each of ours is the transposed one there; what
follows from that stands in ``backends/passes/clean/device_matrices.py`` and below.  They work where
the results are to be, which is first made a copy of the operand.

One matrix is cuSOLVER's, with memory for work from the GPU's pool; several are done at once by
functions that take a list of addresses.

Start at :class:`CholeskyCall`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.cuda.libraries.site import DeviceSite
from functrax.backends.cuda.libraries.table import (
    ADJOINT,
    AS_IT_IS,
    LEFT,
    LOWER,
    RIGHT,
    TRANSPOSED,
    UPPER,
    LibraryTable,
)

_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "S": np.dtype(np.float32),
    "D": np.dtype(np.float64),
    "C": np.dtype(np.complex64),
    "Z": np.dtype(np.complex128),
}
_INT_BYTES: Final = 4


class _Matrices:
    """Base: a function for matrices of one dtype.

    Args:
      table: the library.
      site: where it works.
      letter: of the dtype, in the names of functions.
      count: how many matrices there are.
      n: how many rows and columns they have.
    """

    def __init__(
        self, table: LibraryTable, site: DeviceSite, letter: str, count: int, n: int
    ) -> None:
        self._table, self._site = table, site
        self._letter, self._count, self._n = letter, count, n
        self._item = _DTYPES[letter].itemsize
        #: Elements that functions of cuSOLVER work in, once it was asked.
        self._work: dict[str, int] = {}

    def _handle(self) -> int:
        """A library's handle, which works on the site's stream."""
        return self._site.once(self._table.name, self._made)

    def _made(self) -> int:
        handle = ctypes.c_void_p()
        create, stream = {
            "cusolver": ("cusolverDnCreate", "cusolverDnSetStream"),
            "cublas": ("cublasCreate_v2", "cublasSetStream_v2"),
        }[self._table.name]
        self._table(create, ctypes.addressof(handle))
        self._table(stream, handle, self._site.stream)
        return handle.value or 0

    def _solver(self, name: str, *arguments: Any) -> None:
        self._table(f"cusolverDn{self._letter}{name}", self._handle(), *arguments)

    def _blas(self, name: str, *arguments: Any) -> None:
        self._table(f"cublas{self._letter}{name}", self._handle(), *arguments)

    def _memory_for(self, name: str, *arguments: Any) -> Any:
        """Memory that a function of cuSOLVER works in."""
        if name not in self._work:
            count = ctypes.c_int()
            self._solver(f"{name}_bufferSize", *arguments, ctypes.addressof(count))
            self._work[name] = count.value
        return self._site.memory(self._work[name] * self._item)

    def _eliminated(self, x: int, rows: int, columns: int, pivots: int, failed: int) -> Any:
        """Eliminate the matrix at a place; the memory that it is done in."""
        sizes = rows, columns, x, rows
        work = self._memory_for("getrf", *sizes)
        self._solver("getrf", *sizes, work.address, pivots, failed)
        return work


class CholeskyCall(_Matrices):
    """The lower factors of Hermitian matrices, whose lower triangle alone is read.

    It is the upper one of the library's matrix, which is ours transposed: conjugated, that is, and
    so is the product of its factors.
    """

    def __call__(self, addresses: Sequence[int]) -> list[Any]:
        """Ask for ``operand -> factors, failures``."""
        x, out, failed = addresses
        n, nbytes = self._n, self._n**2 * self._item
        self._site.copy(out, x, self._count * nbytes)
        if self._count == 1:
            work = self._memory_for("potrf", UPPER, n, out, n)
            self._solver("potrf", UPPER, n, out, n, work.address, self._work["potrf"], failed)
            return [work]
        each = self._site.addresses(out, nbytes, self._count)
        self._solver("potrfBatched", UPPER, n, each.address, n, failed, self._count)
        return [each]


class TriangularSolveCall(_Matrices):
    """Solutions of triangular systems.

    ``op(a) x = b`` is ``x' op(a)' = b'`` of transposed matrices, which are the library's: the side
    and the triangle change, and what is done to ``a`` does not.

    Args:
      rows: of the other sides.
      columns: theirs.
      left, lower, transposed, conjugated, unit: the parameters of ``triangular_solve``.
    """

    def __init__(
        self,
        table: LibraryTable,
        site: DeviceSite,
        letter: str,
        count: int,
        n: int,
        rows: int,
        columns: int,
        left: bool,
        lower: bool,
        transposed: bool,
        conjugated: bool,
        unit: bool,
    ) -> None:
        super().__init__(table, site, letter, count, n)
        self._rows, self._columns = rows, columns
        form = AS_IT_IS
        if transposed:
            form = ADJOINT if conjugated and letter in "CZ" else TRANSPOSED
        self._how = (RIGHT if left else LEFT, UPPER if lower else LOWER, form, int(unit))
        self._one = np.ones((), _DTYPES[letter])

    def __call__(self, addresses: Sequence[int]) -> list[Any]:
        """Ask for ``matrices, other sides -> solutions``."""
        a, b, out = addresses
        n, nbytes = self._n, self._rows * self._columns * self._item
        self._site.copy(out, b, self._count * nbytes)
        how = *self._how, self._columns, self._rows, self._one.ctypes.data
        if self._count == 1:
            self._blas("trsm_v2", *how, a, n, out, self._columns)
            return []
        matrices = self._site.addresses(a, n * n * self._item, self._count)
        sides = self._site.addresses(out, nbytes, self._count)
        places = matrices.address, n, sides.address, self._columns
        self._blas("trsmBatched", *how, *places, self._count)
        return [matrices, sides]


class SolveCall(_Matrices):
    """The solution of a system, of transposed other sides, by elimination of the transposed matrix.

    Args:
      sides: how many other sides there are.
    """

    def __init__(
        self, table: LibraryTable, site: DeviceSite, letter: str, count: int, n: int, sides: int
    ) -> None:
        super().__init__(table, site, letter, count, n)
        self._sides = sides

    def __call__(self, addresses: Sequence[int]) -> list[Any]:
        """Ask for ``matrix, other sides -> solutions, failure``."""
        a, b, out, failed = addresses
        n, nbytes = self._n, self._n**2 * self._item
        factors, pivots = self._site.memory(nbytes), self._site.memory(n * _INT_BYTES)
        unused = self._site.memory(_INT_BYTES)  # what else than the elimination may say
        self._site.copy(factors.address, a, nbytes)
        self._site.copy(out, b, n * self._sides * self._item)
        work = self._eliminated(factors.address, n, n, pivots.address, failed)
        form = TRANSPOSED, n, self._sides, factors.address, n, pivots.address
        self._solver("getrs", *form, out, n, unused.address)
        return [factors, pivots, unused, work]


class SolveEachCall(SolveCall):
    """The same for several matrices, by cuBLAS."""

    def __call__(self, addresses: Sequence[int]) -> list[Any]:
        """Ask for ``matrices, other sides -> solutions, failures``."""
        a, b, out, failed = addresses
        n, count = self._n, self._count
        nbytes, side = n * n * self._item, n * self._sides * self._item
        factors = self._site.memory(count * nbytes)
        pivots = self._site.memory(count * n * _INT_BYTES)
        self._site.copy(factors.address, a, count * nbytes)
        self._site.copy(out, b, count * side)
        each = self._site.addresses(factors.address, nbytes, count)
        sides = self._site.addresses(out, side, count)
        self._blas("getrfBatched", n, each.address, n, pivots.address, failed, count)
        status = ctypes.c_int()  # of the arguments, of which a wrong one is a status besides
        form = TRANSPOSED, n, self._sides, each.address, n, pivots.address
        place = ctypes.addressof(status)
        self._blas("getrsBatched", *form, sides.address, n, place, count)
        return [factors, pivots, each, sides]


class LuCall(_Matrices):
    """The elimination of one matrix, with exchanges of rows, which lies column by column.

    Args:
      m: how many rows it has.
      n: how many columns.
    """

    def __init__(self, table: LibraryTable, site: DeviceSite, letter: str, m: int, n: int) -> None:
        super().__init__(table, site, letter, 1, n)
        self._m = m

    def __call__(self, addresses: Sequence[int]) -> list[Any]:
        """Ask for ``matrix -> factors, pivots``; what is singular has factors, too."""
        x, out, pivots = addresses
        unused = self._site.memory(_INT_BYTES)
        self._site.copy(out, x, self._m * self._n * self._item)
        return [unused, self._eliminated(out, self._m, self._n, pivots, unused.address)]


class QrCall(_Matrices):
    """The orthogonal and the upper triangular factor of one matrix, which lies column by column.

    Args:
      m: how many rows it has.
      n: how many columns.
      columns: how many columns of the orthogonal factor are wanted.
    """

    def __init__(
        self, table: LibraryTable, site: DeviceSite, letter: str, m: int, n: int, columns: int
    ) -> None:
        super().__init__(table, site, letter, 1, n)
        self._m, self._columns = m, columns

    def __call__(self, addresses: Sequence[int]) -> list[Any]:
        """Ask for ``matrix -> reflections and triangle``, and the orthogonal factor if wanted."""
        x, out, *q = addresses
        m, n = self._m, self._n
        count = min(m, n)
        scales, unused = self._site.memory(count * self._item), self._site.memory(_INT_BYTES)
        memory = [scales, unused]
        self._site.copy(out, x, m * n * self._item)
        sizes = m, n, out, m
        memory.append(self._memory_for("geqrf", *sizes))
        how = memory[-1].address, self._work["geqrf"], unused.address
        self._solver("geqrf", *sizes, scales.address, *how)
        for place in q:
            name = "ungqr" if self._letter in "CZ" else "orgqr"
            self._site.copy(place, out, m * min(n, self._columns) * self._item)
            columns = m, self._columns, count, place, m, scales.address
            memory.append(self._memory_for(name, *columns))
            how = memory[-1].address, self._work[name], unused.address
            self._solver(name, *columns, *how)
        return memory


class RowExchangesCall(_Matrices):
    """Numbers of rows, exchanged as the rows are: the words of an int32 move as those of a float.

    Args:
      rows: how many there are.
      pivots: how many exchanges.
    """

    def __init__(self, table: LibraryTable, site: DeviceSite, rows: int, pivots: int) -> None:
        super().__init__(table, site, "S", 1, rows)
        self._pivots = pivots

    def __call__(self, addresses: Sequence[int]) -> list[Any]:
        """Ask for ``numbers, pivots -> exchanged numbers``."""
        numbers, pivots, out = addresses
        self._site.copy(out, numbers, self._n * _INT_BYTES)
        self._solver("laswp", 1, out, self._n, 1, self._pivots, pivots, 1)
        return []
