"""``DeviceArray``, which older programs use for ``functrax.Array``."""

from __future__ import annotations

from functrax.core.operators import Array

DeviceArray = Array
