"""Samples of continuous distributions.

All start from :func:`uniform`: random bits become the mantissa of a float from 1 to 2, less 1.  The
others are functions of it, most of them the inverse of the distribution function; the formulas, and
with them the numbers for a key, are those of ``jax.random``.

Start at :func:`uniform_sample`, which takes the words of a key, a shape and a dtype that have been
checked; the public functions check them.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from functrax import lax, numpy as jnp
from functrax.backends.eager.cached_traces import with_recipe, with_recipe_of_keys
from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.options.config import state as options
from functrax.core.prims.arithmetic import sub
from functrax.core.prims.bitwise import shift_right_logical
from functrax.core.prims.comparisons import or_
from functrax.core.prims.convert import bitcast_convert_type, convert_element_type
from functrax.core.tracing.primitive import Value, literal
from functrax.core.types import dtypes
from functrax.lax.operands import as_array
from functrax.random.cipher import random_bits, unsigned
from functrax.random.keys import key_words, split_pair
from functrax.random.shapes import (
    DType,
    Shape,
    broadcast_shape,
    checked_shape,
    float_dtype,
    inexact_dtype,
    parameter,
    repeated,
)
from functrax.typing import ArrayLike, DTypeLike, ShapeLike

Low: TypeAlias = Callable[[DType], Any]


Sampler = TypeVar("Sampler", bound=Callable[..., Array])


def checked(name: str, key: Any, shape: Any, dtype: Any) -> tuple[Value, Shape, DType]:
    """The words of a key, a shape and a floating point dtype."""
    return key_words(name, key), checked_shape(name, shape), float_dtype(name, dtype)


def prepared(
    name: str, key: Any, shape: Any, dtype: Any, *parameters: Any
) -> tuple[Value, Shape, DType, list[Any]]:
    """The words, the shape and the dtype of a sample with parameters, and these of that dtype."""
    of_type = float_dtype(name, dtype)
    sizes = broadcast_shape(name, shape, *map(np.shape, parameters))
    values = [parameter(name, x, of_type) for x in parameters]
    return key_words(name, key), sizes, of_type, values


@with_recipe_of_keys
@with_out_sharding
def bits(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Uniform random bits, as unsigned integers.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: an unsigned integer dtype; ``uint32`` if omitted, ``uint64`` when x64 is on.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError: for another kind of dtype.

    >>> from functrax import random
    >>> random.bits(random.key(0), (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    words = key_words("bits", key)
    asked = dtypes.canonicalize_dtype(dtypes.uint64 if dtype is None else dtypes.as_dtype(dtype))
    if asked not in dtypes.UNSIGNED:
        raise DTypeError(
            "bits needs an unsigned integer dtype", got=f"dtype {asked}", fix="dtype='uint32'"
        )
    return as_array(random_bits(words, 8 * asked.itemsize, checked_shape("bits", shape)))


@with_recipe
def uniform_sample(
    words: Value, shape: Shape, dtype: DType, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Uniform floats from ``minval`` to ``maxval``, which are numbers or arrays of ``dtype``."""
    info = dtypes.finfo(dtype)
    width, mantissa = info.bits, info.nmant
    drawn = max(8, width if mantissa >= 8 else 8)
    whole = unsigned(width)
    mixed = random_bits(words, drawn, shape)
    if drawn != width:
        mixed = convert_element_type.bind(mixed, dtype=whole, weak_type=False)
    fraction = shift_right_logical.bind(mixed, literal(drawn - mantissa, whole))
    one = np.ones((), dtype)
    exponent = literal(int(one.view(whole)), whole)
    from_one = bitcast_convert_type.bind(or_.bind(fraction, exponent), dtype=dtype)
    unit = as_array(sub.bind(from_one, literal(1, dtype)))
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return unit
    low, high = _bound(minval, shape, dtype), _bound(maxval, shape, dtype)
    return lax.max(low, lax.add(lax.mul(unit, lax.sub(high, low)), low))


