"""What ``jax.scipy`` has; SciPy itself is not needed.

>>> import functrax, functrax.numpy as jnp
>>> functrax.scipy.special.expit(jnp.zeros(1))
Array([0.5], dtype=float32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functrax.core.boundaries.namespaces import public_names as _public_names

if TYPE_CHECKING:
    from functrax.scipy import (
        cluster as cluster,
        fft as fft,
        integrate as integrate,
        interpolate as interpolate,
        linalg as linalg,
        ndimage as ndimage,
        optimize as optimize,
        signal as signal,
        sparse as sparse,
        spatial as spatial,
        special as special,
        stats as stats,
    )
else:
    __getattr__, __dir__ = _public_names(
        globals(),
        (
            *("cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize"),
            *("signal", "sparse", "spatial", "special"),
            "stats",
        ),
        {},
    )
