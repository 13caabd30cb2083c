"""``custom_linear_solve``: the solution of a linear system, differentiated implicitly.

``x = solve(b)`` with ``A x = b`` has the derivative ``A dx = db - dA x``, another solve, and the
transpose ``A^T ct_b = ct_x``.  How the system is solved is never looked at.

The primitive's programs are ``A``, ``solve`` and, if there is a transposed solve, ``A^T`` and that;
each takes constants of its own and then vectors.  Its operands are all constants and then ``b``.

Start at :func:`custom_linear_solve`; the primitive is :class:`CustomLinearSolve`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from functrax.backends.device import run_jaxpr
from functrax.core.errors.typed import DifferentiationError, PyTreeError, ShapeError
from functrax.core.ir.jaxpr import Jaxpr, Var
from functrax.core.prims.arithmetic import neg, sub
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import zeros
from functrax.core.pytree.operations import PyTreeDef, tree_flatten, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Avals, HigherOrder, Linear, Value, spread
from functrax.core.tracing.stage import Derived, close, eval_jaxpr, stage
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import check_callable
from functrax.transforms.interpreters.batching import batch_jaxpr
from functrax.transforms.interpreters.forward import jvp_jaxpr
from functrax.transforms.interpreters.transpose import transpose_jaxpr

Ops = Sequence[Value]
Tangents = Sequence["Value | None"]
Programs = tuple[Jaxpr, ...]


def split_consts(values: Sequence[Any], sizes: Sequence[int]) -> tuple[list[list[Any]], list[Any]]:
    """Each program's constants, and the rest."""
    groups, start = [], 0
    for size in sizes:
        groups.append(list(values[start : start + size]))
        start += size
    return groups, list(values[start:])


def batched_programs(
    size: int, mapped: Hashable, programs: Programs, flags: Sequence[Sequence[bool]]
) -> list[Derived]:
    """The programs with their vectors and all results batched, and those constants that are."""
    return [
        batch_jaxpr(
            p,
            size,
            (*own, *[True] * (len(p.invars) - len(own))),
            mapped,
            (True,) * len(p.outvars),
        )
        for p, own in zip(programs, flags, strict=True)
    ]


@functools.lru_cache(maxsize=256)
def _solve_alone(programs: Programs, num_consts: tuple[int, ...]) -> Jaxpr:
    solve = programs[1]
    own = solve.invars[: num_consts[1]]
    inputs = [
        own if i == 1 else [Var(v.aval) for v in program.invars[:n]]
        for i, (program, n) in enumerate(zip(programs, num_consts, strict=True))
    ]
    flat = [v for part in inputs for v in part]
    rest = solve.invars[num_consts[1] :]
    return Jaxpr((), [*flat, *rest], solve.outvars, solve.eqns, solve.name)


class Solve(HigherOrder):
    """Runs ``programs[1]``, a solve; the other programs serve the derivative rules."""

    #: What the operands proper must be, for the error.
    takes: ClassVar[str]

    def shape_rule(
        self, *avals: ShapedArray, programs: Programs, num_consts: tuple[int, ...]
    ) -> Avals:
        consts, operands = split_consts(avals, num_consts)
        given = [a.strip_weak_type() for a in (*consts[1], *operands)]
        wanted = [a.strip_weak_type() for a in programs[1].in_avals]
        if given != wanted:
            raise ShapeError(
                f"{self.name}: operands do not fit the solve",
                got=f"{[a.str_short() for a in given]} for {[a.str_short() for a in wanted]}",
                fix=self.takes,
            )
        return tuple(programs[1].out_avals)

    def reference(self, *values: Any, programs: Programs, num_consts: tuple[int, ...]) -> Any:
        consts, operands = split_consts(values, num_consts)
        return [np.asarray(x) for x in run_jaxpr(programs[1], [*consts[1], *operands])]

    def batch_over_axis(
        self,
        mapped: Hashable,
        size: int,
        args: Ops,
        batched: Sequence[bool],
        /,
        *,
        programs: Programs,
        num_consts: tuple[int, ...],
    ) -> tuple[Any, Any]:
        """Batch all programs, with their collectives over the axis ``mapped``."""
        consts, operands = split_consts(args, num_consts)
        flags, own_flags = split_consts(batched, num_consts)
        derived = batched_programs(size, mapped, programs, flags)
        given = [[*d.consts, *own] for d, own in zip(derived, consts, strict=True)]
        outs = self.bind(
            *(c for own in given for c in own),
            *spread(size, operands, own_flags, literals=True),
            programs=tuple(d.jaxpr for d in derived),
            num_consts=tuple(map(len, given)),
        )
        return outs, [True] * len(outs)

    def inlines(self, params: dict[str, Any]) -> Jaxpr:
        """The solve; it does not use the other programs' constants."""
        return _solve_alone(params["programs"], params["num_consts"])


