"""Derivatives and ``vmap`` of functions of the user's own, by rules that are given with them.

Start at :func:`with_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from functrax.core.errors.typed import ArgumentError
from functrax.core.foreign.attributes import Attributes, normal, plain
from functrax.core.tracing.inputs import as_value
from functrax.transforms.arguments.flat import check_callable
from functrax.transforms.arguments.inspect_types import ShapeDtypeStruct
from functrax.transforms.control.ffi_call import VMAP_METHODS
from functrax.transforms.user_rules.custom_jvp import custom_jvp
from functrax.transforms.user_rules.custom_vjp import custom_vjp
from functrax.transforms.user_rules.custom_vmap import custom_vmap

#: Calls a function: its operands, its attributes, and the ``vmap_method`` if there is one.
Caller: TypeAlias = Callable[[Sequence[Any], dict[str, Any], "str | None"], Any]


def with_rules(
    what: str,
    name: str,
    caller: Caller,
    jvp: Callable[..., Any] | None,
    vjp: Callable[..., Any] | None,
    vmap: str | Callable[..., Any] | None,
    convert: Callable[[dict[str, Any]], dict[str, Any]] = lambda attributes: attributes,
) -> Callable[..., Any]:
    """A function of arrays, and of attributes by name, with rules of its own.

    Args:
      what: the public function that makes it, for errors.
      name: what it is called.
      caller: makes a call.
      jvp: its derivative forwards.
      vjp: its derivative backwards.
      vmap: a method, or a rule.
      convert: makes attributes of what is given by name.
    """
    if jvp is not None and vjp is not None:
        raise ArgumentError(
            f"{what}: a derivative has one rule",
            got="jvp= and vjp=",
            fix="jvp=, which gives both ways; or vjp= for grad alone",
        )
    for rule in (jvp, vjp):
        if rule is not None:
            check_callable(what, rule)
    if not callable(vmap) and vmap is not None and vmap not in VMAP_METHODS:
        raise ArgumentError(
            f"{what}: unknown vmap method",
            got=repr(vmap),
            fix=f"one of {', '.join(VMAP_METHODS)}, or a function (size, batched, *operands)",
        )
    made: dict[Attributes, Callable[..., Any]] = {}  # of equal attributes one function
    method = vmap if isinstance(vmap, str) else None

    def call(*args: Any, **attributes: Any) -> Any:
        given = normal(what, convert(attributes))
        found = made.get(given)
        if found is None:
            named = plain(given)

            def bare(*xs: Any) -> Any:
                return caller(xs, named, method)

            bare.__name__ = bare.__qualname__ = name
            found = made.setdefault(given, _ruled(bare, named, jvp, vjp, vmap))
        return found(*args)

    call.__name__ = call.__qualname__ = name
    return call


def types_of(args: Sequence[Any], name: str) -> list[ShapeDtypeStruct]:
    """The types of operands."""
    avals = [as_value(x, f"argument {k} of {name}").aval for k, x in enumerate(args)]
    return [ShapeDtypeStruct(a.shape, a.dtype) for a in avals]


def _ruled(
    bare: Callable[..., Any],
    attributes: dict[str, Any],
    jvp: Callable[..., Any] | None,
    vjp: Callable[..., Any] | None,
    vmap: str | Callable[..., Any] | None,
) -> Callable[..., Any]:
    """A function of arrays alone with its rules."""
    function = bare
    if callable(vmap):
        rule = vmap
        mapped: Any = custom_vmap(function)
        mapped.def_vmap(lambda size, batched, *xs: rule(size, batched, *xs, **attributes))
        function = mapped
    if jvp is not None:
        forwards, before = jvp, function
        pushed = custom_jvp(before)
        pushed.defjvp(lambda xs, ts: forwards(xs, ts, **attributes))
        return pushed
    if vjp is not None:
        backwards = vjp

        def forward(*xs: Any) -> tuple[Any, Any]:
            out = pulled(*xs)  # which has a derivative again
            return out, (xs, out)

        def backward(kept: Any, cts: Any) -> tuple[Any, ...]:
            xs, out = kept
            found = backwards(xs, out, cts, **attributes)
            return tuple(found) if isinstance(found, Sequence) else (found,)

        pulled = custom_vjp(function)
        pulled.defvjp(forward, backward)
        return pulled
    return function
