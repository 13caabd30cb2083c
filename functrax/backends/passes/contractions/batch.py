"""Products that share an operand become one: the input products of an unrolled recurrent network.

What enters is a program with ``contraction`` groups; where several groups compute the same, differ
in one operand only, and none depends on another, what leaves has one group over the stacked
operands, and slices of its result.  So the operand that they share, the weights, is read once
instead of once for each step, and a few large products are faster than many small ones.

It pays where the stacked operand is not larger than the shared one, and for no fewer than
``MIN_PRODUCTS`` groups.  The group is batched by its primitives' own rules (``Primitive.batch``).
Steps of one array, ``xs[0] @ w``, ``xs[1] @ w``, ..., differ in nothing but a constant of the map
that reads ``xs``: they need not be stacked, for the step becomes a dimension of that map.
What the stacked operands need is computed before the first of the products; programs with side
effects, whose order counts, are left alone.

Start at :func:`batch`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from functrax.backends.passes.clean.compose import compose
from functrax.backends.passes.groups import contraction
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.records import field, record
from functrax.core.tracing.stage import stage
from functrax.core.types.aval import ShapedArray

#: Fewer products are not worth the copying.
MIN_PRODUCTS = 4

#: A group's program, the number of the operand that differs, the others; of steps of one array the
#: program without the step, and all operands.
Key: TypeAlias = "tuple[Jaxpr, int, tuple[Atom, ...]]"
#: The constants of a map.
Offsets: TypeAlias = "tuple[int, ...]"


@record(frozen=False)
class _Class:
    """Products that may become one.

    Args:
      varying: the number of the operand that differs, or that is read in steps.
      steps: whether it is one array, read in steps.
      bit: marks, in masks, what depends on one of the products.
      members: the products.
    """

    varying: int
    steps: bool
    bit: int
    members: list[Eqn] = field(default_factory=list)

    @property
    def pays(self) -> bool:
        """Whether it is worth it and possible."""
        if len(self.members) < MIN_PRODUCTS:
            return False
        return not self.steps or _stride(self) is not None


def batch(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with independent products that share an operand as one."""
    eqns = with_bodies(jaxpr.eqns, lambda inner: batch(inner, rewrites))
    merged = [] if jaxpr.effects else _classes(eqns)
    merged = [c for c in merged if rewrites.allow(f"{len(c.members)} products", c.members[0])]
    if merged:
        eqns = _Schedule(eqns, merged).eqns
    return with_eqns(jaxpr, eqns)


def _classes(eqns: Sequence[Eqn]) -> list[_Class]:
    """The products that become one, each product in one class at most."""
    products = [e for e in eqns if e.primitive is contraction]
    if len(products) < MIN_PRODUCTS:
        return []
    counts: dict[Key, int] = {}
    keys = {e: _keys(e) for e in products}
    for found in keys.values():
        for key in found:
            counts[key] = counts.get(key, 0) + 1
    if max(counts.values(), default=0) < MIN_PRODUCTS:
        return []
    classes: dict[Key, _Class] = {}
    depends: dict[Atom, int] = {}  # on which classes' products a value depends
    for eqn in eqns:
        mask = 0
        for x in eqn.invars:
            mask |= depends.get(x, 0)
        if eqn in keys:
            shared = [key for key in keys[eqn] if counts[key] >= MIN_PRODUCTS]
            if shared:
                best = max(shared, key=counts.__getitem__)
                mask |= _joined(eqn, mask, best, classes)
        if mask:
            depends.update(dict.fromkeys(eqn.outvars, mask))
    return [c for c in classes.values() if c.pays]


def _keys(eqn: Eqn) -> list[Key]:
    """Keys that groups share which differ in one operand, where stacking that pays."""
    operands = eqn.invars
    if len(operands) < 2:
        return []
    found = []
    for k, x in enumerate(operands):
        others = (*operands[:k], *operands[k + 1 :])
        if max([y.aval.size for y in others]) >= x.aval.size:
            found.append((eqn.params["jaxpr"], k, others))
        step = _in_steps(eqn.params["jaxpr"], k)
        if step is not None and max([y.aval.size for y in others]) >= step.size:
            found.append((step.program, k, tuple(operands)))
    return found


