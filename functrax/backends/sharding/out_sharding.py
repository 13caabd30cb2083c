"""``out_sharding``, an argument of functions besides their own: where the result is to lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from functrax.core.boundaries.arguments import ExtraKeyword

F = TypeVar("F", bound="Callable[..., Any]")


def _placed(result: Any, where: Any, name: str) -> Any:
    if where is None:
        return result
    from functrax.backends.sharding.moving import on_sharding

    return on_sharding(result, where, name)


_KEYWORD = ExtraKeyword("out_sharding", _placed, "Sharding | PartitionSpec | None")


def with_out_sharding(function: F) -> F:
    """A public function that takes ``out_sharding``: a sharding of its result, or None.

    Type checkers do not see the keyword: the type of a decorator cannot add one (PEP 612).

    Args:
      function: its result is an array.
    """
    return _KEYWORD.of(function)
