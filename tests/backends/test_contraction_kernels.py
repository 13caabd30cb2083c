"""The kernels of contractions against float64: shapes, layouts, dtypes, windows, fused parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation import codegen, lowering
from functrax.backends.compilation.assembly import Assembly
from functrax.backends.compilation.codegen import GroupCode, group_code
from functrax.backends.compilation.kernel_table import KernelTable
from functrax.backends.compilation.pipeline import run_pipeline
from functrax.backends.compilation.provenance import Members
from functrax.backends.cpu import CpuDevice
from functrax.backends.gemm import blocking
from functrax.backends.gemm.lower_contraction import contraction_kernels
from functrax.backends.kernels.accesses import accesses, coefficient
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.llvm.emit import emit_kernel
from functrax.backends.loops.strategies.schedule import LeftOut, scheduled_trees
from functrax.backends.passes.groups import contraction, grouped
from functrax.backends.runtime.choice import load
from functrax.backends.targets import schedule_target
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import Override
from functrax.core.options.contexts import enable_x64
from functrax.core.records import replace
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.stage import close, stage
from tests.backends.machines import ANY

Array = np.ndarray[Any, Any]
SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 64, 97)
#: What one rounding is, and the dtype that a sum of products of a dtype is rounded in.
EPS = {
    np.float32: 2.0**-24,
    np.float64: 2.0**-53,
    ml_dtypes.bfloat16: 2.0**-8,
    np.float16: 2.0**-11,
}


def group(function: Callable[..., Any], *args: Array) -> Jaxpr:
    """The equations of a function as the program of one contraction."""
    jaxpr, consts = stage(lambda *xs: [function(*xs)], [as_value(x).aval for x in args])
    assert not consts
    inner = close(jaxpr)
    eqn = grouped(contraction, list(inner.eqns), list(inner.outvars), "contraction")
    return Jaxpr((), inner.invars, eqn.outvars, (eqn,), "test")


def run(function: Callable[..., Any], *args: Array) -> Array:
    """A function's result by the kernels of one contraction, and by nothing else."""
    outer = group(function, *args)
    codes = KernelTable(outer)
    code = codes.code(outer.eqns[0])
    assert isinstance(code, GroupCode), code
    assert any(x.kernel.tiling is not None for x in code.kernels)
    empty = run_pipeline(Jaxpr((), (), (), (), "empty"))
    program = Assembly(outer, False, Members(empty), codes).program()
    (out,) = load(program)(args)
    return np.asarray(out)


def agree(got: Array, want: Array, bound: Array, terms: int, eps: float) -> None:
    """Whether a sum of ``terms`` products has the error of that many roundings at most."""
    assert got.shape == want.shape
    error = np.abs(got.astype(np.float64) - want)
    assert np.all(error <= (terms + 4) * eps * bound + 1e-300), error.max()


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    if np.dtype(dtype).kind in "iu":
        return rng.integers(-100 if np.dtype(dtype).kind == "i" else 0, 100, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def products(subscripts: str, *args: Array) -> tuple[Array, Array]:
    """An einsum in float64, and that of absolute values."""
    wide = [x.astype(np.float64) for x in args]
    return np.einsum(subscripts, *wide), np.einsum(subscripts, *map(np.abs, wide))


def sized(subscripts: str, rng: np.random.Generator) -> tuple[list[tuple[int, ...]], int]:
    """Shapes for the operands of an einsum, and how many products an element sums."""
    left, result = subscripts.split("->")
    size = {k: int(rng.choice(SIZES if k in "mnk" else SIZES[:6])) for k in left if k != ","}
    summed = [size[k] for k in size if k not in result]
    return [tuple(size[k] for k in part) for part in left.split(",")], int(np.prod(summed))


LAYOUTS = (
    "mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->nm", "mk,kn->nm", "bmk,bkn->bmn", "mbk,nbk->bmn",
    "bmk,kn->bmn", "amk,bnk->abmn", "mak,kan->mn", "kma,kbn->banm", "bthd,bshd->bhts",
    "bhts,bshd->bthd", "mab,nab->mn",
)  # fmt: skip


@pytest.mark.parametrize("subscripts", LAYOUTS)
@pytest.mark.parametrize("seed", range(6))
def test_einsum(subscripts: str, seed: int) -> None:
    rng = np.random.default_rng(100 * LAYOUTS.index(subscripts) + seed)
    dtype = (np.float32, np.float64)[seed % 2]
    shapes, terms = sized(subscripts, rng)
    args = [draw(rng, shape, dtype) for shape in shapes]
    with enable_x64():
        got = np.asarray(functrax.jit(lambda x, y: jnp.einsum(subscripts, x, y))(*args))
    assert got.dtype == dtype
    agree(got, *products(subscripts, *args), terms, EPS[dtype])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8, np.uint16, np.int32])