@record
class _Step:
    """How a group reads one of its operands, if it may be a step of many.

    Args:
      program: the group's, as it would be without the constants of the map.
      place: which equation of it reads the operand.
      offsets: the constants of the map.
      size: how many elements it reads, at most.
    """

    program: Jaxpr
    place: int
    offsets: Offsets
    size: int


def _in_steps(jaxpr: Jaxpr, number: int) -> _Step | None:
    """How a group reads an operand, if by one affine map without conditions; remembered."""
    key = ("step", number)
    if key not in jaxpr.memo:
        jaxpr.memo[key] = _find_step(jaxpr, jaxpr.invars[number])
    found: _Step | None = jaxpr.memo[key]
    return found


def _find_step(jaxpr: Jaxpr, operand: Var) -> _Step | None:
    readers = [k for k, e in enumerate(jaxpr.eqns) if operand in e.invars]
    if len(readers) != 1 or operand in jaxpr.outvars:
        return None
    place = readers[0]
    reader = jaxpr.eqns[place]
    if reader.primitive is not reindex or len(reader.invars) != 1:
        return None
    m: IndexMap = reader.params["map"]
    atoms = {atom for e in m.exprs for atom, _ in e.terms}
    if m.conditions or not all(isinstance(atom, Dim) for atom in atoms):
        return None
    bare = IndexMap(m.domain, m.codomain, tuple([e - e.const for e in m.exprs]))
    eqns = list(jaxpr.eqns)
    eqns[place] = Eqn(reindex, reader.invars, reader.outvars, {**reader.params, "map": bare})
    program = Jaxpr((), jaxpr.invars, jaxpr.outvars, eqns, jaxpr.name)
    size = math.prod(m.domain[atom.number] for atom in atoms if isinstance(atom, Dim))
    return _Step(program, place, tuple([e.const for e in m.exprs]), size)


def _stride(mine: _Class) -> Offsets | None:
    """By how much each member's offsets exceed those of the one before, if always the same."""
    steps = [_in_steps(e.params["jaxpr"], mine.varying) for e in mine.members]
    offsets = [step.offsets for step in steps if step is not None]
    strides = {tuple([b - a for a, b in zip(one, two)]) for one, two in pairwise(offsets)}
    return strides.pop() if len(strides) == 1 else None


def _joined(eqn: Eqn, mask: int, key: Key, classes: dict[Key, _Class]) -> int:
    """Put a product into a class, unless it depends on one there; return the class's bit."""
    mine = classes.get(key)
    if mine is None:
        steps = len(key[2]) == len(eqn.invars)
        mine = classes[key] = _Class(key[1], steps, 1 << len(classes))
    if mask & mine.bit:
        return 0
    mine.members.append(eqn)
    return mine.bit


class _Schedule:
    """Writes the equations anew, each behind what it needs.

    Attributes:
      eqns: in their new order.
    """

    def __init__(self, eqns: Sequence[Eqn], classes: Sequence[_Class]) -> None:
        self.eqns: list[Eqn] = []
        self._producer: dict[Atom, Eqn] = {v: e for e in eqns for v in e.outvars}
        self._class: dict[Eqn, _Class] = {e: c for c in classes for e in c.members}
        self._done: set[Eqn] = set()
        for eqn in eqns:
            self._emit(eqn)

    def _emit(self, last: Eqn) -> None:
        left = [last]
        while left:
            eqn = left[-1]
            if eqn in self._done:
                left.pop()
                continue
            mine = self._class.get(eqn)
            needed = eqn.invars if mine is None else [x for e in mine.members for x in e.invars]
            producers = (self._producer.get(x) for x in needed)
            missing = [p for p in producers if p is not None and p not in self._done]
            if missing:
                left.extend(missing)
                continue
            left.pop()
            if mine is None:
                self.eqns.append(eqn)
                self._done.add(eqn)
            else:
                self.eqns.extend(_merged(mine))
                self._done.update(mine.members)


