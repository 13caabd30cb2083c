"""``io_callback``, ``ode`` and ``jet``; and names that older programs look for here.

>>> from functrax.experimental import enable_x64
>>> import functrax.numpy as jnp
>>> with enable_x64():
...     jnp.ones(1).dtype
dtype('float64')
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from functrax.core.boundaries.namespaces import public_names as _public_names
from functrax.core.options.config import Override
from functrax.core.options.contexts import enable_x64 as enable_x64
from functrax.example_libraries import optimizers as optimizers, stax as stax
from functrax.transforms.operations.callbacks import io_callback as io_callback

sys.modules["functrax.experimental.optimizers"] = optimizers
sys.modules["functrax.experimental.stax"] = stax


def disable_x64() -> Override:
    """Forbid 64-bit dtypes within a block: ``functrax.enable_x64(False)``."""
    return enable_x64(False)


if TYPE_CHECKING:
    from functrax.experimental import (
        checkify as checkify,
        jet as jet,
        layout as layout,
        mesh_utils as mesh_utils,
        multihost_utils as multihost_utils,
        ode as ode,
        pjit as pjit,
        rnn as rnn,
        shard_map as shard_map,
        sparse as sparse,
    )
else:
    __getattr__, __dir__ = _public_names(
        globals(),
        (
            *("checkify", "jet", "layout", "mesh_utils", "multihost_utils", "ode", "pjit"),
            *("rnn", "shard_map", "sparse"),
        ),
        {},
    )
