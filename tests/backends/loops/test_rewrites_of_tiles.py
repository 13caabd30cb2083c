"""Rewrites, text by text: the order of loops, blocks, squares, and tiles of products."""

from __future__ import annotations

import pytest

from tests.backends.loops.rewriting import HEAD, PLANE, check

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
CASES = {
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
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_rewrite_makes(name: str) -> None:
    check(CASES[name])
