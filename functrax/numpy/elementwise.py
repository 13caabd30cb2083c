"""Makers of elementwise functions: a primitive, with promotion and broadcasting in front.

What leaves are the public functions of ``ufuncs``, ``analytic`` and ``logic`` that are one
primitive each; each is a closure that tries the common case (arrays of one type) first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from functrax.core.arrays.operators import Array
from functrax.core.tracing.primitive import Primitive
from functrax.core.types import dtypes
from functrax.numpy.promote import (
    Kind,
    inexact,
    promote_dtypes,
    promote_pair,
    result,
    same,
)
from functrax.typing import ArrayLike

Unary: TypeAlias = Callable[[ArrayLike], Array]
Binary: TypeAlias = Callable[[ArrayLike, ArrayLike], Array]

_ARGUMENTS = {
    1: "  x: an array or a scalar.\n",
    2: "  x1: an array or a scalar.\n  x2: another, of a shape that broadcasts with it.\n",
}
_RETURNS = {
    1: "  An array of the operand's shape.\n",
    2: "  An array of the operands' broadcast shape.\n",
}
_RAISES = {
    1: "  DTypeError: for lists, and for dtypes that the function does not take.\n",
    2: "  DTypeError: for lists, and for dtypes that the function does not take.\n"
    "  ShapeError: for shapes that do not broadcast.\n",
}
_COMPUTED = "    Integers and booleans are computed in float32 (64-bit integers in float64).\n"


def unary(
    name: str, primitive: Primitive, summary: str, kind: Kind = inexact, *, example: str = ""
) -> Unary:
    """A function of one operand that is one primitive.

    Args:
      name: its public name.
      primitive: what it applies.
      summary: the first line of its documentation.
      kind: from the operand's dtype to the one in which it is computed.
      example: a doctest, with ``functrax.numpy`` as ``jnp``.
    """
    bind = primitive.bind
    direct = dtypes.INEXACT if kind is inexact else frozenset()

    def function(x: ArrayLike, /) -> Array:
        if isinstance(x, Array) and x.aval.dtype in direct:
            return result(bind(x))
        return result(bind(*promote_dtypes(name, x, kind=kind)))

    made: Unary = named(function, name, document(summary, 1, example, kind))
    return made


def binary(
    name: str, primitive: Primitive, summary: str, kind: Kind = same, *, example: str = ""
) -> Binary:
    """A function of two operands that is one primitive; arguments as :func:`unary`."""
    bind = primitive.bind

    def function(x1: ArrayLike, x2: ArrayLike, /) -> Array:
        return result(bind(*promote_pair(name, x1, x2, kind)))

    made: Binary = named(function, name, document(summary, 2, example, kind))
    return made


def named(function: Any, name: str, doc: str) -> Any:
    """Give a function a public name and documentation."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = "functrax.numpy"
    function.__doc__ = doc
    return function


def document(summary: str, operands: int, example: str, kind: Kind = same) -> str:
    """The documentation of an elementwise function."""
    computed = _COMPUTED if kind is inexact else ""
    shown = ""
    if example:
        doctest = example.strip("\n").replace("\n", "\n  ")
        shown = f"\nExample:\n  >>> import functrax.numpy as jnp\n  {doctest}\n"
    return (
        f"{summary}\n\nArgs:\n{_ARGUMENTS[operands]}{computed}\nReturns:\n{_RETURNS[operands]}\n"
        f"Raises:\n{_RAISES[operands]}{shown}"
    )
