"""Programs as JAX shows them: ``Jaxpr``, ``ClosedJaxpr`` and ``JaxprEqn`` over functrax's own.

A view names parts as JAX does, holds inner programs closed, and can be taken apart and put
together; variables and literals are functrax's.  A program of functrax is seen by :func:`view`, and
:func:`program_of` gives back the program of a view.

Start at :class:`ClosedJaxpr`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

from functrax.compat.extension.linear_util import wrap_init
from functrax.compat.extension.params import own_params, shown_params
from functrax.compat.extension.user_primitives import Primitive, UserCall, user_call
from functrax.core.errors.source import SourceLine
from functrax.core.errors.typed import ArgumentError
from functrax.core.ir import jaxpr as language
from functrax.core.ir.jaxpr import Literal, Var
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Primitive as LanguagePrimitive, Value, registry
from functrax.core.tracing.stage import close, eval_jaxpr as eval_program, stage
from functrax.core.tracing.trace import EVAL, current, state
from functrax.core.types.aval import ShapedArray
from functrax.transforms.interpreters.custom_call import custom_jvp_call, custom_vjp_call

Atom: TypeAlias = "Var | Literal"


class BuiltinPrimitive(Primitive):
    """A primitive of functrax, as JAX's interface has it; one object for each."""

    own: LanguagePrimitive

    def __init__(self, own: LanguagePrimitive) -> None:
        super().__init__(own.name)
        self.own = own
        self.multiple_results = own.multiple_results

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply it under the current interpreter, with functrax's parameters or an equation's."""
        values = [x if type(x) is Literal else as_value(x) for x in args]
        if "subfuns" in params:
            (function,) = params["subfuns"]
            call = replace(params["call"], function=_flat(function.call_wrapped), jaxpr=None)
            return [concrete(x) for x in state.trace.process_custom(call, values)]
        out = self.own.bind(*values, **_own_params(self.name, params))
        return [concrete(x) for x in out] if self.multiple_results else concrete(out)

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """What :meth:`bind` takes for an equation's: of a call with rules, the function."""
        if self.own not in (custom_jvp_call, custom_vjp_call):
            return params
        function = wrap_init(jaxpr_as_fun(params["call_jaxpr"]))
        others = {k: v for k, v in params.items() if k != "call_jaxpr"}
        return {**others, "subfuns": (function,)}

    def impl(self, *args: Any, **params: Any) -> Any:
        """As :meth:`bind`."""
        return self.bind(*args, **params)

    def abstract_eval(self, *avals: ShapedArray, **params: Any) -> Any:
        """The types of the results."""
        found = self.own.infer(avals, _own_params(self.name, params))
        return list(found) if isinstance(found, tuple) else found


def _flat(function: Callable[..., Any]) -> Callable[..., list[Value]]:
    return lambda *xs: [as_value(x) for x in function(*map(concrete, xs))]


_builtins: dict[str, BuiltinPrimitive] = {}


def builtin(name: str) -> BuiltinPrimitive:
    """The view of the primitive of that name; a KeyError if functrax has none."""
    if name not in _builtins:
        _builtins[name] = BuiltinPrimitive(registry[name])
    return _builtins[name]


def primitive_named(name: str) -> BuiltinPrimitive | None:
    """What JAX calls ``name``, as ``add_p``; None where functrax has no such primitive."""
    plain = {"remat_p": "checkpoint"}.get(name, name.removesuffix("_p"))
    return builtin(plain) if name.endswith("_p") and plain in registry else None


class JaxprEqn:
    """``outvars = primitive[params] invars``."""

    __slots__ = ("_params", "_raw", "invars", "outvars", "primitive", "source_info")

    def __init__(
        self,
        invars: Sequence[Atom],
        outvars: Sequence[Var],
        primitive: Primitive,
        params: dict[str, Any],
        effects: Any = frozenset(),
        source_info: SourceLine | None = None,
        ctx: Any = None,
    ) -> None:
        self.invars = list(invars)
        self.outvars = list(outvars)
        self.primitive = primitive
        self._params: dict[str, Any] | None = params
        self._raw: Mapping[str, Any] = params
        self.source_info = source_info

    @property
    def params(self) -> dict[str, Any]:
        """The parameters; programs among them are views."""
        if self._params is None:
            self._params = viewed_params(self.primitive.name, self._raw)
        return self._params

    @property
    def effects(self) -> frozenset[Hashable]:
        """What the equation does besides computing its outputs."""
        if isinstance(self.primitive, BuiltinPrimitive):
            return self.primitive.own.effects(_own_params(self.primitive.name, self._raw))
        return frozenset()

    @property
    def ctx(self) -> None:
        """JAX keeps a context of compilation here; there is none."""
        return

    def replace(self, **changes: Any) -> JaxprEqn:
        """The equation with some parts replaced."""
        parts = ("invars", "outvars", "primitive", "params", "source_info")
        given = {name: getattr(self, name) for name in parts}
        return JaxprEqn(**{**given, **changes})

    def __repr__(self) -> str:
        outs = " ".join(_name(v) for v in self.outvars)
        ins = " ".join(_name(v) for v in self.invars)
        shown = ", ".join(f"{k}={v}" for k, v in self.params.items())
        return f"{outs} = {self.primitive}[{shown}] {ins}"


