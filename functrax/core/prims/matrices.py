"""Matrices in the last two axes: what the rules of linear algebra are written with.

Products are contractions (a broadcast, a product and a sum), triangles and diagonals are reindexes;
so derivatives of factorisations are made of the meta-operators and of factorisations.  Leading
axes are batches, and both operands of a product have the same ones.

Start at :func:`matmul` and :func:`triangle`.
"""

from __future__ import annotations

from functrax.core.errors.typed import ShapeError
from functrax.core.index.expr import Dim, Load
from functrax.core.index.map import IndexMap
from functrax.core.prims.arithmetic import add, mul, select_n
from functrax.core.prims.comparisons import eq
from functrax.core.prims.convert import complex_, conj, convert_element_type, imag, real
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim, iota, reshape, transpose, transpose_
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

#: The dtypes that linear algebra is done in.
ACCEPTS = frozenset({dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128})
Shape = tuple[int, ...]


def check_matrix(name: str, aval: ShapedArray, square: bool = False) -> None:
    """Refuse what has no matrices in its last two axes, or none that are square."""
    if aval.ndim < 2:
        raise ShapeError(
            f"{name}: takes matrices", got=aval.str_short(), fix="an array of two axes or more"
        )
    if square and aval.shape[-1] != aval.shape[-2]:
        raise ShapeError(
            f"{name}: takes square matrices",
            got=f"{aval.str_short()}, whose last two sizes differ",
            fix="matrices whose last two sizes are equal; lstsq, pinv, qr and svd take others",
        )


def is_complex(x: Value) -> bool:
    """Whether a value's elements are complex."""
    return dtypes.is_complex(x.aval.dtype)


def matmul(x: Value, y: Value) -> Value:
    """The matrix product, for each index of the leading axes, which are those of both."""
    *lead, m, k = x.aval.shape
    n = y.aval.shape[-1]
    shape = (*lead, m, n, k)
    batch = tuple(range(len(lead)))
    i = len(lead)
    left = broadcast_in_dim.bind(x, shape=shape, dims=(*batch, i, i + 2))
    right = broadcast_in_dim.bind(y, shape=shape, dims=(*batch, i + 2, i + 1))
    return reduce_sum.bind(mul(left, right), axes=(i + 2,))


def transposed(x: Value) -> Value:
    """Matrices with rows and columns exchanged."""
    ndim = x.aval.ndim
    return transpose.bind(x, perm=(*range(ndim - 2), ndim - 1, ndim - 2))


def joined(x: Value, beside: bool) -> Value:
    """Matrices, those along the first axis as one: beside one another, or else beneath."""
    size, *lead, m, n = x.aval.shape
    shape = (*lead, m, size * n) if beside else (*lead, size * m, n)
    return reshape(transpose_(x, _order_of_joined(x.aval.ndim, beside)), shape=shape)


