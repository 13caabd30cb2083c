"""Convolutions, made of the meta-operators: reindex, broadcast, multiply, sum.

A convolution is a sum of products over one iteration space, whose axes are those of the result and
then those that are summed: the input features and the window.  The array is spread over it by an
affine index map (``place*stride + tap*dilation - padding``; out of bounds it is 0), the kernel by a
broadcast.  So derivatives to any order are those of the three meta-operators, and devices
recognise the whole as a convolution and store none of its parts.

Groups split the feature axis of the result in two, group and feature within the group, so that
no index map divides; only a dilated array (a transposed convolution) does.

Start at :func:`conv_general_dilated`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.index.expr import Condition, Dim, IndexExpr
from functrax.core.index.map import IndexMap
from functrax.core.prims import mapped
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.reindex import broadcast_in_dim, reshape, rev, transpose_
from functrax.core.records import record
from functrax.core.tracing.primitive import Value, like
from functrax.lax.conv_numbers import (
    ConvDimensionNumbers,
    ConvGeneralDilatedDimensionNumbers,
    conv_dimension_numbers,
)
from functrax.lax.dot import in_sum_dtype, sum_product
from functrax.lax.operands import Shape, as_ints, check_same_dtype, value_of
from functrax.lax.precision import (
    PrecisionLike,
    asks_for_precision,
    check_precision,
    with_precision,
)
from functrax.lax.window_shapes import WindowAxis, dilated, transposed_padding, window_axes
from functrax.typing import ArrayLike, DTypeLike


@with_out_sharding
def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """A convolution (strictly a cross-correlation: the kernel is not flipped), of any rank.

    Args:
      lhs: an array with a batch, a feature and any number of spatial axes.
      rhs: a kernel of the same dtype with output and input features and as many spatial axes.
      window_strides: for each spatial axis how far apart neighbouring windows are.
      padding: ``"SAME"``, ``"SAME_LOWER"``, ``"VALID"``, or a pair ``(low, high)`` for each axis.
      lhs_dilation: for each spatial axis the distance of the array's elements; above 1 it is a
        transposed convolution.
      rhs_dilation: for each spatial axis the distance of the kernel's elements.
      dimension_numbers: the layouts; see :func:`conv_dimension_numbers`.
      feature_group_count: into how many groups the features are split; the kernel's input
        features are those of one group.
      batch_group_count: into how many groups batch and output features are split.
      precision: accepted as in jax.lax.
      preferred_element_type: the dtype in which to add up, and of the result.

    Returns:
      An array with a batch, a feature and spatial axes in the layout asked for.

    Raises:
      ShapeError: if features or groups do not fit.
      ArgumentError: if strides, padding, dilations or layouts are not understood.
      DTypeError: if the dtypes differ.

    >>> import numpy as np
    >>> from functrax import lax
    >>> x = np.arange(5.0).reshape(1, 1, 5)
    >>> lax.conv_general_dilated(x, np.ones((1, 1, 3)), (1,), "VALID")
    Array([[[3., 6., 9.]]], dtype=float32)
    """
    name = "conv_general_dilated"
    x, w = value_of(name, lhs), value_of(name, rhs)
    check_precision(name, precision, x.aval.dtype, w.aval.dtype)
    numbers = conv_dimension_numbers(x.aval.shape, w.aval.shape, dimension_numbers)
    if isinstance(padding, str) and lhs_dilation is not None and set(lhs_dilation) - {1}:
        raise ArgumentError(
            f"{name}: padding by name is ambiguous with a dilated array",
            got=f"padding {padding!r} with lhs_dilation {tuple(lhs_dilation)}",
            fix="pairs (low, high), or lax.conv_transpose",
        )
    shape, window = (
        tuple(v.aval.shape[a] for a in spec[2:])
        for v, spec in ((x, numbers.lhs_spec), (w, numbers.rhs_spec))
    )
    axes = window_axes(name, shape, window, window_strides, padding, lhs_dilation, rhs_dilation)
    _check_groups(name, x, w, numbers, feature_group_count, batch_group_count)
    check_same_dtype(name, (x, w), "convert one with lax.convert_element_type")
    x, w, narrow = in_sum_dtype(name, x, w, x.aval.dtype, preferred_element_type)
    if asks_for_precision(precision):
        x, w = with_precision(precision, x, w)
    layout = ConvDimensionNumbers(*map(tuple, numbers))
    groups = (feature_group_count, batch_group_count)
    space = _space(x.aval.shape, w.aval.shape, layout, tuple(axes), *groups)
    out = sum_product(mul.bind(space.spread_array(x), space.spread_kernel(w)), space.summed, narrow)
    return reshape.bind(out, shape=space.out_shape())


def _check_groups(
    name: str, x: Value, w: Value, numbers: ConvDimensionNumbers, groups: int, batch_groups: int
) -> None:
    batch, features = (x.aval.shape[a] for a in numbers.lhs_spec[:2])
    made, taken = (w.aval.shape[a] for a in numbers.rhs_spec[:2])
    counts = f"feature_group_count {groups}, batch_group_count {batch_groups}"
    if groups < 1 or batch_groups < 1 or (groups > 1 and batch_groups > 1):
        raise ArgumentError(
            f"{name}: group counts are at least 1, and not both above 1",
            got=counts,
            fix="feature_group_count or batch_group_count, the other left at 1",
        )
    if features != taken * groups or made % groups or made % batch_groups or batch % batch_groups:
        raise ShapeError(
            f"{name}: features, batch and groups do not fit together",
            got=f"array {x.aval.str_short()} of {features} features and batch {batch}, kernel "
            f"{w.aval.str_short()} from {taken} to {made} features, {counts}",
            fix="array features = kernel input features x feature_group_count; output features "
            "and batch divisible by the group counts",
        )


@record
class _Space:
    """The iteration space of a convolution, and where each of its axes is.

    ``features`` is where the result's feature axis stands, or the pair of axes (group, feature in
    the group) if there are groups; ``places`` are the result's spatial axes, ``taps`` those of the
    window.
    """

    numbers: ConvDimensionNumbers
    axes: tuple[WindowAxis, ...]
    shape: Shape
    batch: int
    features: tuple[int, ...]
    places: tuple[int, ...]
    taken: int
    taps: tuple[int, ...]
    feature_groups: int
    batch_groups: int

    @property
    def summed(self) -> Shape:
        """The axes that are summed."""
        return (self.taken, *self.taps)

    def out_shape(self) -> Shape:
        """The result's shape, with group and feature in one axis."""
        shape = list(self.shape[: self.taken])
        if len(self.features) == 2:
            group, feature = self.features
            shape[group : feature + 1] = [shape[group] * shape[feature]]
        return tuple(shape)

    def spread_array(self, x: Value) -> Value:
        """The array's element at each point, and 0 in the padding."""
        return mapped.reindex.bind(x, map=_array_map(self, x.aval.shape), fill=like(x, 0))

    def spread_kernel(self, w: Value) -> Value:
        """The kernel's element at each point."""
        made, taken, *spatial = self.numbers.rhs_spec
        dims = dict(zip((taken, *spatial), (self.taken, *self.taps), strict=True))
        order: list[int] = []
        for k in range(w.aval.ndim):
            order.extend(self.features if k == made else (dims[k],))
        if len(self.features) == 2:
            group, feature = self.features
            shape = w.aval.shape
            split = (self.shape[group], self.shape[feature])
            w = reshape.bind(w, shape=(*shape[:made], *split, *shape[made + 1 :]))
        return broadcast_in_dim.bind(w, shape=self.shape, dims=tuple(order))