class CustomLinearSolve(Solve):
    """``solve(b)``, whose first results ``x`` solve ``A x = b``; others are auxiliary."""

    name = "custom_linear_solve"
    takes = "the right-hand side that matvec takes"

    def jvp(
        self, primals: Ops, tangents: Tangents, *, programs: Programs, num_consts: tuple[int, ...]
    ) -> tuple[Any, Any]:
        outs = self.bind(*primals, programs=programs, num_consts=num_consts)
        consts, b = split_consts(primals, num_consts)
        t_consts, t_b = split_consts(tangents, num_consts)
        x = outs[: len(b)]
        rhs = list(t_b)
        nonzero = (*(t is not None for t in t_consts[0]), *[False] * len(x))
        if any(nonzero):
            derived = jvp_jaxpr(programs[0], nonzero)
            given = [t for t in t_consts[0] if t is not None]
            found = iter(
                eval_jaxpr(derived.jaxpr, (), *derived.consts, *consts[0], *x, *given)[len(x) :]
            )
            changes = [next(found) if flag else None for flag in derived.flags]
            rhs = [_difference(t, c) for t, c in zip(rhs, changes, strict=True)]
        if all(t is None for t in rhs):
            return outs, [None] * len(outs)
        rhs = [zeros(v.aval) if t is None else t for v, t in zip(b, rhs, strict=True)]
        flat = [c for own in consts for c in own]
        dx = self.bind(*flat, *rhs, programs=programs, num_consts=num_consts)[: len(b)]
        return outs, [*dx, *[None] * (len(outs) - len(b))]

    def transpose(
        self, cts: Tangents, *operands: Any, programs: Programs, num_consts: tuple[int, ...]
    ) -> list[Value | None]:
        consts, b = split_consts(operands, num_consts)
        if len(programs) == 2:
            raise DifferentiationError(
                "custom_linear_solve: transpose_solve required: reverse mode solves the transposed "
                "system",
                got="transpose_solve=None",
                fix="give transpose_solve, or symmetric=True if the system is symmetric",
            )
        swapped = (programs[2], programs[3], programs[0], programs[1])
        sizes = (num_consts[2], num_consts[3], num_consts[0], num_consts[1])
        flat = [c for own in (*consts[2:], *consts[:2]) for c in own]
        given = [
            zeros(x.aval) if ct is None else ct for x, ct in zip(b, cts[: len(b)], strict=True)
        ]
        found = self.bind(*flat, *given, programs=swapped, num_consts=sizes)
        cts_b = [
            ct if isinstance(x, Linear) else None for x, ct in zip(b, found[: len(b)], strict=True)
        ]
        return [*[None] * sum(num_consts), *cts_b]


def _difference(a: Value | None, b: Value | None) -> Value | None:
    if b is None:
        return a
    return neg.bind(b) if a is None else sub.bind(a, b)


linear_solve_p = CustomLinearSolve()


