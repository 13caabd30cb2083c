"""Which values a derivative keeps for its backward pass: ``ad_checkpoint.print_saved_residuals``.

The function is linearized while it is staged, so each residual is a value of a program: an
argument, a constant, or the result of an operation, which the program's equations tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from functrax.core.ir.jaxpr import Eqn, Literal, Var
from functrax.core.pytree.operations import keystr, tree_flatten_with_path
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import StagedTracer, StagingTrace
from functrax.core.tracing.trace import current
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import (
    FlatFunction,
    check_callable,
    flatten_args,
    given_names,
)
from functrax.transforms.differentiation.linear_functions import Linearized
from functrax.transforms.interpreters.detached import DetachedTape
from functrax.transforms.interpreters.linearize import is_not_reindex
from functrax.transforms.operations.checkpoint_name import name_p


class SavedResidual(NamedTuple):
    """A value that is kept: its type, and where it comes from, in words."""

    aval: ShapedArray
    origin: str


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[SavedResidual]:
    """The values that ``vjp`` of a function keeps.

    Args:
      f: a function of pytrees of arrays.
      args: its arguments, of which only the types matter.
      kwargs: the same by name.
    """
    check_callable("saved_residuals", f)
    flat, in_tree = flatten_args(f, args, kwargs)
    names = given_names(f, len(args))
    paths = [path for path, _ in tree_flatten_with_path((args, kwargs))[0]]
    trace = StagingTrace("saved_residuals")
    inputs = [trace.new_input(x.aval) for x in flat]
    try:
        with current(trace):
            linear = Linearized(FlatFunction(f, in_tree), list(inputs), in_tree)
        values = DetachedTape.of(linear.tape)[1]
        definitions = {v: e for e in trace.eqns for v in e.outvars}
        given = {x.variable: _name(p, names) for x, p in zip(inputs, paths, strict=True)}
        return list(_origins(values, trace, definitions, given))
    finally:
        trace.end()


def _name(path: Any, names: list[str]) -> str:
    """``x['a']`` for a leaf of ``(args, kwargs)``."""
    which = path[1]
    name = names[which.idx] if hasattr(which, "idx") else which.key
    return f"{name}{keystr(path[2:])}"


def _origins(
    values: list[Value],
    trace: StagingTrace,
    definitions: dict[Var, Eqn],
    given: dict[Var, str],
) -> Iterator[SavedResidual]:
    seen: set[Any] = set()
    for x in values:
        variable = x.variable if type(x) is StagedTracer and x._trace is trace else None
        if variable is None:
            yield SavedResidual(x.aval, "from a constant")
            continue
        # What is reindexed is kept as what it is reindexed from.
        while variable in definitions and not is_not_reindex(definitions[variable]):
            source = definitions[variable].invars[0]
            if isinstance(source, Literal):
                break
            variable = source
        if variable in seen:
            continue
        seen.add(variable)
        yield SavedResidual(variable.aval, _origin(variable, trace, definitions, given))


def _origin(
    variable: Var, trace: StagingTrace, definitions: dict[Var, Eqn], given: dict[Var, str]
) -> str:
    if variable in given:
        return f"from the argument {given[variable]}"
    eqn = definitions.get(variable)
    if eqn is None:
        return "from a constant"
    if eqn.primitive is name_p:
        return f"named {eqn.params['tag']!r} from {eqn.source}"
    for other in trace.eqns:
        if other.primitive is name_p and variable in other.invars:
            return f"named {other.params['tag']!r} from {other.source}"
    return f"output of {eqn.primitive.name} from {eqn.source}"


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print which values ``vjp`` of a function keeps for the backward pass.

    Args:
      f: a function of pytrees of arrays; wrap it in ``checkpoint`` to see what that keeps.
      args: its arguments, of which only the types matter.
      kwargs: the same by name.

    Raises:
      DTypeError: if an argument is no array or number.

    >>> import functrax, functrax.numpy as jnp
    >>> from functrax.ad_checkpoint import print_saved_residuals
    >>> print_saved_residuals(functrax.checkpoint(lambda x: jnp.sin(jnp.cos(x))), 1.0)
    ~f32[] from the argument x
    """
    for aval, origin in saved_residuals(f, *args, **kwargs):
        print(f"{aval.str_short()} {origin}")
