"""A sum of products multiplied out: its terms, and what their factors read.

A :class:`Term` is ``coefficient * factor * factor ...``.  A :class:`Factor` is a value and a
*view*, the index map that leads from the iteration space to it; factors that read the same value
in the same way are equal.  All views are zero where their maps are not valid, so they compose.

Start at :class:`Term`; :func:`read_through` is how far views go.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functrax.backends.passes.clean.compose import named_step, without_implied
from functrax.backends.passes.contractions.layouts import RepeatLayout, through
from functrax.backends.reference import strided
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Literal, Var
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reindex import Reindex, map_of
from functrax.core.tracing.primitive import Primitive
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

#: The equations of values that need not be stored: views, and products.
Producers: TypeAlias = Mapping[Atom, Eqn]


class Factor(NamedTuple):
    """A value as a product sees it.

    Args:
      value: what is read.
      view: which element of it belongs to a point of the iteration space.
      layout: what there is of it in memory.
    """

    value: Atom
    view: IndexMap
    layout: RepeatLayout

    @property
    def used(self) -> tuple[int, ...]:
        """The axes of the iteration space along which it differs."""
        return self.layout.used

    @property
    def distinct(self) -> int:
        """How many elements of it there are in memory, at most."""
        return self.layout.distinct

    def viewed(self, view: IndexMap) -> Factor:
        """The factor of a view of its product."""
        return Factor(self.value, composed(view, self.view), through(view, self.layout))


class Term(NamedTuple):
    """``coefficient`` times the product of ``factors``."""

    coefficient: Any
    factors: tuple[Factor, ...]


def coefficient(value: Any, dtype: np.dtype[Any]) -> Any:
    """A scalar in which coefficients are multiplied: wide for floats, wrapping for integers."""
    if dtypes.is_integer(dtype):
        return dtype.type(value)
    return np.complex128(value) if dtypes.is_complex(dtype) else np.float64(value)


def of_arrays(terms: Sequence[Term], producers: Producers) -> list[Term]:
    """The terms as they read arrays, through views; equal products are one term."""
    found: dict[frozenset[tuple[Factor, int]], Term] = {}
    for number, factors in terms:
        read = [Factor(*read_through(f.value, f.view, producers), f.layout) for f in factors]
        key = frozenset([(f, read.count(f)) for f in read]) if len(terms) > 1 else frozenset()
        if key in found:
            with np.errstate(all="ignore"):
                number, read = found[key].coefficient + number, [*found[key].factors]
        found[key] = Term(number, tuple(read))
    return list(found.values())


def is_part_of_sides(eqn: Eqn) -> bool:
    """Whether kernels compute an equation's result while they read a side of a contraction.

    Contractions of complex numbers are those of real ones, whose sides are evaluated part by part
    (``gemm/complex_parts.py``).  So ``x.conj() @ y`` is one kernel, and its transposes are.
    """
    aval = eqn.outvars[0].aval
    return eqn.primitive.by_parts and type(eqn.invars[0]) is Var and dtypes.is_complex(aval.dtype)


def read_through(x: Atom, view: IndexMap, producers: Producers) -> tuple[Atom, IndexMap]:
    """What is read in the end, and how, if ``x`` is read through a view.

    A window is read of an array: where one would be read of another view, that is copied.
    """
    while (eqn := producers.get(x)) is not None and isinstance(eqn.primitive, Reindex):
        further = composed(view, map_of(eqn))
        if not fills_zeros(eqn) or (_is_strided(view) and _is_strided(further) is False):
            break
        x, view = eqn.invars[0], further
    return x, view


def fills_zeros(eqn: Eqn) -> bool:
    """Whether a view is zero where its map is not valid."""
    return "fill" not in eqn.params or not np.any(eqn.params["fill"].val)


@functools.lru_cache(maxsize=8192)
def composed(outer: IndexMap, inner: IndexMap) -> IndexMap:
    """The view of a view."""
    return without_implied(outer.compose(inner))


def _is_strided(view: IndexMap) -> bool | None:
    """Whether a view is strides of an array; None for the views with names, which are cheap."""
    step = step_of(view, dtypes.float32)
    if step is None or step[0] is not reindex:
        return None
    return strided.window_of(view) is not None


@functools.lru_cache(maxsize=2048)
def step_of(
    view: IndexMap, dtype: np.dtype[Any]
) -> tuple[Primitive, tuple[tuple[str, Any], ...]] | None:
    """A view of values of a dtype as a primitive with parameters; None for the identity."""
    if view.is_identity:
        return None
    fill = Literal(0, ShapedArray((), dtype))
    primitive, params = named_step(view, fill) or (reindex, {"map": view, "fill": fill})
    return primitive, tuple(params.items())
