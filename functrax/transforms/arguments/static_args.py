"""Which arguments of a jitted function are static, and which are donated.

:class:`ArgumentRoles` splits the arguments of a call into dynamic ones (traced) and static ones
(part of the signature), and puts them together again when the function is traced.
"""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from functrax.core.arrays.array import ConcreteArray
from functrax.core.errors.typed import ArgumentError, StaticArgumentError
from functrax.core.pytree.operations import tree_leaves
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import (
    argnums_tuple,
    name_of,
    positional_names,
    signature_of,
)


class Static:
    """A static argument's value, compared by type and value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Static) or type(self.value) is not type(other.value):
            return False
        return bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)


class Identical(Static):
    """A static argument that cannot be hashed: it is equal to itself alone."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identical) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


StaticKey = tuple[tuple[tuple[int, Static], ...], tuple[tuple[str, Static], ...]]


def positions(nums: Iterable[int], count: int) -> set[int]:
    """Those of some positions that ``count`` arguments have, counted from the front."""
    return {i % count for i in nums if -count <= i < count}


class ArgumentRoles:
    """The static and donated arguments of one function, by position and by name."""

    def __init__(
        self,
        fun: Callable[..., Any],
        static_argnums: int | Sequence[int] | None,
        static_argnames: str | Iterable[str] | None,
        donate_argnums: int | Sequence[int] | None,
        donate_argnames: str | Iterable[str] | None,
    ) -> None:
        self.name = name_of(fun)
        signature = signature_of(fun)
        self.static_nums, self.static_names = _resolve(
            self.name, "static", signature, static_argnums, static_argnames
        )
        self.donate_nums, self.donate_names = _resolve(
            self.name, "donate", signature, donate_argnums, donate_argnames
        )
        both = sorted(self.static_nums & self.donate_nums)
        if both:
            raise StaticArgumentError(
                f"jit: an argument of {self.name} is both static and donated: static_argnames and "
                "donate_argnames cannot intersect",
                got=f"positions {both}",
                fix="donate arrays only; static arguments have no buffer",
            )
        self.has_static = bool(self.static_nums or self.static_names)
        self.donates = bool(self.donate_nums or self.donate_names)

    def split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], StaticKey]:
        """The dynamic positional and keyword arguments, and the static ones."""
        if not self.has_static:
            return args, kwargs, ((), ())
        nums = positions(self.static_nums, len(args))
        positional = tuple((i, self._static(f"position {i}", args[i])) for i in sorted(nums))
        named = tuple(
            (name, self._static(name, kwargs[name]))
            for name in sorted(self.static_names & kwargs.keys())
        )
        dynamic = tuple(x for i, x in enumerate(args) if i not in nums)
        others = {k: v for k, v in kwargs.items() if k not in self.static_names}
        return dynamic, others, (positional, named)

    def donated_leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, ...]:
        """For each leaf of the arguments that are not static, whether a call may use it up."""
        static = positions(self.static_nums, len(args))
        donated = positions(self.donate_nums, len(args))
        flags = [(i in donated, x) for i, x in enumerate(args) if i not in static]
        flags += [
            (name in self.donate_names, kwargs[name])
            for name in sorted(kwargs.keys() - self.static_names)
        ]
        return tuple([flag for flag, x in flags for _ in tree_leaves(x)])

    def _static(self, which: str, value: Any) -> Static:
        try:
            hash(value)
        except TypeError:
            raise StaticArgumentError(
                "jit: Non-hashable static arguments are not supported: a static argument of "
                f"{self.name} cannot be hashed",
                got=f"{which} is {value!r} of type {type(value).__name__}",
                fix="a tuple instead of a list, a frozen dataclass instead of a dict; "
                "or leave it out of static_argnums if it is an array",
            ) from None
        return Static(value)

    @staticmethod
    def merge(fun: Callable[..., Any], static: StaticKey) -> Callable[..., Any]:
        """The function of the dynamic arguments alone."""
        positional, named = static
        if not positional and not named:
            return fun

        def with_statics(*dynamic: Any, **kwargs: Any) -> Any:
            args = list(dynamic)
            for i, x in positional:
                args.insert(i, x.value)
            return fun(*args, **kwargs, **{k: x.value for k, x in named})

        return with_statics

    def donate(self, args: tuple[Any, ...], kwargs: dict[str, Any], kept: Sequence[Any]) -> None:
        """Delete the donated arrays that a call was given, unless they are among its results."""
        given = [args[i] for i in self.donate_nums if -len(args) <= i < len(args)]
        given += [kwargs[name] for name in self.donate_names & kwargs.keys()]
        keep = {id(x) for x in kept}
        for leaf in tree_leaves(given):
            if type(leaf) is ConcreteArray and id(leaf) not in keep:
                leaf.delete()


