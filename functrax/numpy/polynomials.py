"""Polynomials as vectors of coefficients, that of the highest power first.

Sums align the last coefficients, products are convolutions, and evaluation is Horner's scheme.

Start at :func:`polyval`.
"""

from __future__ import annotations

from typing import Any, Final

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims.arithmetic import max_, mul, sub
from functrax.core.prims.cumulative import cumprod
from functrax.core.prims.reindex import broadcast_in_dim, iota
from functrax.core.prims.slicing import pad
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.numpy.axes import integer
from functrax.numpy.broadcasting import broadcast_to
from functrax.numpy.convolving import convolve
from functrax.numpy.factoring import eigvals
from functrax.numpy.filling import ones_like, zeros
from functrax.numpy.joining import concatenate, stack
from functrax.numpy.promote import (
    broadcast_shape,
    convert,
    inexact,
    promote_dtypes,
    result,
    to_array,
)
from functrax.numpy.selecting import trim_zeros
from functrax.numpy.shaping import atleast_1d, reshape_to, reverse, slice_axis
from functrax.transforms.control.user_loops import scan
from functrax.typing import ArrayLike

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyint", "polymul", "polysub", "polyval", "vander",
]  # fmt: skip

#: Up to so many steps are written out; more are a loop.
_FEW: Final = 128


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The value of a polynomial: ``p[0] * x**(N-1) + ... + p[N-2] * x + p[N-1]``.

    Args:
      p: the coefficients, along the first axis.
      x: where to evaluate, an array of any shape.
      unroll: up to so many coefficients, or 128, the steps are written out; more are a loop.

    Returns:
      An array of the shape of ``x``.

    Raises:
      ShapeError: for coefficients without an axis, and shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.polyval(jnp.array([1, 0, 2]), 3)
      Array(11, dtype=int32)
    """
    coefficients, at = promote_dtypes("polyval", to_array("polyval", p), to_array("polyval", x, 1))
    coefficients, at = (convert(v, v.aval.dtype) for v in (coefficients, at))
    if not coefficients.aval.ndim:
        raise ShapeError(
            "polyval: p is a vector",
            got=coefficients.aval.str_short(),
            fix="give the coefficients along axis 0",
        )
    count, *rest = coefficients.aval.shape
    shape = broadcast_shape("polyval", [at.aval.shape, tuple(rest)])
    out = zeros(shape, at.aval.dtype)
    if count > max(integer("polyval", "unroll", unroll), _FEW):
        first = broadcast_to(reshape_to(slice_axis(coefficients, 0, 0, 1), tuple(rest)), shape)
        others = result(slice_axis(coefficients, 0, 1, count))
        return result(scan(lambda out, one: (out * at + one, None), result(first), others)[0])
    for i in range(count):
        one = _repeated(slice_axis(coefficients, 0, i, i + 1), shape)
        out = out * at + one if i else one
    return result(out)


def _repeated(x: Value, shape: tuple[int, ...]) -> Value:
    """A value without its first axis, which has size 1, at a shape that the others broadcast to."""
    _, *rest = x.aval.shape
    if len(rest) == len(shape):
        return broadcast_to(reshape_to(x, tuple(rest)), shape)
    dims = (0, *range(len(shape) - len(rest), len(shape)))
    return broadcast_in_dim.bind(x, shape=shape, dims=dims)


def _vectors(name: str, a1: Any, a2: Any, exact: bool) -> list[Value]:
    given = to_array(name, a1), to_array(name, a2, 1)
    values = promote_dtypes(name, *given) if exact else promote_dtypes(name, *given, kind=inexact)
    for x in values:
        if x.aval.ndim > 1:
            raise ShapeError(f"{name}: takes vectors", got=x.aval.str_short(), fix="ravel it")
    return [atleast_1d(result(x)) for x in values]


def _aligned(name: str, a1: Any, a2: Any) -> list[Value]:
    """Two vectors of one size, with zeros in front of the shorter one."""
    values = _vectors(name, a1, a2, True)
    size = max(x.aval.size for x in values)
    return [
        result(pad.bind(x, low=(size - x.aval.size,), high=(0,), interior=(0,), fill=like(x, 0)))
        for x in values
    ]


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    Args:
      a1: coefficients, a vector, that of the highest power first.
      a2: others.

    Returns:
      The coefficients of the sum, as many as the longer operand has; zeros in front stay.

    Raises:
      ShapeError: for more than one axis.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.polyadd(jnp.array([1, 2, 3]), jnp.array([1, 1]))
      Array([1, 3, 4], dtype=int32)
    """
    x, y = _aligned("polyadd", a1, a2)
    return x + y


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    Args:
      a1: coefficients, a vector, that of the highest power first.
      a2: others.

    Returns:
      The coefficients of the difference, as many as the longer operand has; zeros in front stay.

    Raises:
      ShapeError: for more than one axis.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.polysub(jnp.array([1, 2, 3]), jnp.array([1, 1]))
      Array([1, 1, 2], dtype=int32)
    """
    x, y = _aligned("polysub", a1, a2)
    return x - y


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials.

    Args:
      a1: coefficients.
      a2: others.
      trim_leading_zeros: leave zeros in front of the operands out, as NumPy does; their values
        must be known.

    Returns:
      The coefficients of the product; integers become floats.

    Raises:
      ShapeError: for more than one axis.
      ConcretizationError: for traced operands with ``trim_leading_zeros``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.polymul(jnp.array([1.0, 2.0]), jnp.array([1.0, -2.0]))
      Array([ 1.,  0., -4.], dtype=float32)
    """
    x, y = _vectors("polymul", a1, a2, False)
    if trim_leading_zeros:
        x, y = trim_zeros(x, "f"), trim_zeros(y, "f")
    x, y = (v if v.aval.size else zeros(1, v.aval.dtype) for v in (x, y))
    return convolve(x, y)


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """The quotient and the rest of a division of polynomials.

    Args:
      u: the coefficients of the dividend.
      v: those of the divisor; the first one is not zero.
      trim_leading_zeros: leave zeros in front of the rest out, as NumPy does; its values must be
        known.

    Returns:
      The quotient, and the rest, of the size of ``u``.

    Raises:
      ShapeError: for more than one axis.
      ConcretizationError: for traced operands with ``trim_leading_zeros``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.polydiv(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0]))[0]
      Array([1., 1.], dtype=float32)
    """
    rest, divisor = _vectors("polydiv", u, v, False)
    size, width = rest.aval.size, divisor.aval.size
    if size < width:
        return zeros(1, rest.aval.dtype), rest
    steps = size - width + 1
    if steps > _FEW:
        rest, quotient = _divided(rest, divisor, steps)
        return quotient, trim_zeros(rest, "f") if trim_leading_zeros else rest
    found = []
    for k in range(steps):
        factor = slice_axis(rest, 0, k, k + 1) / slice_axis(divisor, 0, 0, 1)
        found.append(factor)
        changed = slice_axis(rest, 0, k, k + width) - factor * divisor
        rest = concatenate(
            [slice_axis(rest, 0, 0, k), changed, slice_axis(rest, 0, k + width, size)]
        )
    return concatenate(found), trim_zeros(rest, "f") if trim_leading_zeros else rest


