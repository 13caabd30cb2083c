"""Rewrites, text by text: the threads of a GPU, their warps and their groups."""

from __future__ import annotations

import pytest

from tests.backends.loops.rewriting import HEAD, PLANE, ROWS, check

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
    check(CASES[name])
