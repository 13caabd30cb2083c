"""Equations that libraries of NVIDIA's compute, in memory of a GPU.

An equation enters; a description of the call leaves, which a GPU looks up when it runs the program
(``backends/cuda/libraries/``).  Whether the library is there is not known here: where it is not,
the host computes the equation.

Start at :func:`device_call`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from functrax.backends.passes.clean.device_forms import FORMS, MOST_AXES
from functrax.backends.passes.clean.device_primitives import (
    cholesky_attempt,
    linear_solve_attempt,
    lu_of_transposed,
    qr_of_transposed,
    row_exchanges,
    unscaled_inverse_fft,
)
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Eqn
from functrax.core.options.config import state as options, strict_was_chosen
from functrax.core.prims import factorisations, fourier
from functrax.core.prims.linear_systems import triangular_solve
from functrax.core.records import record
from functrax.core.tracing.primitive import Primitive
from functrax.core.types import dtypes

#: The libraries, as they are called in texts, by their files' names.
TITLES: Final = {"cufft": "cuFFT", "cusolver": "cuSOLVER", "cublas": "cuBLAS"}


@record
class DeviceCall:
    """A function of a library, for operands of certain types.

    Args:
      library: the name of its file.
      function: which one, as ``backends/cuda/libraries/`` knows it.
      params: sizes and kinds.
    """

    library: str
    function: str
    params: tuple[Any, ...]


def device_call(eqn: Eqn) -> DeviceCall | str:
    """How a library computes an equation, or why none does."""
    rule = _RULES.get(eqn.primitive)
    if rule is None and eqn.primitive not in FORMS:
        return "no library is used for it"
    if strict_was_chosen():
        return "strict mode asks for the bits of the CPU"
    if not target().libraries:
        return f"the option cuda_libraries is {options.cuda_libraries!r}"
    if any(x.aval.size == 0 for x in (*eqn.invars, *eqn.outvars)):
        return "it is empty"
    return _LEFT if rule is None else rule(eqn)


_LEFT: Final = "the pass device_forms has left it as it was"
#: Of a Fourier transform the kinds of cuFFT, in single and in double precision.
_KINDS: Final = {
    "FFT": ("C2C", "Z2Z"),
    "IFFT": ("C2C", "Z2Z"),
    "RFFT": ("R2C", "D2Z"),
    "IRFFT": ("C2R", "Z2D"),
}


def _fourier(eqn: Eqn) -> DeviceCall | str:
    kind, lengths = eqn.params["kind"], eqn.params["fft_lengths"]
    inverse = kind in ("IFFT", "IRFFT")
    if len(lengths) > MOST_AXES:
        return f"cuFFT transforms up to {MOST_AXES} axes"
    if inverse and eqn.primitive is not unscaled_inverse_fft:
        return _LEFT
    (x,) = eqn.invars
    batch = math.prod(x.aval.shape[: x.aval.ndim - len(lengths)])
    wide = dtypes.real_dtype(x.aval.dtype) == np.float64
    return DeviceCall("cufft", "fft", (_KINDS[kind][wide], inverse, lengths, batch))


def _matrices(eqn: Eqn) -> tuple[str, int, int, int]:
    """The letter of a dtype in names of functions, how many matrices there are, and their sizes."""
    aval = eqn.invars[0].aval
    *lead, m, n = aval.shape
    return _LETTERS[aval.dtype.char], math.prod(lead), m, n


def _cholesky(eqn: Eqn) -> DeviceCall | str:
    letter, count, n, _ = _matrices(eqn)
    return DeviceCall("cusolver", "cholesky", (letter, count, n))


def _triangular_solve(eqn: Eqn) -> DeviceCall | str:
    params = eqn.params
    if params["conjugate_a"] and not params["transpose_a"] and eqn.invars[0].aval.dtype.kind == "c":
        return "cuBLAS has no conjugated matrix that is not transposed"
    letter, count, n, _ = _matrices(eqn)
    rows, columns = eqn.invars[1].aval.shape[-2:]
    names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    how = tuple([bool(params[x]) for x in names])
    return DeviceCall("cublas", "triangular_solve", (letter, count, n, rows, columns, *how))


def _linear_solve(eqn: Eqn) -> DeviceCall | str:
    letter, count, n, _ = _matrices(eqn)
    sides = eqn.invars[1].aval.shape[-2]
    library, function = ("cusolver", "solve") if count == 1 else ("cublas", "solve_each")
    return DeviceCall(library, function, (letter, count, n, sides))


def _lu(eqn: Eqn) -> DeviceCall | str:
    letter, _, n, m = _matrices(eqn)
    return DeviceCall("cusolver", "lu", (letter, m, n))


def _row_exchanges(eqn: Eqn) -> DeviceCall | str:
    rows, pivots = [x.aval.shape[-1] for x in eqn.invars]
    return DeviceCall("cusolver", "row_exchanges", (rows, pivots))


def _qr(eqn: Eqn) -> DeviceCall | str:
    letter, _, n, m = _matrices(eqn)
    return DeviceCall("cusolver", "qr", (letter, m, n, eqn.params["columns"]))


def _one_alone(eqn: Eqn) -> DeviceCall | str:
    return "cuSOLVER has it for one matrix alone"


#: The dtypes of matrices in names of functions.
_LETTERS: Final = {"f": "S", "d": "D", "F": "C", "D": "Z"}
_RULES: Final[dict[Primitive, Callable[[Eqn], DeviceCall | str]]] = {
    fourier.fft: _fourier,
    unscaled_inverse_fft: _fourier,
    cholesky_attempt: _cholesky,
    triangular_solve: _triangular_solve,
    linear_solve_attempt: _linear_solve,
    lu_of_transposed: _lu,
    row_exchanges: _row_exchanges,
    qr_of_transposed: _qr,
    factorisations.lu: _one_alone,
    factorisations.qr: _one_alone,
}
