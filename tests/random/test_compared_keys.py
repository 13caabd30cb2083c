"""Functions that compare arrays of typed keys."""

import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax.core.errors.typed import HandleError

KEYS = fx.random.split(fx.random.key(0), 4)
WORDS = np.asarray(fx.random.key_data(KEYS))


@pytest.mark.parametrize("run", [lambda f: f, fx.jit], ids=["eager", "jit"])
def test_keys_are_equal_where_all_of_their_words_are(run):
    def compared(keys):
        other = jnp.where(jnp.array([True, False, True, False]), keys, keys[::-1])
        return jnp.equal(keys, other), jnp.not_equal(keys, other), jnp.equal(keys, keys[2])

    same, different, third = run(compared)(KEYS)
    assert np.asarray(same).tolist() == [True, False, True, False]
    assert np.asarray(different).tolist() == [False, True, False, True]
    assert np.asarray(third).tolist() == [False, False, True, False]


def test_one_word_in_common_is_not_enough():
    words = WORDS.copy()
    words[:, 1] += 1
    other = fx.random.wrap_key_data(words)
    assert not np.asarray(jnp.equal(KEYS, other)).any()
    assert np.asarray(jnp.not_equal(KEYS, other)).all()
    assert not bool(jnp.array_equal(KEYS, other))


def test_whole_arrays():
    for equal in (jnp.array_equal, jnp.array_equiv):
        assert bool(equal(KEYS, KEYS))
        assert not bool(equal(KEYS, KEYS[::-1]))
    assert not bool(jnp.array_equal(KEYS, KEYS[:2]))
    assert bool(fx.jit(lambda a: jnp.array_equal(a, a))(KEYS))


@pytest.mark.parametrize("function", [jnp.add, jnp.less, jnp.equal])
def test_what_computes_with_words_or_compares_with_numbers_is_refused(function):
    other = KEYS if function is not jnp.equal else 3
    with pytest.raises(HandleError, match="not arrays of numbers"):
        function(KEYS, other)


def test_nothing_of_keys_is_nan():
    assert bool(jnp.array_equal(KEYS, KEYS, equal_nan=True))
    assert not bool(jnp.array_equal(KEYS, KEYS[::-1], equal_nan=True))
    assert not np.asarray(jnp.isnan(KEYS)).any()


@pytest.mark.parametrize("run", [lambda f: f, fx.jit], ids=["eager", "jit"])
def test_the_dtype_of_keys_leaves_them_as_they_are(run):
    for f in (jnp.astype, fx.lax.convert_element_type, jnp.asarray):
        kept = run(lambda keys, f=f: f(keys, KEYS.dtype))(KEYS)
        np.testing.assert_array_equal(fx.random.key_data(kept), WORDS)
    with pytest.raises(HandleError):
        jnp.astype(KEYS, np.float32)
    with pytest.raises(HandleError, match="not one that arrays can have"):
        jnp.astype(jnp.ones(2), KEYS.dtype)
    with pytest.raises(HandleError):
        jnp.astype(KEYS, fx.random.key(0, impl="rbg").dtype)


def test_arrays_of_the_same_type():
    for f, word in ((jnp.zeros_like, 0), (jnp.ones_like, 1)):
        made = f(KEYS)
        assert made.dtype == KEYS.dtype and made.shape == KEYS.shape
        assert (np.asarray(fx.random.key_data(made)) == word).all()
