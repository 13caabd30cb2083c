"""Fits the polynomials of ``functrax/lax/programs/bessel.py`` and writes them down.

    python scripts/fit_bessel.py          # needs mpmath; writes bessel_fits.py beside it

Up to a limit ``exp(-x) I(x)``, for I1 over ``x``, is a polynomial in ``t = 2 x / limit - 1``;
beyond
it, times the root of ``x``, one in ``t = 2 limit / x - 1``.  The degree is the least for which the
relative error is below :data:`TOLERANCES`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mpmath as mp
from fit_math import Function, remez

TARGET = Path(__file__).parent.parent / "functrax/lax/programs/bessel_fits.py"
#: For values in float64 and in narrower dtypes: the largest error, and the limit.
TOLERANCES = {True: (mp.mpf(2) ** -55, 6), False: (mp.mpf(2) ** -29, 4)}
mp.mp.dps = 40


def near(order: int, limit: int) -> Function:
    """The function up to the limit."""

    def of(t: Any) -> Any:
        x = limit * (1 + t) / 2
        if not x:
            return mp.mpf(1) / (1 + order)
        return mp.exp(-x) * mp.besseli(order, x) / (x if order else 1)

    return of


def far(order: int, limit: int) -> Function:
    """The function beyond the limit."""

    def of(t: Any) -> Any:
        inverse = (1 + t) / 2 / limit
        if inverse < mp.mpf(10) ** -20:
            return 1 / mp.sqrt(2 * mp.pi)
        x = 1 / inverse
        return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)

    return of


def fit(function: Function, tolerance: Any) -> list[Any]:
    """The coefficients of the least degree that is good enough."""
    degree = 6
    while True:
        found, error = remez(function, lambda t: 1 / function(t), mp.mpf(-1), mp.mpf(1), degree)
        if error < tolerance:
            return found
        degree += 1


def main() -> None:
    """Write the file."""
    lines = [
        '"""The polynomials of ``bessel.py``: by order, for float64 or not, near and far.',
        "",
        "Written by ``scripts/fit_bessel.py``, which says what each one approximates.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final",
        "",
        "#: Up to where the polynomials near zero hold.",
        f"LIMITS: Final = { ({k: float(limit) for k, (_, limit) in TOLERANCES.items()}) }",
        "# fmt: off",
        "COEFFICIENTS: Final[dict[tuple[int, bool, str], tuple[float, ...]]] = {",
    ]
    for order in (0, 1):
        for exact, (tolerance, limit) in TOLERANCES.items():
            for name, function in (("near", near), ("far", far)):
                found = fit(function(order, limit), tolerance)
                print(order, exact, name, len(found))
                lines.append(f'    ({order}, {exact}, "{name}"): (')
                lines += [f"        {float(c)!r}," for c in found]
                lines.append("    ),")
    TARGET.write_text("\n".join([*lines, "}", "# fmt: on", ""]))


if __name__ == "__main__":
    main()
