"""What ``custom_jvp``, ``custom_vjp`` and ``custom_vmap`` share: functions that have rules.

The decorators resolve arguments, put aside those that are not differentiated, and hand flat
functions to ``transforms/interpreters/custom_call.py``.

Start at :class:`CustomFunction`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from functrax.core.boundaries.arguments import argument_error
from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.typed import ArgumentError, MissingRuleError
from functrax.core.pytree.operations import PyTreeDef, tree_flatten
from functrax.core.tracing.inputs import concrete
from functrax.core.tracing.primitive import Value
from functrax.transforms.arguments.discharge import handed_on
from functrax.transforms.arguments.flat import argnums_tuple, flatten_fixing, name_of, signature_of
from functrax.transforms.interpreters.custom_call import SymbolicZero
from functrax.transforms.interpreters.forward import zero_tangent
from functrax.transforms.user_rules.rule_results import RuleFunction

P = ParamSpec("P")
R = TypeVar("R")


class _Call(NamedTuple):
    """A call of a function with a rule: see :meth:`CustomFunction._function`."""

    function: RuleFunction
    nondiff: list[Any]  # the fixed arguments
    merged: Callable[..., Any]  # all arguments, from the others
    flat: list[Value]
    diff_tree: PyTreeDef  # of the others


@with_boundaries
class CustomFunction(ABC, Generic[P, R]):
    """What the two decorators share: resolving arguments, and putting the fixed ones aside."""

    @abstractmethod
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, with its rules."""

    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        functools.update_wrapper(self, fun)
        self.fun: Callable[..., Any] = fun
        self.signature = signature_of(fun)
        names = list(self.signature.parameters) if nondiff_argnames and self.signature else []
        for unknown in sorted(set(nondiff_argnames) - set(names)):
            raise ArgumentError(
                f"nondiff_argnames names an argument that {name_of(fun)} does not have",
                got=repr(unknown),
                fix=f"one of {', '.join(names) or 'its arguments, of which it tells none'}",
            )
        by_name = tuple(names.index(n) for n in nondiff_argnames)
        self.nondiff_argnums = (*argnums_tuple(nondiff_argnums), *by_name)
        self.symbolic = False

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults filled in."""
        if self.signature is None:
            return args
        if not kwargs and len(args) == len(self.signature.parameters):
            return args
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise self._unresolved(args, kwargs, error) from None
        bound.apply_defaults()
        named = [name for name in bound.kwargs if name in kwargs]  # others keep their defaults
        if named:
            raise ArgumentError(
                f"{self._unplaced()}\nThe following keyword arguments could not be resolved to "
                f"positions: {', '.join(named)}",
                got=", ".join(named),
                fix="make them positional, or close over them",
            )
        return bound.args

    def _unresolved(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], error: TypeError
    ) -> ArgumentError:
        found = argument_error(self.fun, args, kwargs, error)
        return ArgumentError(
            f"{found.what}. {self._unplaced()} Binding failed with the error:\n{error}",
            got=found.got,
            fix=found.fix,
        )

    def _unplaced(self) -> str:
        found_in = f"{type(self).__name__}-decorated function {name_of(self.fun)}{self.signature}"
        return (
            f"The input arguments to the {found_in} could not be resolved to positional-only "
            "arguments."
        )

    def __getattr__(self, name: str) -> Any:
        # Decorators on top of each other: a rule is given to the one that it is for.
        if name in ("def_vmap", "defjvp", "defjvps", "defvjp") and "fun" in vars(self):
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _split(self, args: tuple[Any, ...]) -> tuple[list[Any], list[Any], Callable[..., Any]]:
        """Fixed arguments, differentiated ones, and the function of the latter."""
        fixed = {i % len(args) for i in self.nondiff_argnums} if args else set()
        nondiff = [args[i] for i in sorted(fixed)]
        diff = [x for i, x in enumerate(args) if i not in fixed]
        # Rules outlive the call, in programs: they must not hold what may be traced.
        kept = [x if i in fixed else None for i, x in enumerate(args)]

        def merged(*differentiated: Any) -> list[Any]:
            rest = iter(differentiated)
            return [x if i in fixed else next(rest) for i, x in enumerate(kept)]

        return nondiff, diff, merged

    def _function(self, positional: tuple[Any, ...]) -> _Call:
        """What is needed to call the function with its rule: the arguments, and it as flat."""
        nondiff, given, merged = self._split(positional)
        diff, flat, in_tree = flatten_fixing(self.fun, given)
        if diff is not given:
            handed_on(diff)
        function = RuleFunction(lambda *xs: self.fun(*merged(*xs)), in_tree)
        function.__name__ = name_of(self.fun)
        return _Call(function, nondiff, merged, flat, tree_flatten(tuple(diff))[1])

    def _missing(self, kind: str, method: str) -> MissingRuleError:
        name = name_of(self.fun)
        return MissingRuleError(
            f"No {kind} defined for {type(self).__name__} function {name} using {method}.",
            got=f"{name} was decorated, but {name}.{method} was not called",
            fix=f"{name}.{method}(...) with the rule",
        )


def as_given(tangents: Sequence[Any], symbolic: bool) -> list[Any]:
    """Tangents as a user's rule gets them: those of integers are arrays of float0, or symbolic."""
    return [
        zero_tangent(t.aval) if isinstance(t, SymbolicZero) and not symbolic else concrete(t)
        for t in tangents
    ]
