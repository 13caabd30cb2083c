"""``jax.experimental.hijax``: types of values of a library's own, which functrax lacks.

Libraries declare such types and operations where they are imported, whether or not a program uses
them.  To declare is possible; to apply an operation raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from functrax.compat.extension.rules import (
    Zero as Zero,
    instantiate_zeros as instantiate_zeros,
    is_undefined_primal as is_undefined_primal,
)
from functrax.compat.missing import MissingNameError
from functrax.core.types.aval import ShapedArray as ShapedArray

AbstractValue = ShapedArray


def _refuse(what: str) -> NoReturn:
    raise MissingNameError(
        f"functrax has no types of values besides arrays: {what} cannot be applied",
        got=f"a use of {what}",
        fix="the library's way without jax.experimental.hijax: pytrees of arrays",
    )


class HiPrimitive:
    """An operation on values of a library's own types; declared, never applied.

    Args:
      name: what it is called.
    """

    multiple_results = False

    def __init__(self, name: str) -> None:
        self.name = name

    def bind(self, *args: Any, **params: Any) -> NoReturn:
        """Refuses."""
        _refuse(self.name)


class VJPHiPrimitive:
    """An operation with a derivative of its own; ``jax.custom_vjp`` is another way."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse(type(self).__name__)


class HiType:
    """The type of values of a library's own."""


class MutableHiType(HiType):
    """The type of values of a library's own that change."""


#: A property of traced values of a type.
aval_property = property


def aval_method(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A method of traced values of a type: ``fun``."""
    return fun


class _AllowedEffects:
    """Which kinds of effects loops may have; those of functrax's programs follow from them."""

    def __init__(self) -> None:
        self._types: set[type] = set()

    def add_type(self, effect: type) -> None:
        """Name a kind of effect."""
        self._types.add(effect)

    def contains(self, effect: Any) -> bool:
        """Whether an effect is of a kind that was named."""
        return isinstance(effect, tuple(self._types))


control_flow_allowed_effects = _AllowedEffects()


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], HiType]) -> None:
    """Declare which type the values of a class have; no operation asks, for none is applied."""
