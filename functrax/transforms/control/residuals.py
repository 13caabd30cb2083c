"""What loops and branches keep for their backward pass: as little as can be, and nothing twice.

A residual of a scan's body is stacked, one for each step; one of a branch is a result of ``cond``.
Two things make them fewer:

- :func:`hoist` moves what does not change with the step out of the body, in front of the loop;
- :func:`fewer_residuals` keeps only what is dearer to compute again than to load.  Reindexes and
  the elementwise operations that integers have too (sums, products, comparisons, selections) are
  cheap; exponentials, reductions and all else are dear.  A cheap value is computed again if all
  that it takes is there anyway, or becomes so by keeping one value that is no larger than itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.reindex import Reindexing
from functrax.core.records import record
from functrax.core.tracing.primitive import Elementwise, Value
from functrax.core.tracing.stage import Derived, eval_jaxpr, live_eqns, stage
from functrax.core.types import dtypes
from functrax.transforms.interpreters.linearize import SplitJaxpr


def keep_exactly(eqn: Eqn) -> bool:
    """For ``split_jaxpr``: residuals are what is needed, :func:`fewer_residuals` thins them."""
    return True


def is_cheap(eqn: Eqn) -> bool:
    """Whether an equation costs less than loading its result does."""
    primitive = eqn.primitive
    if isinstance(primitive, Reindexing):
        return True
    return isinstance(primitive, Elementwise) and bool(primitive.accepts & dtypes.INTEGER)


def num_bytes(x: Atom) -> int:
    """The size of a value."""
    return x.aval.size * x.aval.dtype.itemsize


def hoist(body: Jaxpr, invariant: Sequence[bool]) -> tuple[Jaxpr, Jaxpr]:
    """Split a body into what does not change with the step, and the rest.

    Args:
      body: without constants.
      invariant: which of its inputs do not change.

    Returns:
      A program from the invariant inputs to some values; and the body, which takes these values in
      front of its inputs.  Values larger than all that they are made of stay in the body.
    """
    key = ("hoist", tuple(invariant))
    if key not in body.memo:
        given = [v for v, flag in zip(body.invars, invariant, strict=True) if flag]
        body.memo[key] = _hoisted(body, given)
    before, rest = body.memo[key]
    return before, rest


def _hoisted(body: Jaxpr, given: Sequence[Var]) -> tuple[Jaxpr, Jaxpr]:
    sources: dict[Atom, frozenset[Var]] = {v: frozenset((v,)) for v in given}
    candidates = set()
    for eqn in body.eqns:
        operands = [x for x in eqn.invars if type(x) is not Literal]
        if eqn.effects or any(x not in sources for x in operands):
            continue
        candidates.add(id(eqn))
        made_of = frozenset[Var]().union(*(sources[x] for x in operands))
        sources.update(dict.fromkeys(eqn.outvars, made_of))
    needed: set[Atom] = set(body.outvars)
    inner: list[Eqn] = []
    outer: list[Eqn] = []
    hoisted: list[Var] = []
    for eqn in reversed(body.eqns):
        used = not needed.isdisjoint(eqn.outvars)
        if id(eqn) in candidates:
            outer.append(eqn)  # also if it stays in the body: what is hoisted may need it
            if not used:
                continue
            if _worth_keeping(eqn, sources):
                hoisted += [v for v in eqn.outvars if v in needed]
                continue
        inner.append(eqn)
        needed.update(eqn.invars)
    hoisted.reverse()
    before = Jaxpr((), given, hoisted, live_eqns(outer[::-1], hoisted), f"hoisted({body.name})")
    rest = Jaxpr((), (*hoisted, *body.invars), body.outvars, inner[::-1], body.name)
    return before, rest


def _worth_keeping(eqn: Eqn, sources: dict[Atom, frozenset[Var]]) -> bool:
    size = sum(map(num_bytes, eqn.outvars))
    return not isinstance(eqn.primitive, Reindexing) and size <= sum(
        num_bytes(v) for v in sources[eqn.outvars[0]]
    )


@record(frozen=False)
class _Plan:
    """Which values become residuals, and which equations run again."""

    #: What can be had without keeping it: constants, slices of inputs, stacked results.
    free: set[Atom]
    #: Inputs that residuals cannot be made of.
    barred: set[Atom]
    definitions: dict[Atom, Eqn]
    kept: dict[Atom, None]
    again: set[int]

    def keep(self, x: Atom) -> None:
        self.kept[x] = None

    def is_cheap(self, x: Atom) -> bool:
        """Whether a value may be computed again."""
        return x in self.definitions and is_cheap(self.definitions[x])

    def thin(self, root: Atom) -> None:
        """Compute a cheap value again if that needs little, else keep it."""
        eqns, leaves = self._walk(root)
        missing = [x for x in leaves if x not in self.kept and x not in self.free]
        if len(missing) > 1 or any(
            x in self.barred or num_bytes(x) > num_bytes(root) for x in missing
        ):
            self.keep(root)
            return
        for x in leaves:
            self.keep(x)
        self.again.update(map(id, eqns))

    def _walk(self, root: Atom) -> tuple[list[Eqn], list[Atom]]:
        """The cheap equations behind a value, and what they start from."""
        eqns: list[Eqn] = []
        leaves: list[Atom] = []
        seen: set[Atom] = set()
        stack = [root]
        while stack:
            x = stack.pop()
            if type(x) is Literal or x in seen:
                continue
            seen.add(x)
            if x in self.kept or (x is not root and x in self.free) or not self.is_cheap(x):
                leaves.append(x)
                continue
            eqns.append(self.definitions[x])
            stack.extend(self.definitions[x].invars)
        return eqns, leaves


def fewer_residuals(split: SplitJaxpr, num_consts: int, num_carry: int) -> SplitJaxpr:
    """The same split of a scan's body or of a branch, with cheap residuals computed again.

    Args:
      split: of the body, or of a branch, whose known operands count as constants.
      num_consts: how many of the known inputs are constants.
      num_carry: how many of the known inputs are carries.
    """
    known = split.known.jaxpr
    key = ("fewer residuals", num_consts, num_carry)  # a split's programs are its own
    found: SplitJaxpr | None = known.memo.get(key)
    if found is not None:
        return found
    new = len(split.known.consts)
    inputs = known.invars[new:]
    num_known = split.out_unknown.count(False)
    roots: list[Any] = [
        inputs[r] if r >= 0 else known.outvars[num_known + ~r] for r in split.residuals
    ]
    carries = inputs[num_consts : num_consts + num_carry]
    plan = _Plan(
        free={*inputs, *known.outvars[num_carry:num_known]}.difference(carries),
        barred=set(known.invars[:new]),
        definitions={v: e for e in known.eqns for v in e.outvars},
        kept={},
        again=set(),
    )
    for root in roots:
        if root in plan.free or not plan.is_cheap(root):
            plan.keep(root)
    order = {v: i for i, e in enumerate(known.eqns) for v in e.outvars}
    for root in sorted((r for r in roots if r not in plan.kept), key=order.__getitem__):
        plan.thin(root)
    thinned = known.memo[key] = _with_plan(split, plan, roots)
    return thinned


def _with_plan(split: SplitJaxpr, plan: _Plan, roots: Sequence[Var]) -> SplitJaxpr:
    known, unknown = split.known.jaxpr, split.unknown.jaxpr
    new = len(split.known.consts)
    kept: list[Any] = list(plan.kept)
    again = Jaxpr((), kept, roots, [e for e in known.eqns if id(e) in plan.again], "again")
    avals = unknown.in_avals
    num_new = len(split.unknown.consts)
    rest_avals = avals[num_new + len(roots) :]

    def program(*args: Value) -> list[Value]:
        consts, rest = args[:num_new], args[num_new:]
        values = eval_jaxpr(again, (), *rest[: len(kept)])
        return eval_jaxpr(unknown, (), *consts, *values, *rest[len(kept) :])

    staged, consts = stage(
        program, [*avals[:num_new], *(v.aval for v in kept), *rest_avals], unknown.name
    )
    assert not consts, "a program without constants gains none"
    numbers = {v: i for i, v in enumerate(known.invars[new:])}
    saved = [v for v in kept if v not in numbers]
    numbers.update({v: ~i for i, v in enumerate(saved)})
    outs = [*known.outvars[: split.out_unknown.count(False)], *saved]
    return SplitJaxpr(
        Derived(
            Jaxpr((), known.invars, outs, live_eqns(known.eqns, outs), known.name),
            split.known.consts,
            (),
        ),
        Derived(staged, split.unknown.consts, ()),
        split.out_unknown,
        tuple(numbers[v] for v in kept),
    )
