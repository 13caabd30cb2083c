"""Keys: their words, their behaviour as arrays and as pytrees, and what is refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import functrax
from functrax import numpy as jnp, random, tree_util
from functrax.core.errors.typed import (
    ArgumentError,
    DTypeError,
    FunctraxError,
    ShapeError,
    UnavailableError,
)
from functrax.core.options.config import Override

KEY = random.key(0)


def words(key):
    return np.asarray(random.key_data(key)).tolist()


def test_typed_and_raw_keys_have_the_same_words():
    raw = random.PRNGKey(12)
    assert raw.dtype == np.uint32 and raw.shape == (2,)
    assert words(random.key(12)) == words(raw) == [0, 12]
    assert words(random.split(random.key(12), 3)) == np.asarray(random.split(raw, 3)).tolist()
    assert words(random.fold_in(random.key(12), 3)) == words(random.fold_in(raw, 3))
    assert isinstance(random.split(random.key(0)), random.KeyArray)
    assert not isinstance(random.split(raw), random.KeyArray)


def test_wrapping_words_is_the_inverse_of_taking_them():
    keys = random.split(KEY, (2, 3))
    again = random.wrap_key_data(random.key_data(keys))
    assert again.shape == (2, 3) and bool((keys == again).all())
    assert random.key_impl(keys) == random.key_impl(random.key_data(keys)) == "threefry2x32"
    assert random.clone(keys) is keys


def test_keys_from_numpy_words():
    assert words(random.split(np.zeros(2, np.uint32))) == words(random.split(KEY))


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (np.int8(-3), [0, 2**32 - 3]),
        (np.uint32(2**32 - 1), [0, 2**32 - 1]),
        (np.array(5, np.uint8), [0, 5]),
        (True, [0, 1]),
    ],
)
def test_seeds_of_other_types(seed, expected):
    assert words(random.key(seed)) == expected


def test_traced_seeds():
    seeds = np.arange(3, dtype=np.int32)
    assert words(functrax.vmap(random.key)(seeds)) == [[0, 0], [0, 1], [0, 2]]
    assert words(functrax.jit(random.key)(np.int32(-1))) == [0, 2**32 - 1]
    with functrax.enable_x64(True):
        assert words(functrax.jit(random.key)(np.int64(-(2**33)))) == words(random.key(-(2**33)))


def test_splitting_is_folding_in():
    keys = random.split(KEY, 5)
    assert words(keys[3]) == words(random.fold_in(KEY, 3))
    assert words(random.split(KEY, 9)[:5]) == words(keys)
    assert words(random.split(KEY, (2, 3)).ravel()) == words(random.split(KEY, 6))


def test_key_arrays_are_indexed_by_key():
    keys = random.split(KEY, (2, 3))
    data = np.asarray(random.key_data(keys))
    for index in [
        0,
        (1, 2),
        slice(1, None),
        (..., 1),
        (slice(None), 0),
        None,
        (0, np.array([2, 0])),
    ]:
        full = index if isinstance(index, tuple) else (index,)
        full = (*full, slice(None)) if Ellipsis in [e for e in full if e is ...] else full
        assert words(keys[index]) == data[full].tolist()
    assert [words(k) for k in keys[0]] == data[0].tolist()
    first, second = keys
    assert first.shape == second.shape == (3,)
    assert len(keys) == 2 and keys.size == 6 and keys.ndim == 2 and keys.nbytes == 48


def test_key_arrays_change_shape():
    keys = random.split(KEY, (2, 3))
    data = np.asarray(random.key_data(keys))
    assert words(keys.T) == data.transpose(1, 0, 2).tolist()
    assert words(keys.transpose(1, 0)) == words(keys.T)
    assert words(keys.reshape(3, -1)) == data.reshape(3, 2, 2).tolist()
    assert words(keys.reshape((6,))) == data.reshape(6, 2).tolist()
    assert keys.reshape(1, 6).squeeze().shape == keys.reshape(6, 1).squeeze(-1).shape == (6,)


def test_keys_compare_by_element():
    a, b = random.split(KEY, 3), random.split(KEY, 3)
    assert np.asarray(a == b).tolist() == [True, True, True]
    assert np.asarray(a != a[::-1]).tolist() == [True, False, True]
    assert (a == 3) is False
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)
    with pytest.raises(TypeError, match="truth value"):
        bool(KEY)


def test_keys_print_as_overlays():
    assert repr(KEY) == "Array((), dtype=key<fry>) overlaying:\n[0 0]"
    assert repr(KEY.dtype) == "key<fry>" and KEY.dtype == random.key_dtype()
    traced = []
    functrax.jit(lambda k: traced.append(repr(k)) or k)(KEY)
    assert traced == ["Traced<key<fry>[]>with<staging>"]


def test_keys_are_copied_and_pickled():
    assert words(pickle.loads(pickle.dumps(random.key(9)))) == [0, 9]
    assert words(copy.deepcopy(random.key(9))) == [0, 9]


def test_keys_are_arrays_and_leaves():
    assert isinstance(KEY, functrax.Array) and not KEY.weak_type
    assert KEY.block_until_ready() is KEY and KEY.is_ready() and not KEY.is_deleted()
    gone = random.key(5)
    gone.delete()
    assert gone.is_deleted()
    leaves, tree = tree_util.tree_flatten({"key": KEY})
    assert leaves[0] is KEY and tree == tree_util.tree_structure({"key": 0})
    assert tree_util.tree_unflatten(tree, leaves)["key"] is KEY
    ((path, leaf),) = tree_util.tree_leaves_with_path({"key": KEY})
    assert leaf is KEY and tree_util.keystr(path) == "['key']"
    assert tree_util.tree_leaves([KEY, 1], is_leaf=lambda x: x == 1) == [KEY, 1]
    assert tree_util.tree_map(lambda x, y: (x, y), [KEY], [3]) == [(KEY, 3)]
    assert tree_util.tree_map_with_path(lambda p, x: x.shape, (random.split(KEY),)) == ((2,),)
    assert tree_util.tree_broadcast(5, {"a": KEY, "b": KEY}) == {"a": 5, "b": 5}
    assert tree_util.tree_reduce(lambda n, x: n + x.size, random.split(KEY, 3), 0) == 3
    assert tree_util.all_leaves([KEY]) and tree_util.tree_all({"a": True})
    moved = tree_util.tree_transpose(tree, tree_util.tree_structure((0, 0)), {"key": (KEY, 1)})
    assert moved == ({"key": KEY}, {"key": 1})


def test_functions_that_move_elements_take_keys():
    keys = random.split(KEY, 4)
    data = np.asarray(random.key_data(keys))
    mask = np.array([True, False, True, False])

    def same(found, expected):
        assert isinstance(found, random.KeyArray) and words(found) == expected.tolist()

    where = np.where(mask[:, None], data, data[::-1])
    for transform in (lambda f: f, functrax.jit, lambda f: functrax.vmap(f, axis_size=4)):
        same(transform(jnp.where)(mask, keys, keys[::-1]), where)
    same(jnp.stack([KEY, keys[0]]), np.stack([[0, 0], data[0]]))
    same(jnp.concatenate([keys, keys]), np.concatenate([data, data]))
    same(jnp.reshape(keys, (2, 2)), data.reshape(2, 2, 2))
    same(jnp.broadcast_to(KEY, (3,)), np.zeros((3, 2), np.uint32))
    same(jnp.take(keys, np.array([2, 0]), axis=0), data[[2, 0]])
    same(functrax.lax.dynamic_slice(keys, (1,), (2,)), data[1:3])
    same(functrax.lax.dynamic_index_in_dim(keys, 2, keepdims=False), data[2])
    same(functrax.lax.select(mask, keys, keys[::-1]), where)
    same(keys.reshape(2, 2).swapaxes(0, 1), data.reshape(2, 2, 2).swapaxes(0, 1))
    same(keys.take(np.array([3, 3])), data[[3, 3]])
    same(keys.repeat(2), np.repeat(data, 2, axis=0))
    same(keys.at[1].set(KEY), np.concatenate([data[:1], [[0, 0]], data[2:]]))
    same(keys.at[np.array([1, 2])].get(), data[1:3])
    assert jnp.shape(keys) == (4,) and jnp.ndim(keys) == 1 and jnp.size(keys) == 4


@pytest.mark.parametrize(
    "call",
    [
        lambda keys: keys + 1,
        lambda keys: jnp.add(keys, keys),
        lambda keys: functrax.lax.add(keys, keys),
        lambda keys: jnp.sin(keys),
        lambda keys: jnp.sort(keys),
        lambda keys: keys.sum(),
        lambda keys: keys < keys,
        lambda keys: jnp.where(np.ones(4, bool), keys, 0),
        lambda keys: jnp.cumsum(keys),
        lambda keys: functrax.jit(jnp.cos)(keys),
    ],
)
def test_functions_of_numbers_refuse_keys(call):
    with pytest.raises(DTypeError, match="key<fry>") as caught:
        call(random.split(KEY, 4))
    assert "key_data" in caught.value.fix and caught.value.where


def test_axes_of_keys_are_mapped():
    keys = random.split(KEY, (2, 3))
    last = functrax.vmap(lambda k: k, in_axes=-1, out_axes=-1)(keys)
    assert words(last) == words(keys)
    assert words(functrax.vmap(lambda k: k[1], in_axes=-1)(keys)) == words(keys[1])
    for axis in (1, -2):
        with pytest.raises(ValueError, match="rank should be"):
            functrax.vmap(lambda k: k, in_axes=axis)(keys[0])
    with pytest.raises(ValueError, match="rank should be"):
        functrax.vmap(lambda k: k)(KEY)


def test_types_of_keys():
    single = functrax.ShapeDtypeStruct((), KEY.dtype)
    pair = functrax.eval_shape(random.split, single)
    assert type(pair) is functrax.ShapeDtypeStruct
    assert pair.shape == (2,) and pair.dtype == KEY.dtype
    assert functrax.jit(random.normal).lower(single).out_info.shape == ()
    assert len(functrax.make_jaxpr(random.normal)(single).in_avals) == 1
    assert functrax.typeof(random.split(KEY)).shape == (2,)


def test_keys_go_through_transformations():
    keys = random.split(KEY, 4)
    together = functrax.jit(functrax.vmap(lambda k: random.split(k, 2)))(keys)
    assert together.shape == (4, 2)
    assert words(together) == [words(random.split(k, 2)) for k in keys]

    def loss(x, key):
        key, once = random.split(key)
        return x * random.normal(once), key

    slope, after = functrax.grad(loss, has_aux=True)(2.0, KEY)
    assert float(slope) == float(random.normal(random.split(KEY)[1]))
    assert words(after) == words(random.split(KEY)[0])


def test_more_than_32_bits_of_places():
    avals = functrax.eval_shape(lambda: random.bits(KEY, (3, 2**31), "uint8"))
    assert avals.shape == (3, 2**31)
    text = str(functrax.make_jaxpr(lambda: random.bits(KEY, (3, 2**31), "uint8"))())
    assert "u64[6442450944]" in text


BAD_KEYS = [
    (0, DTypeError, "not a key"),
    ("key", DTypeError, "not a key"),
    (None, DTypeError, "not a key"),
    ([0, 1], DTypeError, "not a key"),
    (np.zeros(2, np.float32), DTypeError, "uint32"),
    (np.zeros(2, np.uint64), DTypeError, "uint32"),
    (np.zeros(3, np.uint32), ShapeError, "two words"),
    (np.zeros((), np.uint32), ShapeError, "two words"),
    (np.zeros((3, 2), np.uint32), ShapeError, "single key"),
    (random.split(KEY, 3), ShapeError, "single key"),
]
SAMPLERS = [
    lambda k: random.split(k),
    lambda k: random.fold_in(k, 1),
    lambda k: random.bits(k),
    lambda k: random.normal(k),
    lambda k: random.randint(k, (), 0, 2),
    lambda k: random.permutation(k, 3),
    lambda k: random.categorical(k, np.zeros(3, np.float32)),
]


@pytest.mark.parametrize(("key", "error", "match"), BAD_KEYS)
def test_bad_keys_are_refused_everywhere(key, error, match):
    for sampler in SAMPLERS:
        with pytest.raises(error, match=match) as caught:
            sampler(key)
        assert caught.value.got and caught.value.fix and caught.value.where


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: random.key(1.5), DTypeError, "not an integer"),
        (lambda: random.key(np.arange(2)), ShapeError, "single seed"),
        (lambda: random.key(KEY), DTypeError, "key already"),
        (lambda: random.key("a"), DTypeError, "seed"),
        (lambda: random.key(2**63), OverflowError, "64 bits"),
        (lambda: random.key(0, impl="xyz"), ArgumentError, "rbg"),
        (lambda: random.key(0, impl="x", dtype="x"), ArgumentError, "same thing"),
        (lambda: random.fold_in(KEY, -1), OverflowError, "32 bits"),
        (lambda: random.fold_in(KEY, np.arange(2)), ShapeError, "single number"),
        (lambda: random.split(KEY, -1), ShapeError, "negative"),
        (lambda: random.split(KEY, 2.5), ShapeError, "known integer"),
        (lambda: random.wrap_key_data(KEY), DTypeError, "already"),
        (lambda: KEY[0], IndexError, "too many"),
        (lambda: np.asarray(KEY), TypeError, "NumPy"),
        (lambda: len(KEY), TypeError, "single key"),
        (lambda: list(KEY), TypeError, "single key"),
    ],
)
def test_misuse_of_keys(call, error, match):
    with pytest.raises(error, match=match) as caught:
        call()
    if isinstance(caught.value, FunctraxError):
        assert caught.value.got and caught.value.where


def test_the_implementation_can_be_named():
    assert words(random.key(3, impl="threefry2x32")) == words(random.key(3, dtype=KEY.dtype))


def test_the_older_scheme_of_threefry():
    """JAX 0.10.2's words with ``jax_threefry_partitionable=False``."""
    with functrax.threefry_partitionable(False):
        assert words(random.split(random.key(0), 3)) == [
            [2467461003, 428148500],
            [3186719485, 3840466878],
            [2562233961, 1946702221],
        ]
        assert random.bits(random.key(3), (5,), "uint8").tolist() == [75, 52, 5, 116, 142]
        assert random.bits(random.key(3), (5,), "uint16").tolist() == [
            *(52786, 15632, 46739, 1376, 49900)
        ]
        assert random.bits(random.key(3), (5,), "uint32").tolist() == [
            *(877192987, 1614509672, 4140764773, 3448417067, 2823528474)
        ]
        assert random.bits(random.key(3), (), "uint32") == 3716834203
        assert random.permutation(random.key(2), 7).tolist() == [0, 4, 5, 2, 3, 6, 1]
        with functrax.enable_x64():
            found = random.bits(random.key(3), (5,), "uint64").tolist()
            assert found[:2] == [10584361011749870118, 7932667648193756220]
        batched = functrax.vmap(lambda k: random.uniform(k, (3,)))(random.split(KEY, 2))
        each = [random.uniform(k, (3,)) for k in random.split(KEY, 2)]
        assert np.asarray(batched).tolist() == [e.tolist() for e in each]
        with pytest.raises(UnavailableError, match="older scheme"):
            functrax.eval_shape(lambda: random.bits(random.key(0), (2**33,), "uint8"))
            functrax.eval_shape(lambda: random.bits(random.key(0), (2**32,), "uint32"))
    assert words(random.split(random.key(0)))[1] == [928981903, 3453687069]


def test_options_of_seeds_and_keys():
    with functrax.enable_custom_prng():
        assert repr(random.PRNGKey(7)) == repr(random.key(7))
    raw = random.PRNGKey(7)
    with functrax.legacy_prng_key("error"):
        assert words(random.split(random.key(7))) == words(random.split(random.wrap_key_data(raw)))
        with pytest.raises(ValueError, match="legacy_prng_key forbids"):
            random.uniform(raw)
    with functrax.legacy_prng_key("warn"), pytest.warns(UserWarning, match="array of uint32"):
        random.uniform(raw, (2,))
    with Override("random_seed_offset", 5):
        assert words(random.key(2)) == words(functrax.jit(random.key)(2)) == [0, 7]
    high = random.gumbel(random.key(1), (4,), mode="high")
    with Override("high_dynamic_range_gumbel", True):
        assert random.gumbel(random.key(1), (4,)).tolist() == high.tolist()


def test_lists_are_spoken_of_where_one_was_given():
    for seed, said in (("a", False), ([1], True)):
        with pytest.raises(DTypeError) as caught:
            random.key(seed)
        assert ("lists" in caught.value.fix) == said
