"""Derivative rules of the user's own as programs, so that they can be kept beside the program.

A call of a ``custom_jvp`` or ``custom_vjp`` function is an equation with an object that holds
Python functions.  They are traced for the types that the equation has, once; what comes out is a
:class:`KeptRule` under the name that stands for the object in the program's text::

    c:f32[3] = custom_jvp_call[jaxpr={ ... }, call=@relu#1] b

A rule may call its own function again: such a call has the same name.  The function of a
``custom_vmap`` is kept without its batching rule, which is for sizes that nobody knows yet.

Start at :class:`RuleWriter`; :class:`RuleReader` makes the objects again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from functrax.backends.passes.inner import with_programs
from functrax.core.errors.source import SourceLine
from functrax.core.errors.typed import (
    DifferentiationError,
    FileFormatError,
    FunctraxError,
    UnavailableError,
)
from functrax.core.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr
from functrax.core.ir.object_names import object_name
from functrax.core.ir.printing import value_text
from functrax.core.prims.reindex import zeros
from functrax.core.records import record
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import eval_jaxpr, stage
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.differentiation.checkpoint import checkpoint_policies, nothing_saveable
from functrax.transforms.interpreters.batching import BatchTrace, batch_flat
from functrax.transforms.interpreters.custom_call import (
    Backward,
    CustomCallPrimitive,
    CustomJVP,
    CustomVJP,
    SymbolicZero,
    custom_vjp_linear,
    rule_origin,
)
from functrax.transforms.interpreters.forward import jvp_flat
from functrax.transforms.user_rules.custom_vmap import CustomVmap

#: So many rules are kept one inside the other: that inside of a rule is for an order more.
_MAX_DEPTH: Final = 6


@record(eq=False)
class KeptRule:
    """An object of a program as data.

    Args:
      kind: ``"jvp"``, ``"vjp"``, ``"vmap"`` or ``"policy"``; or ``"end"``, for a derivative that
        is not kept, or is an error.
      about: what else there is to know of it, as JSON.
      programs: what it computes, by what they are for.
    """

    kind: str
    about: dict[str, Any]
    programs: dict[str, ClosedJaxpr]


class RuleWriter:
    """Finds the objects of programs, and makes rules of them.

    Attributes:
      rules: by name, in the order in which they were found.
      names: what an object is called in texts, by what it is called in this process.
    """

    def __init__(self) -> None:
        self.rules: dict[str, KeptRule] = {}
        self.names: dict[str, str] = {}
        self._known: dict[Any, str] = {}
        self._kept: list[Any] = []  # whose ids are among the keys
        self._depth = 0

    def collect(self, jaxpr: Jaxpr) -> None:
        """Make rules of the objects of a program and of the programs inside it.

        Raises:
          UnavailableError: if one can be no rule: a Python function, a mesh.
        """
        for eqn in jaxpr.eqns:
            for value in eqn.params.values():
                for found in _parts(value):
                    if isinstance(found, Jaxpr):
                        self.collect(found)
                    elif value_text(found).startswith("@"):
                        self.names[object_name(found)] = self._name(found, eqn)

    def _name(self, found: Any, eqn: Eqn) -> str:
        self._kept.append(found)  # as long as its name in this process is in use
        if isinstance(found, (CustomJVP, CustomVJP)) and eqn.primitive is not custom_vjp_linear:
            avals = tuple([x.aval for x in eqn.invars[found.num_consts :]])
            rule = found.rule if isinstance(found, CustomJVP) else found.forward
            key: Any = (type(found), self._identity(rule), found.num_consts, avals)
            if self._depth < _MAX_DEPTH:
                return self._rule(key, found.name, lambda: _rule_of(found, avals, eqn))
            end = _end_of(found, f"{_MAX_DEPTH} rules are kept one inside the other")
            return self._rule(("end", *key), found.name, lambda: end)
        if isinstance(found, CustomVmap):
            about = {"name": found.name, "num_consts": found.num_consts}
            key = (CustomVmap, found.name, found.num_consts)
            return self._rule(key, found.name, lambda: KeptRule("vmap", about, {}))
        if callable(found) and eqn.primitive.name == "checkpoint":
            known = [k for k, policy in vars(checkpoint_policies).items() if policy is found]
            name = (known or ["nothing_saveable"])[0]  # which decides about memory alone
            return self._rule(("policy", name), name, lambda: KeptRule("policy", {}, {}))
        raise _not_data(found, eqn.primitive.name, eqn.source)

    def _rule(self, key: Any, name: str, make: Callable[[], KeptRule]) -> str:
        known = self._known.get(key)
        if known is not None:
            return known
        plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name) or "rule"
        plain = f"_{plain}" if plain[0].isdigit() else plain
        known = self._known[key] = f"{plain}#{len(self._known) + 1}"
        self._depth += 1
        rule = make()
        for program in rule.programs.values():
            self.collect(program.jaxpr)
        self._depth -= 1
        self.rules[known] = rule
        return known

    def _identity(self, rule: Any) -> tuple[Any, ...]:
        """What tells a rule from others, though it is another object in every call."""
        parts: list[Any] = []
        for x in rule_origin(rule):
            try:
                hash(x)
                parts.append(x)
            except TypeError:
                self._kept.append(x)
                parts.append(id(x))
        return tuple(parts)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple) and type(value) is tuple:
        for x in value:
            yield from _parts(x)
    else:
        yield value


def _not_data(found: Any, primitive: str, where: SourceLine | None) -> UnavailableError:
    name = getattr(found, "__name__", None) or type(found).__name__
    return UnavailableError(
        f"export: the program has an operation {primitive} with an object of Python's, which a "
        "file cannot hold",
        got=f"{name} of type {type(found).__name__}",
        fix="leave it out of what is exported; code of your own that can be kept is registered "
        "with functrax.ffi",
        where=where,
    )


# ---- rules to programs --------------------------------------------------------------------------


def _rule_of(call: CustomJVP | CustomVJP, avals: Sequence[ShapedArray], eqn: Eqn) -> KeptRule:
    if not any(dtypes.is_inexact(x.dtype) for x in avals):  # nobody asks for the rule
        return KeptRule("vmap", {"name": call.name, "num_consts": call.num_consts}, {})
    try:
        if isinstance(call, CustomJVP):
            return _jvp_rule(call, avals, eqn)
        return _vjp_rule(call, avals, eqn)
    except UnavailableError:
        raise
    except Exception as error:  # the rule's own: whoever asks for the derivative gets it
        return _end_of(call, f"{type(error).__name__}: {error}")


def _end_of(call: CustomJVP | CustomVJP, why: str) -> KeptRule:
    """A rule that is an error."""
    return KeptRule("end", {"name": call.name, "num_consts": call.num_consts, "why": why}, {})


def _jvp_rule(call: CustomJVP, avals: Sequence[ShapedArray], eqn: Eqn) -> KeptRule:
    count = len(avals)
    moving = [dtypes.is_inexact(a.dtype) for a in avals]
    flags: list[bool] = []

    def both(*xs: Value) -> list[Value]:
        given = iter(xs[count:])
        tangents = [next(given) if m else SymbolicZero(a) for m, a in zip(moving, avals)]
        found = list(call.rule(*xs[:count], *tangents))
        outs = found[: len(found) // 2]
        flags[:] = [not isinstance(t, SymbolicZero) for t in found[len(outs) :]]
        return [*outs, *(t for t in found[len(outs) :] if not isinstance(t, SymbolicZero))]

    tangents = [a for a, m in zip(avals, moving) if m]
    program = _staged(both, [*avals, *tangents], f"jvp of {call.name}", eqn)
    about = {"name": call.name, "num_consts": call.num_consts, "moving": moving, "results": flags}
    return KeptRule("jvp", about, {"jvp": program})


def _vjp_rule(call: CustomVJP, avals: Sequence[ShapedArray], eqn: Eqn) -> KeptRule:
    moving = tuple([dtypes.is_inexact(a.dtype) for a in avals])
    out_avals: list[ShapedArray] = []
    rest_avals: list[ShapedArray] = []
    backward: Backward
    present: list[bool] = []

    def forward(*xs: Value) -> list[Value]:
        nonlocal backward
        outs, residuals, backward = call.forward(*xs, perturbed=moving)
        out_avals[:] = [x.aval for x in outs]
        rest_avals[:] = [x.aval for x in residuals]
        return [*outs, *residuals]

    def cotangents(*xs: Value) -> list[Value]:
        cts = iter(xs[len(rest_avals) :])
        given = [next(cts) if dtypes.is_inexact(a.dtype) else SymbolicZero(a) for a in out_avals]
        found = backward(*xs[: len(rest_avals)], *given)
        present[:] = [ct is not None for ct in found]
        return [ct for ct in found if ct is not None]

    fwd = _staged(forward, avals, f"fwd of {call.name}", eqn)
    cts = [a for a in out_avals if dtypes.is_inexact(a.dtype)]
    bwd = _staged(cotangents, [*rest_avals, *cts], f"bwd of {call.name}", eqn)
    about = {
        "name": call.name,
        "num_consts": call.num_consts,
        "results": len(out_avals),
        "present": present,
    }
    return KeptRule("vjp", about, {"fwd": fwd, "bwd": bwd})


def _staged(
    function: Callable[..., list[Value]], avals: Sequence[ShapedArray], name: str, eqn: Eqn
) -> ClosedJaxpr:
    try:
        jaxpr, consts = stage(function, avals, name)
    except DifferentiationError:
        raise
    except FunctraxError as error:
        raise UnavailableError(
            f"export: the {name} cannot be made a program for a file: {error.what}",
            got=error.got,
            fix="a rule that depends on its arguments alone",
            where=error.where,
        ) from error
    check_constants(consts, name, eqn.source)
    return ClosedJaxpr(with_kept_calls(jaxpr), consts)


def with_kept_calls(jaxpr: Jaxpr) -> Jaxpr:
    """The program whose operations of the user's own are calls with rules, in loops as well."""
    eqns = []
    for eqn in jaxpr.eqns:
        inner = with_programs(eqn, with_kept_calls)
        kind = inner.primitive
        eqns.append(kind.kept(inner) if isinstance(kind, CustomCallPrimitive) else inner)
    if all(new is old for new, old in zip(eqns, jaxpr.eqns, strict=True)):
        return jaxpr
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns, jaxpr.name, jaxpr.arg_names)


