"""Where the boxes of a picture of a graph go: in layers, every edge downwards.

The method is Sugiyama's: the layer of a box is the length of the longest way to it; an edge that
skips layers gets a *bend* in each; boxes and bends of a layer are ordered by the mean place of
their neighbours, a few times up and down; then each is put as near to that mean as the others let
it.

Start at :func:`layered`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from functrax.core.records import record

Node: TypeAlias = Hashable
Point: TypeAlias = tuple[float, float]

_SWEEPS = 6
_BEND = 10.0  # the width that an edge takes when it passes a layer


@record
class DrawingLayout:
    """Places of boxes and edges.

    Args:
      width: of the picture.
      height: of the picture.
      boxes: the upper left corner of each box.
      edges: for each edge the points that it goes through: from the box down to the end of its
        layer, then to the next layer, and so on to the other box.
      labels: for each edge the upper left corner of its label, between the layer that it comes from
        and the next.
    """

    width: float
    height: float
    boxes: Mapping[Node, Point]
    edges: tuple[tuple[Point, ...], ...]
    labels: tuple[Point, ...]


def layered(
    sizes: Mapping[Node, tuple[float, float]],
    edges: Sequence[tuple[Node, Node]],
    labels: Sequence[tuple[float, float]],
    gap_x: float = 30.0,
    gap_y: float = 30.0,
) -> DrawingLayout:
    """Lay a graph out.

    Args:
      sizes: width and height of each box, in an order in which every edge goes forwards.
      edges: pairs of boxes.
      labels: width and height of the label of each edge, zeros where it has none.
      gap_x: room between neighbours.
      gap_y: room between layers, beside that of the labels.
    """
    layer_of = _layers(sizes, edges)
    layers: list[list[Node]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for node, k in layer_of.items():
        layers[k].append(node)
    chains = [_chain(number, edge, layer_of, layers) for number, edge in enumerate(edges)]
    links = [link for chain in chains for link in pairwise(chain)]
    widths = {n: sizes[n][0] if n in sizes else _BEND for layer in layers for n in layer}
    _order(layers, links)
    centres = _centres(layers, links, widths, gap_x)
    heights = [max((sizes[n][1] for n in layer if n in sizes), default=0.0) for layer in layers]
    gaps = [gap_y] * len(layers)
    for (a, _), (_, height) in zip(edges, labels):
        gaps[layer_of[a]] = max(gaps[layer_of[a]], gap_y + height)
    tops = [sum(heights[:k]) + sum(gaps[:k]) for k in range(len(layers))]
    boxes = {n: (centres[n] - sizes[n][0] / 2, tops[layer_of[n]]) for n in sizes}
    level = {n: k for k, layer in enumerate(layers) for n in layer}
    paths = []
    for chain in chains:
        first, *bends, last = chain
        k = layer_of[first]
        bottoms = [boxes[first][1] + sizes[first][1], tops[k] + heights[k]]
        points = [(centres[first], y) for y in bottoms]
        for b in bends:
            top = tops[level[b]]
            points += [(centres[b], top), (centres[b], top + heights[level[b]])]
        paths.append((*points, (centres[last], boxes[last][1])))
    corners = _corners([layer_of[a] for a, _ in edges], paths, labels)
    right = [centres[n] + widths[n] / 2 for n in centres]
    right += [x + width for (x, _), (width, _) in zip(corners, labels)]
    height = tops[-1] + heights[-1] if layers else 0.0
    return DrawingLayout(max(right, default=0.0), height, boxes, tuple(paths), tuple(corners))


def _corners(
    layers: Sequence[int], paths: Sequence[Sequence[Point]], labels: Sequence[tuple[float, float]]
) -> list[Point]:
    """Where labels go: at the middle of the first gap of their edge, beside one another.

    Args:
      layers: the layer that each edge comes from.
      paths: the points of each edge.
      labels: width and height of each label.
    """
    corners = [
        ((p[1][0] + p[2][0]) / 2 + 5, (p[1][1] + p[2][1] - height) / 2)
        for p, (_, height) in zip(paths, labels)
    ]
    rows: dict[int, list[int]] = {}
    for k in sorted(range(len(corners)), key=lambda k: corners[k][0]):
        if labels[k][0]:
            rows.setdefault(layers[k], []).append(k)
    widths: dict[Node, float] = {k: width for k, (width, _) in enumerate(labels)}
    for row in rows.values():
        centres: dict[Node, float] = {}
        _pack(row, [corners[k][0] + widths[k] / 2 for k in row], widths, _BEND, centres)
        outside = min(0.0, centres[row[0]] - widths[row[0]] / 2)
        for k in row:
            corners[k] = centres[k] - widths[k] / 2 - outside, corners[k][1]
    return corners


def _layers(nodes: Mapping[Node, object], edges: Sequence[tuple[Node, Node]]) -> dict[Node, int]:
    """The longest way to each node; a source stands just above what uses it."""
    before: dict[Node, list[Node]] = {n: [] for n in nodes}
    after: dict[Node, list[Node]] = {n: [] for n in nodes}
    for a, b in edges:
        before[b].append(a)
        after[a].append(b)
    layer: dict[Node, int] = {}
    for n in nodes:
        layer[n] = max((layer[m] + 1 for m in before[n]), default=0)
    for n in reversed(list(nodes)):
        if not before[n] and after[n]:
            layer[n] = min(layer[m] for m in after[n]) - 1
    return layer


def _chain(
    number: int, edge: tuple[Node, Node], layer_of: Mapping[Node, int], layers: list[list[Node]]
) -> list[Node]:
    """The nodes that an edge goes through, its bends among them."""
    a, b = edge
    bends: list[Node] = [(number, k) for k in range(layer_of[a] + 1, layer_of[b])]
    for k, bend in enumerate(bends, layer_of[a] + 1):
        layers[k].append(bend)
    return [a, *bends, b]


def _order(layers: list[list[Node]], links: Sequence[tuple[Node, Node]]) -> None:
    """Order each layer by the mean place of its neighbours above, then below, and again."""
    up, down = _neighbours(links)
    for sweep in range(_SWEEPS):
        place = {n: float(i) for layer in layers for i, n in enumerate(layer)}
        neighbours = down if sweep % 2 else up
        for layer in reversed(layers) if sweep % 2 else layers:
            layer.sort(key=lambda n: _mean([place[m] for m in neighbours.get(n, ())], place[n]))
            place.update((n, float(i)) for i, n in enumerate(layer))


def _neighbours(
    links: Sequence[tuple[Node, Node]],
) -> tuple[dict[Node, list[Node]], dict[Node, list[Node]]]:
    up: dict[Node, list[Node]] = {}
    down: dict[Node, list[Node]] = {}
    for a, b in links:
        up.setdefault(b, []).append(a)
        down.setdefault(a, []).append(b)
    return up, down


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _centres(
    layers: Sequence[Sequence[Node]],
    links: Sequence[tuple[Node, Node]],
    widths: Mapping[Node, float],
    gap: float,
) -> dict[Node, float]:
    """The horizontal places: in order, without overlap, near to the neighbours."""
    up, down = _neighbours(links)
    centre: dict[Node, float] = {}
    for layer in layers:
        _pack(layer, [0.0] * len(layer), widths, gap, centre)
    for sweep in range(_SWEEPS):
        neighbours = down if sweep % 2 else up
        for layer in reversed(layers) if sweep % 2 else layers:
            wanted = [_mean([centre[m] for m in neighbours.get(n, ())], centre[n]) for n in layer]
            _pack(layer, wanted, widths, gap, centre)
    left = min((centre[n] - widths[n] / 2 for n in centre), default=0.0)
    return {n: x - left for n, x in centre.items()}


def _pack(
    layer: Sequence[Node],
    wanted: Sequence[float],
    widths: Mapping[Node, float],
    gap: float,
    centre: dict[Node, float],
) -> None:
    """Put nodes in order at the places they want, pushed apart; the mean push is taken back."""
    places: list[float] = []
    end = float("-inf")
    for node, x in zip(layer, wanted):
        half = widths[node] / 2
        places.append(max(x, end + half))
        end = places[-1] + half + gap
    shift = _mean([x - p for x, p in zip(wanted, places)], 0.0)
    centre.update((n, p + shift) for n, p in zip(layer, places))
