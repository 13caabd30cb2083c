"""Which arguments of a jitted function are static, and which are donated.

:class:`ArgumentRoles` splits the arguments of a call into dynamic ones (traced) and static ones
(part of the signature), and puts them together again when the function is traced.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from functrax.core.array import ConcreteArray
from functrax.core.errors import ArgumentError, StaticArgumentError
from functrax.core.pytree import tree_leaves
from functrax.transforms.flat import argnums_tuple, name_of, parameter_names


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


StaticKey = tuple[tuple[tuple[int, Static], ...], tuple[tuple[str, Static], ...]]


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
        parameters = parameter_names(fun)
        self.static_nums, self.static_names = _resolve(
            self.name, "static", parameters, static_argnums, static_argnames, fun
        )
        self.donate_nums, self.donate_names = _resolve(
            self.name, "donate", parameters, donate_argnums, donate_argnames, fun
        )
        both = sorted(self.static_nums & self.donate_nums)
        if both:
            raise StaticArgumentError(
                f"jit: an argument of {self.name} is both static and donated",
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
        nums = {i % len(args) for i in self.static_nums if -len(args) <= i < len(args)}
        positional = tuple((i, self._static(f"position {i}", args[i])) for i in sorted(nums))
        named = tuple(
            (name, self._static(name, kwargs[name]))
            for name in sorted(self.static_names & kwargs.keys())
        )
        dynamic = tuple(x for i, x in enumerate(args) if i not in nums)
        others = {k: v for k, v in kwargs.items() if k not in self.static_names}
        return dynamic, others, (positional, named)

    def _static(self, which: str, value: Any) -> Static:
        try:
            hash(value)
        except TypeError:
            raise StaticArgumentError(
                f"jit: a static argument of {self.name} cannot be hashed",
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


def _resolve(
    name: str,
    kind: str,
    parameters: list[str] | None,
    argnums: int | Sequence[int] | None,
    argnames: str | Iterable[str] | None,
    fun: Any,
) -> tuple[frozenset[int], frozenset[str]]:
    """Positions and names of the same arguments: either one implies the other."""
    nums = set(argnums_tuple(() if argnums is None else argnums))
    names = {argnames} if isinstance(argnames, str) else set(argnames or ())
    for value, wanted in ((nums, int), (names, str)):
        for x in value:
            if not isinstance(x, wanted):
                raise ArgumentError(
                    f"jit: {kind}_arg{'nums' if wanted is int else 'names'} holds {x!r}",
                    got=f"{type(x).__name__}",
                    fix="ints in argnums, strings in argnames",
                )
    if parameters is None:
        return frozenset(nums), frozenset(names)
    variadic = bool(fun.__code__.co_flags & 0x04) if hasattr(fun, "__code__") else True
    for i in nums:
        if not variadic and not -len(parameters) <= i < len(parameters):
            raise StaticArgumentError(
                f"jit: {kind}_argnums {i} is out of range",
                got=f"{name} has the positional parameters {parameters}",
                fix=f"a position from 0 to {len(parameters) - 1}",
            )
    _check_names(kind, names, fun)
    implied = {parameters[i] for i in nums if -len(parameters) <= i < len(parameters)}
    positions = {parameters.index(n) for n in names if n in parameters}
    return frozenset(nums | positions), frozenset(names | implied)


def _check_names(kind: str, names: set[Any], fun: Any) -> None:
    signature = inspect.signature(fun)
    parameters = signature.parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for unknown in sorted(names - parameters.keys()):
        raise StaticArgumentError(
            f"jit: {kind}_argnames names an argument that {name_of(fun)} does not have",
            got=f"{unknown!r} for {name_of(fun)}{signature}",
            fix="a name of its signature",
        )
