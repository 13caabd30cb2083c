"""``ravel_pytree``: all the arrays of a pytree as one vector, and the way back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrax import numpy as jnp
from functrax.core.errors.typed import DTypeError, ShapeError
from functrax.core.lazy import listing as _listing
from functrax.core.pytree.operations import PyTreeDef, tree_flatten, tree_unflatten
from functrax.core.records import record
from functrax.core.tracing.inputs import as_value
from functrax.core.types.aval import ShapedArray
from functrax.core.types.promotion import result_type


@record
class Unravel:
    """A function from a vector to a pytree; those of pytrees of one type are equal, and hash so.

    Args:
      treedef: the structure of the pytree.
      avals: the types of its leaves.
      dtype: of the vector.
    """

    treedef: PyTreeDef
    avals: tuple[ShapedArray, ...]
    dtype: np.dtype[Any]

    def __call__(self, flat: Any) -> Any:
        vector = as_value(flat, "the vector given to unravel")
        size = sum(a.size for a in self.avals)
        if vector.aval.shape != (size,):
            raise ShapeError(
                "unravel: the vector is not of the size of the pytree",
                got=vector.aval.str_short(),
                fix=f"a vector of shape ({size},)",
            )
        # Leaves of one dtype take that of the vector, whatever it is; others are told apart by it.
        mixed = any(a.dtype != self.dtype for a in self.avals)
        if mixed and vector.aval.dtype != self.dtype:
            raise DTypeError(
                "unravel: the vector is not of the dtype that ravel_pytree gave: unravel was given "
                f"{vector.aval.dtype.name}, but expected dtype {self.dtype.name}",
                got=vector.aval.str_short(),
                fix=f"a vector of {self.dtype.name}",
            )
        leaves, start = [], 0
        for aval in self.avals:
            stop = start + math.prod(aval.shape)
            part = jnp.reshape(jnp.asarray(vector)[start:stop], aval.shape)
            leaves.append(_narrowed(part, aval.dtype) if mixed else part)
            start = stop
        return tree_unflatten(self.treedef, leaves)


def _narrowed(x: Any, dtype: np.dtype[Any]) -> Any:
    """``x`` as it was before promotion; the imaginary part, of a real leaf, is dropped."""
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = jnp.real(x)
    return x.astype(dtype)


def ravel_pytree(pytree: Any) -> tuple[Any, Unravel]:
    """All the arrays of a pytree as one vector, and the function that puts such a vector back.

    Args:
      pytree: of arrays and numbers; their dtypes are promoted to a common one.

    Returns:
      The vector, of shape ``[sum of the sizes]``, and a function from vectors of that shape and
      dtype to pytrees of the same structure, shapes and dtypes.

    Raises:
      DTypeError: if a leaf is no array or number.

    Example:
      >>> import functrax.numpy as jnp
      >>> flat, unravel = ravel_pytree({"b": jnp.zeros(1), "w": jnp.ones((1, 2))})
      >>> flat
      Array([0., 1., 1.], dtype=float32)
      >>> unravel(2 * flat)["w"]
      Array([[2., 2.]], dtype=float32)
    """
    leaves, treedef = tree_flatten(pytree)
    arrays = [jnp.asarray(leaf) for leaf in leaves]
    avals = tuple(ShapedArray(x.aval.shape, x.aval.dtype) for x in arrays)
    if not arrays:
        return jnp.zeros(0), Unravel(treedef, avals, jnp.zeros(0).dtype)
    dtype = result_type(*avals)
    flat = jnp.concatenate([jnp.ravel(x).astype(dtype) for x in arrays])
    return flat, Unravel(treedef, avals, dtype)


__dir__ = _listing(globals())
