"""The examples' texts, with other imports, are JAX programs, and compute the same numbers.

Each case is an expression over an example's names, evaluated in functrax and in JAX in float64.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import functrax

pytestmark = pytest.mark.jax
EXAMPLES = Path(__file__).parents[2] / "examples"
FIT = "(lambda x, y: fit(logarithms(GUESS), x, y)[0])(*draw(random.key(0), 30))"
HVP = "(lambda f, x: [p(f, x, jnp.cos(x)) for p in PRODUCTS])(*problem(random.key(0), 5))"
LANCZOS = "(lambda f, x: lanczos(f, x, random.key(1), 8))(*problem(random.key(0), 5))"
ORBIT = "fit(jnp.array(FIRST), *observations(random.key(0), 20), steps=8)"
SAMPLE = "[sample(move, log_density, jnp.ones((5, 2)), 0.1, random.key(0), 9)"
CASES = [
    *[
        ("autodiff_tour", f"list({stop}())")
        for stop in (
            "gradients",
            "jacobians",
            "second_derivatives",
            "constants_and_signs",
            "vectorised",
        )
    ],
    ("custom_rules", "list(numbers())"),
    ("custom_rules", "quantised_fit()"),
    ("digits", "init(random.key(0))"),
    ("fixed_point", "list(kepler_table(0.7, 0.6))"),
    ("fixed_point", "gradient_of(layer)(*random_layer(random.key(0), 6))"),
    ("fixed_point", ORBIT),
    ("gaussian_process", FIT),
    ("hessian_vector_products", HVP),
    ("hessian_vector_products", LANCZOS),
    ("ising", "simulate(random.key(0), TEMPERATURES[:3], 8, 6)"),
    ("kdv", "train(random.key(0), 2)[1]"),
    ("langevin", f"{SAMPLE} for move in (unadjusted, adjusted)]"),
    ("lattice_boltzmann", "list(tunnel(18, 20))"),
    ("lattice_boltzmann", "channel_and_slope(0.1, 1e-5, 5, 50)"),
    ("lorenz", "sensitivity(jnp.array(START), 0.5, 50)"),
    ("lorenz", "lyapunov_exponents(jnp.array(START), 10)"),
    ("maml", "[train(f, random.key(0), 5)[1] for f in (meta_loss, joint_loss)]"),
    ("per_example_gradients", "per_example_gradients(initial(), *data(random.key(0), 9)[:2])"),
    ("per_example_gradients", "train(*data(random.key(0), 40)[:2], 5, random.key(1))"),
    ("ppo", "train(random.key(0), 2)"),
    ("ppo", "balance(init(random.key(0)), random.key(1), 30)"),
    ("rnn", "train(random.key(0), 5, 8)[1]"),
]


def for_jax(text: str) -> str:
    """An example's text with the imports that it would have for JAX."""
    text = re.sub(r"^import functrax(\.numpy as jnp)?$", r"import jax\1", text, flags=re.MULTILINE)
    text = re.sub(r"^from functrax", "from jax", text, flags=re.MULTILINE)
    return text.replace("functrax.", "jax.")


def module(name: str, text: str) -> ModuleType:
    made = ModuleType(name)
    path = EXAMPLES / f"{name}.py"
    vars(made)["__file__"] = str(path)
    exec(compile(text, path, "exec"), vars(made))
    return made


def leaves(tree: Any) -> list[Any]:
    return [leaf for leaf in functrax.tree.leaves(tree) if not isinstance(leaf, str)]


@pytest.mark.parametrize(("name", "expression"), CASES)
def test_an_example_in_jax(name: str, expression: str) -> None:
    jax = pytest.importorskip("jax")
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    for library in ("matplotlib", "tqdm", "sklearn"):
        if library in text:
            pytest.importorskip(library)
    ours, theirs = module(name, text), module(name, for_jax(text))
    assert vars(theirs)["jax"] is jax
    with functrax.enable_x64(True), jax.enable_x64(True):
        found, expected = (leaves(eval(expression, vars(m))) for m in (ours, theirs))
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
        assert np.asarray(one).dtype == np.asarray(other).dtype
