"""The loops that users call: ``scan``, ``while_loop``, ``fori_loop``, ``map``.

Here pytrees are flattened, carries are checked against what the body returns (each leaf by its
path), and a body's weak types are settled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from functrax.core import dtypes
from functrax.core.aval import ShapedArray
from functrax.core.errors import ArgumentError, DTypeError, PyTreeError, ShapeError
from functrax.core.inputs import as_value, concrete
from functrax.core.primitive import Value, literal
from functrax.core.prims.arithmetic import add, lt
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.pytree import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
)
from functrax.core.stage import close, stage
from functrax.core.trace import Tracer
from functrax.transforms.control.scan import scan_p
from functrax.transforms.control.while_loop import run_while
from functrax.transforms.flat import check_callable, name_of
from functrax.transforms.vmap import vmap


class _Body:
    """A loop's body as a function of flat values, which checks what it returns."""

    def __init__(
        self, loop: str, function: Callable[..., Any], carry: Any, tree: PyTreeDef
    ) -> None:
        self.loop = loop
        self.function = function
        self.tree = tree
        self.paths = [keystr(path) for path, _ in tree_flatten_with_path(carry)[0]]
        self.avals: list[ShapedArray] = []

    def checked(self, carry: Any) -> list[Value]:
        """The flat carry, of the types that it had before."""
        leaves, tree = tree_flatten(carry)
        name = name_of(self.function)
        if tree != self.tree:
            raise PyTreeError(
                f"{self.loop}: {name} returns a carry of another structure than it was given",
                got=f"given {self.tree}, returned {tree}",
                fix="return the carry in the containers that it came in",
            )
        values = [as_value(x, f"a carry returned by {name}") for x in leaves]
        return [
            self._fitted(x, a, path)
            for x, a, path in zip(values, self.avals, self.paths, strict=True)
        ]

    def _fitted(self, value: Value, aval: ShapedArray, path: str) -> Value:
        got = value.aval
        if got.shape != aval.shape:
            raise ShapeError(
                f"{self.loop}: {name_of(self.function)} changes the shape of a carry",
                got=f"carry{path} was {aval.str_short()} and becomes {got.str_short()}",
                fix="carries keep their shapes; stack results of each step instead",
            )
        if got.dtype != aval.dtype:
            raise DTypeError(
                f"{self.loop}: {name_of(self.function)} changes the dtype of a carry",
                got=f"carry{path} was {aval.str_short()} and becomes {got.str_short()}",
                fix=f"start from an array of dtype {got.dtype}, or convert the result with "
                f".astype('{aval.dtype}')",
            )
        if got is aval:
            return value
        return convert_element_type.bind(value, dtype=aval.dtype, weak_type=aval.weak_type)

    def settle(self, leaves: Sequence[Value], types: Callable[[], Sequence[Any]]) -> list[Value]:
        """Initial carries that are not weaker than what the body makes of them."""
        self.avals = [x.aval for x in leaves]
        out = types()
        settled = []
        for value, made in zip(leaves, out, strict=True):
            aval = value.aval
            if aval.weak_type and (made.dtype != aval.dtype or not made.weak_type):
                value = convert_element_type.bind(value, dtype=made.dtype, weak_type=False)
            settled.append(value)
        self.avals = [x.aval for x in settled]
        return settled


def _carry_types(
    body: Callable[..., Any],
    tree: PyTreeDef,
    avals: Sequence[ShapedArray],
    extra: Sequence[ShapedArray],
) -> list[ShapedArray] | None:
    """The types that a body gives its carries, or None if their structure differs."""
    found: list[ShapedArray] | None = None

    def traced(*args: Value) -> list[Value]:
        nonlocal found
        leaves, out_tree = tree_flatten(body(*args))
        if out_tree == tree:
            found = [as_value(x).aval for x in leaves]
        return []

    stage(traced, [*avals, *extra], "types of the carry")
    return found


def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """A loop over slices of arrays that carries values and stacks results.

    Args:
      f: takes ``(carry, x)``, where ``x`` has the structure of ``xs`` without the leading axes;
        returns ``(carry, y)``.
      init: the first carry, a pytree of arrays.
      xs: a pytree of arrays with the same leading size; None for no slices.
      length: the number of steps, if ``xs`` does not say it.
      reverse: whether to go from the last slice to the first.
      unroll: accepted for compatibility.

    Returns:
      The last carry, and the ``y`` of every step stacked along a new leading axis.

    Raises:
      ShapeError: if leading sizes differ, or the carry changes its shape.
      DTypeError: if the carry changes its dtype.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax
    >>> lax.scan(lambda total, x: (total + x, total), 0.0, jnp.arange(4.0))
    (Array(6., dtype=float32), Array([0., 0., 1., 3.], dtype=float32))
    """
    check_callable("scan", f)
    stacked_leaves, xs_tree = tree_flatten(xs)
    stacked = [as_value(x, "an input of scan") for x in stacked_leaves]
    steps = _length(stacked, length)
    leaves, tree = tree_flatten(init)
    carry = [as_value(x, "a carry of scan") for x in leaves]
    slices = [ShapedArray(x.aval.shape[1:], x.aval.dtype) for x in stacked]
    body = _Body("scan", f, init, tree)

    def call(*args: Value) -> tuple[Any, Any]:
        out = f(
            tree_unflatten(tree, map(concrete, args[: len(leaves)])),
            tree_unflatten(xs_tree, args[len(leaves) :]),
        )
        if not (isinstance(out, (tuple, list)) and len(out) == 2):
            raise PyTreeError(
                f"scan: {name_of(f)} does not return a pair",
                got=type(out).__name__,
                fix="return carry, y; y may be None",
            )
        return out[0], out[1]

    carry = body.settle(
        carry,
        lambda: (
            _carry_types(lambda *a: call(*a)[0], tree, [x.aval for x in carry], slices)
            or [x.aval for x in carry]
        ),
    )
    out_tree = tree

    def flat(*args: Value) -> list[Value]:
        nonlocal out_tree
        new, result = call(*args)
        results, out_tree = tree_flatten(result)
        return [*body.checked(new), *(as_value(x, f"a result of {name_of(f)}") for x in results)]

    jaxpr, consts = stage(flat, [*body.avals, *slices], name_of(f))
    outs = scan_p.bind(
        *consts, *carry, *stacked,
        jaxpr=close(jaxpr), length=steps, num_consts=len(consts), num_carry=len(carry),
        reverse=bool(reverse),
    )  # fmt: skip
    last = tree_unflatten(tree, map(concrete, outs[: len(carry)]))
    return last, tree_unflatten(out_tree, map(concrete, outs[len(carry) :]))


