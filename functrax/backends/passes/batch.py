"""Products that share an operand become one: the input products of an unrolled recurrent network.

What enters is a program with ``contraction`` groups; where several groups compute the same, differ
in one operand only, and none depends on another, what leaves has one group over the stacked
operands, and slices of its result.  So the operand that they share, the weights, is read once
instead of once for each step, and a few large products are faster than many small ones.

It pays where the stacked operand is not larger than the shared one, and for no fewer than
``MIN_PRODUCTS`` groups.  The group is batched by its primitives' own rules (``Primitive.batch``).
What the stacked operands need is computed before the first of the products; programs with side
effects, whose order counts, are left alone.

Start at :func:`batch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from functrax.backends.passes.compose import compose
from functrax.backends.passes.groups import contraction
from functrax.backends.passes.inner import with_bodies
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.records import field, record
from functrax.core.stage import stage

#: Fewer products are not worth the copying.
MIN_PRODUCTS = 4

#: A group's program, the number of the operand that differs, the others.
Key: TypeAlias = "tuple[Jaxpr, int, tuple[Atom, ...]]"


@record(frozen=False)
class _Class:
    """Products that may become one.

    Args:
      varying: the number of the operand that differs.
      bit: marks, in masks, what depends on one of the products.
      members: the products.
    """

    varying: int
    bit: int
    members: list[Eqn] = field(default_factory=list)


def batch(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with independent products that share an operand as one."""
    eqns = with_bodies(jaxpr.eqns, lambda inner: batch(inner, rewrites))
    merged = [] if jaxpr.effects else _classes(eqns)
    merged = [c for c in merged if rewrites.allow(f"{len(c.members)} products", c.members[0])]
    if merged:
        eqns = _Schedule(eqns, merged).eqns
    elif all(a is b for a, b in zip(eqns, jaxpr.eqns)):
        return jaxpr
    return Jaxpr((), jaxpr.invars, jaxpr.outvars, eqns, jaxpr.name, jaxpr.arg_names)


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
    return [c for c in classes.values() if len(c.members) >= MIN_PRODUCTS]


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
    return found


def _joined(eqn: Eqn, mask: int, key: Key, classes: dict[Key, _Class]) -> int:
    """Put a product into a class, unless it depends on one there; return the class's bit."""
    mine = classes.get(key)
    if mine is None:
        mine = classes[key] = _Class(key[1], 1 << len(classes))
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
    found = jaxpr.memo.get(key)
    if found is None:

        def program(*args: Any) -> list[Any]:
            env: dict[Atom, Any] = dict(zip(jaxpr.invars, args, strict=True))
            flags: dict[Atom, bool] = {jaxpr.invars[varying]: True}
            for eqn in jaxpr.eqns:
                operands = [x if type(x) is Literal else env[x] for x in eqn.invars]
                batched = [flags.get(x, False) for x in eqn.invars]
                (out,) = eqn.outvars
                if any(batched):
                    env[out], flags[out] = eqn.primitive.batch(
                        number, operands, batched, **eqn.params
                    )
                else:
                    env[out] = eqn.primitive.bind(*operands, **eqn.params)
            return [env[x] for x in jaxpr.outvars]

        avals = jaxpr.in_avals
        avals[varying] = avals[varying].update(shape=(number, *avals[varying].shape))
        staged, constants = stage(program, avals, jaxpr.name)
        assert not constants, "a group has no constants"
        found = jaxpr.memo[key] = compose(staged, Rewrites())
    return found
