"""What libraries ask of ``jax.lib``: its version."""

from __future__ import annotations

from functrax.compat.names import VERSION

__version__ = VERSION
