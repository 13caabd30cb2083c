"""``jax.extend.source_info_util``: which frames belong to a library."""

from __future__ import annotations

from functrax.compat.jax._src.traceback_util import register_exclusion as register_exclusion
