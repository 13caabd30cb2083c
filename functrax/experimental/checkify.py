"""Assertions in programs: ``check`` states them, ``checkify`` makes a value of what failed.

>>> import functrax, functrax.numpy as jnp
>>> from functrax.experimental import checkify
>>> def root(x):
...     checkify.check(x >= 0, "{x} is negative", x=x)
...     return jnp.sqrt(x)
>>> error, y = functrax.jit(checkify.checkify(root))(-1.0)
>>> error.get().splitlines()[0]  # the second line says where
'-1.0 is negative (`check` failed)'

A check that ``checkify`` does not take up raises :class:`JaxRuntimeError`, a ``ValueError`` and a
``RuntimeError``, when the program runs.

The evaluation carries along what the first failure was: a number that says which check failed (0
for none) and the values that its message shows.  Loops carry that with them, choices return it,
calls are gone through.  Which checks a program can make is known before (:class:`_Sites`), so what
is carried has one type from start to end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from functrax import lax, numpy as jnp
from functrax.core.boundaries.tracebacks import boundary, deliberate
from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Literal, programs_in
from functrax.core.lazy import listing as _listing
from functrax.core.pytree.operations import register_pytree_node_class, tree_flatten, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete, is_valid_argument
from functrax.core.tracing.primitive import Elementwise, Value
from functrax.core.tracing.stage import stage
from functrax.core.tracing.trace import Tracer, state
from functrax.core.types import dtypes
from functrax.experimental.index_checks import ReadIndex, first_out_of_bounds, indices_read
from functrax.numpy.indexing import known_indices
from functrax.transforms.arguments.flat import FlatFunction, check_callable, flatten_args, name_of
from functrax.transforms.interpreters.call import Call
from functrax.transforms.interpreters.custom_call import CustomCallPrimitive
from functrax.transforms.operations.user_checks import (
    SUFFIX,
    JaxRuntimeError as JaxRuntimeError,
    check_p,
    index_check_p,
    message,
    numbered,
)

user_checks = frozenset({"user"})
nan_checks = frozenset({"nan"})
div_checks = frozenset({"division"})
index_checks = frozenset({"index"})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks

#: Between what failed and the line.
_AT = "\n  at    "


@register_pytree_node_class
class Error:
    """What :func:`checkify` found: a pytree, which can leave ``jit`` and ``vmap``.

    Args:
      code: which message tells of the failure, counted from 1; 0 if nothing failed.
      values: for each message what it shows.
      texts: each message, with the numbers of what it shows in braces.
      lines: for each message the user's line that it is about, or "".
    """

    def __init__(
        self, code: Any, values: Sequence[Any], texts: tuple[str, ...], lines: tuple[str, ...]
    ) -> None:
        self.code = code
        self.values = values
        self.texts = texts
        self.lines = lines

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """The arrays, and the messages with their lines."""
        return (self.code, *self.values), (self.texts, self.lines)

    @classmethod
    def tree_unflatten(cls, data: Any, children: Sequence[Any]) -> Error:
        """The error of these arrays."""
        return cls(children[0], tuple(children[1:]), *data)

    def get(self) -> str | None:
        """What failed and where, or None; after ``vmap``, a line for each element that failed."""
        codes = np.asarray(self.code)
        if not codes.any():
            return None
        if not codes.shape:
            return self._said((), _AT)
        lines = [
            f"at mapped index {', '.join(map(str, i))}: {self._said(i, ' at ')}"
            for i in np.ndindex(codes.shape)
            if codes[i]
        ]
        return "\n".join(lines)

    def _said(self, index: tuple[int, ...], before_line: str) -> str:
        which = int(np.asarray(self.code)[index]) - 1
        said = message(self.texts[which], [np.asarray(x)[index] for x in self.values[which]])
        return f"{said}{before_line}{self.lines[which]}" if self.lines[which] else said

    def throw(self) -> None:
        """Raise a :class:`JaxRuntimeError` if something failed; in a program, check that."""
        check_error(self)

    def __repr__(self) -> str:
        if isinstance(self.code, Tracer):
            return "Error(in a program)"
        return f"Error({self.get()})".replace(_AT, " at ")


init_error = Error(np.int32(0), (), (), ())


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """State that ``pred`` holds.

    Args:
      pred: a scalar bool.
      msg: what is said if it does not; ``{}`` and ``{name}`` show the other arguments, as in
        ``str.format``.
      fmt_args: pytrees of arrays.
      debug: whether the check is made under :func:`checkify` only.
      fmt_kwargs: the same by name.

    Raises:
      DTypeError: if ``pred`` is no scalar bool.
      ArgumentError: if ``msg`` shows what is not given.
      JaxRuntimeError: if ``pred`` does not hold, outside of :func:`checkify`.

    >>> def root(x):
    ...     check(x >= 0, "{x} is negative", x=x)
    ...     return x**0.5
    >>> print(checkify(root)(-1.0)[0].get().splitlines()[0])
    -1.0 is negative (`check` failed)
    """
    name = "debug_check" if debug else "check"
    holds = as_value(pred, f"the predicate of {name}")
    if holds.aval.shape or holds.aval.dtype != dtypes.bool_:
        raise DTypeError(
            f"{name} takes a scalar pred: the predicate is not a scalar bool",
            got=holds.aval.str_short(),
            fix="pred.all() for an array of bools",
        )
    try:
        text, values = numbered(msg, fmt_args, fmt_kwargs)
    except (IndexError, KeyError) as error:
        raise ArgumentError(
            "check: the message shows a value that is not given",
            got=f"{msg!r}, which asks for {error}",
            fix="check(pred, '{x} is negative', x=x); two braces for a brace",
        ) from None
    shown = [as_value(x, "Formatting arguments: a value that check shows") for x in values]
    check_p.bind(holds, *shown, text=text, debug=debug)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """As :func:`check`, but nothing happens outside of :func:`checkify`.

    Args:
      pred: a scalar bool.
      msg: what is said if it does not; ``{}`` and ``{name}`` show the other arguments, as in
        ``str.format``.
      fmt_args: pytrees of arrays.
      fmt_kwargs: the same by name.

    Raises:
      DTypeError: if ``pred`` is no scalar bool.
      ArgumentError: if ``msg`` shows what is not given.

    >>> debug_check(False, "this is not said")
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """State that an error is none, with the message that it has.

    Args:
      error: the first result of a function that :func:`checkify` made.

    Raises:
      ArgumentError: if it is something else.
      JaxRuntimeError: if it is an error, outside of :func:`checkify`.

    >>> error, root = checkify(lambda x: x**0.5)(4.0)
    >>> check_error(error)
    """
    if not isinstance(error, Error):
        raise ArgumentError(
            "check_error: the argument is not an Error",
            got=type(error).__name__,
            fix="the first result of checkify(f)(...)",
        )
    if not isinstance(error.code, Tracer):
        found = error.get()
        if found is not None:
            raise deliberate(JaxRuntimeError(found))
        return
    for i, (text, values) in enumerate(zip(error.texts, error.values, strict=True)):
        holds = as_value(jnp.all(error.code != i + 1))
        said = text.removesuffix(SUFFIX)
        check_p.bind(holds, *map(as_value, values), text=said, debug=False)


