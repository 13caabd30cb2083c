"""``jax._src.xla_bridge``: what libraries take from it."""

from __future__ import annotations

from typing import Any, Final

#: The backends of XLA that have begun: none.
_backends: Final[dict[str, Any]] = {}
