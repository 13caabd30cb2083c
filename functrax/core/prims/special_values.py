"""The NumPy reference values of the elementwise functions that NumPy lacks: one place to import.

Every function takes arrays and returns an array of their dtype; it works for any shape, rank zero
and zero sizes included, gives no warnings, and defines what the primitive of that name means.  The
formulas live next door, by family:

- ``special_erf``: erf, erfc, erf_inv;
- ``special_gamma``: lgamma, digamma, polygamma, zeta;
- ``special_igamma``: igamma, igammac, igamma_grad_a, random_gamma_grad;
- ``special_betainc``: betainc;
- ``special_bessel``: bessel_i0e, bessel_i1e;
- ``special_arithmetic``: division, powers, rounding, sign, logistic, roots, log1p, expm1.

Families other than the last are imported with the first use of one of their functions.

Start reading at ``special_rounding``, which says how half and single precision are handled.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from functrax.core.prims.special_arithmetic import (
    cbrt,
    div,
    expm1,
    integer_pow,
    log1p,
    logistic,
    rem,
    round_half_away,
    round_half_even,
    rsqrt,
    sign,
)


def _of(family: str, name: str) -> Callable[..., Any]:
    """A function of a family."""

    def values(*operands: Any, **params: Any) -> Any:
        module = import_module(f"functrax.core.prims.special_{family}")
        return getattr(module, name)(*operands, **params)

    values.__name__ = name
    return values


bessel_i0e, bessel_i1e = _of("bessel", "bessel_i0e"), _of("bessel", "bessel_i1e")
betainc = _of("betainc", "betainc")
digamma, lgamma = _of("gamma", "digamma"), _of("gamma", "lgamma")
erf, erf_inv, erfc = _of("erf", "erf"), _of("erf", "erf_inv"), _of("erf", "erfc")
igamma, igammac = _of("igamma", "igamma"), _of("igamma", "igammac")
igamma_grad_a = _of("igamma", "igamma_grad_a")
polygamma, zeta = _of("gamma", "polygamma"), _of("gamma", "zeta")
random_gamma_grad = _of("igamma", "random_gamma_grad")

__all__ = [
    "bessel_i0e",
    "bessel_i1e",
    "betainc",
    "cbrt",
    "digamma",
    "div",
    "erf",
    "erf_inv",
    "erfc",
    "expm1",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "integer_pow",
    "lgamma",
    "log1p",
    "logistic",
    "polygamma",
    "random_gamma_grad",
    "rem",
    "round_half_away",
    "round_half_even",
    "rsqrt",
    "sign",
    "zeta",
]
