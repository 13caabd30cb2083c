"""What libraries ask of ``jaxlib``: its version."""

from __future__ import annotations

from functrax.compat.names import VERSION

__version__ = VERSION
