"""The axes of typed keys: the hidden axis of their words is never mapped, nor shown in errors."""

import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax, random
from functrax.errors import AxisError, DTypeError, ShapeError

KEY = random.key(0)
KEYS = random.split(KEY, 8)


@pytest.mark.parametrize(
    "loop",
    [
        lambda: lax.scan(lambda c, k: (c + 1.0, c), 0.0, KEY),
        lambda: lax.map(random.uniform, KEY),
        lambda: lax.map(random.uniform, {"a": KEYS, "b": KEY}, batch_size=2),
        lambda: functrax.jit(lambda k: lax.map(random.uniform, k))(KEY),
        lambda: lax.scan(lambda c, k: (c, c), 0.0, random.key(0, impl="rbg")),
    ],
)
def test_a_single_key_has_no_axis_to_scan_over(loop):
    with pytest.raises(ShapeError, match=r"no leading axis to scan over") as caught:
        loop()
    assert caught.value.got in ("key<fry>[]", "key<rbg>[]")


def test_keys_are_scanned_over_by_key():
    drawn = lax.map(random.uniform, KEYS)
    assert drawn.shape == (8,)
    _, again = lax.scan(lambda c, k: (c, random.uniform(k)), 0, KEYS)
    assert (drawn == again).all()


def test_a_single_key_has_no_axis_to_combine_along():
    with pytest.raises(AxisError) as caught:
        lax.associative_scan(lambda a, b: a, KEY)
    assert caught.value.got == "axis=0 for key<fry>[]"


def test_the_last_axis_of_keys_is_not_that_of_their_words():
    rows = KEYS.reshape(2, 4)
    first = lax.associative_scan(lambda a, b: a, rows, axis=-1)
    assert (first == rows[:, :1]).all()


def test_vmap_speaks_of_the_axes_of_keys():
    with pytest.raises(AxisError, match=r"axis 0.*at least 1, but is only 0 \(its shape is \(\)\)"):
        functrax.vmap(random.uniform)(KEY)
    with pytest.raises(AxisError, match=r"axis 1.*only 1 \(its shape is \(8,\)\)") as caught:
        functrax.vmap(random.uniform, in_axes=1)(KEYS)
    assert "is key<fry>[8]" in caught.value.got
    with pytest.raises(ShapeError, match=r"size 4: axis 0 of argument x of type key<fry>\[4\]"):
        functrax.vmap(lambda k, x: x)(KEYS, KEYS[:4])


def test_vmap_puts_no_axis_behind_the_words():
    with pytest.raises(AxisError, match=r"axis 1 is out of bounds"):
        functrax.vmap(lambda k: k, out_axes=1)(KEYS)
    rows = functrax.vmap(random.split, out_axes=1)(KEYS)
    assert rows.shape == (2, 8) and (rows[:, 3] == random.split(KEYS[3])).all()
    assert (functrax.vmap(random.split, out_axes=-1)(KEYS) == rows).all()


@pytest.mark.parametrize(
    "loop",
    [
        lambda body: lax.scan(lambda c, _: (body(c), None), KEY, jnp.arange(3)),
        lambda body: lax.fori_loop(0, 3, lambda _, c: body(c), KEY),
        lambda body: lax.while_loop(lambda c: True, body, KEY),
        lambda body: functrax.steps(lambda c, _: (body(c), None), 2)(KEY, jnp.arange(2)),
    ],
)
def test_carries_and_results_are_shown_as_keys(loop):
    with pytest.raises(ShapeError) as caught:
        loop(random.split)
    assert "was key<fry>[] and becomes key<fry>[2]" in caught.value.got


def test_branches_and_lengths_show_keys():
    with pytest.raises(DTypeError, match="different types") as branches:
        lax.cond(True, random.split, lambda k: k, KEY)
    assert branches.value.got.endswith("result is key<fry>[2] and key<fry>[]")
    with pytest.raises(ShapeError) as lengths:
        lax.scan(lambda c, x: (c, c), 0.0, (KEYS, jnp.arange(3)))
    assert lengths.value.got == "key<fry>[8], i32[3], length=None"


def test_reshape_counts_keys():
    with pytest.raises(ShapeError) as caught:
        KEYS.reshape(3)
    assert caught.value.got == "key<fry>[8] (8) to shape (3,)"
    assert KEYS.reshape(2, -1).shape == (2, 4)
