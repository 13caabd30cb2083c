"""``associative_scan``, ``custom_linear_solve`` and ``custom_root``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.errors import (
    ArgumentError,
    AxisError,
    DifferentiationError,
    FunctraxError,
    PyTreeError,
    ShapeError,
)
from tests.transforms.control.unrolled import close, derivatives_agree, same

X = jnp.asarray(np.array([0.3, -0.7, 1.1], "float32"))


# associative_scan


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 7, 8, 16, 21])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_of_sums(size: int, reverse: bool) -> None:
    xs = np.arange(float(3 * size), dtype=np.float32).reshape(size, 3) % 7
    want = np.flip(np.cumsum(np.flip(xs, 0), 0), 0) if reverse else np.cumsum(xs, 0)
    got = lax.associative_scan(jnp.add, xs, reverse=reverse)
    same(got, jnp.asarray(want))
    same(lax.associative_scan(jnp.add, xs.T, reverse=reverse, axis=1), jnp.asarray(want.T))
    same(lax.associative_scan(jnp.add, xs.T, reverse=reverse, axis=-1), jnp.asarray(want.T))


def affine(f: Any, g: Any) -> Any:
    """Composition of affine maps: associative, and not commutative."""
    return {"a": g["a"] * f["a"], "b": g["a"] * f["b"] + g["b"]}


@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_of_a_pytree(reverse: bool) -> None:
    elems = {"a": jnp.sin(jnp.arange(6.0) + 1), "b": jnp.cos(jnp.arange(6.0))}

    def got(e: Any) -> Any:
        return lax.associative_scan(affine, e, reverse=reverse)

    def want(e: Any) -> Any:
        rows = [{k: v[i] for k, v in e.items()} for i in range(6)]
        rows = rows[::-1] if reverse else rows
        outs = [rows[0]]
        for row in rows[1:]:
            outs.append(affine(outs[-1], row))
        outs = outs[::-1] if reverse else outs
        return functrax.tree.map(lambda *xs: jnp.stack(xs), *outs)

    close(got(elems), want(elems))
    derivatives_agree(got, want, (elems,))
    batch = functrax.tree.map(lambda x: jnp.stack([x, 2 * x]), elems)
    close(functrax.vmap(got)(batch), functrax.vmap(want)(batch))


def test_associative_scan_takes_logarithmically_many_steps() -> None:
    jaxpr = functrax.make_jaxpr(lambda x: lax.associative_scan(jnp.add, x))(jnp.zeros(1024)).jaxpr
    assert sum(e.primitive.name == "add" for e in jaxpr.eqns) == 2 * 10 - 1


# custom_linear_solve

A = np.array([[3.0, 1.0, 0.2], [0.5, 2.0, -0.3], [0.1, 0.4, 1.5]], np.float32)


def direct(a: Any, b: Any) -> Any:
    return jnp.linalg.solve(a, b)


def elimination(matvec: Any, b: Any) -> Any:
    """Solve by Gaussian elimination in Python, of a matrix found column by column."""
    n = b.shape[0]
    rows = functrax.vmap(matvec, out_axes=1)(jnp.eye(n, dtype=b.dtype))
    m = [[rows[i, j] for j in range(n)] for i in range(n)]
    v = [b[i] for i in range(n)]
    for k in range(n):
        for i in range(k + 1, n):
            factor = m[i][k] / m[k][k]
            m[i] = [m[i][j] - factor * m[k][j] for j in range(n)]
            v[i] = v[i] - factor * v[k]
    x: list[Any] = [None] * n
    for k in reversed(range(n)):
        x[k] = (v[k] - sum(m[k][j] * x[j] for j in range(k + 1, n))) / m[k][k]
    return jnp.stack(x)


def opaque(matvec: Any, b: Any) -> Any:
    """The same, which nothing may differentiate."""
    return functrax.pure_callback(
        lambda m, v: np.linalg.solve(m, v).astype(v.dtype),
        functrax.ShapeDtypeStruct(b.shape, b.dtype),
        functrax.vmap(matvec, out_axes=1)(jnp.eye(b.shape[0], dtype=b.dtype)),
        b,
        vmap_method="sequential",
    )


def implicit(a: Any, b: Any, solve: Any = opaque) -> Any:
    return lax.custom_linear_solve(lambda x: a @ x, b, solve, transpose_solve=solve)


def unrolled_solve(a: Any, b: Any) -> Any:
    return elimination(lambda x: a @ x, b)


def test_linear_solve_and_its_derivatives() -> None:
    a = jnp.asarray(A)
    close(implicit(a, X), jnp.asarray(np.linalg.solve(A, np.asarray(X))))
    derivatives_agree(implicit, unrolled_solve, (a, X), 1e-3)


def test_linear_solve_is_one_equation_and_jit_is_eager() -> None:
    names = [e.primitive.name for e in functrax.make_jaxpr(implicit)(jnp.asarray(A), X).eqns]
    assert names == ["custom_linear_solve"]
    same(functrax.jit(implicit)(A, X), implicit(jnp.asarray(A), X))


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_linear_solve_batched(axes: tuple[int | None, int | None]) -> None:
    a = jnp.asarray(np.stack([A, A.T, 2 * A]) if axes[0] == 0 else A)
    b = jnp.stack([X, X + 1, 2 * X]) if axes[1] == 0 else X
    close(functrax.vmap(implicit, axes)(a, b), functrax.vmap(unrolled_solve, axes)(a, b), 1e-4)
    gradient, wanted = (
        functrax.grad(lambda a, b, f=f: jnp.sum(jnp.sin(f(a, b))), (0, 1))
        for f in (implicit, unrolled_solve)
    )
    close(functrax.vmap(gradient, axes)(a, b), functrax.vmap(wanted, axes)(a, b), 1e-4)


def test_symmetric_system_of_pytrees_with_auxiliary_results() -> None:
    def f(s: Any, b: Any) -> Any:
        def solve(matvec: Any, b: Any) -> Any:
            return {"u": b["u"] / s, "v": b["v"] / (2.0 * s)}, {"steps": jnp.int32(7), "s": s}

        return lax.custom_linear_solve(
            lambda x: {"u": s * x["u"], "v": 2.0 * s * x["v"]},
            b,
            solve,
            symmetric=True,
            has_aux=True,
        )

    b = {"u": X, "v": X[:2] + 1.0}
    s = jnp.float32(1.5)
    x, aux = f(s, b)
    close(x, {"u": X / 1.5, "v": (X[:2] + 1.0) / 3.0})
    assert int(aux["steps"]) == 7
    derivatives_agree(
        lambda s, b: f(s, b)[0], lambda s, b: {"u": b["u"] / s, "v": b["v"] / (2.0 * s)}, (s, b)
    )
    assert float(functrax.grad(lambda s: f(s, b)[1]["s"])(s)) == 0.0


def test_linear_solve_by_conjugate_gradients_in_a_loop() -> None:
    def cg(matvec: Any, b: Any) -> Any:
        def step(_: Any, c: Any) -> Any:
            x, r, p, rr = c
            ap = matvec(p)
            alpha = rr / (p @ ap)
            r_new = r - alpha * ap
            rr_new = r_new @ r_new
            return x + alpha * p, r_new, r_new + rr_new / rr * p, rr_new

        return lax.fori_loop(0, 3, step, (jnp.zeros_like(b), b, b, b @ b))[0]

    spd = jnp.asarray(A @ A.T)

    def f(a: Any, b: Any) -> Any:
        return lax.custom_linear_solve(lambda x: a @ x, b, cg, symmetric=True)

    gradient, wanted = (
        functrax.grad(lambda a, b, f=f: jnp.sum(jnp.sin(f(a @ a.T, b))), (0, 1))
        for f in (f, unrolled_solve)
    )
    close(f(spd, X), unrolled_solve(spd, X), 1e-3)
    close(gradient(jnp.asarray(A), X), wanted(jnp.asarray(A), X), 2e-3)


def test_linear_solve_without_a_transpose() -> None:
    def f(b: Any) -> Any:
        return lax.custom_linear_solve(lambda x: A @ x, b, opaque).sum()

    close(functrax.jvp(f, (X,), (X,))[1], unrolled_solve(jnp.asarray(A), X).sum(), 1e-4)
    with pytest.raises(DifferentiationError, match="transpose_solve=None"):
        functrax.grad(f)(X)


# custom_root


def newton(f: Any, x: Any) -> Any:
    def step(_: Any, x: Any) -> Any:
        return x - elimination(lambda v: functrax.jvp(f, (x,), (v,))[1], f(x))

    return lax.fori_loop(0, 6, step, x)


def implicit_root(a: Any, x0: Any) -> Any:
    return lax.custom_root(
        lambda x: x + 0.3 * jnp.sin(a @ x) - 1.0,
        x0,
        lambda f, x: lax.stop_gradient(newton(f, x)),
        lambda g, y: elimination(g, y),
    )


def unrolled_root(a: Any, x0: Any) -> Any:
    x = x0 * 0.0
    for _ in range(24):
        x = 1.0 - 0.3 * jnp.sin(a @ x)
    return x


def test_root_and_its_derivatives() -> None:
    a = jnp.asarray(0.4 * A)
    close(implicit_root(a, X), unrolled_root(a, X))
    derivatives_agree(implicit_root, unrolled_root, (a, X), 2e-3)
    same(functrax.jit(implicit_root)(a, X), implicit_root(a, X))


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_root_batched(axes: tuple[int | None, int | None]) -> None:
    a = jnp.asarray(0.4 * np.stack([A, A.T]) if axes[0] == 0 else 0.4 * A)
    x0 = jnp.stack([X, X + 1]) if axes[1] == 0 else X
    close(functrax.vmap(implicit_root, axes)(a, x0), functrax.vmap(unrolled_root, axes)(a, x0))
    gradient, wanted = (
        functrax.grad(lambda a, x, f=f: jnp.sum(f(a, x) ** 2))
        for f in (implicit_root, unrolled_root)
    )
    close(functrax.vmap(gradient, axes)(a, x0), functrax.vmap(wanted, axes)(a, x0), 1e-3)


def test_scalar_root_with_auxiliary_results_and_third_derivative() -> None:
    def root(a: Any) -> Any:
        def solve(f: Any, x: Any) -> Any:
            body = lambda c: (c[0] + 1, c[1] - f(c[1]) / functrax.grad(f)(c[1]))
            n, x = lax.while_loop(lambda c: jnp.abs(f(c[1])) > 1e-5, body, (0, x))
            return x, n

        return lax.custom_root(
            lambda x: x**3 - a, 1.0, solve, lambda g, y: y / g(1.0), has_aux=True
        )

    x, steps = root(8.0)
    assert float(x) == pytest.approx(2.0, rel=1e-5)
    assert 1 <= int(steps) < 20
    f = lambda a: root(a)[0]
    for wanted in (8.0 ** (-2 / 3) / 3, -2 / 9 * 8.0 ** (-5 / 3), 10 / 27 * 8.0 ** (-8 / 3)):
        f = functrax.grad(f)
        assert float(f(8.0)) == pytest.approx(wanted, rel=1e-3)


ERRORS: list[tuple[Any, type[FunctraxError], str]] = [
    (lambda: lax.associative_scan(jnp.add, ()), ArgumentError, "no arrays"),
    (lambda: lax.associative_scan(jnp.add, X, axis=1), AxisError, "axis=1 for f32[3]"),
    (lambda: lax.associative_scan(jnp.add, (X, X[:2])), ShapeError, "f32[3], f32[2], axis=0"),
    (lambda: lax.associative_scan(lambda a, b: (a,), X), PyTreeError, "another structure"),
    (
        lambda: lax.custom_linear_solve(lambda x: x[:2], X, opaque),
        ShapeError,
        "matvec() output shapes and dtypes are others than its vectors have\n  got   f32[2] "
        "instead of f32[3]",
    ),
    (
        lambda: lax.custom_linear_solve(lambda x: x, X, lambda m, b: (b,)),
        PyTreeError,
        "output pytree",
    ),
    (
        lambda: lax.custom_root(lambda x: x, X, lambda f, x: x[None], lambda g, y: y),
        ShapeError,
        "solve() output shapes",
    ),
    (
        lambda: lax.custom_root(lambda x: x, X, lambda f, x: x, lambda g, y: [y]),
        PyTreeError,
        "tangent_solve() output pytree",
    ),
    (lambda: lax.custom_root(1, X, newton, newton), ArgumentError, "not a function"),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case: int) -> None:
    call, kind, text = ERRORS[case]
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
