"""Fits the polynomials of functrax's mathematical functions and writes them down.

    python scripts/fit_math.py            # needs mpmath; writes the files TARGETS
    python scripts/fit_math.py exp erf    # only these, the others stay

Each fit is a polynomial ``Q`` near ``g`` on an interval; ``w`` says what an error of ``Q`` makes of
the relative error of the function.  Remez' exchange makes the largest ``|w (Q - g)|`` as small as
it can be; the degree is the least for which that is below an eighth of the last place.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

Function = Callable[[Any], Any]

_FOLDER = Path(__file__).parent.parent / "functrax/backends/kernels/math"
TARGETS = {"float32": _FOLDER / "single.py", "float64": _FOLDER / "double.py"}
TOLERANCE = {"float32": mp.mpf(2) ** -27, "float64": mp.mpf(2) ** -56}
mp.mp.dps = 50


def remez(g: Function, w: Function, a: Any, b: Any, degree: int) -> tuple[list[Any], Any]:
    """The polynomial, in powers of the variable, and the largest weighted error."""
    middle, half, points = (a + b) / 2, (b - a) / 2, 40 * (degree + 2)
    nodes = [-mp.cos(mp.pi * k / (points - 1)) for k in range(points)]
    grid = [middle + half * u for u in nodes]
    values, weights = [g(x) for x in grid], [w(x) for x in grid]
    chosen = [round(k * (points - 1) / (degree + 1)) for k in range(degree + 2)]
    for _ in range(12):
        system, right = mp.matrix(degree + 2), mp.matrix(degree + 2, 1)
        for row, k in enumerate(chosen):
            for j in range(degree + 1):
                system[row, j] = nodes[k] ** j
            system[row, degree + 1] = (-1) ** row / max(weights[k], mp.mpf(10) ** -12)
            right[row] = values[k]
        solution = list(mp.lu_solve(system, right))[: degree + 1]
        errors = [
            (mp.polyval(solution[::-1], u) - v) * m for u, v, m in zip(nodes, values, weights)
        ]
        worst = max(abs(e) for e in errors)
        extrema = _extrema(errors)
        while len(extrema) > degree + 2:
            ends = (extrema[0], extrema[-1])
            extrema.remove(min(ends, key=lambda k: abs(errors[k])))
        if len(extrema) < degree + 2 or extrema == chosen:
            break
        chosen = extrema
    return _shifted(solution, middle, half), worst


def _extrema(errors: list[Any]) -> list[int]:
    """Where each run of errors of one sign is largest."""
    found: list[int] = []
    for k, error in enumerate(errors):
        if found and (errors[found[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[found[-1]]):
                found[-1] = k
        else:
            found.append(k)
    return found


def _shifted(solution: list[Any], middle: Any, half: Any) -> list[Any]:
    """From powers of ``(x - middle) / half`` to powers of ``x``."""
    result = [mp.mpf(0)]
    for c in reversed(solution):
        longer = [mp.mpf(0)] * (len(result) + 1)
        for k, r in enumerate(result):
            longer[k + 1] += r / half
            longer[k] -= r * middle / half
        longer[0] += c
        result = longer
    return result[: len(solution)]


def fit(g: Function, w: Function, a: Any, b: Any, dtype: str, degree: int) -> list[Any]:
    """The coefficients of the least degree that is good enough."""
    while True:
        coefficients, error = remez(g, w, mp.mpf(a), mp.mpf(b), degree)
        if error < TOLERANCE[dtype]:
            break
        degree += 1
    print(f"  {dtype} degree {degree} error {mp.nstr(error / TOLERANCE[dtype] / 8, 3)} ulp")
    return coefficients


def rounded(exact: Any, dtype: str) -> float:
    """The nearest float of the dtype."""
    return float(np.dtype(dtype).type(mp.nstr(exact, 30)))


def in_two(exact: Any, dtype: str) -> tuple[float, float]:
    """The nearest float of the dtype, and the rest."""
    high = rounded(exact, dtype)
    return high, rounded(exact - mp.mpf(high), dtype)


def _near_zero(g: Function, at_zero: Any) -> Function:
    return lambda x: mp.mpf(at_zero) if abs(x) < mp.mpf(10) ** -20 else g(x)


def _of_square(f: Function, limit: Any) -> tuple[Function, Function]:
    """``(f(x) / x - 1) / x^2`` of ``z = x^2``, and its weight."""

    def g(z: Any) -> Any:
        x = mp.sqrt(z)
        return (f(x) / x - 1) / z

    def w(z: Any) -> Any:
        x = mp.sqrt(z)
        return z * x / f(x) if z else mp.mpf(0)

    return _near_zero(g, limit), w


def _erfcx(t: Any) -> Any:
    return mp.exp(t * t) * mp.erfc(t)


def _inverse_erf(w: Any) -> Any:
    """``erf_inv(x) / x`` where ``w = -log(1 - x^2)``, by Newton from the asymptotic form."""
    if w < mp.mpf(10) ** -20:
        return mp.sqrt(mp.pi) / 2
    x2 = -mp.expm1(-w)
    x = mp.sqrt(x2)
    one_minus = mp.exp(-w) / (1 + x)
    y = mp.sqrt(w) * mp.mpf("0.9") if w > 2 else x * mp.sqrt(mp.pi) / 2
    for _ in range(60):
        slope = 2 / mp.sqrt(mp.pi) * mp.exp(-y * y)
        step = (mp.erfc(y) - one_minus) / slope
        step = step / (1 + y * step)  # Halley
        y += step
        if abs(step) < mp.mpf(10) ** -40:
            break
    return y / x


def _of_inverse_erf() -> tuple[Function, Function]:
    limit = mp.sqrt(mp.pi) / 2
    slope = mp.sqrt(mp.pi) / 2 * mp.pi / 12
    return (
        _near_zero(lambda w: (_inverse_erf(w) - limit) / w, slope),
        lambda w: w / _inverse_erf(w) if w else mp.mpf(0),
    )


_L = mp.log(2) / 2 * mp.mpf("1.001")
_BELOW, _ABOVE = mp.sqrt(mp.mpf(1) / 2) - 1, mp.sqrt(2) - 1
_QUARTER = (mp.pi / 4) ** 2 * mp.mpf("1.0001")
_S = (_ABOVE / (2 + _ABOVE)) ** 2 * mp.mpf("1.0001")
_ERFC_CENTRE = {"float32": 2, "float64": 4}
_ERFC_END = {"float32": mp.mpf("10.2"), "float64": mp.mpf("27.4")}


def _log_remainder(z: Any) -> Any:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


def _lgamma_ratio(u: Any) -> Any:
    """``lgamma(y) / ((y - 1) (y - 2))`` for ``y = u + 2``."""
    for zero, limit in ((0, 1 - mp.euler), (-1, mp.euler)):
        if abs(u - zero) < mp.mpf(10) ** -20:
            return limit
    return mp.loggamma(u + 2) / (u * (u + 1))


def _stirling_rest(z: Any) -> Any:
    """``x (lgamma(x) - (x - 1/2) (log(x) - 1) + 1/2 - log(2 pi) / 2)`` for ``z = 1 / x^2``."""
    x = 1 / mp.sqrt(z)
    main = (x - mp.mpf(1) / 2) * (mp.log(x) - 1) - mp.mpf(1) / 2 + mp.log(2 * mp.pi) / 2
    return x * (mp.loggamma(x) - main)


def _digamma_rest(z: Any) -> Any:
    """``(log(x) - 1 / (2 x) - digamma(x)) / z`` for ``z = 1 / x^2``."""
    x = 1 / mp.sqrt(z)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / z


def _digamma_ratio(u: Any) -> Any:
    """``digamma(x) / (x - x0)`` for ``x = u + 2``."""
    x = u + 2
    gap = x - DIGAMMA_ZERO
    return mp.psi(1, DIGAMMA_ZERO) if abs(gap) < mp.mpf(10) ** -20 else mp.digamma(x) / gap


def _scaled_erfc(centre: int) -> Function:
    def g(u: Any) -> Any:
        t = centre * (1 + u) / (1 - u)
        return _erfcx(t) * (1 + 2 * t)

    return g


TANH_NEAR = mp.mpf("0.5501")
DIGAMMA_ZERO = mp.findroot(mp.digamma, mp.mpf("1.4616321449683623"))
_LGAMMA = (
    _lgamma_ratio,
    lambda u: 1 / _lgamma_ratio(u),
    mp.mpf(-1),
    mp.mpf(1),
)
_LGAMMA_FAR = (
    _near_zero(_stirling_rest, mp.mpf(1) / 12),
    lambda z: mp.sqrt(z) / mp.loggamma(1 / mp.sqrt(z)) if z else mp.mpf(0),
    0,
    1 / mp.mpf(9),
)
_DIGAMMA = (_digamma_ratio, lambda u: 1 / _digamma_ratio(u), -1, 1)
_DIGAMMA_FAR = (
    _near_zero(_digamma_rest, mp.mpf(1) / 12),
    lambda z: z / mp.digamma(1 / mp.sqrt(z)) if z else mp.mpf(0),
    0,
    1 / mp.mpf(9),
)
#: Numbers that are needed to twice the bits of a dtype.
CONSTANTS = {
    "half_pi": mp.pi / 2,
    "pi": mp.pi,
    "ln_2": mp.log(2),
    "log2_e": 1 / mp.log(2),
    "third": mp.mpf(1) / 3,
    "half_root_pi": mp.sqrt(mp.pi) / 2,
    "log_pi": mp.log(mp.pi),
    "digamma_zero": DIGAMMA_ZERO,
}
#: Polynomials whose first coefficient is.
FIRST_IN_TWO = {"digamma", "erf_inv_far", "erf_inv_tail", "lgamma"}


def fits(dtype: str) -> dict[str, tuple[Function, Function, Any, Any, int]]:
    """What to fit for a dtype: the function, its weight, the interval, the degree to start from."""
    single = dtype == "float32"
    centre, end = _ERFC_CENTRE[dtype], _ERFC_END[dtype]
    scaled_erfc = _scaled_erfc(centre)
    table: dict[str, tuple[Function, Function, Any, Any, int]] = {
        "exp": (
            _near_zero(lambda r: (mp.expm1(r) - r) / r**2, mp.mpf(1) / 2),
            lambda r: r**2 / abs(mp.expm1(r)) if r else mp.mpf(0),
            -_L,
            _L,
            4 if single else 9,
        ),
        "exp2": (
            _near_zero(lambda r: mp.expm1(r * mp.log(2)) / r, mp.log(2)),
            lambda r: abs(r) / mp.mpf(2) ** r,
            mp.mpf(-1) / 2,
            mp.mpf(1) / 2,
            5 if single else 10,
        ),
        "pow_log": (  # atanh(s) / s = 1 + z / 3 + z^2 Q(z), to more than the dtype has
            _near_zero(lambda z: (_log_remainder(z) / 2 - mp.mpf(1) / 3) / z, mp.mpf(1) / 5),
            lambda z: z**2 * (2**11 if not single else 2**10),
            0,
            _S,
            4 if single else 9,
        ),
        "sin": (*_of_square(mp.sin, mp.mpf(-1) / 6), 0, _QUARTER, 2 if single else 5),
        "cos": (
            _near_zero(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, mp.mpf(1) / 24),
            lambda z: z**2 / mp.cos(mp.sqrt(z)),
            0,
            _QUARTER,
            2 if single else 5,
        ),
        "tan": (*_of_square(mp.tan, mp.mpf(1) / 3), 0, _QUARTER, 5 if single else 12),
        "asin": (*_of_square(mp.asin, mp.mpf(1) / 6), 0, mp.mpf("0.2501"), 3 if single else 9),
        "atan": (*_of_square(mp.atan, mp.mpf(-1) / 3), 0, 1, 7 if single else 18),
        "sinh": (*_of_square(mp.sinh, mp.mpf(1) / 6), 0, 1, 2 if single else 6),
        "lgamma": (*_LGAMMA, 10 if single else 24),
        "lgamma_far": (*_LGAMMA_FAR, 4 if single else 9),
        "digamma": (*_DIGAMMA, 10 if single else 24),
        "digamma_far": (*_DIGAMMA_FAR, 4 if single else 9),
        "erf": (
            _near_zero(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 2 / mp.sqrt(mp.pi) - 1),
            lambda z: mp.mpf(1),
            0,
            mp.mpf("0.725") if single else 1,
            4 if single else 9,
        ),
        "erfc": (
            lambda u: scaled_erfc(u) - 1,
            lambda u: 1 / scaled_erfc(u),
            -1,
            (end - centre) / (end + centre),
            11 if single else 22,
        ),
    }
    if single:
        table["tanh_near"] = (*_of_square(mp.tanh, -mp.mpf(1) / 3), 0, TANH_NEAR**2, 3)
        table["log"] = (
            _near_zero(lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3, mp.mpf(1) / 3),
            lambda f: abs(f**3 / mp.log1p(f)) if f else mp.mpf(0),
            _BELOW,
            _ABOVE,
            7,
        )
        table["erf_tail"] = (
            lambda t: mp.log(mp.erfc(t), 2) / t,
            lambda t: t * mp.log(2) * mp.erfc(t) / mp.erf(t),
            mp.mpf("0.84"),
            4,
            5,
        )
        table["erf_exp2"] = (  # of erfc(t), at most 0.3 erf(t); half a unit of it is near enough
            table["exp2"][0],
            lambda r: mp.mpf("0.3") / 4 * abs(r) / mp.mpf(2) ** r,
            mp.mpf(-1) / 2,
            mp.mpf(1) / 2,
            3,
        )
        table["erf_inv"] = (*_of_inverse_erf(), 0, 4, 7)
        table["erf_inv_tail"] = (
            lambda u: _inverse_erf((u + mp.mpf("2.875")) ** 2),
            lambda u: mp.mpf(1) / 2,
            2 - mp.mpf("2.875"),
            mp.mpf("1.175"),
            11,
        )
    else:
        table["log_ratio"] = (
            _near_zero(_log_remainder, mp.mpf(2) / 3),
            lambda z: z / 2,
            0,
            _S,
            5,
        )
        table["erf_inv"] = (*_of_inverse_erf(), 0, 4, 16)
        table["erf_inv_tail"] = (
            lambda u: _inverse_erf((u + mp.mpf("2.875")) ** 2),
            lambda u: mp.mpf(1) / 2,
            2 - mp.mpf("2.875"),
            mp.mpf("1.125"),
            25,
        )
        table["erf_inv_far"] = (
            lambda u: _inverse_erf((u + 5) ** 2),
            lambda u: mp.mpf(1) / 3,
            -1,
            mp.mpf("1.01"),
            14,
        )
    return table


HEADER = '''"""The polynomials of the mathematical functions in {dtype}, lowest order first.

