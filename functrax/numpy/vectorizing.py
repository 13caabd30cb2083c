"""Functions of small arrays made functions of large ones: vectorize, apply_along_axis, piecewise.

``vectorize`` splits the shape of every argument into loop axes and core axes, broadcasts the loop
axes, and maps over each of them with ``vmap``; an axis of size 1 is not mapped, but repeated.

Start at :func:`vectorize`.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from functrax.core.arrays.operators import Array
from functrax.core.boundaries.tracebacks import boundary
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.tracing.primitive import Value
from functrax.numpy.axes import listed, one_axis
from functrax.numpy.creation import array
from functrax.numpy.filling import zeros_like
from functrax.numpy.logic import where
from functrax.numpy.promote import broadcast_shape, convert, to_array
from functrax.numpy.shaping import expand_dims, moveaxis, reshape_to
from functrax.transforms.mapping.vmap import vmap
from functrax.typing import ArrayLike, ShapeLike

__all__ = ["apply_along_axis", "apply_over_axes", "piecewise", "vectorize"]

Names = tuple[str, ...]
_CORE: Final = r"\((?:\w+(?:,\w+)*)?\)"
_SIGNATURE: Final = re.compile(rf"^{_CORE}(?:,{_CORE})*->{_CORE}(?:,{_CORE})*$")


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """A function that applies ``pyfunc`` to the elements, or sub-arrays, of broadcast arguments.

    Args:
      pyfunc: takes scalars, or arrays of the core axes of the signature.
      excluded: positions and names of arguments that are handed on as they are.
      signature: the core axes, such as ``"(n,m),(m)->(n)"``; scalars if None.

    Returns:
      A function whose results have the broadcast loop axes, then their own.  Arguments that are
      None are handed on, as if they were excluded.

    Raises:
      ArgumentError: for a signature that cannot be read, or another number of arguments.
      ShapeError: if shapes do not fit the signature; when the function is called.

    Example:
      >>> import functrax.numpy as jnp
      >>> distance = jnp.vectorize(lambda x, y: jnp.sum(abs(x - y)), signature="(n),(n)->()")
      >>> distance(jnp.zeros((3, 1, 2)), jnp.ones((4, 2))).shape
      (3, 4)
    """
    if not all(map(_names_argument, excluded)):
        raise ArgumentError("vectorize can only exclude positions and keywords",
                            got=repr(excluded), fix="numbers from 0 on, and strings")  # fmt: skip
    cores = None if signature is None else _parsed(signature)

    @functools.wraps(pyfunc)
    @boundary
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        places = [i for i in range(len(args)) if i not in excluded]
        keys = [k for k in kwargs if k not in excluded and kwargs[k] is not None]
        present = _present(cores, [args[i] is None for i in places], signature)
        places = [i for i in places if args[i] is not None]
        values = [to_array("vectorize", args[i], i) for i in places]
        values += [to_array("vectorize", kwargs[k]) for k in keys]

        def core_function(*given: Any) -> Any:
            whole, named = list(args), dict(kwargs)
            for i, x in zip(places, given[: len(places)], strict=True):
                whole[i] = x
            named.update(zip(keys, given[len(places) :], strict=True))
            return pyfunc(*whole, **named)

        return _mapped(core_function, values, present, signature)

    return vectorized


def _names_argument(item: Any) -> bool:
    return isinstance(item, str) or (isinstance(item, int) and item >= 0)


def _parsed(signature: str) -> tuple[list[Names], list[Names]]:
    """The names of the core axes of the arguments and of the results."""
    text = re.sub(r"\s+", "", signature)
    if not _SIGNATURE.match(text):
        raise ArgumentError(
            "vectorize: the signature cannot be read", got=repr(signature),
            fix="for example '(n,m),(m)->(n)'",
        )  # fmt: skip
    sides = [re.findall(_CORE, side) for side in text.split("->")]
    names = [[tuple(re.findall(r"\w+", core)) for core in side] for side in sides]
    return names[0], names[1]


def _present(
    cores: tuple[list[Names], list[Names]] | None, absent: Sequence[bool], signature: str | None
) -> tuple[list[Names], list[Names]] | None:
    """The core axes without those of arguments that are None, which are handed on."""
    if cores is None or not any(absent) or len(absent) != len(cores[0]):
        return cores
    given = list(zip(cores[0], absent, strict=True))
    if any(core and missing for core, missing in given):
        raise ArgumentError(
            f"vectorize: Cannot pass None at locations {{{list(absent).index(True)}}} "
            f"with {signature=}",
            got=f"None at position {list(absent).index(True)} of {signature!r}",
            fix="an array, or () for it in the signature",
        )
    return [core for core, missing in given if not missing], cores[1]


def _mapped(
    function: Callable[..., Any],
    values: Sequence[Value],
    cores: tuple[list[Names], list[Names]] | None,
    signature: str | None,
) -> Any:
    inputs = [()] * len(values) if cores is None else cores[0]
    if len(inputs) != len(values):
        raise ArgumentError(
            "vectorize: wrong number of positional arguments for the signature",
            got=f"{len(values)} arguments for {signature!r}",
            fix=f"{len(inputs)} arguments; excluded= names those that are not mapped",
        )
    sizes: dict[str, int] = {}
    loops = [_loop_shape(x, core, sizes, signature) for x, core in zip(values, inputs, strict=True)]
    whole = broadcast_shape("vectorize", loops) if loops else ()
    mapped = _checked(function, None if cores is None else cores[1], sizes, signature)
    repeated = []
    for axis in range(-1, -len(whole) - 1, -1):  # the innermost first
        has = [len(loop) >= -axis and loop[axis] != 1 for loop in loops]
        if any(has):
            mapped = vmap(mapped, in_axes=tuple(0 if h else None for h in has))
        else:
            repeated.append(axis + len(whole))
    kept = [
        reshape_to(x, (*(n for n in loop if n != 1), *x.aval.shape[len(loop) :]))
        for x, loop in zip(values, loops, strict=True)
    ]
    outs = mapped(*kept)
    if not repeated:
        return outs
    axes = tuple(sorted(repeated))
    if isinstance(outs, tuple):
        return tuple(expand_dims(out, axes) for out in outs)
    return expand_dims(outs, axes)


def _loop_shape(
    x: Value, core: Names, sizes: dict[str, int], signature: str | None
) -> tuple[int, ...]:
    """The axes of an argument that are not core axes, whose sizes are noted."""
    shape: tuple[int, ...] = x.aval.shape
    if len(shape) < len(core):
        raise ShapeError(
            "vectorize: an argument has fewer axes than the signature",
            got=f"{x.aval.str_short()} for ({','.join(core)}) in {signature!r}",
            fix="an array with at least the axes that the signature names",
        )
    loop = shape[: len(shape) - len(core)]
    _note_sizes(core, shape[len(loop) :], sizes, signature)
    return loop


def _note_sizes(
    core: Names, shape: tuple[int, ...], sizes: dict[str, int], signature: str | None
) -> None:
    for name, size in zip(core, shape, strict=True):
        if sizes.setdefault(name, size) != size:
            raise ShapeError(
                f"vectorize: inconsistent size for core dimension {name!r}",
                got=f"{sizes[name]} and {size}, in {signature!r}",
                fix="arrays of one size along that axis",
            )


def _checked(
    function: Callable[..., Any],
    cores: list[Names] | None,
    sizes: dict[str, int],
    signature: str | None,
) -> Callable[..., Any]:
    """The function, whose results have to be what the signature says."""

    def checked(*args: Any) -> Any:
        outs = function(*args)
        several = isinstance(outs, (tuple, list))
        if cores is None:
            return tuple(map(array, outs)) if several else array(outs)
        listed = [array(out) for out in (outs if several else [outs])]
        if len(listed) != len(cores) or (several and len(cores) == 1):
            raise ArgumentError(
                "vectorize: wrong number of output arguments for the signature"
                if isinstance(outs, (list, tuple))
                else "vectorize: output must be a tuple, with a result for each of the signature",
                got=f"{len(listed)} results for {signature!r}",
                fix="return a tuple with a result for each part after ->",
            )
        known = dict(sizes)
        for out, core in zip(listed, cores, strict=True):
            if out.aval.ndim != len(core):
                raise ShapeError(
                    f"vectorize: output shape {out.aval.shape} does not match the signature",
                    got=f"{out.aval.str_short()} for ({','.join(core)}) in {signature!r}",
                    fix="return the axes that the signature names, and no others",
                )
            _note_sizes(core, out.aval.shape, known, signature)
        return tuple(listed) if len(cores) > 1 else listed[0]

    return checked


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """A function of vectors, applied to all vectors along an axis.

    Args:
      func1d: takes a vector, and gives an array of any shape.
      axis: the axis; in the result the axes of what the function gives are in its place.
      arr: an array.
      *args: further arguments of the function.
      **kwargs: the same.

    Returns:
      An array of the shape of ``arr`` with ``axis`` replaced.

    Raises:
      AxisError: for an axis out of range.
      DTypeError: if ``arr`` is a list.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.apply_along_axis(jnp.sum, 0, jnp.ones((2, 3)))
      Array([2., 2., 2.], dtype=float32)
    """
    x = to_array("apply_along_axis", arr, 2)
    k = one_axis("apply_along_axis", axis, x.aval.ndim)
    rows = moveaxis(x, k, -1)
    lead, size = rows.aval.shape[:-1], x.aval.shape[k]
    rows = reshape_to(rows, (math.prod(lead), size))
    found = vmap(lambda row: array(func1d(row, *args, **kwargs)))(rows)
    found = reshape_to(found, (*lead, *found.aval.shape[1:]))
    own = range(len(lead), found.aval.ndim)
    return moveaxis(found, tuple(own), tuple(k + i for i, _ in enumerate(own)))


def apply_over_axes(func: Callable[[Any, int], Any], a: ArrayLike, axes: ShapeLike) -> Array:
    """``func(a, axis)`` for one axis after the other; axes that it removes are put back.

    Args:
      func: a function of an array and an axis, such as :func:`sum`.
      a: an array.
      axes: an axis, or several.

    Returns:
      An array of as many axes as ``a``.

    Raises:
      ShapeError: if the function removes more than its axis.
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3, 4)), [0, 2]).shape
      (1, 3, 1)
    """
    x = to_array("apply_over_axes", a, 1)
    ndim = x.aval.ndim
    for axis in listed(axes):
        k = one_axis("apply_over_axes", axis, ndim)
        found = func(x, k)
        x = expand_dims(found, k) if found.aval.ndim == ndim - 1 else found
        if x.aval.ndim != ndim:
            raise ShapeError(
                "apply_over_axes: the function removed more than its axis",
                got=f"{found.aval.str_short()} from an array of rank {ndim}",
                fix="a function that removes one axis, or none",
            )
    return x


def piecewise(
    x: ArrayLike,
    condlist: ArrayLike | Sequence[ArrayLike],
    funclist: Sequence[Any],
    *args: Any,
    **kw: Any,
) -> Array:
    """One function of several, chosen for each element by conditions.

    Args:
      x: an array.
      condlist: boolean arrays of its shape; where several hold, the last one decides.
      funclist: for each condition an elementwise function or a scalar; one more is for the
        elements for which no condition holds, which are 0 otherwise.
      *args: further arguments of the functions.
      **kw: the same.

    Returns:
      An array of the shape and the dtype of ``x``.

    Raises:
      ArgumentError: if the number of functions does not fit.

    Example:
      >>> import functrax.numpy as jnp
      >>> x = jnp.array([-2.0, 0.0, 3.0])
      >>> jnp.piecewise(x, [x < 0, x > 0], [lambda x: -x, 7.0])
      Array([2., 0., 7.], dtype=float32)
    """
    value = to_array("piecewise", x)
    conditions = _conditions(condlist, value.aval.ndim)
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ArgumentError(
            "piecewise: needs one function for each condition, and perhaps one more",
            got=f"{len(functions)} functions, {len(conditions)} conditions",
            fix="a function or a number for each condition; one more for where none holds",
        )

    def result_of(function: Any) -> Value:
        found = function(value, *args, **kw) if callable(function) else function
        return convert(array(found), value.aval.dtype)

    out = zeros_like(value)
    if len(functions) > len(conditions):
        out = where(True, result_of(functions.pop()), out)
    for condition, function in zip(conditions, functions, strict=True):
        out = where(condition, result_of(function), out)
    return out


def _conditions(condlist: Any, ndim: int) -> list[Any]:
    if isinstance(condlist, (list, tuple)):
        return [array(c) for c in condlist]
    conditions = to_array("piecewise", condlist, 1)
    if conditions.aval.ndim <= ndim:
        return [conditions]
    return [conditions[i] for i in range(conditions.aval.shape[0])]
