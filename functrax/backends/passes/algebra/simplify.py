"""Algebraic simplification, as a table of rules.

A rule looks at one equation, and at the equations that made its operands, and gives a value that
takes less work, or None.  No rule may change a bit of any result, whatever the operands: NaN,
infinities and the signs of zeros included (only the bits of a NaN are free).  So ``x + 0`` is left
alone where x is a float, for -0 + 0 is 0, and so is ``x - x``, which may be NaN.

The rules are in ``passes/algebra/rule_table.py``;
:data:`functrax.backends.passes.algebra.rule_table.RULES` is the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from functrax.backends.passes.algebra.rule import Made, New, Rule
from functrax.backends.passes.algebra.rule_table import RULES
from functrax.backends.passes.inner import with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.tracing.primitive import Primitive
from functrax.core.types.aval import ShapedArray

#: How often one equation may be rewritten.
_MAX_STEPS = 8


#: Whether a primitive knows when it does nothing; its rules; those for operands without a number.
Plan: TypeAlias = "tuple[bool, Sequence[Rule], Sequence[Rule]]"
_plans: dict[Primitive, Plan | None] = {}


def _plan(primitive: Primitive) -> Plan | None:
    """What is tried on a primitive's equations; None for nothing."""
    knows = type(primitive).simplify is not Primitive.simplify
    rules = [rule for rule in RULES if rule.is_about(primitive)]
    plan = knows, rules, [rule for rule in rules if not rule.constant]
    found = _plans[primitive] = plan if knows or rules else None
    return found


def simplify(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with each equation as simple as the rules make it."""
    work = _Simplification(rewrites)
    eqns, made, env = work.eqns, work.made, work.env
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        plan = _plans[primitive] if primitive in _plans else _plan(primitive)
        if env and not env.keys().isdisjoint(eqn.invars):
            invars = [env.get(x, x) for x in eqn.invars]
            eqn = Eqn(primitive, invars, eqn.outvars, eqn.params, eqn.source)
        if plan is not None or primitive.holds_programs:
            work.visit(eqn)
            continue
        eqns.append(eqn)
        for v in eqn.outvars:
            made[v] = eqn
    if not work.changed:
        return jaxpr
    outvars = [work.env.get(x, x) for x in jaxpr.outvars]
    return Jaxpr((), jaxpr.invars, outvars, work.eqns, jaxpr.name, jaxpr.arg_names)


class _Simplification:
    """Writes one program.

    Attributes:
      made: for each variable the equation that makes it.
      env: what stands for the variables whose equations went.
      eqns: the equations so far.
      changed: whether they differ from those of the source.
    """

    def __init__(self, rewrites: Rewrites) -> None:
        self.rewrites = rewrites
        self.made = Made()
        self.env: dict[Atom, Atom] = {}
        self.eqns: list[Eqn] = []
        self.changed = False

    def visit(self, eqn: Eqn) -> None:
        """Write an equation, or what stands for it."""
        for _ in range(_MAX_STEPS):
            found = self._rewritten(eqn)
            if found is None:
                break
            self.changed = True
            if type(found) is not Eqn:
                self.env[eqn.outvars[0]] = found
                return
            eqn = found
        if eqn.primitive.holds_programs:
            inner = with_programs(eqn, lambda program: simplify(program, self.rewrites))
            self.changed = self.changed or inner is not eqn
            eqn = inner
        self._write(eqn)

    def _write(self, eqn: Eqn) -> None:
        self.eqns.append(eqn)
        for v in eqn.outvars:
            self.made[v] = eqn

    def _rewritten(self, eqn: Eqn) -> Any:
        """The equation, or the value, in place of one; None if no rule applies."""
        primitive = eqn.primitive
        plan = _plans[primitive] if primitive in _plans else _plan(primitive)
        if plan is None or len(eqn.outvars) != 1:
            return None
        knows, rules, others = plan
        aval = eqn.outvars[0].aval
        if knows:
            value = primitive.simplify(*eqn.invars, **eqn.params)
            if value is not None and self._fits(value, aval):
                if self.rewrites.allow("nothing to do", eqn):
                    return self._in_place(value, eqn)
        if not rules:
            return None
        for rule in rules if Literal in [type(x) for x in eqn.invars] else others:
            value = rule.apply(eqn, self.made)
            if value is None or not self._fits(value, aval):
                continue
            if self.rewrites.allow(rule.name, eqn):
                return self._in_place(value, eqn)
        return None

    @staticmethod
    def _fits(value: Any, aval: ShapedArray) -> bool:
        """Whether a value has the type wanted, or is a number that can be spread to it."""
        if type(value) is New:
            return True
        if type(value) is Literal and aval.shape:
            return bool(value.aval is aval.update(shape=()))
        return value.aval is aval

    def _in_place(self, value: Any, eqn: Eqn) -> Any:
        if type(value) is New:
            operands = [self._operand(x, eqn) for x in value.operands]
            return Eqn(value.primitive, operands, eqn.outvars, value.params, eqn.source)
        shape = eqn.outvars[0].aval.shape
        if type(value) is Literal and shape:
            params = {"shape": shape, "dims": ()}
            return Eqn(broadcast_in_dim, (value,), eqn.outvars, params, eqn.source)
        return value

    def _operand(self, x: Any, eqn: Eqn) -> Atom:
        """An operand of a new equation, which may itself be a new equation."""
        if type(x) is not New:
            return x  # type: ignore[no-any-return]
        operands = [self._operand(y, eqn) for y in x.operands]
        found = x.primitive.infer(tuple([y.aval for y in operands]), x.params)
        assert type(found) is ShapedArray
        out = Var(found)
        self._write(Eqn(x.primitive, operands, (out,), x.params, eqn.source))
        return out
