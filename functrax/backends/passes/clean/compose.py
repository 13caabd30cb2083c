"""Composition of index maps: a chain of reindexes becomes one.

What enters is a program in which a transpose, a reshape, a slice, a padding, a reversal, a
broadcast or a general reindex is applied to the result of another.  What leaves applies one reindex
to the source, of the most specific primitive that expresses it; where that is the identity, none.
So ``x.T.T`` vanishes, and a reshape before a broadcast is a broadcast.

Two maps compose where one fill value will do: one of them reads no fill, or both fill with the same
number (``IndexMap.compose``).  A result that is none of the named reindexes is kept as a general
one only if that is a strided view of its (padded) operand, or if one of the two was no view before.
What two reindexes make of each other depends on parameters and the operand's type alone, and is
remembered.

Start at :func:`compose`; :func:`compose_steps` is what two reindexes make of each other.
"""

from __future__ import annotations

import functools
from typing import Any

from functrax.backends.passes.inner import renamed, with_eqns, with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.reference import strided
from functrax.core.index.expr import Condition, Dim
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reindex import (
    Reindex,
    Reindexing,
    broadcast_in_dim,
    reshape,
    rev,
    transpose,
)
from functrax.core.prims.slicing import concatenate, pad, slice_
from functrax.core.records import replace
from functrax.core.tracing.primitive import Primitive
from functrax.core.types.aval import ShapedArray

Params = tuple[tuple[str, Any], ...]
#: A primitive with its parameters; None for the identity.
Step = tuple[Primitive, dict[str, Any]] | None


