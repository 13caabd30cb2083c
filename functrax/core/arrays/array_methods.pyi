# What scripts/write_array_methods.py wrote: the methods of arrays, for type checkers.
from collections.abc import Callable, Iterator, Sequence
from typing import Any, SupportsIndex

import numpy as np

from functrax.core.arrays.operators import Array, ArrayLike, Axes, ShapeLike
from functrax.core.types.dtypes import DTypeLike

class At:
    """``x.at``: takes an index in brackets."""

    def __getitem__(self, index: Any) -> AtIndex: ...

class AtIndex:
    """``x.at[index]``: what is read there, and other arrays that differ there."""

    def add(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] += values``; values for one element add up."""
    def apply(self, func: Callable[[Array], Any], **options: Any) -> Array:
        """``x[index] = func(x[index])``; an element named k times has it applied k times."""
    def divide(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] /= values``; the result is of a floating dtype, as a division's is."""
    def get(self, *, mode: Any = None, fill_value: ArrayLike | None = None, indices_are_sorted: bool = False, unique_indices: bool = False, wrap_negative_indices: bool = True) -> Array:
        """``x[index]``, with a choice of what indices out of range give."""
    def max(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] = maximum(x[index], values)``."""
    def min(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] = minimum(x[index], values)``."""
    def mul(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] *= values``."""
    def multiply(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] *= values``."""
    def power(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] **= values``."""
    def set(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] = values``; of several values for one element the last stays."""
    def subtract(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] -= values``."""

class ArrayMethods:
    def __add__(self, other: ArrayLike, /) -> Array: ...
    def __radd__(self, other: ArrayLike, /) -> Array: ...
    def __sub__(self, other: ArrayLike, /) -> Array: ...
    def __rsub__(self, other: ArrayLike, /) -> Array: ...
    def __mul__(self, other: ArrayLike, /) -> Array: ...
    def __rmul__(self, other: ArrayLike, /) -> Array: ...
    def __truediv__(self, other: ArrayLike, /) -> Array: ...
    def __rtruediv__(self, other: ArrayLike, /) -> Array: ...
    def __floordiv__(self, other: ArrayLike, /) -> Array: ...
    def __rfloordiv__(self, other: ArrayLike, /) -> Array: ...
    def __mod__(self, other: ArrayLike, /) -> Array: ...
    def __rmod__(self, other: ArrayLike, /) -> Array: ...
    def __divmod__(self, other: ArrayLike, /) -> tuple[Array, Array]: ...
    def __rdivmod__(self, other: ArrayLike, /) -> tuple[Array, Array]: ...
    def __pow__(self, other: ArrayLike, /) -> Array: ...
    def __rpow__(self, other: ArrayLike, /) -> Array: ...
    def __matmul__(self, other: ArrayLike, /) -> Array: ...
    def __rmatmul__(self, other: ArrayLike, /) -> Array: ...
    def __and__(self, other: ArrayLike, /) -> Array: ...
    def __rand__(self, other: ArrayLike, /) -> Array: ...
    def __or__(self, other: ArrayLike, /) -> Array: ...
    def __ror__(self, other: ArrayLike, /) -> Array: ...
    def __xor__(self, other: ArrayLike, /) -> Array: ...
    def __rxor__(self, other: ArrayLike, /) -> Array: ...
    def __lshift__(self, other: ArrayLike, /) -> Array: ...
    def __rlshift__(self, other: ArrayLike, /) -> Array: ...
    def __rshift__(self, other: ArrayLike, /) -> Array: ...
    def __rrshift__(self, other: ArrayLike, /) -> Array: ...
    def __eq__(self, other: ArrayLike, /) -> Array: ...  # type: ignore[override]
    def __ne__(self, other: ArrayLike, /) -> Array: ...  # type: ignore[override]
    def __lt__(self, other: ArrayLike, /) -> Array: ...
    def __le__(self, other: ArrayLike, /) -> Array: ...
    def __gt__(self, other: ArrayLike, /) -> Array: ...
    def __ge__(self, other: ArrayLike, /) -> Array: ...
    def __neg__(self) -> Array: ...
    def __pos__(self) -> Array: ...
    def __abs__(self) -> Array: ...
    def __invert__(self) -> Array: ...
    def __round__(self, decimals: int = 0, /) -> Array: ...
    def __bool__(self) -> bool: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __complex__(self) -> complex: ...
    def __index__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Array: ...
    def __iter__(self) -> Iterator[Array]: ...
    @property
    def T(self) -> Array:
        """The axes in another order; reversed if ``axes`` is None."""
    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray: ...
    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    @property
    def addressable_shards(self) -> Any:
        """The parts of the array on devices: one, which is all of it."""
    def all(self, axis: Axes = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None) -> Array:
        """Whether every element along axes is not 0."""
    def any(self, axis: Axes = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None) -> Array:
        """Whether some element along axes is not 0."""
    def argmax(self, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
        """The index of the largest element along an axis; of the first of several, NaN wins."""
    def argmin(self, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
        """The index of the smallest element along an axis; of the first of several, NaN wins."""
    def argpartition(self, kth: int, axis: int = -1) -> Array:
        """The int32 positions that :func:`partition` reads."""
    def argsort(self, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True, descending: bool = False, dtype: DTypeLike | None = None) -> Array:
        """The positions along an axis that put the elements in order."""
    def astype(self, dtype: DTypeLike, copy: bool = False, device: Any = None) -> Array:
        """The array with another dtype."""
    @property
    def at(self) -> At:
        """``x.at``: takes an index in brackets."""
    def block_until_ready(self) -> Array:
        """Wait until the elements are computed; returns the array itself."""
    def byteswap(self) -> Array:
        """The array with the bytes of each number in the opposite order."""
    def choose(self, choices: ArrayLike | Sequence[ArrayLike], out: None = None, mode: str = 'raise') -> Array:
        """``result[i] = choices[a[i]][i]``, of arrays that broadcast."""
    def clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None, *, a: ArrayLike | None = None, a_min: ArrayLike | None = None, a_max: ArrayLike | None = None) -> Array:
        """``x`` limited to the interval from ``min`` to ``max``."""
    @property
    def committed(self) -> bool:
        """Whether the array was put on a device or a sharding by name."""
    def compress(self, condition: ArrayLike, axis: int | None = None, **options: Any) -> Array:
        """See ``functrax.numpy.compress``."""
    def conj(self) -> Array:
        """The complex conjugate; a real array itself."""
    def conjugate(self) -> Array:
        """The complex conjugate; a real array itself."""
    def copy(self, order: str | None = None) -> Array:
        """An array of the same elements, which stays when the first one is donated or deleted."""
    def cumprod(self, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
        """The products of the first 1, 2, ... elements along an axis."""
    def cumsum(self, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
        """The sums of the first 1, 2, ... elements along an axis (of the flattened array if None)."""
    def delete(self) -> None:
        """Free the memory now; using the array afterwards is an error."""
    @property
    def device(self) -> Any:
        """The device that has the array; of a traced value the one that runs everything."""
    def devices(self) -> Any:
        """The devices that hold the array."""
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """The elements ``[i, i + offset]`` of two axes, as a new last axis."""
    def dot(self, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None, out_sharding: Any = None) -> Array:
        """The product of two arrays: of vectors, their inner product; of matrices, theirs."""
    def fetch(self, callback: Callable[[np.ndarray[Any, Any]], Any]) -> Any:
        """Hand the elements to a function, without waiting for it; see ``functrax.fetch``."""
    @property
    def flat(self) -> Array:
        """The elements row by row, to go through and to index; an array of rank 1."""
    def flatten(self, order: str = 'C') -> Array:
        """See ``functrax.numpy.ravel``."""
    @property
    def format(self) -> Any:
        """How the elements lie in memory, row by row, and on which sharding."""
    @property
    def global_shards(self) -> Any:
        """The parts of the array on devices: one, which is all of it."""
    @property
    def imag(self) -> Array:
        """The imaginary part; zeros for a real array."""
    def is_deleted(self) -> bool:
        """Whether the memory was freed by :meth:`delete` or by donation."""
    @property
    def is_fully_replicated(self) -> bool:
        """True: every device, which is one, has all elements."""
    def item(self, *args: int) -> Any:
        """The element as a Python scalar; ``args`` choose it as in NumPy."""
    @property
    def mT(self) -> Array:
        """The last two axes exchanged."""
    def max(self, axis: Axes = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
        """The largest element along axes; NaN wins, and ties share the derivative."""
    def mean(self, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None) -> Array:
        """The mean along axes; NaN of no elements."""
    def min(self, axis: Axes = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
        """The smallest element along axes; NaN wins, and ties share the derivative."""
    def nonzero(self, *, size: int | None = None, fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None) -> tuple[Array, ...]:
        """The positions of the elements that are not zero, in row-major order."""
    def partition(self, kth: int, axis: int = -1) -> Array:
        """Along an axis the smallest ``kth`` elements, then the next one, then the larger ones."""
    def prod(self, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None, promote_integers: bool = True) -> Array:
        """The product along axes."""
    def ptp(self, axis: Axes = None, out: None = None, keepdims: bool = False) -> Array:
        """The largest less the smallest element along axes."""
    def ravel(self, order: str = 'C', *, out_sharding: Any = None) -> Array:
        """All elements in one row."""
    @property
    def real(self) -> Array:
        """The real part; a real array itself."""
    def repeat(self, repeats: ArrayLike | Sequence[int], axis: int | None = None, *, total_repeat_length: int | None = None, out_sharding: Any = None) -> Array:
        """Each element repeated in place."""
    def reshape(self, *shape: ShapeLike, order: str = 'C', copy: bool | None = None) -> Array:
        """See ``functrax.numpy.reshape``."""
    def round(self, decimals: int = 0, out: None = None) -> Array:
        """The nearest number with so many decimals, of two the even one."""
    def searchsorted(self, v: ArrayLike, side: str = 'left', sorter: ArrayLike | None = None, *, method: str = 'scan') -> Array:
        """Where values would have to be inserted into a sorted vector to keep it sorted."""
    @property
    def sharding(self) -> Any:
        """Where the parts of the array lie: a sharding; a traced value has none."""
    def sort(self, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True, descending: bool = False) -> Array:
        """The elements in order along an axis, the smallest first and NaN last."""
    def squeeze(self, axis: Axes = None) -> Array:
        """Without the axes of size 1, or without those named."""
    def std(self, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0, keepdims: bool = False, *, where: ArrayLike | None = None, mean: ArrayLike | None = None, correction: ArrayLike | None = None) -> Array:
        """The standard deviation along axes: the square root of :func:`var`."""
    def sum(self, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None, promote_integers: bool = True) -> Array:
        """The sum along axes."""
    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """Two axes exchanged."""
    def take(self, indices: ArrayLike, axis: int | None = None, out: None = None, mode: str | None = None, unique_indices: bool = False, indices_are_sorted: bool = False, fill_value: ArrayLike | None = None) -> Array:
        """The elements, or slices along an axis, at positions."""
    def to_device(self, device: Any, *, stream: Any = None) -> Array:
        """The array on a device or a sharding: ``functrax.device_put(x, device)``."""
    def tobytes(self, order: str = 'C') -> bytes:
        """The elements' bytes, row by row; column by column for ``order="F"``."""
    def tolist(self) -> Any:
        """The elements as nested Python lists."""
    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, out: None = None) -> Array:
        """The sum of a diagonal of two axes."""
    @property
    def traceback(self) -> None:
        """None, as in JAX where tracebacks are off: which line made an array is not kept."""
    def transpose(self, *axes: Axes) -> Array:
        """See ``functrax.numpy.transpose``."""
    def unsafe_buffer_pointer(self) -> int:
        """The address of the elements, row by row; valid while the array lives, and not to write to."""
    def var(self, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0, keepdims: bool = False, *, where: ArrayLike | None = None, mean: ArrayLike | None = None, correction: ArrayLike | None = None) -> Array:
        """The mean squared distance from the mean, along axes."""
    def view(self, dtype: DTypeLike | None = None) -> Array:
        """The same bits read as another dtype; the last axis grows or shrinks with the width."""
