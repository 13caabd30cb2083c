"""What ``dir`` and completion show of the public modules: their own names, not what they import."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import functrax.compat

NAMES = Path(functrax.compat.__file__).with_name("jax_names.txt").read_text(encoding="utf-8")
#: Names that JAX does not have, by the modules of functrax that have them.
OWN = {
    "functrax.numpy": "Array DeviceArray fix",
    "functrax.lax": "reindex reindex_reduce",
    "functrax.lax.linalg": "geqp3 geqrf",
    "functrax.nn.initializers": "Axes",
    "functrax.random": "KeyArray",
    "functrax.scipy.sparse.linalg": "Method Operator",
    "functrax.profiler": "Report Row report",
    "functrax.flatten_util": "Unravel",
}
MODULES = (
    "numpy numpy.linalg numpy.fft lax lax.linalg nn nn.initializers random scipy.linalg "
    "scipy.special scipy.stats scipy.stats.norm scipy.stats.poisson scipy.fft scipy.signal "
    "scipy.integrate scipy.interpolate scipy.ndimage scipy.optimize scipy.cluster.vq "
    "scipy.sparse.linalg tree tree_util image debug profiler stages distributed flatten_util "
    "custom_derivatives "
)


def of_jax(module: str) -> set[str]:
    """JAX's public names in a module."""
    lines = dict(line.split(": ", 1) for line in NAMES.splitlines() if ": " in line)
    return set(lines[f"jax.{module}"].split())


@pytest.mark.parametrize("name", MODULES.split())
def test_names_that_a_module_shows(name: str) -> None:
    module = importlib.import_module(f"functrax.{name}")
    shown = {n for n in dir(module) if not n.startswith("_")}
    jax = of_jax(name)
    own = {n for n in shown - jax if not isinstance(getattr(module, n), type(importlib))}
    assert own == set(OWN.get(module.__name__, "").split())
    assert {n for n in jax if hasattr(module, n)} <= shown


def test_experimental_shows_its_modules() -> None:
    package = functrax.experimental
    own = {p.stem for p in Path(package.__file__).parent.iterdir() if p.stem[0] != "_"}
    modules = {n for n in dir(package) if isinstance(getattr(package, n), type(importlib))}
    assert own - {"index_checks"} == modules - {"optimizers", "stax"}


def test_completion_of_the_options() -> None:
    shown = dir(functrax.config)
    assert {"debug_nans", "enable_x64", "update", "read"} <= set(shown)
    assert "cuda_visible_devices" not in shown  # of JAX, and changes nothing here
