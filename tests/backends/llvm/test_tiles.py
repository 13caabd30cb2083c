"""Squares of elements are transposed by shuffles, for all numbers of lanes and sizes."""

from __future__ import annotations

import re

import pytest

from functrax.backends.llvm.tile_rows import _exchanges


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32, 64])
def test_the_exchanges_of_a_square_transpose_it(lanes: int, size: int) -> None:
    vectors = [[(row, column) for column in range(lanes)] for row in range(lanes)]
    exchanges, order = _exchanges(lanes, size, 16)
    assert len(exchanges) == lanes // 2 * (lanes.bit_length() - 1)  # the fewest there can be
    for first, second, together, masks in exchanges:
        assert size * together <= 8, "no shuffle moves longer elements"
        both = vectors[first] + vectors[second]
        for place, mask in zip((first, second), masks, strict=True):
            length, *elements = map(int, re.findall(r"(?:<|i32 )(\d+)", mask))
            assert length == len(elements) == lanes // together
            vectors[place] = [both[m * together + k] for m in elements for k in range(together)]
    columns = [[(row, column) for row in range(lanes)] for column in range(lanes)]
    assert [vectors[k] for k in order] == columns
