"""What arrays can do by themselves: the functions of ``functrax.numpy`` become their methods.

:func:`install_all` runs once, when the namespace is complete, and hands everything to
``functrax.core.arrays.operators``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from functrax.backends.eager.cached_traces import with_recipe
from functrax.backends.sharding import array_places
from functrax.core.arrays.operators import Array, install
from functrax.core.errors.typed import ShapeError
from functrax.core.prims.convert import bitcast_convert_type
from functrax.core.prims.reindex import reshape
from functrax.core.types import dtypes
from functrax.numpy.complex_parts import imag, real
from functrax.numpy.creation import checked_dtype
from functrax.numpy.operators import binary_operator, operators
from functrax.numpy.promote import convert

#: Methods that are the function of the same name with the array as its first argument.
METHODS: Final[tuple[str, ...]] = (
    *("all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip"),
    *("conj", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "max"),
    *("mean", "min", "nonzero", "partition", "prod", "ptp", "ravel", "repeat", "round"),
    *("searchsorted", "sort", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var"),
)


def install_all(
    functions: Mapping[str, Any],
    getitem: Callable[[Any, Any], Any] | None = None,
    at: Callable[[Any], Any] | None = None,
) -> None:
    """Give arrays their operators, methods and properties.

    Args:
      functions: the namespace of ``functrax.numpy``, with everything in it defined.
      getitem: what ``x[index]`` means.
      at: what ``x.at`` is.
    """
    table: dict[str, Callable[..., Any]] = {**operators(), **_METHODS_OF_THEIR_OWN}
    table.update(array_places.METHODS)
    table.update({name: functions[name] for name in METHODS if name in functions})
    properties: dict[str, Callable[[Any], Any]] = {"real": real, "imag": imag, "flat": flat}
    properties.update(array_places.PROPERTIES)
    if "matmul" in functions:
        forward, reflected = binary_operator("@", functions["matmul"])
        table["__matmul__"], table["__rmatmul__"] = with_recipe(forward), with_recipe(reflected)
    if "transpose" in functions:
        table.update(_methods_with_other_arguments(functions))
        properties["T"] = functions["transpose"]
        properties["mT"] = functions["matrix_transpose"]
    if getitem is not None:
        table["__getitem__"], table["__iter__"] = getitem, _iterator(getitem)
    if at is not None:
        properties["at"] = at
    install(table, properties)


def _methods_with_other_arguments(functions: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """Methods whose arguments are not those of the function of the same name.

    ``reshape`` and ``transpose`` take their axes as a tuple or one by one; the array comes second
    in ``compress``.
    """

    def reshape_method(self: Any, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        sizes = shape[0] if len(shape) == 1 else shape
        return functions["reshape"](self, sizes, order, copy=copy)

    def transpose_method(self: Any, *axes: Any) -> Any:
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return functions["transpose"](self, order)

    def flatten_method(self: Any, order: str = "C") -> Any:
        return functions["ravel"](self, order)

    def compress_method(self: Any, condition: Any, axis: int | None = None, **options: Any) -> Any:
        return functions["compress"](condition, self, axis, **options)

    made: dict[str, Callable[..., Any]] = {
        "reshape": reshape_method,
        "transpose": transpose_method,
        "flatten": flatten_method,
        "compress": compress_method,
    }
    for name, method in made.items():
        method.__name__ = name
        method.__doc__ = f"See ``functrax.numpy.{'ravel' if name == 'flatten' else name}``."
    return made


def _iterator(getitem: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def iterate(self: Array) -> Any:
        if not self.aval.shape:
            raise ShapeError(
                "iter: an array of rank 0 has no elements to go through",
                got=self.aval.str_short(),
                fix="x.item() for its number; x[None] has one axis",
            )
        return (getitem(self, i) for i in range(self.aval.shape[0]))

    return iterate


def view(self: Array, dtype: Any = None) -> Any:
    """The same bits read as another dtype; the last axis grows or shrinks with the width.

    >>> import functrax.numpy as jnp
    >>> jnp.float32(1).view("int32")
    Array(1065353216, dtype=int32)
    """
    if dtype is None:
        return self
    wanted = checked_dtype(dtype)
    own = self.aval.dtype
    if own == wanted:
        return self
    if own == dtypes.bool_ or wanted == dtypes.bool_:
        byte = view(convert(self, dtypes.uint8) if own == dtypes.bool_ else self, dtypes.uint8)
        return convert(byte, wanted) if wanted == dtypes.bool_ else view(byte, wanted)
    if own.itemsize == wanted.itemsize:
        return bitcast_convert_type.bind(self, dtype=wanted)
    return _view_of_other_width(self, wanted)


def byteswap(self: Array) -> Any:
    """The array with the bytes of each number in the opposite order.

    >>> import functrax.numpy as jnp
    >>> jnp.array([1, 258], "int16").byteswap()
    Array([256, 513], dtype=int16)
    """
    from functrax import lax

    dtype = self.aval.dtype
    if dtype.kind == "c":
        return lax.complex(byteswap(real(self)), byteswap(imag(self)))
    if dtype.itemsize == 1:
        return self
    octets = lax.bitcast_convert_type(self, dtypes.uint8)
    return lax.bitcast_convert_type(lax.rev(octets, (octets.ndim - 1,)), dtype)


def flat(self: Array) -> Any:
    """The elements row by row, to go through and to index; an array of rank 1.

    >>> import functrax.numpy as jnp
    >>> [int(x) for x in jnp.arange(6).reshape(2, 3).flat[2:4]]
    [2, 3]
    """
    from functrax import numpy as jnp

    return jnp.ravel(self)


def _view_of_other_width(self: Array, dtype: Any) -> Any:
    from functrax import lax

    *outer, last = self.aval.shape or (1,)
    if self.aval.dtype.itemsize > dtype.itemsize:
        split = lax.bitcast_convert_type(self, dtype)
        return reshape.bind(split, shape=(*outer, last * split.aval.shape[-1]))
    ratio = dtype.itemsize // self.aval.dtype.itemsize
    if last % ratio:
        raise ShapeError(
            "view: the last axis does not hold whole elements of the wider dtype",
            got=f"{self.aval.str_short()} as {dtype}",
            fix=f"a last axis whose size is a multiple of {ratio}",
        )
    joined = reshape.bind(self, shape=(*outer, last // ratio, ratio))
    return lax.bitcast_convert_type(joined, dtype)


def _array_namespace(self: Array, *, api_version: str | None = None) -> Any:
    """The module of the array API: ``functrax.numpy``."""
    from functrax import numpy as functions

    return functions


_METHODS_OF_THEIR_OWN: Final[dict[str, Callable[..., Any]]] = {
    "view": view,
    "byteswap": byteswap,
    "__array_namespace__": _array_namespace,
}
