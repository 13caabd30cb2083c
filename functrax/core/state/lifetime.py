"""The life of a reference: made by ``new_ref``, ended by ``freeze`` or ``free_ref``.

Start at :func:`new_ref`; :class:`~functrax.core.state.references.Ref` is what it makes.
"""

from __future__ import annotations

from typing import Any

from functrax.core.arrays.operators import Handle
from functrax.core.errors.typed import ReferenceUseError
from functrax.core.prims.reindex import zeros
from functrax.core.pytree.operations import tree_flatten
from functrax.core.state.references import Ref, bottom
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Ref:
    """A reference to a value that can be changed in place.

    Args:
      init_val: an array, or a number.
      memory_space: there is one, so only None is taken.
      kind: None, or ``"no_grad_no_remat"``: what is written under differentiation is then written
        without its derivative, instead of being refused.

    Returns:
      A reference: ``ref[...]`` reads it, ``ref[...] = x`` writes it.

    Raises:
      ReferenceUseError: for a memory space, an unknown kind, or a reference to a reference.

    >>> import functrax
    >>> ref = functrax.new_ref(1.0)
    >>> ref[...] += 2.0
    >>> ref
    Ref(3., dtype=float32, weak_type=True)
    """
    if memory_space is not None:
        raise ReferenceUseError(
            "new_ref: there is one memory space", got=f"{memory_space!r}", fix="memory_space=None"
        )
    if kind not in (None, "no_grad_no_remat"):
        raise ReferenceUseError(
            "new_ref: unknown kind", got=f"kind={kind!r}", fix="None or 'no_grad_no_remat'"
        )
    if isinstance(init_val, Ref):
        raise ReferenceUseError(
            "new_ref: a reference cannot refer to a reference",
            got=repr(init_val.aval),
            fix="functrax.new_ref(ref[...])",
        )
    if isinstance(init_val, Handle):
        leaves, tree = tree_flatten(init_val)
        return Ref(as_value(leaves[0]), kind, tree)
    return Ref(as_value(init_val, "the value of new_ref"), kind)


def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """A reference of a type, whose value is zeros until it is written.

    Args:
      ty: anything with a shape and a dtype.
      memory_space: there is one, so only None is taken.

    Returns:
      A reference.

    Raises:
      ReferenceUseError: for a memory space.

    >>> import functrax
    >>> functrax.empty_ref(functrax.ShapeDtypeStruct((2,), "float32"))
    Ref([0., 0.], dtype=float32)
    """
    dtype = dtypes.canonicalize_dtype(dtypes.as_dtype(ty.dtype))
    return new_ref(concrete(zeros(ShapedArray(tuple(ty.shape), dtype))), memory_space=memory_space)


def freeze(ref: Ref) -> Any:
    """The last value of a reference, which ends: it can be neither read nor written any more.

    Args:
      ref: a reference.

    Returns:
      An array.

    Raises:
      ReferenceUseError: if it has ended, or was made outside of the function being traced.

    >>> import functrax
    >>> ref = functrax.new_ref(1.0)
    >>> ref[...] += 2.0
    >>> functrax.freeze(ref)
    Array(3., dtype=float32, weak_type=True)
    """
    value = ref.shown()
    _end(ref, "freeze")
    return value


def free_ref(ref: Ref) -> None:
    """End a reference; its value is lost.

    Args:
      ref: a reference.

    Returns:
      None.

    Raises:
      ReferenceUseError: if it has ended, or was made outside of the function being traced.

    >>> import functrax
    >>> ref = functrax.new_ref(1.0)
    >>> functrax.free_ref(ref)
    """
    ref._here()
    _end(ref, "free_ref")


def _end(ref: Ref, by: str) -> None:
    if ref._home is not bottom():
        raise ReferenceUseError(
            f"{by}: the reference is from outside of the function that is being traced",
            got=repr(ref.aval),
            fix=f"{by} it where it was made, or read ref[...]",
        )
    ref._ended = by
