"""Explanations as HTML, for notebooks: the picture, the tables, and every stage to unfold.

Start at :func:`explanation_html`.
"""

from __future__ import annotations

from html import escape

from functrax.explanation.drawing import explanation_svg
from functrax.explanation.record import Explanation
from functrax.explanation.tables import explanation_text


def explanation_html(e: Explanation) -> str:
    """An explanation as a piece of HTML, without scripts."""
    parts = [
        f"<div><b>{escape(e.name)}</b>",
        f'<div style="overflow:auto">{explanation_svg(e)}</div>',
        _folded("tables", explanation_text(e), opened=True),
        _folded("the program as traced", str(e.source)),
    ]
    for step in e.passes:
        if step.after is not step.before:
            title = f"after {step.name}: {step.rewrites} rewrites, {step.milliseconds:.2f} ms"
            parts.append(_folded(title, str(step.after)))
    parts.append(_folded("memory", e.memory_plan))
    for kernel in e.kernels:
        if kernel.codes:
            parts.append(_folded(f"loops of #{kernel.number} {kernel.name}", kernel.loops))
            parts.append(_folded(f"LLVM IR of #{kernel.number} {kernel.name}", kernel.llvm))
            if e.compiled.target.warp:
                parts.append(_folded(f"PTX of #{kernel.number} {kernel.name}", kernel.assembly))
    return "\n".join([*parts, "</div>"])


def _folded(title: str, text: str, opened: bool = False) -> str:
    state = " open" if opened else ""
    return f"<details{state}><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"
