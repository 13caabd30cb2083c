"""``ShapedArray`` as JAX's interface makes it: the language's type, and what JAX says besides.

JAX's type knows where the elements are; functrax's is a shape, a dtype and a weak type.  A sharding
on one device says nothing more, and one on several is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from functrax.core.aval import ShapedArray as LanguageShapedArray
from functrax.core.errors import ArgumentError


class _OfLanguage(type):
    """Has the language's types as its instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, LanguageShapedArray)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, LanguageShapedArray)


class _ShapedArray(metaclass=_OfLanguage):
    """The type of an array.

    Args:
      shape: the sizes.
      dtype: of the elements.
      weak_type: whether the dtype gives way in promotion.
      sharding: where the elements are: None, or a sharding on at most one device, as the types
        of arrays have it.

    Raises:
      ArgumentError: for a sharding on several devices.
    """

    def __new__(  # type: ignore[misc]
        cls, shape: Sequence[int], dtype: Any, weak_type: bool = False, *, sharding: Any = None
    ) -> LanguageShapedArray:
        if sharding is not None and sharding.num_devices > 1:
            raise ArgumentError(
                "ShapedArray: a type says nothing of several devices",
                got=f"sharding={sharding!r}",
                fix="a sharding on one device, or none",
            )
        return LanguageShapedArray(shape, dtype, weak_type)


ShapedArray: Any = LanguageShapedArray if TYPE_CHECKING else _ShapedArray
