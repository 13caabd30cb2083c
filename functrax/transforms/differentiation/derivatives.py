"""The derivatives that users call: ``jvp``, ``vjp``, ``grad``, ``linearize`` and their kin.

Reverse mode is linearize, then the tape read backwards.  A linear map of a single number is
applied to 1 instead: that is the same derivative, takes no more work, and keeps the size of
nested derivatives polynomial in their order.

Start at :func:`vjp`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from functrax.core import native
from functrax.core.boundaries.tracebacks import boundary
from functrax.core.errors.typed import ArgumentError, DifferentiationError, PyTreeError
from functrax.core.ir.jaxpr import Jaxpr, Literal
from functrax.core.prims.reindex import zeros
from functrax.core.pytree.operations import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
    tree_unflatten,
)
from functrax.core.pytree.registry import Partial
from functrax.core.tracing.inputs import as_value, concrete, shown_type
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import eval_jaxpr, stage
from functrax.core.tracing.trace import current, state
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
from functrax.transforms.arguments.inspect_types import type_of
from functrax.transforms.differentiation import cached_linearization
from functrax.transforms.differentiation.linear_functions import Linearized, LinearSignature
from functrax.transforms.differentiation.tangents import check_tangents, cotangents, with_zeros
from functrax.transforms.interpreters.forward import JVPTracer, jvp_flat
from functrax.transforms.interpreters.linearize import PartialTrace, Tape
from functrax.transforms.interpreters.transpose import backward


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
    _check_inputs(fun, flat, chosen, primals, holomorphic, allow_int)
    aux = _Aux(restricted, has_aux)
    linear = Linearized(FlatFunction(aux, in_tree), flat, in_tree.children()[0])
    _check_scalar(fun, linear.out_avals, linear.out_tree, holomorphic)
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


def _check_inputs(
    fun: Any,
    flat: Sequence[Value],
    positions: Sequence[int],
    primals: Any,
    holomorphic: bool,
    allow_int: bool,
) -> None:
    if allow_int and not holomorphic:
        return
    allowed = dtypes.COMPLEX if holomorphic else dtypes.INEXACT
    for number, x in enumerate(flat):
        if x.aval.dtype in allowed:
            continue
        # Paths are worked out for the error alone.
        by_position = dict(zip(positions, primals, strict=True))
        path = tree_flatten_with_path(by_position)[0][number][0]
        where = f"argument {keystr(path)} of {name_of(fun)} is {x.aval.str_short()}"
        if holomorphic:
            raise DifferentiationError(
                "grad with holomorphic=True requires inputs with complex dtype, but got "
                f"{x.aval.dtype.name}: grad: holomorphic=True needs complex arguments",
                got=where,
                fix="convert it with .astype('complex64'), or leave holomorphic out",
            )
        raise DifferentiationError(
            "grad requires real- or complex-valued inputs (input dtype that is a sub-dtype of "
            f"np.inexact), but got {x.aval.dtype.name}: only floating point arguments have a "
            "derivative",
            got=where,
            fix="convert it with .astype('float32'); choose other argnums; "
            "or allow_int=True for gradients of dtype float0",
        )


def _check_scalar(
    fun: Any, avals: Sequence[ShapedArray], tree: PyTreeDef, holomorphic: bool
) -> None:
    if len(avals) == tree.num_nodes == 1 and avals[0].shape == ():
        if (dtypes.is_complex if holomorphic else dtypes.is_float)(avals[0].dtype):
            return
    shown = ", ".join(a.str_short() for a in avals)
    if len(avals) != 1 or tree.num_nodes != 1 or avals[0].shape != ():
        raise DifferentiationError(
            "Gradient only defined for scalar-output functions. Output "
            + (
                f"had shape: {avals[0].shape}"
                if len(avals) == tree.num_nodes == 1
                else f"was: {tree}"
            )
            + f". {name_of(fun)} does not return a scalar",
            got=f"{shown or 'nothing'} in {tree}",
            fix="reduce it, as by .sum() or .mean(); functrax.jacrev for a Jacobian; "
            "has_aux=True if it returns (value, aux)",
        )
    dtype = avals[0].dtype
    if holomorphic and not dtypes.is_complex(dtype):
        raise DifferentiationError(
            "grad with holomorphic=True requires outputs with complex dtype, but got "
            f"{dtype.name}: holomorphic=True, but {name_of(fun)} returns a real number",
            got=shown,
            fix="leave holomorphic out: the gradient of a real value needs no such promise",
        )
    if not holomorphic and not dtypes.is_float(dtype):
        raise DifferentiationError(
            "grad requires real-valued outputs (output dtype that is a sub-dtype of np.floating), "
            f"but got {dtype.name}: {name_of(fun)} returns a scalar that is not a real floating "
            "point number",
            got=shown,
            fix="its real part; holomorphic=True if it is complex-differentiable; functrax.vjp"
            if dtypes.is_complex(dtype)
            else ".astype('float32'), if it has a derivative",
        )


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


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[..., Any]:
    """The transpose of a function that is linear.

    Args:
      fun: a linear function of arrays.
      primals: example arguments, of which only shapes and dtypes matter.

    Returns:
      A function from a cotangent of ``fun``'s result to a tuple of cotangents of its arguments.

    Raises:
      ArgumentError: if ``fun`` is not a function.
      DifferentiationError: if it is not linear, or mixes integers with other numbers.
      TangentError: if the cotangent has another shape or dtype than the result.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.linear_transpose(jnp.sum, jnp.ones(3))(2.0)
    (Array([2., 2., 2.], dtype=float32, weak_type=True),)
    """
    check_callable("linear_transpose", fun)
    leaves, tree = tree_flatten((primals, {}))
    what = "an example argument of linear_transpose"
    avals = [type_of(x, what).update(weak_type=False) for x in leaves]
    flat_fun = FlatFunction(fun, tree)
    jaxpr, consts = stage(flat_fun, avals, flat_fun.__name__)
    out_avals = jaxpr.out_avals
    both = [*avals, *out_avals]
    if not all(a.dtype in dtypes.INEXACT for a in both):
        if not all(dtypes.is_integer(a.dtype) for a in both):
            raise DifferentiationError(
                "linear_transpose only supports functions from floating point or complex numbers "
                "to such, and from integers to integers",
                got=f"{_shown(avals)} -> {_shown(out_avals)}",
                fix="example arguments of the dtype that the function is linear in",
            )
    signature = LinearSignature(
        flat_fun.__name__, tree_flatten(primals)[1], avals, flat_fun.out_tree, out_avals
    )
    return Partial(functools.partial(_transposed, jaxpr, signature), consts)


def _shown(avals: Sequence[ShapedArray]) -> str:
    return ", ".join([a.str_short() for a in avals]) or "nothing"


@boundary
def _transposed(jaxpr: Jaxpr, signature: LinearSignature, consts: Sequence[Any], ct: Any) -> Any:
    """The transpose of a linear program of a cotangent."""
    given = check_tangents(
        "linear_transpose", "cotangent", ct, signature.out_tree, signature.out_avals
    )
    partial = PartialTrace(state.trace, signature.name)
    inputs = [partial.new_input(a) for a in signature.in_avals]
    try:
        with current(partial):
            outs = eval_jaxpr(jaxpr, [as_value(c) for c in consts], *inputs)
            tape = Tape(partial, inputs, outs)
    finally:
        partial.end()
    cts = backward(tape, given)
    filled = [zeros(a) if v is None else v for v, a in zip(cts, signature.in_avals, strict=True)]
    return tree_unflatten(signature.in_tree, map(concrete, filled))


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
    functions = (name_of, as_value, _check_pair, _result, _check_scalar, cotangents, concrete)
    native.extension.eager_gradient_configure((*functions, _facts))


_install()