Written by ``scripts/fit_math.py``, which says what each one approximates.
"""

from __future__ import annotations

from typing import Final

# fmt: off
COEFFICIENTS: Final[dict[str, tuple[float, ...]]] = {{
'''


def main(names: list[str]) -> None:
    """Fits and writes the files."""
    for dtype, target in TARGETS.items():
        polynomials: dict[str, Any] = {}
        constants: dict[str, Any] = {}
        if names:
            space: dict[str, Any] = {}
            exec(target.read_text(), space)
            polynomials, constants = space["COEFFICIENTS"], space["CONSTANTS"]
        for name, (g, w, a, b, degree) in fits(dtype).items():
            if names and name not in names:
                continue
            print(name)
            exact = fit(g, w, a, b, dtype, degree)
            polynomials[name] = [rounded(c, dtype) for c in exact]
            if name in FIRST_IN_TWO:
                constants[f"{name}_0"] = in_two(exact[0], dtype)
        for name, number in CONSTANTS.items():
            constants[name] = in_two(number, dtype)
        target.write_text(written(dtype, polynomials, constants))


def written(dtype: str, polynomials: dict[str, Any], constants: dict[str, Any]) -> str:
    """The text of a file."""
    lines = [HEADER.format(dtype=dtype).rstrip("\n")]
    for name, numbers in sorted(polynomials.items()):
        row = textwrap.TextWrapper(100, " " * 8, " " * 8, break_on_hyphens=False)
        lines += [f'    "{name}": (', *row.wrap(f"{', '.join(map(repr, numbers))},"), "    ),"]
    lines += ["}", "", "#: A number as a float of the dtype, and the rest."]
    lines.append("CONSTANTS: Final[dict[str, tuple[float, float]]] = {")
    lines += [f'    "{name}": {pair!r},' for name, pair in sorted(constants.items())]
    return "\n".join([*lines, "}"]) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
