"""The functions that are programs for targets, against their NumPy reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.prims import special_values
from functrax.core.prims.special import Special
from functrax.core.tracing.primitive import registry

EDGES = np.array(
    [0, -0.0, 1, -1, 0.5, 2, -2.5, 3, 1e-30, 1e30, np.inf, -np.inf, np.nan, 100, 250, 0.1]
)
REFERENCES = {
    "bessel_i0e": "bessel_i0e",
    "bessel_i1e": "bessel_i1e",
    "igamma": "igamma",
    "igammac": "igammac",
    "igamma_grad_a": "igamma_grad_a",
    "random_gamma_grad": "random_gamma_grad",
    "betainc": "betainc",
    "zeta": "zeta",
    "polygamma": "polygamma",
}


def _operands(name: str) -> tuple[np.ndarray, ...]:
    """Edges with one another, and numbers of all sizes, some of them beside the function's bend."""
    rng = np.random.default_rng(5)
    if name.startswith("bessel"):
        return (np.concatenate([EDGES, rng.normal(size=2000) * 6, rng.normal(size=500) * 1e3]),)
    if name == "betainc":
        a, b, x = (v.ravel() for v in np.meshgrid(EDGES, EDGES, [0, 0.2, 0.9, 1, -1, np.nan]))
        wide = np.exp(rng.uniform(-4, 8, (2, 2000)))
        return tuple(
            np.concatenate(v) for v in ((a, wide[0]), (b, wide[1]), (x, rng.uniform(0, 1, 2000)))
        )
    a, x = (v.ravel() for v in np.meshgrid(EDGES, EDGES))
    if name in ("zeta", "polygamma"):
        whole = np.round(rng.uniform(1, 30, 1500))
        s = np.concatenate([a, rng.uniform(1, 30, 1500) if name == "zeta" else whole, whole])
        q = np.concatenate([x, np.exp(rng.uniform(-4, 6, 1500)), rng.uniform(-9, 9, 1500)])
        if name == "polygamma":  # far from 0 no order of 250 has a value left of 0
            q = np.where((s > 100) & (q < 0), -q, q)
        return s, q
    wide = np.exp(rng.uniform(-5, 8, 1500))
    near = wide * rng.uniform(0.3, 2, 1500)
    return np.concatenate([a, wide, wide]), np.concatenate([x, wide[::-1], near])


def test_every_one_is_here() -> None:
    written = {p.name for p in registry.values() if p.is_written}
    assert written - {"regularized_incomplete_beta"} == set(REFERENCES) - {"betainc"}
    assert all(isinstance(registry[name], Special) for name in written)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", REFERENCES)
def test_equals_the_reference(name: str, dtype: str) -> None:
    function = getattr(lax, name)
    with functrax.enable_x64(dtype == "float64"), np.errstate(all="ignore"):
        operands = [x.astype(jnp.dtype(dtype)) for x in _operands(name)]
        got = np.asarray(functrax.jit(function)(*operands)).astype(np.float64)
        want = getattr(special_values, REFERENCES[name])(*operands).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    known = np.isfinite(want)
    got, want = got[known], want[known]
    eps = float(jnp.finfo(dtype).eps)
    if dtype == "float64":
        # A difference of tails is as good as the tails are.
        least = 1e-14 if name in ("betainc", "igamma", "igammac") else 0.0
        scale = np.abs(want)
        if name in ("zeta", "polygamma"):  # left of 0 it is a difference of three
            scale = np.where(operands[1][known] < 0, np.maximum(scale, 1e3), scale)
        error = np.abs(got - want) - 2e-13 * scale
        bad = error > np.where(np.abs(want) > 1e-290, least, 1e-290)
        # The exponent of a value of 1e-290 has few digits left.
        bad &= ~((np.abs(want) < 1e-30) & (np.abs(got - want) < 1e-10 * np.abs(want)))
    else:
        unit = np.maximum(np.abs(want), float(jnp.finfo(dtype).tiny)) * eps
        bad = np.abs(got - want) > np.maximum(unit, 2e-15)
        normal = np.abs(want) >= float(jnp.finfo(dtype).tiny)  # others are flushed to zero
        assert np.mean((got != want)[normal]) < 0.02
    assert not bad.any(), [(float(x[known][k]) for x in operands) for k in np.flatnonzero(bad)[:3]]


@pytest.mark.parametrize("name", REFERENCES)
def test_is_compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No operation is left to the reference, in any rank, with numbers among the operands."""

    def refused(self: Special, *operands: Any) -> Any:
        raise AssertionError(f"the reference of {self} ran")

    monkeypatch.setattr(Special, "reference", refused)
    function = getattr(lax, name)
    numbers = (2.0,) * (2 if name == "betainc" else 0 if name.startswith("bessel") else 1)
    x = np.linspace(0.2, 0.8, 12, dtype=np.float32).reshape(3, 4)
    with functrax.backend("llvm"):
        many, one = functrax.jit(lambda x: (function(*numbers, x), function(*numbers, x[0, 0])))(x)
    assert many.shape == (3, 4)
    assert one.shape == ()
    np.testing.assert_array_equal(many[0, 0], one)


@pytest.mark.parametrize("eager", ["lazy", "immediate"])
def test_eager_values_are_those_of_jit(eager: str) -> None:
    x = np.linspace(0.2, 7, 9, dtype=np.float32)
    with functrax.eager(eager):
        for name in ("igamma", "zeta", "polygamma", "bessel_i0e"):
            function = getattr(lax, name)
            operands = (x,) if name == "bessel_i0e" else (np.round(x + 1), x)
            np.testing.assert_array_equal(function(*operands), functrax.jit(function)(*operands))


def test_a_batch_is_its_elements() -> None:
    a, x = np.random.default_rng(3).uniform(0.5, 4, (2, 3, 5)).astype(np.float32)
    wanted = np.asarray(lax.igamma(a, x))
    np.testing.assert_array_equal(
        functrax.vmap(lax.igamma, in_axes=(1, 1), out_axes=1)(a, x), wanted
    )
    np.testing.assert_array_equal(functrax.jit(functrax.vmap(lax.igamma))(a, x), wanted)