def _merged(mine: _Class) -> list[Eqn]:
    """One product over stacked operands, and its parts."""
    first, number, k = mine.members[0], len(mine.members), mine.varying
    line = first.source
    rows: list[Eqn] = []

    def apply(primitive: Any, operands: Sequence[Atom], out: Var | None, **params: Any) -> Var:
        avals = tuple(x.aval for x in operands)
        result = Var(primitive.infer(avals, params)) if out is None else out
        rows.append(Eqn(primitive, operands, (result,), params, line))
        return result

    if mine.steps:
        program = _stepped(mine)
        operands = first.invars
    else:
        xs = [e.invars[k] for e in mine.members]
        lifted = [apply(reshape, (x,), None, shape=(1, *x.aval.shape)) for x in xs]
        stacked = apply(concatenate, lifted, None, axis=0)
        program = _batched(first.params["jaxpr"], k, number)
        operands = (*first.invars[:k], stacked, *first.invars[k + 1 :])
    whole = Var(program.outvars[0].aval)
    params = {**first.params, "jaxpr": program}
    rows.append(Eqn(contraction, operands, (whole,), params, line))
    shape = whole.aval.shape
    for i, eqn in enumerate(mine.members):
        start, limit = (i, *(0 for _ in shape[1:])), (i + 1, *shape[1:])
        ones = (1,) * len(shape)
        part = apply(slice_, (whole,), None, start=start, limit=limit, strides=ones)
        apply(reshape, (part,), eqn.outvars[0], shape=shape[1:])
    return rows


def _batched(jaxpr: Jaxpr, varying: int, number: int) -> Jaxpr:
    """A group's program with one operand, and the result, stacked; remembered on the program."""
    key = ("batched", varying, number)
    found: Jaxpr | None = jaxpr.memo.get(key)
    if found is None:
        avals = jaxpr.in_avals
        avals[varying] = avals[varying].update(shape=(number, *avals[varying].shape))
        found = jaxpr.memo[key] = _with_dimension(jaxpr, number, avals, jaxpr.invars[varying])
    return found


def _stepped(mine: _Class) -> Jaxpr:
    """The program of the first member, with the steps of all as a dimension."""
    first: Jaxpr = mine.members[0].params["jaxpr"]
    number, stride = len(mine.members), _stride(mine)
    step = _in_steps(first, mine.varying)
    assert step is not None and stride is not None, "its members are steps"
    reader = first.eqns[step.place]
    m = reader.params["map"].batched(number, operand_batched=False)
    exprs = tuple([e + Dim(0) * by for e, by in zip(m.exprs, stride)])
    params = {**reader.params, "map": IndexMap(m.domain, m.codomain, exprs)}
    return _with_dimension(first, number, first.in_avals, reader.outvars[0], (reader, params))


def _with_dimension(
    jaxpr: Jaxpr,
    number: int,
    avals: list[ShapedArray],
    begin: Var,
    changed: tuple[Eqn, dict[str, Any]] | None = None,
) -> Jaxpr:
    """A group's program with a new first dimension of a value, and of what depends on it.

    Args:
      jaxpr: the program.
      number: the dimension's size.
      avals: of its operands.
      begin: the value.
      changed: the equation that makes it have the dimension, and its new parameters.
    """

    def program(*args: Any) -> list[Any]:
        env: dict[Atom, Any] = dict(zip(jaxpr.invars, args, strict=True))
        flags: dict[Atom, bool] = {begin: True}
        for eqn in jaxpr.eqns:
            operands = [x if type(x) is Literal else env[x] for x in eqn.invars]
            batched = [flags.get(x, False) for x in eqn.invars]
            (out,) = eqn.outvars
            if changed is not None and eqn is changed[0]:
                env[out] = eqn.primitive.bind(*operands, **changed[1])
            elif any(batched):
                env[out], flags[out] = eqn.primitive.batch(number, operands, batched, **eqn.params)
            else:
                env[out] = eqn.primitive.bind(*operands, **eqn.params)
        return [env[x] for x in jaxpr.outvars]

    staged, constants = stage(program, avals, jaxpr.name)
    assert not constants, "a group has no constants"
    line = jaxpr.eqns[-1].source
    eqns = [Eqn(e.primitive, e.invars, e.outvars, e.params, line) for e in staged.eqns]
    return compose(Jaxpr((), staged.invars, staged.outvars, eqns, jaxpr.name), Rewrites())
