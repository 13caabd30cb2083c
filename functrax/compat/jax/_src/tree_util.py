"""``jax._src.tree_util``: what libraries take from it besides what is public."""

from __future__ import annotations

from functrax.core.pytree.node import LEAF, kind_of


class _Registry:
    """Which types are nodes of pytrees: ``type(x) in _registry``."""

    def __contains__(self, node_type: type) -> bool:
        return kind_of(node_type) is not LEAF


_registry = _Registry()