@pytest.mark.parametrize("seed", range(3))
def test_dtypes(dtype: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, n, k = (int(x) for x in rng.choice(SIZES[3:], 3))
    x, y = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
    got = run(lambda x, y: x @ y, x, y)
    assert got.dtype == dtype
    want, bound = products("mk,kn->mn", x, y)
    if np.dtype(dtype).kind in "iu":
        np.testing.assert_array_equal(got, want.astype(np.int64).astype(dtype))
    else:  # added up in float32, then rounded once
        agree(got, want, np.abs(want) + bound * k * 2.0**-16, 1, EPS[dtype])


def test_prologue_and_epilogue() -> None:
    """What stands before the product and after the sum is part of the kernels."""
    rng = np.random.default_rng(0)
    x, w, b = draw(rng, (37, 50), np.float32), draw(rng, (50, 29), np.float32), rng.normal(size=29)
    b = b.astype(np.float32)

    def function(x: Any, w: Any, b: Any) -> Any:
        return jnp.tanh(jnp.maximum(x, 0) @ (2 * w) + b).T

    want = np.tanh(np.maximum(x, 0).astype(np.float64) @ (2.0 * w) + b).T
    np.testing.assert_allclose(run(function, x, w, b), want, rtol=0, atol=2e-5)


def test_the_epilogue_reads_other_arrays() -> None:
    rng = np.random.default_rng(1)
    x, y, z = (draw(rng, shape, np.float32) for shape in ((5, 33, 20), (5, 20, 18), (5, 33, 18)))
    got = run(lambda x, y, z: z + jnp.where(z > 0, x @ y, 0), x, y, z)
    want = z + np.where(z > 0, x.astype(np.float64) @ y, 0)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"padding": "VALID"},
    {"window_strides": (2, 2)},
    {"window_strides": (2, 1), "padding": ((2, 0), (1, 3))},
    {"rhs_dilation": (2, 2)},
    {"rhs_dilation": (1, 3), "window_strides": (2, 2)},
    {"lhs_dilation": (2, 2), "padding": ((1, 2), (2, 1))},
    {"lhs_dilation": (3, 2), "window_strides": (2, 1), "padding": ((1, 2), (2, 1))},
    {"feature_group_count": 3},
    {"feature_group_count": 6},
    {"batch_group_count": 2},
    {"dimension_numbers": ("NHWC", "HWIO", "NHWC")},
    {"dimension_numbers": ("NHWC", "OIHW", "NCHW"), "window_strides": (2, 2)},
    {"dimension_numbers": ("CNHW", "IOHW", "HWNC")},
]


def convolution(seed: int, params: dict[str, Any]) -> tuple[Callable[..., Any], list[Array]]:
    """A convolution of random sizes, and its arguments in float64."""
    rng = np.random.default_rng(seed)
    n, c, o = 2, 6, 6 * int(rng.integers(1, 6))
    h, w, kh, kw = (
        int(rng.integers(low, high)) for low, high in ((5, 12), (5, 20), (1, 5), (1, 4))
    )
    names = params.get("dimension_numbers", ("NCHW", "OIHW", "NCHW"))
    inputs = c // params.get("feature_group_count", 1)
    sizes = {"N": n, "C": c, "H": h, "W": w}
    kernel = {"O": o, "I": inputs, "H": kh, "W": kw}
    full = {"window_strides": (1, 1), "padding": "SAME", **params}

    def function(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, **full)

    x, y = tuple(sizes[k] for k in names[0]), tuple(kernel[k] for k in names[1])
    return function, [rng.normal(size=x), rng.normal(size=y)]