@functools.lru_cache(maxsize=1024)
def _array_map(space: _Space, shape: Shape) -> IndexMap:
    """The map from points of the space to elements of the array."""
    batch: IndexExpr = Dim(space.batch)
    taken: IndexExpr = Dim(space.taken)
    if space.batch_groups > 1:
        batch = Dim(space.features[0]) * space.shape[space.batch] + batch
    if space.feature_groups > 1:
        taken = Dim(space.features[0]) * space.shape[space.taken] + taken
    exprs = dict(zip(space.numbers.lhs_spec, (batch, taken)))
    conditions: list[Condition] = []
    spatial = zip(space.axes, space.places, space.taps, space.numbers.lhs_spec[2:], strict=True)
    for axis, place, tap, where in spatial:
        exprs[where], holding = axis.index(Dim(place), Dim(tap))
        conditions.extend(holding)
    ordered = tuple(exprs[k] for k in range(len(exprs)))
    return IndexMap(space.shape, shape, ordered, tuple(conditions))


@functools.lru_cache(maxsize=1024)
def _space(
    lhs_shape: Shape,
    rhs_shape: Shape,
    numbers: ConvDimensionNumbers,
    axes: tuple[WindowAxis, ...],
    feature_groups: int,
    batch_groups: int,
) -> _Space:
    made = rhs_shape[numbers.rhs_spec[0]]
    groups = feature_groups * batch_groups
    parts: list[tuple[str | int, int]] = []  # what each axis is, and its size
    for where in range(len(lhs_shape)):
        role = tuple(numbers.out_spec).index(where)
        if role == 0:
            parts.append(("batch", lhs_shape[numbers.lhs_spec[0]] // batch_groups))
        elif role > 1:
            parts.append((role - 2, axes[role - 2].out))
        else:
            if groups > 1:
                parts.append(("group", groups))
            parts.append(("feature", made // groups))
    rank = len(parts)
    where_is = {what: k for k, (what, _) in enumerate(parts)}
    taken = rhs_shape[numbers.rhs_spec[1]]
    return _Space(
        numbers=numbers,
        axes=axes,
        shape=(*(n for _, n in parts), taken, *(axis.window for axis in axes)),
        batch=where_is["batch"],
        features=tuple(where_is[f] for f in ("group", "feature") if f in where_is),
        places=tuple(where_is[k] for k in range(len(axes))),
        taken=rank,
        taps=tuple(range(rank + 1, rank + 1 + len(axes))),
        feature_groups=feature_groups,
        batch_groups=batch_groups,
    )


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """A convolution in ``NC...``, ``OI...`` layout; see :func:`conv_general_dilated`.

    Args:
      lhs: ``(batch, features, *spatial)``.
      rhs: a kernel ``(output features, input features, *window)`` of the same dtype.
      window_strides: how far apart windows are, for each spatial axis.
      padding: ``"SAME"``, ``"SAME_LOWER"`` or ``"VALID"``.
      precision: accepted as in jax.lax.
      preferred_element_type: the dtype in which to add up, and of the result.

    Returns:
      ``(batch, output features, *spatial)``.

    Raises:
      ShapeError, ArgumentError, DTypeError: as :func:`conv_general_dilated`.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.conv(np.arange(4.0).reshape(1, 1, 4), np.ones((1, 1, 2)), (2,), "VALID")
    Array([[[1., 5.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """A convolution in ``NC...``, ``OI...`` layout; see :func:`conv_general_dilated`.

    Args:
      lhs: ``(batch, features, *spatial)``.
      rhs: a kernel ``(output features, input features, *window)`` of the same dtype.
      window_strides: how far apart windows are, for each spatial axis.
      padding: a name, or a pair ``(low, high)`` for each spatial axis.
      lhs_dilation: for each spatial axis the distance of the array's elements; None for 1.
      rhs_dilation: for each spatial axis the distance of the kernel's elements; None for 1.
      precision: accepted as in jax.lax.
      preferred_element_type: the dtype in which to add up, and of the result.

    Returns:
      ``(batch, output features, *spatial)``.

    Raises:
      ShapeError, ArgumentError, DTypeError: as :func:`conv_general_dilated`.

    >>> import numpy as np
    >>> from functrax import lax
    >>> x, w = np.arange(4.0).reshape(1, 1, 4), np.ones((1, 1, 2))
    >>> lax.conv_with_general_padding(x, w, (1,), [(1, 0)], None, (2,))
    Array([[[1., 2., 4.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


_TRANSPOSED_LAYOUTS = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Array:
    """A fractionally strided convolution, which makes arrays larger by the strides.

    Args:
      lhs: an array with a batch, a feature and spatial axes.
      rhs: a kernel.
      strides: for each spatial axis the distance of the array's elements in the result.
      padding: ``"SAME"`` or ``"VALID"``, those of the strided convolution that this goes back
        from; or pairs, which pad the dilated array.
      rhs_dilation: for each spatial axis the distance of the kernel's elements.
      dimension_numbers: the layouts; ``NHWC``, ``HWIO``, ``NHWC`` if omitted.
      transpose_kernel: flip the kernel's spatial axes and exchange its features, which makes this
        the transpose of the convolution with the same kernel.
      precision: accepted as in jax.lax.
      preferred_element_type: the dtype in which to add up, and of the result.
      use_consistent_padding: whether pairs too are those of the strided convolution.

    Returns:
      An array with a batch, a feature and spatial axes in the layout asked for.

    Raises:
      ShapeError, ArgumentError, DTypeError: as :func:`conv_general_dilated`.

    >>> import numpy as np
    >>> from functrax import lax
    >>> x, w = np.array([[[1.0], [2.0]]]), np.ones((2, 1, 1))
    >>> lax.conv_transpose(x, w, (2,), "SAME").ravel()
    Array([1., 1., 2., 2.], dtype=float32)
    """
    x, w = value_of("conv_transpose", lhs), value_of("conv_transpose", rhs)
    if dimension_numbers is None:
        dimension_numbers = _TRANSPOSED_LAYOUTS.get(x.aval.ndim)
        if dimension_numbers is None:
            raise ArgumentError(
                "conv_transpose: no default layout for this rank",
                got=x.aval.str_short(),
                fix="dimension_numbers=(...)",
            )
    numbers = conv_dimension_numbers(x.aval.shape, w.aval.shape, dimension_numbers)
    made, taken, *spatial = numbers.rhs_spec
    steps = as_ints("conv_transpose", strides, "strides")
    dilation = (1,) * len(spatial) if rhs_dilation is None else tuple(rhs_dilation)
    if isinstance(padding, str) or use_consistent_padding:
        each = [padding] * len(steps) if isinstance(padding, str) else padding
        spans = [dilated(w.aval.shape[a], d) for a, d in zip(spatial, dilation, strict=True)]
        padding = [transposed_padding(k, s, p) for k, s, p in zip(spans, steps, each, strict=True)]
    if transpose_kernel:
        flipped = rev.bind(w, axes=tuple(spatial))
        perm = list(range(w.aval.ndim))
        perm[made], perm[taken] = taken, made
        w = transpose_(flipped, tuple(perm))
    return conv_general_dilated(
        x,
        w,
        (1,) * len(steps),
        padding,
        steps,
        dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
