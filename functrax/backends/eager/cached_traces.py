"""Recipes: library functions that are recorded without being called.

A function such as a sampler of random numbers records a dozen operations, and which ones follows
from the types of its arrays and from its other arguments.  :func:`with_recipe` says so of a
function.  From the second call with such arguments on, outside of ``jit``, its operations are
recorded from what is remembered (``native/eager_recipe.cpp``): the same nodes that calling it would
have recorded, so nothing that is computed depends on it.  A function that has no recipe for some
arguments, because it looks at values or calls a loop, is called.

Start at :func:`with_recipe`, then :func:`_written`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from functrax.backends.eager import MAX_NODES, signature_of
from functrax.core import native
from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.options.config import Override, state as options
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.stage import close, stage

F = TypeVar("F", bound="Callable[..., Any]")


class NoRecipeError(Exception):
    """The operations do not follow from the types of the arguments."""


def with_recipe(function: F) -> F:
    """Let a function be recorded by its recipe.

    Args:
      function: what it records, and what it returns (an array, or a tuple or list of arrays, of
        which a tuple is made), follows from the types of the arguments that are arrays and from the
        values of the others.  It has no side effects, not even warnings.

    >>> import functrax.numpy as jnp
    >>> @with_recipe
    ... def halves(x, axis):
    ...     return jnp.split(x, 2, axis)
    >>> [len(halves(jnp.zeros((4, 6)), axis)) for axis in (0, 1, 0, 1)]
    [2, 2, 2, 2]
    """
    return _with_recipe(function, as_value)


def with_recipe_of_keys(function: F) -> F:
    """As :func:`with_recipe`, for a function that refuses NumPy arrays of other dtypes than keys.

    Those that would be narrowed to 32 bits are left to it.
    """
    return _with_recipe(function, _as_value_of_its_dtype)


def _with_recipe(function: F, convert: Callable[[Any], Any]) -> F:
    if native.extension is None:
        return function
    prepare = functools.partial(_recipe, function)
    prepare_taped = functools.partial(_fragment, function)
    made: F = native.extension.EagerFunction(function, prepare, prepare_taped, convert, np.dtype)
    return made


def _as_value_of_its_dtype(x: Any) -> Any:
    value = as_value(x)
    if value.aval.dtype != x.dtype:
        raise NoRecipeError
    return value


#: Classes around one array, in the slot ``words``, that functions with recipes take and return.
_wrappers: Final[set[type]] = set()


def add_wrapper(wrapper: type) -> None:
    """Let functions with recipes take and return objects that hold one array, such as keys.

    Args:
      wrapper: their class; the array is in its slot ``words``, and all that it is made from.
    """
    _wrappers.add(wrapper)
    if native.extension is not None:
        native.extension.eager_wrapper(wrapper)


#: Derives what a function adds to a derivative;
#: ``transforms/differentiation/cached_linearization.py`` puts its own here.
fragments: Final[list[Callable[..., tuple[Any, ...] | None]]] = []


def _fragment(
    function: Callable[..., Any], tangents: tuple[Any, ...], *args: Any, **kwargs: Any
) -> tuple[Any, ...] | None:
    return fragments[0](function, tangents, *args, **kwargs) if fragments else None


def _recipe(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...] | None:
    """The recipe of a call; None if there is none, or the function refuses the arguments."""
    if kwargs.get("out_sharding") is not None:
        return None
    arrays = [x for x in map(_array_in, (*args, *kwargs.values())) if x is not None]
    wrapper: type | None = None
    single = True

    def flat(*tracers: Any) -> list[Any]:
        nonlocal wrapper, single
        rest = iter(tracers)

        def place(x: Any) -> Any:
            if _array_in(x) is None:
                return x
            return type(x)(next(rest)) if type(x) in _wrappers else next(rest)

        given = [place(x) for x in args]  # before those that have names, as `arrays` are
        out = function(*given, **{k: place(x) for k, x in kwargs.items()})
        if type(out) in _wrappers:
            wrapper, out = type(out), out.words
        single = isinstance(out, Array)
        if not single and type(out) not in (tuple, list):
            raise NoRecipeError
        return [as_value(x) for x in ([out] if single else out)]

    name = getattr(function, "__name__", "function")
    try:
        # Numbers are computed as recorded operations are, and who warns is to be called.
        with Override("strict", True), warnings.catch_warnings():
            warnings.simplefilter("error")
            jaxpr, consts = stage(flat, [x.aval for x in arrays], name)
        recipe = written(close(jaxpr), consts, options.strict)
        if len(recipe[1]) > MAX_NODES or any(type(x) is Literal for x in recipe[2]):
            return None
        return (*recipe, tuple([x.aval for x in jaxpr.outvars]), single, wrapper)
    except Exception:  # it is called, and raises what it raises
        return None


def _array_in(x: Any) -> ConcreteArray | None:
    """The array that an argument is, or holds."""
    found = x.words if type(x) in _wrappers else x
    return found if type(found) is ConcreteArray else None


def written(
    jaxpr: Jaxpr, consts: Sequence[ConcreteArray], strict: bool
) -> tuple[tuple[Any, ...], ...]:
    """A program as ``eager_steps.cpp`` reads it: constants, steps, and the results.

    A result is a literal, or its place.

    Args:
      jaxpr: with constants as its leading inputs.
      consts: the values of these.
      strict: whether its operations are recorded in strict mode.

    Raises:
      NoRecipeError: if it cannot be written so.
    """
    count = len(consts)
    inputs = [*jaxpr.invars[count:], *jaxpr.invars[:count]]
    places: dict[Atom, int] = {v: k for k, v in enumerate(inputs)}
    steps: list[tuple[Any, tuple[Any, ...]]] = []
    size = len(inputs)
    eqns, results = _opened(jaxpr)
    for eqn in eqns:
        operands = [x if type(x) is Literal else places[x] for x in eqn.invars]
        avals = [x.aval for x in eqn.invars]
        signature = signature_of(eqn.primitive, strict, avals, eqn.params)
        steps.append((signature, tuple(operands)))
        places.update({v: size + k for k, v in enumerate(eqn.outvars)})
        size += len(eqn.outvars)
    constants = tuple([x.buffer for x in consts])
    found = tuple([x if type(x) is Literal else places[x] for x in results])
    return constants, tuple(steps), found


def _opened(jaxpr: Jaxpr) -> tuple[list[Eqn], list[Atom]]:
    """The equations, those of calls in their place, and the results."""
    eqns: list[Eqn] = []

    def write(program: Jaxpr, operands: Sequence[Atom]) -> list[Atom]:
        env: dict[Atom, Atom] = dict(zip(program.invars, operands, strict=True))
        for eqn in program.eqns:
            invars = [x if type(x) is Literal else env[x] for x in eqn.invars]
            inner = eqn.primitive.inlines(dict(eqn.params))
            if inner is not None:
                env.update(zip(eqn.outvars, write(inner, invars), strict=True))
                continue
            if eqn.primitive.holds_programs or not eqn.primitive.pure:
                raise NoRecipeError
            outvars = [Var(v.aval) for v in eqn.outvars]
            eqns.append(Eqn(eqn.primitive, invars, outvars, eqn.params))
            env.update(zip(eqn.outvars, outvars, strict=True))
        return [x if type(x) is Literal else env[x] for x in program.outvars]

    results = write(jaxpr, jaxpr.invars)
    return eqns, results