@pytest.mark.parametrize("number", range(len(CONVOLUTIONS)))
@pytest.mark.parametrize("seed", range(2))
def test_convolutions_and_their_derivatives(number: int, seed: int) -> None:
    function, args = convolution(10 * number + seed, CONVOLUTIONS[number])
    narrow = [x.astype(np.float32) for x in args]

    def both(x: Any, w: Any) -> Any:
        out, back = functrax.vjp(function, x, w)
        return out, *back(jnp.cos(jnp.arange(out.size, dtype=out.dtype)).reshape(out.shape))

    got = functrax.jit(both)(*narrow)
    with enable_x64(), functrax.backend("interp"):
        want = both(*map(jnp.asarray, args))
    for a, b in zip(got, want, strict=True):
        first, second = np.asarray(a), np.asarray(b)
        atol = 3e-6 * np.abs(second).max() + 1e-5
        np.testing.assert_allclose(first, second, rtol=0, atol=atol)


def strategies(function: Callable[..., Any], *shapes: tuple[int, ...]) -> list[str]:
    """How a contraction is tiled."""
    outer = group(function, *[np.zeros(s, np.float32) for s in shapes])
    inner = outer.eqns[0].params["jaxpr"]
    return [str(x.kernel.tiling) for x in contraction_kernels(inner, "x", ANY) if x.kernel.tiling]


def test_strategies() -> None:
    """Large squares are packed, small matrices and aligned windows read in place."""
    (square,) = strategies(lambda x, y: x @ y, (1024, 1024), (1024, 1024))
    assert square.endswith("left packed; right packed")
    (long,) = strategies(lambda x, y: x @ y, (1024, 2048), (2048, 1024))
    assert "left packed; right packed; d2 in blocks of 512" in long
    (small,) = strategies(lambda x, y: x @ y, (64, 16, 16), (64, 16, 16))
    assert small == "batch d0; tile d1 16 x d2 1*16; left in place; right in place"
    (channels,) = strategies(lambda x, y: jnp.einsum("bk,bkn->bn", x, y), (9, 20), (9, 20, 40))
    assert channels.startswith("batch d0; tile d0 1 x d1")


def test_plans_are_exact_for_sizes_of_images() -> None:
    """56 is no multiple of a vector, but of tiles along rows; 54 is planned as the next power."""

    def same(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), "SAME")

    tilings = [
        strategies(same, (2, 64, n, n), (64, 64, 3, 3))[0].partition(";")[0] for n in (56, 54, 64)
    ]
    assert tilings[0] != tilings[1] == tilings[2]
    products = [strategies(lambda x, y: x @ y, (n, 64), (64, 512)) for n in (56, 54, 64)]
    assert products[0] == products[1] == products[2]


def test_units_follow_from_the_second_cache() -> None:
    """The rows of a unit fit a part of it."""
    outer = group(lambda x, y: x @ y, *[np.zeros(s, np.float32) for s in ((2048, 512), (512, 512))])
    inner = outer.eqns[0].params["jaxpr"]
    rows = {}
    for cache in (1 << 18, 2 << 20):
        kernel = contraction_kernels(inner, "x", replace(ANY, second_cache=cache))[-1].kernel
        assert kernel.tiling is not None
        rows[cache] = kernel.tiling.row_tiles * kernel.tiling.height
    assert rows[1 << 18] * 512 * 4 <= (1 << 18) // 2 < rows[2 << 20] * 512 * 4


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("mk,kn->mn", ((97, 130), (130, 33))),
        ("mk,kn->mn", ((70, 784), (784, 53))),  # in blocks of steps, of more than one length
        ("mk,kn->mn", ((130, 70), (70, 23))),  # fewer columns than a tile has
        ("mk,kn->mn", ((500, 1030), (1030, 19))),
        ("bmk,bkn->bmn", ((3, 64, 64), (3, 64, 64))),
        ("mab,abn->mn", ((40, 30, 40), (30, 40, 80))),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_columns_that_the_first_rows_copy(
    subscripts: str, shapes: tuple[tuple[int, ...], ...], dtype: Any, monkeypatch: Any
) -> None:
    every = blocking._Model.right_ways
    monkeypatch.setattr(
        blocking._Model, "right_ways", lambda *args: [x for x in every(*args) if x.copied]
    )
    rng = np.random.default_rng(len(subscripts))
    args = [draw(rng, shape, dtype) for shape in shapes]

    def function(x: Any, y: Any) -> Any:
        return jnp.einsum(subscripts, x, y)

    (text,) = strategies(function, *shapes)
    assert "copied by the first rows" in text
    terms = args[0].size // shapes[0][subscripts.index("m")]
    got = run(function, *args)
    if dtype is np.int32:
        np.testing.assert_array_equal(got, np.einsum(subscripts, *args))
    else:
        agree(got, *products(subscripts, *args), terms, EPS[dtype])


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize(
    ("rows", "columns", "steps"),
    [
        (2, 37, 5),
        (5, 64, 9),  # fewer rows than a vector has lanes
        (8, 65, 30),
        (14, 16, 30),
        (23, 33, 30),  # more than one vector high
        (130, 70, 33),  # tiles that are not whole
        (61, 97, 1100),  # in blocks of steps
    ],
)
def test_tiles_are_turned_where_results_are_contiguous_along_their_rows(
    rows: int, columns: int, steps: int, dtype: Any, follows: bool, monkeypatch: Any
) -> None:
    turning = replace(schedule_target(), turned_stores=1e-3)
    for module in (codegen, lowering):
        monkeypatch.setattr(module, "schedule_target", lambda: turning)
    rng = np.random.default_rng(rows)
    with enable_x64(dtype is np.float64):
        x, y = draw(rng, (rows, steps), dtype), draw(rng, (steps, columns), dtype)
        shift = draw(rng, (columns, rows), dtype)

        def function(x: Any, y: Any, shift: Any) -> Any:
            product = jnp.einsum("mk,kn->nm", x, y)
            return abs(product) + shift if follows else product

        inner = group(function, x, y, shift).eqns[0].params["jaxpr"]
        kernel = contraction_kernels(inner, "x", replace(ANY, turned_stores=1e-3))[-1].kernel
        assert str(kernel.tiling).endswith("sums turned")
        got = run(function, x, y, shift)
    want, bound = products("mk,kn->nm", x, y)
    if follows:
        want, bound = abs(want) + shift, bound + abs(shift)
    if dtype is np.int32:
        np.testing.assert_array_equal(got, want)
    else:
        agree(got, want, bound, steps, EPS[dtype])