def checkify(
    f: Callable[..., Any], errors: frozenset[str] = user_checks
) -> Callable[..., tuple[Error, Any]]:
    """A function that returns what failed, beside the results.

    Args:
      f: a function of pytrees of arrays.
      errors: what is looked for: ``user_checks`` (what :func:`check` states), ``nan_checks`` (the
        operation that gave the first NaN), ``div_checks`` (division by zero), ``index_checks``
        (an index that is out of bounds), or a union of them: ``float_checks``,
        ``automatic_checks``, ``all_checks``.

    Returns:
      A function of the same arguments, which returns ``(error, results)``; ``error.get()`` is
      what failed first, or None, and ``error.throw()`` raises it.  It can be transformed.

    Raises:
      ArgumentError: for other errors to look for, and if ``f`` is not callable.

    >>> import functrax.numpy as jnp
    >>> checkify(jnp.log, errors=nan_checks)(-1.0)[0].get().splitlines()[0]
    'nan generated by primitive: log.'
    """
    check_callable("checkify", f)
    unknown = set(errors) - all_checks
    if unknown:
        raise ArgumentError(
            "checkify: unknown kinds of errors",
            got=", ".join(sorted(unknown)),
            fix="user_checks, nan_checks, div_checks, index_checks, or a union of them",
        )

    @functools.wraps(f)
    @boundary
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        traced, values = _without_fixed(args, kwargs)
        flat, in_tree = flatten_args(f, values, {})
        function = FlatFunction(lambda *given: traced(f, given), in_tree)
        function.__name__ = name_of(f)
        known = known_indices(_index_check) if "index" in errors else nullcontext()
        with known:
            jaxpr, consts = stage(function, [x.aval for x in flat], name_of(f))
        sites = _Sites(jaxpr, frozenset(errors))
        error, outs = _evaluate(sites, sites.nothing(), jaxpr, [*consts, *flat])
        return error, tree_unflatten(function.out_tree, map(concrete, outs))

    return checked


