"""Which specialisation an index map is: identity, transpose, broadcast, slice, reverse, pad, …

What enters: a map's data (:class:`functrax.core.index.map_form.MapForm`).  What leaves: the
parameters of the specialisation, or None.  Recognition looks at what the map does, not at how it
was made: a composition of two transposes is recognised as one.  Like every proof it may miss, never
mistake.

Start at :func:`describe`.
"""

from __future__ import annotations

from dataclasses import replace

from functrax.core.index.expr import Dim, FloorDiv
from functrax.core.index.map_form import MapForm, Shape, pad_parts, size_of
from functrax.core.index.proofs import contiguous, in_bounds


def is_identity(form: MapForm) -> bool:
    """Whether every point means itself."""
    return as_transpose(form) == tuple(range(len(form.domain)))


def as_transpose(form: MapForm) -> Shape | None:
    """``perm`` such that domain dimension ``k`` is codomain dimension ``perm[k]``."""
    if form.conditions or len(form.domain) != len(form.codomain):
        return None
    perm: dict[int, int] = {}
    for j, expr in enumerate(form.exprs):
        if isinstance(expr, Dim):
            perm[expr.number] = j
    # Dimensions of size 0 and 1 are written as 0: they go, in order, where the size is the same.
    for j, expr in enumerate(form.exprs):
        if expr.as_int() == 0 and form.codomain[j] <= 1:
            free = (k for k, n in enumerate(form.domain) if k not in perm and n == form.codomain[j])
            perm.setdefault(next(free, len(form.domain)), j)
    fits = len(perm) == len(form.domain) and all(
        k < len(form.domain) and form.domain[k] == form.codomain[j] for k, j in perm.items()
    )
    return tuple(perm[k] for k in range(len(form.domain))) if fits else None


def as_broadcast(form: MapForm) -> Shape | None:
    """``dims`` (increasing) such that codomain dimension ``j`` is domain dimension ``dims[j]``.

    Codomain dimensions of size 1 may be repeated, as in ``broadcast_in_dim``.
    """
    if form.conditions:
        return None
    dims: list[int] = []
    for expr, size in zip(form.exprs, form.codomain, strict=True):
        after = dims[-1] + 1 if dims else 0
        if isinstance(expr, Dim):
            axis = expr.number
        elif expr.as_int() == 0 and size <= 1:
            places = range(after, len(form.domain))
            axis = next((k for k in places if size or not form.domain[k]), -1)
        else:
            return None
        if not after <= axis < len(form.domain) or size not in (1, form.domain[axis]):
            return None
        dims.append(axis)
    return tuple(dims)


def as_slice(form: MapForm) -> tuple[Shape, Shape] | None:
    """``(start, stride)`` per dimension of a slice inside the array; strides may be negative."""
    if form.conditions or len(form.domain) != len(form.codomain) or not in_bounds(form):
        return None
    starts, strides = [], []
    for k, expr in enumerate(form.exprs):
        if len(expr.terms) > 1 or (expr.terms and expr.terms[0][0] != Dim(k)):
            return None
        if not expr.terms and form.domain[k] > 1:
            return None
        starts.append(expr.const)
        strides.append(expr.terms[0][1] if expr.terms else 1)
    return tuple(starts), tuple(strides)


def as_reverse(form: MapForm) -> Shape | None:
    """The axes (of size over 1) that are reversed, when nothing else happens."""
    parts = as_slice(form)
    if parts is None or form.domain != form.codomain:
        return None
    if any(abs(stride) != 1 for stride in parts[1]):
        return None
    return tuple(k for k, stride in enumerate(parts[1]) if stride < 0)


def is_reshape(form: MapForm) -> bool:
    """Whether every point means the element at its own row-major position, and all occur."""
    return size_of(form.domain) == size_of(form.codomain) and contiguous(form)


def as_pad(form: MapForm) -> tuple[Shape, Shape, Shape] | None:
    """``(low, high, interior)`` of a padding, as XLA's Pad."""
    if form.loads_mask() or len(form.domain) != len(form.codomain):
        return None
    lows, highs, gaps = [], [], []
    for k, (expr, extent, size) in enumerate(
        zip(form.exprs, form.domain, form.codomain, strict=True)
    ):
        atom, coef = expr.terms[0] if expr.terms else (Dim(k), 1)
        low, step = -expr.const, 1
        if isinstance(atom, FloorDiv):
            low, step = -atom.expr.const - expr.const * atom.divisor, atom.divisor
        if coef != 1 or len(expr.terms) > 1:
            return None
        lows.append(low)
        gaps.append(step - 1)
        highs.append(extent - low - (size + (size - 1) * (step - 1) if size else 0))
    exprs, conditions = pad_parts(tuple(lows), tuple(gaps))
    if replace(form, exprs=exprs, conditions=conditions) != form:
        return None
    return tuple(lows), tuple(highs), tuple(gaps)


def describe(form: MapForm) -> str:
    """The narrowest name for the map.

    Returns:
      ``identity``, ``reshape``, ``transpose``, ``reverse``, ``slice``, ``broadcast``, ``pad``,
      ``gather`` (extra operands are read) or ``reindex`` (none of these).
    """
    if form.loads_mask():
        return "gather"
    if is_identity(form):
        return "identity"
    if is_reshape(form):
        return "reshape"
    tests = {
        "transpose": as_transpose,
        "reverse": as_reverse,
        "slice": as_slice,
        "broadcast": as_broadcast,
        "pad": as_pad,
    }
    return next((name for name, test in tests.items() if test(form) is not None), "reindex")