def new_jaxpr_eqn(
    invars: Sequence[Atom],
    outvars: Sequence[Var],
    primitive: Primitive,
    params: dict[str, Any],
    effects: Any = frozenset(),
    source_info: SourceLine | None = None,
    ctx: Any = None,
) -> JaxprEqn:
    """An equation of these parts."""
    return JaxprEqn(invars, outvars, primitive, params, effects, source_info, ctx)


def _name(x: Atom) -> str:
    return str(x.val) if isinstance(x, Literal) else f"v{id(x) & 0xFFFF:x}:{x.aval.str_short()}"


class Jaxpr:
    """A program without the values of its constants.

    Args:
      constvars: variables of the constants.
      invars: variables of the inputs.
      outvars: variables and literals of the results.
      eqns: the equations, in order.
      effects: what it does besides; follows from the equations.
      debug_info: names of the inputs and results, if known.
    """

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[JaxprEqn],
        effects: Any = frozenset(),
        debug_info: Any = None,
        is_high: bool = False,
    ) -> None:
        self.constvars = list(constvars)
        self.invars = list(invars)
        self.outvars = list(outvars)
        self.debug_info = debug_info
        self._source: language.Jaxpr | None = None
        self.eqns = list(eqns)

    @classmethod
    def _of(cls, source: language.Jaxpr) -> Jaxpr:
        self = cls.__new__(cls)
        self.constvars, self.invars = list(source.constvars), list(source.invars)
        self.outvars = list(source.outvars)
        self.debug_info = DebugInfo("jit", source.name, source.arg_names)
        self._source = source
        return self

    @cached_property
    def eqns(self) -> list[JaxprEqn]:
        """The equations, in order."""
        assert self._source is not None
        return [_eqn_view(eqn) for eqn in self._source.eqns]

    @property
    def effects(self) -> frozenset[Hashable]:
        """What the program does besides computing its results."""
        if self._source is not None:
            return self._source.effects
        return frozenset().union(*(eqn.effects for eqn in self.eqns))

    @property
    def in_avals(self) -> list[ShapedArray]:
        """The types of the inputs."""
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the results."""
        return [v.aval for v in self.outvars]

    @property
    def is_high(self) -> bool:
        """False: a program has arrays alone."""
        return False

    def replace(self, **changes: Any) -> Jaxpr:
        """The program with some parts replaced."""
        parts = ("constvars", "invars", "outvars", "eqns", "debug_info")
        given = {name: getattr(self, name) for name in parts}
        return Jaxpr(**{**given, **changes})

    def pretty_print(self, **options: Any) -> str:
        """The program as text."""
        return str(self)

    def __str__(self) -> str:
        if self._source is not None:
            return str(self._source)
        lines = [f"    {eqn!r}" for eqn in self.eqns]
        ins = " ".join(_name(v) for v in self.invars)
        outs = ", ".join(_name(v) for v in self.outvars)
        return "\n".join([f"{{ lambda ; {ins}. let", *lines, f"  in ({outs}) }}"])

    __repr__ = __str__


class ClosedJaxpr:
    """A program with the values of its constants."""

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> None:
        if len(consts) != len(jaxpr.constvars):
            raise ArgumentError(
                "ClosedJaxpr: one value for each constant",
                got=f"{len(consts)} values for {len(jaxpr.constvars)} constants",
                fix="give jaxpr.constvars' values, in order",
            )
        self.jaxpr = jaxpr
        self.consts = list(consts)

    literals = property(lambda self: self.consts)
    constvars = property(lambda self: self.jaxpr.constvars)
    invars = property(lambda self: self.jaxpr.invars)
    outvars = property(lambda self: self.jaxpr.outvars)
    in_avals = property(lambda self: self.jaxpr.in_avals)
    out_avals = property(lambda self: self.jaxpr.out_avals)
    eqns = property(lambda self: self.jaxpr.eqns)
    effects = property(lambda self: self.jaxpr.effects)
    debug_info = property(lambda self: self.jaxpr.debug_info)
    is_high = property(lambda self: False)

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: Any = None) -> ClosedJaxpr:
        """The program with some parts replaced."""
        return ClosedJaxpr(jaxpr or self.jaxpr, self.consts if consts is None else consts)

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        """The program with ``f`` applied to what is without constants."""
        return ClosedJaxpr(f(self.jaxpr), self.consts)

    def pretty_print(self, **options: Any) -> str:
        """The program as text."""
        return str(self)

    def __str__(self) -> str:
        if self.jaxpr._source is not None:
            return str(language.ClosedJaxpr(self.jaxpr._source, self.consts))
        return str(self.jaxpr)

    __repr__ = __str__


class DebugInfo:
    """What a program is called, and its inputs."""

    def __init__(
        self,
        traced_for: str,
        func_src_info: str,
        arg_names: Sequence[str] | None = None,
        result_paths: Any = None,
    ) -> None:
        self.traced_for = traced_for
        self.func_src_info = func_src_info
        self.arg_names = None if arg_names is None else tuple(arg_names)
        self.result_paths = result_paths

    @property
    def func_name(self) -> str:
        """The function's name."""
        return self.func_src_info.partition(" ")[0]

    def __repr__(self) -> str:
        return f"DebugInfo({self.traced_for}, {self.func_src_info}, {self.arg_names})"


