"""Explanations as pictures: SVG, written by ourselves.

Each program of groups is a graph: a box for each kernel with its equations inside, dashed boxes for
calls and control flow, edges with the bytes of the value that crosses and the rule that keeps its
ends apart.  Programs inside loops and branches stand below.

Start at :func:`explanation_svg`.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

from functrax.core.ir.jaxpr import Eqn, Var
from functrax.core.ir.printing import variable_names
from functrax.core.records import record
from functrax.explanation.layout import Node, Point, layered
from functrax.explanation.record import Edge, Explanation, KernelFacts, ProgramLevel
from functrax.explanation.tables import quantity, size, times

_CHARACTER, _LINE, _PAD = 6.7, 15.0, 8.0  # of 11 px type
_MOST_EQNS, _MOST_CHARACTERS, _MOST_VALUES, _MARGIN = 8, 52, 4, 14.0
_LABEL_LINE = 13.0
#: The rules name the picture's class: a style inside a page holds for the whole page.
_STYLE: Final = """\
.functrax-plan text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#1b1f24}
.functrax-plan .paper{fill:#ffffff}
.functrax-plan .behind{fill:#ffffff;fill-opacity:.8}
.functrax-plan .head{font-weight:bold}
.functrax-plan .small{fill:#57606a}
.functrax-plan .why{fill:#b42318}
.functrax-plan .kernel{fill:#e8f1fd;stroke:#3b6fb6}
.functrax-plan .call{fill:#fdf3e1;stroke:#b6803b;stroke-dasharray:5 3}
.functrax-plan .value{fill:#f3f4f6;stroke:#8b949e}
.functrax-plan .edge{fill:none;stroke:#57606a}
.functrax-plan .apart{fill:none;stroke:#b42318}
.functrax-plan .tip{fill:#57606a}
@media (prefers-color-scheme:dark){
.functrax-plan text{fill:#e3e8ee}
.functrax-plan .paper,.functrax-plan .behind{fill:#14171b}
.functrax-plan .small{fill:#a9b4c0}
.functrax-plan .why{fill:#ff9d92}
.functrax-plan .kernel{fill:#15273d;stroke:#6aa3e0}
.functrax-plan .call{fill:#33270f;stroke:#d2a15a}
.functrax-plan .value{fill:#22272e;stroke:#8b949e}
.functrax-plan .edge{stroke:#a9b4c0}
.functrax-plan .apart{stroke:#ff9d92}
.functrax-plan .tip{fill:#a9b4c0}
}"""
_TIP: Final = (
    '<defs><marker id="functrax-tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
)


@record
class _Box:
    """A box: its class, lines of text with theirs, and the element of a page that it stands for."""

    kind: str
    lines: tuple[tuple[str, str], ...]
    about: str = ""

    @property
    def size(self) -> tuple[float, float]:
        longest = max((len(text) for _, text in self.lines), default=0)
        return longest * _CHARACTER + 2 * _PAD, len(self.lines) * _LINE + 2 * _PAD - 3

    def svg(self, corner: Point) -> list[str]:
        (x, y), (width, height) = corner, self.size
        out = [
            f'<rect class="{self.kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="5"/>'
        ]
        for k, (style, text) in enumerate(self.lines):
            place = y + _PAD + _LINE * k + 10
            out.append(_text(x + _PAD, place, text, style))
        return out


def explanation_svg(e: Explanation, linked: bool = False) -> str:
    """The picture of an explanation, as the text of an SVG file.

    Args:
      e: the explanation.
      linked: whether boxes and labels lead to the kernels and tables of the page that it is in.
    """
    parts: list[str] = []
    width, y = 0.0, _MARGIN
    for level in e.levels:
        title = level.title or e.name
        calls = "" if level.calls == 1 else f", run {level.calls or '?'} times"
        parts.append(_text(_MARGIN, y + 10, title + calls, "head"))
        body, (w, h) = _level_svg(e, level, linked)
        name = f' id="level-{level.number}"' if linked else ""
        parts.append(f'<g{name} transform="translate({_MARGIN:.0f} {y + 24:.1f})">')
        parts += [*body, "</g>"]
        width = max(width, w + 2 * _MARGIN, len(title) * _CHARACTER + 2 * _MARGIN)
        y += 24 + h + 30
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="functrax-plan" width="{width:.0f}" '
            f'height="{y:.0f}" viewBox="0 0 {width:.0f} {y:.0f}">',
            f"<title>{escape(e.name)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="paper" x="0" y="0" width="{width:.0f}" height="{y:.0f}"/>',
            _TIP,
            *parts,
            "</svg>",
        ]
    )


def _level_svg(
    e: Explanation, level: ProgramLevel, linked: bool
) -> tuple[list[str], tuple[float, float]]:
    jaxpr = level.jaxpr
    names = variable_names(jaxpr)
    boxes: dict[Node, _Box] = {}
    used = {x for eqn in jaxpr.eqns for x in eqn.invars}.union(jaxpr.outvars)
    for v in jaxpr.invars:
        if v in used:
            boxes[v] = _value_box(v, names)
    for place, eqn in enumerate(jaxpr.eqns):
        boxes[place] = _eqn_box(e, level, place, eqn)
    made = {v: place for place, eqn in enumerate(jaxpr.eqns) for v in eqn.outvars}
    labels = _labels(e, level, made, names)
    for k, x in enumerate(jaxpr.outvars):
        if isinstance(x, Var):
            boxes["out", k] = _Box("value", (("small", f"result {k}"),))
            text = f"{names[x]}:{x.aval.str_short()}" if x in made else ""
            labels[made.get(x, x), ("out", k)] = _Label((text,) if text else ())
    sizes = {n: b.size for n, b in boxes.items()}
    layout = layered(sizes, list(labels), [x.size for x in labels.values()])
    out = [_edge_svg(path, label) for label, path in zip(labels.values(), layout.edges)]
    for label, corner in zip(labels.values(), layout.labels):
        out += _linked(label.about if linked else "", label.svg(corner))
    for node, box in boxes.items():
        out += _linked(box.about if linked else "", box.svg(layout.boxes[node]))
    return out, (layout.width, layout.height)


@record
class _Label:
    """What an edge says.

    Args:
      values: the values that take it, with their bytes.
      codes: the rules that keep its ends apart.
      reasons: the rules in sentences.
      about: the row of a page's table that says so.
    """

    values: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    about: str = ""

    def also(self, edge: Edge) -> _Label:
        """The label with one value more."""
        reasons = (*self.reasons, f"{edge.value}: {edge.reason}")
        codes = tuple(dict.fromkeys((*self.codes, edge.code)))
        values = (*self.values, f"{edge.value} {size(edge.nbytes)}")
        return _Label(values, codes, reasons, edge_anchor(edge))

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The lines with their classes, the first values only where there are many."""
        shown = list(self.values)
        if len(shown) > _MOST_VALUES:
            shown[_MOST_VALUES - 1 :] = [f"and {len(shown) - _MOST_VALUES + 1} values more"]
        return [("small", text) for text in shown] + [("why", text) for text in self.codes]

    @property
    def size(self) -> tuple[float, float]:
        longest = max((len(text) for _, text in self.lines), default=0)
        return longest * _CHARACTER, len(self.lines) * _LABEL_LINE

    def svg(self, corner: Point) -> list[str]:
        if not self.lines:
            return []
        (x, y), (width, height) = corner, self.size
        out = [
            f'<rect class="behind" x="{x - 2:.1f}" y="{y:.1f}" width="{width + 2:.1f}" '
            f'height="{height:.1f}"/>'
        ]
        for k, (kind, text) in enumerate(self.lines):
            out.append(_text(x, y + _LABEL_LINE * k + 10, text, kind))
        return out


def _labels(
    e: Explanation, level: ProgramLevel, made: Mapping[Var, int], names: Mapping[Var, str]
) -> dict[tuple[Node, Node], _Label]:
    """The edges into equations, one for each pair of boxes, and what they say."""
    labels: dict[tuple[Node, Node], _Label] = {}
    for place, eqn in enumerate(level.jaxpr.eqns):
        for x in eqn.invars:
            if isinstance(x, Var):
                labels[made.get(x, x), place] = _Label()
    for edge in e.edges:
        if edge.level == level.number:
            ends = (edge.source, edge.target)
            labels[ends] = labels[ends].also(edge)
    return labels


def _value_box(v: Var, names: Mapping[Var, str]) -> _Box:
    nbytes = v.aval.size * v.aval.dtype.itemsize
    return _Box("value", (("", f"{names[v]}:{v.aval.str_short()}"), ("small", size(nbytes))))


def _eqn_box(e: Explanation, level: ProgramLevel, place: int, eqn: Eqn) -> _Box:
    kernels = [k for k in e.kernels if (k.level, k.place) == (level.number, place)]
    if len(kernels) == 1:
        return _kernel_box(kernels[0])
    if kernels:
        lines = [("small", f"#{k.number} {k.name}") for k in kernels]
        head = ("head", f"{eqn.params.get('name', '')} in parts")
        return _Box("call", (head, *lines), f"kernel-{kernels[0].number}")
    inside = [x for x in e.levels if x.within == (level.number, place)]
    titles = [("small", f"{x.title}, below") for x in inside]
    about = f"level-{inside[0].number}" if inside else ""
    return _Box("call", (("head", eqn.primitive.name), *titles), about)


def _kernel_box(k: KernelFacts) -> _Box:
    head = f"#{k.number} {k.name}"
    moved = f"reads {size(k.bytes_read)}, writes {size(k.bytes_written)}"
    work = f"{quantity(k.flops + k.transcendentals)}flop"
    lines = [("head", head), ("small", f"{moved}, {work}")]
    if k.measured is not None and k.gigabytes_per_second is not None:
        lines.append(
            ("small", f"{k.measured.seconds * 1e6:.2f} us, {k.gigabytes_per_second:.1f} GB/s")
        )
    if k.kind == "kernel":
        often = {x.eqn: f"{times(x)} x " for x in k.recomputed}
        lines += [("", _short(x, often.get(x, ""))) for x in k.eqns[:_MOST_EQNS]]
        if len(k.eqns) > _MOST_EQNS:
            lines.append(("small", f"and {len(k.eqns) - _MOST_EQNS} equations more"))
    return _Box(k.kind, tuple(lines), f"kernel-{k.number}")


def _short(eqn: Eqn, often: str) -> str:
    """An equation in a line: how often it is computed, what it makes, and of what type."""
    results = " ".join(v.aval.str_short() for v in eqn.outvars)
    where = "" if eqn.source is None else f"  # {eqn.source}"
    text = f"{often}{results} = {eqn.primitive.name}{where}"
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def _edge_svg(path: tuple[Point, ...], label: _Label) -> str:
    """The line of an edge; its reasons show when the mouse is over it."""
    (x, y), *rest = path
    d = [f"M{x:.1f} {y:.1f}"]
    for u, v in rest:
        middle = (y + v) / 2
        d.append(f"C{x:.1f} {middle:.1f} {u:.1f} {middle:.1f} {u:.1f} {v:.1f}")
        x, y = u, v
    style = "apart" if label.codes else "edge"
    title = "\n".join(map(escape, label.reasons))
    inside = f"<title>{title}</title>" if title else ""
    return f'<path class="{style}" d="{"".join(d)}" marker-end="url(#functrax-tip)">{inside}</path>'


def edge_anchor(edge: Edge) -> str:
    """What a page calls the values that go from one equation to another."""
    return f"edge-{edge.level}-{edge.source}-{edge.target}"


def _linked(about: str, parts: list[str]) -> list[str]:
    return [f'<a href="#{about}">', *parts, "</a>"] if about and parts else parts


def _text(x: float, y: float, text: str, style: str) -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind} xml:space="preserve">{escape(text)}</text>'