def _divided(rest: Value, divisor: Value, steps: int) -> tuple[Value, Value]:
    """The rest and the quotient, by a loop."""
    lead, width = result(slice_axis(divisor, 0, 0, 1)), divisor.aval.size

    # Windows that move by one: the rest is turned by one place in each step.
    def step(rest: Any, _: None) -> tuple[Any, Any]:
        part = rest[:width]
        factor = part[:1] / lead
        changed = part - factor * result(divisor)
        return concatenate([changed[1:], rest[width:], changed[:1]]), factor[0]

    turned, quotient = scan(step, result(rest), None, steps)
    size = rest.aval.size
    back = [slice_axis(turned, 0, size - steps, size), slice_axis(turned, 0, 0, size - steps)]
    return concatenate(back), quotient


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The derivative of a polynomial.

    Args:
      p: coefficients, a vector, that of the highest power first.
      m: how often to differentiate.

    Returns:
      The coefficients of the derivative, ``m`` fewer; integers become floats.

    Raises:
      ArgumentError: for a negative ``m``.
      ShapeError: for more than one axis.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.polyder(jnp.array([1.0, 2.0, 3.0]))
      Array([2., 2.], dtype=float32)
    """
    x, times = _coefficients("polyder", p, m)
    size = x.aval.size
    if times >= size > 0:
        return slice_axis(x, 0, 0, 0)
    kept = max(size - times, 0)
    powers = _powers(size, kept)
    factors = ones_like(powers)
    for i in range(times):
        factors = mul.bind(factors, sub.bind(powers, like(powers, i)))
    return result(slice_axis(x, 0, 0, kept)) * result(convert(factors, x.aval.dtype))


def _powers(size: int, kept: int) -> Value:
    """The powers of the first of ``size`` coefficients, in float64."""
    place = iota.bind(shape=(kept,), dtype=dtypes.float64, axis=0)
    return sub.bind(like(place, size - 1), place)


def polyint(p: ArrayLike, m: int = 1, k: int | ArrayLike | None = None) -> Array:
    """The integral of a polynomial.

    Args:
      p: coefficients.
      m: how often to integrate.
      k: the constants, that of the first integration first: ``m`` numbers, or one for all; 0 if
        None.

    Returns:
      The coefficients of the integral, ``m`` more; integers become floats.

    Raises:
      ArgumentError: for a negative ``m``.
      ShapeError: for another number of constants, and more than one axis.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.polyint(jnp.array([2.0, 2.0]), k=7)
      Array([1., 2., 7.], dtype=float32)
    """
    x, times = _coefficients("polyint", p, m)
    constants = convert(to_array("polyint", 0 if k is None else k, 2), x.aval.dtype)
    if constants.aval.ndim > 1 or (constants.aval.size not in (1, times)):
        raise ShapeError(
            "polyint: needs one constant for each integration",
            got=f"{constants.aval.str_short()} for m={times}",
            fix=f"{times} of them, or one",
        )
    if not times:
        return x
    constants = broadcast_to(constants, (times,))
    whole = concatenate([x, constants])
    powers = _powers(whole.aval.size, whole.aval.size)
    # The coefficient of power n was integrated until there, or since its constant came in.
    factors = ones_like(powers)
    for i in range(times):
        factors = mul.bind(factors, max_.bind(sub.bind(powers, like(powers, i)), like(powers, 1)))
    return whole / result(convert(factors, x.aval.dtype))


def _coefficients(name: str, p: Any, m: int) -> tuple[Value, int]:
    (x,) = promote_dtypes(name, to_array(name, p), kind=inexact)
    times = integer(name, "m", m)
    if x.aval.ndim > 1:
        raise ShapeError(f"{name}: takes a vector", got=x.aval.str_short(), fix="ravel it")
    if times < 0:
        raise ArgumentError(f"{name}: m is negative", got=f"m={m}", fix="m=0 or more")
    return reshape_to(x, (x.aval.size,)), times


def poly(seq_of_zeros: ArrayLike) -> Array:
    """The polynomial with given zeros, whose first coefficient is 1.

    Args:
      seq_of_zeros: a vector of zeros, one zero, or a square matrix, whose eigenvalues they are.

    Returns:
      A vector with one more element than there are zeros; the scalar 1 of none.

    Raises:
      ShapeError: for other arrays.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.poly(jnp.array([1.0, 2.0]))
      Array([ 1., -3.,  2.], dtype=float32)
    """
    (x,) = promote_dtypes("poly", to_array("poly", seq_of_zeros), kind=inexact)
    if x.aval.ndim > 1:
        if x.aval.ndim > 2 or x.aval.shape[0] != x.aval.shape[1] or not x.aval.size:
            raise ShapeError(
                "poly: input must be 1d or non-empty square 2d array", got=x.aval.str_short(),
                fix="a vector of zeros, or the matrix whose eigenvalues they are",
            )  # fmt: skip
        x = eigvals(x)
    places = reshape_to(x, (x.aval.size,))
    one = ones_like(places, shape=(1,))
    if not places.aval.size:
        return reshape_to(one, ())
    if places.aval.size > _FEW:
        return _product(result(places))
    out = one
    for i in range(places.aval.size):
        out = convolve(out, concatenate([one, -slice_axis(places, 0, i, i + 1)]))
    return out


def _product(places: Any) -> Value:
    """The product of ``x - place``, by a loop over coefficients that are zero at first."""
    none = ones_like(places, shape=(1,)) * 0

    def step(out: Any, place: Any) -> tuple[Any, None]:
        return out + concatenate([none, out[:-1] * -place]), None

    first = concatenate([ones_like(places, shape=(1,)), places * 0])
    return result(scan(step, first, places)[0])


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The powers of the elements of a vector, one row for each.

    Args:
      x: a vector.
      N: the number of powers; the size of ``x`` if None.
      increasing: whether the powers rise from 0, and do not fall to it.

    Returns:
      A matrix of shape ``(x.size, N)``.

    Raises:
      ShapeError: if ``x`` is not a vector.
      ArgumentError: for a negative ``N``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.vander(jnp.array([2, 3]), 3)
      Array([[4, 2, 1],
             [9, 3, 1]], dtype=int32)
    """
    value = to_array("vander", x)
    if value.aval.ndim != 1:
        raise ShapeError("vander: takes a vector", got=value.aval.str_short(), fix="ravel it")
    count = value.aval.size if N is None else integer("vander", "N", N)
    if count < 0:
        raise ArgumentError("vander: N is negative", got=f"N={count}", fix="N=0 or more")
    if not count:
        return zeros((value.aval.size, 0), value.aval.dtype)
    if count > _FEW:
        found = result(_powers_by_products(value, count))
    else:
        powers = [ones_like(value)]
        for _ in range(count - 1):
            powers.append(powers[-1] * value)
        found = stack(powers, axis=1)
    return found if increasing else reverse(found, (1,))


def _powers_by_products(x: Value, count: int) -> Value:
    rows = (x.aval.size, count - 1)
    factors = broadcast_in_dim.bind(x, shape=rows, dims=(0,))
    one = ones_like(x, shape=(x.aval.size, 1))
    return cumprod.bind(concatenate([one, factors], 1), axis=1, reverse=False)
