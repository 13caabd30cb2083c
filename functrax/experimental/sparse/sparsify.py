"""``sparsify``: a function of arrays, as one of sparse arrays.

The function is traced for dense arrays of the same shapes, and its program is run with sparse ones
in their place.  Operations that keep zeros have a rule in :data:`_RULES`, by the name of the
primitive; the others refuse sparse arrays.  A product of matrices is a sum of a product of
broadcast operands here: broadcasts and products are put off, and a sum over them is a
``bcoo_dot_general``.

Start at :func:`sparsify`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import functrax.numpy as jnp
from functrax.core.ir.jaxpr import Jaxpr, Literal
from functrax.core.pytree.operations import tree_flatten, tree_unflatten
from functrax.core.records import record
from functrax.core.tracing.stage import stage
from functrax.experimental.sparse import operators, shapes
from functrax.experimental.sparse.base import JAXSparse, SparseLayoutError
from functrax.experimental.sparse.bcoo import BCOO
from functrax.experimental.sparse.convert import bcoo_add, unique
from functrax.experimental.sparse.products import bcoo_divide_dense, bcoo_dot_general
from functrax.transforms.arguments.flat import FlatFunction, name_of
from functrax.transforms.arguments.inspect_types import ShapeDtypeStruct, type_of


@record(eq=False)
class _Spread:
    """A broadcast that was put off: ``value``'s axes are ``dims`` of ``shape``."""

    value: Any
    shape: tuple[int, ...]
    dims: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)


@record(eq=False)
class _Product:
    """A product that was put off, of operands that have its shape."""

    lhs: Any
    rhs: Any
    shape: tuple[int, ...]


def _is_sparse(x: Any) -> bool:
    if isinstance(x, _Spread):
        return isinstance(x.value, BCOO)
    return isinstance(x, (BCOO, _Product))


def _forced(x: Any) -> Any:
    """What was put off, done."""
    if isinstance(x, _Spread):
        if not isinstance(x.value, BCOO):
            sizes = [1] * x.ndim
            for d, n in zip(x.dims, x.value.shape, strict=True):
                sizes[d] = n
            return jnp.broadcast_to(x.value.reshape(sizes), x.shape)
        return shapes.bcoo_broadcast_in_dim(x.value, shape=x.shape, broadcast_dimensions=x.dims)
    if isinstance(x, _Product):
        lhs, rhs = _forced(x.lhs), _forced(x.rhs)
        return lhs * rhs if isinstance(lhs, BCOO) else rhs * lhs
    return x


def _as_spread(x: Any) -> _Spread:
    if isinstance(x, _Spread):
        return x
    return _Spread(x, tuple(x.shape), tuple(range(x.ndim)))


def _broadcast(x: Any, *, shape: Any, dims: Any) -> Any:
    of = _as_spread(_forced(x) if isinstance(x, _Product) else x)
    return _Spread(of.value, tuple(shape), tuple(dims[d] for d in of.dims))


def _multiply(x: Any, y: Any) -> Any:
    if not jnp.ndim(x) or not jnp.ndim(y):  # literals stand for arrays full of their value
        sparse, other = (x, y) if _is_sparse(x) else (y, x)
        return _forced(sparse) * other
    return _Product(x, y, tuple(x.shape))


def _sum(x: Any, *, axes: Any) -> Any:
    if isinstance(x, _Product):
        parts = [_as_spread(_forced(p) if isinstance(p, _Product) else p) for p in (x.lhs, x.rhs)]
        found = _contracted(parts[0], parts[1], set(axes))
        if found is not None:
            return found
    return shapes.bcoo_reduce_sum(_forced(x), axes=axes)


