"""Taylor-mode differentiation: higher derivatives along a curve.

>>> from functrax.experimental.jet import jet
>>> import functrax.numpy as jnp
>>> value, (first, second) = jet(jnp.sin, (0.0,), ((1.0, 0.0),))
>>> print(value, first, second)
0.0 1.0 0.0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import functrax.numpy as jnp
from functrax.core.errors.typed import ArgumentError
from functrax.core.lazy import listing as _listing
from functrax.core.pytree.operations import tree_map, tree_structure
from functrax.transforms.differentiation.derivatives import jvp


def jet(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    factorial_scaled: bool = True,
    **_: Any,
) -> tuple[Any, list[Any]]:
    """The Taylor series of ``fun`` along curves that are given by theirs.

    It is forward mode, nested as deep as there are terms.

    Args:
      fun: takes arrays, returns a pytree of arrays.
      primals: where the curves are at the start, an array for each argument.
      series: for each argument the further terms of its curve, all equally many.
      factorial_scaled: whether terms are derivatives; else they are coefficients of powers, which
        are derivatives divided by factorials.

    Returns:
      The value, and the list of as many further terms, each of the structure of the value.

    Raises:
      ArgumentError: if arguments have different numbers of terms, or one is not an array.

    >>> import functrax.numpy as jnp
    >>> jet(jnp.exp, (0.0,), ((1.0, 0.0),))
    (Array(1., dtype=float32), [Array(1., dtype=float32), Array(1., dtype=float32)])
    """
    counts = {len(terms) for terms in series}
    if len(counts) != 1 or len(series) != len(primals):
        raise ArgumentError(
            "jet: arguments have different numbers of terms",
            got=f"{[len(terms) for terms in series]} for {len(primals)} arguments",
            fix="as many terms for every argument",
        )
    (order,) = counts
    if not all(tree_structure(x).num_leaves == 1 for x in primals):
        raise ArgumentError(
            "jet: an argument is not an array",
            got=", ".join(type(x).__name__ for x in primals),
            fix="arrays; take containers apart before",
        )
    scale = [1.0 if factorial_scaled else float(math.factorial(k + 1)) for k in range(order)]
    start = [jnp.asarray(x) for x in primals]
    start = [x.astype(jnp.result_type(x, float)) if x.dtype.kind in "biu" else x for x in start]

    def curve(time: Any) -> Any:
        return fun(*(_along(x, terms, scale, time) for x, terms in zip(start, series, strict=True)))

    value, derivatives = _derivatives(curve, order)
    return value, [
        tree_map(lambda d, s=s: d / s if s != 1 else d, terms)
        for s, terms in zip(scale, derivatives, strict=True)
    ]


def _along(x: Any, terms: Sequence[Any], scale: Sequence[float], time: Any) -> Any:
    """The point of a curve at a time, by Horner's rule."""
    total: Any = 0.0
    for k in range(len(terms), 0, -1):
        total = (jnp.asarray(terms[k - 1]) * scale[k - 1] + total) * (time / k)
    return x + jnp.asarray(total).astype(x.dtype)


def _derivatives(curve: Callable[[Any], Any], order: int) -> tuple[Any, list[Any]]:
    """A function of a number and its derivatives at 0."""

    def extended(known: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
        def more(time: Any) -> list[Any]:
            values, slopes = jvp(known, (time,), (1.0,))
            return [*values, slopes[-1]]

        return more

    function: Callable[[Any], list[Any]] = lambda time: [curve(time)]  # noqa: E731
    for _ in range(order):
        function = extended(function)
    value, *found = function(0.0)
    return value, found


__dir__ = _listing(globals())
