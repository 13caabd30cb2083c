"""``debug_nans`` and ``debug_infs``: look at every result, and name the operation at fault.

The device calls :func:`check` after each operation while one of the options is on.  A product that
has been put off is not computed for that, unless its factors are so large that it could overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.reference.deferred import Deferred
from functrax.backends.reference.strided import Array, core
from functrax.core.errors.source import SourceLine
from functrax.core.errors.typed import NonFiniteError
from functrax.core.options.config import Override, state as options
from functrax.core.tracing.primitive import Elementwise, Primitive
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

_FORBIDDEN: Final[dict[str, tuple[Callable[[Array], Array], str]]] = {
    "debug_nans": (np.isnan, "a NaN"),
    "debug_infs": (np.isinf, "an infinity"),
}


#: What NumPy and JAX call it.
_KIND: Final = {"debug_nans": "nan", "debug_infs": "inf"}


def enabled() -> bool:
    """Whether results are to be checked."""
    return options.debug_nans or options.debug_infs


def check(
    primitive: Primitive,
    operands: Sequence[Any],
    results: Any,
    where: SourceLine | None,
    makers: Sequence[str] = (),
) -> None:
    """Raise if a result holds a NaN, or an infinity, that the options forbid.

    Args:
      primitive: what was applied.
      operands: its raw operands.
      results: its raw result, or a list of them.
      where: the user's line; None for the line that is running.
      makers: of each operand the name of the operation that made it, "" if it is not known.

    Raises:
      NonFiniteError: naming the primitive, the line, and what went in and came out.
    """
    for result in results if primitive.multiple_results else (results,):
        if not dtypes.is_inexact(result.dtype) or _surely_finite(result):
            continue
        value = _values(result)
        found = find(value)
        if found is None:
            continue
        option, noun = found
        shown = [f"operand {i}: {_summary(x)}" for i, x in enumerate(operands)]
        shown.append(f"result: {_summary(result)}")
        index: Any = ...
        if isinstance(primitive, Elementwise):
            index = tuple(int(k) for k in np.argwhere(_FORBIDDEN[option][0](value))[0])
            shown.append(_at(index, operands, value[index]))
        what = f"{primitive.name} gave {noun}: invalid value ({_KIND[option]}) encountered "
        what += f"in {primitive.name}"
        if primitive.holds_programs or any(_forbidden(x) for x in operands):
            what += "; the de-optimized function did not give it: it is a literal, or an input"
        why, fix = _advice(primitive, operands, index, option, makers)
        raise NonFiniteError(
            f"{option}: {what}",
            got="\n".join([*shown, why] if why else shown),
            fix=f"{fix}, or turn {option} off",
            where=where,
        )


def _advice(
    primitive: Primitive, operands: Sequence[Any], index: Any, option: str, makers: Sequence[str]
) -> tuple[str, str]:
    """Why the elements at an index are not finite, "" if that is not known, and what to do."""
    arrays = [_whole(x) for x in operands]
    floats = [(i, x) for i, x in enumerate(arrays) if dtypes.is_inexact(x.dtype)]
    infinite = [i for i, x in floats if np.isinf(x[index] if np.ndim(x) else x).any()]
    if infinite and option == "debug_nans":
        first = infinite[0]
        maker = f", from {makers[first]}" if makers and makers[first] else ""
        return (
            f"operand {first} was infinite already{maker}, as a function or a derivative is at the "
            "end of its domain (log at 0, the derivative of sqrt at 0)",
            "functrax.numpy.where on the argument of that function; debug_infs names the operation "
            "that gave the infinity",
        )
    if primitive.why_not_finite is not None and all(np.isfinite(x).all() for _, x in floats):
        why, fix = primitive.why_not_finite(*arrays)
        return why, fix
    return "", (
        "keep the operands where the operation is defined (functrax.numpy.where on its argument, "
        "not on its result)"
    )


def _forbidden(x: Any) -> bool:
    """Whether an operand was forbidden already: had an operation made it, that had been told."""
    return dtypes.is_inexact(x.dtype) and not _surely_finite(x) and find(_values(x)) is not None


def blame(
    primitive: Primitive,
    operands: Sequence[Any],
    results: Sequence[Any],
    params: dict[str, Any],
    apply: Callable[..., Any],
) -> None:
    """Run a compiled call again if a result is forbidden, one operation after the other.

    Compiled, operations may have become others, and a choice of literals none.

    Args:
      primitive: the call; other operations, and those with effects, are left alone.
      operands: its raw operands.
      results: its raw results.
      params: its parameters.
      apply: the reference device's.

    Raises:
      NonFiniteError: naming the first operation at fault, if one is.
    """
    if options.backend == "interp" or not primitive.holds_programs or primitive.effects(params):
        return
    floats = [_values(x) for x in results if dtypes.is_inexact(x.dtype) and not _surely_finite(x)]
    if all(find(x) is None for x in floats):
        return
    with Override("backend", "interp"), np.errstate(all="ignore"):
        apply(primitive, operands, params)


def find(value: Array) -> tuple[str, str] | None:
    """The option that forbids an element of an array of floats, and what it is, in words."""
    for option, (bad, noun) in _FORBIDDEN.items():
        if getattr(options, option) and bad(value).any():
            return option, noun
    return None


def _surely_finite(result: Any) -> bool:
    """Whether a deferred value cannot hold a NaN or an infinity, judged by its factors' sizes."""
    if type(result) is not Deferred:
        return False
    largest = math.prod([max(float(np.abs(core(x)).max()), 1.0) for x in result.factors])
    return math.isfinite(largest) and 2 * largest < float(dtypes.finfo(result.dtype).max)


def _whole(x: Any) -> Array:
    return np.asarray(x.materialize() if type(x) is Deferred else x)


def _values(x: Any) -> Array:
    array = _whole(x)
    return core(array) if array.size else array


def _at(index: tuple[int, ...], operands: Sequence[Any], result: Any) -> str:
    """The elements that an elementwise operation went wrong with, at the first place."""
    arrays = [_whole(x) for x in operands]
    elements = ", ".join(str(x[index] if np.ndim(x) else x) for x in arrays)
    return f"at index {index}: {elements} gave {result}"


def _summary(x: Any) -> str:
    """``f32[3] from -1.0 to 2.0, 1 NaN``."""
    value = _values(x)
    kind = ShapedArray(np.shape(x) if type(x) is not Deferred else x.shape, value.dtype).str_short()
    if not value.size or dtypes.is_complex(value.dtype) or value.dtype == dtypes.float0:
        return kind
    if not np.ndim(x) and type(x) is not Deferred:
        return f"{kind} {value.reshape(-1)[0]}"
    wide = value.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    parts = [f"from {finite.min():g} to {finite.max():g}"] if finite.size else []
    for count, noun in ((np.isnan(wide).sum(), "NaN"), (np.isinf(wide).sum(), "infinite")):
        if count:
            parts.append(f"{count} {noun}")
    return f"{kind} {', '.join(parts)}"
