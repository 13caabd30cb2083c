"""Families of distributions: what follows for all of them from a few standard functions.

A distribution of a location and a scale is given by functions of the standard variable
``z = (x - loc) / scale`` and of its shape parameters; :func:`continuous` makes the functions that
users call, with SciPy's signatures, right outside the support too, and with derivatives that a
value beyond the support does not spoil.  :func:`discrete` does the same for whole numbers.

Every argument is a number or an array; they are promoted to one inexact dtype and broadcast.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import functrax.numpy as jnp
from functrax.backends.eager.cached_traces import with_long_recipe
from functrax.core.arrays.operators import Array
from functrax.core.tracing.primitive import Value
from functrax.scipy.special.gammas import floats

#: Of the standard variable and the shape parameters.
Standard: TypeAlias = Callable[..., Value]

_DOCS = {
    "logpdf": "The logarithm of the density.",
    "pdf": "The density.",
    "logpmf": "The logarithm of the probability of a whole number.",
    "pmf": "The probability of a whole number; 0 for other numbers.",
    "cdf": "The probability of a value that is no larger.",
    "logcdf": "The logarithm of :func:`cdf`.",
    "sf": "The probability of a larger value.",
    "logsf": "The logarithm of :func:`sf`.",
    "ppf": "The value of which :func:`cdf` is ``q``; NaN unless ``0 <= q <= 1``.",
    "isf": "The value of which :func:`sf` is ``q``; NaN unless ``0 <= q <= 1``.",
}


def public(
    distribution: str,
    name: str,
    parameters: Sequence[str],
    defaults: Mapping[str, float],
    function: Callable[..., Value],
) -> Callable[..., Array]:
    """A function as users call it: by position or by name, of numbers and arrays."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [
            inspect.Parameter(
                p, kind, default=defaults.get(p, inspect.Parameter.empty), annotation="ArrayLike"
            )
            for p in parameters
        ],
        return_annotation="Array",
    )

    def call(*args: Any, **kwargs: Any) -> Array:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return function(*floats(f"{distribution}.{name}", *bound.args))

    call.__name__ = call.__qualname__ = name
    call.__module__ = f"functrax.scipy.stats.{distribution}"
    call.__doc__ = _DOCS[name]
    call.__signature__ = signature  # type: ignore[attr-defined]
    return with_long_recipe(call)


def continuous(
    distribution: str,
    shapes: Sequence[str] = (),
    *,
    support: tuple[float, float] = (-math.inf, math.inf),
    inside: float = 0.0,
    located: bool = True,
    valid: Callable[..., Value] | None = None,
    **standard: Standard,
) -> SimpleNamespace:
    """The functions of a distribution with ``loc`` and ``scale``.

    Args:
      distribution: its name.
      shapes: names of its shape parameters, which come after ``x``.
      support: where the density of the standard variable is not 0.
      inside: a point of the support, which stands for those outside.
      located: whether it has a location and a scale.
      valid: whether shapes are those of a distribution; the results are NaN elsewhere.
      standard: by name, functions of the standard variable and the shapes.
    """
    low, high = support
    last = ("loc", "scale") if located else ()
    defaults: dict[str, float] = {"loc": 0, "scale": 1}

    def forward(name: str, function: Standard, below: float, above: float) -> Standard:
        def of(x: Value, *rest: Value) -> Value:
            parameters, (loc, scale) = (rest[:-2], rest[-2:]) if located else (rest, (0, 1))
            z = (x - loc) / scale
            within = (z >= low) & (z <= high)
            out = function(jnp.where(within | jnp.isnan(z), z, inside), *parameters)
            if located and name == "logpdf":
                out = out - jnp.log(scale)
            out = jnp.where(z < low, below, jnp.where(z > high, above, out))
            if valid is not None:
                out = jnp.where(valid(*parameters), out, jnp.nan)
            return jnp.where(scale > 0, out, jnp.nan) if located else out

        return of

    def inverse(function: Standard) -> Standard:
        def of(q: Value, *rest: Value) -> Value:
            parameters, (loc, scale) = rest[:-2], rest[-2:]
            good = (q >= 0) & (q <= 1) & (scale > 0)
            found = function(jnp.where(good, q, 0.5), *parameters) * scale + loc
            return jnp.where(good, found, jnp.nan)

        return of

    limits = {
        "logpdf": (-math.inf, -math.inf), "cdf": (0.0, 1.0), "sf": (1.0, 0.0),
        "logcdf": (-math.inf, 0.0), "logsf": (0.0, -math.inf),
    }  # fmt: skip
    found: dict[str, Standard] = {}
    for name, function in _with_logarithms(standard).items():
        inverted = name in ("ppf", "isf")
        found[name] = inverse(function) if inverted else forward(name, function, *limits[name])
    found["pdf"] = _after(jnp.exp, found["logpdf"])
    return SimpleNamespace(
        **{
            name: public(
                distribution,
                name,
                ("q" if name in ("ppf", "isf") else "x", *shapes, *last),
                defaults,
                function,
            )
            for name, function in found.items()
        }
    )


def _after(outer: Callable[[Value], Value], inner: Standard) -> Standard:
    return lambda *args: outer(inner(*args))


def _with_logarithms(standard: dict[str, Standard]) -> dict[str, Standard]:
    """The functions and those of their logarithms, or the other way round."""
    found = dict(standard)
    for name, log in (("cdf", "logcdf"), ("sf", "logsf")):
        if name in found and log not in found:
            found[log] = _after(jnp.log, found[name])
        if log in found and name not in found:
            found[name] = _after(jnp.exp, found[log])
    return found


def discrete(
    distribution: str,
    shapes: Sequence[str],
    logpmf: Standard,
    low: int = 0,
    high: Callable[..., Value] | None = None,
    **others: Standard,
) -> SimpleNamespace:
    """The functions of a distribution of whole numbers, with ``loc``.

    Args:
      distribution: its name.
      shapes: names of its parameters, which come after ``k``.
      logpmf: of the number and the shapes, where it is possible.
      low: the smallest possible number.
      high: the largest possible number, of the shapes; None if there is none.
      others: ``cdf``, of the number rounded down, where it is between the limits.
    """

    def largest(*rest: Value) -> Any:
        return math.inf if high is None else high(*rest)

    def log_probability(k: Value, *rest: Value) -> Value:
        parameters, number = rest[:-1], k - rest[-1]
        possible = (number >= low) & (number <= largest(*parameters))
        possible &= jnp.floor(number) == number
        out = logpmf(jnp.where(possible, number, low), *parameters)
        return jnp.where(possible, out, -jnp.inf)

    def below(k: Value, *rest: Value) -> Value:
        parameters, number = rest[:-1], jnp.floor(k - rest[-1])
        top = largest(*parameters)
        within = (number >= low) & (number < top)
        out = others["cdf"](jnp.where(within, number, low), *parameters)
        return jnp.where(number < low, 0.0, jnp.where(number >= top, 1.0, out))

    found = {"logpmf": log_probability, "pmf": lambda *args: jnp.exp(log_probability(*args))}
    if "cdf" in others:
        found["cdf"] = below
    return SimpleNamespace(
        **{
            name: public(distribution, name, ("k", *shapes, "loc"), {"loc": 0}, function)
            for name, function in found.items()
        }
    )
