"""Resizing and shifting images of any rank: ``resize``, ``scale_and_translate``.

Resampling is separable, so along each axis it is a product with a matrix of weights
(:func:`_weights`): how much each input pixel counts for each output pixel.  The weights come from
a kernel, a function of the distance between the pixels' centres.  Centres are at half-integers:
output pixel ``i`` has its centre at input position ``(i + 0.5 - translation) / scale``.

Start at :func:`_weights`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from functrax import lax, numpy as jnp
from functrax.backends.eager.cached_traces import with_long_recipe
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.types import dtypes
from functrax.numpy.axes import integer
from functrax.numpy.promote import inexact, promote_dtypes
from functrax.typing import ArrayLike

if TYPE_CHECKING:
    from functrax.lax.precision import PrecisionLike

Kernel: TypeAlias = Callable[[Any], Any]


class ResizeMethod(enum.Enum):
    """How pixels between the given ones are found.

    ``NEAREST`` takes the nearest pixel, ``LINEAR`` interpolates, ``CUBIC`` is Keys' cubic
    convolution with parameter -1/2 (IEEE ASSP 29(6), 1981), ``CUBIC_PYTORCH`` is that too, but
    without antialiasing has the parameter -3/4 and repeats the pixels of the edge, ``LANCZOS3``
    and ``LANCZOS5`` are windowed sincs, ``AREA`` averages over the area of a pixel.
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of that name.

        Raises:
          ArgumentError: if there is none; it is a ValueError.
        """
        found = _NAMES.get(s)
        if found is None:
            raise ArgumentError(
                "resize: there is no such method", got=repr(s), fix=", ".join(map(repr, _NAMES))
            )
        return found


_NAMES: Final[dict[str, ResizeMethod]] = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}


def _triangle(x: Any) -> Any:
    return jnp.maximum(1 - x, 0)


def _cubic(a: float) -> Kernel:
    """Keys' piecewise cubic with the parameter ``a``, for distances ``x >= 0``."""

    def kernel(x: Any) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return jnp.where(x < 1, near, jnp.where(x < 2, far, 0))

    return kernel


def _lanczos(radius: float) -> Kernel:
    """``sinc(x) sinc(x / radius)`` up to ``radius``."""

    def kernel(x: Any) -> Any:
        return jnp.where(x > radius, 0, jnp.sinc(x) * jnp.sinc(x / radius))

    return kernel


_KERNELS: Final[dict[ResizeMethod, Kernel]] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
    ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _cubic(-0.75),
}
_PYTORCH_RADIUS = 2  # how far its kernel reaches beyond the edge


@with_long_recipe
def resize(
    image: ArrayLike,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: PrecisionLike = lax.Precision.HIGHEST,
) -> Array:
    """An image, of any rank, at another size.

    Args:
      image: an array.
      shape: the new shape, of as many axes; an axis that keeps its size is not touched.
      method: a :class:`ResizeMethod` or its name: ``"nearest"``, ``"linear"``, ``"bilinear"``,
        ``"trilinear"``, ``"triangle"``, ``"cubic"``, ``"bicubic"``, ``"tricubic"``,
        ``"cubic-pytorch"``, ``"bicubic-pytorch"``, ``"lanczos3"``, ``"lanczos5"``, ``"area"``.
      antialias: whether the kernel grows when the image shrinks, so that every pixel counts.
      precision: of the products.

    Returns:
      An array of the given shape, of the image's dtype, or a float if that is no float and the
      method is not ``"nearest"``.

    Raises:
      ShapeError: if ``shape`` does not have the image's number of axes.
      ArgumentError: if there is no such method.

    Example:
      >>> resize(jnp.array([0.0, 3.0]), (4,), "linear")
      Array([0.  , 0.75, 2.25, 3.  ], dtype=float32)
    """
    x, sizes = _checked("resize", image, shape)
    chosen = ResizeMethod.from_string(method) if isinstance(method, str) else method
    axes = [d for d, size in enumerate(sizes) if size != x.shape[d]]
    if chosen is ResizeMethod.NEAREST:
        return _nearest(x, sizes, axes)
    (x,) = promote_dtypes("resize", x, kind=inexact)
    scale = [sizes[d] / x.aval.shape[d] if sizes[d] else 1.0 for d in axes]
    shift = [0.0] * len(axes)
    return _resample(x, sizes, axes, scale, shift, chosen, antialias, precision)


@with_long_recipe
def scale_and_translate(
    image: ArrayLike,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: PrecisionLike = lax.Precision.HIGHEST,
) -> Array:
    """An image scaled and moved: what was at position ``p`` is at ``p * scale + translation``.

    Output pixels whose place in the input is outside the image are zero.  Derivatives exist with
    respect to the image, the scale and the translation.

    Args:
      image: an array.
      shape: the shape of the result, of as many axes.
      spatial_dims: the axes that are scaled and moved; the others keep their sizes.
      scale: for each of them a factor, ``[k]``.
      translation: for each of them a distance in output pixels, ``[k]``.
      method: as of :func:`resize`, but not ``"nearest"``.
      antialias: as of :func:`resize`.
      precision: as of :func:`resize`.

    Returns:
      An array of that shape, of floats or complex numbers.

    Raises:
      ShapeError: if ``shape``, ``scale`` or ``translation`` have a wrong number of entries.
      ArgumentError: if there is no such method.

    Example:
      >>> moved = scale_and_translate(
      ...     jnp.arange(4.0), (4,), (0,), jnp.ones(1), jnp.ones(1), "linear")
      >>> moved
      Array([0., 0., 1., 2.], dtype=float32)
    """
    x, sizes = _checked("scale_and_translate", image, shape)
    chosen = ResizeMethod.from_string(method) if isinstance(method, str) else method
    if chosen is ResizeMethod.NEAREST:
        raise ArgumentError(
            "scale_and_translate: the nearest pixel has no weights",
            got="ResizeMethod.NEAREST",
            fix="resize, or another method",
        )
    (x,) = promote_dtypes("scale_and_translate", x, kind=inexact)
    scales, shifts = promote_dtypes(
        "scale_and_translate", jnp.asarray(scale), jnp.asarray(translation), kind=inexact
    )
    axes = [d % len(sizes) for d in spatial_dims]
    if not scales.aval.shape == shifts.aval.shape == (len(axes),):
        raise ShapeError(
            "scale_and_translate: there is one scale and one translation for each axis",
            got=f"scale {scales.aval.str_short()}, translation {shifts.aval.str_short()}",
            fix=f"two arrays of shape ({len(axes)},)",
        )
    return _resample(x, sizes, axes, scales, shifts, chosen, antialias, precision)


