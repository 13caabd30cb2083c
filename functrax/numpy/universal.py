"""What makes functions universal: the attributes and methods of ``jnp.add`` and its like.

Fourteen functions of ``functrax.numpy`` are plain functions, which are called as fast as others,
and have what NumPy's universal functions have: ``nin``, ``nout``, ``nargs``, ``identity``, and
the methods below.  The same methods belong to the class :class:`~functrax.numpy.ufunc`.  What they
do is in ``universal_methods.py``, which the first call of one loads.

Start at :func:`make_universal`.
"""

from __future__ import annotations

import math
from types import MethodType
from typing import Any, Final

from functrax.core.tracing.primitive import Value

#: Of each function its identity, or None; all of them take two arrays but ``negative``.
IDENTITIES: Final[dict[str, Any]] = {
    "add": 0, "subtract": None, "multiply": 1, "negative": None, "maximum": None, "minimum": None,
    "bitwise_and": -1, "bitwise_or": 0, "bitwise_xor": 0, "logical_and": True,
    "logical_or": False, "logical_xor": False, "logaddexp": -math.inf, "logaddexp2": -math.inf,
}  # fmt: skip


def make_universal(namespace: dict[str, Any]) -> None:
    """Give functions of a namespace the attributes and the methods of universal functions.

    Args:
      namespace: the globals of a public module; its functions are changed in place.
    """
    for name, identity in IDENTITIES.items():
        function = namespace[name]
        inputs = 1 if name == "negative" else 2
        function.__dict__.update(nin=inputs, nout=1, nargs=inputs, identity=identity)
        function.__dict__.update({m.__name__: MethodType(m, function) for m in METHODS})


def is_universal(x: Any) -> bool:
    """Whether something is one of the functions, or an instance of ``ufunc``."""
    method = getattr(x, "reduceat", None)
    return isinstance(method, MethodType) and method.__func__ is reduceat and method.__self__ is x


def reduce(
    self: Any,
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Value:
    """Combine the elements along an axis, from the first to the last.

    Args:
      a: an array.
      axis: an axis, a tuple of axes, or None for all.
      dtype: of the result; by default what the function gives for two elements.
      out: must be None.
      keepdims: leave the axes with size 1.
      initial: a value to begin with; needed with ``where`` if the function has no identity.
      where: which elements count; booleans that broadcast with ``a``.

    Raises:
      ArgumentError: for a function that does not make one result of two operands.
      UnavailableError: for ``out``.
      ShapeError: for an empty axis, if there is neither ``initial`` nor an identity.
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.bitwise_or.reduce(jnp.array([[1, 2], [4, 1]]), axis=1)
      Array([3, 5], dtype=int32)
    """
    from functrax.numpy import universal_methods

    return universal_methods.reduce(self, a, axis, dtype, out, keepdims, initial, where)


def accumulate(self: Any, a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Value:
    """What the first 1, 2, ... elements along an axis combine to.

    Args:
      a: an array.
      axis: an axis.
      dtype: of the result; by default what the function gives for two elements.
      out: must be None.

    Returns:
      An array of the shape of ``a``.

    Raises:
      ArgumentError: for a function that does not make one result of two operands.
      UnavailableError: for ``out``.
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.maximum.accumulate(jnp.array([1, 3, 2, 5]))
      Array([1, 3, 3, 5], dtype=int32)
    """
    from functrax.numpy import universal_methods

    return universal_methods.accumulate(self, a, axis, dtype, out)


def at(self: Any, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Value:
    """A copy with the function applied to elements; as often as an element is named.

    Args:
      a: an array.
      indices: what ``a[indices]`` takes.
      b: the second operands, which broadcast to ``a[indices]``; of functions of two operands.
      inplace: must be False, for arrays are immutable.

    Raises:
      UnavailableError: if ``inplace`` is not False.
      ArgumentError: for a second operand that the function does not take, or lacks.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.add.at(jnp.ones(3), jnp.array([0, 2, 2]), 10, inplace=False)
      Array([11.,  1., 21.], dtype=float32)
    """
    from functrax.numpy import universal_methods

    return universal_methods.at(self, a, indices, b, inplace)


def reduceat(
    self: Any, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None
) -> Value:
    """Combine the elements from each index to the next, and from the last one to the end.

    Args:
      a: an array.
      indices: a vector of integers; where one is not below the next, it names one element.
      axis: an axis.
      dtype: of the result; by default what the function gives for two elements.
      out: must be None.

    Returns:
      An array with an element for each index along the axis.

    Raises:
      ArgumentError: for a function that does not make one result of two operands.
      UnavailableError: for ``out``.
      ShapeError: for indices that are not a vector, or a scalar for ``a``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.add.reduceat(jnp.array([1, 2, 3, 4, 5]), jnp.array([0, 2]))
      Array([ 3, 12], dtype=int32)
    """
    from functrax.numpy import universal_methods

    return universal_methods.reduceat(self, a, indices, axis, dtype, out)


def outer(self: Any, A: Any, B: Any, /) -> Value:
    """The function of all pairs of elements, an array of shape ``A.shape + B.shape``.

    Args:
      A: an array.
      B: another.

    Raises:
      ArgumentError: for a function that does not make one result of two operands.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.multiply.outer(jnp.array([1, 2]), jnp.array([3, 4, 5]))
      Array([[ 3,  4,  5],
             [ 6,  8, 10]], dtype=int32)
    """
    from functrax.numpy import universal_methods

    return universal_methods.outer(self, A, B)


METHODS: Final = (reduce, accumulate, at, reduceat, outer)
