"""Trees that rewrites are tried on, and how what a rewrite makes is compared with what it is to be.

A case is a tree, a schedule, and the tree that it makes.
"""

from __future__ import annotations

import importlib

from functrax.backends.loops.parse import parse
from functrax.backends.loops.rewrites.apply import parse_rewrite, rewritten
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


def check(case: tuple[str, str, str]) -> None:
    """Whether a schedule reads back as it is written, and makes the tree of a case."""
    before, schedule, want = case
    rewrites = [parse_rewrite(x) for x in schedule.split("; ")]
    assert "; ".join(map(str, rewrites)) == schedule
    after = rewritten(parse(before), rewrites, look=verify)
    lines = text(after).splitlines()
    facts = next(n for n, line in enumerate(lines) if line.startswith("  units"))
    found = [x for x in lines[facts:] if not x.startswith(("  units", "  lanes", "  tiles"))]
    assert "\n".join([x[2:] for x in found]) == want.strip("\n")
