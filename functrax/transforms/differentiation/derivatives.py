"""The derivatives that users call: ``jvp``, ``vjp``, ``grad``, ``linearize`` and their kin.

Reverse mode is linearize, then the tape read backwards.  A linear map of a single number is
applied to 1 instead: that is the same derivative, takes no more work, and keeps the size of
nested derivatives polynomial in their order.

Start at :func:`vjp`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal as Exactly, TypeAlias, overload

from functrax.core import native
from functrax.core.boundaries.tracebacks import boundary
from functrax.core.errors.typed import ArgumentError, PyTreeError
from functrax.core.ir.jaxpr import Literal
from functrax.core.pytree.operations import (
    PyTreeDef,
    tree_flatten,
    tree_map,
    tree_unflatten,
)
from functrax.core.tracing.inputs import as_value, concrete, shown_type
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.trace import state
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import (
    FlatFunction,
    argnums_tuple,
    check_callable,
    flatten_args,
    flatten_result,
    name_of,
    restricted_to,
)
from functrax.transforms.differentiation import cached_linearization
from functrax.transforms.differentiation.linear_functions import Linearized
from functrax.transforms.differentiation.tangents import (
    check_inputs,
    check_scalar,
    check_tangents,
    cotangents,
    with_zeros,
)
from functrax.transforms.interpreters.forward import JVPTracer, jvp_flat
from functrax.transforms.interpreters.linearize import Tape
from functrax.transforms.interpreters.transpose import backward

if TYPE_CHECKING:
    from functrax.core.arrays.operators import Array
    from functrax.transforms.arguments.function_types import (
        A,
        Gradient,
        GradientAndAux,
        P,
        R,
        ValueAndGradient,
        ValueAuxAndGradient,
    )
    from functrax.typing import ArrayLike


@overload
def jvp(
    fun: Callable[..., tuple[R, A]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Exactly[True],
) -> tuple[R, R, A]: ...
@overload
def jvp(
    fun: Callable[..., R],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Exactly[False] = ...,
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = ...
) -> Any: ...
def jvp(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
) -> Any:
    """The value of a function and its derivative in one direction (forward mode).

    Args:
      fun: takes the primals, returns a pytree of arrays.
      primals: the point, a tuple or list with one pytree for each argument.
      tangents: the direction, of the same structure, shapes and dtypes (float0 for integers).
      has_aux: whether ``fun`` returns a pair whose second part is not differentiated.

    Returns:
      ``(value, tangent)``, and ``aux`` with ``has_aux``.

    Raises:
      ArgumentError: if ``fun`` is not a function, or primals and tangents are not sequences.
      PyTreeError: if the tangents have another structure, or ``has_aux`` finds no pair.
      TangentError: if a tangent has another shape or dtype than its primal.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.jvp(jnp.square, (3.0,), (1.0,))
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable("jvp", fun)
    if not (isinstance(primals, (tuple, list)) and isinstance(tangents, (tuple, list))):
        raise ArgumentError(
            "jvp: primal and tangent arguments to jax.jvp must be tuples or lists; "
            f"found {type(primals).__name__} and {type(tangents).__name__}.",
            got=f"primals: {shown_type(primals)}, tangents: {shown_type(tangents)}",
            fix="functrax.jvp(f, (x,), (t,))",
        )
    flat, in_tree = flatten_args(fun, primals, {})
    tree = tree_flatten(primals)[1]
    given = check_tangents("jvp", "tangent", tangents, tree, [x.aval for x in flat])
    aux = _Aux(fun, has_aux)
    flat_fun = FlatFunction(aux, in_tree)
    outs, out_tangents = jvp_flat(flat_fun, flat, given)
    avals = [x.aval for x in outs]
    value = tree_unflatten(flat_fun.out_tree, map(concrete, outs))
    tangent = tree_unflatten(flat_fun.out_tree, with_zeros(out_tangents, avals))
    return (value, tangent, aux.aux) if has_aux else (value, tangent)


class _Aux:
    """Calls a function, and puts the second part of its result aside if it has one.

    After a call ``aux`` is that part, with primal values in place of tracers.
    """

    def __init__(self, function: Callable[..., Any], has_aux: bool) -> None:
        self.function = function
        self.has_aux = has_aux
        self.__name__ = name_of(function)
        self.aux: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = self.function(*args, **kwargs)
        if not self.has_aux:
            return out
        _check_pair(self.__name__, out)
        value, aux = out
        self.aux = tree_map(_primal, aux)
        return value


def _check_pair(name: str, out: Any) -> None:
    if isinstance(out, (tuple, list)) and len(out) == 2:
        return
    raise PyTreeError(
        f"{name}: with has_aux=True it must return a pair (value, aux), a two-element tuple",
        got=shown_type(out),
        fix="return value, aux",
    )


def _primal(x: Any) -> Any:
    """A value without its tangent, where the current trace is the one that gave it one."""
    return x.primal if isinstance(x, JVPTracer) and x._trace is state.trace else x