def compose(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program in which no reindex is applied to what another one gave."""
    made: dict[Atom, Eqn] = {}
    env: dict[Atom, Atom] = {}
    eqns: list[Eqn] = []
    for old in jaxpr.eqns:
        eqn = renamed(old, env)
        if not isinstance(eqn.primitive, Reindexing):
            eqns.append(with_programs(eqn, lambda inner: compose(inner, rewrites)))
            continue
        new = _composed(eqn, made, rewrites)
        if type(new) is Eqn:
            made[eqn.outvars[0]] = new
            eqns.append(new)
        else:
            env[eqn.outvars[0]] = new
    return with_eqns(jaxpr, eqns, env)


def _composed(eqn: Eqn, made: dict[Atom, Eqn], rewrites: Rewrites) -> Any:
    """The equation that stands for a reindex: itself, another, or a variable in its place."""
    if not isinstance(eqn.primitive, Reindex):
        return eqn
    if eqn.primitive is reindex and len(eqn.invars) == 1:
        eqn = _specialised(eqn, rewrites)
    source = made.get(eqn.invars[0])
    if source is None:
        return eqn
    if source.primitive is concatenate:
        return _part_of_concatenation(eqn, source, rewrites)
    if not isinstance(source.primitive, Reindex):
        return eqn
    if len(source.invars) > 1 and (len(eqn.invars) > 1 or _repeats(eqn)):
        return eqn
    found = compose_steps(
        source.primitive,
        tuple(source.params.items()),
        eqn.primitive,
        tuple(eqn.params.items()),
        source.invars[0].aval,
    )
    if found is APART:
        return eqn
    x = source.invars[0]
    if found is None:
        return x if rewrites.allow("undoes the one before", eqn) else eqn
    if not rewrites.allow(f"with the {source.primitive.name} before", eqn):
        return eqn
    primitive, params = found
    operands = (x, *eqn.invars[1:], *source.invars[1:])
    return Eqn(primitive, operands, eqn.outvars, params, eqn.source)


def _repeats(eqn: Eqn) -> bool:
    """Whether a reindex is a broadcast that repeats elements.

    What was looked up in an array and is repeated stays a value: a product with it is recognised as
    a sum of products then, and no element is looked up again and again.
    """
    return eqn.primitive is broadcast_in_dim and bool(
        eqn.outvars[0].aval.size != eqn.invars[0].aval.size
    )


def _specialised(eqn: Eqn, rewrites: Rewrites) -> Eqn:
    """A general reindex as the primitive that it is, if it is one."""
    found = named_step(eqn.params["map"], eqn.params["fill"])
    if found is None or not rewrites.allow(f"is a {found[0].name}", eqn):
        return eqn
    return Eqn(found[0], eqn.invars, eqn.outvars, found[1], eqn.source)


def _part_of_concatenation(eqn: Eqn, source: Eqn, rewrites: Rewrites) -> Any:
    """A slice that lies within one of the operands of a concatenation is a slice of that."""
    if eqn.primitive is not slice_:
        return eqn
    axis = source.params["axis"]
    start, limit = eqn.params["start"], eqn.params["limit"]
    begin = 0
    for x in source.invars:
        end = begin + x.aval.shape[axis]
        if begin <= start[axis] <= limit[axis] <= end:
            break
        begin = end
    else:
        return eqn
    moved = {
        "start": tuple([n - begin if k == axis else n for k, n in enumerate(start)]),
        "limit": tuple([n - begin if k == axis else n for k, n in enumerate(limit)]),
        "strides": eqn.params["strides"],
    }
    if not rewrites.allow("of one operand of the concatenation before", eqn):
        return eqn
    whole = slice_.simplify(x, **moved)
    return x if whole is not None else Eqn(slice_, (x,), eqn.outvars, moved, eqn.source)


#: Two steps that do not become one.
APART: Any = object()


@functools.lru_cache(maxsize=8192)
def compose_steps(
    inner: Primitive,
    inner_params: Params,
    outer: Primitive,
    outer_params: Params,
    aval: ShapedArray,
) -> Any:
    """The :data:`Step` for two, from an operand of a type; ``APART`` if they stay two."""
    first, second = dict(inner_params), dict(outer_params)
    simple = _simply(inner, first, outer, second)
    if simple is not APART:
        return simple
    assert isinstance(inner, Reindex)
    assert isinstance(outer, Reindex)
    g = inner.index_map(aval, **first)
    f = outer.index_map(aval.update(shape=g.domain), **second)
    fill = _common_fill(f, second.get("fill"), g, first.get("fill"))
    if fill is APART or 0 in f.domain or 0 in g.codomain:
        return APART
    composed = without_implied(f.compose(g))
    if composed.is_identity:
        return None
    if fill is None:
        fill = Literal(0, ShapedArray((), aval.dtype))
    general = reindex, {"map": composed, "fill": fill}
    if composed.num_loads:
        return general
    found = named_step(composed, fill)
    if found is not None:
        return found
    was_view = not (_copies(inner, first) or _copies(outer, second))
    return APART if was_view and strided.window_of(composed) is None else general


def without_implied(index_map: IndexMap) -> IndexMap:
    """The map without conditions that hold wherever its indices are inside the codomain."""

    def implied(condition: Condition) -> bool:
        for expr, size in zip(index_map.exprs, index_map.codomain):
            above, below = (condition.expr - expr).as_int(), (condition.expr + expr).as_int()
            if (above is not None and above >= 0) or (below is not None and below >= size - 1):
                return True
        return False

    kept = tuple([c for c in index_map.conditions if c.kind != ">=0" or not implied(c)])
    return replace(index_map, conditions=kept) if kept != index_map.conditions else index_map


def _copies(primitive: Primitive, params: dict[str, Any]) -> bool:
    """Whether a reindex is a general one that is no strided view."""
    return primitive is reindex and strided.window_of(params["map"]) is None


def _common_fill(
    f: IndexMap, f_fill: Literal | None, g: IndexMap, g_fill: Literal | None
) -> Literal | None:
    """What the composition of two reindexes fills with; None if with nothing."""
    if f_fill is None or f.total():
        return None if g_fill is None or g.total() else g_fill
    if g_fill is None or g.total():
        return f_fill
    same: bool = f_fill.val.tobytes() == g_fill.val.tobytes()
    return f_fill if same else APART


def _simply(
    inner: Primitive, first: dict[str, Any], outer: Primitive, second: dict[str, Any]
) -> Any:
    """The step for two of the commonest kinds, without index maps; ``APART`` for others."""
    if inner is broadcast_in_dim and outer is broadcast_in_dim:
        dims = tuple([second["dims"][d] for d in first["dims"]])
        return broadcast_in_dim, {"shape": second["shape"], "dims": dims}
    if inner is broadcast_in_dim and outer is transpose:
        perm = second["perm"]
        shape = tuple([first["shape"][p] for p in perm])
        return broadcast_in_dim, {"shape": shape, "dims": tuple(map(perm.index, first["dims"]))}
    if inner is not transpose:
        return APART
    perm = first["perm"]
    if outer is broadcast_in_dim:
        dims = tuple([second["dims"][perm.index(k)] for k in range(len(perm))])
        return broadcast_in_dim, {"shape": second["shape"], "dims": dims}
    if outer is transpose:
        both = tuple([perm[p] for p in second["perm"]])
        return None if both == tuple(range(len(both))) else (transpose, {"perm": both})
    return APART


def named_step(index_map: IndexMap, fill: Literal) -> Step:
    """The map as a reindex with a name of its own (not the identity), None if it has none."""
    if index_map.num_loads or 0 in index_map.domain or 0 in index_map.codomain:
        return None
    perm = index_map.as_transpose()
    if perm is not None:
        return transpose, {"perm": perm}
    if index_map.is_reshape:
        return reshape, {"shape": index_map.domain}
    turned = index_map.as_reverse()
    if turned is not None:
        return rev, {"axes": turned}
    parts = index_map.as_slice()
    if parts is not None and min(parts[1], default=1) > 0:
        start, strides = parts
        ends = zip(start, index_map.domain, strides)
        limit = tuple([a + (n - 1) * step + 1 for a, n, step in ends])
        return slice_, {"start": start, "limit": limit, "strides": strides}
    dims = _as_broadcast(index_map)
    if dims is not None:
        return broadcast_in_dim, {"shape": index_map.domain, "dims": dims}
    padding = index_map.as_pad()
    if padding is not None:
        low, high, interior = padding
        return pad, {"low": low, "high": high, "interior": interior, "fill": fill}
    return None


def _as_broadcast(index_map: IndexMap) -> tuple[int, ...] | None:
    """``dims`` of a ``broadcast_in_dim``, which need not increase."""
    if index_map.conditions or len(index_map.codomain) > len(index_map.domain):
        return None
    found: dict[int, int] = {}
    for j, (expr, size) in enumerate(zip(index_map.exprs, index_map.codomain)):
        if isinstance(expr, Dim):
            if index_map.domain[expr.number] != size or expr.number in found.values():
                return None
            found[j] = expr.number
        elif expr.as_int() != 0 or size != 1:
            return None
    free = (k for k in range(len(index_map.domain)) if k not in set(found.values()))
    rank = len(index_map.codomain)
    return tuple([found[j] if j in found else next(free) for j in range(rank)])
