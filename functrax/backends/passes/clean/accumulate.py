"""A sum of an array and of a few elements at computed places adds these where they belong.

The gradient of an array that is read at computed places, ``x[i]`` in a loop say, is a sum of as
many arrays as there are reads, each as large as the whole and 0 nearly everywhere: a
``reindex_reduce`` for each.  A ``scatter`` adds the elements of each to the rest of the sum, in
place where nothing else needs that, so a step of a loop costs what it reads and not what the array
holds.

The terms are added up in another order, and a zero may be -0 where it was 0, so strict mode leaves
them.

Start at :func:`accumulate`.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence

from functrax.backends.passes.clean.dce import uses
from functrax.backends.passes.clean.pieces import added_up, sums_of
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.prims.arithmetic import add
from functrax.core.prims.mapped import reindex_reduce, scatter
from functrax.core.prims.reindex import Reindexing
from functrax.core.tracing.primitive import Elementwise


def accumulate(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with few elements added to the rest of their sum."""
    eqns = with_bodies(jaxpr.eqns, lambda inner: accumulate(inner, rewrites))
    found: dict[Atom, Eqn] = {e.outvars[0]: e for e in eqns if _gives_few_elements(e)}
    sums = sums_of(found, eqns) if found else []
    if sums:
        used = uses(eqns, jaxpr.outvars)
        few = {x: e for x, e in found.items() if used[x] == 1}
        inner: dict[Atom, Eqn] = {e.outvars[0]: e for e in sums if used[e.outvars[0]] == 1}
        instead: dict[Eqn, list[Eqn]] = {}
        gone: set[Eqn] = set()  # additions inside of sums
        computed = _computed_where_needed(eqns)
        for eqn in reversed(sums):
            if eqn not in gone:
                terms = added_up(eqn, inner, gone)
                written = _added_in_place(eqn, terms, few, computed, rewrites)
                if written:
                    instead[eqn] = written
        eqns = [new for eqn in eqns for new in instead.get(eqn, (eqn,))]
    return with_eqns(jaxpr, eqns)


def _gives_few_elements(eqn: Eqn) -> bool:
    """Whether an equation adds up, at places that are computed, half as many elements or fewer."""
    if eqn.primitive is not reindex_reduce or eqn.params["op"] != "add":
        return False
    places = eqn.params["map"]
    return bool(places.num_loads) and 2 * math.prod(places.domain) <= math.prod(places.codomain)


def _computed_where_needed(eqns: Sequence[Eqn]) -> set[Atom]:
    """What kernels of other values can compute besides, so that it need not be in memory."""
    shared = [e for e in eqns if isinstance(e.primitive, (Elementwise, Reindexing))]
    return {x for e in shared for x in e.outvars}


def _added_in_place(
    root: Eqn,
    terms: list[Atom],
    few: Mapping[Atom, Eqn],
    computed: Container[Atom],
    rewrites: Rewrites,
) -> list[Eqn]:
    """The equations of a sum that adds its few elements last; none if it has no such terms.

    The rest of the sum has to be in memory then.  If it were not without that, the array of zeros
    of a single term costs as much, and leaves the sum to the kernel of what follows.
    """
    aval = root.outvars[0].aval
    last = [x for x in terms if x in few]
    arrays = [x for x in terms if x not in few and x.aval.shape == aval.shape]
    numbers = [x for x in terms if x.aval.shape != aval.shape]
    if not arrays:  # the first term's zeros are what the others are added to
        arrays.append(last.pop(0))
    whole = [*arrays, *numbers]
    in_memory = len(whole) == 1 and whole[0] not in computed
    if len(last) < (1 if in_memory else 2):
        return []
    if not rewrites.allow(f"{len(last)} terms added in place", root):
        return []
    total, *rest = whole
    written: list[Eqn] = []
    for x in rest:
        written.append(Eqn(add, (total, x), (Var(aval),), {}, root.source))
        total = written[-1].outvars[0]
    for x in last:
        elements, *indices = few[x].invars
        params = {"map": few[x].params["map"], "op": "add", "unique": False}
        written.append(Eqn(scatter, (total, elements, *indices), (Var(aval),), params, root.source))
        total = written[-1].outvars[0]
    end = written.pop()
    return [*written, Eqn(end.primitive, end.invars, root.outvars, end.params, root.source)]
