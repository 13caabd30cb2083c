"""Random programs of control flow, each with two meanings: functrax's, and Python's own.

A program is a nested tuple, ``(kind, *what)``, drawn by :func:`programs`; :func:`run` gives it its
meaning with the functions of a *flow*: :data:`STAGED` has ``lax``'s loops and branches and
functrax's transformations, :data:`PYTHON` has ``if``, ``for`` and ``while``, and nothing in place
of ``jit``, ``checkpoint`` and custom rules.  The state of a program is an integer, a vector and a
flag; whatever a program does, the vector stays within (-2, 2).

Start at :func:`run`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import strategies as st

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.tree_util import tree_leaves, tree_map
from tests.transforms.control import unrolled

#: Functions of the vector ``h``, the constants ``w``, and the integer ``k`` as a float.
OPERATIONS: list[Any] = [
    lambda h, w, k: h + w,
    lambda h, w, k: h * w - 0.1 * k,
    lambda h, w, k: jnp.sin(h + k),
    lambda h, w, k: jnp.exp(-h * h) * w,
    lambda h, w, k: jnp.sum(h * w) + h,
    lambda h, w, k: jnp.maximum(h, w) * h,
    lambda h, w, k: h[::-1] * 0.9,
    lambda h, w, k: h.at[1].add(w[0] * h[2]),
    lambda h, w, k: lax.stop_gradient(h) * w + h,
    lambda h, w, k: jnp.where(h > 0.1, h, w * h),
]
WEIGHTS = np.array([[0.3, -0.5, 0.8], [0.9, 0.2, -0.4], [-0.7, 0.6, 0.25]])


def programs() -> st.SearchStrategy[Any]:
    """Programs of a few nodes."""
    leaf = st.tuples(st.just("op"), st.integers(0, len(OPERATIONS) - 1), st.booleans())

    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        small, flag = st.integers(0, 3), st.booleans()
        return st.one_of(
            st.tuples(st.just("then"), inner, inner),
            st.tuples(st.sampled_from(["cond", "cond of integer"]), inner, inner),
            st.tuples(st.just("switch"), inner, inner, inner),
            st.tuples(st.sampled_from(["while", "fori", "traced fori"]), small, inner),
            st.tuples(st.just("while it is large"), inner),
            st.tuples(st.just("scan"), small, flag, st.sampled_from([1, 1, 2, True]), inner),
            st.tuples(st.sampled_from(["vmap", "map", "prefixes", "solve", "root"]), inner),
            st.tuples(st.sampled_from(["jit", "checkpoint", "custom_jvp", "custom_vjp"]), inner),
        )

    return st.recursive(leaf, larger, max_leaves=5)


def with_rule(kind: str, f: Any) -> Any:
    """A function wrapped so that its values and derivatives stay what they are."""
    if kind == "custom_jvp":
        by_jvp = functrax.custom_jvp(f)
        by_jvp.defjvp(lambda primals, tangents: functrax.jvp(f, primals, tangents))
        return by_jvp
    if kind == "custom_vjp":
        by_vjp = functrax.custom_vjp(f)
        by_vjp.defvjp(lambda *a: (f(*a), a), lambda a, ct: functrax.vjp(f, *a)[1](ct))
        return by_vjp
    return getattr(functrax, kind)(f)


def python_cond(p: Any, yes: Any, no: Any, *args: Any) -> Any:
    return yes(*args) if bool(p) else no(*args)


def python_switch(i: Any, branches: Any, *args: Any) -> Any:
    return branches[min(max(int(i), 0), len(branches) - 1)](*args)


def python_vmap(f: Any) -> Any:
    def mapped(*args: Any) -> Any:
        rows = range(tree_leaves(args)[0].shape[0])
        outs = [f(*tree_map(lambda x, i=i: x[i], args)) for i in rows]
        return tree_map(lambda *ys: jnp.stack(ys), *outs)

    return mapped


def python_prefixes(f: Any, elems: Any) -> Any:
    rows = [tree_map(lambda x, i=i: x[i], elems) for i in range(tree_leaves(elems)[0].shape[0])]
    found = rows[:1]
    for row in rows[1:]:
        found.append(f(found[-1], row))
    return tree_map(lambda *ys: jnp.stack(ys), *found)


def python_scan(f: Any, init: Any, xs: Any, reverse: bool, unroll: Any) -> Any:
    if tree_leaves(xs)[0].shape[0] == 0:
        return init, jnp.zeros((0, 3))
    return unrolled.scan(f, init, xs, reverse=reverse)


STAGED = SimpleNamespace(
    cond=lax.cond,
    switch=lax.switch,
    while_loop=lax.while_loop,
    fori_loop=lax.fori_loop,
    traced=lambda n: n,
    scan=lambda f, init, xs, reverse, unroll: lax.scan(f, init, xs, reverse=reverse, unroll=unroll),
    vmap=functrax.vmap,
    map=lax.map,
    prefixes=lax.associative_scan,
    solve=lambda matvec, b, matrix: lax.custom_linear_solve(
        matvec,
        b,
        lambda _, b: jnp.linalg.solve(matrix, b),
        lambda _, b: jnp.linalg.solve(matrix.T, b),
    ),
    root=lambda f, guess, steps: lax.custom_root(
        f,
        guess,
        lambda f, x: lax.fori_loop(0, steps, lambda i, x: x - f(x) / (1.0 + 0.5 * jnp.cos(x)), x),
        lambda g, y: y / g(jnp.ones_like(y)),
    ),
    wrapped=with_rule,
)


def python_root(f: Any, guess: Any, steps: int) -> Any:
    x = guess
    for _ in range(steps):
        x = x - f(x) / (1.0 + 0.5 * jnp.cos(x))
    return x


PYTHON = SimpleNamespace(
    cond=python_cond,
    switch=python_switch,
    while_loop=unrolled.while_loop,
    fori_loop=lambda a, b, body, init: unrolled.fori_loop(int(a), int(b), body, init),
    traced=int,
    scan=python_scan,
    vmap=python_vmap,
    map=lambda f, xs: python_vmap(f)(xs),
    prefixes=python_prefixes,
    solve=lambda matvec, b, matrix: jnp.linalg.solve(matrix, b),
    root=python_root,
    wrapped=lambda kind, f: f,
)


def run(program: Any, flow: Any, w: Any, state: Any) -> Any:
    """The state after a program, from constants ``w`` of shape (3, 3) and a state ``(k, h, p)``."""
    kind, *what = program
    k, h, p = state

    def inner(n: int, state: Any) -> Any:
        return run(what[n], flow, w, state)

    if kind == "op":
        number, flip = what
        h = jnp.tanh(OPERATIONS[number](h, w[number % 3], k.astype(h.dtype) * 0.2))
        return (k + 1) % 5, h, p ^ flip
    if kind == "then":
        return inner(1, inner(0, state))
    if kind == "cond":
        choice = (h[0] > 0.05) ^ p
        return flow.cond(choice, lambda s: inner(0, s), lambda s: inner(1, s), state)
    if kind == "cond of integer":
        return flow.cond(k % 2, lambda: inner(0, state), lambda: inner(1, state))
    if kind == "switch":
        branches = [lambda s, n=n: inner(n, s) for n in range(3)]
        return flow.switch(k - 1, branches, state)
    if kind in LOOPS:
        return LOOPS[kind](flow, what, lambda s: inner(-1, s), w, state)
    if kind == "vmap":
        rows = jnp.stack([h, -0.7 * h[::-1]])
        ks, hs, ps = flow.vmap(lambda a, b: inner(0, (k + b, a, p)))(
            rows, jnp.arange(2, dtype="int32")
        )
        return ks[0], hs[0] - 0.5 * hs[1], ps[1]
    if kind == "map":
        found = flow.map(lambda x: inner(0, (k, x * h, p))[1], w)
        return k, found.mean(0), p
    if kind == "prefixes":
        slopes, shifts = flow.prefixes(
            lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (jnp.cos(w * h), w - h)
        )
        return inner(0, (k, jnp.tanh(slopes[1] + shifts[2]), p))
    if kind == "solve":
        matrix = jnp.eye(3) * 2.0 + 0.3 * jnp.outer(h, w[1])
        return inner(0, (k, jnp.tanh(flow.solve(lambda x: matrix @ x, w[0] + h, matrix)), p))
    if kind == "root":
        return inner(0, (k, flow.root(lambda x: x + 0.5 * jnp.sin(x) - h, h * 0.0, 30), p))
    return flow.wrapped(kind, lambda w, k, h, p: run(what[0], flow, w, (k, h, p)))(w, *state)


def _while(flow: Any, what: Any, body: Any, w: Any, state: Any) -> Any:
    def step(carry: Any) -> Any:
        i, s = carry
        return i + 1, body(s)

    return flow.while_loop(lambda c: c[0] < what[0], step, (jnp.int32(0), state))[1]


def _while_large(flow: Any, what: Any, body: Any, w: Any, state: Any) -> Any:
    def step(carry: Any) -> Any:
        i, (k, h, p) = carry
        k, h, p = body((k, h * 0.8, p))
        return i + 1, (k, h, p)

    def goes_on(carry: Any) -> Any:
        i, (_, h, _) = carry
        return (i < 4) & (jnp.sum(h * h) > 0.4)

    return flow.while_loop(goes_on, step, (jnp.int32(0), state))[1]


def _fori(flow: Any, what: Any, body: Any, w: Any, state: Any) -> Any:
    return flow.fori_loop(0, what[0], lambda i, s: body((s[0] + i, *s[1:])), state)


def _traced_fori(flow: Any, what: Any, body: Any, w: Any, state: Any) -> Any:
    stop = flow.traced((state[0] + what[0]) % 4)
    return flow.fori_loop(1, stop, lambda i, s: body(s), state)


def _scan(flow: Any, what: Any, body: Any, w: Any, state: Any) -> Any:
    length, reverse, unroll, _ = what
    xs = jnp.concatenate([w, w[:1]])[:length]

    def step(s: Any, x: Any) -> Any:
        k, h, p = body((s[0], s[1] + 0.3 * x, s[2]))
        return (k, h, p), h * x

    last, ys = flow.scan(step, state, xs, reverse, unroll)
    return last[0], jnp.tanh(last[1] + jnp.sum(ys, 0)), last[2]


LOOPS: dict[str, Any] = {
    "while": _while,
    "while it is large": _while_large,
    "fori": _fori,
    "traced fori": _traced_fori,
    "scan": _scan,
}
