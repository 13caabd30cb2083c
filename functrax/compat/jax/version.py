"""``jax.version``: which JAX this is."""

from __future__ import annotations

from functrax.compat.names import VERSION

__version__ = VERSION
__version_info__ = tuple(int(part) for part in VERSION.split("."))
