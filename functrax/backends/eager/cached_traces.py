"""Recipes: library functions that are recorded without being called.

A function such as a sampler of random numbers records a dozen operations, and which ones follows
from the types of its arrays and from its other arguments.  :func:`with_recipe` says so of a
function.  From the second call with such arguments on, outside of ``jit``, its operations are
recorded from what is remembered (``native/eager_recipe.cpp``): those that calling it would have
recorded, equal ones once and those on numbers alone folded, so nothing that is computed depends on
it.  A function that has no recipe for some arguments, because it looks at values or calls a loop,
is called.

Start at :func:`with_recipe`, then :func:`_written`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from functrax.backends.eager import MAX_NODES, signature_of
from functrax.backends.eager.graph import SMALL_BYTES
from functrax.backends.eager.settings import Setting, current_setting
from functrax.core import native
from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.options.config import Override
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.stage import close, stage

F = TypeVar("F", bound="Callable[..., Any]")


class NoRecipeError(Exception):
    """The operations do not follow from the types of the arguments."""


def with_recipe(function: F) -> F:
    """Let a function be recorded by its recipe.

    Args:
      function: what it records, and what it returns (an array, or a tuple, a named tuple or a list
        of arrays), follows from the types of the arguments that are arrays and from the values of
        the others.  Lists and tuples of arguments may hold arrays.  It has no side effects, not
        even warnings.

    >>> import functrax.numpy as jnp
    >>> @with_recipe
    ... def halves(x, axis):
    ...     return jnp.split(x, 2, axis)
    >>> [len(halves(jnp.zeros((4, 6)), axis)) for axis in (0, 1, 0, 1)]
    [2, 2, 2, 2]
    """
    return _with_recipe(function, as_value, False)


def with_long_recipe(function: F) -> F:
    """As :func:`with_recipe`, for a function of several operations.

    Its first calls of each kind are made from the recipe already: in a trace equal operations are
    one, and numbers are folded, so calling it would be a program of its own, for one call.
    """
    return _with_recipe(function, as_value, True)


def with_recipe_of_keys(function: F) -> F:
    """As :func:`with_recipe`, for a function that refuses NumPy arrays of other dtypes than keys.

    Those that would be narrowed to 32 bits are left to it.
    """
    return _with_recipe(function, _as_value_of_its_dtype, False)


def with_long_recipe_of_keys(function: F) -> F:
    """As :func:`with_recipe_of_keys`, for a function of several operations."""
    return _with_recipe(function, _as_value_of_its_dtype, True)


def _with_recipe(function: F, convert: Callable[[Any], Any], at_once: bool) -> F:
    if native.extension is None:
        return function
    prepare = functools.partial(_recipe, function)
    prepare_taped = functools.partial(_fragment, function)
    made: F = native.extension.EagerFunction(
        function, prepare, prepare_taped, convert, np.dtype, at_once
    )
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
    setting = current_setting()
    if setting is None or kwargs.get("out_sharding") is not None:
        return None
    arrays: list[ConcreteArray] = []
    _add_arrays((*args, *kwargs.values()), arrays)
    container: type | None = None

    def flat(*tracers: Any) -> list[Any]:
        nonlocal container
        rest = iter(tracers)
        given = [_placed(x, rest) for x in args]  # before those that have names, as `arrays` are
        out = function(*given, **{k: _placed(x, rest) for k, x in kwargs.items()})
        if type(out) in _wrappers:
            container, out = type(out), out.words
        elif not isinstance(out, Array):
            container = type(out)
            if not _holds_results(container):
                raise NoRecipeError
        results = [out] if isinstance(out, Array) else list(out)
        if not all(isinstance(x, Array) for x in results):
            raise NoRecipeError
        return results

    name = getattr(function, "__name__", "function")
    try:
        # Numbers are computed as recorded operations are, and who warns is to be called.
        with Override("strict", True), warnings.catch_warnings():
            warnings.simplefilter("error")
            jaxpr, consts = stage(flat, [x.aval for x in arrays], name)
        constants, steps, results = written(close(jaxpr), consts, setting)
        given = len(arrays)
        own = any(type(x) is Literal or given <= x < given + len(consts) for x in results)
        if own or len(steps) > MAX_NODES or sum([x.aval.nbytes for x in consts]) > SMALL_BYTES:
            return None  # a constant as a result is the function's to make anew
        return constants, steps, results, tuple([x.aval for x in jaxpr.outvars]), container
    except Exception:  # it is called, and raises what it raises
        return None


def _holds_results(kind: type) -> bool:
    """Whether results may lie in objects of a class: tuples, named ones among them, and lists."""
    return kind in (tuple, list) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _add_arrays(x: Any, arrays: list[ConcreteArray]) -> None:
    """Add the arrays that an argument is, or holds, in the order in which C++ finds them."""
    if type(x) in (tuple, list):
        for item in x:
            _add_arrays(item, arrays)
        return
    found = x.words if type(x) in _wrappers else x
    if type(found) is ConcreteArray:
        arrays.append(found)


def _placed(x: Any, tracers: Iterator[Any]) -> Any:
    """An argument with the next tracers in the place of its arrays."""
    if type(x) in (tuple, list):
        return type(x)([_placed(item, tracers) for item in x])
    if type(x) in _wrappers:
        return type(x)(next(tracers)) if type(x.words) is ConcreteArray else x
    return next(tracers) if type(x) is ConcreteArray else x


def forget() -> None:
    """Forget the recipes of all functions."""
    if native.extension is not None:
        native.extension.eager_forget_recipes()


def written(
    jaxpr: Jaxpr, consts: Sequence[ConcreteArray], setting: Setting
) -> tuple[tuple[Any, ...], ...]:
    """A program as ``eager_steps.cpp`` reads it: constants, steps, and the results.

    A result is a literal, or its place.

    Args:
      jaxpr: with constants as its leading inputs.
      consts: the values of these.
      setting: with which its operations are recorded.

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
        signature = signature_of(eqn.primitive, setting, avals, eqn.params)
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
