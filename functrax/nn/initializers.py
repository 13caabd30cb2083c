"""First values of weights: functions from a key, a shape and a dtype to an array.

An initializer is made by one of the functions here and called as ``init(key, shape, dtype)``.  Most
are :func:`variance_scaling` with other arguments: their variance falls with the number of inputs or
outputs of a layer, so that activations or gradients keep theirs.  The numbers for a key are those
of ``jax.nn.initializers``.

Start at :func:`variance_scaling`.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from functrax import numpy as jnp, random
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, AxisError, ShapeError
from functrax.core.lazy import listing as _listing
from functrax.core.types import dtypes
from functrax.lax.operands import as_array
from functrax.nn.weights import product, truncated_weights, uniform_weights
from functrax.random.shapes import DType, Shape, checked_shape
from functrax.typing import ArrayLike, DTypeLike, ShapeLike

Axes: TypeAlias = "int | Sequence[int]"
_F = TypeVar("_F", bound="Callable[..., Initializer]")


@runtime_checkable
class Initializer(Protocol):
    """What the functions of this module return."""

    def __call__(self, key: Any, shape: Any, dtype: Any = None) -> Array:
        """An array of the shape and dtype, made from the key."""
        ...


def _dtype_of(given: Any) -> DType:
    asked = dtypes.default_float() if given is None else dtypes.as_dtype(given)
    return dtypes.canonicalize_dtype(asked)


def zeros(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike | None = None) -> Array:
    """Zeros, whatever the key.

    Args:
      key: not looked at.
      shape: the shape.
      dtype: the dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      ShapeError, DTypeError: for bad shapes and unknown dtypes.

    >>> from functrax import nn
    >>> nn.initializers.zeros(None, (2,))
    Array([0., 0.], dtype=float32)
    """
    return as_array(jnp.zeros(checked_shape("zeros", shape), _dtype_of(dtype)))


def ones(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike | None = None) -> Array:
    """Ones, whatever the key.

    Args:
      key: not looked at.
      shape: the shape.
      dtype: the dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      ShapeError, DTypeError: for bad shapes and unknown dtypes.

    >>> from functrax import nn
    >>> nn.initializers.ones(None, (2,))
    Array([1., 1.], dtype=float32)
    """
    return as_array(jnp.ones(checked_shape("ones", shape), _dtype_of(dtype)))


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer that fills arrays with a value.

    Args:
      value: a number, or an array that broadcasts to the shapes asked for.
      dtype: the dtype of arrays for which none is asked; the default float if omitted.

    Returns:
      A function ``init(key, shape, dtype)``.

    Raises:
      ShapeError, DTypeError: from the initializer, for bad shapes and unknown dtypes.

    >>> import functrax
    >>> functrax.nn.initializers.constant(7.0)(functrax.random.key(0), (2,))
    Array([7., 7.], dtype=float32)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Array:
        return as_array(jnp.full(checked_shape("constant", shape), value, _dtype_of(dtype)))

    return init


def uniform(scale: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer with floats from 0 to ``scale``, all as likely.

    Args:
      scale: the upper bound.
      dtype: the dtype of arrays for which none is asked; the default float if omitted.

    Returns:
      A function ``init(key, shape, dtype)``.

    Raises:
      ShapeError, DTypeError: from the initializer, for bad shapes, other dtypes, and what is no
        key.

    >>> from functrax import nn, random
    >>> nn.initializers.uniform(0.1)(random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Array:
        asked = _dtype_of(dtype)
        return product(random.uniform(key, shape, asked), jnp.asarray(scale, asked))

    return init


def normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer with normally distributed numbers of mean 0.

    Args:
      stddev: the standard deviation.
      dtype: the dtype of arrays for which none is asked; the default float if omitted.

    Returns:
      A function ``init(key, shape, dtype)``.

    Raises:
      ShapeError, DTypeError: from the initializer, for bad shapes, other dtypes, and what is no
        key.

    >>> from functrax import nn, random
    >>> nn.initializers.normal(0.1)(random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Array:
        asked = _dtype_of(dtype)
        return product(random.normal(key, shape, asked), jnp.asarray(stddev, asked))

    return init


def truncated_normal(
    stddev: ArrayLike = 1e-2,
    dtype: DTypeLike | None = None,
    lower: ArrayLike = -2.0,
    upper: ArrayLike = 2.0,
) -> Initializer:
    """An initializer with normally distributed floats of mean 0, of which the middle is kept.

    Args:
      stddev: the standard deviation before cutting; it is not corrected for what is cut.
      dtype: the dtype of arrays for which none is asked; the default float if omitted.
      lower, upper: the bounds, in units of ``stddev``.

    Returns:
      A function ``init(key, shape, dtype)``.

    Raises:
      ShapeError, DTypeError: from the initializer, for bad shapes, other dtypes, and what is no
        key.

    >>> from functrax import nn, random
    >>> abs(nn.initializers.truncated_normal(0.5)(random.key(0), (100,))).max() <= 1.0
    Array(True, dtype=bool)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Array:
        asked = _dtype_of(dtype)
        drawn = random.truncated_normal(key, lower, upper, shape, asked)
        return product(drawn, jnp.asarray(stddev, asked))

    return init


