"""Inlining: calls are replaced by what they call, and weak types are left out.

So are functions whose values a program computes (``Primitive.written``): passes that know them by
name come before this one.  Required, for the compiler knows no calls.  Which primitives are calls
they say themselves (``Primitive.inlines``): ``jit``, calls with derivative rules that nobody asked
for, checkpoints.

A checkpoint computes again what an earlier one computed, and the two must stay two, or what was not
to be stored would be shared, and so stored.  So where a checkpoint takes an operand that an earlier
one took, it takes it through an ``optimization_barrier``, which nothing sees through.  The barrier
holds all operands, the cotangent among them, so nothing is computed again before it is needed.

Weak types mean nothing to the compiler.  A value whose type changes by that is a new variable, and
the types of the results are inferred again.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrax.backends.passes.inner import with_eqns, with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.identity import optimization_barrier
from functrax.core.types.aval import ShapedArray


def inline(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program without calls and without weak types."""
    work = _Inlining(rewrites)
    strong: dict[Atom, Var] = {
        v: Var(v.aval.strip_weak_type()) for v in jaxpr.invars if v.aval.weak_type
    }
    outvars = work.run(jaxpr, dict(strong), fresh=False)
    if not strong and outvars == list(jaxpr.outvars):
        return with_eqns(jaxpr, work.eqns)
    invars = [strong.get(v, v) for v in jaxpr.invars]
    return Jaxpr((), invars, outvars, work.eqns, jaxpr.name, jaxpr.arg_names)


class _Inlining:
    """Writes one program.

    Attributes:
      eqns: its equations so far.
      recomputed: operands of the checkpoints so far.
    """

    def __init__(self, rewrites: Rewrites) -> None:
        self.rewrites = rewrites
        self.eqns: list[Eqn] = []
        self.recomputed: set[Atom] = set()

    def run(self, jaxpr: Jaxpr, env: dict[Atom, Atom], fresh: bool) -> list[Atom]:
        """Write the equations of a program; return its results.

        Args:
          jaxpr: the program, or one that it calls.
          env: what stands for its variables; those that are not there stand for themselves.
          fresh: whether its results need new variables, for it may be called again.
        """
        for eqn in jaxpr.eqns:
            primitive = eqn.primitive
            invars = eqn.invars
            operands = tuple([_strong(env.get(x, x)) for x in invars])
            if primitive.holds_programs or primitive.is_written:
                if primitive.is_written:
                    body = primitive.written(tuple([x.aval for x in operands]))
                else:
                    body = primitive.inlines(eqn.params)
                if body is not None and self.rewrites.allow(f"call of {body.name}", eqn):
                    if primitive.recomputes:
                        operands = self._apart(operands)
                    results = self.run(body, dict(zip(body.invars, operands, strict=True)), True)
                    env.update(zip(eqn.outvars, results, strict=True))
                    continue
            inner = with_programs(eqn, lambda program: inline(program, self.rewrites))
            same = all(x.aval is y.aval for x, y in zip(operands, invars))
            if inner is not eqn or not same or any(v.aval.weak_type for v in eqn.outvars):
                self._infer(inner, operands, env, fresh)
            elif operands == invars and not fresh:
                self.eqns.append(eqn)
            else:
                outvars = [Var(v.aval) for v in eqn.outvars] if fresh else eqn.outvars
                env.update(zip(eqn.outvars, outvars) if fresh else ())
                self.eqns.append(Eqn(primitive, operands, outvars, eqn.params, eqn.source))
        return [_strong(env.get(x, x)) for x in jaxpr.outvars]

    def _infer(
        self, eqn: Eqn, operands: tuple[Atom, ...], env: dict[Atom, Atom], fresh: bool
    ) -> None:
        """Write an equation whose results may have other types than before."""
        primitive, params = eqn.primitive, eqn.params
        if params.get("weak_type"):
            params = {**params, "weak_type": False}
        found = primitive.infer(tuple([x.aval for x in operands]), params)
        avals = (found,) if type(found) is ShapedArray else tuple(found)
        outvars = [
            v if not fresh and v.aval is aval else Var(aval)
            for v, aval in zip(eqn.outvars, avals, strict=True)
        ]
        env.update(zip(eqn.outvars, outvars))
        self.eqns.append(Eqn(primitive, operands, outvars, params, eqn.source))

    def _apart(self, operands: Sequence[Atom]) -> tuple[Atom, ...]:
        """The operands of a checkpoint, behind a barrier if an earlier one took some of them."""
        variables = list(dict.fromkeys(x for x in operands if type(x) is Var))
        again = not self.recomputed.isdisjoint(variables)
        self.recomputed.update(variables)
        if not again:
            return tuple(operands)
        behind = [Var(x.aval) for x in variables]
        self.eqns.append(Eqn(optimization_barrier, variables, behind, {}))
        held: dict[Atom, Atom] = dict(zip(variables, behind))
        return tuple(held.get(x, x) for x in operands)


def _strong(x: Atom) -> Atom:
    """A literal without its weak type; a variable as it is."""
    if type(x) is Literal and x.aval.weak_type:
        return Literal(x.val, x.aval.strip_weak_type())
    return x