def parted(x: Value, size: int, beside: bool) -> Value:
    """The matrices, so many, that :func:`joined` made one."""
    *lead, m, n = x.aval.shape
    shape = (*lead, m, size, n // size) if beside else (*lead, size, m // size, n)
    order = _order_of_joined(len(shape), beside)
    back = tuple([order.index(k) for k in range(len(shape))])
    return transpose_(reshape(x, shape=shape), back)


def _order_of_joined(ndim: int, beside: bool) -> tuple[int, ...]:
    lead, rows, columns = range(1, ndim - 2), ndim - 2, ndim - 1
    return (*lead, rows, 0, columns) if beside else (*lead, 0, rows, columns)


def conjugated(x: Value) -> Value:
    """The complex conjugate; the value itself where it is real."""
    return conj(x) if is_complex(x) else x


def adjoint(x: Value) -> Value:
    """The conjugate transpose."""
    return conjugated(transposed(x))


def real_part(x: Value) -> Value:
    """The real part; the value itself where it is real."""
    return real(x) if is_complex(x) else x


def as_dtype_of(x: Value, other: Value) -> Value:
    """A real value in the dtype of another one, which may be complex."""
    aval = other.aval
    return convert_element_type.bind(x, dtype=aval.dtype, weak_type=aval.weak_type)


def only_real(x: Value) -> Value:
    """The value with imaginary parts of zero, in its own dtype."""
    return complex_(real(x), like(real(x), 0)) if is_complex(x) else x


def only_imaginary(x: Value) -> Value:
    """The value with real parts of zero, in its own dtype, which is complex."""
    return complex_(like(imag(x), 0), imag(x))


def triangle(x: Value, lower: bool, k: int = 0) -> Value:
    """Matrices with zeros beyond the ``k``-th diagonal."""
    shape = x.aval.shape
    row, column = Dim(len(shape) - 2), Dim(len(shape) - 1)
    kept = row + k >= column if lower else row + k <= column
    dims = tuple(Dim(n) for n in range(len(shape)))
    return reindex.bind(x, map=IndexMap(shape, shape, dims, (kept,)), fill=like(x, 0))


def diagonal(x: Value) -> Value:
    """The main diagonals, as the last axis."""
    *lead, m, n = x.aval.shape
    dims = [Dim(i) for i in range(len(lead) + 1)]
    index_map = IndexMap((*lead, min(m, n)), x.aval.shape, (*dims, dims[-1]))
    return reindex.bind(x, map=index_map, fill=like(x, 0))


def trace(x: Value) -> Value:
    """The sums of the main diagonals."""
    return reduce_sum.bind(diagonal(x), axes=(x.aval.ndim - 2,))


def on_diagonal(shape: Shape) -> Value:
    """Whether row and column are equal."""
    ndim = len(shape)
    rows = iota.bind(shape=shape, dtype=dtypes.int32, axis=ndim - 2)
    return eq(rows, iota.bind(shape=shape, dtype=dtypes.int32, axis=ndim - 1))


def with_diagonal(x: Value, value: float) -> Value:
    """Matrices with all elements of the main diagonal replaced by a number."""
    return select_n(on_diagonal(x.aval.shape), x, like(x, value))


def identity(x: Value) -> Value:
    """Identity matrices of the type of ``x``."""
    return select_n(on_diagonal(x.aval.shape), like(x, 0), like(x, 1))


def across_columns(s: Value, shape: Shape) -> Value:
    """Vectors repeated along rows: element ``[i, j]`` is ``s[j]``."""
    ndim = len(shape)
    return broadcast_in_dim.bind(s, shape=shape, dims=(*range(ndim - 2), ndim - 1))


def across_rows(s: Value, shape: Shape) -> Value:
    """Vectors repeated along columns: element ``[i, j]`` is ``s[i]``."""
    return broadcast_in_dim.bind(s, shape=shape, dims=tuple(range(len(shape) - 1)))


def everywhere(s: Value, shape: Shape) -> Value:
    """A number for each matrix, repeated to its elements."""
    return broadcast_in_dim.bind(s, shape=shape, dims=tuple(range(len(shape) - 2)))


def hermitian(x: Value, lower: bool) -> Value:
    """The Hermitian matrix that has the lower (or upper) triangle of ``x``."""
    strict = triangle(x, lower, -1 if lower else 1)
    middle = select_n(on_diagonal(x.aval.shape), like(x, 0), only_real(x))
    return add(add(strict, adjoint(strict)), middle)


def rows_taken(x: Value, rows: Value) -> Value:
    """The rows of matrices in the order of ``rows``, an array of the leading axes and one more."""
    *lead, _, n = x.aval.shape
    dims = [Dim(i) for i in range(len(lead) + 2)]
    read = (*dims[: len(lead)], Load(0, dims[: len(lead) + 1]), dims[-1])
    index_map = IndexMap((*lead, rows.aval.shape[-1], n), x.aval.shape, read)
    return reindex.bind(x, rows, map=index_map, fill=like(x, 0))