def _sizes(shape: Shape, in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    """Numbers of inputs and outputs, each times the size of the axes not named."""
    if in_axis == -2 and len(shape) < 2:
        raise ShapeError(
            "variance_scaling: the weights have no axis of inputs",
            got=f"shape {shape} with in_axis -2",
            fix="a shape of two axes or more, or another in_axis",
        )
    inputs, outputs, batch = (
        math.prod(shape[i] for i in ((axes,) if isinstance(axes, int) else axes))
        for axes in (in_axis, out_axis, batch_axis)
    )
    if not math.prod(shape):
        raise ShapeError(
            "variance_scaling: weights without elements have no variance",
            got=f"shape {shape}",
            fix="sizes of 1 or more",
        )
    field = math.prod(shape) / inputs / outputs / batch
    return inputs * field, outputs * field


_MEANS: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda inputs, outputs: inputs,
    "fan_out": lambda inputs, outputs: outputs,
    "fan_avg": lambda inputs, outputs: (inputs + outputs) / 2,
    "fan_geo_avg": lambda inputs, outputs: math.sqrt(inputs * outputs),
}
_DISTRIBUTIONS = ("truncated_normal", "normal", "uniform")


def variance_scaling(
    scale: ArrayLike,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """An initializer with numbers of mean 0 and variance ``scale / n``.

    Args:
      scale: a positive number.
      mode: what ``n`` is: ``"fan_in"``, the number of inputs, ``"fan_out"``, that of outputs, or
        their arithmetic or geometric mean, ``"fan_avg"`` and ``"fan_geo_avg"``.
      distribution: ``"uniform"``, ``"normal"``, or ``"truncated_normal"``, which is cut at twice
        the standard deviation that it has before.  Complex numbers fill a disk.
      in_axis, out_axis: the axes of inputs and of outputs.
      batch_axis: axes that do not count.  All other axes count among inputs and outputs both.
      dtype: the dtype of arrays for which none is asked; the default float if omitted.

    Returns:
      A function ``init(key, shape, dtype)``.

    Raises:
      ArgumentError: for another mode or distribution.

    >>> import functrax
    >>> init = functrax.nn.initializers.variance_scaling(2.0, "fan_in", "normal")
    >>> init(functrax.random.key(0), (3, 4)).shape
    (3, 4)
    """
    if mode not in _MEANS:
        raise ArgumentError("variance_scaling: unknown mode", got=repr(mode), fix=str([*_MEANS]))
    if distribution not in _DISTRIBUTIONS:
        raise ArgumentError(
            "variance_scaling: unknown distribution",
            got=repr(distribution),
            fix=str(_DISTRIBUTIONS),
        )

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Array:
        sizes, asked = checked_shape("variance_scaling", shape), _dtype_of(dtype)
        count = _MEANS[mode](*_sizes(sizes, in_axis, out_axis, batch_axis))
        variance = jnp.asarray(scale / count, asked)
        if distribution == "normal":
            return product(random.normal(key, sizes, asked), jnp.sqrt(variance))
        if distribution == "uniform":
            return uniform_weights(key, sizes, asked, variance)
        return truncated_weights(key, sizes, asked, variance)

    return init


def _scaled(scale: float, mode: str, distribution: str, source: str) -> Callable[[_F], _F]:
    """What makes of a signature and a summary a maker of :func:`variance_scaling` initializers."""

    def decorate(template: _F) -> _F:
        name = template.__name__

        def make(
            in_axis: Axes = -2,
            out_axis: Axes = -1,
            batch_axis: Axes = (),
            dtype: DTypeLike | None = None,
        ) -> Initializer:
            return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

        make.__name__ = make.__qualname__ = name
        make.__doc__ = f"""{template.__doc__}

    ``variance_scaling({scale}, {mode!r}, {distribution!r})``.  Source: {source}

    Args:
      in_axis, out_axis: the axes of inputs and of outputs.
      batch_axis: axes that do not count.
      dtype: the dtype of arrays for which none is asked; the default float if omitted.

    Returns:
      A function ``init(key, shape, dtype)``.

    Raises:
      ShapeError: from the initializer, for a shape without these axes.
      DTypeError: from the initializer, for other dtypes, and what is no key.

    >>> from functrax import nn, random
    >>> nn.initializers.{name}()(random.key(0), (2, 3)).shape
    (2, 3)
    """
        return cast(_F, make)

    return decorate


_GLOROT = "Glorot, Bengio, AISTATS 2010; also called Xavier."
_LECUN = "LeCun et al., Efficient BackProp, 1998."
_HE = "He et al., arXiv:1502.01852; also called Kaiming."


@_scaled(1.0, "fan_avg", "uniform", _GLOROT)
def glorot_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None
) -> Initializer:
    """Uniform numbers of variance ``2 / (inputs + outputs)``."""


