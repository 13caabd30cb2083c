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

Start reading at ``special_rounding``, which says how half and single precision are handled.
"""

from __future__ import annotations

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
from functrax.core.prims.special_bessel import bessel_i0e, bessel_i1e
from functrax.core.prims.special_betainc import betainc
from functrax.core.prims.special_erf import erf, erf_inv, erfc
from functrax.core.prims.special_gamma import digamma, lgamma, polygamma, zeta
from functrax.core.prims.special_igamma import igamma, igamma_grad_a, igammac, random_gamma_grad

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
