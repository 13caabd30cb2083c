"""Rewrites, text by text: a tree, a schedule, and the tree that it makes.

Each case says one thing that a rewrite does.  That what it makes computes the same is checked on
kernels of every form in ``test_trees.py``.
"""

from __future__ import annotations

import importlib

import pytest

from functrax.backends.loops.parse import parse
from functrax.backends.loops.rewrites.apply import parse_rewrite, rewritten
from functrax.backends.loops.rewrites.rewrite import KINDS
from functrax.backends.loops.text import text
from functrax.backends.loops.tree_verifier import verify

importlib.import_module(
    "functrax.backends.loops.strategies.groups"
)  # whose rewrites are loaded late

HEAD = """
kernel k:
  in b0: float32[3000]
  out b1: float32[3000]
  extents {extents}
  units 1, points 1, work 1
"""
MAP = (
    HEAD.format(extents="100")
    + """
  parallel d0 in 0:int64:extent(d0, 100) step 1
    v0:float32 = b0[d0]
    v1:float32 = exp(v0)
    b1[d0] = v1
"""
)
ROWS = (
    HEAD.format(extents="3 1000")
    + """
  parallel d0 in 0:int64:extent(d0, 3) step 1
    serial d1 in 0:int64:extent(d1, 1000) step 1
      carry r0: float64[1] = 0.0:float64 -> r1
      v2:float32 = b0[1000*d0 + d1]
      v3:float64 = convert(v2)
      reduce add<0.0:float64> v3 onto r0 -> r4:float64
      next r0 = r4
    v5:float32 = convert(r1)
    b1[d0] = v5
"""
)
PLANE = (
    HEAD.format(extents="6 4")
    + """
  parallel d1 in 0:int64:extent(d1, 4) step 1
    parallel d0 in 0:int64:extent(d0, 6) step 1
      v0:float32 = b0[d0 + 6*d1]
      b1[4*d0 + d1] = v0
"""
)
RUNNING = (
    HEAD.format(extents="3 20")
    + """
  parallel d0 in 0:int64:extent(d0, 3) step 1
    serial d1 in 0:int64:extent(d1, 20) step 1
      carry r0: float64[1] = 0.0:float64 -> r1
      v2:float32 = b0[20*d0 + d1]
      v3:float64 = convert(v2)
      running add<0.0:float64> v3 after r0 -> r4:float64 last r5:float64
      v6:float32 = convert(r4)
      b1[20*d0 + d1] = v6
      next r0 = r5
"""
)
SCATTER = (
    HEAD.format(extents="40 100").replace("out b1: float32[24]", "out b1: float32[24] updated")
    + """
  parallel d0 in 0:int64:extent(d0, 40) step 1
    serial d1 in 0:int64:extent(d1, 100) step 1
      v0:float32 = b0[d1]
      v1:int32 = convert(v0)
      v2:int32 = mul(v1, 40:int32)
      v3:bool = lt(v1, 20:int32)
      compute v0, v2, v3
      b1[d0 + v2] add<0.0:float32>= v0 if v3 once along(d0)
"""
)
HISTOGRAM = (
    HEAD.format(extents="100")
    + """
  serial d0 in 0:int64:extent(d0, 100) step 1
    v0:float32 = b0[d0]
    v1:int32 = convert(v0)
    v2:bool = lt(v1, 20:int32)
    compute v0, v1, v2
    b1[0 + v1] add<0.0:float32>= v0 if v2 once along()
"""
)
COPY = (
    HEAD.format(extents="70")
    + """
  parallel d0 in 0:int64:extent(d0, 70) step 1
    v0:float32 = b0[d0]
    v1:float32 = add(v0, v0)
    b1[d0] = v1
"""
)
PRODUCTS = (
    HEAD.format(extents="3 4 4")
    + """
  parallel d0 in 0:int64:extent(d0, 3) step 1
    parallel d1 in 0:int64:extent(d1, 4) step 1
      serial d2 in 0:int64:extent(d2, 4) step 1
        carry r0: float32[1] = 0.0:float32 -> r1
        v2:float32 = b0[4*d0 + d2]
        v3:float32 = b0[d1 + 4*d2]
        v4:float32 = mul(v2, v3)
        reduce add<0.0:float32> v4 onto r0 -> r5:float32
        next r0 = r5
      b1[4*d0 + d1] = r1
"""
)
#: What is rewritten, the schedule, and the statements that come out.
#: Each element is stored, with its index, where the number of those before it says.
SORTS = """
kernel sort:
  in b0: int32[12]
  out b1: int32[12]
  out b2: uint32[12]
  extents 3 4 4
  units 1, points 48, work 8
  parallel d0 in 0:int64:extent(d0, 3) step 1
    parallel d1 in 0:int64:extent(d1, 4) step 1
      v0:int32 = b0[4*d0 + d1]
      serial d2 in 0:int64:extent(d2, 4) step 1
        carry r1: uint32[1] = 0:uint32 -> r2
        v3:int32 = b0[4*d0 + d2]
        v4:bool = lt(v3, v0)
        v5:bool = eq(v3, v0)
        v6:bool = lt(d2, d1)
        v7:bool = and(v5, v6)
        v8:bool = or(v4, v7)
        v9:uint32 = select(v8, 1:uint32, 0:uint32)
        reduce add<0:uint32> v9 onto r1 -> r10:uint32
        next r1 = r10
      v11:int64 = convert(r2)
      b1[4*d0 + v11] = v0
      v12:uint32 = convert(d1)
      b2[4*d0 + v11] = v12
"""
CASES = {
    "lanes": (
        MAP,
        "vectorize d0 16",
        """
vector d0 in 0:int64:extent(d0, 100) step 16 masked
  v0:float32 = b0[d0]
  v1:float32 = exp(v0)
  b1[d0] = v1
""",
    ),
    "units": (
        MAP,
        "parallelize d0 32",
        """
threads d1 in begin:end step 1
  v0:int64 = mul(d1, grain(32))
  v1:int64 = add(v0, grain(32))
  v2:bool = lt(v1, extent(d0, 100))
  v3:int64 = select(v2, v1, extent(d0, 100))
  parallel d0 in v0:v3 step 1
    v4:float32 = b0[d0]
    v5:float32 = exp(v4)
    b1[d0] = v5
""",
    ),
    "a last vector": (
        MAP,
        "vectorize d0 16; peel d0",
        """
v0:int64 = and(extent(d0, 100), -16:int64)
vector d0 in 0:int64:v0 step 16
  v1:float32 = b0[d0]
  v2:float32 = exp(v1)
  b1[d0] = v2
vector d0 in v0:extent(d0, 100) step 16 masked peeled
  v1:float32 = b0[d0]
  v2:float32 = exp(v1)
  b1[d0] = v2
""",
    ),
    "a first vector": (
        MAP,
        "vectorize d0 16; align d0 b1",
        """
v0:int64 = line[b1; d0; d0](0:int64)
v1:bool = lt(v0, extent(d0, 100))
v2:int64 = select(v1, v0, extent(d0, 100))
vector d0 in 0:int64:v2 step 16 masked maybe empty peeled
  v3:float32 = b0[d0]
  v4:float32 = exp(v3)
  b1[d0] = v4
vector d0 in v2:extent(d0, 100) step 16 masked
  v3:float32 = b0[d0]
  v4:float32 = exp(v3)
  b1[d0] = v4
""",
    ),
    "pieces": (
        MAP,
        "vectorize d0 16; interleave d0 2",
        """
v0:int64 = div(extent(d0, 100), 32:int64)
v1:int64 = mul(v0, 16:int64)
serial d1 in 0:int64:v1 step 16 maybe empty
  bind d0 = d1 vector
    v2:float32 = b0[d0]
    v3:float32 = exp(v2)
    b1[d0] = v3
  v4:int64 = add(d1, v1)
  bind d0 = v4 vector
    v2:float32 = b0[d0]
    v3:float32 = exp(v2)
    b1[d0] = v3
v5:int64 = mul(v1, 2:int64)
vector d0 in v5:extent(d0, 100) step 16 masked maybe empty peeled
  v2:float32 = b0[d0]
  v3:float32 = exp(v2)
  b1[d0] = v3
""",
    ),
    "past the caches": (
        MAP,
        "stream b1",
        """
parallel d0 in 0:int64:extent(d0, 100) step 1
  v0:float32 = b0[d0]
  v1:float32 = exp(v0)
  b1[d0] = v1 streams
""",
    ),
    "lanes of a sum": (
        ROWS,
        "vectorize d1 32",
        """
parallel d0 in 0:int64:extent(d0, 3) step 1
  vector d1 in 0:int64:extent(d1, 1000) step 32 masked
    carry r0: float64[32] = 0.0:float64 -> r1
    v2:float32 = b0[1000*d0 + d1]
    v3:float64 = convert(v2)
    reduce add<0.0:float64> v3 onto r0 -> r4:float64
    next r0 = r4
  v5:float64 = across[add<0.0:float64>; 0; 1](r1)
  let r6:float64 = v5
  v7:float32 = convert(r6)
  b1[d0] = v7
""",
    ),
    "fewer sums": (
        ROWS,
        "vectorize d1 32; narrow d1 16",
        """
parallel d0 in 0:int64:extent(d0, 3) step 1
  vector d1 in 0:int64:extent(d1, 1000) step 32 masked
    carry r0: float64[16] = 0.0:float64 -> r1
    v2:float32 = b0[1000*d0 + d1]
    v3:float64 = convert(v2)
    reduce add<0.0:float64> v3 onto r0 -> r4:float64
    next r0 = r4
  v5:float64 = across[add<0.0:float64>; 0; 1](r1)
  let r6:float64 = v5
  v7:float32 = convert(r6)
  b1[d0] = v7
""",
    ),
    "sums as values": (
        ROWS,
        "vectorize d1 32; narrow d1 16; combine 1",
        """
parallel d0 in 0:int64:extent(d0, 3) step 1
  vector d1 in 0:int64:extent(d1, 1000) step 32 masked
    carry r0: float64[16] = 0.0:float64 -> r1
    v2:float32 = b0[1000*d0 + d1]
    v3:float32 = select(tail, v2, 0.0:float32)
    v4:float32 = across[add<0.0:float64>; 0; 16](v3)
    v5:float64 = convert(v4)
    v6:float64 = add(r0, v5)
    compute v6
    next r0 = v6
  v7:float64 = across[add<0.0:float64>; 0; 1](r1)
  let r8:float64 = v7
  v9:float32 = convert(r8)
  b1[d0] = v9
""",
    ),
    "the next row": (
        ROWS,
        "vectorize d1 32; prefetch d0",
        """
parallel d0 in 0:int64:extent(d0, 3) step 1
  vector d1 in 0:int64:extent(d1, 1000) step 32 masked
    carry r0: float64[32] = 0.0:float64 -> r1
    prefetch b0[1000*d0 + d1] along d0
    v2:float32 = b0[1000*d0 + d1]
    v3:float64 = convert(v2)
    reduce add<0.0:float64> v3 onto r0 -> r4:float64
    next r0 = r4
  v5:float64 = across[add<0.0:float64>; 0; 1](r1)
  let r6:float64 = v5
  v7:float32 = convert(r6)
  b1[d0] = v7
""",
    ),
    "a last vector of a sum": (
        ROWS,
        "vectorize d1 32; peel d1",
        """
parallel d0 in 0:int64:extent(d0, 3) step 1
  v0:int64 = and(extent(d1, 1000), -32:int64)
  vector d1 in 0:int64:v0 step 32
    carry r1: float64[32] = 0.0:float64 -> r2
    v3:float32 = b0[1000*d0 + d1]
    v4:float64 = convert(v3)
    reduce add<0.0:float64> v4 onto r1 -> r5:float64
    next r1 = r5
  vector d1 in v0:extent(d1, 1000) step 32 masked peeled
    carry r1: float64[32] = r2 -> r6
    v3:float32 = b0[1000*d0 + d1]
    v4:float64 = convert(v3)
    reduce add<0.0:float64> v4 onto r1 -> r5:float64
    next r1 = r5
  v7:float64 = across[add<0.0:float64>; 0; 1](r6)
  let r8:float64 = v7
  v9:float32 = convert(r8)
  b1[d0] = v9
""",
    ),
    "steps as units": (
        ROWS,
        "parallelize d0 1",
        """
threads d0 in begin:end step 1
  serial d1 in 0:int64:extent(d1, 1000) step 1
    carry r0: float64[1] = 0.0:float64 -> r1
    v2:float32 = b0[1000*d0 + d1]
    v3:float64 = convert(v2)
    reduce add<0.0:float64> v3 onto r0 -> r4:float64
    next r0 = r4
  v5:float32 = convert(r1)
  b1[d0] = v5
""",
    ),
    "another order": (
        PLANE,
        "reorder d0 d1",
        """
parallel d0 in 0:int64:extent(d0, 6) step 1
  parallel d1 in 0:int64:extent(d1, 4) step 1
    v0:float32 = b0[d0 + 6*d1]
    b1[4*d0 + d1] = v0
""",
    ),
    "blocks": (
        PLANE,
        "split d1 2",
        """
parallel d2 in 0:int64:extent(d1, 4) step 2
  v0:int64 = add(d2, 2:int64)
  v1:bool = lt(v0, extent(d1, 4))
  v2:int64 = select(v1, v0, extent(d1, 4))
  parallel d1 in d2:v2 step 1
    parallel d0 in 0:int64:extent(d0, 6) step 1
      v3:float32 = b0[d0 + 6*d1]
      b1[4*d0 + d1] = v3
""",
    ),
    "squares": (
        PLANE,
        "vectorize d1 4; turn d0",
        """
vector d1 in 0:int64:extent(d1, 4) step 4
  parallel d2 in 0:int64:extent(d0, 6) step 4
    tile d2
      bind d0 = d2
        v0:float32 = b0[d0 + 6*d1]
        b1[4*d0 + d1] = v0
      v1:int64 = add(d2, 1:int64)
      v2:bool = lt(v1, extent(d0, 6))
      bind d0 = v1 if v2
        v0:float32 = b0[d0 + 6*d1]
        b1[4*d0 + d1] = v0
      v3:int64 = add(d2, 2:int64)
      v4:bool = lt(v3, extent(d0, 6))
      bind d0 = v3 if v4
        v0:float32 = b0[d0 + 6*d1]
        b1[4*d0 + d1] = v0
      v5:int64 = add(d2, 3:int64)
      v6:bool = lt(v5, extent(d0, 6))
      bind d0 = v5 if v6
        v0:float32 = b0[d0 + 6*d1]
        b1[4*d0 + d1] = v0
""",
    ),
    "units of one thread": (
        PLANE,
        "grid 1 0",
        """
groups of 1 threads
grid d2 in 0:int64:units(24) step 1
  v0:uint32 = convert(d2)
  v1:uint32 = convert(extent(d0, 6))
  v2:uint32 = div(v0, v1)
  v3:int64 = convert(v2)
  bind d1 = v3
    v4:uint32 = rem(v0, v1)
    v5:int64 = convert(v4)
    bind d0 = v5
      v6:float32 = b0[d0 + 6*d1]
      b1[4*d0 + d1] = v6
""",
    ),
    "rows of a warp": (
        ROWS,
        "grid 32 0; share d1; combine 1",
        """
groups of 32 threads
grid d2 in 0:int64:units(3) step 1
  v0:uint32 = convert(d2)
  v1:int64 = convert(v0)
  bind d0 = v1
    group d1 in 0:int64:extent(d1, 1000) step 1 maybe empty
      carry r2: float64[1] = 0.0:float64 -> r3
      v4:float32 = b0[1000*d0 + d1]
      v5:float64 = convert(v4)
      v6:float64 = add(r2, v5)
      compute v6
      next r2 = v6
    v7:float64 = together[add<0.0:float64>; 0](r3)
    let r8:float64 = v7
    if first
      v9:float32 = convert(r8)
      b1[d0] = v9
""",
    ),
    "rows that are kept": (
        ROWS,
        "grid 32 0; share d1; keep d1; combine 1",
        """
groups of 32 threads
grid d2 in 0:int64:units(3) step 1
  v0:uint32 = convert(d2)
  v1:int64 = convert(v0)
  bind d0 = v1
    group d1 in 0:int64:extent(d1, 1000) step 1 masked maybe empty kept
      carry r2: float64[1] = 0.0:float64 -> r3
      v4:float32 = b0[1000*d0 + d1]
      v5:float64 = convert(v4)
      v6:float64 = select(tail, v5, 0.0:float64)
      v7:float64 = add(r2, v6)
      compute v7
      next r2 = v7
    v8:float64 = together[add<0.0:float64>; 0](r3)
    let r9:float64 = v8
    if first
      v10:float32 = convert(r9)
      b1[d0] = v10
""",
    ),
    "neighbouring points of rows that are kept": (
        ROWS,
        "grid 32 0; share d1; neighbours 4 1 d1; combine 1",
        """
groups of 32 threads
grid d2 in 0:int64:units(3) step 1
  v0:bool = aligned[0]()
  if v0
    v1:uint32 = convert(d2)
    v2:int64 = convert(v1)
    bind d0 = v2
      group d1 in 0:int64:extent(d1, 1000) step 4 masked maybe empty kept
        carry r3: float64[1] = 0.0:float64 -> r4
        v5:float32 = b0[1000*d0 + d1]
        v6:float64 = convert(v5)
        v7:float64 = select(tail, v6, 0.0:float64)
        v8:float64 = add(r3, v7)
        compute v8
        next r3 = v8
      v9:float64 = together[add<0.0:float64>; 0](r4)
      let r10:float64 = v9
      if first
        v11:float32 = convert(r10)
        b1[d0] = v11
  else
    v1:uint32 = convert(d2)
    v2:int64 = convert(v1)
    bind d0 = v2
      group d1 in 0:int64:extent(d1, 1000) step 4 maybe empty
        carry r3: float64[1] = 0.0:float64 -> r4
        v5:float32 = b0[1000*d0 + d1]
        v6:float64 = convert(v5)
        v12:float64 = add(r3, v6)
        compute v12
        next r3 = v12
      v9:float64 = together[add<0.0:float64>; 0](r4)
      let r10:float64 = v9
      if first
        v11:float32 = convert(r10)
        b1[d0] = v11
""",
    ),
    "points of whole accesses": (
        COPY,
        "points 4 d0; grid 1 0",
        """
groups of 1 threads
grid d2 in 0:int64:units(18) step 1
  v0:uint32 = convert(d2)
  v1:int64 = convert(v0)
  bind d1 = v1
    v2:bool = aligned[0; 1]()
    v3:int64 = mul(d1, points(4))
    v4:int64 = add(v3, points(4))
    v5:bool = le(v4, extent(d0, 70))
    v6:bool = and(v2, v5)
    if v6
      v7:bool = lt(v4, extent(d0, 70))
      v8:int64 = select(v7, v4, extent(d0, 70))
      wide d0 in v3:v8 step 1
        v9:float32 = b0[d0]
        v10:float32 = add(v9, v9)
        b1[d0] = v10
    else
      v7:bool = lt(v4, extent(d0, 70))
      v8:int64 = select(v7, v4, extent(d0, 70))
      serial d0 in v3:v8 step 1
        v9:float32 = b0[d0]
        v10:float32 = add(v9, v9)
        b1[d0] = v10
""",
    ),
    "owners of elements": (
        SCATTER,
        "own 4 32 d1 0 d0; grid 32 0",
        """
groups of 32 threads
grid d5 in 0:int64:units(8) step 1
  v0:uint32 = convert(d5)
  v1:uint32 = convert(chunks(2))
  v2:uint32 = div(v0, v1)
  v3:int64 = convert(v2)
  bind d2 = v3
    v4:uint32 = rem(v0, v1)
    v5:int64 = convert(v4)
    bind d3 = v5
      group d1 in 0:int64:extent(d1, 100) step 1 masked maybe empty
        v6:float32 = b0[d1]
        v7:int32 = convert(v6)
        v8:bool = lt(v7, 20:int32)
        v9:bool = and(tail, v8)
        v10:int32 = mul(v7, 40:int32)
        v11:uint32 = convert(v10)
        v12:uint32 = mul(v11, 2654435761:uint32)
        v13:uint32 = div(v12, 1073741824:uint32)
        v14:uint32 = convert(d2)
        v15:bool = eq(v13, v14)
        v16:bool = and(v9, v15)
        if v16 in turn
          v17:int64 = turn(d1)
          bind d4 = v17
            v18:int64 = mul(d3, grain(32))
            v19:int64 = add(v18, grain(32))
            v20:bool = lt(v19, extent(d0, 40))
            v21:int64 = select(v20, v19, extent(d0, 40))
            group d0 in v18:v21 step 1 maybe empty
              v22:float32 = b0[d4]
              v23:int32 = convert(v22)
              v24:int32 = mul(v23, 40:int32)
              v25:bool = lt(v23, 20:int32)
              compute v22, v24, v25
              b1[d0 + v24] add<0.0:float32>= v22 if v25 once along(d0)
""",
    ),
    "owners of single elements": (
        HISTOGRAM,
        "own 2 32 d0 0; grid 32 0",
        """
groups of 32 threads
grid d4 in 0:int64:units(2) step 1
  v0:uint32 = convert(d4)
  v1:int64 = convert(v0)
  bind d1 = v1
    group d0 in 0:int64:extent(d0, 100) step 1 masked maybe empty
      v2:float32 = b0[d0]
      v3:int32 = convert(v2)
      v4:bool = lt(v3, 20:int32)
      v5:bool = and(tail, v4)
      v6:uint32 = convert(v3)
      v7:uint32 = mul(v6, 2654435761:uint32)
      v8:uint32 = div(v7, 2147483648:uint32)
      v9:uint32 = convert(d1)
      v10:bool = eq(v8, v9)
      v11:bool = and(v5, v10)
      if v11 in turn
        v12:int64 = turn(d0)
        bind d3 = v12
          if first
            v13:float32 = b0[d3]
            v14:int32 = convert(v13)
            v15:bool = lt(v14, 20:int32)
            compute v13, v14, v15
            b1[0 + v14] add<0.0:float32>= v13 if v15 once along()
""",
    ),
    "running results of a part of a warp": (
        RUNNING,
        "grid 16 0; share d1",
        """
groups of 16 threads
grid d2 in 0:int64:units(3) step 1
  v0:uint32 = convert(d2)
  v1:int64 = convert(v0)
  bind d0 = v1
    group d1 in 0:int64:extent(d1, 20) step 1 masked maybe empty
      carry r2: float64[1] = 0.0:float64 -> r3
      v4:float32 = b0[20*d0 + d1]
      v5:float64 = convert(v4)
      running add<0.0:float64> v5 after r2 -> r6:float64 last r7:float64
      if tail
        v8:float32 = convert(r6)
        b1[20*d0 + d1] = v8
      next r2 = r7
""",
    ),
    "tiles that are read along another dim": (
        PLANE,
        "staged 8 4 1 d1 d0",
        """
groups of 8 threads
parallel d3 in 0:int64:extent(d3, 1) step 1
  parallel d4 in 0:int64:extent(d4, 2) step 1
    member d2 in 0:int64:8:int64 step 1
      serial d7 in 0:int64:2:int64 step 1
        v0:uint32 = convert(d2)
        v1:uint32 = convert(d7)
        v2:uint32 = mul(v1, 8:uint32)
        v3:uint32 = add(v0, v2)
        v4:uint32 = div(v3, 4:uint32)
        v5:int64 = convert(v4)
        bind d5 = v5
          v6:uint32 = rem(v3, 4:uint32)
          v7:int64 = convert(v6)
          bind d6 = v7
            v8:uint32 = convert(d3)
            v9:uint32 = mul(v8, 4:uint32)
            v10:uint32 = convert(d5)
            v11:uint32 = add(v9, v10)
            v12:int64 = convert(v11)
            bind d1 = v12
              v13:uint32 = convert(d4)
              v14:uint32 = mul(v13, 4:uint32)
              v15:uint32 = convert(d6)
              v16:uint32 = add(v14, v15)
              v17:int64 = convert(v16)
              bind d0 = v17
                v18:uint32 = convert(extent(d0, 6))
                v19:bool = lt(v16, v18)
                v20:float32 = b0[d0 + 6*d1] if v19
                b2[5*d5 + d6] = v20
      barrier
      serial d8 in 0:int64:2:int64 step 1
        v0:uint32 = convert(d2)
        v21:uint32 = convert(d8)
        v22:uint32 = mul(v21, 8:uint32)
        v23:uint32 = add(v0, v22)
        v24:uint32 = div(v23, 4:uint32)
        v25:int64 = convert(v24)
        bind d6 = v25
          v26:uint32 = rem(v23, 4:uint32)
          v27:int64 = convert(v26)
          bind d5 = v27
            v13:uint32 = convert(d4)
            v14:uint32 = mul(v13, 4:uint32)
            v15:uint32 = convert(d6)
            v16:uint32 = add(v14, v15)
            v18:uint32 = convert(extent(d0, 6))
            v19:bool = lt(v16, v18)
            if v19
              v8:uint32 = convert(d3)
              v9:uint32 = mul(v8, 4:uint32)
              v10:uint32 = convert(d5)
              v11:uint32 = add(v9, v10)
              v12:int64 = convert(v11)
              bind d1 = v12
                v17:int64 = convert(v16)
                bind d0 = v17
                  v28:float32 = b2[5*d5 + d6]
                  b1[4*d0 + d1] = v28
""",
    ),
    "tiles of sums of products": (
        PRODUCTS,
        "product 4 2 2 1; combine 1",
        """
groups of 8 threads
parallel d4 in 0:int64:extent(d4, 1) step 1
  parallel d6 in 0:int64:extent(d6, 1) step 1
    member d3 in 0:int64:8:int64 step 1
      v0:uint32 = convert(d3)
      v1:uint32 = div(v0, 4:uint32)
      v2:int64 = convert(v1)
      bind d10 = v2
        v3:uint32 = rem(v0, 4:uint32)
        v4:int64 = convert(v3)
        bind d11 = v4
          serial d8 in 0:int64:extent(d8, 1) step 1
            carry r5: float32[1] = 0.0:float32 -> r6
            carry r7: float32[1] = 0.0:float32 -> r8
            serial d22 in 0:int64:2:int64 step 1
              v9:uint32 = convert(d22)
              v10:uint32 = mul(v9, 8:uint32)
              v11:uint32 = add(v0, v10)
              v12:uint32 = div(v11, 4:uint32)
              v13:int64 = convert(v12)
              bind d5 = v13
                v14:uint32 = rem(v11, 4:uint32)
                v15:int64 = convert(v14)
                bind d9 = v15
                  v16:uint32 = convert(d4)
                  v17:uint32 = mul(v16, 4:uint32)
                  v18:uint32 = convert(d5)
                  v19:uint32 = add(v17, v18)
                  v20:int64 = convert(v19)
                  bind d0 = v20
                    v21:uint32 = convert(d8)
                    v22:uint32 = mul(v21, 4:uint32)
                    v23:uint32 = convert(d9)
                    v24:uint32 = add(v22, v23)
                    v25:int64 = convert(v24)
                    bind d2 = v25
                      v26:uint32 = convert(points_d5(3))
                      v27:bool = lt(v19, v26)
                      v28:float32 = b0[4*d0 + d2] if v27
                      v29:float32 = select(v27, v28, 0.0:float32)
                      b2[d5 + 5*d9] = v29
            serial d23 in 0:int64:2:int64 step 1
              v30:uint32 = convert(d23)
              v31:uint32 = mul(v30, 8:uint32)
              v32:uint32 = add(v0, v31)
              v33:uint32 = div(v32, 4:uint32)
              v34:int64 = convert(v33)
              bind d9 = v34
                v35:uint32 = rem(v32, 4:uint32)
                v36:int64 = convert(v35)
                bind d7 = v36
                  v37:uint32 = convert(d6)
                  v38:uint32 = mul(v37, 4:uint32)
                  v39:uint32 = convert(d7)
                  v40:uint32 = add(v38, v39)
                  v41:int64 = convert(v40)
                  bind d1 = v41
                    v21:uint32 = convert(d8)
                    v22:uint32 = mul(v21, 4:uint32)
                    v23:uint32 = convert(d9)
                    v24:uint32 = add(v22, v23)
                    v25:int64 = convert(v24)
                    bind d2 = v25
                      v42:float32 = b0[d1 + 4*d2]
                      b2[d7 + 4*d9 + 20] = v42
            barrier
            serial d9 in 0:int64:4:int64 step 1
              carry r43: float32[1] = r5 -> r44
              carry r45: float32[1] = r7 -> r46
              v47:float32 = b2[5*d9 + d10]
              v48:float32 = b2[4*d9 + d11 + 20]
              v49:float32 = fma(v47, v48, r43)
              compute v49
              v50:float32 = b2[5*d9 + d10 + 2]
              v51:float32 = fma(v50, v48, r45)
              compute v51
              next r43 = v49
              next r45 = v51
            barrier
            next r5 = r44
            next r7 = r46
          b2[4*d10 + d11] = r6
          b2[4*d10 + d11 + 8] = r8
          barrier
          serial d24 in 0:int64:2:int64 step 1
            v52:uint32 = convert(d24)
            v53:uint32 = mul(v52, 8:uint32)
            v54:uint32 = add(v0, v53)
            v55:uint32 = div(v54, 4:uint32)
            v56:int64 = convert(v55)
            bind d5 = v56
              v57:uint32 = rem(v54, 4:uint32)
              v58:int64 = convert(v57)
              bind d7 = v58
                v16:uint32 = convert(d4)
                v17:uint32 = mul(v16, 4:uint32)
                v18:uint32 = convert(d5)
                v19:uint32 = add(v17, v18)
                v26:uint32 = convert(points_d5(3))
                v27:bool = lt(v19, v26)
                if v27
                  v20:int64 = convert(v19)
                  bind d0 = v20
                    v37:uint32 = convert(d6)
                    v38:uint32 = mul(v37, 4:uint32)
                    v39:uint32 = convert(d7)
                    v40:uint32 = add(v38, v39)
                    v41:int64 = convert(v40)
                    bind d1 = v41
                      v59:float32 = b2[4*d5 + d7]
                      let r60:float32 = v59
                      b1[4*d0 + d1] = r60
""",
    ),
    "rows that a group sorts": (
        SORTS,
        "sort 8 2 4",
        """
groups of 8 threads
parallel d4 in 0:int64:extent(d4, 2) step 1
  member d3 in 0:int64:8:int64 step 1
    serial d21 in 0:int64:1:int64 step 1
      v0:uint32 = convert(d4)
      v1:uint32 = mul(v0, 2:uint32)
      v2:uint32 = convert(d3)
      v3:uint32 = convert(d21)
      v4:uint32 = mul(v3, 8:uint32)
      v5:uint32 = add(v2, v4)
      v6:uint32 = div(v5, 4:uint32)
      v7:uint32 = add(v1, v6)
      v8:uint32 = convert(extent(d0, 3))
      v9:uint32 = rem(v7, v8)
      v10:int64 = convert(v9)
      bind d0 = v10
        v11:uint32 = rem(v5, 4:uint32)
        v12:int64 = convert(v11)
        bind d1 = v12
          v13:uint32 = convert(rows(3))
          v14:bool = lt(v7, v13)
          v15:int32 = b0[4*d0 + d1] if v14
          v16:uint32 = mul(v6, 4:uint32)
          v17:uint32 = add(v16, v11)
          b3[0 + v17] = v15
          b4[0 + v17] = v11
    barrier
    serial d7 in 0:int64:2:int64 step 1
      carry r18: uint32[1] = 1:uint32 -> r19
      carry r20: uint32[1] = 0:uint32 -> r21
      serial d10 in 0:int64:1:int64 step 1
        v0:uint32 = convert(d4)
        v1:uint32 = mul(v0, 2:uint32)
        v2:uint32 = convert(d3)
        v22:uint32 = convert(d10)
        v23:uint32 = mul(v22, 8:uint32)
        v24:uint32 = add(v2, v23)
        v25:uint32 = div(v24, 4:uint32)
        v26:uint32 = add(v1, v25)
        v8:uint32 = convert(extent(d0, 3))
        v27:uint32 = rem(v26, v8)
        v28:int64 = convert(v27)
        bind d0 = v28
          v13:uint32 = convert(rows(3))
          v29:bool = lt(v26, v13)
          if v29
            v30:uint32 = mul(v25, 4:uint32)
            v31:uint32 = add(r20, v30)
            v32:uint32 = rem(v24, 4:uint32)
            v33:uint32 = add(v31, v32)
            v34:int32 = b3[0 + v33]
            v35:uint32 = b4[0 + v33]
            let r36:int32 = v34
            let r37:uint32 = v35
            v38:uint32 = shr(r18, 1:uint32)
            v39:uint32 = max(v38, 1:uint32)
            v40:int64 = add(d7, 1:int64)
            serial d17 in 0:int64:v40 step 1
              carry r41: uint32[1] = 0:uint32 -> r42
              carry r43: uint32[1] = v39 -> r44
              v45:uint32 = xor(v32, r18)
              v46:uint32 = sub(0:uint32, r18)
              v47:uint32 = and(v45, v46)
              v48:uint32 = add(r41, r43)
              v49:uint32 = sub(v48, 1:uint32)
              v50:uint32 = add(v47, v49)
              v51:uint32 = add(v31, v50)
              v52:int32 = b3[0 + v51]
              v53:bool = lt(v52, r36)
              v54:bool = eq(v52, r36)
              v55:int64 = convert(v50)
              v56:int64 = convert(v32)
              v57:bool = lt(v55, v56)
              v58:bool = and(v54, v57)
              v59:bool = or(v53, v58)
              v60:uint32 = select(v59, v48, r41)
              next r41 = v60
              v61:uint32 = shr(r43, 1:uint32)
              v62:uint32 = max(v61, 1:uint32)
              next r43 = v62
            v63:uint32 = sub(8:uint32, r20)
            v64:uint32 = add(v63, v30)
            v65:uint32 = and(v32, r18)
            v66:uint32 = sub(v32, v65)
            v67:uint32 = add(v66, r42)
            v68:uint32 = add(v64, v67)
            b3[0 + v68] = r36
            b4[0 + v68] = r37
      barrier
      v69:uint32 = add(r18, r18)
      next r18 = v69
      v63:uint32 = sub(8:uint32, r20)
      next r20 = v63
    serial d18 in 0:int64:1:int64 step 1
      v0:uint32 = convert(d4)
      v1:uint32 = mul(v0, 2:uint32)
      v2:uint32 = convert(d3)
      v70:uint32 = convert(d18)
      v71:uint32 = mul(v70, 8:uint32)
      v72:uint32 = add(v2, v71)
      v73:uint32 = div(v72, 4:uint32)
      v74:uint32 = add(v1, v73)
      v8:uint32 = convert(extent(d0, 3))
      v75:uint32 = rem(v74, v8)
      v76:int64 = convert(v75)
      bind d0 = v76
        v13:uint32 = convert(rows(3))
        v77:bool = lt(v74, v13)
        if v77
          v78:uint32 = mul(v73, 4:uint32)
          v79:uint32 = add(r21, v78)
          v80:uint32 = rem(v72, 4:uint32)
          v81:uint32 = add(v79, v80)
          v82:int32 = b3[0 + v81]
          v83:uint32 = b4[0 + v81]
          let r84:int32 = v82
          let r85:uint32 = v83
          v86:int64 = convert(r85)
          bind d1 = v86
            v87:int64 = convert(v80)
            b1[4*d0 + v87] = r84
            v88:uint32 = convert(d1)
            b2[4*d0 + v87] = v88
""",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_rewrite_makes(name: str) -> None:
    before, schedule, want = CASES[name]
    rewrites = [parse_rewrite(x) for x in schedule.split("; ")]
    assert "; ".join(map(str, rewrites)) == schedule
    after = rewritten(parse(before), rewrites, look=verify)
    lines = text(after).splitlines()
    facts = next(n for n, line in enumerate(lines) if line.startswith("  units"))
    found = [x for x in lines[facts:] if not x.startswith(("  units", "  lanes", "  tiles"))]
    assert "\n".join([x[2:] for x in found]) == want.strip("\n")


def test_every_rewrite_has_a_case() -> None:
    done = {x.split()[0] for _, schedule, _ in CASES.values() for x in schedule.split("; ")}
    own = {name for name, cls in KINDS.items() if cls.__module__.startswith("functrax.")}
    assert own - done == {"tile"}  # contractions: tests/backends/test_contraction_kernels.py


def test_units_and_lanes_are_facts_of_the_tree() -> None:
    after = rewritten(
        parse(MAP), [parse_rewrite("vectorize d0 16"), parse_rewrite("parallelize d0 32")]
    )
    assert (after.vector, after.lanes, after.units) == (0, 16, 4)


def test_what_is_no_vector_loop_is_left_as_it_is() -> None:
    tree = parse(MAP)
    for rewrite in ("peel d0", "interleave d0 4", "align d0 b1", "narrow d0 8"):
        assert text(parse_rewrite(rewrite).apply(tree)) == text(tree)