@overload
def linearize(
    fun: Callable[..., tuple[R, A]], *primals: Any, has_aux: Exactly[True]
) -> tuple[R, Callable[..., R], A]: ...
@overload
def linearize(
    fun: Callable[..., R], *primals: Any, has_aux: Exactly[False] = ...
) -> tuple[R, Callable[..., R]]: ...
@overload
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = ...) -> Any: ...
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function at a point, and its derivative there as a linear function.

    Args:
      fun: takes the primals, returns a pytree of arrays.
      primals: the point.
      has_aux: whether ``fun`` returns a pair whose second part is not differentiated.

    Returns:
      ``(value, f_jvp)``, and ``aux`` with ``has_aux``; ``f_jvp(*tangents)`` is the derivative in
      that direction and does not evaluate ``fun`` again.

    Raises:
      ArgumentError: if ``fun`` is not a function.
      PyTreeError: if ``has_aux`` finds no pair, or the tangents have another structure.
      TangentError: if a tangent has another shape or dtype than its primal.

    >>> import functrax, functrax.numpy as jnp
    >>> y, f_jvp = functrax.linearize(jnp.square, 3.0)
    >>> f_jvp(1.0), f_jvp(10.0)
    (Array(6., dtype=float32, weak_type=True), Array(60., dtype=float32, weak_type=True))
    """
    check_callable("linearize", fun)
    flat, in_tree = flatten_args(fun, primals, {})
    aux = _Aux(fun, has_aux)
    linear = Linearized(FlatFunction(aux, in_tree), flat, tree_flatten(primals)[1])
    found = (linear.value(), linear.function())
    return (*found, aux.aux) if has_aux else found


@overload
def vjp(
    fun: Callable[..., tuple[R, A]], *primals: Any, has_aux: Exactly[True]
) -> tuple[R, Callable[[R], tuple[Any, ...]], A]: ...
@overload
def vjp(
    fun: Callable[..., R], *primals: ArrayLike, has_aux: Exactly[False] = ...
) -> tuple[R, Callable[[R], tuple[Array, ...]]]: ...
@overload
def vjp(
    fun: Callable[..., R], *primals: Any, has_aux: Exactly[False] = ...
) -> tuple[R, Callable[[R], tuple[Any, ...]]]: ...
@overload
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = ...) -> Any: ...
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function at a point, and the transpose of its derivative (reverse mode).

    Args:
      fun: takes the primals, returns a pytree of arrays.
      primals: the point.
      has_aux: whether ``fun`` returns a pair whose second part is not differentiated.

    Returns:
      ``(value, f_vjp)``, and ``aux`` with ``has_aux``; ``f_vjp(ct)`` takes a cotangent of the
      value's structure, and returns a tuple with one cotangent for each primal.

    Raises:
      ArgumentError: if ``fun`` is not a function.
      PyTreeError: if ``has_aux`` finds no pair, or the cotangent has another structure.
      TangentError: if a cotangent has another shape or dtype than its value.

    >>> import functrax, functrax.numpy as jnp
    >>> y, f_vjp = functrax.vjp(jnp.sin, 0.0)
    >>> f_vjp(1.0)
    (Array(1., dtype=float32, weak_type=True),)
    """
    check_callable("vjp", fun)
    flat, in_tree = flatten_args(fun, primals, {})
    aux = _Aux(fun, has_aux)
    linear = Linearized(FlatFunction(aux, in_tree), flat, tree_flatten(primals)[1])
    found = (linear.value(), linear.transpose())
    return (*found, aux.aux) if has_aux else found