def view(program: language.ClosedJaxpr) -> ClosedJaxpr:
    """A program of functrax as JAX shows it."""
    return ClosedJaxpr(Jaxpr._of(program.jaxpr), program.consts)


def _eqn_view(eqn: language.Eqn) -> JaxprEqn:
    made = JaxprEqn.__new__(JaxprEqn)
    made.outvars = list(eqn.outvars)
    made.source_info = eqn.source
    if eqn.primitive is user_call:
        call: UserCall = eqn.params["call"]
        made.invars = list(eqn.invars[call.num_consts :])
        made.primitive, made._raw, made._params = call.primitive, call.params, call.params
        return made
    made.invars = list(eqn.invars)
    made.primitive, made._raw, made._params = builtin(eqn.primitive.name), eqn.params, None
    return made


def _viewed(value: Any) -> Any:
    if isinstance(value, language.Jaxpr):
        return ClosedJaxpr(Jaxpr._of(value))
    if isinstance(value, tuple) and any(isinstance(v, language.Jaxpr) for v in value):
        return tuple(_viewed(v) for v in value)
    return value


def viewed_params(primitive: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a primitive of functrax, as JAX shows them."""
    return {k: _viewed(v) for k, v in shown_params(primitive, given).items()}


def _own_params(primitive: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _unviewed(v) for k, v in own_params(primitive, given).items()}


def _unviewed(value: Any) -> Any:
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        return program_of(value)
    if isinstance(value, tuple) and any(isinstance(v, (Jaxpr, ClosedJaxpr)) for v in value):
        return tuple(_unviewed(v) for v in value)
    return value


def program_of(program: Jaxpr | ClosedJaxpr) -> language.Jaxpr:
    """The program of functrax, without constants, that a view shows or that it was made into.

    Raises:
      ArgumentError: if the program has constants.
    """
    jaxpr, consts = program if isinstance(program, Jaxpr) else program.jaxpr, ()
    if isinstance(program, ClosedJaxpr):
        consts = tuple(program.consts)
    if jaxpr._source is not None and not consts:
        return close(jaxpr._source)
    with current(EVAL):  # not as a part of a program whose scalars are to stay constants
        found, lifted = stage(lambda *xs: eval_jaxpr(jaxpr, consts, *xs), jaxpr.in_avals)
    if lifted:
        raise ArgumentError(
            "a program that is a parameter of an equation has no constants of its own",
            got=f"{len(lifted)} constants",
            fix="make them inputs: jax.closure_convert",
        )
    return found


def eval_jaxpr(
    jaxpr: Jaxpr | language.Jaxpr, consts: Sequence[Any], *args: Any, **options: Any
) -> list[Any]:
    """Run a program under the current interpreter.

    Args:
      jaxpr: the program.
      consts: the values of its constants.
      args: arrays, one for each input.
      options: JAX's ``propagate_source_info``, which is always so.

    Returns:
      The list of the results.
    """
    values = [as_value(x) for x in args]
    constants = [as_value(x) for x in consts]
    if isinstance(jaxpr, language.Jaxpr):
        return [concrete(x) for x in eval_program(jaxpr, constants, *values)]
    if jaxpr._source is not None and "eqns" not in jaxpr.__dict__:
        return [concrete(x) for x in eval_program(jaxpr._source, constants, *values)]
    env: dict[Atom, Value] = dict(zip(jaxpr.constvars, constants, strict=True))
    env.update(zip(jaxpr.invars, values, strict=True))
    for eqn in jaxpr.eqns:
        operands = [x if isinstance(x, Literal) else env[x] for x in eqn.invars]
        params = eqn.primitive.get_bind_params(eqn.params)
        out = eqn.primitive.bind(*operands, **params)
        outs = out if eqn.primitive.multiple_results else [out]
        env.update(zip(eqn.outvars, outs, strict=True))
    return [concrete(x) if isinstance(x, Literal) else env[x] for x in jaxpr.outvars]


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The function of arrays that a program is; it returns the list of the results."""
    return lambda *args: eval_jaxpr(closed_jaxpr.jaxpr, closed_jaxpr.consts, *args)


def jaxprs_in_params(params: Mapping[str, Any]) -> Iterator[Jaxpr]:
    """The programs among the parameters of an equation."""
    for value in params.values():
        for v in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(v, Jaxpr):
                yield v
            elif isinstance(v, ClosedJaxpr):
                yield v.jaxpr


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The programs that the equations of a program hold."""
    for eqn in jaxpr.eqns:
        yield from jaxprs_in_params(eqn.params)
