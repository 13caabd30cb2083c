"""Families of distributions: what follows for all of them from a few standard functions.

A distribution of a location and a scale is given by functions of the standard variable
``z = (x - loc) / scale`` and of its shape parameters; :func:`continuous` makes a :class:`Family` of
them, which decorates the functions that users call, with SciPy's signatures: these are right
outside the support too, and their derivatives are not spoiled by values beyond it.
:func:`discrete` does the same for whole numbers.

Every argument is a number or an array; they are promoted to one inexact dtype and broadcast.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

import functrax.numpy as jnp
from functrax.backends.eager.cached_traces import with_long_recipe
from functrax.core.arrays.operators import Array
from functrax.core.tracing.primitive import Value
from functrax.scipy.special.gammas import floats

#: Of the standard variable and the shape parameters.
Standard: TypeAlias = Callable[..., Value]

F = TypeVar("F", bound="Callable[..., Array]")

#: What a function is of, what it gives, and what it takes first.
_RETURNS = {
    "logpdf": "minus infinity beyond the support",
    "pdf": "0 beyond the support",
    "logpmf": "minus infinity for numbers that do not come",
    "pmf": "0 for numbers that do not come",
    "cdf": "from 0 to 1",
    "logcdf": "up to 0",
    "sf": "from 0 to 1",
    "logsf": "up to 0",
    "ppf": "NaN unless ``0 <= q <= 1``",
    "isf": "NaN unless ``0 <= q <= 1``",
}
_FIRST = {
    "x": "where: a number or an array.",
    "k": "where: a whole number or an array of them, of any dtype.",
    "q": "probabilities: a number or an array.",
}


class Family:
    """A distribution: what gives its public functions their body, and the rest of their documents.

    Args:
      name: of the distribution.
      parameters: what its parameters are, by name, in the words of the documentation.
      density: the formula of the density or of the probability.
      functions: what the functions do, by name, with operands of one dtype and shape.
      scaled: whether there are ``loc`` and ``scale``.
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, str],
        density: str,
        functions: Mapping[str, Standard],
        scaled: bool,
    ) -> None:
        self.name, self.parameters, self.density = name, parameters, density
        self.functions, self.scaled = functions, scaled

    def __call__(self, example: str) -> Callable[[F], F]:
        """A decorator of a signature and a summary.

        Args:
          example: arguments of a call and what it gives, rounded: ``"1.0, 2.0 -> 0.5"``.
        """

        def decorate(template: F) -> F:
            name = template.__name__
            function, title = self.functions[name], f"{self.name}.{name}"
            signature = inspect.signature(template)

            def call(*args: Any, **kwargs: Any) -> Array:
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                return function(*floats(title, *bound.args))

            call.__name__ = call.__qualname__ = name
            call.__module__ = f"functrax.scipy.stats.{self.name}"
            call.__doc__ = self._documentation(template.__doc__ or "", name, signature, example)
            call.__signature__ = signature  # type: ignore[attr-defined]
            return cast(F, with_long_recipe(call))

        return decorate

    def _documentation(
        self, summary: str, name: str, signature: inspect.Signature, example: str
    ) -> str:
        first, *others = signature.parameters
        arguments = "\n".join(f"  {p}: {self._meaning(p)}" for p in others)
        given, shown = example.split(" -> ")
        invalid = "; NaN where ``scale`` is not positive" if self.scaled else ""
        return f"""{summary}

{self.density}

Args:
  {first}: {_FIRST[first]}
{arguments}

Returns:
  Floats of the shape to which the arguments broadcast: {_RETURNS[name]}{invalid}.

Raises:
  DTypeError: for lists, and what is not a number.
  ShapeError: for shapes that do not broadcast.

>>> from functrax.scipy.stats import {self.name}
>>> print({self.name}.{name}({given}).round(4))
{shown}
"""

    def _meaning(self, parameter: str) -> str:
        common = {"loc": "is subtracted first.", "scale": "is divided by then."}
        return self.parameters.get(parameter) or common[parameter]


def continuous(
    distribution: str,
    shapes: Mapping[str, str] = MappingProxyType({}),
    *,
    density: str,
    support: tuple[float, float] = (-math.inf, math.inf),
    inside: float = 0.0,
    located: bool = True,
    valid: Callable[..., Value] | None = None,
    **standard: Standard,
) -> Family:
    """A distribution with ``loc`` and ``scale``.

    Args:
      distribution: its name.
      shapes: its shape parameters, which come after ``x``, and what they are.
      density: the density of the standard variable, as a formula.
      support: where the density of the standard variable is not 0.
      inside: a point of the support, which stands for those outside.
      located: whether it has a location and a scale.
      valid: whether shapes are those of a distribution; the results are NaN elsewhere.
      standard: by name, functions of the standard variable and the shapes.
    """
    low, high = support

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
    standard_density = f"The density is ``{density}``"
    if located:
        standard_density += " divided by ``scale``, of ``z = (x - loc) / scale``"
    return Family(distribution, shapes, f"{standard_density}.", found, located)


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
    shapes: Mapping[str, str],
    logpmf: Standard,
    *,
    probability: str,
    low: int = 0,
    high: Callable[..., Value] | None = None,
    **others: Standard,
) -> Family:
    """A distribution of whole numbers, with ``loc``.

    Args:
      distribution: its name.
      shapes: its parameters, which come after ``k``, and what they are.
      logpmf: of the number and the shapes, where it is possible.
      probability: of a number, as a formula.
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
    formula = f"The probability of ``k``, less ``loc``, is ``{probability}``."
    return Family(distribution, shapes, formula, found, scaled=False)