def check_constants(consts: Sequence[Any], name: str, where: SourceLine | None = None) -> None:
    """Refuse a program that closes over values that are being traced."""
    from functrax.core.arrays.array import ConcreteArray

    for x in consts:
        if not isinstance(x, ConcreteArray):
            raise UnavailableError(
                f"export: {name} closes over a value that is no array: it is traced, or changes",
                got=f"{type(x).__name__} {getattr(x, 'aval', '')}",
                fix="pass it as an argument",
                where=where,
            )


# ---- programs to rules --------------------------------------------------------------------------


class RuleReader(Mapping[str, Any]):
    """The objects that names in a program's text stand for.

    Args:
      rules: for each name what it is and what is known of it.
      program: gives the program of a rule by its name and what it is for, when it is needed.
    """

    KINDS: ClassVar = ("jvp", "vjp", "vmap", "policy", "end")

    def __init__(
        self,
        rules: Mapping[str, tuple[str, dict[str, Any]]],
        program: Callable[[str, str], ClosedJaxpr],
    ) -> None:
        self._rules = rules
        self._program = program
        self._made: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def __getitem__(self, name: str) -> Any:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._make(name, *self._rules[name])
        return made

    def _make(self, name: str, kind: str, about: dict[str, Any]) -> Any:
        if kind == "policy":
            policy = getattr(checkpoint_policies, name.partition("#")[0], None)
            return policy if callable(policy) else nothing_saveable
        title, num_consts = about.get("name"), about.get("num_consts")
        if not isinstance(title, str) or type(num_consts) is not int or num_consts < 0:
            raise damaged_rule(name, about)
        if kind == "vmap":
            return _ByElement(_no_function, _no_function, title, num_consts=num_consts)
        if kind == "end":
            return CustomJVP(
                _no_function, _no_rule_of(title, about.get("why")), title, num_consts=num_consts
            )
        if kind == "jvp":
            moving, results = _flags(name, about, "moving"), _flags(name, about, "results")
            return CustomJVP(
                _no_function, self._jvp(name, moving, results), title, num_consts=num_consts
            )
        outs, present = about.get("results"), _flags(name, about, "present")
        if type(outs) is not int or outs < 0:
            raise damaged_rule(name, about)
        return CustomVJP(
            _no_function, self._forward(name, outs, present), title, num_consts=num_consts
        )

    def _jvp(self, name: str, moving: list[bool], results: list[bool]) -> Any:
        def rule(*args: Value) -> list[Value]:
            primals, tangents = args[: len(moving)], args[len(moving) :]
            given = [_known(t) for t, m in zip(tangents, moving, strict=True) if m]
            found = self._run(name, "jvp", [*primals, *given])
            outs, rest = found[: len(results)], iter(found[len(results) :])
            pairs = zip(outs, results, strict=True)
            return [*outs, *(next(rest) if r else SymbolicZero(x.aval) for x, r in pairs)]

        rule.origin = (self, name, "jvp")  # type: ignore[attr-defined]
        return rule

    def _forward(self, name: str, count: int, present: list[bool]) -> Any:
        def backward(*args: Value) -> list[Value | None]:
            given = [_known(x) for x in args if dtypes.is_inexact(x.aval.dtype) or not _zero(x)]
            found = iter(self._run(name, "bwd", given))
            return [next(found) if p else None for p in present]

        def forward(
            *primals: Value, perturbed: tuple[bool, ...]
        ) -> tuple[Sequence[Value], Sequence[Value], Backward]:
            found = self._run(name, "fwd", primals)
            return found[:count], found[count:], backward

        forward.origin = (self, name, "vjp")  # type: ignore[attr-defined]
        return forward

    def _run(self, name: str, purpose: str, args: Sequence[Value]) -> list[Value]:
        program = self._program(name, purpose)
        if len(args) != len(program.jaxpr.invars):
            raise damaged_rule(name, f"a program {purpose} of other inputs")
        return eval_jaxpr(program.jaxpr, program.consts, *args)


