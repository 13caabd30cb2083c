"""Rewrites, text by text: of loops over elements.

Each case says one thing that a rewrite does; sums, tiles and groups of threads have files of their
own.  That what it makes computes the same is checked on kernels of every form in ``test_trees.py``.
"""

from __future__ import annotations

import pytest

from functrax.backends.loops.parse import parse
from functrax.backends.loops.rewrites.apply import parse_rewrite, rewritten
from functrax.backends.loops.rewrites.rewrite import KINDS
from functrax.backends.loops.text import text
from tests.backends.loops import (
    test_rewrites_of_groups as groups,
    test_rewrites_of_sums as sums,
    test_rewrites_of_tiles as tiles,
)
from tests.backends.loops.rewriting import HEAD, check

MAP = (
    HEAD.format(extents="100")
    + """
  parallel d0 in 0:int64:extent(d0, 100) step 1
    v0:float32 = b0[d0]
    v1:float32 = exp(v0)
    b1[d0] = v1
"""
)
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
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_rewrite_makes(name: str) -> None:
    check(CASES[name])


def test_every_rewrite_has_a_case() -> None:
    cases = [c for m in (CASES, sums.CASES, tiles.CASES, groups.CASES) for c in m.values()]
    done = {x.split()[0] for _, schedule, _ in cases for x in schedule.split("; ")}
    own = {name for name, cls in KINDS.items() if cls.__module__.startswith("functrax.")}
    # Contractions: tests/backends/test_contraction_kernels.py; digits: test_digits.py.
    assert own - done == {"tile", "count", "radix"}


def test_units_and_lanes_are_facts_of_the_tree() -> None:
    after = rewritten(
        parse(MAP), [parse_rewrite("vectorize d0 16"), parse_rewrite("parallelize d0 32")]
    )
    assert (after.vector, after.lanes, after.units) == (0, 16, 4)


def test_what_is_no_vector_loop_is_left_as_it_is() -> None:
    tree = parse(MAP)
    for rewrite in ("peel d0", "interleave d0 4", "align d0 b1", "narrow d0 8"):
        assert text(parse_rewrite(rewrite).apply(tree)) == text(tree)
