"""Complex numbers in kernels: values at the edges, errors, every kind of kernel, and equal bits.

At infinities, NaN and zeros of either sign the functions are compared with NumPy, whose values are
those of C99, Annex G; elsewhere with a wider type, by the bounds in ``docs/math.md``.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation.compiler import compile_program
from functrax.backends.executables.program import HostCall
from functrax.backends.runtime.choice import CURRENT
from functrax.core.options.config import Override, state as options
from functrax.core.options.contexts import enable_x64
from functrax.core.tracing.primitive import registry
from functrax.core.types import dtypes
from tests.backends.random_checks import as_array, traced

PAGE = Path(__file__).parents[2] / "docs" / "math.md"
BOTH = [np.complex64, np.complex128]
WIDER: dict[Any, Any] = {np.complex64: np.complex128, np.complex128: np.clongdouble}
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, math.inf, -math.inf, math.nan, 100.0, -100.0, -30.0]
FEW_EDGES = [0.0, -0.0, 1.0, -2.0, 3.0, math.inf, -math.inf, math.nan]
UNARY = "abs cos cosh exp exp2 expm1 log log1p logistic rsqrt sign sin sinh sqrt square tan tanh"


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


def compiled(f: Callable[..., Any], *args: Any) -> Any:
    """A result of a function under ``jit``, of which nothing runs by reference."""
    jaxpr, values = traced(lambda *xs: [f(*xs)], list(map(jnp.asarray, args)))
    found = compile_program(jaxpr)
    assert not [i for w in found.works for i in w.instructions if isinstance(i, HostCall)]
    return as_array(CURRENT.load(found.program)(values)[0])


def primitive(name: str, **params: Any) -> Callable[..., Any]:
    return lambda *xs: registry[name].bind(*xs, **params)


def made(re: Any, im: Any, dtype: Any) -> Any:
    z = np.empty(np.broadcast(re, im).shape, dtype)
    z.real, z.imag = re, im
    return z


def drawn(seed: int, shape: Any, dtype: Any = np.complex64) -> Any:
    rng = np.random.default_rng(seed)
    return made(rng.normal(size=shape), rng.normal(size=shape), dtype)


def kinds(x: Any) -> Any:
    """What a float is, where it is no ordinary number."""
    signs = np.where(np.signbit(x), "-", "+")
    special = np.where(np.isinf(x), np.char.add(signs, "inf"), np.char.add(signs, "0"))
    ordinary = np.isfinite(x) & (x != 0)
    return np.where(np.isnan(x), "nan", np.where(ordinary, "number", special))


def parts(z: Any) -> list[Any]:
    return [z.real, z.imag] if z.dtype.kind == "c" else [z]


def assert_alike(got: Any, want: Any, operands: Any) -> None:
    """The same special parts, and parts that are near where the modulus is."""
    assert got.dtype == want.dtype
    size = np.abs(np.nan_to_num(want, nan=0.0, posinf=0.0, neginf=0.0))
    for g, w in zip(parts(got), parts(want), strict=True):
        limits = np.finfo(g.dtype)
        least = 4 * float(limits.smallest_subnormal if options.strict else limits.smallest_normal)
        with np.errstate(invalid="ignore"):
            near = np.isfinite(g) & np.isfinite(w)
            most = 32 * np.finfo(g.dtype).eps * np.maximum(size, np.abs(w)) + least
            near &= np.abs(g - w) <= most
        wrong = ~((kinds(g) == kinds(w)) & (kinds(w) != "number") | near)
        assert not wrong.any(), (operands[0][wrong][:3], got[wrong][:3], want[wrong][:3])


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("dtype", BOTH)
def test_functions_at_the_edges(dtype: Any, strict: bool) -> None:
    z = made(*map(np.array, zip(*itertools.product(EDGES, EDGES), strict=True)), dtype)
    for name in UNARY.split():
        with np.errstate(all="ignore"):
            want = np.asarray(registry[name].reference(z))
        with Override("strict", strict):
            assert_alike(compiled(primitive(name), z), want, (z,))


@pytest.mark.parametrize("dtype", BOTH)
def test_arithmetic_at_the_edges(dtype: Any) -> None:
    a, b, c, d = map(np.array, zip(*itertools.product(FEW_EDGES, repeat=4), strict=True))
    z, w = made(a, b, dtype), made(c, d, dtype)
    for name in ("add", "sub", "mul", "div", "max", "min", "pow"):
        with np.errstate(all="ignore"):
            want = registry[name].reference(z, w)
        assert_alike(compiled(primitive(name), z, w), want, (z, w))
    for name in ("eq", "ne"):
        want = registry[name].reference(z, w)
        np.testing.assert_array_equal(compiled(primitive(name), z, w), want)
    for n in (-3, 2, 5):
        with np.errstate(all="ignore"):
            want = registry["integer_pow"].reference(z, y=n)
        assert_alike(compiled(primitive("integer_pow", y=n), z), want, (z,))
    for name in ("real", "imag", "conj", "neg"):
        want = np.ascontiguousarray(registry[name].reference(z))
        assert compiled(primitive(name), z).tobytes() == want.tobytes()
    assert compiled(primitive("complex"), z.real, w.imag).tobytes() == made(a, d, dtype).tobytes()


@pytest.mark.parametrize("dtype", BOTH)
def test_moduli_neither_overflow_nor_underflow(dtype: Any) -> None:
    limits = np.finfo(dtype)
    for size in (float(limits.max) / 8, float(limits.tiny) * 8):
        z = np.array([complex(3 * size, 4 * size), complex(-4 * size, 3 * size)], dtype)
        np.testing.assert_allclose(compiled(jnp.abs, z) / size, [5, 5], rtol=4 * limits.eps)
        np.testing.assert_allclose(compiled(jnp.sign, z), [0.6 + 0.8j, -0.8 + 0.6j], rtol=1e-6)
        np.testing.assert_allclose(compiled(jnp.divide, z, z), [1, 1], rtol=4 * limits.eps)
        assert_alike(compiled(jnp.sqrt, z), np.sqrt(z), (z,))
        assert_alike(compiled(jnp.log, z), np.log(z), (z,))


# ---- errors -------------------------------------------------------------------------------------


def bounds() -> dict[tuple[str, str], float]:
    rows = re.findall(r"^\| `(\w+)` \| (complex\d+) \| ([\d.]+) \|", PAGE.read_text(), re.M)
    return {(name, dtype): float(bound) for name, dtype, bound in rows}


def samples(name: str, dtype: Any, count: int) -> Any:
    """Ordinary numbers, those of every size, and those near the unit circle."""
    rng = np.random.default_rng(7)
    plain = drawn(8, count, dtype) * 2
    limit = 40 if name in ("cos", "cosh", "exp", "sin", "sinh", "tan", "tanh") else 1e9
    sizes = rng.uniform(-25, math.log(limit), (2, count))
    signs = rng.choice((-1, 1), (2, count))
    every = made(*(np.exp(sizes) * signs), dtype)
    turn, off = rng.uniform(-math.pi, math.pi, count), rng.normal(size=count)
    near = 1 + off * np.exp(rng.uniform(-25, 0, count))
    return np.concatenate([plain, every, made(near * np.cos(turn), near * np.sin(turn), dtype)])


@pytest.mark.parametrize(("name", "kind"), sorted(bounds()))
def test_errors_are_within_their_bounds(name: str, kind: str) -> None:
    dtype = np.dtype(kind).type
    z = samples(name, dtype, 20_000)
    got = compiled(primitive(name), z)
    want = getattr(np, name)(z.astype(WIDER[dtype]))
    limits = np.finfo(dtype)
    for g, w in zip(parts(got), parts(want), strict=True):
        last = np.ldexp(1.0, (np.frexp(np.abs(w))[1] - limits.nmant - 1).astype(int))
        last[np.abs(w) < limits.smallest_normal] = limits.smallest_normal  # which is flushed
        errors = np.abs(g - w) / last
        k = int(errors.argmax())
        assert errors[k] <= bounds()[name, kind], (z[k], got[k], want[k])


def test_logarithms_near_the_unit_circle() -> None:
    """The real part is as accurate as the sum of squares less 1, which cancels."""
    z = samples("log", np.complex128, 300)[600:]
    for shift, f in ((0, jnp.log), (1, jnp.log1p)):
        w = z - shift
        got = compiled(f, w).real
        for x, y, value in zip(w.real, w.imag, got, strict=True):
            excess = (Fraction(float(x)) + shift) ** 2 + Fraction(float(y)) ** 2 - 1
            near = abs(excess) < 0.5
            want = (math.log1p(excess) if near else math.log(excess + 1)) / 2
            assert abs(float(value) - want) <= 4 * np.spacing(abs(want)), (shift, x, y)


# ---- every kind of kernel -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("size", [1, 7, 16, 1003])
def test_elementwise(dtype: Any, size: int) -> None:
    z, w = drawn(1, size, dtype), drawn(2, size, dtype)
    x = z.real.copy()
    eps = float(np.finfo(dtype).eps)

    def f(z: Any, w: Any, x: Any) -> Any:
        return jnp.where(jnp.abs(z) < 1, z * w + 2j, jnp.conj(z) / w) * x - jnp.imag(w)

    want = np.where(np.abs(z) < 1, z * w + 2j, np.conj(z) / w) * x - np.imag(w)
    np.testing.assert_allclose(compiled(f, z, w, x), want, rtol=0, atol=40 * eps * abs(want).max())


@pytest.mark.parametrize("dtype", BOTH)
def test_moves(dtype: Any) -> None:
    z = drawn(1, (37, 50), dtype)
    rows, columns = np.array([36, 0, 5, 5]), np.array([0, 49, 3, 3])
    for f in (
        lambda z: z.T,
        lambda z: z[::-3, 1::2],
        lambda z: z.T.reshape(-1, 5)[3:],
        lambda z: z.reshape(50, 37).T,
        lambda z: z[rows, columns],
        lambda z: z[rows][:, columns],
    ):
        np.testing.assert_array_equal(compiled(lambda z, f=f: f(z) * 2, z), f(z) * 2)
    padded = compiled(lambda z: jnp.pad(z, 2, constant_values=1j) + 0j, z)
    np.testing.assert_array_equal(padded, np.pad(z, 2, constant_values=1j))
    joined = compiled(lambda z: jnp.concatenate([z, -z], 1) + 0j, z)
    np.testing.assert_array_equal(joined, np.concatenate([z, -z], 1))


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("shape", [(37, 50), (3, 4097), (20_003, 1)])
def test_reductions(dtype: Any, shape: tuple[int, ...]) -> None:
    z = drawn(3, shape, dtype)
    unit = z / np.abs(z)
    wide = z.astype(np.complex128)
    for axis in (0, 1, None):
        want = wide.sum(axis)
        np.testing.assert_allclose(compiled(lambda z, a=axis: jnp.sum(z, a), z), want, rtol=1e-5)
    product = compiled(lambda z: jnp.prod(z, 1), unit)
    np.testing.assert_allclose(product, unit.prod(1), rtol=0, atol=shape[1] * 1e-6)
    for axis in (0, 1):
        running = compiled(lambda z, a=axis: jnp.cumsum(z, a), z)
        np.testing.assert_allclose(running, wide.cumsum(axis), rtol=1e-4, atol=1e-4)
        running = compiled(lambda z, a=axis: jnp.cumprod(z, a), unit[:, :50])
        np.testing.assert_allclose(running, unit[:, :50].cumprod(axis), rtol=0, atol=2e-2)


@pytest.mark.parametrize("dtype", BOTH)
def test_updates(dtype: Any) -> None:
    z, w = drawn(1, 60, dtype), drawn(2, 100, dtype)
    index = np.random.default_rng(0).integers(0, 60, 100)
    want = z.copy()
    np.add.at(want, index, w)
    got = compiled(lambda z, w: jnp.asarray(z).at[index].add(w), z, w)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    want = z.copy()
    want[:20] *= w[:20]
    got = compiled(lambda z, w: jnp.asarray(z).at[np.arange(20)].multiply(w[:20]), z, w)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    want[5:25] = w[:20]
    got = compiled(lambda z, w: jnp.asarray(z).at[5:25].set(w[:20]), want, w)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", BOTH)
def test_loops(dtype: Any) -> None:
    turn, xs = drawn(1, 32, dtype), drawn(2, (20, 32), dtype)
    turn = (0.9 * turn / np.abs(turn)).astype(dtype)

    def recurrence(turn: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> tuple[Any, Any]:
            h = turn * h + x
            return h, h

        return lax.scan(step, jnp.zeros(32, dtype), xs)[1]

    def prefixes(turn: Any, xs: Any) -> Any:
        def combine(a: Any, b: Any) -> Any:
            return a[0] * b[0], b[0] * a[1] + b[1]

        return lax.associative_scan(combine, (jnp.broadcast_to(turn, xs.shape), xs))[1]

    def neighbours(turn: Any, xs: Any) -> Any:
        return lax.fori_loop(0, 9, lambda i, z: jnp.roll(z, 1) * turn + jnp.sum(z) / 64, xs[0])

    want, h = [], np.zeros(32, np.complex128)
    for x in xs:
        h = turn * h + x
        want.append(h)
    for f in (recurrence, prefixes):
        np.testing.assert_allclose(compiled(f, turn, xs), want, rtol=0, atol=2e-5)
    z = xs[0].astype(np.complex128)
    for _ in range(9):
        z = np.roll(z, 1) * turn + z.sum() / 64
    np.testing.assert_allclose(compiled(neighbours, turn, xs), z, rtol=0, atol=2e-5)


def test_a_long_prefix_computation_stores_its_levels() -> None:
    xs = jnp.asarray(drawn(1, (256, 8)))
    found = functrax.explain(lambda x: lax.associative_scan(jnp.multiply, x))(xs)
    assert len(found.kernels) > 8  # else each element would be computed from hundreds


def test_conversions() -> None:
    z = drawn(1, 33) * 3
    for dtype in (np.float32, np.int32, np.complex128):
        wanted = registry["convert_element_type"].reference(z, dtype=np.dtype(dtype))
        got = compiled(primitive("convert_element_type", dtype=np.dtype(dtype)), z)
        np.testing.assert_array_equal(got, wanted)
    for x in (np.arange(33), np.arange(33) % 2 == 0, z.real.astype(dtypes.bfloat16)):
        got = compiled(primitive("convert_element_type", dtype=np.dtype(np.complex64)), x)
        np.testing.assert_array_equal(got, x.astype(np.complex64))


# ---- bits, derivatives --------------------------------------------------------------------------


def test_strict_mode_gives_the_same_bits_however_it_runs() -> None:
    z, w = jnp.asarray(drawn(1, (200, 300))), jnp.asarray(drawn(2, (200, 300)))

    def f(z: Any, w: Any) -> Any:
        y = jnp.exp(z / w) * 3.7 + jnp.sqrt(w) * jnp.abs(z)
        return jnp.sum(jnp.tanh(y) - z, 1) / 300

    def bits() -> bytes:
        return np.asarray(functrax.jit(f)(z, w)).tobytes()

    threads = CURRENT.num_threads()
    with Override("strict", True):
        eager = np.asarray(f(z, w)).tobytes()
        try:
            CURRENT.set_num_threads(1)
            one = bits()
            CURRENT.set_num_threads(3)
            assert eager == one == bits()
        finally:
            CURRENT.set_num_threads(threads)


def test_derivatives() -> None:
    z = jnp.asarray(drawn(1, 20, np.complex128))

    def loss(z: Any) -> Any:
        return jnp.sum(jnp.abs(jnp.sin(z) * z) ** 2 + jnp.real(jnp.log(z + 3)))

    slope, step = functrax.jit(functrax.grad(loss))(z), 1e-6
    for direction in (1, 1j):
        ahead, behind = (loss(z.at[4].add(s * step * direction)) for s in (1, -1))
        want = float(ahead - behind) / (2 * step)
        got = float((np.conj(np.asarray(slope[4])) * np.conj(direction)).real)
        assert abs(got - want) < 1e-5 * (1 + abs(want))
    each = functrax.vmap(functrax.grad(jnp.exp, holomorphic=True))(z)
    np.testing.assert_allclose(np.asarray(each), np.exp(np.asarray(z)), rtol=1e-13)
