"""XLA's generators of random bits: words that JAX 0.10.2 gave on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
from functrax import lax
from functrax.core.errors.typed import DTypeError, ShapeError
from functrax.core.options.contexts import enable_x64

STATE = np.array([1, 2, 3, 4], np.uint32)
THREE_FRY, PHILOX = lax.RandomAlgorithm.RNG_THREE_FRY, lax.RandomAlgorithm.RNG_PHILOX
_P = (512747620, 1298009047, 1267190206, 761827841, 1383286907, 1639995030)
_T = (1576285164, 2249660814, 740599976, 2425682526, 2436392515, 1497962777)

#: Algorithm, shape, where the counter ends, the bits.
RECORDED: list[tuple[Any, Any, int, Any]] = [
    (PHILOX, (), 4, _P[0]),
    (PHILOX, (6,), 5, _P),
    (PHILOX, (2, 3), 5, (_P[:3], _P[3:])),
    (THREE_FRY, (), 4, _T[0]),
    (THREE_FRY, (6,), 6, _T),
    (THREE_FRY, (4, 1), 5, tuple((t,) for t in _T[:4])),
    (THREE_FRY, (3, 4), 9, (_T[:4], (*_T[4:], 1335360347, 2260235687),
                            (3981753173, 3953550934, 3812192618, 2023144656))),
    (THREE_FRY, (2, 4), 7, ((_T[0], _T[2], _T[4], 1335360347),
                            (_T[1], _T[3], _T[5], 2260235687))),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(RECORDED)))
def test_words(case: int) -> None:
    algorithm, shape, end, wanted = RECORDED[case]
    for run in (lax.rng_bit_generator, functrax.jit(lax.rng_bit_generator, static_argnums=(1, 3))):
        state, bits = run(STATE, shape, algorithm=algorithm)
        assert state.tolist() == [1, 2, end, 4] and bits.dtype == np.uint32
        np.testing.assert_array_equal(bits, np.array(wanted, np.uint32))


def test_default_and_narrow_words() -> None:
    for dtype in ("uint8", "uint16"):
        bits = lax.rng_bit_generator(STATE, (6,), dtype)[1]
        np.testing.assert_array_equal(bits, np.array(_P, np.uint32).astype(dtype))


def test_wide_words_and_states() -> None:
    wide = np.array([1 | 2 << 32, 3 | 4 << 32], np.uint64)
    with enable_x64():
        for algorithm, words in ((PHILOX, _P), (THREE_FRY, _T)):
            state, bits = lax.rng_bit_generator(wide, (3,), "uint64", algorithm)
            low, high = np.array(words, np.uint64).reshape(3, 2).T
            np.testing.assert_array_equal(bits, low | high << np.uint64(32))
            assert state.tolist() == [wide[0], wide[1] + (2 if algorithm is PHILOX else 3)]


def test_carry() -> None:
    state, bits = lax.rng_bit_generator(np.full(4, 0xFFFFFFFF, np.uint32), (5,))
    assert state.tolist() == [0xFFFFFFFF, 0xFFFFFFFF, 1, 0]
    assert bits.tolist() == [1083123565, 1103641358, 2718681030, 1834242557, 1923381001]


def test_no_bits() -> None:
    state, bits = lax.rng_bit_generator(STATE, (0,))
    assert state.tolist() == STATE.tolist() and bits.shape == (0,)


def test_vmap_goes_on_from_the_first_state() -> None:
    states = np.stack([STATE, STATE + 4])
    state, bits = functrax.vmap(lambda s: lax.rng_bit_generator(s, (3,)))(states)
    assert state.tolist() == [[1, 2, 5, 4], [5, 6, 7, 8]]
    np.testing.assert_array_equal(bits, np.array(_P, np.uint32).reshape(2, 3))
    again = functrax.vmap(functrax.vmap(lambda s: lax.rng_bit_generator(s, (3,))))(states[None])
    np.testing.assert_array_equal(again[1][0], bits)


def test_errors() -> None:
    with pytest.raises(DTypeError, match="unsupported dtype int32"):
        lax.rng_bit_generator(STATE, (3,), "int32")
    for wrong in (STATE[:2], STATE.astype(np.float32)):
        with pytest.raises(ShapeError, match="no state of a generator"):
            lax.rng_bit_generator(wrong, (3,))
