"""Calls with wrong arguments: an unknown keyword, a missing argument, one too many.

Python's own ``TypeError`` for these names neither the user's line nor what would be right.
:func:`explain_all` wraps the public functions, so that a call which does not fit the signature
raises an :class:`ArgumentError` in four parts.  With the extension a call that fits costs nothing
(``native/explained.cpp``), otherwise one more frame.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, Final, TypeVar

from functrax.core import native
from functrax.core.boundaries.tracebacks import shorten
from functrax.core.errors.typed import ArgumentError, HandleError

F = TypeVar("F", bound="Callable[..., Any]")


def explain_all(namespace: dict[str, Any]) -> None:
    """Replace every public function of a namespace by one that explains wrong arguments.

    Args:
      namespace: the globals of a public module; changed in place.
    """
    made: dict[int, Any] = {}  # so that two names of one function stay one function
    for name, value in list(namespace.items()):
        if is_function(value) and not name.startswith("_"):
            if id(value) not in made:
                made[id(value)] = explained(value, namespace["__name__"])
            namespace[name] = made[id(value)]


def explained_member(module: str) -> Callable[[Any], Any]:
    """What makes of a public function of a module one that explains wrong arguments."""
    return lambda x: explained(x, module) if is_function(x) else x


def is_function(x: Any) -> bool:
    """Whether something is a function written in Python, perhaps one with a recipe."""
    while type(x) is _Recorded or type(x) is _Explained:
        x = x.__wrapped__
    return isinstance(x, types.FunctionType)


_Recorded: Any = getattr(native.extension, "EagerFunction", None)
_Explained: Any = getattr(native.extension, "ExplainedFunction", None)


def explained(function: Callable[..., Any], module: str) -> Callable[..., Any]:
    """A function of a module that explains arguments that do not fit its signature."""
    if type(function) is _Explained:
        function = function.__wrapped__  # type: ignore[attr-defined]
    made = _in_python(function) if _Explained is None else _Explained(function, _explain)
    functools.update_wrapper(made, function)
    made.__module__ = module
    return made


def _in_python(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                if type(error) is not HandleError and not is_of_call(error):
                    raise
                return _explain(function, args, kwargs, error)
        except Exception as error:
            shorten(error)
            raise

    return call


def is_of_call(error: TypeError) -> bool:
    """Whether the caller of a function caught what Python raises for arguments that do not fit."""
    trace = error.__traceback__
    return type(error) is TypeError and trace is not None and trace.tb_next is None


#: What a function gives for handles, or None where it does not take them; called with the function,
#: its arguments, and the error that it raised.  ``functrax/random`` puts its own here.
handle_rules: Final[list[Callable[..., Any]]] = []


class ExtraKeyword:
    """A keyword of public functions that says what is done with their results.

    Only a call that gives it pays for it: the function itself does not know it, so Python refuses
    the call, and :func:`explained` does what the keyword means.

    Args:
      name: the keyword; None is its default and leaves the result as it is.
      rule: takes the result, the value that was given, and the function's name.
      annotation: its type, for those who read the signature.
    """

    def __init__(self, name: str, rule: Callable[[Any, Any, str], Any], annotation: str) -> None:
        self.name, self.rule, self.annotation = name, rule, annotation

    def of(self, function: F) -> F:
        """A function written in Python, which takes the keyword from now on where it is public."""
        signature = inspect.signature(function)
        parameter = inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=self.annotation,
        )
        parameters = [*signature.parameters.values(), parameter]
        vars(function)["__signature__"] = signature.replace(parameters=parameters)
        vars(function)["_extra_keyword"] = self
        return function


def _extra_keyword(function: Callable[..., Any]) -> ExtraKeyword | None:
    found: ExtraKeyword | None = getattr(inspect.unwrap(function), "_extra_keyword", None)
    return found


def _explain(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: TypeError
) -> Any:
    if type(error) is not HandleError:
        extra = _extra_keyword(function)
        if extra is None or extra.name not in kwargs:
            raise argument_error(function, args, kwargs, error) from None
        rest = {k: x for k, x in kwargs.items() if k != extra.name}
        result = explained(function, function.__module__)(*args, **rest)
        return extra.rule(result, kwargs[extra.name], function.__name__)
    for rule in handle_rules:
        result = rule(function, args, kwargs)
        if result is not None:
            return result
    raise error


def argument_error(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: TypeError
) -> ArgumentError:
    """What is wrong with the arguments of a call, and what would be right."""
    name = getattr(function, "__name__", type(function).__name__)
    signature = inspect.signature(function)
    known = [p.name for p in signature.parameters.values() if p.kind is not p.POSITIONAL_ONLY]
    unknown = [k for k in kwargs if k not in known]
    if unknown:
        import difflib

        near = difflib.get_close_matches(unknown[0], known, 1)
        fix = f"{near[0]}=" if near else f"one of its arguments: {_call(name, signature)}"
        return ArgumentError(
            f"{name}: unknown keyword {unknown[0]!r}", got=f"{unknown[0]}=...", fix=fix
        )
    given = f"{len(args)} positional arguments" + (f" and {', '.join(kwargs)}" if kwargs else "")
    message = str(error).removeprefix(f"{getattr(function, '__qualname__', name)}() ")
    return ArgumentError(f"{name}: {message}", got=given, fix=_call(name, signature))


def _call(name: str, signature: inspect.Signature) -> str:
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return f"{name}{signature.replace(parameters=plain, return_annotation=signature.empty)}"


if native.extension is not None:
    native.extension.explained_configure(HandleError)
