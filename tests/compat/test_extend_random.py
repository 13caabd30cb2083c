"""``jax.extend.random``: words that JAX 0.10.2 gave."""

from __future__ import annotations

import numpy as np
import pytest


def test_keys_and_words() -> None:
    import jax
    from jax.extend import random as extend

    pair = np.array([1, 2], np.uint32)
    words = extend.threefry_2x32(pair, np.arange(3, dtype=np.uint32))
    assert words.tolist() == [4128513521, 2271449651, 2345921600]
    key = extend.seed_with_impl(extend.rbg_prng_impl, 7)
    assert jax.random.key_impl(key) == "rbg"
    keys = extend.random_seed(np.arange(6).reshape(2, 3), extend.threefry_prng_impl)
    assert keys.shape == (2, 3)
    assert jax.random.key_data(keys)[1, 2].tolist() == [0, 5]
    with pytest.raises(TypeError, match="requires uint32"):
        extend.threefry_2x32(pair, np.arange(3))