def warn_of_unused(
    given: Sequence[ShapedArray], donated: Sequence[bool], results: Sequence[ShapedArray]
) -> None:
    """Warn of donated arrays whose memory no result can have: none is left of its size."""
    free = Counter(x.nbytes for x in results)
    unused = []
    for aval, is_donated in zip(given, donated, strict=False):
        if is_donated:
            if free[aval.nbytes]:
                free[aval.nbytes] -= 1
            else:
                unused.append(aval.str_short())
    if unused:
        warnings.warn(
            f"Some donated buffers were not usable: {', '.join(unused)}.  They are deleted "
            "nevertheless; donate arguments that are as large as results.",
            UserWarning,
            stacklevel=4,
        )


def _resolve(
    name: str,
    kind: str,
    signature: inspect.Signature | None,
    argnums: int | Sequence[int] | None,
    argnames: str | Iterable[str] | None,
) -> tuple[frozenset[int], frozenset[str]]:
    """Positions and names of arguments; where one of them is None, both of the same ones."""
    nums = _set_of(f"{kind}_argnums", () if argnums is None else argnums, int)
    names = _set_of(f"{kind}_argnames", () if argnames is None else argnames, str)
    if signature is None:
        if names:
            raise StaticArgumentError(
                f"Getting the signature of function {name} failed. Pass {kind}_argnums instead of "
                f"{kind}_argnames.",
                got=f"{kind}_argnames={sorted(names)}",
                fix=f"{kind}_argnums",
            )
        return frozenset(nums), frozenset()
    parameters = signature.parameters.values()
    positional = positional_names(signature)
    kinds = {p.kind for p in parameters}
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        nums = {_position(name, kind, i, positional) for i in nums}
    _check_names(name, kind, names, signature)
    if argnums is not None and argnames is not None and (nums or names):
        return frozenset(nums), frozenset(names)
    implied = {positional[i] for i in nums if 0 <= i < len(positional)}
    positions = {positional.index(n) for n in names if n in positional}
    return frozenset(nums | positions), frozenset(names | implied)


def _set_of(what: str, given: Any, wanted: type) -> set[Any]:
    """Positions or names, one or several of them, as a set."""
    try:
        found = {given} if isinstance(given, (wanted, str)) else set(argnums_tuple(given))
    except TypeError:  # neither one of them nor a sequence
        found = {given}
    for x in found:
        if not isinstance(x, wanted):
            raise ArgumentError(
                f"jit: {what} holds {x!r}",
                got=f"{type(x).__name__}",
                fix="ints in argnums, strings in argnames",
            )
    return found


def _position(name: str, kind: str, i: int, positional: list[str]) -> int:
    """A position counted from 0: a negative one counts from the last parameter."""
    if not -len(positional) <= i < len(positional):
        raise StaticArgumentError(
            f"jit: {kind}_argnums {i} is out of range",
            got=f"{name} has the positional parameters {positional}",
            fix=f"a position from 0 to {len(positional) - 1}",
        )
    return i % len(positional)


def _check_names(name: str, kind: str, names: set[str], signature: inspect.Signature) -> None:
    parameters = signature.parameters
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    unnamed = sorted(n for n in names if n in parameters and parameters[n].kind in by_position)
    if unnamed:
        raise StaticArgumentError(
            f"jit: {kind}_argnames names a parameter of {name} that is given by position alone: "
            + ", ".join(map(repr, unnamed)),
            got=f"{name}{signature}",
            fix=f"{kind}_argnums",
        )
    unknown = sorted(names - set(parameters))
    if unknown and all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        raise StaticArgumentError(
            f"jit: {kind}_argnames names no parameter of {name}: {', '.join(map(repr, unknown))}",
            got=f"{name} has the parameters {list(parameters)}",
            fix="one of these names",
        )
