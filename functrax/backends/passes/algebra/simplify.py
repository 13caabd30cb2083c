"""Algebraic simplification, as a table of rules.

A rule looks at one equation, and at the equations that made its operands, and gives a value that
takes less work, or None.  No rule may change a bit of any result, whatever the operands: NaN,
infinities and the signs of zeros included (only the bits of a NaN are free).  So ``x + 0`` is left
alone where x is a float, for -0 + 0 is 0, and so is ``x - x``, which may be NaN.

The rules are in ``passes/algebra/rule_table.py``;
:data:`functrax.backends.passes.algebra.rule_table.RULES` is the table.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from functrax.backends.passes.algebra.rule import Made, New, Rule
from functrax.backends.passes.algebra.rule_table import RULES
from functrax.backends.passes.inner import renamed, with_eqns, with_programs
from functrax.backends.passes.rewrites import EFFORT, Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.tracing.primitive import Primitive
from functrax.core.types.aval import ShapedArray

_DOES_NOTHING = Rule(
    "nothing to do",
    lambda primitive: type(primitive).simplify is not Primitive.simplify,
    lambda eqn, made: eqn.primitive.simplify(*eqn.invars, **eqn.params),
)


@cache
def _rules(primitive: Primitive) -> tuple[list[Rule], list[Rule]]:
    """What is tried on a primitive's equations: with a number for an operand, and without."""
    rules = [rule for rule in (_DOES_NOTHING, *RULES) if rule.is_about(primitive)]
    return rules, [rule for rule in rules if not rule.constant]


def simplify(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with each equation as simple as the rules make it."""
    work = _Simplification(rewrites)
    for eqn in jaxpr.eqns:
        work.visit(renamed(eqn, work.env))
    return with_eqns(jaxpr, work.eqns, work.env)


class _Simplification:
    """Writes one program.

    Attributes:
      made: for each variable the equation that makes it.
      env: what stands for the variables whose equations went.
      eqns: the equations so far.
    """

    def __init__(self, rewrites: Rewrites) -> None:
        self.rewrites = rewrites
        self.made = Made()
        self.env: dict[Atom, Atom] = {}
        self.eqns: list[Eqn] = []

    def visit(self, eqn: Eqn) -> None:
        """Write an equation, or what stands for it."""
        for _ in range(EFFORT):
            found = self._rewritten(eqn)
            if found is None:
                break
            if type(found) is not Eqn:
                self.env[eqn.outvars[0]] = found
                return
            eqn = found
        self._write(with_programs(eqn, lambda program: simplify(program, self.rewrites)))

    def _write(self, eqn: Eqn) -> None:
        self.eqns.append(eqn)
        for v in eqn.outvars:
            self.made[v] = eqn

    def _rewritten(self, eqn: Eqn) -> Any:
        """The equation, or the value, in place of one; None if no rule applies."""
        rules, others = _rules(eqn.primitive)
        if not rules or len(eqn.outvars) != 1:
            return None
        aval = eqn.outvars[0].aval
        for rule in rules if Literal in map(type, eqn.invars) else others:
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