def _contracted(lhs: _Spread, rhs: _Spread, axes: set[int]) -> Any:
    """The sum of a product as a general product; None if it is none of a sparse and a dense."""
    if all(isinstance(p.value, BCOO) for p in (lhs, rhs)) and not axes.intersection(lhs.dims):
        return None
    for p in (lhs, rhs):  # an axis of size 1 that is repeated is no axis of a product
        if any(p.value.shape[i] != p.shape[d] for i, d in enumerate(p.dims)):
            return None
    left, right = (dict(zip(p.dims, range(len(p.dims)), strict=True)) for p in (lhs, rhs))
    if any(d not in left or d not in right for d in axes):
        return None
    contracted = sorted(axes)
    batch = [d for d in left if d in right and d not in axes]
    sparse = [p for p in ((lhs, left), (rhs, right)) if isinstance(p[0].value, BCOO)]
    if any(of[d] >= p.value.n_batch for p, of in sparse for d in batch):
        return None
    if any(of[d] >= p.value.n_batch + p.value.n_sparse for p, of in sparse for d in contracted):
        return None
    numbers = (
        (tuple(left[d] for d in contracted), tuple(right[d] for d in contracted)),
        (tuple(left[d] for d in batch), tuple(right[d] for d in batch)),
    )
    made = bcoo_dot_general(lhs.value, rhs.value, dimension_numbers=numbers)
    order = [*batch]
    order += [d for of, other in ((left, right), (right, left)) for d in of if d not in other]
    wanted = [d for d in range(lhs.ndim) if d not in axes]
    if sorted(order) != wanted:
        return None
    return made.transpose(tuple(order.index(d) for d in wanted))


def _add(x: Any, y: Any) -> Any:
    lhs, rhs = _forced(x), _forced(y)
    if not (isinstance(lhs, BCOO) and isinstance(rhs, BCOO)):
        raise operators.not_sparse("addition of a dense array", lhs if _is_sparse(rhs) else rhs)
    return bcoo_add(lhs, rhs)


def _sub(x: Any, y: Any) -> Any:
    lhs, rhs = _forced(x), _forced(y)
    if not (isinstance(lhs, BCOO) and isinstance(rhs, BCOO)):
        raise operators.not_sparse("subtraction of a dense array", lhs if _is_sparse(rhs) else rhs)
    return bcoo_add(lhs, -rhs)


def _div(x: Any, y: Any) -> Any:
    if _is_sparse(y):
        raise operators.not_sparse("division by a sparse array", _forced(y))
    mat, other = _forced(x), _forced(y)
    return mat / other if not jnp.ndim(other) else bcoo_divide_dense(mat, other)


def _integer_pow(x: Any, *, y: int) -> Any:
    if y <= 0:
        raise operators.not_sparse(f"the power {y}", _forced(x))
    return unique(_forced(x))._map(lambda data: data**y)


def _slice(x: Any, *, start: Any, limit: Any, strides: Any) -> Any:
    return shapes.bcoo_slice(_forced(x), start_indices=start, limit_indices=limit, strides=strides)


def _dynamic_slice(x: Any, *starts: Any, sizes: Any) -> Any:
    return shapes.bcoo_dynamic_slice(_forced(x), starts, sizes)


def _transpose(x: Any, *, perm: Any) -> Any:
    if isinstance(x, _Spread):
        return _Spread(
            x.value, tuple(x.shape[i] for i in perm), tuple(perm.index(d) for d in x.dims)
        )
    return shapes.bcoo_transpose(_forced(x), permutation=perm)


def _concatenate(*parts: Any, axis: int) -> Any:
    mats = [_forced(p) for p in parts]
    if not all(isinstance(m, BCOO) for m in mats):
        raise operators.not_sparse("joining with a dense array", mats)
    return shapes.bcoo_concatenate(mats, dimension=axis)


def _reshape(x: Any, *, shape: Any) -> Any:
    mat = _forced(x)
    dims = _inserted(mat.shape, shape)
    if dims is not None:  # as expand_dims: new axes in front are of the batch
        return shapes.bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=dims)
    gone = _inserted(shape, mat.shape)
    if gone is not None:
        return shapes.bcoo_squeeze(mat, dimensions=[i for i in range(mat.ndim) if i not in gone])
    return shapes.bcoo_reshape(mat, new_sizes=shape)


def _inserted(old: Sequence[int], new: Sequence[int]) -> list[int] | None:
    """Where the axes of a shape are in another that has more axes of size 1; None if it has not."""
    dims: list[int] = []
    for d, n in enumerate(new):
        if (
            len(dims) < len(old)
            and old[len(dims)] == n
            and (n != 1 or _same_rest(old, new, d, dims))
        ):
            dims.append(d)
        elif n != 1:
            return None
    return dims if len(dims) == len(old) and len(new) > len(old) else None


def _same_rest(old: Sequence[int], new: Sequence[int], d: int, dims: list[int]) -> bool:
    """Whether an axis of size 1 has to be one of the old ones: no more new ones are left."""
    return len(new) - d <= len(old) - len(dims)


