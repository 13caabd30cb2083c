"""``io_callback``, ``ode`` and ``jet``; and names that older programs look for here.

>>> from functrax.experimental import enable_x64
>>> import functrax.numpy as jnp
>>> with enable_x64():
...     jnp.ones(1).dtype
dtype('float64')
"""

from __future__ import annotations

import sys

from functrax.core.lazy import listing as _listing
from functrax.core.options.config import Override
from functrax.core.options.contexts import enable_x64 as enable_x64
from functrax.example_libraries import optimizers as optimizers, stax as stax
from functrax.transforms.operations.callbacks import io_callback as io_callback

sys.modules["functrax.experimental.optimizers"] = optimizers
sys.modules["functrax.experimental.stax"] = stax


def disable_x64() -> Override:
    """Forbid 64-bit dtypes within a block: ``functrax.enable_x64(False)``."""
    return enable_x64(False)


__dir__ = _listing(globals())