def _zero(x: Value) -> bool:
    return isinstance(x, SymbolicZero)


def _known(x: Value) -> Value:
    return zeros(x.aval) if isinstance(x, SymbolicZero) else x


def _flags(name: str, about: dict[str, Any], key: str) -> list[bool]:
    found = about.get(key)
    if not isinstance(found, list) or not all(type(x) is bool for x in found):
        raise damaged_rule(name, about)
    return found


def damaged_rule(name: str, got: Any) -> FileFormatError:
    """The error that a rule of a file is not what a program needs."""
    text = repr(got)
    return FileFormatError(
        f"the file does not say what {name} is",
        got=text if len(text) < 200 else text[:200] + "...",
        fix="a file that functrax wrote, unchanged",
    )


def _no_rule_of(name: str, why: Any) -> Any:
    def rule(*args: Value) -> Any:
        raise DifferentiationError(
            f"a file keeps no such derivative of {name}",
            got=why if isinstance(why, str) else "no reason",
            fix="differentiate it before it is saved",
        )

    return rule


def _no_function(*args: Value) -> Any:
    raise AssertionError("a call in a program gets its function from the equation")


class _ByElement(CustomVmap):
    """A function that had a batching rule: its operations are batched, one by one."""

    def jvp(
        self, primals: Sequence[Value], tangents: Sequence[Value | None]
    ) -> tuple[Sequence[Value], Sequence[Value | None]]:
        return jvp_flat(self.function, primals, tangents)

    def batch(
        self, trace: BatchTrace, args: Sequence[Value], batched: Sequence[bool]
    ) -> tuple[Sequence[Value], Sequence[bool]]:
        return batch_flat(self.function, trace.size, args, batched, trace.axis_name, trace.tag)
