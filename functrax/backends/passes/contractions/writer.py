"""Writes equations of passes over sums of products, views among them.

Start at :class:`ViewWriter`.
"""

from __future__ import annotations

from functrax.backends.passes.contractions.terms import step_of
from functrax.backends.passes.writer import EquationWriter
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom


class ViewWriter(EquationWriter):
    """Writes equations, views of values too."""

    def view(self, x: Atom, view: IndexMap) -> Atom:
        """A value through a view."""
        step = step_of(view, x.aval.dtype)
        if step is None:
            return x
        return self.add(step[0], (x,), dict(step[1]), x.aval.update(shape=view.domain))
