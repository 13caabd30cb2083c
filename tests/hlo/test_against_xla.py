"""XLA reads every program that is written, and computes with it what functrax computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import functrax.numpy as jnp
import functrax.scipy as jsp
from functrax import checkpoint, custom_jvp, custom_vjp, grad, jit, lax, random, vjp, vmap
from functrax.core.ir.jaxpr import all_eqns
from functrax.core.options.contexts import enable_x64
from functrax.core.tracing.primitive import registry
from functrax.core.types import dtypes
from functrax.custom_derivatives import linear_call
from functrax.errors import UnavailableError
from functrax.transforms.hlo.computations.literals import has_dtype
from functrax.transforms.hlo.hlo_module import hlo_program
from functrax.tree_util import tree_leaves
from tests.backends import random_checks
from tests.backends.random_contractions import contraction
from tests.backends.random_functions import RandomFunction
from tests.hlo import xla
from tests.primitives import harness
from tests.programs import models

pytestmark = pytest.mark.jax

UNITS = 64
CASES = list(harness.cases())
#: Primitives that XLA has no instruction for.
UNAVAILABLE = frozenset(
    {
        "cofactor", "det", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "linear_solve", "lu",
        "lu_pivots_to_permutation", "qr", "schur", "slogdet", "svd", "tridiagonal",
    }
)  # fmt: skip
#: Primitives without samples: those of programs, which :data:`PROGRAMS` has, and these.
WITHOUT_RULE = frozenset(
    {
        "all_gather", "axis_index", "check", "contraction", "custom_vjp_linear", "debug_callback",
        "factored_solve", "fused", "index_check", "io_callback", "pmax", "pmin", "ppermute", "psum",
        "pure_callback", "pvary",
    }
)  # fmt: skip
OF_PROGRAMS = frozenset(
    {
        "checkpoint", "cond", "custom_jvp_call", "custom_linear_solve", "custom_root",
        "custom_vjp_call", "jit", "linear_call", "scan", "while",
    }
)  # fmt: skip


@pytest.fixture(autouse=True)
def jax_installed() -> None:
    pytest.importorskip("jax")


def assert_close(got: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Equal types, and values equal up to some units in the last place of the largest, or of 1."""
    assert len(got) == len(wanted)
    for found, value in zip(got, map(np.asarray, wanted), strict=True):
        assert (found.dtype, found.shape) == (value.dtype, value.shape)
        if value.dtype not in dtypes.INEXACT:
            np.testing.assert_array_equal(found, value)
            continue
        eps = UNITS * float(dtypes.finfo(value.dtype).eps)
        wide = np.complex128 if value.dtype.kind == "c" else np.float64
        want = value.astype(wide)
        scale = np.abs(want[np.isfinite(want)]).max(initial=1)
        np.testing.assert_allclose(found.astype(wide), want, rtol=0, atol=eps * scale)


def check(function: Callable[..., Any], *args: Any) -> None:
    jitted = jit(function)
    text = jitted.lower(*args).as_text("hlo")
    assert_close(xla.run(text, tree_leaves(args)), tree_leaves(jitted(*args)))


def _has_bytes(dtype: np.dtype[Any]) -> bool:
    """Whether XLA on CPUs computes with a dtype; on some of packed ones it aborts."""
    return dtypes.itemsize_bits(dtype) >= 8


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_primitives(case: harness.Case) -> None:
    with enable_x64():
        for dtype in case.tested_dtypes:
            operands = case.operands(dtype)
            lowered = jit(lambda *xs, d=dtype: case.apply(*xs, dtype=d)).lower(*operands)
            found = [a.dtype for a in (*lowered.jaxpr.in_avals, *lowered.jaxpr.out_avals)]
            name = case.primitive.name
            if name in UNAVAILABLE or not all(map(has_dtype, found)):
                words = f"hlo: {name} cannot be written" if name in UNAVAILABLE else "no arrays of"
                with pytest.raises(UnavailableError, match=words):
                    lowered.as_text("hlo")
            elif all(map(_has_bytes, found)):
                text = lowered.as_text("hlo")
                assert_close(xla.run(text, operands), lowered.compile()(*operands))
            else:
                assert xla.read(lowered.as_text("hlo")).name == "jit__lambda_"


def test_every_primitive_is_compared_or_refused() -> None:
    sampled = {case.primitive.name for case in CASES}
    assert set(registry) == sampled | WITHOUT_RULE | OF_PROGRAMS
    assert sampled > UNAVAILABLE


