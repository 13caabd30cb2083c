"""``debug_nans`` and ``debug_infs`` in compiled programs.

A program that is compiled while one of the options is on calls a *guard* behind every kernel
(:func:`guard`).  It looks at the arrays that the kernel wrote; at the first NaN or infinity it runs
the kernel's equations one by one on the reference device, on the arrays that the kernel read, so
that the error names the first equation at fault, its line, and its operands.  Kernels are the same
as without guards, so none is compiled again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from functrax.backends.compilation.provenance import Members
from functrax.backends.passes.groups import Group
from functrax.backends.reference.nan_check import check, enabled, find
from functrax.backends.reference.reference_device import rule_of
from functrax.core.errors.source import SourceLine
from functrax.core.errors.typed import NonFiniteError
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal
from functrax.core.options.config import Override
from functrax.core.types import dtypes


def guard(eqn: Eqn, members: Members) -> Callable[..., None]:
    """A function of an equation's operands and results that looks at the results.

    It raises ``NonFiniteError`` if one of them holds what the options forbid.

    Args:
      eqn: the equation, a group mostly.
      members: knows the lines of the equations in the group.
    """
    floats = [dtypes.is_inexact(v.aval.dtype) for v in eqn.outvars]
    count = len(eqn.invars)

    def look(*arrays: Any) -> None:
        if not enabled():
            return
        results = arrays[count:]
        for is_float, result in zip(floats, results):
            if is_float and (found := find(result)) is not None:
                _blame(eqn, members, arrays[:count], results)
                (option, noun), name = found, eqn.params.get("name", eqn.primitive.name)
                raise NonFiniteError(
                    f"{option}: the kernel {name} gave {noun} that its equations do not give",
                    got="on the reference device the same operands give none",
                    fix="functrax.check(f)(*args) compares the two; the option backend chooses the "
                    "other",
                    where=eqn.source,
                )

    return look


def _blame(eqn: Eqn, members: Members, operands: tuple[Any, ...], results: tuple[Any, ...]) -> None:
    """Raise for the first equation of a group that gives a forbidden value."""
    if not isinstance(eqn.primitive, Group):
        if eqn.primitive.holds_programs:  # a loop in one kernel
            with Override("backend", "interp"), np.errstate(all="ignore"):
                rule_of(eqn.primitive)(eqn.primitive, operands, dict(eqn.params))
        outs = list(results) if eqn.primitive.multiple_results else results[0]
        check(eqn.primitive, operands, outs, eqn.source)
        return
    lines = iter([member.source for member in members.of(eqn)])
    with np.errstate(all="ignore"):
        _run_checked(eqn.params["jaxpr"], operands, lines)


def _run_checked(
    jaxpr: Jaxpr, operands: Sequence[Any], lines: Iterator[SourceLine | None]
) -> list[Any]:
    """Run a program, and check each result; ``lines`` has the line of each equation in turn."""
    env: dict[Atom, Any] = dict(zip(jaxpr.invars, operands))
    makers: dict[Atom, str] = {}

    def value(x: Atom) -> Any:
        return x.val if isinstance(x, Literal) else env[x]

    for eqn in jaxpr.eqns:
        values = [value(x) for x in eqn.invars]
        if isinstance(eqn.primitive, Group):
            outs = _run_checked(eqn.params["jaxpr"], values, lines)
        else:
            out = rule_of(eqn.primitive)(eqn.primitive, values, dict(eqn.params))
            made_by = [makers.get(x, "") for x in eqn.invars]
            check(eqn.primitive, values, out, next(lines, eqn.source), made_by)
            outs = out if eqn.primitive.multiple_results else [out]
        env.update(zip(eqn.outvars, outs))
        makers.update(dict.fromkeys(eqn.outvars, eqn.primitive.name))
    return [value(x) for x in jaxpr.outvars]