def test_tiles_are_not_turned_where_results_are_apart() -> None:
    """Every second element of a row is written along the columns, in whole vectors."""

    def function(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), ((1, 2), (1, 2)), lhs_dilation=(2, 2))

    tilings = strategies(function, (4, 32, 32, 32), (64, 32, 3, 3))
    assert len(tilings) == 4 and not any(text.endswith("sums turned") for text in tilings)


@pytest.mark.parametrize("groups", [1, 4, 16, 32])
def test_what_convolutions_store_is_no_larger_than_their_arrays(groups: int) -> None:
    """Panels of groups of few channels would be filled up with zeros, to eight times their size."""
    x = np.zeros((4, 64, 20, 20), np.float32)
    w = np.zeros((64, 64 // groups, 3, 3), np.float32)

    def loss(x: Any, w: Any) -> Any:
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=groups)
        return jnp.sum(y * y)

    program = functrax.explain(functrax.grad(loss, (0, 1)))(x, w).program
    assert max(int(np.prod(slot.shape)) for slot in program.slots) < 1.5 * x.size


def test_what_is_no_contraction() -> None:
    for function in (
        lambda x, y: (x * y).sum(),
        lambda x, y: x @ y[0],
        lambda x, y: (x[:, None] + y.T[None]).sum(2),
        lambda x, y: x.max(1),
    ):
        jaxpr = group(function, np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32))
        found = contraction_kernels(jaxpr.eqns[0].params["jaxpr"], "x", ANY)
        assert isinstance(found, Refusal)


def test_equal_text_for_other_sizes() -> None:
    """Sizes are arguments: a contraction of another batch is the same machine code."""
    texts = []
    for batch in (70, 90):
        x, y = np.zeros((batch, 300), np.float32), np.zeros((300, 512), np.float32)
        code = group_code(group(lambda x, y: x @ y, x, y).eqns[0])
        texts.append([kernel.emitted.text for kernel in code.kernels])
    assert texts[0] == texts[1]


# ---- holes ----------------------------------------------------------------------------------


def _holes(fill, function):
    """A product of a window of an array with holes, what fills them going through a function."""

    def f(x, w):
        held = function(lax.pad(x, jnp.float32(fill), [(0, 0, 0), (0, 0, 0), (1, 0, 1), (0, 1, 1)]))
        return lax.conv_general_dilated(held, w, (1, 1), "SAME")

    return f


