"""``map``, under the name that a module with loops of its own cannot give it."""

from __future__ import annotations

from functrax.transforms.control.user_loops import map_ as map

__all__ = ["map"]
