"""``Array``: what concrete arrays and traced ones have in common, above all Python's operators.

The operators' meaning (promotion, broadcasting, indexing) belongs to ``functrax.numpy``, which
this layer may not import.  It hands its functions over once, by :func:`install`; here every
operator and method is an entry in that table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex, TypeAlias

import numpy as np

from functrax.core.boundaries.tracebacks import as_boundary, with_boundaries
from functrax.core.errors.typed import ArgumentError, HandleError, ImmutableError, ShapeError
from functrax.core.types.aval import ShapedArray

if TYPE_CHECKING:  # what install() puts there
    from functrax.core.arrays.array_methods import ArrayMethods
else:
    ArrayMethods = object

BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
)
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
UNARY = ("neg", "pos", "abs", "invert", "round")


def ambiguous_truth(aval: ShapedArray) -> ArgumentError:
    """The error for an array that is used as a condition and has not one element."""
    what = "an array with more than one element" if aval.size else "an empty array"
    return ArgumentError(
        f"bool: The truth value of {what} is ambiguous.",
        got=aval.str_short(),
        fix="x.any() or x.all(); x.size == 0 for whether it is empty",
    )


@with_boundaries
class Array(ArrayMethods):
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

    @property
    def is_fully_addressable(self) -> bool:
        """True: all elements are in this process."""
        return True

    def __len__(self) -> int:
        if not self.aval.shape:
            raise ShapeError(
                "len: an array of rank 0 has no length",
                got=self.aval.str_short(),
                fix="x.size is 1; x[None] has one axis",
            )
        return self.aval.shape[0]

    def __setitem__(self, index: Any, value: Any) -> None:
        raise ImmutableError(
            "in-place assignment: arrays are immutable",
            got=f"x[{index!r}] = ... with x of type {self.aval.str_short()}",
            fix="x = x.at[index].set(value); also .add, .multiply, .min, .max",
        )

    def __delitem__(self, index: Any) -> None:
        self.__setitem__(index, None)


#: Arrays, NumPy's arrays and scalars, and Python's numbers; no lists.
ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex

#: A shape, or the size of its one axis; a size is an integer of Python's, NumPy's, or an array.
ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]

#: One axis or several, counted from the end if negative; None for all of them.
Axes: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None


class Handle(Array):
    """An array of what the language has no type for: an object around arrays that stand for it.

    Functions that compute with numbers refuse it; those that only move elements about take it.

    Attributes:
      advice: how to get an array of numbers, for errors.
    """

    __slots__ = ()
    advice: ClassVar[str]

    @property
    def aval(self) -> ShapedArray:  # type: ignore[override]
        """What functions ask of arrays of numbers; raises the error of :meth:`refusal`."""
        raise self.refusal()

    def refusal(self) -> HandleError:
        """The error of a function that was given this array and takes numbers."""
        return HandleError(
            f"arrays of {self.dtype} are not arrays of numbers, which this function takes",
            got=f"{self.dtype}{list(self.shape)}",
            fix=self.advice,
        )


def install(functions: Mapping[str, Callable[..., Any]], properties: Mapping[str, Any]) -> None:
    """Give :class:`Array` its operators, methods and properties.

    Args:
      functions: by name of the method, a function whose first argument is the array.
      properties: by name, a function of the array.
    """
    for name, function in functions.items():
        setattr(Array, name, as_boundary(function))
    for name, getter in properties.items():
        setattr(Array, name, property(as_boundary(getter)))


def operator_names() -> list[str]:
    """The special methods that :func:`install` must be given."""
    names = [f"__{n}__" for n in (*BINARY, *COMPARE, *UNARY)]
    return names + [f"__r{n}__" for n in BINARY] + ["__getitem__", "__iter__"]
