"""Rules of linear algebra and Fourier transforms: what XLA has an instruction for.

Factorisations, which XLA leaves to libraries, have no rule.

Start at :func:`triangular_solve`.
"""

from __future__ import annotations

from functrax.core.ir.jaxpr import Eqn
from functrax.core.prims import fourier, linear_systems
from functrax.core.prims.convert import conj
from functrax.core.types import dtypes
from functrax.transforms.hlo.computations.computation import Computation, Node
from functrax.transforms.hlo.equations import write_function
from functrax.transforms.hlo.rules import rule, unavailable

#: As many axes as XLA transforms at once.
_MOST_AXES = 3


@rule(linear_systems.TriangularSolve)
def triangular_solve(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """A triangular system; conjugated matrices are so before, unless they are transposed too."""
    (a, b), p = operands, eqn.params
    how = "NO_TRANSPOSE"
    conjugated = p["conjugate_a"] and dtypes.is_complex(a.dtype)
    if p["transpose_a"]:
        how = "ADJOINT" if conjugated else "TRANSPOSE"
    elif conjugated:
        (a,) = write_function(w, lambda x: [conj(x)], a)
    if 0 in (*a.shape, *b.shape):
        return b
    return w.op(
        "triangular-solve",
        b.aval,
        a,
        b,
        left_side=p["left_side"],
        lower=p["lower"],
        unit_diagonal=p["unit_diagonal"],
        transpose_a=how,
    )


@rule(linear_systems.Cholesky)
def cholesky(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """The lower triangle of what XLA gives; of the diagonal, the real parts are read."""
    (x,) = operands
    if 0 in x.shape:
        return x
    rows, columns = (w.iota(x.shape, len(x.shape) - k, dtypes.int32) for k in (2, 1))
    if dtypes.is_complex(x.dtype):
        real = w.convert(w.convert(x, dtypes.real_dtype(x.dtype)), x.dtype)
        x = w.select(w.compare("EQ", rows, columns), real, x)
    out = w.elementwise("cholesky", x, lower=True)
    return w.select(w.compare("GE", rows, columns), out, w.full(x.shape, 0, x.dtype))


@rule(fourier.Fft)
def fft(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """A transform of up to three axes."""
    aval, lengths = eqn.outvars[0].aval, eqn.params["fft_lengths"]
    if len(lengths) > _MOST_AXES:
        raise unavailable(eqn, f"XLA transforms at most {_MOST_AXES} axes at once")
    if 0 in aval.shape:
        return w.full(aval.shape, 0, aval.dtype)
    return w.op("fft", aval, operands[0], fft_type=eqn.params["kind"], fft_length=tuple(lengths))