@_scaled(1.0, "fan_avg", "truncated_normal", _GLOROT)
def glorot_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None
) -> Initializer:
    """Normal numbers, cut off at two deviations, of variance ``2 / (inputs + outputs)``."""


@_scaled(1.0, "fan_in", "uniform", _LECUN)
def lecun_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None
) -> Initializer:
    """Uniform numbers of variance ``1 / inputs``."""


@_scaled(1.0, "fan_in", "truncated_normal", _LECUN)
def lecun_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None
) -> Initializer:
    """Normal numbers, cut off at two deviations, of variance ``1 / inputs``."""


@_scaled(2.0, "fan_in", "uniform", _HE)
def he_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None
) -> Initializer:
    """Uniform numbers of variance ``2 / inputs``."""


@_scaled(2.0, "fan_in", "truncated_normal", _HE)
def he_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None
) -> Initializer:
    """Normal numbers, cut off at two deviations, of variance ``2 / inputs``."""


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """An initializer with orthogonal matrices, all as likely (Saxe et al., arXiv:1312.6120).

    The axis ``column_axis`` is that of the columns; the others together are that of the rows.  An
    oblong matrix has orthonormal rows or columns, whichever are fewer.

    Args:
      scale: what the matrices are multiplied by.
      column_axis: the axis of the columns.
      dtype: the dtype of arrays for which none is asked; the default float if omitted.

    Returns:
      A function ``init(key, shape, dtype)``.

    Raises:
      ShapeError: from the initializer, for a shape of fewer than two axes.
      AxisError: from the initializer, for a shape without the axis.

    >>> import functrax, functrax.numpy as jnp
    >>> w = functrax.nn.initializers.orthogonal()(functrax.random.key(0), (2, 3))
    >>> jnp.allclose(w @ w.T, jnp.eye(2), atol=1e-6)
    Array(True, dtype=bool)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Array:
        sizes, asked = checked_shape("orthogonal", shape), _dtype_of(dtype)
        ndim = len(sizes)
        if ndim < 2:
            raise ShapeError(
                "orthogonal: weights need an axis of rows and one of columns",
                got=f"shape {sizes}",
                fix="a shape of two axes or more",
            )
        if not -ndim <= column_axis < ndim:
            raise AxisError(
                "orthogonal: no such axis",
                got=f"column_axis {column_axis} of shape {sizes}",
                fix=f"an axis from {-ndim} to {ndim - 1}",
            )
        if not math.prod(sizes):
            return as_array(jnp.zeros(sizes, asked))
        axis = column_axis % ndim
        rows, columns = sizes[:axis] + sizes[axis + 1 :], sizes[axis]
        matrix: Any = random.orthogonal(key, math.prod(rows), (), asked, columns)
        weights = jnp.moveaxis(matrix.reshape((*rows, columns)), -1, axis)
        return product(jnp.asarray(scale, asked), weights)

    return init


def delta_orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """An initializer for convolutions that preserve norms (Xiao et al., arXiv:1806.05393).

    The kernel is zero but for its centre, which is a matrix of :func:`orthogonal`.

    Args:
      scale, column_axis: as for :func:`orthogonal`.
      dtype: the dtype of arrays for which none is asked; the default float if omitted.

    Returns:
      A function ``init(key, shape, dtype)``.

    Raises:
      ShapeError: from the initializer, unless the shape has one, two or three axes of space, and
        then one of inputs and one of outputs, which is not the smaller.

    >>> import functrax
    >>> init = functrax.nn.initializers.delta_orthogonal()
    >>> bool((init(functrax.random.key(0), (3, 4, 4))[0] == 0).all())
    True
    """

    def init(key: Any, shape: Any, dtype: Any = dtype) -> Array:
        sizes, asked = checked_shape("delta_orthogonal", shape), _dtype_of(dtype)
        if len(sizes) not in (3, 4, 5):
            raise ShapeError(
                "delta_orthogonal: weights have axes of space, 1 to 3, of inputs, and of outputs",
                got=f"shape {sizes}",
                fix="a shape of 3, 4 or 5 axes",
            )
        if sizes[-1] < sizes[-2]:
            raise ShapeError(
                "delta_orthogonal: fewer outputs than inputs cannot preserve norms",
                got=f"shape {sizes}, with {sizes[-2]} inputs and {sizes[-1]} outputs",
                fix="at least as many outputs as inputs",
            )
        matrix = orthogonal(scale, column_axis)(key, sizes[-2:], asked)
        if not math.prod(sizes):
            return as_array(jnp.zeros(sizes, asked))
        centre = tuple((n - 1) // 2 for n in sizes[:-2])
        empty: Any = jnp.zeros(sizes, asked)
        return as_array(empty.at[centre].set(matrix))

    return init


__dir__ = _listing(globals())
