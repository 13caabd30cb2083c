"""Rewrites, text by text: of loops that carry sums."""

from __future__ import annotations

import pytest

from tests.backends.loops.rewriting import ROWS, check

CASES = {
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
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_rewrite_makes(name: str) -> None:
    check(CASES[name])