def _checked(name: str, image: Any, shape: Sequence[int]) -> tuple[Any, tuple[int, ...]]:
    x, sizes = jnp.asarray(image), tuple(integer(name, "a size", n) for n in shape)
    if len(sizes) != x.ndim:
        raise ShapeError(
            f"{name}: the shape does not have the image's number of axes",
            got=f"shape {sizes} for {x.aval.str_short()}",
            fix="one size for each axis, also for those that stay",
        )
    return x, sizes


def _nearest(x: Any, sizes: Sequence[int], axes: Sequence[int]) -> Any:
    for d in axes:
        centres = jnp.arange(sizes[d], dtype=np.float32) + np.float32(0.5)
        positions = jnp.floor(centres * np.float32(x.shape[d]) / np.float32(sizes[d]))
        x = jnp.take(x, positions.astype(dtypes.position_dtype(x.shape[d])), axis=d, mode="clip")
    return x


def _resample(
    x: Any,
    sizes: Sequence[int],
    axes: Sequence[int],
    scale: Any,
    shift: Any,
    method: ResizeMethod,
    antialias: bool,
    precision: Any,
) -> Any:
    """One product with a matrix of weights along each of ``axes``."""
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        method = ResizeMethod.CUBIC
    for k, d in enumerate(axes):
        if method is ResizeMethod.AREA:
            w = _overlaps(x.shape[d], sizes[d], scale[k], shift[k])
        elif method is ResizeMethod.CUBIC_PYTORCH:
            w = _edge_weights(x.shape[d], sizes[d], scale[k], shift[k])
        else:
            w = _weights(x.shape[d], sizes[d], scale[k], shift[k], _KERNELS[method], antialias)
        product = jnp.tensordot(x, w.astype(x.dtype), axes=((d,), (0,)), precision=precision)
        x = jnp.moveaxis(product, -1, d)
    return x


def _weights(
    inputs: int, outputs: int, scale: Any, shift: Any, kernel: Kernel, antialias: bool
) -> Any:
    """How much each input pixel counts for each output pixel, ``[inputs, outputs]``."""
    step = 1.0 / scale
    width = jnp.maximum(step, 1.0) if antialias else 1.0
    centres = _centres(outputs, step, shift)
    distance = jnp.abs(centres[None, :] - jnp.arange(inputs, dtype=centres.dtype)[:, None])
    return _valid(_normalized(kernel(distance / width)), centres, inputs)


def _edge_weights(inputs: int, outputs: int, scale: Any, shift: Any) -> Any:
    """Weights of ``CUBIC_PYTORCH``, as if the pixels at the edges went on beyond them."""
    centres = _centres(outputs, 1.0 / scale, shift)
    places = np.arange(-_PYTORCH_RADIUS, inputs + _PYTORCH_RADIUS)
    distance = jnp.abs(centres[None, :] - places.astype(centres.dtype)[:, None])
    weights = _KERNELS[ResizeMethod.CUBIC_PYTORCH](distance)
    gathered = jnp.zeros((inputs, outputs), centres.dtype)
    return _normalized(gathered.at[np.clip(places, 0, inputs - 1)].add(weights))


def _overlaps(inputs: int, outputs: int, scale: Any, shift: Any) -> Any:
    """Weights of ``AREA``: the length that both pixels have in common."""
    step = 1.0 / scale
    centres = _centres(outputs, step, shift)
    # Not from the centres: so written, pixels that meet do so exactly, and share the derivative.
    start = (jnp.arange(outputs, dtype=centres.dtype) - shift) * step
    pixel = jnp.arange(inputs, dtype=centres.dtype)[:, None]
    common = jnp.minimum(start + step, pixel + 1) - jnp.maximum(start, pixel)
    return _valid(_normalized(jnp.maximum(common, 0)), centres, inputs)


def _centres(outputs: int, step: Any, shift: Any) -> Any:
    """The index, no integer, of the input pixel under the centre of each output pixel."""
    dtype = jnp.result_type(step, shift, float)
    return (jnp.arange(outputs, dtype=dtype) + 0.5 - shift) * step - 0.5


def _normalized(weights: Any) -> Any:
    """Weights that add up to one for each output pixel, or are zero where they nearly vanish."""
    total = jnp.sum(weights, axis=0, keepdims=True)
    enough = jnp.abs(total) > 1000.0 * float(np.finfo(np.float32).eps)
    return jnp.where(enough, weights / jnp.where(total != 0, total, 1), 0)


def _valid(weights: Any, centres: Any, inputs: int) -> Any:
    """Zero for output pixels whose centres are outside the image."""
    inside = (centres >= -0.5) & (centres <= inputs - 0.5)
    return jnp.where(inside[None, :], weights, 0)
