"""Squares of elements are transposed by shuffles, for all numbers of lanes and sizes."""

from __future__ import annotations

import re

import pytest

from functrax.backends.llvm.tiles import _BLOCK, _exchanges


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32, 64])
def test_the_exchanges_of_a_square_transpose_it(lanes: int, size: int) -> None:
    block = max(1, min(lanes, _BLOCK // size))
    vectors = [[(row, column) for column in range(lanes)] for row in range(lanes)]
    exchanges, order = _exchanges(lanes, block)
    assert len(exchanges) == lanes // 2 * (lanes.bit_length() - 1)  # the fewest there can be
    for first, second, *masks in exchanges:
        both = vectors[first] + vectors[second]
        for place, mask in zip((first, second), masks, strict=True):
            vectors[place] = [both[int(m)] for m in re.findall(r"i32 (\d+)", mask)]
    columns = [[(row, column) for row in range(lanes)] for column in range(lanes)]
    assert [vectors[k] for k in order] == columns
