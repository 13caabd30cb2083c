"""Reading and writing references: indices, shapes and dtypes.

``ref[i]`` and ``ref[i] = x`` are :func:`get` and :func:`swap`.  What a :class:`Ref` is, and where
its value is, is in ``core/state/references.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from functrax.core.arrays.operators import Handle
from functrax.core.errors.typed import AxisError, IndexingError, ReferenceUseError
from functrax.core.prims.convert import convert_element_type
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.promotion import lattice_result_type

if TYPE_CHECKING:
    from functrax.core.state.references import Ref


class Accessible:
    """What can be read and written: a reference, or a part of one."""

    __slots__ = ()

    def whole_and_path(self) -> tuple[Ref, list[Any]]:
        """The reference, and the indices that lead to the part."""
        raise NotImplementedError


def fitted(aval: ShapedArray, value: Value) -> Value:
    """A value of the type of a reference."""
    got = value.aval
    if got.shape != aval.shape:
        raise ReferenceUseError(
            "a reference is set to a value of another shape",
            got=f"{got.str_short()} for {aval.str_short()}",
            fix="functrax.numpy.broadcast_to(x, shape): writing does not broadcast",
        )
    if got.dtype == aval.dtype and got.weak_type == aval.weak_type:
        return value
    known = got.dtype in dtypes.ALL and aval.dtype in dtypes.ALL
    fits = got.dtype == aval.dtype or (
        known
        and got.weak_type
        and lattice_result_type((got.dtype, True), (aval.dtype, False))[0] == aval.dtype
    )
    if not fits:
        raise ReferenceUseError(
            "a reference is set to a value of another dtype",
            got=f"{got.str_short()} for {aval.str_short()}",
            fix=f".astype('{aval.dtype}')",
        )
    return cast(Value, convert_element_type.bind(value, dtype=aval.dtype, weak_type=aval.weak_type))


def _is_whole(idx: Any) -> bool:
    """Whether an index is for everything."""
    entries = idx if isinstance(idx, tuple) else (idx,)
    return all(x is Ellipsis or (isinstance(x, slice) and x == slice(None)) for x in entries)


def _checked(shape: tuple[int, ...], idx: Any) -> Any:
    """An index that references take.

    Raises:
      IndexingError: for new axes.
      AxisError: for numbers out of range, and slices that do not go forwards.
    """
    entries = idx if isinstance(idx, tuple) else (idx,)
    axis = 0
    for i, x in enumerate(entries):
        if x is None:
            raise IndexingError(
                "a reference takes no new axes in an index", got=repr(idx), fix="ref[...][None]"
            )
        if x is Ellipsis:
            axis = len(shape) - (len(entries) - i - 1)
            continue
        if isinstance(x, slice) and isinstance(x.step, int) and x.step < 1:
            raise AxisError(
                "a slice of a reference has to go forwards", got=repr(x), fix="ref[...][::-1]"
            )
        is_number = isinstance(x, (int, np.integer)) and not isinstance(x, bool)
        if is_number and axis < len(shape) and not -shape[axis] <= x < shape[axis]:
            raise AxisError(
                "an index of a reference is out of range",
                got=f"{x} for an axis of size {shape[axis]}",
                fix="an index from 0 to the size - 1; read ref[...] for arrays' rules",
            )
        axis += 1
    return idx


def _split(ref: Any, idx: Any) -> tuple[Ref, list[Any]]:
    """The reference, and the indices one after the other; none for everything."""
    if not isinstance(ref, Accessible):
        raise ReferenceUseError(
            "what is read or written is not a reference",
            got=f"{ref!r} of type {type(ref).__name__}",
            fix="functrax.new_ref(x)",
        )
    whole, path = ref.whole_and_path()
    return whole, [() if i is None else i for i in (*path, idx)]


def get(ref: Any, idx: Any = None) -> Any:
    """The value of a reference, or a part of it; ``ref[idx]``.

    Args:
      ref: a reference, or a part of one.
      idx: which part; None or ``...`` for everything.

    Returns:
      An array.

    Raises:
      AxisError: if the index is out of range.
      ReferenceUseError: if the reference has ended.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.ref.get(functrax.new_ref(jnp.arange(3)), 1)
    Array(1, dtype=int32)
    """
    whole, path = _split(ref, idx)
    value = whole.shown()
    for i in path:
        if not _is_whole(i):
            value = value[_checked(value.shape, i)]
    return value


def swap(ref: Any, idx: Any, value: Any) -> Any:
    """Write a value, or a part of it, and return what was there.

    Args:
      ref: a reference, or a part of one.
      idx: which part; None or ``...`` for everything.
      value: an array of that shape; it is not broadcast.

    Returns:
      The old value, an array.

    Raises:
      ReferenceUseError: if shape or dtype differ (it is a ValueError).

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.ref.swap(functrax.new_ref(jnp.arange(3)), 1, 7)
    Array(1, dtype=int32)
    """
    whole, path = _split(ref, idx)
    if whole.tree is not None:
        return _update(whole, path, lambda old: _same_shape(old, value))
    return _update(whole, path, lambda old: fitted(old.aval, as_value(value)))


def _same_shape(old: Any, new: Any) -> Any:
    """A handle to be put in the place of another."""
    if not isinstance(new, Handle) or new.shape != old.shape:
        raise ReferenceUseError(
            "a reference is set to a value of another type",
            got=f"{new!r} for {old!r}",
            fix="random keys of the same shape",
        )
    return new


def _update(ref: Ref, path: Sequence[Any], made: Any) -> Any:
    """Put what is made of an old part in its place, and return the old part."""
    steps = []
    part = ref.shown()
    for i in path:
        if not _is_whole(i):
            steps.append((part, _checked(part.shape, i)))
            part = part[i]
    new = concrete(made(part))
    for outer, i in reversed(steps):
        new = outer.at[i].set(new)
    ref._write(ref._raw(new))
    return part


def set_(ref: Any, idx: Any, value: Any) -> None:
    """Write a value; ``ref[idx] = value``.  See :func:`swap`.

    Args:
      ref: a reference, or a part of one.
      idx: which part; None or ``...`` for everything.
      value: an array of that shape; it is not broadcast.

    Raises:
      ReferenceUseError: if shape or dtype differ (it is a ValueError).

    >>> import functrax, functrax.numpy as jnp
    >>> ref = functrax.new_ref(jnp.arange(3))
    >>> functrax.ref.set(ref, 1, 7)
    >>> ref[...]
    Array([0, 7, 2], dtype=int32)
    """
    swap(ref, idx, value)


def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """Add to a value, or to a part of it; see :func:`swap`.

    Args:
      ref: a reference, or a part of one.
      idx: which part; None or ``...`` for everything.
      x: an array of that shape; it is not broadcast.

    Raises:
      ReferenceUseError: if shape or dtype differ (it is a ValueError).

    >>> import functrax, functrax.numpy as jnp
    >>> ref = functrax.new_ref(jnp.arange(3))
    >>> functrax.ref.addupdate(ref, 1, 7)
    >>> ref[...]
    Array([0, 8, 2], dtype=int32)
    """
    whole, path = _split(ref, idx)
    _update(whole, path, lambda old: concrete(old) + concrete(fitted(old.aval, as_value(x))))
