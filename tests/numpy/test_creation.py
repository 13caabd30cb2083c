"""Making arrays: lists, fills, spacings, and what is refused."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import enable_x64
from functrax.core.errors.typed import (
    ArgumentError,
    ConcretizationError,
    DonatedBufferError,
    DTypeError,
    ShapeError,
)


class Wrapped:
    """A user's type that is an array."""

    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return jnp.asarray(self.value)


@pytest.mark.parametrize(
    ("given", "dtype", "weak"),
    [
        (3, "int32", True),
        (2.5, "float32", True),
        (1j, "complex64", True),
        (True, "bool", False),
        ([1, 2], "int32", False),
        ([1, 2.5], "float32", False),
        ([True, 2], "int32", False),
        ([[1, 2], [3, 4j]], "complex64", False),
        ([], "float32", False),
        ([[], []], "float32", False),
        (np.arange(3), "int32", False),
        (np.ones(2), "float32", False),
        (np.float16(2), "float16", False),
        ([np.float64(1), 2], "float32", False),
        ([np.int8(1), 2], "int8", False),
        ((1, (2,)[0]), "int32", False),
        (range(3), "int32", False),
        (Wrapped(2.0), "float32", True),
        ([Wrapped(2.0), 3], "float32", False),
        (bytearray(b"ab"), "uint8", False),
    ],
)
def test_array_has_jax_s_dtype(given, dtype, weak):
    made = jnp.array(given)
    assert (made.dtype.name, made.weak_type) == (dtype, weak)
    plain = given if not isinstance(given, Wrapped) else given.value
    if not (isinstance(plain, list) and any(isinstance(x, Wrapped) for x in plain)):
        np.testing.assert_array_equal(np.asarray(made), np.array(plain))


def test_array_of_arrays():
    rows = jnp.array([jnp.arange(2), np.array([2, 3]), [4, 5.5]])
    assert rows.dtype == jnp.float32
    assert rows.tolist() == [[0, 1], [2, 3], [4, 5.5]]
    assert jnp.array([jnp.int8(1), jnp.int16(2)]).dtype == jnp.int16
    made = functrax.jit(lambda x: jnp.array([[x, 1], [2, x * x]]))(3.0)
    assert made.tolist() == [[3, 1], [2, 9]]
    derivative = functrax.grad(lambda x: jnp.sum(jnp.array([x, 2 * x, 5.0]) ** 2))(1.0)
    assert derivative == 10


def test_array_options():
    assert jnp.array([1, 2], dtype="int8", ndmin=2).shape == (1, 2)
    assert jnp.array([1.7, -1.7], int).tolist() == [1, -1]
    assert jnp.array(3, jnp.float32).weak_type is False
    with enable_x64():
        assert jnp.array([1.5]).dtype == jnp.float64
        assert jnp.array(2**40).dtype == jnp.int64
    for too_large in (2**40, [1, [2**40]][1], [2**70]):
        with pytest.raises(OverflowError, match=r"(too large|out of bounds)"):
            jnp.array(too_large)
    source = np.zeros(2, np.float32)
    made = jnp.array(source)
    source[0] = 7
    assert made.tolist() == [0, 0]
    x = jnp.ones(3)
    assert jnp.asarray(x) is x
    assert x.copy().tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (None, DTypeError, "None is not a valid value"),
        ("text", DTypeError, "not an array"),
        (["a", 1], DTypeError, "not a valid value"),
        ([1, None], DTypeError, "not a valid value"),
        ([[1], [1, 2]], ShapeError, "different shapes"),
        ([[1], 2], ShapeError, "different shapes"),
        ([jnp.ones(2), jnp.ones(3)], ShapeError, "different shapes"),
        (object(), DTypeError, "not an array"),
        (np.array(["a"]), DTypeError, "dtype"),
    ],
)
def test_array_refuses(given, error, text):
    with pytest.raises(error, match=text):
        jnp.array(given)


def test_order_cannot_be_chosen():
    with pytest.raises(ArgumentError, match="row-major"):
        jnp.array([1], order="F")