class Vectors:
    """Checks that functions of a solver keep the structure, shapes and dtypes of a vector."""

    def __init__(self, solver: str, tree: PyTreeDef, avals: Sequence[ShapedArray]) -> None:
        self.solver = solver
        self.tree = tree
        self.avals = list(avals)

    def pytree(self, values: Sequence[Value]) -> Any:
        """Flat values as the user's vector."""
        return tree_unflatten(self.tree, map(concrete, values))

    def flat(self, out: Any, what: str) -> list[Value]:
        """A vector that a function returned, flat."""
        leaves, tree = tree_flatten(out)
        if tree != self.tree:
            raise PyTreeError(
                f"{self.solver}: {what} pytree is another structure than its vectors have",
                got=f"{tree} instead of {self.tree}",
                fix="return the containers that came in",
            )
        values = [as_value(x, what) for x in leaves]
        got = [x.aval for x in values]
        if [(a.shape, a.dtype) for a in got] != [(a.shape, a.dtype) for a in self.avals]:
            raise ShapeError(
                f"{self.solver}: {what} shapes and dtypes are others than its vectors have",
                got=f"{', '.join(a.str_short() for a in got)} instead of "
                f"{', '.join(a.str_short() for a in self.avals)}",
                fix="return arrays of the shapes and dtypes that came in",
            )
        return [
            convert_element_type.bind(x, dtype=a.dtype, weak_type=a.weak_type)
            for x, a in zip(values, self.avals, strict=True)
        ]


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Solve ``matvec(x) = b`` with a solver of your own, differentiated implicitly.

    Args:
      matvec: a linear function of a vector, a pytree of arrays like ``b``.
      b: the right-hand side.
      solve: takes ``(matvec, b)``, returns ``x``; it need not be differentiable.
      transpose_solve: the same for the transposed system, which reverse mode solves.
      symmetric: whether the system is symmetric, so that ``solve`` solves the transposed one too.
      has_aux: whether the solvers return ``(x, aux)``; ``aux`` has no derivative.

    Returns:
      ``x``, or ``(x, aux)``.

    Raises:
      PyTreeError, ShapeError: if a function returns something other than a vector like ``b``.
      DifferentiationError: from reverse mode, without a way to solve the transposed system.

    >>> import functrax, functrax.numpy as jnp
    >>> from functrax import lax
    >>> def f(a, b):
    ...     return lax.custom_linear_solve(lambda x: a * x, b, lambda _, b: b / a, symmetric=True)
    >>> functrax.grad(f)(2.0, 6.0)
    Array(-1.5, dtype=float32, weak_type=True)
    """
    check_callable("custom_linear_solve", matvec)
    leaves, tree = tree_flatten(b)
    values = [as_value(x, "b of custom_linear_solve") for x in leaves]
    vectors = Vectors("custom_linear_solve", tree, [x.aval for x in values])
    avals = vectors.avals
    aux_tree = tree

    def flat_matvec(*x: Value) -> list[Value]:
        return vectors.flat(matvec(vectors.pytree(x)), "matvec() output")

    def solver(
        function: Callable[..., Any], of: Callable[[Any], Any], name: str
    ) -> Callable[..., list[Value]]:
        def flat_solve(*args: Value) -> list[Value]:
            nonlocal aux_tree
            out = function(of, vectors.pytree(args))
            x, aux = out if has_aux else (out, None)
            aux_leaves, aux_tree = tree_flatten(aux)
            return [*vectors.flat(x, f"{name}() output"), *map(as_value, aux_leaves)]

        return flat_solve

    flat_solver = solver(solve, matvec, "solve")
    programs = [stage(flat_matvec, avals, "matvec"), stage(flat_solver, avals, "solve")]
    out_aux = aux_tree
    if symmetric:
        programs = [*programs, *programs]
    elif transpose_solve is not None:
        programs += _transposed(programs[0], vectors, transpose_solve, solver)
    outs = linear_solve_p.bind(
        *(c for _, consts in programs for c in consts),
        *values,
        programs=tuple(close(jaxpr) for jaxpr, _ in programs),
        num_consts=tuple(len(consts) for _, consts in programs),
    )
    x = vectors.pytree(outs[: len(values)])
    return (x, tree_unflatten(out_aux, map(concrete, outs[len(values) :]))) if has_aux else x


def _transposed(
    matvec: tuple[Jaxpr, list[Any]],
    vectors: Vectors,
    transpose_solve: Callable[..., Any],
    solver: Callable[..., Callable[..., list[Value]]],
) -> list[tuple[Jaxpr, list[Any]]]:
    """The programs of the transposed system and of its solver."""
    jaxpr, consts = matvec
    n = len(vectors.avals)
    linear = (*[False] * len(consts), *[True] * n)
    back = transpose_jaxpr(close(jaxpr), linear, (True,) * n, fill=True)

    def vecmat(x: Any) -> Any:
        flat = vectors.flat(x, "an argument of vecmat")
        return vectors.pytree(eval_jaxpr(back.jaxpr, (), *back.consts, *consts, *flat))

    def flat_vecmat(*x: Value) -> list[Value]:
        return eval_jaxpr(back.jaxpr, (), *back.consts, *consts, *x)

    name = "transpose_solve"
    return [
        stage(flat_vecmat, vectors.avals, "vecmat"),
        stage(solver(transpose_solve, vecmat, name), vectors.avals, name),
    ]
