"""The loops that users call: ``scan``, ``while_loop``, ``fori_loop``, ``map``.

Here pytrees are flattened, and lengths and bounds are checked; what a body may do to its carry is
in ``transforms/control/carry.py``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from functrax.core.errors.typed import (
    ArgumentError,
    DTypeError,
    PyTreeError,
    ReferenceUseError,
    ShapeError,
)
from functrax.core.ir.jaxpr import Literal
from functrax.core.options.config import state as options
from functrax.core.prims.arithmetic import add
from functrax.core.prims.comparisons import lt
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.pytree.operations import (
    PyTreeDef,
    tree_flatten,
    tree_structure,
    tree_unflatten,
)
from functrax.core.tracing.inputs import as_value, concrete, shown_type
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import close, stage
from functrax.core.tracing.trace import Tracer
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.symbolic_sizes import applied, is_symbolic_dim
from functrax.transforms.arguments.flat import check_callable, name_of
from functrax.transforms.arguments.leaf_types import axes_of_words, leaf_types
from functrax.transforms.control.carry import LoopBody, leaf_paths
from functrax.transforms.control.stepwise import scan_in_python, while_in_python
from functrax.transforms.control.unroll import run_scan
from functrax.transforms.control.while_backward import DEFAULT_ROWS
from functrax.transforms.control.while_loop import while_p
from functrax.transforms.mapping.vmap import vmap
from functrax.typing import ArrayLike

C = TypeVar("C")
Y = TypeVar("Y")


def scan(
    f: Callable[[Any, Any], tuple[C, Y]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[C, Y]:
    """A loop over slices of arrays that carries values and stacks results.

    Args:
      f: takes ``(carry, x)``, where ``x`` has the structure of ``xs`` without the leading axes;
        returns ``(carry, y)``.
      init: the first carry, a pytree of arrays.
      xs: a pytree of arrays with the same leading size; None for no slices.
      length: the number of steps, if ``xs`` does not say it.
      reverse: whether to go from the last slice to the first.
      unroll: how many steps to write out in the body of the loop; 0 or True for all of them.
      _split_transpose: taken for JAX's sake; it changes nothing here.

    Returns:
      The last carry, and the ``y`` of every step stacked along a new leading axis.

    Raises:
      ShapeError: if leading sizes differ, or the carry changes its shape.
      DTypeError: if the carry changes its dtype.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax
    >>> lax.scan(lambda total, x: (total + x, total), 0.0, jnp.arange(4.0))
    (Array(6., dtype=float32), Array([0., 0., 1., 3.], dtype=float32, weak_type=True))
    """
    check_callable("scan", f)
    leaves, xs_tree = tree_flatten(xs)
    try:
        stacked = [as_value(x, "an input of scan") for x in leaves]
    except ReferenceUseError as error:
        from functrax.transforms.arguments.discharge import scan_over_references

        of_values = functools.partial(scan, length=length, reverse=reverse, unroll=unroll)
        return scan_over_references(of_values, f, init, xs, error)
    steps = _length(stacked, xs_tree, length)
    body = LoopBody("scan", f, init, leaf_paths(init))
    return _scan(body, xs_tree, stacked, steps, bool(reverse), _steps_at_once(unroll, steps))


def _scan(
    body: LoopBody,
    xs_tree: PyTreeDef,
    stacked: Sequence[Value],
    length: int,
    reverse: bool,
    at_once: int,
) -> tuple[Any, Any]:
    num_carry = len(body.leaves)
    out_tree = xs_tree
    slices = [ShapedArray(x.aval.shape[1:], x.aval.dtype, x.aval.weak_type) for x in stacked]

    def step(*args: Value) -> tuple[Any, Any]:
        out = body.function(
            tree_unflatten(body.tree, map(concrete, args[:num_carry])),
            tree_unflatten(xs_tree, args[num_carry:]),
        )
        if not (isinstance(out, (tuple, list)) and len(out) == 2):
            raise PyTreeError(
                f"{body.loop}: {body.name} does not return a pair",
                got=shown_type(out),
                fix="return carry, y; y may be None",
            )
        return out[0], out[1]

    if options.disable_jit and length:
        return scan_in_python(body, step, stacked, length, reverse)

    def flat(*args: Value) -> list[Value]:
        nonlocal out_tree
        new, result = step(*args)
        results, out_tree = tree_flatten(result)
        values = [as_value(x, f"a result of {body.name}") for x in results]
        return [*body.checked(new), *values]

    jaxpr, consts, written = body.stage(flat, slices)
    carry = body.leaves
    if written:
        consts, carry = consts[: -len(written)], [*consts[-len(written) :], *carry]
    outs = run_scan(close(jaxpr), consts, carry, stacked, length, reverse, at_once)
    if written:
        outs = _write_back(written, outs)
    last = tree_unflatten(body.tree, map(concrete, outs[:num_carry]))
    return last, tree_unflatten(out_tree, map(concrete, outs[num_carry:]))


def _write_back(written: Sequence[Any], outs: Sequence[Value]) -> list[Value]:
    """Give references the first values, and return the others."""
    from functrax.transforms.arguments.discharge import write_back

    write_back(written, outs[: len(written)])
    return list(outs[len(written) :])


def _steps_at_once(unroll: int | bool, length: int) -> int:
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    steps = _whole("unroll", unroll)
    if steps < 0:
        raise ArgumentError(
            "scan: `unroll` must be a bool, or a number of steps that is not negative",
            got=f"unroll={unroll}",
            fix="unroll=1, or unroll=True for all steps",
        )
    return steps or max(length, 1)


def _whole(what: str, number: Any) -> int:
    """A number of steps; a float that is whole is one too."""
    if isinstance(number, float) and number.is_integer():
        return int(number)
    try:
        return operator.index(number)
    except TypeError:
        raise DTypeError(
            f"scan: {what} is not an integer",
            got=f"{what}={number!r} of type {type(number).__name__}",
            fix="an int; numbers of steps must be known when the program is traced",
        ) from None


def _length(stacked: Sequence[Value], tree: PyTreeDef, length: int | None) -> int:
    avals = [x.aval for x in stacked]
    leading = axes_of_words(tree, avals, [0] * len(avals))
    for i, (aval, axis) in enumerate(zip(avals, leading, strict=True)):
        if axis == aval.ndim:
            raise ShapeError(
                "scan got value with no leading axis to scan over",
                got=leaf_types(tree, avals)[i].str_short(),
                fix="close over what does not change with the step",
            )
    sizes: set[int] = {aval.shape[0] for aval in avals}
    if length is not None:
        sizes.add(_whole("length", length))
    if min(sizes, default=0) < 0:
        raise ArgumentError(
            "scan: the number of steps is negative", got=f"length={length}", fix="length >= 0"
        )
    if len(sizes) > 1:
        raise ShapeError(
            "scan: inputs and length disagree about the number of steps",
            got=", ".join(t.str_short() for t in leaf_types(tree, avals)) + f", length={length}",
            fix="arrays of one leading size",
        )
    if not sizes:
        raise ArgumentError(
            "scan: nothing says how many steps to take",
            got="xs has no arrays, length is None",
            fix="length=n",
        )
    return sizes.pop()


def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], C],
    init_val: Any,
    *,
    checkpoints: int | None = None,
) -> C:
    """Repeat a function while a condition holds.

    Reverse mode computes the carries again from a fixed number of saved ones; ``jax.grad`` refuses.

    Args:
      cond_fun: takes the carry, returns a scalar of bool.
      body_fun: takes the carry, returns one of the same structure, shapes and dtypes.
      init_val: the first carry, a pytree of arrays.
      checkpoints: how many carries reverse mode may save, 33 if None: with ``k`` of them ``n``
        steps cost at most ``n (2 + log2(n / k))`` more, as long as ``n <= 2**k``, and ``2 n`` if
        there is one for every step.

    Returns:
      The last carry, for which the condition does not hold.

    Raises:
      ArgumentError: if ``checkpoints`` is not a positive number.

    >>> from functrax import lax
    >>> lax.while_loop(lambda x: x < 100, lambda x: x * 2, 3)
    Array(192, dtype=int32, weak_type=True)
    """
    check_callable("while_loop", cond_fun)
    check_callable("while_loop", body_fun)
    body = LoopBody("while_loop", body_fun, init_val, leaf_paths(init_val))
    return _while(cond_fun, body, _rows("while_loop", checkpoints))  # type: ignore[no-any-return]


def _rows(loop: str, checkpoints: int | None) -> int:
    if checkpoints is None:
        return DEFAULT_ROWS
    if type(checkpoints) is not int or checkpoints < 1:
        raise ArgumentError(
            f"{loop}: checkpoints is not a positive number of carries",
            got=f"checkpoints={checkpoints!r}",
            fix="checkpoints=None, or at least 1",
        )
    return checkpoints


def _while(cond_fun: Callable[[Any], Any], body: LoopBody, rows: int) -> Any:
    def carry_of(args: Sequence[Value]) -> Any:
        return tree_unflatten(body.tree, map(concrete, args))

    def holds(*args: Value) -> list[Value]:
        out, out_tree = tree_flatten(cond_fun(carry_of(args)))
        value = as_value(out[0], "the condition of while_loop") if len(out) == 1 else None
        if value is None or value.aval.shape or value.aval.dtype != dtypes.bool_:
            raise ShapeError(
                f"while_loop: {name_of(cond_fun)} does not return one scalar of bool",
                got=value.aval.str_short() if value is not None else str(out_tree),
                fix="a comparison, or .all() or .any() of one",
            )
        return [value]

    def step(*args: Value) -> Any:
        return body.function(carry_of(args))

    if options.disable_jit:
        last = while_in_python(body, holds, step)
        if last is not None:
            return carry_of(last)
    stepped, of_body, written = body.stage(lambda *args: body.checked(step(*args)))
    carry = body.leaves
    if written:
        from functrax.transforms.control.written import stage_condition

        of_body, carry = of_body[: -len(written)], [*of_body[-len(written) :], *carry]
        test, of_cond = stage_condition(holds, body.avals, name_of(cond_fun), written)
    else:
        test, of_cond = stage(holds, body.avals, name_of(cond_fun))
        test = close(test)
    outs = while_p.bind(
        *of_cond, *of_body, *carry,
        cond=test,
        body=close(stepped),
        cond_consts=len(of_cond),
        body_consts=len(of_body),
        checkpoints=rows,
    )  # fmt: skip
    if written:
        outs = _write_back(written, outs)
    return carry_of(outs)


def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Any, Any], C],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
    checkpoints: int | None = None,
) -> C:
    """Repeat ``val = body_fun(i, val)`` for ``i`` from ``lower`` to ``upper - 1``.

    Args:
      lower: the first ``i``, an integer or an integer array; a float counts in steps of 1.0, and
        is rounded toward zero if both bounds are known when the program is traced, as in JAX.
      upper: where ``i`` stops.
      body_fun: takes ``i`` and the carry, returns a carry of the same type.
      init_val: the first carry, a pytree of arrays.
      unroll: how many steps to write out in the body of the loop, if the bounds are known when
        the program is traced; 0 or True for all of them.
      checkpoints: how many carries reverse mode may save, as for :func:`while_loop`; None for all
        of them if the bounds are known.

    Returns:
      The last carry; ``init_val`` if ``upper`` is not above ``lower``.

    Raises:
      ArgumentError: if ``unroll`` is given for bounds that are not known, or for a loop with
        ``checkpoints``.
      DTypeError: if a bound is no real scalar, or the carry changes its dtype.

    >>> from functrax import lax
    >>> lax.fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int32, weak_type=True)
    """
    check_callable("fori_loop", body_fun)
    symbolic = is_symbolic_dim(lower) or is_symbolic_dim(upper)
    first, stop = _bounds(lower, upper)
    paths = ["i", *leaf_paths(init_val)]
    one = Literal(1, first.aval)

    def step(carry: Any) -> Any:
        i, val = carry
        return add.bind(i, one), body_fun(i, val)

    step.__name__ = name_of(body_fun)
    traced = isinstance(first, Tracer) or isinstance(stop, Tracer)
    if checkpoints is not None or (traced and not symbolic):
        _check_no_unroll(unroll, first, stop, checkpoints)
        body = LoopBody("fori_loop", step, (first, init_val), paths)
        rows = _rows("fori_loop", checkpoints)
        return _while(lambda carry: lt.bind(carry[0], stop), body, rows)[1]  # type: ignore[no-any-return]
    span: Any = (
        cast("Any", upper) - lower if symbolic else int(concrete(stop)) - int(concrete(first))
    )
    steps = applied(max, span, 0)
    at_once = 1 if unroll is None else _steps_at_once(unroll, steps)

    def step_of_scan(carry: Any, _: Any) -> Any:
        return step(carry), None

    step_of_scan.__name__ = name_of(body_fun)
    body = LoopBody("fori_loop", step_of_scan, (first, init_val), paths)
    return _scan(body, tree_structure(None), [], steps, False, at_once)[0][1]  # type: ignore[no-any-return]


def _bounds(lower: Any, upper: Any) -> tuple[Value, Value]:
    """The bounds of a ``fori_loop``, of one dtype; the first has the type of the index.

    Where both are known the index is a Python integer, of weak type.
    """
    first, stop = as_value(lower, "lower of fori_loop"), as_value(upper, "upper of fori_loop")
    for what, x in (("lower", first), ("upper", stop)):
        if x.aval.shape or not (dtypes.is_integer(x.aval.dtype) or dtypes.is_float(x.aval.dtype)):
            raise DTypeError(
                f"fori_loop: {what} is not a real scalar", got=x.aval.str_short(), fix="an int"
            )
    a, b = first.aval, stop.aval
    signed = dtypes.SIGNED.issuperset((a.dtype, b.dtype))
    if a.dtype != b.dtype and not (signed and a.weak_type != b.weak_type):
        raise DTypeError(
            "the bounds given as arguments to fori_loop must have equal types",
            got=f"{a.str_short()} and {b.str_short()}",
            fix=f"upper.astype('{a.dtype}')",
        )
    if not isinstance(first, Tracer) and not isinstance(stop, Tracer):
        return as_value(int(concrete(first))), as_value(int(concrete(stop)))
    if a.dtype == b.dtype:
        return first, stop
    index = b.dtype if a.weak_type else a.dtype
    return tuple(convert_element_type.bind(x, dtype=index) for x in (first, stop))


def _check_no_unroll(
    unroll: int | bool | None, first: Value, stop: Value, checkpoints: int | None
) -> None:
    if unroll is None or unroll is False or (unroll == 1 and unroll is not True):
        return
    if checkpoints is not None:
        raise ArgumentError(
            "fori_loop: a loop with checkpoints is not unrolled",
            got=f"unroll={unroll}, checkpoints={checkpoints}",
            fix="give one of the two",
        )
    raise ArgumentError(
        "fori_loop: unroll needs bounds that are known when the program is traced",
        got=f"unroll={unroll}, bounds {first.aval.str_short()} and {stop.aval.str_short()}, "
        "at least one of them traced",
        fix="Python integers as bounds, or no unroll",
    )


def map_(f: Callable[[Any], Y], xs: Any, *, batch_size: int | None = None) -> Y:
    """Apply a function to every slice along the leading axis, one after the other.

    Args:
      f: takes a pytree of slices.
      xs: a pytree of arrays with the same leading size.
      batch_size: how many slices to take at once by ``vmap``; one at a time if None, and all if 0.

    Returns:
      A pytree of the results, stacked along a leading axis.

    Raises:
      ArgumentError: if ``f`` is no function, ``batch_size`` is negative, or ``xs`` has no arrays.
      ShapeError: if the arrays have no leading axis, or differ in its size.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax
    >>> lax.map(lambda x: x * 2, jnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    check_callable("map", f)
    if batch_size is not None and operator.index(batch_size) < 0:
        raise ArgumentError(
            "map: batch_size is not a number of slices",
            got=f"batch_size={batch_size}",
            fix="batch_size=None, or at least 0",
        )
    if batch_size is None:
        return scan(lambda carry, x: (carry, f(x)), (), xs)[1]
    return _map_in_batches(f, xs, batch_size) if batch_size else vmap(f)(xs)


def _map_in_batches(f: Callable[[Any], Any], xs: Any, batch_size: int) -> Any:
    leaves, tree = tree_flatten(xs)
    values = [as_value(x, "an input of map") for x in leaves]
    size = _length(values, tree, None)
    whole = size // batch_size * batch_size

    def part(start: int, limit: int) -> list[Value]:
        return [
            slice_.bind(
                x,
                start=(start, *(0 for _ in x.aval.shape[1:])),
                limit=(limit, *x.aval.shape[1:]),
                strides=(1,) * x.aval.ndim,
            )
            for x in values
        ]

    batches = [
        reshape.bind(x, shape=(whole // batch_size, batch_size, *x.aval.shape[1:]))
        for x in part(0, whole)
    ]
    mapped = map_(vmap(f), tree_unflatten(tree, batches))
    flat, out_tree = tree_flatten(mapped)
    joined = [reshape.bind(x, shape=(whole, *x.aval.shape[2:])) for x in flat]
    if whole < size:
        rest = tree_flatten(vmap(f)(tree_unflatten(tree, part(whole, size))))[0]
        joined = [concatenate.bind(a, b, axis=0) for a, b in zip(joined, rest, strict=True)]
    return tree_unflatten(out_tree, joined)