@pytest.mark.parametrize(
    ("fill", "function"),
    [(0.0, lambda x: 2 * x), (0.0, jnp.cos), (0.0, lambda x: x + 1), (1.5, lambda x: x)],
    ids=["zero", "cos", "one more", "filled"],
)
def test_what_stands_in_holes_counts(fill, function):
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((2, 8, 9, 9)).astype("f4"))
    w = jnp.asarray(rng.standard_normal((16, 8, 3, 3)).astype("f4"))
    f = _holes(fill, function)
    with functrax.backend("interp"):
        wanted = np.asarray(f(x, w))
    np.testing.assert_allclose(functrax.jit(f)(x, w), wanted, rtol=1e-4, atol=1e-3)


def test_holes_of_what_is_added_are_not_those_of_the_sum():
    """The gradient of a residual block whose shortcut has a stride, as its two branches have."""
    rng = np.random.default_rng(0)
    x, w, v = (
        jnp.asarray(rng.standard_normal(s).astype("f4"))
        for s in ((4, 16, 16, 16), (32, 16, 3, 3), (32, 16, 1, 1))
    )

    def loss(x):
        both = (
            lax.conv_general_dilated(x, w, (2, 2), "SAME"),
            lax.conv_general_dilated(x, v, (2, 2), "SAME"),
        )
        return (jnp.sin(both[0]) + both[1] ** 2).sum()

    def slope(x):
        return jnp.where(x > 0, functrax.grad(loss)(x), 0) * 2

    with functrax.backend("interp"):
        wanted = np.asarray(slope(x))
    np.testing.assert_allclose(functrax.jit(slope)(x), wanted, rtol=1e-4, atol=1e-3)


def test_strict_mode_has_kernels_of_its_own():
    """Equal groups share their code: what eager mode compiled strictly is not what jit takes."""
    x = np.ones((64, 64), np.float32)
    jaxpr = group(lambda x, y: x @ y, x, x)

    def code():
        return KernelTable(jaxpr).code(jaxpr.eqns[0])

    with Override("strict", True):
        strict = code()
    loose = code()
    assert loose is not strict and loose is code()
    with Override("strict", True):
        assert strict is code()


@pytest.mark.parametrize("columns", [500, 512, 529])
def test_panels_are_turned_in_registers_where_the_last_one_is_not_whole(columns: int) -> None:
    """Of a panel that is not whole no row is read that is not there."""
    x, y = (np.random.default_rng(1).normal(size=(n, 90)).astype("f4") for n in (300, columns))
    inner = group(lambda x, y: x @ y.T, x, y).eqns[0].params["jaxpr"]
    *before, last = [x.kernel for x in contraction_kernels(inner, "x", ANY)]
    assert str(last.tiling).endswith("right packed")
    trees = [tree for kernel in before for _, tree in scheduled_trees(kernel, ANY)]
    assert trees and all("gather" not in emit_kernel(tree).text for tree in trees)
    got = run(lambda x, y: x @ y.T, x, y)
    agree(got, *products("mk,nk->mn", x, y), 90, EPS[np.float32])


@pytest.mark.parametrize("off", ["", "prefetch"])
def test_windows_are_stored_in_the_order_in_which_their_image_is_read(off: str) -> None:
    def same(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), "SAME")

    shapes = (2, 64, 32, 32), (64, 64, 3, 3)
    inner = group(same, *[np.zeros(s, np.float32) for s in shapes]).eqns[0].params["jaxpr"]
    left_out = LeftOut(frozenset(off.split()))
    kernels = [x.kernel for x in contraction_kernels(inner, "x", ANY, left_out.kinds)]
    (windows,) = (k for k in kernels if k.name.endswith(".windows"))
    ((windows, tree),) = scheduled_trees(windows, ANY, left_out)
    (address,) = (a for a, _, stored in accesses(windows) if not stored)
    steps = [abs(coefficient(address, d)) for d in windows.outer]
    assert steps == sorted(steps, reverse=True)
    assert ("llvm.prefetch" in emit_kernel(tree).text) == (not off)


def test_windows_past_the_caches_begin_rows_with_a_short_vector():
    def image(n):
        return functrax.ShapeDtypeStruct((2, 3, n, n), "float32")

    weights = functrax.ShapeDtypeStruct((8, 3, 3, 3), "float32")
    same = functrax.jit(lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME"))
    compiled = CpuDevice().compiled(same.lower(image(1001), weights).jaxpr)
    kernels = [code.kernel for work in compiled.works for code in work.code.kernels]
    assert any(x.kind == "align" for kernel in kernels for x in kernel.schedule)
