"""How each public function is called that does not take arrays of n elements alone.

A case is the letters of its arguments (``tracing.py`` says what they mean) and what is done with
the function and the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

import functrax.numpy as jnp
from functrax import lax

T = TypeVar("T")


class Case(NamedTuple):
    letters: str
    call: Callable[..., Any]
    n: bool = False  # whether the number of elements is the argument behind the function


def _plain(letters: str, *args: Any, **options: Any) -> Case:
    """The arrays, and then other arguments."""
    return Case(letters, lambda f, *arrays: f(*arrays, *args, **options))


def _sized(letters: str, call: Callable[..., Any]) -> Case:
    return Case(letters, call, n=True)


def _all(names: str, module: str, what: T) -> dict[str, T]:
    """The same for functions of a module."""
    return {f"{module}.{name}": what for name in names.split()}


_POSITIONS = np.array([1, 5, 3, 99, 7, 70, 71, 73, 80, 82, 84, 86, 88, 90, 92, 94, 96])
_COUNTS = np.array([3, 1, 4, 1, 5])


def _scattered(f: Any, x: Any, i: Any, y: Any) -> Any:
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    return f(x, i[:, None], y, numbers)


def _scatter_applied(f: Any, x: Any, i: Any) -> Any:
    return f(
        x,
        i[:, None],
        jnp.sin,
        lax.ScatterDimensionNumbers((), (0,), (0,)),
        update_shape=(i.shape[0],),
    )


def _gathered(f: Any, x: Any, i: Any) -> Any:
    return f(x, i[:, None], lax.GatherDimensionNumbers((), (0,), (0,)), (1,))


def _solved(f: Any, x: Any) -> Any:
    return f(lambda v: 2 * v, x, lambda matvec, b: b / 2, lambda matvec, b: b / 2)


def _root(f: Any, x: Any) -> Any:
    return f(lambda v: 2 * v - x, x, lambda g, v: v, lambda g, y: y / 2)


def _with_padding(mode: str, **options: Any) -> Case:
    return _sized("v", lambda f, n, x: f(x, ((n // 3, 5),), mode, **options))


_along_v = _plain("v", 0)
_index_1 = _plain("vyv")
_segments = _plain("vi", num_segments=7)
_shape_like = _sized("g", lambda f, n, key: f(key, shape=(n,)))
_initializer = _sized("g", lambda f, n, key: f()(key, (8, n // 8)))
_sets = _plain("vv", size=100)
_unique = _plain("v", size=100)

CASES: Final[dict[str, Case | Sequence[Case]]] = {
    # functrax.lax
    **_all("argmax argmin", "lax", _plain("v", 0, np.int32)),
    **_all("approx_max_k approx_min_k top_k", "lax", _plain("v", 10)),
    **_all("reduce_and reduce_or reduce_xor", "lax", _plain("i", (0,))),
    **_all("reduce_max reduce_min reduce_prod reduce_sum", "lax", _plain("v", (0,))),
    **_all(
        "scatter scatter_add scatter_max scatter_min scatter_mul scatter_sub",
        "lax",
        Case("viv", _scattered),
    ),
    "lax.bitcast_convert_type": _plain("v", np.int32),
    "lax.broadcast": _sized("s", lambda f, n, x: f(x, (n,))),
    "lax.broadcast_in_dim": _sized("s", lambda f, n, x: f(x, (n, 3), ())),
    "lax.broadcast_to_rank": _plain("v", 3),
    "lax.broadcasted_iota": _sized("", lambda f, n: f(np.int32, (n, 3), 0)),
    "lax.collapse": _plain("l", 0),
    "lax.composite": Case("v", lambda f, x: f(jnp.sin, "test.sin")(x)),
    "lax.concatenate": Case("vv", lambda f, x, y: f([x, y], 0)),
    "lax.cond": Case("sv", lambda f, s, x: f(s > 0, jnp.sin, jnp.cos, x)),
    "lax.conv": _sized("ve", lambda f, n, x, k: f(x[None, None], k[None, None], (1,), "SAME")),
    "lax.conv_general_dilated": Case(
        "ve", lambda f, x, k: f(x[None, None], k[None, None], (1,), "SAME")
    ),
    "lax.conv_general_dilated_local": Case(
        "es", lambda f, x, k: f(x[None, None], jnp.broadcast_to(k, (1, 3, 3)), (1,), "VALID", (3,))
    ),
    "lax.conv_general_dilated_patches": Case(
        "v", lambda f, x: f(x[None, None], (3,), (1,), "SAME")
    ),
    "lax.conv_transpose": Case(
        "ve", lambda f, x, k: f(x[None, :, None], k[:, None, None], (2,), "SAME")
    ),
    "lax.conv_with_general_padding": Case(
        "ve", lambda f, x, k: f(x[None, None], k[None, None], (1,), [(2, 2)], None, None)
    ),
    "lax.convert_element_type": _plain("v", np.int32),
    "lax.custom_linear_solve": Case("v", _solved),
    "lax.custom_root": Case("v", _root),
    "lax.dot_general": _plain("vv", (((0,), (0,)), ((), ()))),
    "lax.dynamic_index_in_dim": Case("vj", lambda f, x, i: f(x, i)),
    "lax.dynamic_slice": _sized("vj", lambda f, n, x, i: f(x, (i,), (n // 2,))),
    "lax.dynamic_slice_in_dim": _sized("vj", lambda f, n, x, i: f(x, i, n // 2)),
    "lax.dynamic_update_index_in_dim": Case("vsj", lambda f, x, y, i: f(x, y, i, 0)),
    "lax.dynamic_update_slice": Case("vej", lambda f, x, y, i: f(x, y, (i,))),
    "lax.dynamic_update_slice_in_dim": Case("vej", lambda f, x, y, i: f(x, y, i, 0)),
    "lax.empty": _sized("", lambda f, n: f((n,), np.float32)),
    "lax.expand_dims": _plain("v", (0,)),
    "lax.fft": _sized("c", lambda f, n, x: f(x, "FFT", (n,))),
    "lax.fori_loop": Case("v", lambda f, x: f(0, 3, lambda i, y: y + i, x)),
    "lax.full": _sized("s", lambda f, n, x: f((n,), x)),
    "lax.full_like": _plain("v", 1),
    "lax.gather": Case("vi", _gathered),
    "lax.index_in_dim": _plain("v", 3),
    "lax.index_take": Case("vi", lambda f, x, i: f(x, (i,), (0,))),
    "lax.integer_pow": _plain("v", 3),
    "lax.iota": _sized("", lambda f, n: f(np.int32, n)),
    "lax.map": Case("v", lambda f, x: f(jnp.sin, x)),
    "lax.pad": Case("v", lambda f, x: f(x, np.float32(0), [(3, 4, 1)])),
    "lax.platform_dependent": Case("v", lambda f, x: f(x, cpu=jnp.sin, default=jnp.cos)),
    "lax.ragged_dot": Case(
        "tmy", lambda f, x, w, c: f(x, jnp.broadcast_to(w[:8, :3], (5, 8, 3)), c)
    ),
    "lax.reduce": Case("v", lambda f, x: f(x, np.float32(0), lax.add, (0,))),
    "lax.reduce_precision": _plain("v", 5, 10),
    "lax.reduce_window": Case("v", lambda f, x: f(x, np.float32(0), lax.add, (3,), (1,), "SAME")),
    "lax.reindex": _sized("v", lambda f, n, x: f(x, (n // 2,), ["2*i0"])),
    "lax.reindex_reduce": _sized("v", lambda f, n, x: f(x, "add", (n // 2,), ["i0//2"])),
    "lax.reshape": _sized("l", lambda f, n, x: f(x, (n // 8 * 8,))),
    "lax.rev": _plain("v", (0,)),
    "lax.rng_bit_generator": _sized("", lambda f, n: f(np.arange(4, dtype=np.uint32), (n,))),
    "lax.scan": Case("v", lambda f, x: f(lambda c, y: (c + y, c), np.float32(0), x)),
    "lax.scatter_apply": Case("vi", _scatter_applied),
    "lax.select": Case("bvv", lambda f, b, x, y: f(b, x, y)),
    "lax.slice": _sized("v", lambda f, n, x: f(x, (1,), (n - 1,), (2,))),
    "lax.slice_in_dim": _plain("v", 1, None, 3),
    "lax.split": _sized("v", lambda f, n, x: f(x, (n // 2, n - n // 2))),
    "lax.squeeze": Case("v", lambda f, x: f(x[None], (0,))),
    "lax.switch": Case("jv", lambda f, j, x: f(j, [jnp.sin, jnp.cos, jnp.tan], x)),
    "lax.tile": _plain("v", (3,)),
    "lax.transpose": _plain("l", (1, 0)),
    "lax.while_loop": Case("v", lambda f, x: f(lambda y: y[0] < 3, lambda y: y + 1, x)),
    "lax.unstack": _plain("l"),
    # functrax.nn
    "nn.dot_product_attention": Case(
        "t", lambda f, x: f(x[None, :, None], x[None, :64, None], x[None, :64, None])
    ),
    "nn.one_hot": _plain("i", 10),
    **_all(
        "glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform "
        "lecun_normal lecun_uniform normal orthogonal truncated_normal uniform xavier_normal "
        "xavier_uniform",
        "nn.initializers",
        _initializer,
    ),
    **_all("ones zeros", "nn.initializers", _sized("g", lambda f, n, key: f(key, (n,)))),
    "nn.initializers.constant": _sized("g", lambda f, n, key: f(3.0)(key, (n,))),
    "nn.initializers.delta_orthogonal": _sized("g", lambda f, n, key: f()(key, (n // 64, 3, 8))),
    "nn.initializers.variance_scaling": _sized(
        "g", lambda f, n, key: f(1.0, "fan_in", "normal")(key, (8, n // 8))
    ),
    "lax.stack": Case("vv", lambda f, *x: f(x)),
    # functrax.numpy
    "numpy.block": Case("vv", lambda f, *x: f(list(x))),
    "numpy.lexsort": Case("vv", lambda f, *x: f(x)),
    **_all(
        "column_stack concat concatenate dstack hstack stack vstack",
        "numpy",
        Case("vv", lambda f, *x: f(x)),
    ),
    **_all("unstack", "numpy", _plain("l")),
    **_all("bartlett blackman hamming hanning", "numpy", _sized("", lambda f, n: f(n))),
    **_all(
        "empty full ones zeros", "numpy", _sized("", lambda f, n: f((n,), *[3] * (f is jnp.full)))
    ),
    **_all(
        "eye identity tri tril_indices triu_indices diag_indices",
        "numpy",
        _sized("", lambda f, n: f(int(n**0.5))),
    ),
    **_all("fftfreq rfftfreq", "numpy.fft", _sized("", lambda f, n: f(n))),
    **_all("argwhere flatnonzero nonzero", "numpy", _plain("v", size=100)),
    **_all("argpartition partition", "numpy", _plain("v", 10)),
    **_all("intersect1d setdiff1d setxor1d union1d", "numpy", _sets),
    **_all("unique unique_all unique_counts unique_inverse unique_values", "numpy", _unique),
    **_all("array_split split hsplit", "numpy", _sized("v", lambda f, n, x: f(x, [n // 2]))),
    "numpy.apply_along_axis": Case("t", lambda f, x: f(jnp.cumsum, 1, x)),
    "numpy.apply_over_axes": Case("t", lambda f, x: f(jnp.sum, x, [0])),
    "numpy.arange": [
        _sized("", lambda f, n: f(n)),
        _sized("", lambda f, n: f(3, n + 3)),
        _sized("", lambda f, n: f(0.5, n / 8, 0.125)),
    ],
    "numpy.astype": _plain("v", np.int32),
    "numpy.bincount": _plain("i", length=10),
    "numpy.broadcast_to": _sized("s", lambda f, n, x: f(x, (n,))),
    "numpy.choose": Case("yxx", lambda f, i, *rows: f(i, rows, mode="clip")),
    "numpy.compress": Case("v", lambda f, x: f(np.array([True, False] * 20), x)),
    "numpy.cross": Case("t", lambda f, x: f(x[:, :3], x[:, 3:6])),
    "numpy.delete": [
        _plain("v", 3),
        _plain("v", slice(1, None, 3)),
        _plain("v", slice(5, 2, -1)),
        _plain("v", _POSITIONS),
        _plain("v", _POSITIONS[:4]),
        Case("vi", lambda f, x, i: f(x, i[:9], assume_unique_indices=True)),
    ],
    "numpy.diff": [_plain("v"), _plain("v", 3)],
    "numpy.dsplit": Case("t", lambda f, x: f(x[..., None, None].reshape(-1, 2, 4), 2)),
    "numpy.einsum": Case("tt", lambda f, x, y: f("ij,ij->j", x, y)),
    "numpy.expand_dims": _along_v,
    "numpy.extract": Case("v", lambda f, x: f(np.array([True, False] * 20), x[:40], size=3)),
    "numpy.fill_diagonal": _plain("ms", inplace=False),
    "numpy.fromfunction": _sized("", lambda f, n: f(lambda i: i * 2, (n,))),
    "numpy.histogramdd": Case("t", lambda f, x: f(x[:, :2], 5)),
    "numpy.indices": [
        _sized("", lambda f, n: f((n // 8, 8))),
        _sized("", lambda f, n: f((n, 8), sparse=True)),
    ],
    "numpy.insert": [
        Case("vs", lambda f, x, y: f(x, 0, y)),
        Case("ve", lambda f, x, y: f(x, 3, y)),
        _sized("vs", lambda f, n, x, y: f(x, n // 2, y)),
        Case("vs", lambda f, x, y: f(x, slice(1, None, 3), y)),
        Case("vs", lambda f, x, y: f(x, _POSITIONS, y)),
        Case("vis", lambda f, x, i, y: f(x, i[:9], y)),
    ],
    "numpy.kaiser": _sized("s", lambda f, n, x: f(n, x)),
    "numpy.mask_indices": _sized("", lambda f, n: f(int(n**0.5), jnp.triu, size=50)),
    "numpy.moveaxis": _plain("l", 0, 1),
    "numpy.pad": [
        *(
            _with_padding(mode)
            for mode in (
                "constant",
                "edge",
                "reflect",
                "symmetric",
                "wrap",
                "linear_ramp",
                "maximum",
                "mean",
                "empty",
            )
        ),
        *(_with_padding(mode, reflect_type="odd") for mode in ("reflect", "symmetric")),
        *(
            _sized("e", lambda f, n, x, mode=mode: f(x, n, mode))
            for mode in ("reflect", "symmetric", "wrap", "edge")
        ),
        _sized("e", lambda f, n, x: f(x, n, "reflect", reflect_type="odd")),
    ],
    "numpy.permute_dims": _plain("l", (1, 0)),
    "numpy.piecewise": Case("v", lambda f, x: f(x, [x < 0, x > 1], [0, jnp.sin, 1])),
    "numpy.place": Case("vb", lambda f, x, b: f(x, b, np.float32([1, 2]), inplace=False)),
    "numpy.poly": _plain("e"),
    "numpy.polyfit": _plain("vv", 3),
    "numpy.put": _plain("vyv", inplace=False),
    "numpy.put_along_axis": _plain("viv", 0, inplace=False),
    "numpy.ravel_multi_index": _sized(
        "ii", lambda f, n, i, k: f((i, k), (n // 1000, 1000), mode="clip")
    ),
    "numpy.repeat": [
        _plain("v", 3),
        _plain("l", 3, 0),
        _plain("v", 2, total_repeat_length=77),
        _sized("v", lambda f, n, x: f(x, 2, total_repeat_length=3 * n)),
        _sized("e", lambda f, n, x: f(x, _COUNTS, total_repeat_length=n)),
        _sized("e", lambda f, n, x: f(x, _COUNTS * (n // 50))),
        _sized("vi", lambda f, n, x, i: f(x, i, total_repeat_length=n)),
        Case("vj", lambda f, x, j: f(x, j, total_repeat_length=99)),
    ],
    "numpy.reshape": _sized("l", lambda f, n, x: f(x, (n // 8, 8))),
    "numpy.resize": _sized("v", lambda f, n, x: f(x, (3 * n,))),
    "numpy.roll": [
        _plain("v", 3),
        _plain("v", -(10**12)),
        _plain("l", (1, 2), (0, 1)),
        Case("vj", lambda f, x, j: f(x, j)),
        _plain("l", 5),
    ],
    "numpy.rollaxis": _plain("l", 1),
    "numpy.roots": _plain("e", strip_zeros=False),
    "numpy.select": Case("bv", lambda f, b, x: f([b], [x])),
    "numpy.swapaxes": _plain("l", 0, 1),
    "numpy.tile": [_plain("v", 3), _sized("e", lambda f, n, x: f(x, n))],
    "numpy.unpackbits": _plain("u"),
    "numpy.unravel_index": _sized("i", lambda f, n, i: f(i, (n // 10, 10))),
    "numpy.vectorize": Case("v", lambda f, x: f(jnp.sin)(x)),
    "numpy.vsplit": Case("t", lambda f, x: f(x, [3])),
    "numpy.linalg.cross": Case("t", lambda f, x: f(x[:, :3], x[:, 3:6])),
    "numpy.linalg.matrix_power": _plain("m", 5),
    "numpy.linalg.multi_dot": Case("mmm", lambda f, *x: f(x)),
    "numpy.linalg.tensorinv": Case("x", lambda f, x: f(x.reshape(5, 5, 1), ind=1)),
    "numpy.linalg.tensorsolve": Case("m", lambda f, x: f(x, x[0])),
    # functrax.ops
    **_all(
        "index_add index_max index_min index_mul index_update",
        "ops",
        Case("vis", lambda f, x, i, y: f(x, i, y)),
    ),
    **_all("segment_max segment_min segment_prod segment_sum", "ops", _segments),
    # functrax.image
    "image.resize": _sized("l", lambda f, n, x: f(x, (8, n // 4), "linear")),
    "image.scale_and_translate": _sized(
        "l", lambda f, n, x: f(x, (8, n // 4), (1,), np.float32([2]), np.float32([0]), "linear")
    ),
    # functrax.random
    **_all("ball orthogonal", "random", _sized("g", lambda f, n, key: f(key, 3, shape=(n // 9,)))),
    **_all("bernoulli", "random", _sized("g", lambda f, n, key: f(key, 0.5, (n,)))),
    **_all(
        "bits cauchy exponential gumbel laplace logistic lognormal maxwell normal rademacher "
        "uniform",
        "random",
        _shape_like,
    ),
    **_all(
        "chisquare gamma geometric loggamma pareto poisson t rayleigh wald",
        "random",
        Case("gv", lambda f, key, x: f(key, jnp.clip(x, 0.1, 1))),
    ),
    "random.generalized_normal": _sized("g", lambda f, n, key: f(key, 3.0, (n,))),
    "random.randint": _sized("g", lambda f, n, key: f(key, (n,), 3, 9)),
    **_all(
        "beta f binomial double_sided_maxwell truncated_normal weibull_min",
        "random",
        _sized("g", lambda f, n, key: f(key, *(3, 5), shape=(n,))),
    ),
    "random.triangular": _sized("g", lambda f, n, key: f(key, 0.0, 0.5, 1.0, (n,))),
    "random.categorical": Case("gt", lambda f, key, x: f(key, x)),
    "random.choice": [
        _sized("g", lambda f, n, key: f(key, n, (9,))),
        _sized("g", lambda f, n, key: f(key, n, (9,), replace=False)),
        Case("gv", lambda f, key, x: f(key, x, (9,), p=x)),
    ],
    "random.dirichlet": _sized("ge", lambda f, n, key, x: f(key, x, (n // 5,))),
    "random.fold_in": Case("gj", lambda f, key, j: f(key, j)),
    "random.multinomial": Case("gt", lambda f, key, x: f(key, 10.0, x)),
    "random.multivariate_normal": _sized(
        "ged", lambda f, n, key, x, d: f(key, x[:3], d, (n // 3,))
    ),
    "random.permutation": [
        _sized("g", lambda f, n, key: f(key, n)),
        Case("gv", lambda f, key, x: f(key, x)),
        Case("gt", lambda f, key, x: f(key, x, 1, independent=True)),
    ],
    "random.split": _sized("g", lambda f, n, key: f(key, n)),
    # functrax.scipy
    "scipy.cluster.vq.vq": Case("td", lambda f, x, d: f(x[:, :3], d)),
    "scipy.linalg.block_diag": _plain("mm"),
    "scipy.linalg.cho_solve": Case("mm", lambda f, x, y: f((x, True), y)),
    "scipy.linalg.convolution_matrix": _sized("v", lambda f, n, x: f(x, 3)),
    "scipy.linalg.eigh_tridiagonal": Case("vv", lambda f, x, y: f(x, y[1:], eigvals_only=True)),
    "scipy.linalg.funm": Case("m", lambda f, x: f(x, jnp.exp)),
    "scipy.linalg.leslie": Case("mm", lambda f, x, y: f(x[0], y[0, 1:])),
    "scipy.linalg.lu_solve": Case("mhm", lambda f, x, i, y: f((x, i[0]), y)),
    "scipy.linalg.solve_sylvester": _plain("ddd"),
    "scipy.ndimage.map_coordinates": Case("vv", lambda f, x, y: f(x, [y], 1)),
    "scipy.signal.istft": _plain("l"),  # the window is a constant of a segment's size
    "scipy.special.bessel_jn": Case("v", lambda f, x: f(x, v=3)),
    "scipy.special.hyp2f1": _plain("vvvv"),
    "scipy.special.multigammaln": _plain("v", 3),
    "scipy.special.sph_harm_y": Case("iivv", lambda f, n, m, x, y: f(n, m, x, y, n_max=5)),
    **_all("logpmf pmf", "scipy.stats.betabinom", _plain("vvvv")),
    **_all(
        "logpdf pdf",
        "scipy.stats.multivariate_normal",
        Case("ted", lambda f, x, e, d: f(x[:, :3], e[:3], d)),
    ),
    **_all("dft helmert hilbert", "scipy.linalg", _sized("", lambda f, n: f(int(n**0.5)))),
    "scipy.linalg.hadamard": _sized("", lambda f, n: f(1 << (n.bit_length() // 2))),
    **_all(
        "circulant companion fiedler fiedler_companion hankel toeplitz",
        "scipy.linalg",
        Case("m", lambda f, x: f(x[0])),
    ),
    "numpy.vander": [_plain("v", 4), Case("m", lambda f, x: f(x[0]))],
}

_NO_ARRAY = "takes and makes no array whose size a caller chooses"
_VALUES = "looks at values, or makes an array of what is not an array"
_DEVICES = "needs the axis of a mesh or of vmap; tests/places traces it"
_FLOATS = "integers that no float holds from some hundreds of rows on"
_DTYPES = "takes arrays of dtypes for which tests/lax has cases"

#: Functions without a case, and why.
EXCEPTIONS: Final = {
    **_all("all_gather all_to_all axis_index axis_size pbroadcast pcast pmax pmean pmin ppermute "
           "pshuffle psum psum_scatter pswapaxes with_sharding_constraint", "lax", _DEVICES),
    **_all("after_all broadcast_shapes conv_dimension_numbers conv_general_permutations "
           "conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple create_token "
           "dtype padtype_to_pads reduce_window_shape_tuple shape_as_value", "lax", _NO_ARRAY),
    **_all("broadcast_shapes can_cast einsum_path finfo frompyfunc get_printoptions iinfo isdtype "
           "printoptions promote_types result_type set_printoptions", "numpy", _NO_ARRAY),
    **_all("array_repr array_str from_dlpack frombuffer fromfile fromiter fromstring load save "
           "savez trim_zeros", "numpy", _VALUES),
    **_all("PRNGKey key key_dtype key_impl wrap_key_data", "random", _NO_ARRAY),
    **_all("invhilbert invpascal pascal", "scipy.linalg", _FLOATS),
    "scipy.special.bernoulli": _FLOATS,
    "lax.associative_scan": "a program of as many steps as the number of elements has bits",
    "lax.ragged_dot_general": _DTYPES,
    "nn.scaled_matmul": _DTYPES,
}  # fmt: skip

#: Functions of which only the value is traced: some argument has no derivative.
WITHOUT_GRADIENT: Final = frozenset(
    {
        **_all(
            "betainc igamma_grad_a nextafter polygamma random_gamma_grad scatter_mul zeta", "lax", 0
        ),
        **_all("funm hessenberg qr_multiply schur", "scipy.linalg", 0),
        **_all("betainc polygamma zeta", "scipy.special", 0),
        **_all("cdf logcdf logsf sf", "scipy.stats.beta", 0),
        **_all("nextafter spacing", "numpy", 0),
        **_all("index_mul segment_prod", "ops", 0),
        "scipy.linalg.cho_factor": 0,  # one of its results is no array
        "numpy.linalg.eig": 0,
    }
)