def test_fills():
    for name in ("zeros", "ones", "empty"):
        value = 1 if name == "ones" else 0
        made = getattr(jnp, name)((2, 3))
        assert (made.shape, made.dtype, made.weak_type) == ((2, 3), jnp.float32, False)
        assert (np.asarray(made) == value).all()
        assert getattr(jnp, name)(3, jnp.int8).dtype == jnp.int8
        assert getattr(jnp, name)(()).shape == ()
        like = getattr(jnp, name + "_like")
        assert like(jnp.ones((2, 0), jnp.int16)).shape == (2, 0)
        assert like(np.ones(2)).dtype == jnp.float32
        assert like(1.0).weak_type is True
        assert like(jnp.ones(2), dtype=int, shape=(3,)).tolist() == [value] * 3
        assert like(functrax.ShapeDtypeStruct((2,), "int8")).dtype == jnp.int8
    assert jnp.full((2,), 3).weak_type is True
    assert jnp.full((2, 2), jnp.array([1, 2])).tolist() == [[1, 2], [1, 2]]
    assert jnp.full_like(jnp.arange(2, dtype="int8"), 2.7).tolist() == [2, 2]
    assert functrax.jit(lambda x: jnp.full((2,), x))(3.0).tolist() == [3, 3]
    with pytest.raises(ShapeError, match="negative"):
        jnp.zeros((2, -1))
    with pytest.raises(ShapeError, match="1D sequences"):
        jnp.zeros(2.5)
    with pytest.raises(ShapeError, match="does not broadcast"):
        jnp.full((2,), jnp.ones(3))
    with pytest.raises(ConcretizationError, match="traced"):
        functrax.jit(lambda n: jnp.zeros(n))(3)


def test_diagonals():
    for shape in ((3,), (2, 4), (4, 2, 1), (3, 3, -1), (0, 2)):
        np.testing.assert_array_equal(np.asarray(jnp.eye(*shape)), np.eye(*shape))
        np.testing.assert_array_equal(np.asarray(jnp.tri(*shape)), np.tri(*shape))
    assert jnp.identity(2, dtype=int).tolist() == [[1, 0], [0, 1]]
    assert functrax.jit(lambda k: jnp.eye(2, k=k))(1).tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize(
    "arguments",
    [(3,), (3.0,), (2.5,), (2, 8), (2, 8, 2), (5, 0, -2), (0, 1, 0.3), (-1,), (0,), (8, 2)],
)
def test_arange(arguments):
    made = jnp.arange(*arguments)
    want = np.arange(*arguments)
    assert made.dtype == (jnp.int32 if want.dtype.kind == "i" else jnp.float32)
    np.testing.assert_allclose(np.asarray(made), want, rtol=1e-6)


def test_arange_dtypes_and_errors():
    assert jnp.arange(3, dtype="bfloat16").tolist() == [0, 1, 2]
    assert jnp.arange(jnp.int8(3)).dtype == jnp.int8
    assert jnp.arange(start=1, stop=3).tolist() == [1, 2]
    assert jnp.arange(0, 10, jnp.array(3)).tolist() == [0, 3, 6, 9]
    with pytest.raises(ConcretizationError, match="shape of the result"):
        functrax.jit(jnp.arange)(3)
    with pytest.raises(ArgumentError, match="step is zero"):
        jnp.arange(0, 3, 0)
    with pytest.raises(DTypeError, match="cannot count"):
        jnp.arange(3, dtype=bool)


def test_spacings():
    for arguments in ((0, 1, 5), (2, 2, 3), (1, -1, 4), (0, 1, 1), (0, 1, 0)):
        np.testing.assert_allclose(
            np.asarray(jnp.linspace(*arguments)), np.linspace(*arguments), atol=1e-6
        )
        open_ended = functools.partial(jnp.linspace, endpoint=False)
        np.testing.assert_allclose(
            np.asarray(open_ended(*arguments)), np.linspace(*arguments, endpoint=False), atol=1e-6
        )
    made, step = jnp.linspace(0, 10, 5, retstep=True, dtype=int)
    assert made.tolist() == [0, 2, 5, 7, 10]
    assert step == 2.5
    start, stop = np.zeros((2, 1), np.float32), np.array([1, 2], np.float32)
    for axis in (0, 1, -1):
        np.testing.assert_allclose(
            np.asarray(jnp.linspace(start, stop, 4, axis=axis)),
            np.linspace(start, stop, 4, axis=axis),
            rtol=1e-6,
        )
    assert float(jnp.linspace(0.1, 0.7, 9)[-1]) == np.float32(0.7)
    np.testing.assert_allclose(np.asarray(jnp.logspace(0, 2, 5)), np.logspace(0, 2, 5), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(jnp.logspace(0, 3, 4, base=2)), [1, 2, 4, 8], rtol=1e-6)
    for ends in ((1, 1000), (-8, -1), (1000, 1)):
        np.testing.assert_allclose(
            np.asarray(jnp.geomspace(*ends, 4)), np.geomspace(*ends, 4), rtol=1e-5
        )
    assert functrax.grad(lambda x: jnp.sum(jnp.linspace(0.0, x, 3)))(1.0) == 1.5
    with pytest.raises(ArgumentError, match="number of elements"):
        jnp.linspace(0, 1, -1)


