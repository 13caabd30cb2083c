"""What ``functrax.lax`` computes, by loops over NumPy arrays, and derivatives by differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrax import lax
from functrax.transforms.differentiation.derivatives import grad, jvp


def tap_index(place: int, tap: int, size: int, axis: tuple[int, int, int, int]) -> int | None:
    """The element under a tap of a window, or None in the padding."""
    stride, low, base, dilation = axis
    spot = place * stride + tap * dilation - low
    if spot % base or not 0 <= spot // base < size:
        return None
    return spot // base


def out_size(size: int, window: int, low: int, high: int, axis: tuple[int, int, int, int]) -> int:
    """How many windows fit, counted one by one."""
    stride, _, base, dilation = axis
    room = (size - 1) * base + 1 + low + high if size else low + high
    span = (window - 1) * dilation + 1
    return len([at for at in range(0, room, stride) if at + span <= room])


def conv_oracle(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
    batch_groups: int = 1,
) -> np.ndarray:
    """A convolution in NC..., OI..., NC... layout."""
    rows = list(zip(strides, (low for low, _ in padding), base, dilation, strict=True))
    spatial = x.shape[2:]
    out_spatial = [
        out_size(n, k, *pads, row)
        for n, k, pads, row in zip(spatial, w.shape[2:], padding, rows, strict=True)
    ]
    out = np.zeros((x.shape[0] // batch_groups, w.shape[0], *out_spatial))
    per_group, batch = w.shape[0] // (groups * batch_groups), out.shape[0]
    for n, o, *place in itertools.product(*map(range, out.shape)):
        group = o // per_group
        for i, *tap in itertools.product(*map(range, w.shape[1:])):
            at = [tap_index(*args) for args in zip(place, tap, spatial, rows, strict=True)]
            if None in at:
                continue
            feature = i + (group * w.shape[1] if groups > 1 else 0)
            example = n + (group * batch if batch_groups > 1 else 0)
            out[(n, o, *place)] += x[(example, feature, *at)] * w[(o, i, *tap)]
    return out


def window_oracle(
    x: np.ndarray,
    op: Callable[[Any, Any], Any],
    init: Any,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base: Sequence[int],
    dilation: Sequence[int],
) -> np.ndarray:
    """A windowed reduction; the padding is left out."""
    rows = list(zip(strides, (low for low, _ in padding), base, dilation, strict=True))
    shape = [
        out_size(n, k, *pads, row)
        for n, k, pads, row in zip(x.shape, window, padding, rows, strict=True)
    ]
    out = np.full(shape, init, x.dtype)
    for place in itertools.product(*map(range, shape)):
        for tap in itertools.product(*map(range, window)):
            at = tuple(tap_index(*args) for args in zip(place, tap, x.shape, rows, strict=True))
            if None not in at:
                out[place] = op(out[place], x[at])
    return out


def check_derivatives(
    function: Callable[..., Any], *args: np.ndarray, seed: int = 0, tol: float = 2e-6
) -> None:
    """Compare first and second derivatives with central differences; needs x64.

    The sine makes the second derivative of a linear function one that can be wrong.
    """
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=np.shape(function(*args)))

    def loss(*xs: Any) -> Any:
        y = lax.mul(lax.sin(function(*xs)), weights)
        return lax.reduce_sum(y, range(y.ndim))

    argnums = tuple(range(len(args)))
    directions, others = ([rng.normal(size=a.shape) for a in args] for _ in range(2))

    def along(*xs: Any) -> Any:
        parts = [
            lax.reduce_sum(lax.mul(g, d), range(g.ndim))
            for g, d in zip(grad(loss, argnums)(*xs), others, strict=True)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = lax.add(total, part)
        return total

    for derived, of in ((loss, "first"), (along, "second")):
        (_, forward), step = jvp(derived, args, tuple(directions)), 1e-5
        ahead, behind = (
            float(derived(*(a + s * step * d for a, d in zip(args, directions, strict=True))))
            for s in (1, -1)
        )
        expected = (ahead - behind) / (2 * step)
        assert abs(float(forward) - expected) <= tol * max(1.0, abs(expected)), of
    reverse = sum(
        float(np.sum(np.asarray(g) * d))
        for g, d in zip(grad(loss, argnums)(*args), directions, strict=True)
    )
    _, forward = jvp(loss, args, tuple(directions))
    np.testing.assert_allclose(reverse, float(forward), rtol=1e-9, atol=1e-9)