def wave(*shape: int) -> np.ndarray[Any, Any]:
    return np.sin(1.7 * np.arange(np.prod(shape)) ** 1.1).reshape(shape).astype(np.float32)


@pytest.mark.parametrize("name", models.PROGRAMS)
def test_models(name: str) -> None:
    function = models.PROGRAMS[name]
    text = jit(function).lower().as_text("hlo")
    got, wanted = xla.run(text, []), tree_leaves(function())
    for found, value in zip(got, map(np.asarray, wanted), strict=True):
        assert (found.dtype, found.shape) == (value.dtype, value.shape)
        if value.dtype in dtypes.INEXACT:  # after many steps of training
            np.testing.assert_allclose(found, value, rtol=2e-4, atol=2e-5)
        else:
            np.testing.assert_array_equal(found, value)


def convolutions() -> Iterator[Any]:
    image, kernel = wave(2, 7, 6, 4), wave(3, 2, 4, 6)
    for how in (
        {},
        {"window_strides": (2, 1)},
        {"rhs_dilation": (2, 1)},
        {"lhs_dilation": (1, 2), "padding": ((2, 1), (0, 3))},
        {"window_strides": (2, 3), "rhs_dilation": (1, 2), "padding": ((1, 1), (0, 2))},
        {"feature_group_count": 2},
        {"feature_group_count": 4, "window_strides": (2, 2)},
        {"batch_group_count": 2},
    ):
        groups = how.get("feature_group_count", 1)
        made = 8 if groups == 4 else 6
        weights = wave(3, 2, 4 // groups, made) if groups > 1 else kernel
        yield pytest.param(how, image, weights, id=" ".join(how))


@pytest.mark.parametrize(("how", "x", "k"), list(convolutions()))
def test_convolutions_and_their_derivatives(how: Any, x: Any, k: Any) -> None:
    numbers = ("NHWC", "HWIO", "NHWC")
    how = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": numbers, **how}

    def conv(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, **how)

    def loss(x: Any, k: Any) -> Any:
        return (conv(x, k) ** 2).sum()

    both = np.stack([x, x[::-1]]), np.stack([k, k[::-1]])
    check(conv, x, k)
    check(grad(loss, (0, 1)), x, k)
    check(vmap(conv), *both)
    check(vmap(conv, (0, None)), both[0], k)
    check(vmap(conv, (None, 0)), x, both[1])
    if how.get("batch_group_count", 1) == 1:
        text = jit(grad(loss, (0, 1))).lower(x, k).as_text("hlo")
        assert text.count(" convolution(") == 3
        assert "gather" not in text and "scatter" not in text


X = wave(3, 4)
MATRIX = X.T @ X + 4 * np.eye(4, dtype=np.float32)


@custom_jvp
def doubled(x: Any) -> Any:
    return 2 * x


doubled.defjvps(lambda t, out, x: 2 * t)


@custom_vjp
def tripled(x: Any) -> Any:
    return 3 * x


tripled.defvjp(lambda x: (3 * x, None), lambda _, ct: (3 * ct,))


def linear(x: Any) -> Any:
    """A function whose transpose is given."""
    return linear_call(lambda s, x: s * x, lambda s, ct: s * ct, 2.0, x)


def solved(a: Any, b: Any) -> Any:
    def solve(matvec: Any, b: Any) -> Any:
        return lax.fori_loop(0, 40, lambda _, x: x + 0.1 * (b - matvec(x)), b)

    return lax.custom_linear_solve(lambda x: a @ x, b, solve, symmetric=True)


def root(y: Any) -> Any:
    def newton(f: Any, x: Any) -> Any:
        return lax.fori_loop(0, 20, lambda _, x: x - f(x) / (2 * x), x)

    return lax.custom_root(lambda x: x * x - y, y, newton, lambda g, b: b / g(1.0))


def windows(x: Any) -> Any:
    return lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 2), "SAME")


