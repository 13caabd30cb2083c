"""What a function that adds up the products of a tile depends on.

The functions are written by ``llvm/functions/tile_sums.py``, and for a matrix unit by the folder of
a target.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.records import record


@record
class Sums:
    """What the text depends on.

    Args:
      dtype: of the sums, and of both sides.
      height: rows of the tile.
      width: vectors of a row.
      lanes: of a vector.
      loops: how many.
      step: between rows of the left side if it is part of the code, else None.
      masked: whether not all columns of a tile are there.
      copies: whether what is read of the right side is written to a panel.
      dot: see :class:`~functrax.backends.kernels.tiling.Tiling`; both sides are words then.
      fetches: whether it asks for what is read later of the right side; there is one loop then.
    """

    dtype: np.dtype[Any]
    height: int
    width: int
    lanes: int
    loops: int
    step: int | None
    masked: bool
    copies: bool = False
    fetches: bool = False
    dot: tuple[str, ...] = ()
