"""Reductions over segments, and the names that JAX removed in favour of ``x.at[...]``."""

from functrax.core.lazy import listing as _listing
from functrax.ops.segments import (
    index as index,
    index_add as index_add,
    index_max as index_max,
    index_min as index_min,
    index_mul as index_mul,
    index_update as index_update,
    segment_max as segment_max,
    segment_min as segment_min,
    segment_prod as segment_prod,
    segment_sum as segment_sum,
)

__dir__ = _listing(globals())
