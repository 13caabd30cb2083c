"""Tangents and cotangents between users and interpreters: zeros, weak types, and what fits.

Also what gradients ask of arguments and results (:func:`check_inputs`, :func:`check_scalar`).

Inside, ``None`` is a zero, and stands for what a value without tangents (an integer) has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from functrax.core.errors.typed import DifferentiationError, PyTreeError, TangentError
from functrax.core.prims.convert import convert_element_type
from functrax.core.pytree.operations import PyTreeDef, keystr, tree_flatten_with_path
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import name_of
from functrax.transforms.interpreters.custom_call import SymbolicZero
from functrax.transforms.interpreters.forward import zero_tangent


def with_zeros(values: Sequence[Value | None], avals: Sequence[ShapedArray]) -> list[Value]:
    """Tangents or cotangents as the caller sees them: with zeros in place of ``None``."""
    return [
        zero_tangent(a) if v is None else concrete(v) for v, a in zip(values, avals, strict=True)
    ]


def cotangents(cts: Sequence[Value | None], avals: Sequence[ShapedArray]) -> list[Value]:
    """Cotangents as the caller sees them: weak where the argument is, so that steps stay weak."""
    if True not in [a.weak_type for a in avals]:
        return with_zeros(cts, avals)
    weak = [
        convert_element_type.bind(ct, dtype=ct.aval.dtype, weak_type=True)
        if ct is not None and a.weak_type and not ct.aval.weak_type
        else ct
        for ct, a in zip(cts, avals, strict=True)
    ]
    return with_zeros(weak, avals)


#: What transformations say of tangents or cotangents of another structure; then, of another type.
#: Users and libraries look for these words.
_MISFITS: Final = {
    "jvp": (
        "jvp: primal and tangent arguments to jax.jvp must have the same tree structure",
        "jvp: primal and tangent arguments to jax.jvp do not match.",
    ),
    "linearize": (
        "linearize: the tangents have another tree structure than the arguments",
        "linearize: linearized function called on tangent values inconsistent with the original "
        "primal values",
    ),
    "vjp": (
        "vjp: unexpected tree structure of the cotangent",
        "vjp: unexpected JAX type of a cotangent",
    ),
    "linear_transpose": (
        "linear_transpose: cotangent tree does not match function output",
        "linear_transpose: cotangent type does not match function output",
    ),
}


def check_tangents(
    transform: str, what: str, given: Any, tree: PyTreeDef, avals: Sequence[ShapedArray]
) -> list[Value | None]:
    """Flat tangents or cotangents that fit values; ``None`` where the type has no tangent."""
    paths, given_tree = tree_flatten_with_path(given)
    if given_tree != tree:
        raise PyTreeError(
            _MISFITS[transform][0],
            got=f"{given_tree}, where {tree} is needed",
            fix=f"one {what} for each leaf, in the same containers",
        )
    flat: list[Value | None] = []
    for (path, leaf), aval in zip(paths, avals, strict=True):
        if isinstance(leaf, SymbolicZero) and leaf.shape == aval.shape:
            flat.append(None)
            continue
        value = as_value(leaf, f"a {what} given to {transform}")
        # A linear map of integers is transposed as it is; they have no derivative.
        linear = transform == "linear_transpose"
        wanted = aval.dtype if linear else dtypes.tangent_dtype(aval.dtype)
        if what == "cotangent" and wanted == dtypes.float0 and value.aval.shape == aval.shape:
            flat.append(None)  # whatever its dtype, as in JAX: often the integers themselves
            continue
        _check_type(transform, what, keystr(path), value.aval, aval, wanted)
        flat.append(None if wanted == dtypes.float0 else value)
    return flat


def _check_type(
    transform: str, what: str, path: str, given: ShapedArray, aval: ShapedArray, wanted: Any
) -> None:
    if given.shape == aval.shape and given.dtype == wanted:
        return
    message = _MISFITS[transform][1]
    if transform == "jvp" and given.dtype == wanted:
        message = "jvp: jvp called with different primal and tangent shapes"
    raise TangentError(
        message,
        got=f"{what}{path} is {given.str_short()}, the value is {aval.str_short()}",
        fix=f"a {what} of shape {aval.shape} and dtype {wanted}",
    )


def check_inputs(
    fun: Any,
    flat: Sequence[Value],
    positions: Sequence[int],
    primals: Any,
    holomorphic: bool,
    allow_int: bool,
) -> None:
    """Refuse arguments of ``grad`` that have no gradient, or need a promise for one.

    Raises:
      DifferentiationError: with the path of the argument.
    """
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


def check_scalar(
    fun: Any, avals: Sequence[ShapedArray], tree: PyTreeDef, holomorphic: bool
) -> None:
    """Refuse results of a function that are not one scalar of the right kind.

    Raises:
      DifferentiationError: says what the function returned.
    """
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