@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: Exactly[0] = ...,
    has_aux: Exactly[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> ValueAndGradient[P, R]: ...
@overload
def value_and_grad(
    fun: Callable[P, tuple[R, A]],
    argnums: Exactly[0] = ...,
    *,
    has_aux: Exactly[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> ValueAuxAndGradient[P, R, A]: ...
@overload
def value_and_grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[P, Any]: ...
def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the value of ``fun`` and its gradient.

    Args:
      fun: returns a scalar array (of rank 0), or a pair of one and anything with ``has_aux``.
      argnums: which positional arguments to differentiate by.
      has_aux: whether ``fun`` returns ``(value, aux)``.
      holomorphic: whether ``fun`` is complex-differentiable, and its value complex.
      allow_int: whether integer arguments are allowed; their gradient is of dtype float0.

    Returns:
      A function of the same arguments; it returns ``(value, gradient)``, or
      ``((value, aux), gradient)``.  The gradient has the structure of the argument, or is a tuple
      if ``argnums`` is a sequence.  By a complex number ``x + iy`` the gradient of a real value is
      ``∂f/∂x - i ∂f/∂y``, as JAX has it: its conjugate is the direction of steepest ascent.

    Raises:
      DifferentiationError: if the result is not a real scalar, or an argument is not of a
        floating point type.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.value_and_grad(jnp.square)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable("grad", fun)
    wanted = (fun, argnums_tuple(argnums), has_aux, holomorphic, allow_int)

    @boundary
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        value, aux, grads = _gradients(wanted, args, kwargs)
        gradient = grads[0] if isinstance(argnums, int) else grads
        return ((value, aux) if has_aux else value), gradient

    return functools.update_wrapper(value_and_gradient, fun)


#: Whose gradients are asked for: a function, the positions of arguments, and whether it returns
#: a second part, is holomorphic, and may be given integers.
_Wanted: TypeAlias = tuple[Callable[..., Any], tuple[int, ...], bool, bool, bool]


def _gradients(
    wanted: _Wanted, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any, tuple[Any, ...]]:
    """The value of a function, the second part of its result, and the gradients by arguments."""
    found = cached_linearization.gradient(wanted, args, kwargs)
    if found is not NotImplemented:
        return found  # type: ignore[no-any-return]
    fun, positions, has_aux, holomorphic, allow_int = wanted
    restricted, chosen = restricted_to("grad", fun, positions, args, kwargs)
    primals = [args[i] for i in chosen]
    flat, in_tree = flatten_args(fun, primals, {})
    check_inputs(fun, flat, chosen, primals, holomorphic, allow_int)
    aux = _Aux(restricted, has_aux)
    linear = Linearized(FlatFunction(aux, in_tree), flat, in_tree.children()[0])
    check_scalar(fun, linear.out_avals, linear.out_tree, holomorphic)
    cts = _gradient(linear.tape, linear.out_avals[0])
    grads = tree_unflatten(linear.in_tree, cotangents(cts, linear.in_avals))
    return linear.value(), aux.aux, grads


def _gradient(tape: Tape, aval: ShapedArray) -> list[Value | None]:
    """The gradient of a scalar of a type: the transpose applied to 1."""
    variables = [v for v in tape.inputs if v is not None]
    if len(variables) == 1 and _runs_forwards(tape, variables[0].aval, aval):
        seed = Literal(1, variables[0].aval)
        (out,) = tape.apply([None if v is None else seed for v in tape.inputs])
        return [None if v is None else out for v in tape.inputs]
    return backward(tape, [Literal(1, aval)])


def _runs_forwards(tape: Tape, argument: ShapedArray, result: ShapedArray) -> bool:
    # Of another dtype than the argument's, the result would be rounded to that dtype.
    if argument.shape != () or argument.dtype != result.dtype:
        return False
    # Neither does it run forwards with a custom_vjp, nor with a collective, whose transpose sums
    # over the elements of a batch.
    return not any(e.primitive.effects(e.params) for e in tape.entries)


@overload
def grad(
    fun: Callable[P, R],
    argnums: Exactly[0] = ...,
    has_aux: Exactly[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Gradient[P]: ...
@overload
def grad(
    fun: Callable[P, tuple[R, A]],
    argnums: Exactly[0] = ...,
    *,
    has_aux: Exactly[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> GradientAndAux[P, A]: ...
@overload
def grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[P, Any]: ...
def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the gradient of ``fun``; see :func:`value_and_grad`.

    Args:
      fun: returns a scalar array, or a pair of one and anything with ``has_aux``.
      argnums: which positional arguments to differentiate by.
      has_aux: whether ``fun`` returns ``(value, aux)``; the result is then ``(gradient, aux)``.
      holomorphic: whether ``fun`` is complex-differentiable.
      allow_int: whether integer arguments are allowed.

    Returns:
      A function of the same arguments; the gradient has the structure of the argument, or is a
        tuple if ``argnums`` is a sequence.

    Raises:
      DifferentiationError, ArgumentError, PyTreeError: as :func:`value_and_grad`.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.grad(jnp.tanh)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    check_callable("grad", fun)
    wanted = (fun, argnums_tuple(argnums), has_aux, holomorphic, allow_int)

    @boundary
    def gradient(*args: Any, **kwargs: Any) -> Any:
        _, aux, grads = _gradients(wanted, args, kwargs)
        out = grads[0] if isinstance(argnums, int) else grads
        return (out, aux) if has_aux else out

    return functools.update_wrapper(gradient, fun)


# ---- what native/eager_gradient.cpp asks for -----------------------------------------------------


def _facts(aval: ShapedArray) -> tuple[int, bool, bool, Literal | None]:
    """Of a type whether it is real (1), complex (2) or neither, a scalar, weak; and a 1 of it."""
    kind = 1 if dtypes.is_float(aval.dtype) else 2 if dtypes.is_complex(aval.dtype) else 0
    is_scalar = aval.shape == ()
    return kind, is_scalar, aval.weak_type, Literal(1, aval) if kind and is_scalar else None


def _result(name: str, out: Any) -> tuple[list[Value], list[ShapedArray], PyTreeDef]:
    """What a function of a name returned: values, their types and structure."""
    values, tree = flatten_result(name, out)
    return values, [x.aval for x in values], tree


def _install() -> None:
    if native.extension is None:
        return
    functions = (name_of, as_value, _check_pair, _result, check_scalar, cotangents, concrete)
    native.extension.eager_gradient_configure((*functions, _facts))


_install()
