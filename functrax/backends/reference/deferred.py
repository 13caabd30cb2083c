"""Products that are put off, so that a sum of products never stores the product.

A matrix product is written as ``reduce_sum(mul(broadcast(x), broadcast(w)))``.  The reference
device does not compute such a ``mul``: it keeps a :class:`Deferred`, a small tree of linear
operations over arrays.  A sum asks the tree for its terms (:class:`Term`) and contracts them
(``backends/reference/numpy_contraction.py``); everything else asks for
:meth:`Deferred.materialize`, which is exactly what the operations would have given.

Whether a value is put off (:func:`defer`) depends on shapes, strides and operations only, so a
program gives the same bits whether it is run at once or operation by operation.  A product of two
sums is not put off: multiplied out, ``(a - b)**2`` would lose the digits that cancel.  A sum is put
off only while it is much larger than what it is made of (:attr:`Deferred.outgrows`); an update
``p - rate * g`` is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrax.backends.reference import strided
from functrax.backends.reference.strided import Array, Shape, distinct, elementwise, used_axes
from functrax.core.prims.arithmetic import add, mul, neg, sub
from functrax.core.prims.convert import convert_element_type
from functrax.core.tracing.primitive import Primitive
from functrax.core.types import dtypes

MAX_TERMS = 8
MAX_FACTORS = 8
MAX_NODES = 32
#: A value outgrows its sources when it has more than so many times the elements of each.
OUTGROWN = 4


class Term(NamedTuple):
    """``coefficient * product of factors``; the factors have the shape of the whole."""

    coefficient: Any
    factors: tuple[Array, ...]


class Deferred:
    """An elementwise operation on arrays, scalars and other such values, not computed yet.

    Args:
      primitive: ``mul``, ``neg``, ``add``, ``sub`` or ``convert_element_type``.
      operands: arrays of one shape, deferred values of it, NumPy scalars.
      params: the primitive's parameters.
      shape: of the result.
      dtype: of the result.
    """

    __slots__ = (
        "_value", "dtype", "num_factors", "num_nodes", "num_terms", "operands", "params",
        "primitive", "shape",
    )  # fmt: skip

    def __init__(
        self,
        primitive: Primitive,
        operands: Sequence[Any],
        params: dict[str, Any],
        shape: Shape,
        dtype: np.dtype[Any],
    ) -> None:
        self.primitive = primitive
        self.operands = tuple(operands)
        self.params = params
        self.shape = shape
        self.dtype = dtype
        self._value: Array | None = None
        counts = [_counts(x) for x in operands]
        product = primitive is mul
        self.num_terms = (math.prod if product else sum)(c[0] for c in counts)
        self.num_factors = (sum if product else max)(c[1] for c in counts)
        self.num_nodes = 1 + sum(c[2] for c in counts)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def outgrows(self) -> bool:
        """Whether it is much larger than each of the arrays that it is made of."""
        return self.size > OUTGROWN * max(map(distinct, self.arrays()), default=0)

    def materialize(self) -> Array:
        """The elements, computed the first time."""
        if self._value is None:
            with np.errstate(all="ignore"):
                self._value = self._compute()
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        value = self.materialize()
        return np.array(value, dtype) if copy or dtype not in (None, value.dtype) else value

    def _compute(self) -> Array:
        if self._value is not None:
            return self._value
        values = [x._compute() if type(x) is Deferred else x for x in self.operands]
        return elementwise(self.primitive, values, self.params)  # type: ignore[no-any-return]

    def map_arrays(self, function: Callable[[Array], Array], shape: Shape) -> Deferred:
        """The same operations on other arrays, of ``shape``: how a reindex passes through."""
        operands = [
            x.map_arrays(function, shape)
            if type(x) is Deferred
            else function(x)
            if _is_array(x)
            else x
            for x in self.operands
        ]
        return Deferred(self.primitive, operands, self.params, shape, self.dtype)

    def terms(self) -> tuple[Term, ...]:
        """The value as a sum of terms."""
        parts = [_terms(x, self.dtype) for x in self.operands]
        if self.primitive is mul:
            return tuple(
                Term(left.coefficient * right.coefficient, left.factors + right.factors)
                for left in parts[0]
                for right in parts[1]
            )
        if self.primitive in (neg, sub):
            parts[-1] = tuple(Term(-t.coefficient, t.factors) for t in parts[-1])
        return tuple(t for part in parts for t in part)

    def arrays(self) -> list[Array]:
        """All arrays in the tree."""
        found: list[Array] = []
        for x in self.operands:
            if type(x) is Deferred:
                found.extend(x.arrays())
            elif _is_array(x):
                found.append(x)
        return found

    def dtypes(self) -> set[np.dtype[Any]]:
        """The dtypes of all arrays in the tree, and its own."""
        return {self.dtype, *(x.dtype for x in self.arrays())}

    def __repr__(self) -> str:
        return f"Deferred({self.primitive.name}, {self.dtype}{list(self.shape)})"


def _is_array(x: Any) -> bool:
    """Whether an operand is neither deferred nor a scalar that stands for a full array."""
    return type(x) is np.ndarray and x.ndim > 0


def _counts(x: Any) -> tuple[int, int, int]:
    if type(x) is Deferred:
        return x.num_terms, x.num_factors, x.num_nodes
    return 1, int(_is_array(x)), 0


def _terms(x: Any, dtype: np.dtype[Any]) -> tuple[Term, ...]:
    if type(x) is Deferred:
        return x.terms()
    if _is_array(x):
        return (Term(_coefficient(1, dtype), (x,)),)
    return (Term(_coefficient(x, dtype), ()),)


def _coefficient(value: Any, dtype: np.dtype[Any]) -> Any:
    """A scalar in which coefficients are multiplied: wide for floats, wrapping for integers."""
    if dtypes.is_integer(dtype):
        return dtype.type(value)
    return np.complex128(value) if dtypes.is_complex(dtype) else np.float64(value)


def defer(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Deferred | None:
    """The operation put off, or None if it is to be computed now.

    Args:
      primitive: ``mul``, ``neg``, ``add``, ``sub`` or ``convert_element_type``.
      values: its raw operands.
      params: its parameters.
    """
    whole = next((x for x in values if type(x) is Deferred or _is_array(x)), None)
    if whole is None or whole.size <= strided.SMALL:
        return None
    if not any(type(x) is Deferred for x in values):
        if primitive is not mul or not _is_outer(values):
            return None
        return Deferred(primitive, values, params, whole.shape, whole.dtype)
    dtype = whole.dtype
    if primitive is convert_element_type:
        dtype = params["dtype"]
        if not any(dtype in kind and whole.dtype in kind for kind in CONVERTIBLE):
            return None
    if primitive is mul and min(_counts(x)[0] for x in values) > 1:
        return None
    out = Deferred(primitive, values, params, whole.shape, dtype)
    if primitive in (add, sub) and not out.outgrows:
        return None
    fits = (
        out.num_terms <= MAX_TERMS and out.num_factors <= MAX_FACTORS and out.num_nodes <= MAX_NODES
    )
    return out if fits else None


CONVERTIBLE = (dtypes.FLOATING, dtypes.COMPLEX)


def _is_outer(values: Sequence[Any]) -> bool:
    """Whether a product of two arrays has more elements than one of them has in memory.

    An array that holds one element only, repeated, does not count: scaling gains nothing.
    """
    x, y = values
    if not (_is_array(x) and _is_array(y)):
        return False
    x_used, y_used = used_axes(x), used_axes(y)
    if not x_used or not y_used:
        return False
    union = math.prod(x.shape[k] for k in {*x_used, *y_used})
    return union > strided.SMALL and bool(min(distinct(x), distinct(y)) < union)