def _length(stacked: Sequence[Value], length: int | None) -> int:
    for x in stacked:
        if not x.aval.shape:
            raise ShapeError(
                "scan: an input has no leading axis to go along",
                got=x.aval.str_short(),
                fix="close over what does not change with the step",
            )
    sizes: set[int] = {x.aval.shape[0] for x in stacked}
    if length is not None:
        sizes.add(operator.index(length))
    if len(sizes) > 1:
        raise ShapeError(
            "scan: inputs and length disagree about the number of steps",
            got=", ".join(x.aval.str_short() for x in stacked) + f", length={length}",
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
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Repeat a function while a condition holds.

    Reverse mode computes the carries again from O(log n) checkpoints, in O(n log n) steps.

    Args:
      cond_fun: takes the carry, returns a scalar of bool.
      body_fun: takes the carry, returns one of the same structure, shapes and dtypes.
      init_val: the first carry, a pytree of arrays.

    >>> from functrax import lax
    >>> lax.while_loop(lambda x: x < 100, lambda x: x * 2, 3)
    Array(192, dtype=int32, weak_type=True)
    """
    check_callable("while_loop", cond_fun)
    check_callable("while_loop", body_fun)
    leaves, tree = tree_flatten(init_val)
    carry = [as_value(x, "a carry of while_loop") for x in leaves]
    body = _Body("while_loop", body_fun, init_val, tree)

    def call(*args: Value) -> Any:
        return body_fun(tree_unflatten(tree, map(concrete, args)))

    carry = body.settle(
        carry,
        lambda: _carry_types(call, tree, [x.aval for x in carry], ()) or [x.aval for x in carry],
    )

    def holds(*args: Value) -> Value:
        out, out_tree = tree_flatten(cond_fun(tree_unflatten(tree, map(concrete, args))))
        value = as_value(out[0], "the condition of while_loop") if len(out) == 1 else None
        if value is None or value.aval.shape or value.aval.dtype != dtypes.bool_:
            raise ShapeError(
                f"while_loop: {name_of(cond_fun)} does not return one scalar of bool",
                got=value.aval.str_short() if value is not None else str(out_tree),
                fix="a comparison, or .all() or .any() of one",
            )
        return value

    outs = run_while(holds, lambda *xs: body.checked(call(*xs)), carry)
    return tree_unflatten(tree, map(concrete, outs))


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Repeat ``val = body_fun(i, val)`` for ``i`` from ``lower`` to ``upper - 1``.

    Args:
      lower: the first ``i``, an integer or an integer array.
      upper: where ``i`` stops.
      body_fun: takes ``i`` and the carry, returns a carry of the same type.
      init_val: the first carry, a pytree of arrays.
      unroll: accepted for compatibility.

    >>> from functrax import lax
    >>> lax.fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int32)
    """
    check_callable("fori_loop", body_fun)
    first, stop = as_value(lower, "lower of fori_loop"), as_value(upper, "upper of fori_loop")
    for what, x in (("lower", first), ("upper", stop)):
        if x.aval.shape or not dtypes.is_integer(x.aval.dtype):
            raise DTypeError(
                f"fori_loop: {what} is not a scalar integer", got=x.aval.str_short(), fix="an int"
            )
    index = first.aval.dtype if not first.aval.weak_type else stop.aval.dtype
    first, stop = (convert_element_type.bind(x, dtype=index) for x in (first, stop))
    if not isinstance(first, Tracer) and not isinstance(stop, Tracer):
        steps = max(int(concrete(stop)) - int(concrete(first)), 0)

        def step(carry: Any, _: Any) -> Any:
            i, val = carry
            return (add.bind(i, literal(1, index)), body_fun(i, val)), None

        step.__name__ = name_of(body_fun)
        return scan(step, (first, init_val), None, length=steps)[0][1]
    return while_loop(
        lambda carry: lt.bind(carry[0], stop),
        lambda carry: (add.bind(carry[0], literal(1, index)), body_fun(*carry)),
        (first, init_val),
    )[1]


def map_(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Apply a function to every slice along the leading axis, one after the other.

    Args:
      f: takes a pytree of slices.
      xs: a pytree of arrays with the same leading size.
      batch_size: how many slices to take at once by ``vmap``; one at a time if None.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax
    >>> lax.map(lambda x: x * 2, jnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    check_callable("map", f)
    if batch_size is None:
        return scan(lambda carry, x: (carry, f(x)), (), xs)[1]
    return _map_in_batches(f, xs, batch_size)


def _map_in_batches(f: Callable[[Any], Any], xs: Any, batch_size: int) -> Any:
    leaves, tree = tree_flatten(xs)
    values = [as_value(x, "an input of map") for x in leaves]
    size = _length(values, None)
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