def _convert(x: Any, *, dtype: Any, weak_type: bool = False) -> Any:
    return _forced(x).astype(dtype)


_RULES: dict[str, Callable[..., Any]] = {
    "add": _add,
    "sub": _sub,
    "mul": _multiply,
    "div": _div,
    "integer_pow": _integer_pow,
    "reduce_sum": _sum,
    "broadcast_in_dim": _broadcast,
    "transpose": _transpose,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "concatenate": _concatenate,
    "convert_element_type": _convert,
    "reshape": _reshape,
    "rev": lambda x, *, dims: shapes.bcoo_rev(_forced(x), dims),
}
#: Functions of one operand that take 0 to 0.  Of linear ones entries of one index may be apart.
_LINEAR = frozenset(("neg", "real", "imag", "conj", "copy", "name", "operand_precision"))
_KEEP_ZERO = frozenset(
    (
        *("abs", "sign", "sqrt", "cbrt", "square", "log1p", "expm1", "sin", "tan", "sinh", "tanh"),
        *("asin", "atan", "asinh", "atanh", "floor", "ceil", "round", "erf", "erf_inv", "trunc"),
    )
)


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """A function of arrays, as one that takes sparse arrays in their place.

    Args:
      f: built of products, sums, elementwise functions that take 0 to 0, slices, transposes and
        reshapes, wherever sparse arrays go; calls of jitted functions may be among them.
      use_tracer: JAX has two ways to do it; there is one here.

    Raises:
      SparseLayoutError: where a sparse array meets another operation.

    >>> import functrax.numpy as jnp
    >>> from functrax.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]]))
    >>> sparse.sparsify(lambda m, v: 2 * jnp.dot(jnp.tan(m.T), v) + 1)(m, jnp.zeros(2))
    Array([1., 1.], dtype=float32)
    """

    @functools.wraps(f)
    def of_sparse(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs), is_leaf=lambda x: isinstance(x, JAXSparse))
        given = [_coordinates(x) if isinstance(x, JAXSparse) else jnp.asarray(x) for x in leaves]
        function = FlatFunction(f, tree)
        avals = [
            type_of(ShapeDtypeStruct(x.shape, x.dtype), "") if isinstance(x, BCOO) else x.aval
            for x in given
        ]
        jaxpr, consts = stage(function, avals, name_of(f))
        outs = [_forced(x) for x in _run(jaxpr, consts, given)]
        return tree_unflatten(function.out_tree, outs)

    return of_sparse


def _coordinates(x: Any) -> BCOO:
    found: BCOO = x._coordinates()
    return found


def _run(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Run a program with sparse arrays among its values."""
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(x: Any) -> Any:
        return jnp.asarray(x.val) if isinstance(x, Literal) else env[x]

    for eqn in jaxpr.eqns:
        operands = [read(x) for x in eqn.invars]
        outs = _apply(eqn.primitive, operands, eqn.params)
        env.update(zip(eqn.outvars, outs, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _apply(primitive: Any, operands: list[Any], params: dict[str, Any]) -> Sequence[Any]:
    sparse = any(map(_is_sparse, operands))
    if not sparse and primitive.name == "broadcast_in_dim":
        return [_broadcast(operands[0], **params)]  # it may be an operand of a product
    if not sparse:
        raw = [_forced(x) for x in operands]
        out = primitive.bind(*raw, **params)
        return list(out) if primitive.multiple_results else [out]
    inner = getattr(primitive, "inlines", lambda _: None)(params)
    if inner is not None:
        return _run(inner, (), operands)
    rule = _RULES.get(primitive.name)
    if rule is not None:
        return [rule(*operands, **params)]
    if primitive.name in _LINEAR:
        return [_forced(operands[0])._map(lambda data: primitive.bind(data, **params))]
    if primitive.name in _KEEP_ZERO:
        mat = unique(_forced(operands[0]))
        return [mat._map(lambda data: primitive.bind(data, **params))]
    raise SparseLayoutError(
        f"sparsify: {primitive.name} is not there for sparse arrays",
        got=", ".join(repr(_forced(x)) for x in operands if _is_sparse(x)),
        fix="sparse.todense outside of the function, or other operations",
    )
