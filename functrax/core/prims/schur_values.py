"""The NumPy value of Schur's decomposition: ``x = z t z^H``, with ``t`` an upper triangle.

Of a real matrix ``t`` is real, and has blocks of two rows for pairs of complex eigenvalues.  The
matrix is reduced to Hessenberg's form, whose subdiagonal implicit QR steps make small: of one
shift for complex numbers, of two shifts together, which is real arithmetic, for real ones (G. H.
Golub and C. F. Van Loan, "Matrix Computations", 7.5).

Start at :func:`schur`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrax.core.prims import lapack, reflector_values as reflections

#: QR steps for each eigenvalue, after which a matrix counts as one that does not converge.
_STEPS = 60


def schur(x: Any) -> tuple[Any, Any]:
    """``(t, z)``; NaN where a matrix is not finite, or where the steps do not converge.

    By LAPACK where NumPy's wheel has it, else by :func:`by_steps`.
    """
    t, z = np.full_like(x, np.nan), np.full_like(x, np.nan)
    for place in np.ndindex(x.shape[:-2]):
        if np.isfinite(x[place]).all():
            found = lapack.schur(x[place])
            t[place], z[place] = by_steps(x[place]) if found is None else found
    return t, z


def by_steps(x: Any) -> tuple[Any, Any]:
    """:func:`schur` in NumPy, in double precision."""
    t, taus = reflections.hessenberg(reflections.widened(x))
    n = x.shape[-1]
    z = np.broadcast_to(np.eye(n, dtype=t.dtype), t.shape).copy()
    for i in reversed(range(n - 1)):
        v = t[..., i + 1 :, i].copy()
        v[..., 0] = 1
        # From the left by the reflection itself: from_left takes its adjoint.
        reflections.from_left(z[..., i + 1 :, i + 1 :], v, np.conj(taus[..., i]))
    t = np.triu(t, -1)
    stacks = (a.reshape(math.prod(x.shape[:-2]), n, n) for a in (t, z))
    for matrix, vectors in zip(*stacks, strict=True):
        if not (np.isfinite(matrix).all() and _reduce(matrix, vectors)):
            matrix[...] = vectors[...] = np.nan
    return t.astype(x.dtype), z.astype(x.dtype)


def _reduce(h: Any, z: Any) -> bool:
    """Make a Hessenberg matrix a (quasi-)triangle in place; whether that succeeded."""
    real = h.dtype.kind != "c"
    last, steps = h.shape[0] - 1, 0
    while last > 0:
        first = _block(h, last)
        if first == last:
            last, steps = last - 1, 0
        elif real and first == last - 1:
            _standardize(h, z, first)
            last, steps = last - 2, 0
        elif steps == _STEPS:
            return False
        else:
            steps += 1
            start = _double_shift if real else _single_shift
            _chase(h, z, first, last, start(h, first, last, steps % 10 == 0))
    return True


def _block(h: Any, last: int) -> int:
    """The first row of the last block that does not fall apart; makes what is tiny zero."""
    eps = np.finfo(np.float64).eps
    sizes = np.abs(np.diagonal(h))[: last + 1]
    below = np.abs(np.diagonal(h, -1))[:last]
    near = sizes[:-1] + sizes[1:]
    small = below <= eps * np.where(near == 0, np.abs(h[: last + 1, : last + 1]).max(), near)
    found = np.flatnonzero(small)
    if not found.size:
        return 0
    h[found + 1, found] = 0
    return int(found[-1]) + 1


def _single_shift(h: Any, first: int, last: int, odd: bool) -> Any:
    """The first column of ``h - mu``, of the eigenvalue of the corner that is nearest its end."""
    (a, b), (c, d) = h[last - 1 : last + 1, last - 1 : last + 1]
    half, product = (a - d) / 2, b * c
    root = np.sqrt(half * half + product + 0j)
    root = root if (np.conj(half) * root).real >= 0 else -root
    mu = d - product / (half + root) if half + root != 0 else d
    mu = d + abs(c) if odd else mu  # an unusual one, where the usual ones go round in a circle
    return np.array([h[first, first] - mu, h[first + 1, first]])


def _double_shift(h: Any, first: int, last: int, odd: bool) -> Any:
    """The first column of ``(h - mu)(h - conj(mu))``, of both eigenvalues of the corner."""
    (a, b), (c, d) = h[last - 1 : last + 1, last - 1 : last + 1].tolist()
    total, product = a + d, a * d - b * c
    if odd:
        size = abs(c) + abs(float(h[last - 1, last - 2]))
        total, product = 1.5 * size + 2 * d, (0.75 * size + d) ** 2 + 0.4375 * size * size
    p, q = h[first, first : first + 2].tolist()
    r, s = h[first + 1, first : first + 2].tolist()
    return np.array([p * p + q * r - total * p + product, r * (p + s - total),
                     r * h[first + 2, first + 1]])  # fmt: skip


def _chase(h: Any, z: Any, first: int, last: int, column: Any) -> None:
    """One QR step: a reflection at the top, and the bulge that it makes moved out below."""
    wide = len(column)
    for k in range(first, last):
        rows = slice(k, min(k + wide, last + 1))
        if k > first:
            column = h[rows, k - 1]
        beta, v, tau = _small_reflector(column[: rows.stop - k])
        if k > first:
            h[rows, k - 1] = 0
            h[k, k - 1] = beta
        _turn(h[rows, k:], h[: min(k + wide + 1, last + 1), rows], z[:, rows], v, tau)


def _turn(left: Any, right: Any, z: Any, v: Any, tau: Any) -> None:
    w, scaled = v.conj(), tau * v.conj()
    left -= np.outer(scaled.conj(), w @ left)
    right -= np.outer(right @ v, scaled)
    z -= np.outer(z @ v, scaled)


def _small_reflector(x: Any) -> tuple[Any, Any, Any]:
    """:func:`reflections.reflector` of one vector of two or three elements."""
    scale = np.abs(x).max()
    alpha = x[0]
    if scale == 0 or (not np.any(x[1:]) and alpha.imag == 0):
        v = np.zeros_like(x)
        v[0] = 1
        return alpha, v, x.dtype.type(0)
    size = scale * math.sqrt(float((np.abs(x / scale) ** 2).sum()))
    beta = -math.copysign(size, alpha.real)
    v = x / (alpha - beta)
    v[0] = 1
    return beta, v, (beta - alpha) / beta


def _standardize(h: Any, z: Any, k: int) -> None:
    """A real block of two rows as a triangle, or with equal elements on its diagonal."""
    (a, b), (c, d) = h[k : k + 2, k : k + 2].tolist()
    half = (a - d) / 2
    inside = half * half + b * c
    if inside >= 0:
        across = half + math.copysign(math.sqrt(inside), half)
        size = math.hypot(c, across)
        cos, sin = across / size, c / size
    else:
        both = b + c
        size = math.hypot(both, a - d)
        cos = math.sqrt((1 + abs(both) / size) / 2)
        sin = -half / (size * cos) * math.copysign(1.0, both)
    turn = np.array([[cos, sin], [-sin, cos]])
    rows = slice(k, k + 2)
    h[rows, k:] = turn @ h[rows, k:]
    h[: k + 2, rows] = h[: k + 2, rows] @ turn.T
    z[:, rows] = z[:, rows] @ turn.T
    if inside >= 0:
        h[k + 1, k] = 0
    else:
        h[k, k] = h[k + 1, k + 1] = (h[k, k] + h[k + 1, k + 1]) / 2
