"""Scalar types of the dtypes that arrays store and compute with in wider ones
(``core/tracing/stored_dtypes.py``).

``int1`` and ``uint1`` are there with ml_dtypes 0.6 and later.

>>> import functrax.numpy as jnp
>>> jnp.array([1.0, 2.7], jnp.float8_e4m3fn)
Array([1, 2.75], dtype=float8_e4m3fn)
"""

from __future__ import annotations

from functrax.core.types import dtypes
from functrax.numpy.scalar_types import scalar_type

_made = {dtype.name: scalar_type(dtype) for dtype in dtypes.STORED}

int2, int4, uint2, uint4 = _made["int2"], _made["int4"], _made["uint2"], _made["uint4"]
float4_e2m1fn = _made["float4_e2m1fn"]
float6_e2m3fn, float6_e3m2fn = _made["float6_e2m3fn"], _made["float6_e3m2fn"]
float8_e3m4, float8_e4m3 = _made["float8_e3m4"], _made["float8_e4m3"]
float8_e5m2 = _made["float8_e5m2"]
float8_e4m3b11fnuz, float8_e4m3fn = _made["float8_e4m3b11fnuz"], _made["float8_e4m3fn"]
float8_e4m3fnuz, float8_e5m2fnuz = _made["float8_e4m3fnuz"], _made["float8_e5m2fnuz"]
float8_e8m0fnu = _made["float8_e8m0fnu"]
if "int1" in _made:
    int1, uint1 = _made["int1"], _made["uint1"]
