"""Stored dtypes: operations on them are computed in wider ones, between conversions.

Arrays of int4, float8 and their like (``dtypes.STORED``) can be moved and converted, and that is
all that the language has operations for.  Any other operation that is applied to one becomes a
conversion to ``dtypes.compute_dtype``, the operation, and a conversion back, under whichever
interpreter is current; so derivatives, batches and programs have these three, and no rule of a
primitive nor any kernel knows of the dtypes.  Each operation rounds once.

What enters :func:`compute` is what ``Primitive.bind`` was given, after the primitive's types were
found to be concerned (:func:`concerns`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.core.errors.typed import DTypeError
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

if TYPE_CHECKING:
    from functrax.core.tracing.primitive import Primitive


class StoredDTypeError(DTypeError):
    """An operation met a dtype that is only stored; ``Primitive.bind`` computes in a wider one."""

    def __init__(
        self, primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]
    ) -> None:
        asked = [f"{k}={v}" for k, v in params.items() if _is_stored(v)]
        super().__init__(
            f"{primitive.name} does not compute in dtypes that are only stored",
            got=", ".join([*[a.str_short() for a in avals], *asked]),
            fix="convert_element_type around it, to float32, int8 or uint8",
        )
        self.primitive = primitive


def _is_stored(x: Any) -> bool:
    return isinstance(x, np.dtype) and x in dtypes.STORED


def concerns(avals: Sequence[ShapedArray], params: dict[str, Any]) -> bool:
    """Whether an operand or a parameter has a stored dtype."""
    if any(a.dtype in dtypes.STORED for a in avals):
        return True
    return any(_is_stored(v) for v in params.values())


def compute(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any], convert: Callable[..., Any]
) -> Any:
    """Apply a primitive in wider dtypes; results of these become the stored dtype again.

    Args:
      primitive: the operation.
      args: its operands, some of which may be of stored dtypes.
      params: its parameters, some of which may be stored dtypes.
      convert: ``convert_element_type.bind``.

    Raises:
      DTypeError: if the operation depends on how many bits a number has.
    """
    held = [d for d in (*[x.aval.dtype for x in args], *params.values()) if _is_stored(d)]
    if primitive.reads_bits:
        raise DTypeError(
            f"{primitive.name} depends on the bits of a number, and is not done in a wider dtype",
            got=", ".join([x.aval.str_short() for x in args]),
            fix="x.astype('uint8') or x.astype('float32'), and the bits that it has there",
        )
    operands = [
        convert(x, dtype=dtypes.compute_dtype(x.aval.dtype), weak_type=x.aval.weak_type)
        if x.aval.dtype in dtypes.STORED
        else x
        for x in args
    ]
    wide = {k: dtypes.compute_dtype(v) if _is_stored(v) else v for k, v in params.items()}
    out = primitive.bind(*operands, **wide)
    narrow = {dtypes.compute_dtype(d): d for d in reversed(held)}

    def back(x: Any) -> Any:
        dtype = narrow.get(x.aval.dtype)
        return x if dtype is None else convert(x, dtype=dtype, weak_type=x.aval.weak_type)

    return [back(x) for x in out] if primitive.multiple_results else back(out)
