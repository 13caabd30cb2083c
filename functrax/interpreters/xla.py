"""``DeviceArray``, which older programs use for ``functrax.Array``."""

from __future__ import annotations

from functrax.core.arrays.operators import Array

DeviceArray = Array
