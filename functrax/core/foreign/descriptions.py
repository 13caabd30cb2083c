"""What a call of a target is made of, for the extension and for its twin.

Start at :func:`description`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from functrax.core.errors.source import SourceLine
from functrax.core.errors.typed import ArgumentError, ForeignCallError
from functrax.core.foreign.attributes import Attributes, described, plain
from functrax.core.foreign.element_types import code_of
from functrax.core.foreign.targets import ForeignTarget, Placed
from functrax.core.records import record
from functrax.core.types.aval import ShapedArray

#: Pairs (operand, result) that share memory.
Shared: TypeAlias = tuple[tuple[int, int], ...]

MOST_WORDS: Final = 64  # as in ``native/foreign.cpp``
MOST_NUMBERS: Final = 8
_CODES: Final = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)


@record(eq=False)
class Description:
    """What calls of both kinds are made of.

    Args:
      target: what is called.
      arrays: of the operands, then of the results: the number of the elements' type, the sizes,
        and which of the addresses is its own.
      num_operands: how many operands there are.
      attributes: as :func:`functrax.core.foreign.attributes.described` gives them.
      words: of a plain function the addresses and integers: whether it is an address and which
        one, or the integer.
      numbers: of a plain function the floating-point numbers.
      report: raises an error with a code and a message.
    """

    target: ForeignTarget
    arrays: list[tuple[int, tuple[int, ...], int]]
    num_operands: int
    attributes: tuple[Any, ...]
    words: list[tuple[bool, int]]
    numbers: list[float]
    report: Callable[[int, str], NoReturn]


def description(
    target: ForeignTarget,
    in_avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    shared: Shared,
    attributes: Attributes,
    where: SourceLine | None,
) -> Description:
    """What a call is made of; arguments as :func:`functrax.core.foreign.calls.call`."""
    first, places = dict(shared), []
    free = [k for k in range(len(in_avals)) if k not in first]
    for k in range(len(in_avals)):
        places.append(len(free) + first[k] if k in first else free.index(k))
    places += range(len(free), len(free) + len(out_avals))
    avals = (*in_avals, *out_avals)
    arrays = [
        (code_of(a.dtype, "ffi_call"), a.shape, place)
        for a, place in zip(avals, places, strict=True)
    ]
    words: list[tuple[bool, int]] = []
    numbers: list[float] = []
    if target.convention == "plain":
        placed = [Placed(k, a) for k, a in enumerate(avals)]
        operands, results = placed[: len(in_avals)], placed[len(in_avals) :]
        assert target.arguments is not None
        for x in target.arguments(operands, results, plain(attributes)):
            _add_argument(target, x, places, words, numbers, where)
    report = _reporter(target.name, in_avals, where)
    texts = described(attributes, "ffi_call")
    return Description(target, arrays, len(in_avals), texts, words, numbers, report)


def _add_argument(
    target: ForeignTarget,
    x: Any,
    places: Sequence[int],
    words: list[tuple[bool, int]],
    numbers: list[float],
    where: SourceLine | None,
) -> None:
    """An argument of a C function: what is no floating-point number is a word of 64 bits."""
    if isinstance(x, Placed):
        words.append((True, places[x.number]))
    elif isinstance(x, np.float32):  # the low half of the register of a double
        numbers.append(float(np.array([x, 0], np.float32).view(np.float64)[0]))
    elif isinstance(x, float | np.floating):
        numbers.append(float(x))
    elif isinstance(x, int | np.integer | np.bool_) and -(1 << 63) <= int(x) < 1 << 63:
        words.append((False, int(x)))
    else:
        raise ArgumentError(
            f"ffi_call: {target.name}: an argument of a C function is an array, an integer of 64 "
            "bits or a floating-point number",
            got=f"{x!r} of type {type(x).__name__}",
            fix="arrays as arguments= is given them, ints, floats",
            where=where,
        )
    if len(words) > MOST_WORDS or len(numbers) > MOST_NUMBERS:
        raise ArgumentError(
            f"ffi_call: {target.name}: a C function takes no more than {MOST_WORDS} addresses and "
            f"integers, and {MOST_NUMBERS} floating-point numbers",
            got=f"{len(words)} and {len(numbers)}",
            fix="put numbers into an array",
            where=where,
        )


def _reporter(
    name: str, in_avals: Sequence[ShapedArray], where: SourceLine | None
) -> Callable[[int, str], NoReturn]:
    operands = ", ".join([a.str_short() for a in in_avals]) or "no operands"

    def report(code: int, message: str) -> NoReturn:
        kind = _CODES[code] if 0 <= code < len(_CODES) else f"code {code}"
        raise ForeignCallError(
            f"ffi_call: the target {name!r} failed: {kind}: {message}",
            got=operands,
            fix="what the function's own message says",
            where=where,
        )

    return report
