"""Why a jitted function had to be traced, as a line of the log: ``explain_cache_misses``.

The words are those of JAX's log, for what reads it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from functrax.core.errors.source import SourceLine
from functrax.core.options.config import context_values
from functrax.core.types.aval import ShapedArray
from functrax.transforms.staging.traces import TraceSignature, argument_names

_DOCS: Final = "https://docs.jax.dev/en/latest/type_promotion.html#weak-types"
_log: Final = logging.getLogger("functrax.jit")
#: Where functions were defined that were explained.
_seen: Final[set[tuple[str, int]]] = set()


def explain_miss(
    function: Callable[..., Any],
    name: str,
    where: SourceLine | None,
    signature: TraceSignature,
    earlier: Sequence[TraceSignature],
) -> None:
    """Log why a function is traced.

    Args:
      function: the user's function.
      name: what it is called.
      where: the line that called it.
      signature: what it is traced for.
      earlier: what it was traced for before.
    """
    at = "" if where is None else f" at {where}"
    why = _differences(function, signature, earlier) if earlier else _new_function(function)
    lines = "\n".join(f"  {line}" for line in why)
    _log.warning("TRACING CACHE MISS%s because:\n  for %s:\n%s", at, name, lines)


def _new_function(function: Callable[..., Any]) -> list[str]:
    code = getattr(function, "__code__", None)
    if code is None:
        return ["never seen function"]
    line = (code.co_filename, code.co_firstlineno)
    known = line in _seen
    _seen.add(line)
    where = f"{line[0]}:{line[1]}"
    if not known:
        return [f"never seen function, defined at {where}"]
    return [
        f"never seen function, but seen another function defined on the same line {where}; a "
        "function that is made anew for each call is traced for each call"
    ]


def _differences(
    function: Callable[..., Any], signature: TraceSignature, earlier: Sequence[TraceSignature]
) -> list[str]:
    """How a signature differs from the one before that is most like it."""
    found = [_from(function, signature, before) for before in reversed(earlier)]
    return min(found, key=len)


def _from(function: Callable[..., Any], now: TraceSignature, before: TraceSignature) -> list[str]:
    lines = []
    if now.tree != before.tree:
        lines.append(f"different input pytree: now {now.tree} and before {before.tree}")
    elif now.avals != before.avals:
        names = argument_names(function, now)
        changed = [
            f"at {name}, now {_shown(x, y)} and before {_shown(y, x)}"
            for name, x, y in zip(names, now.avals, before.avals, strict=True)
            if x != y
        ]
        lines.append("different input types:")
        lines += [f"  * {line}" for line in changed]
        if any(x.weak_type != y.weak_type for x, y in zip(now.avals, before.avals, strict=True)):
            lines.append(f"  (a Python number is of a weak type: {_DOCS})")
    if now.static != before.static:
        lines.append(
            f"different values of static arguments: now {_static(now)} and before {_static(before)}"
        )
    pairs = zip(context_values(now.context), context_values(before.context), strict=True)
    options = [f"{name}, now {x} and before {y}" for (name, x), (_, y) in pairs if x != y]
    if now.axes != before.axes:
        options.append(f"named axes, now {dict(now.axes)} and before {dict(before.axes)}")
    if options:
        lines.append("different tracing context:")
        lines += [f"  * {option}" for option in options]
    return lines or ["nothing differs, but the program was not kept"]


def _static(signature: TraceSignature) -> str:
    positional, named = signature.static
    found = [f"{i}: {x.value!r}" for i, x in positional]
    return ", ".join(found + [f"{name}={x.value!r}" for name, x in named]) or "none"


def _shown(x: ShapedArray, other: ShapedArray) -> str:
    """A type; with its weakness where that is what differs."""
    bare = ShapedArray(x.shape, x.dtype).str_short()
    return bare if x.weak_type == other.weak_type else f"{bare}{{weak_type={x.weak_type}}}"
