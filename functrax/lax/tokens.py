"""Operations that hold something in a program: tokens, uses that count, values of a trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.arrays.array import from_numpy
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.prims.identity import optimization_barrier
from functrax.core.pytree.operations import tree_leaves
from functrax.lax.operands import as_array, value_of
from functrax.transforms.operations.callbacks import debug_callback
from functrax.typing import ArrayLike


def create_token(_: Any = None) -> Array:
    """A token, which orders effects by being passed on: an array without elements.

    Args:
      _: ignored.

    Returns:
      An array of bool, of shape ``(0,)``.

    >>> from functrax import lax
    >>> lax.create_token().shape
    (0,)
    """
    return as_array(from_numpy(np.zeros((0,), np.bool_)))


def after_all(*operands: ArrayLike) -> Array:
    """A token that is there when all of some tokens are.

    Args:
      operands: tokens, at least one.

    Returns:
      A token.

    Raises:
      ArgumentError: for what is not a token.

    >>> from functrax import lax
    >>> lax.after_all(lax.create_token(), lax.create_token()).shape
    (0,)
    """
    tokens = [value_of("after_all", x) for x in operands]
    if not tokens or any(x.aval != create_token().aval for x in tokens):
        raise ArgumentError(
            "Arguments to after_all must be tokens",
            got=", ".join(x.aval.str_short() for x in tokens) or "none",
            fix="lax.create_token()",
        )
    return as_array(optimization_barrier.bind(*tokens)[0])


def stage(x: ArrayLike, /) -> Array:
    """A value as a value of the function that is being traced; an array outside of any.

    Args:
      x: an array or a number.

    Returns:
      An array of the same shape and dtype.

    Raises:
      DTypeError: if ``x`` is neither.

    >>> from functrax import lax
    >>> lax.stage(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return as_array(optimization_barrier.bind(value_of("stage", x))[0])


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Use a value, so that what computes it stays in the program.

    Args:
      val: a pytree of arrays.
      prevent_mlir_dce: in JAX, whether the compiler keeps it too; here it always does.

    Returns:
      None.

    >>> from functrax import jit, lax
    >>> jit(lambda x: lax.dce_sink(x * x))(2.0)
    """
    for leaf in tree_leaves(val):
        debug_callback(_nothing, leaf)


def _nothing(x: Any) -> None:
    """The value was computed, and is not needed."""