def _bound(given: Any, shape: Shape, dtype: DType) -> Any:
    value = parameter("uniform", given, dtype)
    return repeated(value, shape) if value.aval.shape else value


@with_recipe
def normal_sample(words: Value, shape: Shape, dtype: DType) -> Any:
    """Normally distributed floats; complex numbers have two such parts over sqrt(2)."""
    if dtypes.is_complex(dtype):
        real = dtypes.real_dtype(dtype)
        parts = [normal_sample(w, shape, real) for w in split_pair(words)]
        return lax.div(lax.complex(*parts), np.asarray(np.sqrt(2), dtype)[()])
    lowest = np.nextafter(dtype.type(-1), dtype.type(0), dtype=dtype)
    u = uniform_sample(words, shape, dtype, lowest, dtype.type(1))
    return lax.mul(np.asarray(np.sqrt(2), dtype)[()], lax.erf_inv(u))


@with_recipe_of_keys
@with_out_sharding
def uniform(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Array:
    """Floats from ``minval`` (included) to ``maxval`` (not included), all as likely.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: a floating point dtype; the default float if omitted.
      minval, maxval: numbers, or arrays that broadcast to the shape.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError: for another kind of dtype, or if ``key`` is not a key.
      ShapeError: if a size is negative, or the bounds do not broadcast to the shape.

    >>> from functrax import random
    >>> random.uniform(random.key(0), (3,))
    Array([0.947667  , 0.9785799 , 0.33229148], dtype=float32)
    """
    words, sizes, of_type = checked("uniform", key, shape, dtype)
    broadcast_shape("uniform", sizes, np.shape(minval), np.shape(maxval))
    return as_array(uniform_sample(words, sizes, of_type, minval, maxval))


@with_recipe_of_keys
@with_out_sharding
def normal(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Floats of mean 0 and variance 1, normally distributed.

    A complex number has the variance 1/2 in each part.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: a floating point or complex dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, bad shapes, and what is not a key.

    >>> from functrax import random
    >>> random.normal(random.key(0), (2,))
    Array([1.622642 , 2.0252647], dtype=float32)
    """
    words = key_words("normal", key)
    of_type = inexact_dtype("normal", dtype)
    return as_array(normal_sample(words, checked_shape("normal", shape), of_type))


_SIMPLE_DOC = """{summary}

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, bad shapes, and what is not a key.

    {formula}

    >>> from functrax import random
    >>> random.{name}(random.key(0), (3,)).shape
    (3,)
    """


def _simple(
    transform: Callable[[Any, DType], Any], low: Low, formula: str
) -> Callable[[Sampler], Sampler]:
    """A distribution without parameters: a function of uniform numbers from ``low(dtype)`` to 1."""

    def decorate(template: Sampler) -> Sampler:
        name = template.__name__

        def sampler(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
            words, sizes, of_type = checked(name, key, shape, dtype)
            return as_array(
                transform(uniform_sample(words, sizes, of_type, low(of_type), 1.0), of_type)
            )

        sampler.__name__ = sampler.__qualname__ = name
        summary = template.__doc__
        sampler.__doc__ = _SIMPLE_DOC.format(name=name, summary=summary, formula=formula)
        return cast(Sampler, with_recipe_of_keys(with_out_sharding(sampler)))

    return decorate


@_simple(
    lambda u, dtype: lax.neg(lax.log1p(lax.neg(u))),
    lambda dtype: 0.0,
    "``-log(1 - u)`` of a uniform ``u``.",
)
def exponential(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Floats from 0 on with the density exp(-x)."""


@_simple(
    lambda u, dtype: lax.sub(lax.log(u), lax.log1p(lax.neg(u))),
    lambda dtype: dtypes.finfo(dtype).tiny,
    "``log(u / (1 - u))`` of a uniform ``u``.",
)
def logistic(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Floats whose distribution function is the logistic one."""


@_simple(
    lambda u, dtype: lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u)))),
    lambda dtype: float(dtypes.finfo(dtype).epsneg) - 1.0,
    "``sign(u) log(1 - |u|)`` of a uniform ``u`` between -1 and 1.",
)
def laplace(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Floats with the density ``exp(-|x|) / 2``."""


@_simple(
    lambda u, dtype: lax.tan(lax.mul(lax.sub(u, 0.5), float(np.pi))),
    lambda dtype: dtypes.finfo(dtype).eps,
    "``tan(pi (u - 1/2))`` of a uniform ``u``.",
)
def cauchy(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Floats with the density 1 / (pi (x**2 + 1))."""


@with_recipe_of_keys
@with_out_sharding
def gumbel(
    key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None, mode: str | None = None
) -> Array:
    """Floats whose distribution function is ``exp(-exp(-x))``.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: a floating point dtype; the default float if omitted.
      mode: ``"low"`` (the default, but for the option high_dynamic_range_gumbel), in which no
        float32 is above 17, or ``"high"``, which takes twice the bits and reaches 32.

    Returns:
      An array of that shape and dtype.

    Raises:
      ArgumentError: for another mode.
      DTypeError, ShapeError: for other dtypes, bad shapes, and what is not a key.

    ``-log(-log(u))`` of a uniform ``u``.

    >>> from functrax import random
    >>> random.gumbel(random.key(0), (3,), mode="high").shape
    (3,)
    """
    return as_array(gumbel_sample(*checked("gumbel", key, shape, dtype), mode, "gumbel"))


def gumbel_sample(words: Value, shape: Shape, dtype: DType, mode: str | None, name: str) -> Any:
    """See :func:`gumbel`."""
    info = dtypes.finfo(dtype)
    if mode is None:
        mode = "high" if options.high_dynamic_range_gumbel else "low"
    if mode == "low":
        u = uniform_sample(words, shape, dtype, info.tiny)
        return lax.neg(lax.log(lax.neg(lax.log(u))))
    if mode != "high":
        raise ArgumentError(f"{name}: unknown mode", got=repr(mode), fix="'low' or 'high'")
    high, low = uniform_sample(words, (2, *shape), dtype)
    fine = lax.add(lax.add(high, lax.mul(low, 2.0**-info.nmant)), float(info.tiny))
    u = lax.select(lax.ge(high, 0.5), high, fine)
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(u)))))


@with_out_sharding
def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Normally distributed floats of which those between two bounds are kept.

    Args:
      key: a key.
      lower, upper: the bounds, numbers or arrays, in units of the standard deviation.
      shape: the shape of the result; that of the bounds if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError: for another kind of dtype, or if ``key`` is not a key.
      ShapeError: if the bounds do not broadcast to the shape.

    ``sqrt(2) erfinv(u)`` of a ``u`` uniform between ``erf(lower / sqrt(2))`` and
    ``erf(upper / sqrt(2))``.  The bounds are not included.

    >>> from functrax import random
    >>> random.truncated_normal(random.key(0), -1.0, 1.0, (2,))
    Array([0.8618594, 0.9412884], dtype=float32)
    """
    words, of_type = key_words("truncated_normal", key), float_dtype("truncated_normal", dtype)
    sizes = broadcast_shape("truncated_normal", shape, np.shape(lower), np.shape(upper))
    low: Any = parameter("truncated_normal", lower, of_type)
    high: Any = parameter("truncated_normal", upper, of_type)
    root = np.asarray(np.sqrt(2), of_type)[()]
    bounds = [lax.erf(lax.div(x, root)) for x in (low, high)]
    out = lax.mul(root, lax.erf_inv(uniform_sample(words, sizes, of_type, *bounds)))
    above = lax.nextafter(lax.stop_gradient(low), of_type.type(np.inf))
    below = lax.nextafter(lax.stop_gradient(high), of_type.type(-np.inf))
    return as_array(jnp.clip(out, above, below))
