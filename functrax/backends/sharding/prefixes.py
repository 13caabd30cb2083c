"""Shardings, layouts and the like for a whole pytree, or for parts of it: prefixes of the tree."""

from __future__ import annotations

from typing import Any

from functrax.core.errors.typed import PyTreeError
from functrax.core.pytree.operations import broadcast_prefix


def prefix_leaves(prefix: Any, tree: Any, what: str) -> list[Any]:
    """For each leaf of a pytree the entry of a prefix of it: a sharding, a device, a spec, None.

    Raises:
      PyTreeError: if it is no prefix.
    """
    try:
        return broadcast_prefix(prefix, tree, is_leaf=lambda x: x is None)
    except PyTreeError as error:
        raise PyTreeError(
            f"{what} specification must be a tree prefix of the corresponding value. Mismatch "
            f"details: {error.what}",
            got=error.got,
            fix="one sharding for all, or a pytree that ends in shardings where the arrays are",
        ) from None
