"""``linear_call``: a linear function together with its transpose, which is never worked out.

The primitive's programs are the transpose and the function; each takes constants of its own and
then what it is linear in.  Transposing an application swaps the two.

Start at :func:`linear_call`; the primitive is :class:`LinearCall`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrax.core.errors.typed import DifferentiationError
from functrax.core.prims.reindex import zeros
from functrax.core.pytree.operations import tree_flatten, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Linear, Value
from functrax.core.tracing.stage import close, stage
from functrax.transforms.arguments.flat import check_callable
from functrax.transforms.control.linear_solve import (
    Ops,
    Programs,
    Solve,
    Tangents,
    Vectors,
    split_consts,
)


class LinearCall(Solve):
    """``programs[1]`` of the linear operands; ``programs[0]`` is its transpose."""

    name = "linear_call"
    takes = "the linear arguments that the function was staged for"

    def jvp(
        self, primals: Ops, tangents: Tangents, *, programs: Programs, num_consts: tuple[int, ...]
    ) -> tuple[Any, Any]:
        outs = self.bind(*primals, programs=programs, num_consts=num_consts)
        consts, given = split_consts(primals, num_consts)
        of_consts, of_given = split_consts(tangents, num_consts)
        if any(t is not None for own in of_consts for t in own):
            raise DifferentiationError(
                "linear_call: not differentiable by its residual arguments",
                got="a tangent of something that the two functions are not linear in",
                fix="functrax.custom_vjp, with a rule for it; or stop_gradient",
            )
        if all(t is None for t in of_given):
            return outs, [None] * len(outs)
        moved = [zeros(x.aval) if t is None else t for x, t in zip(given, of_given, strict=True)]
        flat = [c for own in consts for c in own]
        return outs, self.bind(*flat, *moved, programs=programs, num_consts=num_consts)

    def transpose(
        self, cts: Tangents, *operands: Any, programs: Programs, num_consts: tuple[int, ...]
    ) -> list[Value | None]:
        consts, given = split_consts(operands, num_consts)
        filled = [
            zeros(a) if ct is None else ct for a, ct in zip(programs[1].out_avals, cts, strict=True)
        ]
        found = self.bind(
            *(c for own in reversed(consts) for c in own),
            *filled,
            programs=programs[::-1],
            num_consts=num_consts[::-1],
        )
        wanted = [ct if isinstance(x, Linear) else None for x, ct in zip(given, found, strict=True)]
        return [*[None] * sum(num_consts), *wanted]


linear_call_p = LinearCall()


def linear_call(
    fun: Callable[[Any, Any], Any],
    fun_transpose: Callable[[Any, Any], Any],
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """Call a linear function that has a transpose of your own.

    Args:
      fun: takes ``(residual_args, linear_args)``, and is linear in the latter.
      fun_transpose: its transpose: takes ``residual_args`` and what is like the result of ``fun``,
        returns what is like ``linear_args``.
      residual_args: a pytree of arrays in which neither function need be linear.
      linear_args: a pytree of arrays.

    Returns:
      ``fun(residual_args, linear_args)``.

    Raises:
      PyTreeError, ShapeError: if ``fun_transpose`` returns something unlike ``linear_args``.
      DifferentiationError: where it is differentiated by ``residual_args``.

    Example:
      >>> import functrax
      >>> from functrax.custom_derivatives import linear_call
      >>> def half(x):
      ...     return linear_call(lambda r, x: x / r, lambda r, ct: ct / r, 2.0, x)
      >>> functrax.linear_transpose(half, 1.0)(3.0)
      (Array(1.5, dtype=float32),)
    """
    check_callable("linear_call", fun)
    check_callable("linear_call", fun_transpose)
    leaves, tree = tree_flatten(linear_args)
    values = [as_value(x, "linear_args of linear_call") for x in leaves]
    vectors = Vectors("linear_call", tree, [x.aval for x in values])
    out_tree = tree

    def flat_call(*x: Value) -> list[Value]:
        nonlocal out_tree
        out, out_tree = tree_flatten(fun(residual_args, vectors.pytree(x)))
        return [as_value(y, "a result of linear_call") for y in out]

    def flat_transpose(*ct: Value) -> list[Value]:
        given = tree_unflatten(out_tree, map(concrete, ct))
        return vectors.flat(fun_transpose(residual_args, given), "fun_transpose() output")

    call, consts = stage(flat_call, vectors.avals, "fun")
    back, back_consts = stage(flat_transpose, call.out_avals, "fun_transpose() output")
    outs = linear_call_p.bind(
        *back_consts,
        *consts,
        *values,
        programs=(close(back), close(call)),
        num_consts=(len(back_consts), len(consts)),
    )
    return tree_unflatten(out_tree, map(concrete, outs))
