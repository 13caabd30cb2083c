"""``Array``: what concrete arrays and traced ones have in common, above all Python's operators.

The operators' meaning (promotion, broadcasting, indexing) belongs to ``functrax.numpy``, which
this layer may not import.  It hands its functions over once, by :func:`install`; here every
operator and method is an entry in that table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from functrax.core.aval import ShapedArray
from functrax.core.errors import ImmutableError

_BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
)
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
_UNARY = ("neg", "pos", "abs", "invert", "round")


class Array:
    """An immutable n-dimensional array: concrete, or traced inside a transformation.

    ``isinstance(x, functrax.Array)`` holds for both.  Arrays are made by the functions of
    ``functrax.numpy``; "changing" one is :attr:`at`, which returns a new array.

    >>> import functrax.numpy as jnp
    >>> x = jnp.arange(3)
    >>> x.at[0].set(7)
    Array([7, 1, 2], dtype=int32)
    """

    __slots__ = ()
    __array_priority__ = 100  # so that NumPy leaves `ndarray + Array` to us
    aval: ShapedArray

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self.aval.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.aval.size * int(self.aval.dtype.itemsize)

    @property
    def weak_type(self) -> bool:
        """Whether the dtype came from a Python scalar and gives way in promotion."""
        return self.aval.weak_type

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of an array of rank 0")
        return self.aval.shape[0]

    def __setitem__(self, index: Any, value: Any) -> None:
        raise ImmutableError(
            "in-place assignment: arrays are immutable",
            got=f"x[{index!r}] = ... with x of type {self.aval.str_short()}",
            fix="x = x.at[index].set(value); also .add, .multiply, .min, .max",
        )

    def __delitem__(self, index: Any) -> None:
        self.__setitem__(index, None)


def install(functions: Mapping[str, Callable[..., Any]], properties: Mapping[str, Any]) -> None:
    """Give :class:`Array` its operators, methods and properties.

    Args:
      functions: by name of the method, a function whose first argument is the array.
      properties: by name, a function of the array.
    """
    for name, function in functions.items():
        setattr(Array, name, function)
    for name, getter in properties.items():
        setattr(Array, name, property(getter))


def operator_names() -> list[str]:
    """The special methods that :func:`install` must be given."""
    names = [f"__{n}__" for n in (*_BINARY, *_COMPARE, *_UNARY)]
    return names + [f"__r{n}__" for n in _BINARY] + ["__getitem__", "__iter__"]