def _without_fixed(args: Any, kwargs: Any) -> tuple[Callable[..., Any], list[Any]]:
    """The arguments that are arrays or numbers; others, and truth values, are known in programs.

    Returns:
      What calls a function with traced arguments in the place of these, and these.
    """
    leaves, tree = tree_flatten((args, kwargs))
    places = [i for i, x in enumerate(leaves) if is_valid_argument(x) and not isinstance(x, bool)]
    values = [leaves[i] for i in places]
    for i in places:
        leaves[i] = None

    def call(function: Callable[..., Any], given: Sequence[Any]) -> Any:
        full = list(leaves)
        for i, x in zip(places, given, strict=True):
            full[i] = x
        positional, named = tree_unflatten(tree, full)
        return function(*positional, **named)

    return call, values


def _index_check(shape: tuple[int, ...], index: int, axis: int) -> None:
    """Write down that an index that is known is out of bounds."""
    text = _out_of_bounds(shape).format(index, axis, shape[axis])
    text = text.replace("{", "{{").replace("}", "}}")
    index_check_p.bind(as_value(np.bool_(False)), text=text, debug=True)


def _out_of_bounds(shape: tuple[int, ...]) -> str:
    return (
        f"out-of-bounds indexing for array of shape {shape}: index {{0}} is out of bounds for axis "
        "{1} with size {2}. "
    )


