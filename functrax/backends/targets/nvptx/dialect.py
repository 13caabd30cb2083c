"""How code for GPUs is loaded: the driver reads the text, and nothing is left open in it.

Start at ``DIALECT``.
"""

from __future__ import annotations

from typing import Final

from functrax.backends.targets.dialect import Dialect, Relocations

DIALECT: Final = Dialect(0, Relocations({}, (), {}, lambda here, slot: b""))
