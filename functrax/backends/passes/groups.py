"""Groups: equations that one kernel computes.

``fused`` and ``contraction`` hold a program without constants and a name.  They exist in the
compiler alone, after differentiation and batching, so they have no such rules.  The reference
device defines what they mean: it runs the program inside.

- ``fused``: elementwise, reindex and reindex_reduce equations that become one loop nest.
- ``contraction``: a sum of products of reindexed arrays, which never stores the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from functrax.backends.reference.reference_device import ReferenceProgram
from functrax.core.errors.source import SourceLine
from functrax.core.errors.typed import ShapeError
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.prims.control import Grouping
from functrax.core.prims.reindex import Reindexing
from functrax.core.tracing.primitive import Avals
from functrax.core.tracing.stage import live_eqns
from functrax.core.types.aval import ShapedArray


class Group(Grouping):
    """Computes ``jaxpr``, a program without constants or side effects, in one kernel."""

    takes_deferred = True  # raw values go into the program as they are

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()

    def shape_rule(self, *avals: ShapedArray, jaxpr: Jaxpr, name: str) -> Avals:
        if list(avals) != jaxpr.in_avals:
            raise ShapeError(
                f"{self.name}: operands do not fit the group {name}",
                got=f"{[a.str_short() for a in avals]} for "
                f"{[a.str_short() for a in jaxpr.in_avals]}",
                fix="operands of exactly the types of the group's inputs",
            )
        return tuple(jaxpr.out_avals)

    def reference(self, *values: Any, jaxpr: Jaxpr, name: str) -> Any:
        program = jaxpr.memo.get("reference")
        if program is None:
            program = jaxpr.memo["reference"] = ReferenceProgram(jaxpr)
        return program(values)

    def jvp(self, *args: Any, **params: Any) -> NoReturn:
        raise self._compiled("differentiated")

    def transpose(self, *args: Any, **params: Any) -> NoReturn:
        raise self._compiled("transposed")

    def batch_over_axis(self, *args: Any, **params: Any) -> NoReturn:
        raise self._compiled("batched")

    def _compiled(self, what: str) -> AssertionError:
        return AssertionError(
            f"a {self.name} group was {what}: groups exist in compiled programs alone, which no "
            "transformation sees; transform the program before it goes through the pipeline"
        )


fused, contraction = Group("fused"), Group("contraction")


def grouped(
    kind: Group,
    eqns: Sequence[Eqn],
    outputs: Sequence[Var],
    name: str,
    line: SourceLine | None = None,
) -> Eqn:
    """An equation that computes what ``eqns`` compute.

    Args:
      kind: ``fused`` or ``contraction``.
      eqns: equations in order; what they use and do not define becomes an input.
      outputs: the variables of theirs that are used outside.
      name: the name of the group.
      line: the user's line that it stands for.
    """
    numbers: dict[Atom, Any] = {}
    inputs: list[Atom] = []
    body: list[Any] = []
    for eqn in eqns:
        for x in eqn.invars:
            number = numbers.get(x)
            if number is None:
                number = x
                if type(x) is Var:
                    number = numbers[x] = len(numbers)
                    inputs.append(x)
            body.append(number)
        for v in eqn.outvars:
            numbers[v] = len(numbers)
        source = eqn.source
        body.append((eqn.primitive, source and source.key, *eqn.params.items()))
    avals = tuple([x.aval for x in inputs])
    key = (name, avals, tuple(body), tuple([numbers[v] for v in outputs]))
    inner = _programs.get(key)
    if inner is None:
        inner = _programs[key] = _program(eqns, inputs, outputs, name)
    return Eqn(kind, inputs, outputs, {"jaxpr": inner, "name": name}, line)


def parts_of(jaxpr: Jaxpr) -> list[Eqn]:
    """Smaller groups that do together what the program of a group does.

    Args:
      jaxpr: it, of more equations than one.

    Returns:
      Two groups of about half of its equations, of which the second has its own copies of the
      views that both need; groups of one equation each, if it has little else than views.
    """
    eqns = jaxpr.eqns
    first, second = list(eqns[: len(eqns) // 2]), list(eqns[len(eqns) // 2 :])
    needed = {x for eqn in second for x in eqn.invars}
    views = []
    for eqn in reversed(first):
        if isinstance(eqn.primitive, Reindexing) and not needed.isdisjoint(eqn.outvars):
            views.append(eqn)
            needed.update(eqn.invars)
    results = set(jaxpr.outvars)
    passed = needed.difference(v for eqn in views for v in eqn.outvars) | results
    outputs = [v for eqn in first for v in eqn.outvars if v in passed]
    parts = [(live_eqns(first, outputs, effects=False), outputs)]
    results.difference_update(outputs)
    second = [*reversed(views), *second]
    parts.append((second, [v for eqn in second for v in eqn.outvars if v in results]))
    if not outputs or len(second) == len(eqns):
        parts = [([eqn], list(eqn.outvars)) for eqn in eqns]
    return [
        grouped(fused, each, values, each[-1].primitive.name, each[-1].source)
        for each, values in parts
        if values
    ]


#: Programs of groups, by what they do and where it stands: equal groups share one, and with it
#: what is remembered of it.
_programs: WeakValueDictionary[Any, Jaxpr] = WeakValueDictionary()


def _program(
    eqns: Sequence[Eqn], inputs: Sequence[Atom], outputs: Sequence[Var], name: str
) -> Jaxpr:
    inner_inputs = [Var(x.aval) for x in inputs]
    env: dict[Atom, Any] = dict(zip(inputs, inner_inputs))
    body = copied(eqns, env)
    return Jaxpr((), inner_inputs, [env[v] for v in outputs], body, name)


def copied(eqns: Sequence[Eqn], env: dict[Atom, Any]) -> list[Eqn]:
    """The equations with what ``env`` has in place of variables; it gets new ones for others."""
    found = []
    for eqn in eqns:
        for v in eqn.outvars:
            env.setdefault(v, Var(v.aval))
        invars, outvars = [env.get(x, x) for x in eqn.invars], [env[v] for v in eqn.outvars]
        found.append(Eqn(eqn.primitive, invars, outvars, eqn.params, eqn.source))
    return found
