"""What the tests of passes share: text in, text out; values before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.reference.reference_device import ReferenceProgram
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.syntax.parsing import parse_jaxpr
from functrax.core.syntax.verify import verify


def after(run: Callable[[Jaxpr, Rewrites], Jaxpr], text: str, limit: int | None = None) -> str:
    """The program that a pass makes of a text, as text; verified."""
    jaxpr = parse_jaxpr(text)
    out = run(jaxpr, Rewrites(limit))
    verify(out)
    return out.as_text(source=False)


def expect(run: Callable[[Jaxpr, Rewrites], Jaxpr], text: str, wanted: str) -> None:
    """Check what a pass makes of a text: the program ``wanted``, up to names and spaces."""
    found = after(run, text)
    assert found == parse_jaxpr(wanted).as_text(source=False), found


def unchanged(run: Callable[[Jaxpr, Rewrites], Jaxpr], text: str) -> None:
    """Check that a pass gives back the very program."""
    jaxpr = parse_jaxpr(text)
    rewrites = Rewrites()
    out = run(jaxpr, rewrites)
    assert out is jaxpr, out
    assert rewrites.count == 0


def run_reference(jaxpr: Jaxpr, values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The results on the reference device."""
    return [np.asarray(x) for x in ReferenceProgram(jaxpr)(list(values))]


def draw(jaxpr: Jaxpr, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Values for the inputs of a program."""
    random = np.random.default_rng(seed)
    found = []
    for aval in jaxpr.in_avals:
        x = random.normal(size=aval.shape)
        if aval.dtype.kind in "iu":
            x = np.abs(np.round(3 * x))
        if aval.dtype.kind == "b":
            x = x > 0
        found.append(np.asarray(x).astype(aval.dtype))
    return found


def same_bits(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether results are equal bit for bit, but for the bits of NaN."""
    return len(left) == len(right) and all(_equal(x, y) for x, y in zip(left, right, strict=True))


def _equal(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind in "biu":
        return bool(np.array_equal(x, y))
    if x.dtype.kind == "c":
        return bool(np.array_equal(x, y, equal_nan=True))
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)  # numpy knows no NaN of bfloat16
    signs = np.isnan(wide_x) | (np.signbit(wide_x) == np.signbit(wide_y))
    return bool(np.array_equal(wide_x, wide_y, equal_nan=True) and np.all(signs))


def nearly_equal(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether results differ by no more than roundings, compared with their largest elements."""
    for x, y in zip(left, right, strict=True):
        wide_x, wide_y = x.astype(np.complex128), y.astype(np.complex128)
        finite = np.isfinite(wide_x) & np.isfinite(wide_y)
        size = np.abs(wide_x[finite]).max(initial=1.0)
        if not np.allclose(wide_x, wide_y, rtol=1e-5, atol=1e-5 * size, equal_nan=True):
            return False
    return True


def check_values(run: Callable[[Jaxpr, Rewrites], Jaxpr], text: str, seed: int = 0) -> None:
    """Check that a pass keeps the values of a program, bit for bit."""
    jaxpr = parse_jaxpr(text)
    values = draw(jaxpr, seed)
    assert same_bits(run_reference(jaxpr, values), run_reference(run(jaxpr, Rewrites()), values))
