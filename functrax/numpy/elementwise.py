"""Decorators that make elementwise functions: a primitive, with promotion and broadcasting before.

What they decorate has a signature and a summary, perhaps with an example, and no body: editors and
``help`` show what is written there.  The decorators give it a body, a closure that tries the common
case (arrays of one type) first, and the sections of the documentation that all of them share.
"""

from __future__ import annotations

import functools
import sys
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

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

F = TypeVar("F", bound="Callable[..., Array]")

#: From Python 3.13 on the compiler takes the indentation of docstrings away.
_INDENT = "" if sys.version_info >= (3, 13) else "    "
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


def unary(primitive: Primitive, kind: Kind = inexact) -> Callable[[F], F]:
    """A function of one operand that is one primitive.

    Args:
      primitive: what it applies.
      kind: from the operand's dtype to the one in which it is computed.
    """
    bind = primitive.bind
    direct = dtypes.INEXACT if kind is inexact else frozenset()

    def decorate(template: F) -> F:
        name = template.__name__

        def function(x: ArrayLike, /) -> Array:
            if isinstance(x, Array) and x.aval.dtype in direct:
                return result(bind(x))
            return result(bind(*promote_dtypes(name, x, kind=kind)))

        return described(function, template, 1, kind)

    return decorate


def binary(primitive: Primitive, kind: Kind = same) -> Callable[[F], F]:
    """A function of two operands that is one primitive; arguments as :func:`unary`."""
    bind = primitive.bind

    def decorate(template: F) -> F:
        name = template.__name__

        def function(x1: ArrayLike, x2: ArrayLike, /) -> Array:
            return result(bind(*promote_pair(name, x1, x2, kind)))

        return described(function, template, 2, kind)

    return decorate


def described(function: Any, template: F, operands: int, kind: Kind = same, note: str = "") -> F:
    """Give a function the name of what was decorated, and its documentation with more sections.

    Args:
      function: what is called.
      template: what was decorated.
      operands: how many operands it takes, 1 or 2.
      kind: from the operands' dtype to the one in which it is computed.
      note: a sentence after the summary.
    """
    function.__name__ = function.__qualname__ = template.__name__
    function.__module__ = "functrax.numpy"
    summary, _, example = (template.__doc__ or "").partition("\n\n")
    function.__doc__ = f"{summary}{_sections(operands, kind is inexact, note)}{example}"
    made: F = function
    return made


@functools.cache
def _sections(operands: int, computed: bool, note: str) -> str:
    text = (
        f"{note and note + chr(10)}\nArgs:\n{_ARGUMENTS[operands]}{_COMPUTED if computed else ''}\n"
        f"Returns:\n{_RETURNS[operands]}\nRaises:\n{_RAISES[operands]}"
    )
    return "\n" + textwrap.indent(text, _INDENT) + "\n"
