"""Shaping, joining, padding, selecting and grids give what NumPy gives, with NumPy's shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors

RNG = np.random.default_rng(5)
V, W = RNG.normal(size=5).astype("f4"), RNG.normal(size=3).astype("f4")
M, N = RNG.normal(size=(3, 4)).astype("f4"), RNG.normal(size=(3, 4)).astype("f4")
S = RNG.normal(size=(4, 4)).astype("f4")
T = RNG.normal(size=(2, 3, 4)).astype("f4")
COUNT = np.arange(12, dtype="i4").reshape(3, 4)
U = np.array([3, 250], "u1")

# (function, arguments, keywords): the same call is made with NumPy
SAME: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("reshape", (T, (4, -1)), {}),
    ("reshape", (T, -1), {}),
    ("reshape", (T, (6, 4)), {"order": "F"}),
    ("reshape", (np.zeros((0, 3), "f4"), (3, -1)), {}),
    ("ravel", (T,), {}),
    ("ravel", (T,), {"order": "F"}),
    ("transpose", (T,), {}),
    ("transpose", (T, (1, -1, 0)), {}),
    ("permute_dims", (T, (2, 0, 1)), {}),
    ("swapaxes", (T, 0, -1), {}),
    ("moveaxis", (T, 0, -1), {}),
    ("moveaxis", (T, (0, 1), (-1, 0)), {}),
    ("rollaxis", (T, 2), {}),
    ("rollaxis", (T, 0, 3), {}),
    ("rollaxis", (T, 1, -1), {}),
    ("squeeze", (T[:1, :, :1],), {}),
    ("squeeze", (T[:1, :, :1], -1), {}),
    ("expand_dims", (M, (0, -1)), {}),
    ("expand_dims", (M, 1), {}),
    ("broadcast_to", (W[:, None], (2, 3, 4)), {}),
    ("atleast_3d", (V,), {}),
    ("atleast_3d", (M,), {}),
    ("atleast_2d", (V,), {}),
    ("atleast_1d", (np.float32(2),), {}),
    ("flip", (T,), {}),
    ("flip", (T, (0, 2)), {}),
    ("fliplr", (M,), {}),
    ("flipud", (M,), {}),
    *[("rot90", (T, k, (0, 2)), {}) for k in range(-1, 4)],
    ("roll", (T, 5), {}),
    ("roll", (T, (1, -2), (0, 2)), {}),
    ("roll", (T, 3, (1, 2)), {}),
    ("roll", (T, -7, 1), {}),
    ("tile", (M, 2), {}),
    ("tile", (M, (2, 1, 3)), {}),
    ("tile", (V, ()), {}),
    ("repeat", (M, 2), {}),
    ("repeat", (M, 3, 1), {}),
    ("repeat", (M, np.array([2, 0, 1]), 0), {}),
    ("repeat", (COUNT, np.arange(12) % 3), {}),
    ("resize", (M, (5, 5)), {}),
    ("resize", (M, (2, 2)), {}),
    ("tril", (T,), {}),
    ("tril", (M, 1), {}),
    ("triu", (M, -1), {}),
    ("triu", (np.ones((3, 3), bool), 1), {}),
    ("diag", (V,), {}),
    ("diag", (V, 2), {}),
    ("diag", (V, -1), {}),
    ("diag", (M, 1), {}),
    ("diagflat", (M, -1), {}),
    ("diagonal", (T,), {}),
    ("diagonal", (T, 1, 2, 1), {}),
    ("diagonal", (M, -5), {}),
    ("trace", (M, 1), {}),
    ("trace", (T, 0, 1, 2), {}),
    ("matrix_transpose", (T,), {}),
    ("concatenate", ([M, N],), {}),
    ("concatenate", ([M, N, M[:, :1]], -1), {}),
    ("concatenate", ([M, V], None), {}),
    ("concat", ([M, N],), {"axis": 1}),
    ("stack", ([M, N],), {}),
    ("stack", ([M, N], -1), {}),
    ("vstack", ([V, V],), {}),
    ("hstack", ([V, W],), {}),
    ("hstack", ([M, N],), {}),
    ("dstack", ([V, V],), {}),
    ("dstack", ([M, N],), {}),
    ("column_stack", ([W, M],), {}),
    ("block", ([[M, N], [N, M]],), {}),
    ("block", ([V, W],), {}),
    ("append", (M, N, 1), {}),
    ("append", (M, V), {}),
    ("insert", (V, 2, np.float32(7)), {}),
    ("insert", (M, 1, W, 1), {}),
    ("insert", (M, [1], W[:, None], 1), {}),
    ("insert", (M, np.array([0, 2, 2]), np.float32(0), 0), {}),
    ("insert", (V, slice(0, 4, 2), V[:2]), {}),
    ("insert", (V, -1, V[:2]), {}),
    ("delete", (V, 1), {}),
    ("delete", (M, np.array([0, -1]), 1), {}),
    ("delete", (M, slice(None, None, 2), 1), {}),
    ("delete", (V, np.array([True, False, True, False, False])), {}),
    *[("pad", (M, ((2, 1), (0, 3)), mode), {})
      for mode in ("constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum",
                   "minimum", "mean")],
    ("pad", (V, 9, "reflect"), {}),
    ("pad", (V, 13, "symmetric"), {}),
    ("pad", (V, (3, 4), "reflect"), {"reflect_type": "odd"}),
    ("pad", (V, 23, "reflect"), {"reflect_type": "odd"}),
    ("pad", (V, (17, 12), "symmetric"), {"reflect_type": "odd"}),
    ("pad", (M[:1], 3, "reflect"), {"reflect_type": "odd"}),
    ("pad", (np.float32([np.inf, 1, 2]), (1, 2), "reflect"), {"reflect_type": "odd"}),
    ("pad", (M.astype(int), 9, "reflect"), {"reflect_type": "odd"}),
    ("pad", (M, 1), {"constant_values": 3}),
    ("pad", (M, (1, 2)), {"constant_values": ((1, 2), (3, 4))}),
    ("pad", (M, 2, "mean"), {"stat_length": 2}),
    ("pad", (np.array([1, 2, 2, 5]), 2, "mean"), {}),
    ("pad", (np.array([1, 2, 3, 5]), 2, "median"), {}),
    ("pad", (M, 2, "median"), {"stat_length": 2}),
    ("pad", (M, 2, "linear_ramp"), {"end_values": (1, -1)}),
    ("pad", (M[:1], (2, 3), "linear_ramp"), {}),
    ("take", (M, np.array([[0, 11], [3, -1]])), {}),
    ("take", (M, np.array([2, 0, 2]), 1), {}),
    ("take", (M, np.array([9, -1, 5]), 0, None, "wrap"), {}),
    ("take", (M, np.array([9, -1, 5]), 0, None, "clip"), {}),
    ("take", (M, 2, 1), {}),
    ("take_along_axis", (M, np.argsort(M, 1), 1), {}),
    ("take_along_axis", (M, np.array([[1, 0, 2, 2]]), 0), {}),
    ("take_along_axis", (T, np.array([[[3], [1], [0]]]), 2), {}),
    ("take_along_axis", (M, np.array([5, 1]), None), {}),
    ("choose", (np.array([0, 1, 2, 0]), [S[0], S[1], S[2]]), {}),
    ("choose", (np.array([[0, 5], [-1, 2]]), [S[:2, :2], np.float32(3), W[:2]], None, "clip"), {}),
    ("choose", (np.array([0, 5, -1]), [W, 2 * W], None, "wrap"), {}),
    ("select", ([M > 0, M < -1], [M, N]), {}),
    ("select", ([M > 0, W[:, None] > 0], [M, N], np.float32(9)), {}),
    ("compress", (np.array([True, False, True]), M, 0), {}),
    ("compress", (np.array([0, 1, 1]), M), {}),
    ("extract", (M > 0, M), {}),
    ("nonzero", (M > 0,), {}),
    ("flatnonzero", (M > 0,), {}),
    ("argwhere", (M > 0,), {}),
    ("argwhere", (np.float32(3),), {}),
    *[("searchsorted", (np.sort(V), np.append(V, [9, -9]).astype("f4"), side), {})
      for side in ("left", "right")],
    *[("searchsorted", (np.sort(RNG.integers(0, 40, 200)), np.arange(-1, 42), side), {})
      for side in ("left", "right")],
    ("searchsorted", (np.array([1, 2, np.nan]), np.array([np.nan, 0, 2])), {}),
    ("searchsorted", (V, W), {"sorter": np.argsort(V)}),
    *[("digitize", (np.array([-1.0, 1, 2, 5, 9]), np.array(bins), right), {})
      for bins in ([1.0, 2, 4], [4.0, 2, 1]) for right in (False, True)],
    ("meshgrid", (V, W), {}),
    ("meshgrid", (V, W, W), {"indexing": "ij", "sparse": True}),
    ("indices", ((2, 3),), {}),
    ("indices", ((2, 3),), {"sparse": True}),
    ("ix_", (np.array([0, 2]), np.array([True, False, True])), {}),
    ("tril_indices", (3, 1, 4), {}),
    ("triu_indices", (3,), {}),
    ("tril_indices_from", (M,), {}),
    ("triu_indices_from", (M, 1), {}),
    ("diag_indices", (3, 3), {}),
    ("diag_indices_from", (S,), {}),
    ("unravel_index", (np.array([3, 11, 0]), (3, 4)), {}),
    ("ravel_multi_index", ((np.array([0, 2]), np.array([3, 1])), (3, 4)), {}),
    ("ravel_multi_index", ((np.array([0, 2]), np.array([3, 1])), (3, 4)), {"order": "F"}),
    ("ravel_multi_index", ((np.array([0, 9]), np.array([-3, 1])), (3, 4)), {"mode": "clip"}),
    ("ravel_multi_index", ((np.array([0, 9]), np.array([-3, 1])), (3, 4)), {"mode": "wrap"}),
    ("array_split", (V, 3), {}),
    ("array_split", (V, 7), {}),
    ("split", (M, 2, 1), {}),
    ("split", (V, [1, 3]), {}),
    ("split", (V, [3, 1, -1, 9]), {}),
    ("hsplit", (M, 2), {}),
    ("vsplit", (S, [1]), {}),
    ("dsplit", (T, 2), {}),
    ("broadcast_arrays", (W[:, None], V), {}),
    ("kron", (M[:2], N[:, :2]), {}),
    ("kron", (V, M), {}),
    ("cross", (M[:, :3], N[:, :3]), {}),
    ("cross", (M[:, :3].T, W), {"axisa": 0, "axisb": 0, "axisc": 0}),
]  # fmt: skip


def leaves(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (list, tuple)) else [x]


def traced(x: Any) -> bool:
    """Whether an argument may be traced: floating arrays here, for positions must be known."""
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def assert_same(got: Any, want: Any) -> None:
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == np.shape(w)
        np.testing.assert_allclose(np.asarray(g), w, rtol=1e-5, atol=1e-6)
        assert g.dtype.kind == np.asarray(w).dtype.kind


@pytest.mark.parametrize(
    ("name", "args", "kwargs"), SAME, ids=[f"{k}-{name}" for k, (name, *_) in enumerate(SAME)]
)
def test_same_as_numpy(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    want = getattr(np, name)(*args, **kwargs)
    assert_same(getattr(jnp, name)(*args, **kwargs), want)
    if name in ("nonzero", "flatnonzero", "argwhere", "extract", "compress", "ix_"):
        return
    flat, tree = functrax.tree.flatten((args, kwargs))
    places = [k for k, x in enumerate(flat) if traced(x)]

    def call(*values: Any) -> Any:
        filled = list(flat)
        for k, value in zip(places, values, strict=True):
            filled[k] = value
        args, kwargs = functrax.tree.unflatten(tree, filled)
        return getattr(jnp, name)(*args, **kwargs)

    assert_same(functrax.jit(call)(*[flat[k] for k in places]), want)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("put_along_axis", (M, np.array([[1], [0], [3]]), np.float32(9), 1)),
        ("put_along_axis", (M, np.array([0, 7]), W[:2], None)),
        ("put", (M, np.array([0, -1, 5]), W[:2])),
        ("place", (M, M > 0, W)),
        ("fill_diagonal", (M, np.float32(2))),
        ("fill_diagonal", (np.zeros((5, 2), "f4"), W, True)),
        ("fill_diagonal", (np.zeros((2, 2, 2), "f4"), W)),
    ],
)
def test_changed_copies(name: str, args: tuple[Any, ...]) -> None:
    want = args[0].copy()
    getattr(np, name)(want, *args[1:])
    assert_same(getattr(jnp, name)(*args, inplace=False), want)
    with pytest.raises(errors.ArgumentError, match="immutable"):
        getattr(jnp, name)(*args)


@pytest.mark.parametrize("shift", [-7, 0, 2])
def test_roll_by_traced_shift(shift: int) -> None:
    got = functrax.jit(lambda x, s: jnp.roll(x, s, 1))(M, shift)
    np.testing.assert_array_equal(np.asarray(got), np.roll(M, shift, 1))


def test_repeat_by_traced_counts() -> None:
    counts = np.array([2, 0, 1])
    f = functrax.jit(lambda x, n: jnp.repeat(x, n, 0, total_repeat_length=5))
    np.testing.assert_array_equal(np.asarray(f(M, counts)), M[[0, 0, 2, 2, 2]])
    known = jnp.repeat(M, counts, 0, total_repeat_length=2)
    np.testing.assert_array_equal(np.asarray(known), M[[0, 0]])
    with pytest.raises(errors.ConcretizationError, match="total_repeat_length"):
        functrax.jit(lambda n: jnp.repeat(M, n, 0))(counts)


def test_nonzero_of_traced_arrays_needs_a_size() -> None:
    f = functrax.jit(lambda x: jnp.nonzero(x, size=9, fill_value=(7, 8)))
    want = np.full((2, 9), [[7], [8]])
    found = np.array(np.nonzero(M > 0))
    want[:, : found.shape[1]] = found
    np.testing.assert_array_equal(np.array([np.asarray(x) for x in f(M > 0)]), want)
    with pytest.raises(errors.ConcretizationError, match="size="):
        functrax.jit(jnp.nonzero)(M)


def test_take_fills_what_is_out_of_range() -> None:
    assert np.isnan(np.asarray(jnp.take(V, np.array([5, -6])))).all()
    assert np.asarray(jnp.take(COUNT, np.array([12]))) == np.iinfo("i4").min
    assert np.asarray(jnp.take(U, np.array([2]))) == 255
    assert np.asarray(jnp.take(V, np.array([5]), fill_value=3)) == 3
    assert np.isnan(np.asarray(jnp.take_along_axis(M, np.array([[4], [-5], [9]]), 1))).all()


def test_put_out_of_range() -> None:
    far = np.array([0, 9])
    assert jnp.put(np.arange(3), far, np.array([5]), inplace=False).tolist() == [5, 1, 5]
    assert jnp.put(np.arange(3), far, 5, mode="drop", inplace=False).tolist() == [5, 1, 2]
    assert jnp.put(np.arange(3), far + 1, 5, mode="wrap", inplace=False).tolist() == [0, 5, 2]


def test_constants_of_grids() -> None:
    assert_same(jnp.mgrid[0:3, 0:2], np.mgrid[0:3, 0:2])
    assert_same(jnp.mgrid[0:1:5j], np.mgrid[0:1:5j])
    assert_same(jnp.ogrid[0:3, 0:2], list(np.ogrid[0:3, 0:2]))
    assert jnp.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    assert [x.shape for x in jnp.unstack(T, axis=1)] == [(2, 4)] * 3
    assert_same(jnp.mask_indices(3, jnp.triu), np.mask_indices(3, np.triu))


def test_dtypes_meet() -> None:
    assert jnp.concatenate([jnp.arange(2), jnp.ones(2)]).dtype == "float32"
    assert jnp.stack([1, 2]).weak_type
    assert jnp.stack([1, 2.0]).dtype == "float32"
    assert jnp.concatenate([U, U], dtype="float16").dtype == "float16"
    assert jnp.trace(U.reshape(1, 2)).dtype == "uint32"
    assert jnp.insert(COUNT, 0, 2.0).dtype == "int32"


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("ravel", 1), ("atleast_2d", 1), ("tril", 1), ("diag", 1), ("fliplr", 1), ("flip", 1),
        ("transpose", 1),
    ],
)  # fmt: skip
def test_few_equations(name: str, program: int) -> None:
    x = V if name in ("diag", "atleast_2d") else M
    assert len(functrax.make_jaxpr(getattr(jnp, name))(x).jaxpr.eqns) == program


def test_nothing_changes_without_equations() -> None:
    def f(x: Any) -> Any:
        x = jnp.reshape(x, (3, 4))
        x = jnp.transpose(x, (0, 1))
        x = jnp.broadcast_to(jnp.squeeze(jnp.roll(x, 0, 0)), (3, 4))
        return jnp.concatenate([jnp.split(x, 1)[0]])

    assert not functrax.make_jaxpr(f)(M).jaxpr.eqns


@pytest.mark.parametrize(
    ("name", "args", "error", "text"),
    [
        ("reshape", (M, (5, -1)), errors.ShapeError, "number of elements"),
        ("reshape", (M, (-1, -1)), errors.ShapeError, "more than one"),
        ("reshape", (M, (2, 6), "A"), errors.ArgumentError, "order"),
        ("reshape", ([1, 2], (2, 1)), errors.DTypeError, "takes arrays"),
        ("reshape", (M, (2.0, 6)), errors.ArgumentError, "integer"),
        ("transpose", (M, (0, 0)), errors.AxisError, "repeated axis"),
        ("transpose", (M, (0,)), errors.AxisError, "permutation"),
        ("squeeze", (M, 0), errors.ShapeError, "another size"),
        ("expand_dims", (M, 5), errors.AxisError, "out of range"),
        ("broadcast_to", (M, (3, 5)), errors.ShapeError, "broadcast"),
        ("broadcast_to", (M, (4,)), errors.ShapeError, "broadcast"),
        ("moveaxis", (T, (0, 1), 0), errors.ArgumentError, "destination"),
        ("roll", (T, (1, 2), (0, 1, 2)), errors.ArgumentError, "shift"),
        ("rot90", (T, 1, (0, 0)), errors.AxisError, "repeated axis"),
        ("repeat", (M, np.array([1, 2]), 0), errors.ShapeError, "one for each"),
        ("repeat", (M, -1), errors.ArgumentError, "at least 0"),
        ("concatenate", ([],), errors.ArgumentError, "at least one"),
        ("concatenate", ([M, V],), errors.ShapeError, "differ"),
        ("concatenate", ([np.zeros(2), 3.0],), errors.ShapeError, "differ"),
        ("stack", ([M, V],), errors.ShapeError, "different shapes"),
        ("block", ([[M], M],), errors.ArgumentError, "equally deep"),
        ("split", (V, 2), errors.ShapeError, "equal"),
        ("pad", (M, 1, "mirror"), errors.ArgumentError, "unknown mode"),
        ("pad", (M, -1), errors.ShapeError, "negative"),
        ("pad", (M, ((1, 2), (3, 4), (5, 6))), errors.ArgumentError, "pair"),
        ("pad", (np.zeros((0, 2)), 1, "edge"), errors.ShapeError, "no elements"),
        ("take", (M, V), errors.DTypeError, "integer type"),
        ("take", (M, np.array([0]), 0, None, "raise"), errors.ArgumentError, "mode"),
        ("take_along_axis", (M, np.array([0]), 0), errors.ShapeError, "ranks"),
        ("choose", (np.array([3]), [V, V]), errors.ArgumentError, "has no such choice"),
        ("select", ([M > 0], [M, N]), errors.ArgumentError, "one condition"),
        ("searchsorted", (M, V), errors.ShapeError, "vector"),
        ("searchsorted", (V, V, "middle"), errors.ArgumentError, "side"),
        ("meshgrid", (M,), errors.ShapeError, "vectors"),
        ("ravel_multi_index", ((np.array([3]),), (3,)), errors.ArgumentError, "out of range"),
        ("tril", (V,), errors.ShapeError, "matrices"),
        ("diag", (T,), errors.ShapeError, "vector or a matrix"),
        ("delete", (V, 7), errors.ArgumentError, "out of range"),
        ("cross", (S, S), errors.ShapeError, "2 or 3"),
        ("nonzero", (np.float32(1),), errors.ShapeError, "at least one axis"),
    ],
)
def test_refused(name: str, args: tuple[Any, ...], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        getattr(jnp, name)(*args)
    assert "test_shaping.py" in str(caught.value)


def test_pad_by_axis() -> None:  # which NumPy has had since 2.3
    np.testing.assert_array_equal(jnp.pad(M, {-1: (1, 0)}), np.pad(M, ((0, 0), (1, 0))))


def test_derivatives_of_moves() -> None:
    """Every element of the gradient counts how often the element was taken."""

    def total(f: Any) -> Any:
        return np.asarray(functrax.grad(lambda x: jnp.sum(f(x)))(M))

    np.testing.assert_array_equal(total(lambda x: jnp.tile(x, (2, 3))), np.full((3, 4), 6))
    np.testing.assert_array_equal(total(lambda x: jnp.pad(x, 1, "edge"))[0], [4, 2, 2, 4])
    np.testing.assert_array_equal(total(jnp.tril), np.tril(np.ones((3, 4))))
    np.testing.assert_array_equal(total(jnp.diagonal), np.eye(3, 4))
    np.testing.assert_array_equal(
        total(lambda x: jnp.repeat(x, np.array([3, 0, 1]), 0))[:, 0], [3, 0, 1]
    )
    np.testing.assert_array_equal(total(lambda x: jnp.take(x, np.array([0, 0, 5, 99])))[0, 0], 2)
    np.testing.assert_array_equal(total(lambda x: jnp.delete(x, 1, 1))[0], [1, 0, 1, 1])


class Sizes:
    """A shape of another library: it has a length and can be gone through, and is no sequence."""

    def __iter__(self):
        return iter((2, 3))

    def __len__(self):
        return 2


@pytest.mark.parametrize("shape", [Sizes(), [2, 3], np.array([2, 3]), {2: 0, 3: 0}])
def test_shapes_of_other_types(shape):
    assert jnp.broadcast_to(1.0, shape).shape == (2, 3)
    assert jnp.ones(6).reshape(shape).shape == (2, 3)
    assert jnp.ones(6).reshape(range(6, 7)).shape == (6,)


def test_shapes_of_objects_that_only_have_items():
    class Sizes:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return (2, 3)[i]

    assert jnp.reshape(jnp.arange(6), Sizes()).shape == (2, 3)


def test_a_size_that_does_not_divide_the_number_of_elements() -> None:
    with pytest.raises(errors.ShapeError, match="array of 6 elements: 4 does not divide 6"):
        jnp.arange(6).reshape(4, -1)
