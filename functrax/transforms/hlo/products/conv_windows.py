"""Windows: how XLA writes them, and pooling, a reduction of what windows show.

Start at :func:`window_reduction`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from functrax.core.types.aval import ShapedArray
from functrax.transforms.hlo.computations.computation import Computation, Node, Shape
from functrax.transforms.hlo.computations.views import NodeView
from functrax.transforms.hlo.products.factors import AxisWindow, Labels, labels_of_map


def window_reduction(
    w: Computation, view: NodeView, axes: Sequence[int], start: Node, combiner: Computation
) -> Node | None:
    """A reduction of an array that is read by windows; None for other arrays.

    Args:
      w: the computation to write in.
      view: of the array; the space is what is reduced.
      axes: the axes of the space that are reduced.
      start: the identity of the operation, a scalar, which is what windows see in the padding.
      combiner: the operation.
    """
    if view.map is None or 0 in (*view.map.domain, *view.base.shape):
        return None
    space = view.map.domain
    found = labels_of_map(view.map, axes, ())
    if found is None or not any(isinstance(x, AxisWindow) for axis in found for x in axis):
        return None
    windows = [_as_window(axis, axes) for axis in found]
    shown = {x for window in windows for x in (window.place, window.tap)}
    if any(n != 1 and d not in shown for d, n in enumerate(space)):
        return None
    taps = [1 if x.tap is None else space[x.tap] for x in windows]
    places = [1 if x.place is None else space[x.place] for x in windows]
    out = w.op(
        "reduce-window",
        ShapedArray(tuple(places), view.base.dtype),
        view.base,
        start,
        window=window_text(windows, view.base.shape, taps, places, turned=False),
        to_apply=combiner,
    )
    return _ordered(w, out, windows, [d for d in range(len(space)) if d not in axes], space)


def _as_window(axis: Labels, axes: Sequence[int]) -> AxisWindow:
    """A window over an axis; of a whole axis with one place for each element, or in all."""
    if axis and isinstance(axis[0], AxisWindow):
        return axis[0]
    label = axis[0] if axis else None
    assert not isinstance(label, AxisWindow)
    return (
        AxisWindow(None, label, 1, 1, 1, 0)
        if label in axes
        else AxisWindow(label, None, 1, 1, 1, 0)
    )


def _ordered(
    w: Computation, x: Node, windows: Sequence[AxisWindow], kept: Sequence[int], space: Shape
) -> Node:
    """An axis for each label that is kept, in order."""
    labels = [window.place for window in windows if window.place is not None]
    narrow = w.reshape(x, tuple(space[label] for label in labels))
    turned = w.transpose(narrow, sorted(range(len(labels)), key=labels.__getitem__))
    return w.reshape(turned, tuple(space[d] for d in kept))


def window_text(
    windows: Sequence[AxisWindow],
    arrays: Sequence[int],
    taps: Sequence[int],
    results: Sequence[int],
    turned: bool = True,
) -> str:
    """Sizes, strides, padding and dilations; those that are 1 everywhere are left out.

    Args:
      windows: one for each axis.
      arrays: the sizes of the array's axes.
      taps: the sizes of the windows.
      results: the sizes of the result's axes.
      turned: whether the order of taps matters.
    """
    size: list[int] = []
    stride: list[int] = []
    pad: list[tuple[int, int]] = []
    base: list[int] = []
    dilation: list[int] = []
    reversal: list[int] = []
    for x, n, tap_count, out in zip(windows, arrays, taps, results, strict=True):
        step = abs(x.dilation)
        first = x.offset + (x.dilation * (tap_count - 1) if x.dilation < 0 else 0)
        reach = (out - 1) * x.stride + (tap_count - 1) * step + 1
        size.append(tap_count)
        stride.append(x.stride)
        pad.append((-first, reach + first - ((n - 1) * x.base + 1)))
        base.append(x.base)
        dilation.append(step)
        reversal.append(int(turned and x.dilation < 0 and tap_count > 1))
    parts = [f"size={_joined(size)}"]
    if any(s != 1 for s in stride):
        parts.append(f"stride={_joined(stride)}")
    if any(p != (0, 0) for p in pad):
        parts.append(f"pad={_joined(f'{low}_{high}' for low, high in pad)}")
    for name, values, default in (
        ("lhs_dilate", base, 1),
        ("rhs_dilate", dilation, 1),
        ("rhs_reversal", reversal, 0),
    ):
        if any(v != default for v in values):
            parts.append(f"{name}={_joined(values)}")
    return f"{{{' '.join(parts)}}}"


def _joined(values: Iterable[Any]) -> str:
    return "x".join(map(str, values))
