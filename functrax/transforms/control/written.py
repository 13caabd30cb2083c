"""Loops and choices whose functions write to references from outside.

What a body writes becomes a carry, before the carries of the user; what some branch writes becomes
a result of every branch.  Afterwards the references are given the last values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrax.core.ir.jaxpr import Jaxpr, Var
from functrax.core.state.references import Ref, read_only, values_of
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import Derived, Effects, stage_with_references
from functrax.core.types.aval import ShapedArray


def writing_branches(
    derived: Sequence[Derived], written: Sequence[Effects | None]
) -> tuple[list[Ref], list[Derived]]:
    """Branches as functions without references, whose first results are new values of these.

    Args:
      derived: the branches; their constants may be references.
      written: what each branch does to references.

    Returns:
      What any branch writes, and the branches.
    """
    refs = list(dict.fromkeys(ref for e in written if e for ref in e.targets))
    return refs, [
        _writing_all(d, e.targets if e else (), refs) for d, e in zip(derived, written, strict=True)
    ]


def _writing_all(branch: Derived, own: Sequence[Ref], refs: Sequence[Ref]) -> Derived:
    """A branch that gives new values, or the old ones, for all references that any one writes."""
    jaxpr = branch.jaxpr
    others = [ref for ref in refs if ref not in own]
    unchanged = [Var(ref._aval) for ref in others]
    news = dict(zip([*own, *others], [*jaxpr.outvars[: len(own)], *unchanged], strict=True))
    made = Jaxpr(
        (),
        [*unchanged, *jaxpr.invars],
        [*(news[ref] for ref in refs), *jaxpr.outvars[len(own) :]],
        jaxpr.eqns,
        jaxpr.name,
    )
    return Derived(made, tuple(values_of([*others, *branch.consts])), ())


def stage_condition(
    holds: Callable[..., Sequence[Value]],
    avals: Sequence[ShapedArray],
    name: str,
    refs: Sequence[Ref],
) -> tuple[Jaxpr, list[Any]]:
    """A loop's condition, which reads what the body writes from the carries.

    Args:
      holds: from the user's carries to a scalar.
      avals: the types of these carries.
      name: what the condition is called.
      refs: what the body writes, which are the first carries.

    Returns:
      A program whose leading inputs are its constants, and their values.

    Raises:
      ReferenceUseError: if the condition writes to a reference.
    """
    test, consts, effects = stage_with_references(holds, avals, name)
    read_only(name, effects, ())
    variables = dict(zip(map(id, consts), test.constvars, strict=True))
    carried = set(map(id, refs))
    own = [c for c in consts if id(c) not in carried]
    inputs = [variables[id(c)] for c in own]
    carries = [variables.get(id(ref)) or Var(ref._aval) for ref in refs]
    made = Jaxpr((), [*inputs, *carries, *test.invars], test.outvars, test.eqns, test.name)
    return made, values_of(own)
