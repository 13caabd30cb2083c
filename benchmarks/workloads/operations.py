"""Common operations at middle sizes: 512×512, vectors of 65,536, batches of small matrices.

Each is one expression, jitted; the row's name is the expression.  What the names in it are is said
by :func:`inputs`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Workload, faster

TITLE = "Operations at middle sizes"
RATIO = 0.8  # the least that each may be; their geometric mean is to be 2.5


@functools.lru_cache(maxsize=1)
def inputs() -> dict[str, np.ndarray]:
    """What the names in the expressions are; made when a row is run, not where rows are listed."""
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.standard_normal(shape, np.float32)  # noqa: E731
    small = normal(64, 16, 16)
    square = normal(256, 256)
    return {
        "x": normal(512, 512),
        "y": normal(512, 512),
        "p": rng.uniform(0.05, 0.95, (512, 512)).astype(np.float32),
        "q": rng.uniform(0.5, 5.0, (512, 512)).astype(np.float32),
        "v": normal(65536),
        "w": normal(65536),
        "i": rng.integers(0, 512, (512, 512)).astype(np.int32),
        "n": rng.integers(0, 1000, 65536).astype(np.int32),
        "b": rng.random((512, 512)) < 0.5,
        "r": rng.integers(0, 512, 1024).astype(np.int32),
        "a": square,
        "s": square @ square.T + 256 * np.eye(256, dtype=np.float32),
        "t": np.tril(square) + 16 * np.eye(256, dtype=np.float32),
        "m": small,
        "c": small @ small.swapaxes(1, 2) + 16 * np.eye(16, dtype=np.float32),
        "u": normal(256),
        "im": normal(8, 32, 32, 16),
        "f": normal(3, 3, 16, 32),
        "z": (normal(512, 512) + 1j * normal(512, 512)).astype(np.complex64),
        "lg": normal(64, 4096),
        "key": np.array([0, 42], np.uint32),
    }


#: By the kind of operation; one expression a line.  ``j`` is ``jax``, ``jnp`` its ``numpy``.
EXPRESSIONS = """
jnp.sin(x)
jnp.cos(x)
jnp.tan(x)
jnp.tanh(x)
jnp.sinh(x)
jnp.cosh(x)
jnp.arcsin(p)
jnp.arccos(p)
jnp.arctan(x)
jnp.arctan2(x, y)
jnp.arcsinh(x)
jnp.arctanh(p)
jnp.exp(x)
jnp.exp2(x)
jnp.expm1(x)
jnp.log(q)
jnp.log2(q)
jnp.log10(q)
jnp.log1p(q)
jnp.logaddexp(x, y)
jnp.sqrt(q)
jnp.cbrt(x)
jnp.square(x)
jnp.abs(x)
jnp.sign(x)
jnp.floor(x)
jnp.round(x)
jnp.power(q, y)
jnp.hypot(x, y)
jnp.maximum(x, y)
jnp.clip(x, -1, 1)
jnp.where(b, x, y)
jnp.isfinite(x)
jnp.nan_to_num(x)
jnp.mod(x, q)
jnp.floor_divide(x, q)
jnp.divide(x, q)
jnp.sinc(x)
jnp.heaviside(x, y)
jnp.bitwise_xor(i, i + 1)
jnp.left_shift(i, 2)
jnp.logical_and(b, x > 0)
jnp.add(x, y) * 2 + 1
x + u[:1]
x * y[:1]
x.astype(jnp.float16)
i.astype(jnp.float32)
z * z
jnp.abs(z)
jnp.exp(z)
j.nn.relu(x)
j.nn.gelu(x)
j.nn.silu(x)
j.nn.softplus(x)
j.nn.sigmoid(x)
j.nn.elu(x)
j.nn.softmax(x)
j.nn.log_softmax(x)
j.nn.logsumexp(x, axis=1)
j.nn.standardize(x)
j.nn.one_hot(i[0], 512)
j.nn.glu(x)
j.nn.mish(x)
jnp.sum(x)
jnp.sum(x, axis=0)
jnp.sum(x, axis=1)
jnp.mean(x, axis=0)
jnp.var(x, axis=1)
jnp.std(x)
jnp.prod(p, axis=1)
jnp.max(x)
jnp.max(x, axis=0)
jnp.min(x, axis=1)
jnp.argmax(x, axis=1)
jnp.argmin(x, axis=0)
jnp.any(b, axis=1)
jnp.all(b, axis=0)
jnp.count_nonzero(b)
jnp.ptp(x, axis=1)
jnp.average(x, axis=0, weights=q[:, 0])
jnp.median(x, axis=1)
jnp.quantile(v, 0.3)
jnp.nansum(x, axis=1)
jnp.nanmean(x, axis=0)
jnp.linalg.norm(x)
jnp.linalg.norm(x, axis=1)
jnp.trace(x)
jnp.cumsum(v)
jnp.cumsum(x, axis=0)
jnp.cumsum(x, axis=1)
jnp.cumprod(p, axis=1)
j.lax.cummax(x, axis=1)
j.lax.cumlogsumexp(x, axis=1)
jnp.diff(x, axis=1)
jnp.gradient(x, axis=0)
jnp.convolve(v, u)
jnp.correlate(v, u)
jnp.interp(v, jnp.sort(u), u)
jnp.polyval(u[:8], x)
jnp.trapezoid(x, axis=1)
jnp.histogram(v, bins=64)[0]
jnp.bincount(n, length=1000)
jnp.digitize(v, jnp.sort(u))
jnp.searchsorted(jnp.sort(w), v)
jnp.sort(v)
jnp.sort(x, axis=1)
jnp.sort(x, axis=0)
jnp.argsort(v)
jnp.argsort(x, axis=1)
jnp.lexsort((v, n))
jnp.partition(x, 8, axis=1)[:, 8]
j.lax.top_k(lg, 16)[0]
j.lax.top_k(v, 8)[0]
jnp.unique(n, size=1000)
jnp.transpose(x)
jnp.swapaxes(m, 0, 2)
jnp.reshape(x, (256, 1024)) + 1
jnp.flip(x, axis=1)
jnp.flip(x, axis=0)
jnp.rot90(x)
jnp.roll(x, 3, axis=1)
jnp.roll(x, 5, axis=0)
jnp.concatenate([x, y], axis=0)
jnp.concatenate([x, y], axis=1)
jnp.stack([x, y], axis=-1)
jnp.split(x, 4, axis=1)[2] + 1
jnp.tile(x, (2, 2))
jnp.repeat(x, 2, axis=1)
jnp.repeat(x, 2, axis=0)
jnp.pad(x, 2)
jnp.pad(x, 2, mode="reflect")
jnp.pad(x, 2, mode="edge")
jnp.pad(x, 2, mode="wrap")
jnp.tril(x)
jnp.triu(x)
jnp.diag(u)
jnp.diagonal(x)
jnp.eye(512) + x
jnp.outer(v[:512], w[:512])
jnp.kron(m[0], m[1])
jnp.meshgrid(v[:512], w[:512])[0]
jnp.arange(65536) * 2
jnp.linspace(0, 1, 65536) + v
x[::2, ::2]
x[:, ::-1]
x[r]
x[:, r]
x[r % 512, r]
jnp.take(v, n)
jnp.take_along_axis(x, i, axis=1)
jnp.choose(i % 2, [x, y], mode="clip")
v[n]
x.at[r].set(1.0)
x.at[r].add(y[0])
v.at[n].add(w)
v.at[n].max(w)
x.at[2:-2, 2:-2].multiply(2.0)
j.ops.segment_sum(v, n, 1000)
j.ops.segment_max(v, n, 1000)
j.lax.dynamic_slice(x, (3, 5), (256, 256))
j.lax.dynamic_update_slice(x, y[:256, :256], (3, 5))
j.lax.reduce_window(x, 0.0, j.lax.add, (8, 8), (1, 1), "SAME")
j.lax.reduce_window(x, -jnp.inf, j.lax.max, (3, 3), (2, 2), "VALID")
j.lax.reduce_window(v, 0.0, j.lax.add, (1024,), (1,), "SAME")
x @ y
a @ u
u @ a
m @ m
jnp.einsum("bij,bkj->bik", m, m)
jnp.einsum("ij,ij->i", x, y)
jnp.einsum("ij,jk,kl->il", a, a, a)
jnp.tensordot(m, m, ((1, 2), (1, 2)))
jnp.dot(v, w)
jnp.vdot(z, z)
jnp.inner(a, a)
jnp.matmul(x.T, y)
jnp.linalg.inv(a)
jnp.linalg.det(c)
jnp.linalg.solve(s, u)
jnp.linalg.solve(s, a)
jnp.linalg.cholesky(s)
jnp.linalg.cholesky(c)
jnp.linalg.qr(a)[1]
jnp.linalg.eigvalsh(s)
jnp.linalg.svd(a, compute_uv=False)
jnp.linalg.slogdet(a)[1]
jnp.linalg.matrix_power(a * 0.01, 5)
jnp.linalg.lstsq(x[:, :32], v[:512])[0]
j.scipy.linalg.solve_triangular(t, a, lower=True)
j.scipy.linalg.cho_solve((jnp.linalg.cholesky(s), True), u)
j.scipy.linalg.expm(a * 0.01)
j.grad(lambda s: jnp.sum(jnp.linalg.cholesky(s)))(s)
j.grad(lambda s: jnp.sum(jnp.linalg.solve(s, u)))(s)
j.lax.conv_general_dilated(im, f, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
j.image.resize(im, (8, 64, 64, 16), "bilinear")
jnp.fft.fft(z)
jnp.fft.rfft(v)
jnp.fft.fft2(z)
jnp.fft.ifft2(z)
jnp.fft.rfft2(x)
jnp.fft.irfft2(jnp.fft.rfft2(x))
jnp.fft.fft2(a)
jnp.fft.fft(z[:, :360])
jnp.fft.irfft(jnp.fft.rfft(x[:, :96]))
jnp.fft.fft(z.ravel())
j.scipy.special.erf(x)
j.scipy.special.erfinv(p)
j.scipy.special.gammaln(q)
j.scipy.special.digamma(q)
j.scipy.special.gammainc(q, p)
j.scipy.special.betainc(q, q, p)
j.scipy.special.i0(x)
j.scipy.special.i1(x)
j.scipy.special.ndtri(p)
j.scipy.special.polygamma(1, q)
j.scipy.special.logit(p)
j.scipy.special.xlogy(q, p)
j.scipy.stats.norm.logpdf(x)
j.scipy.stats.beta.logpdf(p, 2.0, 3.0)
j.random.normal(key, (512, 512))
j.random.uniform(key, (512, 512))
j.random.bernoulli(key, 0.3, (512, 512))
j.random.categorical(key, lg)
j.random.permutation(key, 65536)
j.random.randint(key, (65536,), 0, 100)
j.random.gamma(key, 2.0, (65536,))
""".strip().splitlines()


def _names(expression: str) -> tuple[str, ...]:
    """The inputs that an expression uses, in order."""
    words = re.sub(r'"[^"]*"', "", expression)
    found = dict.fromkeys(re.findall(r"(?<![\w.])[a-z]+(?!\w)", words))
    return tuple(name for name in found if name in inputs())


def _text(expression: str) -> Callable[[Any], Callable[..., Any]]:
    def text(jax: Any) -> Callable[..., Any]:
        made: Callable[..., Any] = eval(
            f"lambda {', '.join(_names(expression))}: {expression}", {"j": jax, "jnp": jax.numpy}
        )
        return made

    return text


def _given(expression: str) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple(inputs()[name] for name in _names(expression))


ROWS = tuple(
    Workload(e, _given(e), _text(e), (faster(RATIO),), tolerance=2e-3) for e in EXPRESSIONS
)