def test_other_sources():
    assert jnp.fromfunction(lambda i, j: i + 10 * j, (2, 2), dtype=int).tolist() == [
        [0, 10],
        [1, 11],
    ]
    assert jnp.frombuffer(b"\x01\x02", "uint8").tolist() == [1, 2]
    assert jnp.fromiter((i * i for i in range(3)), int).tolist() == [0, 1, 4]
    assert jnp.from_dlpack(np.arange(3, dtype=np.int32)).tolist() == [0, 1, 2]
    assert jnp.astype(jnp.array([300, -1]), jnp.uint8).tolist() == [44, 255]
    assert jnp.astype(jnp.array([1e20, jnp.nan]), jnp.int32).tolist() == [2**31 - 1, 0]
    assert jnp.array([1 + 2j]).astype(jnp.float32).tolist() == [1]


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    for take in (jnp.asarray, jnp.sin, functrax.jit(jnp.sum), functrax.device_put):
        with pytest.raises(ValueError, match="masked"):
            take(masked)
    with pytest.raises(ValueError, match="masked"):
        jnp.asarray(masked.astype("float32"), copy=False)
    with pytest.raises(ValueError, match="masked"):
        jnp.array(masked, "float32")
    assert jnp.asarray(masked.filled(0)).tolist() == [1.0, 0.0]


# ---- devices ------------------------------------------------------------------------------------

ON_A_DEVICE = {
    "zeros": lambda **k: jnp.zeros(3, **k),
    "ones": lambda **k: jnp.ones((2, 3), **k),
    "empty": lambda **k: jnp.empty(3, **k),
    "full": lambda **k: jnp.full(3, 2, **k),
    "zeros_like": lambda **k: jnp.zeros_like(np.ones(3), **k),
    "ones_like": lambda **k: jnp.ones_like(np.ones(3), **k),
    "empty_like": lambda **k: jnp.empty_like(np.ones(3), **k),
    "full_like": lambda **k: jnp.full_like(np.ones(3), 4, **k),
    "eye": lambda **k: jnp.eye(3, **k),
    "array": lambda **k: jnp.array([1, 2], **k),
    "asarray": lambda **k: jnp.asarray(np.ones(3), **k),
    "from_dlpack": lambda **k: jnp.from_dlpack(np.ones(3, np.float32), **k),
    "astype": lambda **k: jnp.astype(np.ones(3), int, **k),
    "arange": lambda **k: jnp.arange(3, **k),
    "linspace": lambda **k: jnp.linspace(0, 1, 3, **k),
    "fftfreq": lambda **k: jnp.fft.fftfreq(4, **k),
    "rfftfreq": lambda **k: jnp.fft.rfftfreq(4, **k),
}


@pytest.mark.parametrize("name", ON_A_DEVICE)
def test_arrays_are_made_where_they_are_wanted(name):
    make = ON_A_DEVICE[name]
    device = functrax.devices()[0]
    assert not make().committed
    for place in (device, functrax.sharding.SingleDeviceSharding(device)):
        found = make(device=place)
        assert found.committed
        assert found.devices() == {device}
        np.testing.assert_array_equal(found, make())
        np.testing.assert_array_equal(functrax.jit(lambda: make(device=place))(), found)  # noqa: B023
    with pytest.raises(ArgumentError, match="neither a device nor a sharding"):
        make(device="the other one")


def test_counting_in_complex_numbers():
    np.testing.assert_array_equal(jnp.arange(3, dtype="complex64"), [0, 1, 2])
    assert jnp.arange(1, 3, 0.5, "complex64").dtype == np.complex64
    with pytest.raises(DTypeError, match="cannot count in bools"):
        jnp.arange(3, dtype=bool)
    with pytest.raises(ArgumentError, match="complex start/stop/step"):
        jnp.arange(2j)


COPIES = {
    "jnp.copy": jnp.copy,
    "jnp.array": jnp.array,
    "jnp.asarray": lambda x: jnp.asarray(x, copy=True),
    "x.copy": lambda x: x.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_stay_when_the_first_is_donated(name):
    donating = functrax.jit(lambda x: 2 * x, donate_argnums=0)
    for first in (jnp.ones(3), jnp.ones(3) + 0, jnp.array([1, 1, 1.0]), jnp.array(1.0)):
        again = COPIES[name](first)
        third = COPIES[name](first)
        np.testing.assert_array_equal(donating(again), np.full(first.shape, 2.0))
        assert again.is_deleted() and not first.is_deleted()
        first.delete()
        np.testing.assert_array_equal(third, np.ones(third.shape))
        with pytest.raises(DonatedBufferError):
            COPIES[name](first)
    kept = jnp.ones(3)
    assert jnp.asarray(kept) is kept