class _Sites:
    """The checks that a program can make: numbers, and what their messages show."""

    def __init__(self, jaxpr: Jaxpr, errors: frozenset[str]) -> None:
        self.errors = errors
        self.numbers: dict[tuple[int, str], int] = {}
        self.seen: set[int] = set()
        self.indices: dict[int, list[ReadIndex]] = {}
        self.texts: list[str] = []
        self.lines: list[str] = []
        self.types: list[list[Any]] = []
        self.eqns: list[Eqn] = []  # held, so that their ids stay theirs
        self._walk(jaxpr)

    def _walk(self, jaxpr: Jaxpr) -> None:
        definitions = {v: e for e in jaxpr.eqns for v in e.outvars}
        for eqn in jaxpr.eqns:
            if id(eqn) in self.seen:
                continue
            self.seen.add(id(eqn))
            self.eqns.append(eqn)
            if eqn.primitive is check_p and "user" in self.errors:
                first = len(eqn.invars[0].aval.shape)
                types = [(x.aval.shape[first:], x.aval.dtype) for x in eqn.invars[1:]]
                self._add(eqn, "user", eqn.params["text"] + SUFFIX, types)
            if eqn.primitive is index_check_p:  # there are some where they are asked for alone
                self._add(eqn, "user", eqn.params["text"], [])
            self._add_automatic(eqn, definitions)
            for program in programs_in(eqn.params):
                self._walk(program)

    def _add_automatic(self, eqn: Eqn, definitions: dict[Any, Eqn]) -> None:
        name = eqn.primitive.name
        if "index" in self.errors and name in ("reindex", "scatter"):
            found = indices_read(eqn, definitions)
            if found:
                self.indices[id(eqn)] = found
                shape = eqn.params["map"].codomain
                self._add(eqn, "index", _out_of_bounds(shape), [((), np.int32)] * 3)
        if "division" in self.errors and name in ("div", "rem"):
            self._add(eqn, "division", "division by zero", [])
        inexact = any(dtypes.is_inexact(v.aval.dtype) for v in eqn.outvars)
        makes = isinstance(eqn.primitive, Elementwise) or name.startswith("reduce")
        if "nan" in self.errors and inexact and makes:
            self._add(eqn, "nan", f"nan generated by primitive: {name}.", [])

    def _add(self, eqn: Eqn, kind: str, text: str, types: list[Any]) -> None:
        self.texts.append(text)
        self.lines.append(str(eqn.source or ""))
        self.types.append(types)
        self.numbers[id(eqn), kind] = len(self.texts)

    def makes(self, eqn: Eqn, kind: str) -> bool:
        """Whether an operation makes a check of a kind."""
        return (id(eqn), kind) in self.numbers

    def nothing(self) -> Error:
        """No failure so far."""
        values = [[jnp.zeros(shape, dtype) for shape, dtype in types] for types in self.types]
        return Error(jnp.int32(0), tuple(values), tuple(self.texts), tuple(self.lines))

    def within(self, params: dict[str, Any]) -> bool:
        """Whether an operation that holds programs can make checks."""

        def makes(jaxpr: Jaxpr) -> bool:
            return any(
                e.primitive in (check_p, index_check_p)
                or any(self.makes(e, k) for k in all_checks)
                or self.within(e.params)
                for e in jaxpr.eqns
            )

        return any(makes(program) for program in programs_in(params))

    def failed(
        self, error: Error, eqn: Eqn, kind: str, holds: Any, values: Sequence[Any] = ()
    ) -> Error:
        """The error after a check: the first failure stays."""
        number = self.numbers[id(eqn), kind]
        new = (error.code == 0) & ~jnp.all(holds)
        shown = list(error.values)
        if values:
            ndim, at = jnp.ndim(holds), jnp.argmin(jnp.ravel(holds))
            rows = [jnp.reshape(x, (-1, *jnp.shape(x)[ndim:]))[at] for x in values]
            pairs = zip(rows, shown[number - 1], strict=True)
            shown[number - 1] = [jnp.where(new, x, old) for x, old in pairs]
        code = jnp.where(new, jnp.int32(number), error.code)
        return Error(code, tuple(shown), error.texts, error.lines)


def _evaluate(
    sites: _Sites, error: Error, jaxpr: Jaxpr, args: Sequence[Any]
) -> tuple[Error, list[Any]]:
    """The results of a program, and the error after it."""
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), args, strict=True))
    previous = state.source
    try:
        for eqn in jaxpr.eqns:
            operands: list[Value] = [x if type(x) is Literal else env[x] for x in eqn.invars]
            state.source = eqn.source or previous
            if sites.makes(eqn, "index"):
                read = [(index, _value(env, index.atom)) for index in sites.indices[id(eqn)]]
                error = sites.failed(error, eqn, "index", *first_out_of_bounds(read))
            error, outs = _apply(sites, error, eqn, operands)
            env.update(zip(eqn.outvars, outs, strict=True))
    finally:
        state.source = previous
    return error, [x if type(x) is Literal else env[x] for x in jaxpr.outvars]


