"""threefry-2x32 against Random123's known answers and values recorded from JAX."""

from __future__ import annotations

import numpy as np
import pytest

from functrax.core.errors.typed import DTypeError
from functrax.core.prims.threefry_values import threefry2x32

# (key, counter, cipher text): the first three are Random123's known answers for 20 rounds.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ((1, 2), (3, 4), (0x5DF433EC, 0x8617198E)),
    ((42, 0), (7, 0x80000000), (0x217E06AA, 0xAAA1A47A)),
]


def test_known_answers_elementwise() -> None:
    keys, counters, answers = (np.array(column, np.uint32).T for column in zip(*KNOWN, strict=True))
    y0, y1 = threefry2x32(keys[0], keys[1], counters[0], counters[1])
    np.testing.assert_array_equal(np.stack([y0, y1]), answers)


@pytest.mark.parametrize(("key", "counter", "answer"), KNOWN)
def test_known_answers_at_rank_zero(
    key: tuple[int, int], counter: tuple[int, int], answer: tuple[int, int]
) -> None:
    words = threefry2x32(*map(np.uint32, key), *map(np.uint32, counter))
    assert tuple(int(word) for word in words) == answer
    assert all(isinstance(word, np.ndarray) and word.shape == () for word in words)


def test_a_key_broadcasts_over_counters_of_any_shape() -> None:
    key = np.uint32(1), np.uint32(2)
    counters = np.arange(6, dtype=np.uint32).reshape(2, 3)
    y0, y1 = threefry2x32(*key, counters, counters + np.uint32(1))
    assert (int(y0[1, 0]), int(y1[1, 0])) == (0x5DF433EC, 0x8617198E)
    empty = threefry2x32(*key, counters[:0], counters[:0])
    assert [word.shape for word in empty] == [(0, 3), (0, 3)]
    assert y0.dtype == y1.dtype == np.uint32


def test_one_counter_bit_changes_half_of_the_output() -> None:
    zero = np.zeros(32, np.uint32)
    y0, y1 = threefry2x32(zero, zero, np.uint32(1) << np.arange(32, dtype=np.uint32), zero)
    flipped = np.unpackbits(np.stack([y0 ^ np.uint32(KNOWN[0][2][0]), y1]).view(np.uint8))
    assert 0.45 < flipped.mean() < 0.55


def test_other_dtypes_are_refused() -> None:
    word = np.uint32(0)
    with pytest.raises(DTypeError, match=r"needs uint32 words[\s\S]*int64"):
        threefry2x32(word, word, word, np.int64(1))
