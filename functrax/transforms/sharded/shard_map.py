"""``shard_map``: a function of the parts of arrays, which the devices of a mesh hold.

With one device a part is the whole, so the function gets the arrays as they are.  The axes of the
mesh are bound as ``vmap`` binds axes of size 1, so that collectives work; an array that is divided
along an axis varies along it.  What the function's results vary along is thereby known exactly,
and ``out_specs`` is checked against it.

Start at :func:`shard_map`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Final

from functrax.backends.sharding.context import (
    NO_CONTEXT,
    get_abstract_mesh,
    mesh_of_specs,
    use_abstract_mesh,
)
from functrax.backends.sharding.mesh import AbstractMesh, AxisType, Mesh, MeshContext
from functrax.backends.sharding.moving import reshard
from functrax.backends.sharding.partition import PartitionSpec
from functrax.backends.sharding.placed import given_sharding, put
from functrax.backends.sharding.shardings import NamedSharding
from functrax.core.boundaries.tracebacks import boundary
from functrax.core.errors.typed import ArgumentError, PyTreeError, ShardingError
from functrax.core.options.config import Override, state as options
from functrax.core.prims.reindex import reshape
from functrax.core.pytree.operations import broadcast_prefix, filled, tree_map, tree_unflatten
from functrax.core.tracing.inputs import concrete
from functrax.core.tracing.primitive import Value
from functrax.transforms.arguments.flat import FlatFunction, check_callable, flatten_args, name_of
from functrax.transforms.interpreters.batching import add_batch_axis, batch_flat


class _Infer:
    """The type of :data:`INFER`."""

    def __repr__(self) -> str:
        return "Infer"


#: Specs that are those of the arguments themselves.
INFER: Final = _Infer()


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = INFER,
    mesh: Mesh | AbstractMesh | None = None,
    axis_names: Collection[Hashable] = frozenset(),
    check_vma: bool = True,
) -> Callable[..., Any]:
    """Map a function over the parts of arrays on the devices of a mesh.

    There is one device, so the axes of the mesh have size 1 and each part is the whole array.
    Inside of ``f`` the names of the axes can be given to ``functrax.lax.psum`` and its kin.

    Args:
      f: the function of the parts; None to get a decorator.
      out_specs: along which axes the results are divided: a pytree prefix of the result that ends
        in ``functrax.P``.
      in_specs: the same for the tuple of the arguments; without it the specs that the arrays have.
      mesh: the mesh; None for the one that is set.
      axis_names: the axes of the mesh that ``f`` is mapped over; all if empty.
      check_vma: whether to refuse results that vary along an axis which their spec does not name.

    Returns:
      A function of the whole arrays.

    Raises:
      ShardingError: if there is no mesh, an axis has another size than 1, a spec names an axis
        that is not mapped, or has more entries than its array has axes, or a result varies.
      PyTreeError: if the specs do not fit the arguments or the results.
      ArgumentError: if there is something else in the specs.

    >>> import functrax, functrax.numpy as jnp
    >>> mesh = functrax.make_mesh((1,), ("i",))
    >>> total = shard_map(lambda x: functrax.lax.psum(x.sum(), "i"), mesh=mesh,
    ...                   in_specs=functrax.P("i"), out_specs=functrax.P())
    >>> total(jnp.arange(4.0))
    Array(6., dtype=float32)
    """
    if f is None:
        return lambda g: shard_map(
            g,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    check_callable("shard_map", f)
    function = f
    _check_specs("in_specs", in_specs)
    _check_specs("out_specs", out_specs)

    @functools.wraps(function)
    @boundary
    def mapped(*args: Any) -> Any:
        grid = _chosen_mesh(mesh)
        names = _mapped_axes(grid, axis_names)
        flat, in_tree = flatten_args(function, args, {})
        specs = _specs_of(in_specs, args, flat, function)
        for spec, x in zip(specs, flat, strict=True):
            _check_spec(spec, x, names, "in_specs", function)
        flat_fun = FlatFunction(function, in_tree)
        varying = [frozenset(spec.names()) for spec in specs]
        found: dict[Hashable, list[bool]] = {}
        with _manual(grid, names):
            outs = _over_axes(flat_fun, names, varying, found)(*flat)
        wanted = _specs_of_results(out_specs, flat_fun, function)
        results = []
        for k, (spec, x) in enumerate(zip(wanted, outs, strict=True)):
            _check_spec(spec, x, names, "out_specs", function)
            if check_vma:
                _check_constant(spec, x, [n for n in names if found[n][k]], function)
            value = concrete(x)
            results.append(
                put(value, NamedSharding(grid, spec)) if isinstance(grid, Mesh) else value
            )
        return tree_unflatten(flat_fun.out_tree, results)

    return mapped


def _over_axes(
    function: Callable[..., Sequence[Value]],
    names: Sequence[Hashable],
    varying: Sequence[frozenset[Any]],
    found: dict[Hashable, list[bool]],
) -> Callable[..., Sequence[Value]]:
    """A function of flat values mapped over axes of size 1.

    ``found`` becomes, for each axis, which results vary along it.
    """
    if not names:
        return function
    name = names[0]
    inner = _over_axes(function, names[1:], varying, found)

    def mapped(*values: Value) -> Sequence[Value]:
        batched = [name in axes for axes in varying]
        wide = [add_batch_axis(x, 1) if b else x for x, b in zip(values, batched, strict=True)]
        outs, flags = batch_flat(inner, 1, wide, batched, name)
        found[name] = flags
        return [
            reshape.bind(x, shape=x.aval.shape[1:]) if flag else x
            for x, flag in zip(outs, flags, strict=True)
        ]

    mapped.__name__ = name_of(function)
    return mapped


def _manual(mesh: Mesh | AbstractMesh, names: Sequence[Hashable]) -> Override:
    """The context of the function's body: the mapped axes are the program's own business."""
    types = dict.fromkeys(names, AxisType.Manual)
    abstract = mesh.abstract_mesh.update_axis_types(types)
    before = options.mesh_context or NO_CONTEXT
    return Override("mesh_context", MeshContext(abstract, before.concrete))


def _chosen_mesh(mesh: Any) -> Mesh | AbstractMesh:
    if mesh is None:
        mesh = mesh_of_specs()
        if mesh.empty:
            raise ShardingError(
                "shard_map: there is no mesh",
                got="mesh=None",
                fix="mesh=functrax.make_mesh((1,), ('i',)), or with functrax.set_mesh(mesh): ...",
            )
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise ArgumentError(
            "shard_map: not a mesh",
            got=f"{mesh!r} of type {type(mesh).__name__}",
            fix="functrax.make_mesh((1,), ('i',))",
        )
    return mesh


def _mapped_axes(mesh: Mesh | AbstractMesh, axis_names: Any) -> tuple[Any, ...]:
    """The axes to map over, in the order of the mesh."""
    given = {axis_names} if isinstance(axis_names, str) else set(axis_names)
    unknown = sorted(map(repr, given - set(mesh.axis_names)))
    if unknown:
        raise ShardingError(
            "shard_map: axis_names has a name that the mesh lacks",
            got=f"{', '.join(unknown)} for axes {mesh.axis_names!r}",
            fix="names of axes of the mesh",
        )
    names = tuple([n for n in mesh.axis_names if n in given or not given])
    large = [(n, mesh.shape[n]) for n in names if mesh.shape[n] != 1]
    if large:
        raise ShardingError(
            "shard_map: the mesh is of more devices than there are",
            got=", ".join(f"{name!r}: {size}" for name, size in large),
            fix="axes of size 1, as functrax.make_mesh((1,), ('i',)) makes",
        )
    return names


def _is_none(x: Any) -> bool:
    return x is None


def _check_specs(what: str, specs: Any) -> None:
    if specs is INFER:
        return
    if what == "in_specs" and specs is None:
        raise ArgumentError(
            "shard_map: in_specs is None",
            got="None",
            fix="functrax.P() for arrays that are not divided",
        )

    def check(spec: Any) -> None:
        if not isinstance(spec, (PartitionSpec, type(None))):
            raise ArgumentError(
                f"shard_map: {what} holds something else than PartitionSpecs",
                got=f"{spec!r} of type {type(spec).__name__}",
                fix="functrax.P('i')",
            )

    tree_map(check, specs, is_leaf=_is_none)


def _specs_of(
    in_specs: Any, args: tuple[Any, ...], flat: Sequence[Value], function: Any
) -> list[PartitionSpec]:
    if in_specs is INFER:
        own = [given_sharding(x) for x in flat]
        return [s.spec if isinstance(s, NamedSharding) else PartitionSpec() for s in own]
    specs = tuple(in_specs) if isinstance(in_specs, list) else in_specs
    try:
        found = broadcast_prefix(specs, args, is_leaf=_is_none)
    except PyTreeError as error:
        raise PyTreeError(
            f"shard_map: in_specs does not fit the arguments of {name_of(function)}",
            got=f"in_specs={in_specs!r}; {error.got or error.what}",
            fix="one spec for all, or a tuple with a pytree prefix for each argument",
        ) from None
    return [PartitionSpec() if spec is None else spec for spec in found]


def _specs_of_results(out_specs: Any, flat_fun: FlatFunction, function: Any) -> list[PartitionSpec]:
    shape, _ = filled(flat_fun.out_tree)
    try:
        return broadcast_prefix(out_specs, shape)
    except PyTreeError as error:
        raise PyTreeError(
            f"shard_map: out_specs does not fit the result of {name_of(function)}",
            got=f"out_specs={out_specs!r}; {error.got or error.what}",
            fix="a pytree prefix of the result that ends in functrax.P",
        ) from None


def _check_spec(
    spec: PartitionSpec, x: Value, names: Sequence[Any], what: str, function: Any
) -> None:
    others = [n for n in (*spec.names(), *spec.unreduced, *spec.reduced) if n not in names]
    if others:
        raise ShardingError(
            f"shard_map: {what} of {name_of(function)} names an axis that is not mapped",
            got=f"{others[0]!r} in {spec!r} for axes {tuple(names)!r}",
            fix="an axis of the mesh that is in axis_names",
        )
    if len(spec) > x.aval.ndim:
        raise ShardingError(
            f"shard_map: a spec in {what} of {name_of(function)} has more entries than the array "
            "has axes",
            got=f"{spec!r} for {x.aval.str_short()}",
            fix="functrax.P() for scalars; x[None] gives a scalar an axis",
        )


def _check_constant(spec: PartitionSpec, x: Value, varies: Sequence[Any], function: Any) -> None:
    """Refuse a result that varies along an axis which its spec does not name."""
    named = {*spec.names(), *spec.unreduced}
    unnamed = [n for n in varies if n not in named]
    if unnamed:
        raise ShardingError(
            f"shard_map: a result of {name_of(function)} may differ along an axis of the mesh that "
            "its spec in out_specs does not name",
            got=f"{x.aval.str_short()} along {', '.join(map(repr, unnamed))}, {spec!r}",
            fix="functrax.lax.psum over the axis, its name in out_specs, or check_vma=False",
        )


def smap(
    f: Callable[..., Any] | None = None,
    /,
    *,
    in_axes: Any = INFER,
    out_axes: Any,
    axis_name: Hashable,
) -> Callable[..., Any]:
    """Map a function over one axis of the mesh that is set; :func:`shard_map` by axis numbers.

    Args:
      f: the function of the parts; None to get a decorator.
      in_axes: for the arguments which axis is divided, or None: an int, or a tuple with a pytree
        prefix for each argument; without it the specs that the arrays have.
      out_axes: the same for the results.
      axis_name: the axis of the mesh.

    Returns:
      A function of whole arrays.

    Raises:
      ShardingError: as :func:`shard_map`.

    >>> import functrax, functrax.numpy as jnp
    >>> with functrax.set_mesh(functrax.make_mesh((1,), ("i",))):
    ...     smap(lambda x: x + 1, in_axes=0, out_axes=0, axis_name="i")(jnp.arange(3))
    Array([1, 2, 3], dtype=int32)
    """

    def spec(axis: Any) -> PartitionSpec:
        if axis is None:
            return PartitionSpec()
        if isinstance(axis, bool) or not isinstance(axis, int) or axis < 0:
            raise ArgumentError(
                "smap: an axis is neither None nor a number from 0",
                got=f"{axis!r} of type {type(axis).__name__}",
                fix="0",
            )
        return PartitionSpec(*[None] * axis, axis_name)

    in_specs = INFER if in_axes is INFER else tree_map(spec, in_axes, is_leaf=_is_none)
    return shard_map(
        f,
        out_specs=tree_map(spec, out_axes, is_leaf=_is_none),
        in_specs=in_specs,
        axis_names={axis_name},
    )


def auto_axes(
    f: Callable[..., Any] | None = None, /, *, axes: Any = None, out_sharding: Any = None
) -> Callable[..., Any]:
    """Run a function with axes of the mesh that is set as axes of type Auto.

    Args:
      f: the function; None to get a decorator.
      axes: the name of an axis, or several; None for all.
      out_sharding: the sharding of the results, as :func:`functrax.reshard` takes it; None to
        give it with each call, by name.

    Returns:
      A function of the same arguments.

    Raises:
      ArgumentError: if there is no ``out_sharding``.

    >>> import functrax, functrax.numpy as jnp
    >>> from functrax.sharding import auto_axes
    >>> mesh = functrax.make_mesh((1,), ("i",))
    >>> with functrax.set_mesh(mesh):
    ...     auto_axes(lambda x: 2 * x, out_sharding=functrax.P("i"))(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """
    return _with_axes("auto_axes", AxisType.Auto, f, axes, "out_sharding", out_sharding)


def explicit_axes(
    f: Callable[..., Any] | None = None, /, *, axes: Any = None, in_sharding: Any = None
) -> Callable[..., Any]:
    """Run a function with axes of the mesh that is set as axes of type Explicit.

    Args:
      f: the function; None to get a decorator.
      axes: the name of an axis, or several; None for all.
      in_sharding: the sharding of the arguments, as :func:`functrax.reshard` takes it; None to
        give it with each call, by name.

    Returns:
      A function of the same arguments.

    Raises:
      ArgumentError: if there is no ``in_sharding``.
      ShardingError: if no mesh is set.

    >>> import functrax, functrax.numpy as jnp
    >>> from functrax.sharding import explicit_axes
    >>> mesh = functrax.make_mesh((1,), ("i",))
    >>> with functrax.set_mesh(mesh):
    ...     explicit_axes(lambda x: 2 * x, in_sharding=functrax.P("i"))(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """
    return _with_axes("explicit_axes", AxisType.Explicit, f, axes, "in_sharding", in_sharding)


def _with_axes(
    name: str, kind: AxisType, f: Any, axes: Any, keyword: str, sharding: Any
) -> Callable[..., Any]:
    if f is None:
        return lambda g: _with_axes(name, kind, g, axes, keyword, sharding)
    check_callable(name, f)

    @functools.wraps(f)
    @boundary
    def run(*args: Any, **kwargs: Any) -> Any:
        where = kwargs.pop(keyword, None) if sharding is None else sharding
        if where is None:
            raise ArgumentError(
                f"{name}: there is no {keyword}", got="None", fix=f"{keyword}=functrax.P('i')"
            )
        mesh = get_abstract_mesh()
        if mesh.empty:
            if kind is AxisType.Explicit:
                raise ShardingError(
                    f"{name}: no mesh is set",
                    got=repr(mesh),
                    fix="with functrax.set_mesh(mesh): ...",
                )
            return f(*args, **kwargs)
        given = (axes,) if isinstance(axes, str) else axes
        names = mesh.axis_names if given is None else tuple(given)
        with use_abstract_mesh(mesh.update_axis_types(dict.fromkeys(names, kind))):
            if keyword == "in_sharding":
                args = reshard(args, where)
            result = f(*args, **kwargs)
        return result if keyword == "in_sharding" else reshard(result, where)

    return run
