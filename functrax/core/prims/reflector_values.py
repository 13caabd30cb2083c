"""NumPy values of what Householder's reflections make of matrices, in LAPACK's conventions.

A reflection is ``I - tau v v^H``, with ``v[0] = 1``; results keep the rest of each ``v`` below the
diagonal that it made zero, and the ``tau`` beside.  ``numpy.linalg`` has only ``qr`` of these.  All
work on the last two axes, on all matrices at once, and in double precision, as NumPy's own do.

Start at :func:`reflector`.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def widened(x: Any) -> Any:
    """A copy in double precision."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def reflector(x: Any) -> tuple[Any, Any, Any]:
    """``(beta, v, tau)`` with ``(I - tau v v^H)^H x = beta e1``, for vectors in the last axis.

    ``beta`` is real; the reflection is the identity where ``x`` is ``beta e1`` already.
    """
    alpha, rest = x[..., 0], x[..., 1:]
    size = np.linalg.norm(rest, axis=-1)
    idle = (size == 0) & (np.imag(alpha) == 0)
    beta = -np.copysign(np.hypot(np.abs(alpha), size), alpha.real)
    beta = np.where(idle, alpha.real, beta)
    safe = np.where(idle, 1, beta)
    tau = np.where(idle, 0, (beta - alpha) / safe)
    v = x / np.where(idle, 1, alpha - safe)[..., None]
    v = np.where(idle[..., None], 0, v)
    v[..., 0] = 1
    return beta, v, tau


def from_left(a: Any, v: Any, tau: Any) -> None:
    """Multiply matrices by ``(I - tau v v^H)^H`` from the left, in place."""
    moved = np.conj(v)[..., None, :] @ a
    a -= (np.conj(tau)[..., None] * v)[..., None] * moved


def from_right(a: Any, v: Any, tau: Any) -> None:
    """Multiply matrices by ``I - tau v v^H`` from the right, in place."""
    moved = a @ v[..., None]
    a -= moved * (tau[..., None] * np.conj(v))[..., None, :]


def _store(column: Any, beta: Any, v: Any) -> None:
    """Replace what became zeros by the vector that made them so."""
    column[..., 0] = beta
    column[..., 1:] = v[..., 1:]


def qr(x: Any) -> tuple[Any, Any]:
    """``(a, taus)``: the upper triangle ``r`` with the vectors of ``q`` below (geqrf)."""
    *lead, m, n = x.shape
    if x.size == 0:
        return x.copy(), np.zeros((*lead, min(m, n)), x.dtype)
    a, taus = np.linalg.qr(x, mode="raw")
    return np.ascontiguousarray(a.swapaxes(-1, -2)), taus


def pivoted_qr(x: Any) -> tuple[Any, Any, Any]:
    """``(a, taus, order)`` of ``x[:, order]``, each time the longest column left (geqp3)."""
    *lead, m, n = x.shape
    a, k = widened(x), min(m, n)
    taus = np.zeros((*lead, k), a.dtype)
    order = np.broadcast_to(np.arange(n, dtype=np.int32), (*lead, n)).copy()
    for i in range(k):
        best = i + np.argmax(np.linalg.norm(a[..., i:, i:], axis=-2), axis=-1)
        for rows in (a, order[..., None, :]):
            there = np.broadcast_to(best[..., None, None], (*rows.shape[:-1], 1))
            moved, kept = np.take_along_axis(rows, there, -1), rows[..., i].copy()
            np.put_along_axis(rows, there, kept[..., None], -1)
            rows[..., i] = moved[..., 0]
        beta, v, taus[..., i] = reflector(a[..., i:, i])
        from_left(a[..., i:, i + 1 :], v, taus[..., i])
        _store(a[..., i:, i], beta, v)
    return a.astype(x.dtype), taus.astype(x.dtype), order


def hessenberg(x: Any) -> tuple[Any, Any]:
    """``(a, taus)``: zeros below the first subdiagonal, by ``q^H x q`` (gehrd)."""
    *lead, n, _ = x.shape
    a = widened(x)
    taus = np.zeros((*lead, max(n - 1, 0)), a.dtype)
    for i in range(n - 1):
        beta, v, tau = reflector(a[..., i + 1 :, i])
        taus[..., i] = tau
        from_right(a[..., :, i + 1 :], v, tau)
        from_left(a[..., i + 1 :, i + 1 :], v, tau)
        _store(a[..., i + 1 :, i], beta, v)
    return a.astype(x.dtype), taus.astype(x.dtype)


def tridiagonal(x: Any, lower: bool) -> tuple[Any, Any, Any, Any]:
    """``(a, d, e, taus)`` of Hermitian matrices, of which one triangle is read (hetrd)."""
    if not lower:
        turned = tridiagonal(x[..., ::-1, ::-1], True)
        a, *vectors = turned
        return (a[..., ::-1, ::-1], *(s[..., ::-1] for s in vectors))
    *lead, n, _ = x.shape
    strict = np.tril(widened(x), -1)
    every = np.arange(n)
    a = strict + np.conj(strict).swapaxes(-1, -2)
    a[..., every, every] = x[..., every, every].real
    packed = widened(x)
    taus = np.zeros((*lead, max(n - 1, 0)), a.dtype)
    beside = np.zeros((*lead, max(n - 1, 0)))
    for i in range(n - 1):
        beta, v, tau = reflector(a[..., i + 1 :, i])
        taus[..., i], beside[..., i] = tau, beta
        from_right(a[..., i + 1 :, i + 1 :], v, tau)
        from_left(a[..., i + 1 :, i + 1 :], v, tau)
        _store(packed[..., i + 1 :, i], beta, v)
    main = a[..., every, every].real
    packed[..., every, every] = main
    narrow = x.real.dtype
    return (
        packed.astype(x.dtype),
        main.astype(narrow),
        beside.astype(narrow),
        taus.astype(x.dtype),
    )