def recurrence(x: Any) -> Any:
    return lax.scan(lambda c, v: (jnp.sin(c + v), c * v), x[0], x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "convolution of vectors": (jnp.convolve, (wave(9), wave(4))),
    "image of one channel": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "VALID"),
        (wave(1, 1, 8, 8), wave(1, 1, 3, 3)),
    ),
    "kernel of one place": (
        lambda x, k: lax.conv_general_dilated(x, k, (2, 2), "VALID"),
        (wave(2, 3, 8, 8), wave(4, 3, 1, 1)),
    ),
    "largest of windows": (windows, (wave(5, 7),)),
    "gradient of windows": (grad(lambda x: (windows(x) ** 2).sum()), (wave(6, 6),)),
    "sums of windows": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 3), (1, 2), "SAME"),
        (wave(5, 7),),
    ),
    "while": (
        lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, x)),
        (X,),
    ),
    "batched while": (
        vmap(lambda n: lax.while_loop(lambda i: i * i < n, lambda i: i + 1, 0)),
        (np.arange(9, dtype=np.int32),),
    ),
    "scan": (recurrence, (X,)),
    "reversed scan": (lambda x: lax.scan(lambda c, v: (c + v, c), x[0], x, reverse=True), (X,)),
    "scan of nothing": (lambda x: lax.scan(lambda c, v: (c + v, c * v), x[0], x[:0]), (X,)),
    "gradient of scan": (grad(lambda x: recurrence(x)[1].sum()), (X,)),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, jnp.sin, lambda x: x * 2, x), (X,)),
    "switch out of range": (
        lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: -x], x),
        (np.int32(7), X),
    ),
    "sorts": (lambda x: (jnp.sort(x, 0), jnp.argsort(x), lax.top_k(x, 2)), (X,)),
    "sort with NaN": (jnp.sort, (np.array([2, np.nan, -0.0, 0, -np.inf, 1], np.float32),)),
    "random numbers": (lambda k: random.normal(k, (5,)), (np.array([1, 2], np.uint32),)),
    "dynamic slices": (
        lambda x, i: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i, 1), (2, 2)), (0, i)),
        (X, np.int32(2)),
    ),
    "indices out of bounds": (
        lambda x, i: (x.at[i].get(mode="fill", fill_value=7), x[i], x.at[i].add(1.0)),
        (X, np.array([0, -1, 5, 2], np.int32)),
    ),
    "wide indices": (lambda x, i: (x[:, i], x.at[i].set(0)), (X, np.array([2, 1], np.uint32))),
    "no elements": (lambda x: (x[:0] @ x.T, x[:0].sum(0), x[:, :0] @ x[:0]), (wave(3, 3),)),
    "triangles": (
        lambda a, b: jsp.linalg.cho_solve((jnp.linalg.cholesky(a), True), b),
        (MATRIX, X.T),
    ),
    "checkpoint": (grad(lambda x: checkpoint(lambda v: jnp.sin(jnp.sin(v)))(x).sum()), (X,)),
    "custom derivatives": (lambda x: (doubled(x), tripled(x), linear(x)), (X,)),
    "their gradients": (grad(lambda x: (doubled(x) * tripled(x) + linear(x)).sum()), (X,)),
    "custom solve": (solved, (MATRIX, X[0])),
    "custom root": (root, (np.float32(2.0),)),
    "calls": (lambda x: jit(jnp.sin)(x) + jit(jnp.sin)(x + 1), (X,)),
    "vmap of gradients": (vmap(grad(lambda x: jnp.tanh(x @ x)), 1), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    function, args = PROGRAMS[name]
    check(function, *args)


def test_programs_have_all_primitives_that_hold_programs() -> None:
    lowered = [jit(function).lower(*args) for function, args in PROGRAMS.values()]
    found = {eqn.primitive.name for x in lowered for eqn in all_eqns(x.jaxpr)}
    assert found >= OF_PROGRAMS


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    kind = "smooth" if seed % 2 else "exact"
    with enable_x64(seed % 4 == 3):
        found = random_checks.derived(RandomFunction(seed, kind), seed // 4 % 5 if seed % 2 else 0)
        if found is None:
            pytest.skip("nothing to differentiate")
        program, values = random_checks.traced(*found)
        names = [f"x{n}" for n in range(len(values))]
        got = xla.run(hlo_program(program, (), names, "random").text, values)
        rng = np.random.default_rng([seed, 3])
        spread = [random_checks.noisy(program, values, rng) for _ in range(3)]
        least = random_checks.coarsest(program)
        wanted = random_checks.on_reference(program, values)
        for n, (a, b) in enumerate(zip(got, wanted, strict=True)):
            assert not random_checks.near(a, b, [s[n] for s in spread], least)


@pytest.mark.parametrize("seed", range(40))
def test_random_contractions_and_their_derivatives(seed: int) -> None:
    case = contraction(seed)
    with enable_x64():
        check(case.function, case.x, case.w)
        if all(x.dtype in dtypes.INEXACT for x in (case.x, case.w)):
            pulled = lambda x, w: vjp(case.function, x, w)[1](case.function(x, w))
            check(pulled, case.x, case.w)
