"""Keys of ``rbg`` and ``unsafe_rbg``: words and samples that JAX 0.10.2 gave on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import random
from functrax.core.errors.typed import ShapeError, UnavailableError

BOTH = ("rbg", "unsafe_rbg")


def words(key: Any) -> Any:
    return np.asarray(random.key_data(key)).ravel().tolist()


SPLIT = {
    "rbg": [3625411723, 1954958720, 3625411723, 1954958720],
    "unsafe_rbg": [3109483441, 1367189518, 2515982561, 3310080778],
}
FOLDED = {
    "rbg": [3583082021, 1947592014, 3583082021, 1947592014],
    "unsafe_rbg": [3810769997, 2355009018, 1837142617, 748193193],
}


@pytest.mark.parametrize("impl", BOTH)
def test_new_keys(impl: str) -> None:
    key = random.key(7, impl=impl)
    assert words(key) == [0, 7, 0, 7] and key.shape == () and key.itemsize == 16
    assert words(random.split(key, 3)[0]) == SPLIT[impl]
    assert random.split(key, (2, 3)).shape == (2, 3)
    assert words(random.fold_in(key, 5)) == FOLDED[impl]
    mapped = functrax.vmap(random.fold_in, (None, 0))(key, jnp.arange(5, 7))
    assert words(mapped[0]) == FOLDED[impl]


@pytest.mark.parametrize("impl", BOTH)
def test_samples(impl: str) -> None:
    # The same key makes the same bits for both.
    key = random.key(7, impl=impl)
    uniform = np.array(
        [
            0.7239829301834106,
            0.31832361221313477,
            0.5857977867126465,
            0.7706881761550903,
            0.6576310396194458,
        ],
        np.float32,
    )
    for run in (lambda f: f, functrax.jit):
        np.testing.assert_array_equal(run(lambda k: random.uniform(k, (5,)))(key), uniform)
        assert run(lambda k: random.bits(k, (3,), "uint8"))(key).tolist() == [177, 14, 225]
    normal = [[0.594714879989624, -0.47239163517951965], [0.2167484611272812, 0.7411152124404907]]
    np.testing.assert_allclose(random.normal(key, (2, 2)), normal, rtol=1e-6)


def test_samples_by_new_keys() -> None:
    key = random.key(7, impl="unsafe_rbg")
    assert random.randint(key, (4,), 0, 100).tolist() == [23, 44, 75, 29]
    gammas = {
        "rbg": [1.4841989278793335, 1.794432282447815, 1.1304495334625244],
        "unsafe_rbg": [1.0909537076950073, 3.3276710510253906, 1.6861329078674316],
    }
    for impl, wanted in gammas.items():
        np.testing.assert_allclose(
            random.gamma(random.key(7, impl=impl), 2.5, (3,)), wanted, rtol=1e-5
        )
        with pytest.raises(UnavailableError, match="poisson is only implemented"):
            random.poisson(random.key(7, impl=impl), 4.0, (3,))


@pytest.mark.parametrize("impl", BOTH)
def test_vmap(impl: str) -> None:
    keys = random.split(random.key(73, impl=impl), 3)
    drawn = functrax.vmap(lambda k: random.uniform(k, (2,)))(keys)
    np.testing.assert_array_equal(drawn, random.uniform(keys[0], (3, 2)))
    split = functrax.vmap(random.split)(keys)
    each = [words(random.split(k)) for k in keys]
    wanted = (
        [w for row in each for w in row] if impl == "rbg" else words(random.split(keys[0], (3, 2)))
    )
    assert split.shape == (3, 2) and words(split) == wanted


@pytest.mark.parametrize("impl", BOTH)
def test_types_and_raw_keys(impl: str) -> None:
    key = random.key(3, impl=impl)
    assert random.key_impl(key) == impl
    assert key.dtype == random.key_dtype(impl) != random.key_dtype()
    assert key.dtype.name == {"rbg": "key<rbg>", "unsafe_rbg": "key<urbg>"}[impl]
    again = random.wrap_key_data(random.key_data(key), impl=impl)
    assert type(again) is type(key) and bool(again == key)
    assert random.wrap_key_data(random.key_data(key), dtype=key.dtype).dtype == key.dtype
    raw = random.PRNGKey(3, impl=impl)
    assert raw.tolist() == [0, 3, 0, 3]
    with pytest.raises(ShapeError, match="a key has two words"):
        random.uniform(raw)
    with functrax.default_prng_impl(impl):
        assert random.PRNGKey(3).tolist() == [0, 3, 0, 3] and random.key_impl(raw) == impl
        assert random.key(3).dtype == key.dtype
        np.testing.assert_array_equal(random.uniform(raw, (2,)), random.uniform(key, (2,)))
        assert words(random.split(key)) == random.split(raw).ravel().tolist()
        with pytest.raises(ShapeError, match=f"a key of {impl} has four words"):
            random.uniform(np.zeros(2, np.uint32))


def test_keys_of_two_generators_are_not_equal() -> None:
    assert random.key(3, impl="rbg") != random.key(3, impl="unsafe_rbg")


def test_loops_and_containers() -> None:
    def walk(key: Any) -> Any:
        def step(key: Any, _: Any) -> Any:
            key, once = random.split(key)
            return key, random.uniform(once)

        return functrax.lax.scan(step, key, length=3)

    key = random.key(1, impl="rbg")
    last, drawn = functrax.jit(walk)(key)
    by_hand = []
    for _ in range(3):
        key, once = random.split(key)
        by_hand.append(float(random.uniform(once)))
    np.testing.assert_array_equal(drawn, np.array(by_hand, np.float32))
    assert words(last) == words(key) and last.dtype == key.dtype
    assert jnp.stack([key, key]).dtype == key.dtype
    assert random.permutation(key, random.split(key, 4)).dtype == key.dtype


def test_shapes_of_large_samples() -> None:
    key = random.key(0, impl="rbg")
    shape = functrax.eval_shape(lambda k: random.uniform(k, (1 << 35,)), key)
    assert shape.shape == (1 << 35,)
