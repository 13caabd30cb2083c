"""Programs of libraries written for JAX: their first result, and their steady state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.models import library_programs as programs
from benchmarks.workload import Workload, faster

TITLE = "Libraries written for JAX"

#: What it is, inputs, text, and how far values may differ: chains of samples part by rounding.
PROGRAMS: tuple[tuple[str, Callable[[], tuple[Any, ...]], Callable[[Any], Any], float], ...] = (
    ("NUTS on eight schools, numpyro", programs.schools, programs.numpyro_nuts, 0.2),
    ("NUTS on eight schools, blackjax", programs.schools, programs.blackjax_nuts, 0.2),
    ("L-BFGS and its gradient, jaxopt", programs.regression, programs.jaxopt_lbfgs, 1e-2),
    ("Tsit5 and its gradient, diffrax", programs.lotka_volterra, programs.diffrax_tsit5, 1e-2),
    ("100 steps of a perceptron, equinox", programs.batches, programs.equinox_mlp, 1e-2),
    ("100 steps of a perceptron, flax.linen", programs.batches, programs.linen_mlp, 1e-2),
    ("100 steps of a perceptron, flax.nnx", programs.batches, programs.nnx_mlp, 1e-2),
    ("Kalman filter by associative_scan", programs.observations, programs.kalman_filter, 1e-2),
)

ROWS = tuple(
    Workload(name, inputs, text, (faster(1),), mode="eager", tolerance=tolerance)
    for name, inputs, text, tolerance in PROGRAMS
) + tuple(
    Workload(f"first result: {name}", inputs, text, (faster(4),), mode="first", tolerance=tolerance)
    for name, inputs, text, tolerance in PROGRAMS
)
