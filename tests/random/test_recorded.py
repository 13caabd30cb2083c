"""Samples equal JAX's for the same keys: those that are recorded, and live ones.

Integers and truth values, and floats made from bits alone, equal JAX's exactly.  Other floats go
through functions whose last bits differ between libraries: they may differ by a few units in the
last place, more where a sampler subtracts numbers close to each other.
"""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import functrax
from functrax import random
from tests.random import recorded
from tests.random.cases import cases
from tests.thinning import one_in

TABLE = recorded.load(pathlib.Path(__file__).parent / "data" / "samples.json")
CANCELLING = {"wald", "loggamma", "orthogonal", "multivariate_normal"}
EVERY_PROGRAM = {
    *("bernoulli", "categorical", "choice", "fold_in", "multivariate_normal", "normal"),
    *("permutation", "randint", "split", "uniform"),
}


def case_name(case):
    arguments = ",".join(
        f"{a['dtype']}{a['shape']}" if isinstance(a, dict) else str(a) for a in case["args"]
    )
    key = f"{'key' if case['typed'] else 'PRNGKey'}({case['seed']})"
    rest = [case["under"], "x64" * case["x64"], str(case["kwargs"] or "")]
    return " ".join(filter(None, [f"{case['name']}({arguments})", key, *rest]))


def check(case, expected, seed=None):
    got = recorded.sampled(functrax, case, seed)
    bounded = len(case["args"]) > 2 or "minval" in case["kwargs"]
    if case["name"] == "uniform" and not bounded:
        recorded.assert_close(got, expected, 0)
    else:
        recorded.assert_close(got, expected, 32 if case["name"] in CANCELLING else 8, scale=2.0)


@pytest.mark.parametrize("entry", TABLE["seeds"], ids=lambda e: f"{e['seed']}-{e['x64']}")
def test_words_of_seeds(entry):
    with functrax.enable_x64(entry["x64"]):
        assert np.asarray(random.PRNGKey(entry["seed"])).tolist() == entry["words"]
        assert np.asarray(random.key_data(random.key(entry["seed"]))).tolist() == entry["words"]
        if entry["dtype"] is None:
            return
        seeds = np.full(2, entry["seed"], entry["dtype"])
        for transform in (functrax.vmap, lambda f: functrax.jit(functrax.vmap(f))):
            raw, typed = transform(random.PRNGKey)(seeds), transform(random.key)(seeds)
            assert np.asarray(raw).tolist() == entry["traced"]
            assert np.asarray(random.key_data(typed)).tolist() == entry["traced"]


@pytest.mark.parametrize("case", one_in(3, TABLE["cases"]), ids=case_name)
def test_samples_are_those_of_jax(case):
    check(case, recorded.decoded(case["out"]))


def test_the_table_holds_every_case():
    held = [{name: v for name, v in case.items() if name != "out"} for case in TABLE["cases"]]
    assert held == cases()


@pytest.mark.parametrize("name", sorted(EVERY_PROGRAM))
def test_the_table_covers_every_way_of_drawing(name):
    own = [case for case in TABLE["cases"] if case["name"] == name]
    assert {case["under"] for case in own} == {"", "jit", "vmap", "batch"}
    assert {case["typed"] for case in own} == {case["x64"] for case in own} == {False, True}
    assert len({case["seed"] for case in own}) >= 4


@pytest.mark.jax
@pytest.mark.parametrize("case", cases(), ids=case_name)
def test_samples_are_those_of_jax_from_another_key(case):
    jax = pytest.importorskip("jax")
    check(case, recorded.sampled(jax, case, seed=2024), seed=2024)
