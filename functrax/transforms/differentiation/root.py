"""``custom_root``: a root of a function, differentiated implicitly.

``x`` with ``f(x) = 0`` changes with what ``f`` closes over by ``f'(x) dx = -df``: how the root was
found does not matter.

The primitive's programs are ``f``, ``solve`` and ``tangent_solve``; each takes constants of its
own, then ``f`` takes ``x``, ``solve`` the guess, and ``tangent_solve`` takes ``x`` and a right-hand
side.

Start at :func:`custom_root`; the primitive is :class:`Root`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrax.core.prims.arithmetic import neg
from functrax.core.prims.reindex import zeros
from functrax.core.pytree.operations import tree_flatten, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import close, eval_jaxpr, stage
from functrax.transforms.arguments.flat import check_callable
from functrax.transforms.control.linear_solve import (
    Programs,
    Solve,
    Vectors,
    split_consts,
)
from functrax.transforms.differentiation.derivatives import linearize
from functrax.transforms.interpreters.forward import jvp_jaxpr

Ops = Sequence[Value]
Tangents = Sequence["Value | None"]


class Root(Solve):
    """``solve(guess)``, whose first results ``x`` satisfy ``f(x) = 0``; others are auxiliary."""

    name = "custom_root"
    takes = "an initial guess of the type that f takes"

    def jvp(
        self, primals: Ops, tangents: Tangents, *, programs: Programs, num_consts: tuple[int, ...]
    ) -> tuple[Any, Any]:
        outs = self.bind(*primals, programs=programs, num_consts=num_consts)
        consts, guess = split_consts(primals, num_consts)
        t_consts, _ = split_consts(tangents, num_consts)
        x = outs[: len(guess)]
        nonzero = (*(t is not None for t in t_consts[0]), *[False] * len(x))
        derived = jvp_jaxpr(programs[0], nonzero)
        if not any(derived.flags):
            return outs, [None] * len(outs)
        given = [t for t in t_consts[0] if t is not None]
        found = iter(
            eval_jaxpr(derived.jaxpr, (), *derived.consts, *consts[0], *x, *given)[len(x) :]
        )
        rhs = [
            next(found) if flag else zeros(v.aval) for v, flag in zip(x, derived.flags, strict=True)
        ]
        dx = eval_jaxpr(programs[2], (), *consts[2], *x, *rhs)
        return outs, [*(neg.bind(d) for d in dx), *[None] * (len(outs) - len(x))]


root_p = Root()


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """A root of ``f``, found by a solver of your own and differentiated implicitly.

    Args:
      f: takes a pytree of arrays, returns one like it; the root is differentiated by what it
        closes over.
      initial_guess: where the solver starts; the root does not depend on it.
      solve: takes ``(f, initial_guess)``, returns ``x`` with ``f(x) = 0``; it need not be
        differentiable.
      tangent_solve: takes ``(g, y)``, with ``g`` linear, returns ``x`` with ``g(x) = y``; it must
        be linear in ``y``, for reverse mode by way of what can be transposed.
      has_aux: whether ``solve`` returns ``(x, aux)``; ``aux`` has no derivative.

    Returns:
      ``x``, or ``(x, aux)``.

    Raises:
      PyTreeError, ShapeError: if a function returns something other than what is like the guess.

    >>> import functrax, functrax.numpy as jnp
    >>> from functrax import lax
    >>> def newton(f, x):
    ...     return lax.fori_loop(0, 9, lambda _, x: x - f(x) / functrax.grad(f)(x), x)
    >>> def root_of(a):
    ...     return lax.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> functrax.grad(root_of)(4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    for function in (f, solve, tangent_solve):
        check_callable("custom_root", function)
    leaves, tree = tree_flatten(initial_guess)
    guess = [as_value(x, "the guess of custom_root") for x in leaves]
    vectors = Vectors("custom_root", tree, [x.aval for x in guess])
    avals = vectors.avals
    aux_tree = tree

    def flat_f(*x: Value) -> list[Value]:
        return vectors.flat(f(vectors.pytree(x)), "f() output")

    def flat_solve(*args: Value) -> list[Value]:
        nonlocal aux_tree
        out = solve(f, vectors.pytree(args))
        x, aux = out if has_aux else (out, None)
        aux_leaves, aux_tree = tree_flatten(aux)
        return [*vectors.flat(x, "solve() output"), *map(as_value, aux_leaves)]

    def flat_tangent_solve(*args: Value) -> list[Value]:
        x, y = vectors.pytree(args[: len(avals)]), vectors.pytree(args[len(avals) :])
        return vectors.flat(tangent_solve(linearize(f, x)[1], y), "tangent_solve() output")

    programs = [
        stage(flat_f, avals, "f"),
        stage(flat_solve, avals, "solve"),
        stage(flat_tangent_solve, [*avals, *avals], "tangent_solve"),
    ]
    outs = root_p.bind(
        *(c for _, consts in programs for c in consts),
        *guess,
        programs=tuple(close(jaxpr) for jaxpr, _ in programs),
        num_consts=tuple(len(consts) for _, consts in programs),
    )
    x = vectors.pytree(outs[: len(guess)])
    return (x, tree_unflatten(aux_tree, map(concrete, outs[len(guess) :]))) if has_aux else x
