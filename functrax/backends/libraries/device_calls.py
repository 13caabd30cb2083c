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

from functrax.backends.passes.clean.device_forms import MOST_AXES, unscaled_inverse_fft
from functrax.core.ir.jaxpr import Eqn
from functrax.core.options.config import state as options
from functrax.core.prims import fourier
from functrax.core.records import record
from functrax.core.tracing.primitive import Primitive
from functrax.core.types import dtypes

#: The libraries, as they are called in texts, by their files' names.
TITLES: Final = {"cufft": "cuFFT"}


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
    if rule is None:
        return "no library is used for it"
    if options.strict:
        return "strict mode asks for the bits of the CPU"
    if not options.cuda_libraries:
        return "the option cuda_libraries is off"
    if any(x.aval.size == 0 for x in (*eqn.invars, *eqn.outvars)):
        return "it is empty"
    return rule(eqn)


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
        return "the pass device_forms has left it as it was"
    (x,) = eqn.invars
    batch = math.prod(x.aval.shape[: x.aval.ndim - len(lengths)])
    wide = dtypes.real_dtype(x.aval.dtype) == np.float64
    return DeviceCall("cufft", "fft", (_KINDS[kind][wide], inverse, lengths, batch))


_RULES: Final[dict[Primitive, Callable[[Eqn], DeviceCall | str]]] = {
    fourier.fft: _fourier,
    unscaled_inverse_fft: _fourier,
}