def _apply(
    sites: _Sites, error: Error, eqn: Eqn, operands: list[Value]
) -> tuple[Error, Sequence[Any]]:
    """The results of an operation, and the error after it."""
    primitive, params = eqn.primitive, eqn.params
    if primitive in (check_p, index_check_p):
        if sites.makes(eqn, "user"):
            error = sites.failed(error, eqn, "user", *_shown(operands))
        return error, []  # what is not looked for is left out
    if primitive.name in _FUNCTIONAL and sites.within(params):
        return _FUNCTIONAL[primitive.name](sites, error, operands, **params)
    if isinstance(primitive, (Call, CustomCallPrimitive)) and sites.within(params):
        return _evaluate(sites, error, params["jaxpr"], operands)
    out = primitive.bind(*operands, **params)
    outs = out if primitive.multiple_results else [out]
    if sites.makes(eqn, "division"):
        error = sites.failed(error, eqn, "division", jnp.all(concrete(operands[1]) != 0))
    if sites.makes(eqn, "nan"):
        floats = [concrete(x) for x in outs if dtypes.is_inexact(x.aval.dtype)]
        fine = ~jnp.any(jnp.array([jnp.isnan(x).any() for x in floats]))
        error = sites.failed(error, eqn, "nan", fine)
    return error, outs


def _value(env: dict[Any, Any], atom: Any) -> Any:
    return concrete(atom if type(atom) is Literal else env[atom])


def _shown(operands: Sequence[Value]) -> tuple[Any, list[Any]]:
    holds, *values = map(concrete, operands)
    return holds, values


def _scan(
    sites: _Sites, error: Error, operands: list[Value], *, jaxpr: Jaxpr, length: int,
    num_consts: int, num_carry: int, reverse: bool,
) -> tuple[Error, Sequence[Any]]:  # fmt: skip
    consts = operands[:num_consts]
    carry = operands[num_consts : num_consts + num_carry]

    def step(before: Any, rows: Any) -> Any:
        now, outs = _evaluate(sites, before[0], jaxpr, [*consts, *before[1], *rows])
        return (now, outs[:num_carry]), outs[num_carry:]

    rows = operands[num_consts + num_carry :]
    (error, last), results = lax.scan(step, (error, carry), rows, length, reverse)
    return error, [*last, *results]


def _while(
    sites: _Sites, error: Error, operands: list[Value], *, cond: Jaxpr, body: Jaxpr,
    cond_consts: int, body_consts: int, checkpoints: int,
) -> tuple[Error, Sequence[Any]]:  # fmt: skip
    of_cond, of_body = operands[:cond_consts], operands[cond_consts : cond_consts + body_consts]

    def holds(error: Error, carry: Sequence[Any]) -> tuple[Error, Any]:
        error, (value,) = _evaluate(sites, error, cond, [*of_cond, *carry])
        return error, value

    def step(before: Any) -> Any:
        error, carry = _evaluate(sites, before[0], body, [*of_body, *before[2]])
        return (*holds(error, carry), carry)

    carry = operands[cond_consts + body_consts :]
    start = (*holds(error, carry), carry)
    error, _, last = lax.while_loop(lambda c: c[1], step, start, checkpoints=checkpoints or None)
    return error, last


def _cond(
    sites: _Sites, error: Error, operands: list[Value], *, branches: Sequence[Jaxpr]
) -> tuple[Error, Sequence[Any]]:
    def function(branch: Jaxpr) -> Callable[..., Any]:
        return lambda error, *xs: _evaluate(sites, error, branch, xs)

    index, *rest = map(concrete, operands)
    outs: tuple[Error, Sequence[Any]] = lax.switch(index, [*map(function, branches)], error, *rest)
    return outs


_FUNCTIONAL: dict[str, Callable[..., tuple[Error, Sequence[Any]]]] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}

__dir__ = _listing(globals())
