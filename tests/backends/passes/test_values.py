"""Passes keep what programs mean: values bit for bit, derivatives; and a wrong one is found."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.compilation.bisection import first_wrong_rewrite
from functrax.backends.compilation.pipeline import PIPELINE, run_pipeline
from functrax.backends.compilation.stage import as_pass
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Eqn, Jaxpr
from functrax.core.options.config import Override
from functrax.core.prims.arithmetic import add, sub
from functrax.core.syntax.parsing import parse_jaxpr
from functrax.core.syntax.verify import verify
from functrax.core.tracing.stage import eval_jaxpr, program_observers
from tests.backends.passes import pass_checks as check
from tests.backends.passes.random_programs import random_program
from tests.programs.models import PROGRAMS
from tests.thinning import one_in

#: What comes after inlining and before grouping.
DIFFERENTIABLE = [
    s for s in PIPELINE if s.name in ("constant_folding", "simplify", "compose", "cse", "dce")
]


@pytest.fixture(autouse=True)
def verified():
    with Override("check", True), Override("backend", "interp"):
        yield


def check_stages(jaxpr, seed=0):
    """Every stage of the pipeline gives the bits of the program.

    Sums of products that were split, turned or batched are added up in another order; a product
    that became one operation with its sum is not rounded.
    """
    values = check.draw(jaxpr, seed)
    wanted = check.run_reference(jaxpr, values)
    stages = run_pipeline(jaxpr)
    for stage in stages.stages:
        found = check.run_reference(stage.program, values)
        same = check.same_bits(found, wanted)
        if not same and stage.name in ("recognise", "batch", "orient", "fma") and stage.rewrites:
            assert check.nearly_equal(found, wanted)
            wanted, same = found, True
        assert same, f"{stage.name} changed:\n{jaxpr}\n{stage.program}"
    return stages


@pytest.mark.parametrize("block", one_in(2, range(10)))
def test_random_programs_keep_their_values(block):
    rewrites = 0
    for seed in range(20 * block, 20 * block + 20):
        jaxpr = random_program(seed, 10 + seed % 30, large=seed % 4 == 0)
        verify(jaxpr)
        rewrites += sum(stage.rewrites for stage in check_stages(jaxpr, seed).stages)
    assert rewrites > 100


@pytest.mark.parametrize("step", DIFFERENTIABLE, ids=lambda step: step.name)
def test_passes_commute_with_grad(step):
    """The derivative of what a pass makes is the derivative of what it was given."""
    for seed in range(8):
        before = random_program(1000 + seed, steps=12, smooth=True)
        after = step.run(before, Rewrites())
        values = [functrax.numpy.asarray(v) for v in check.draw(before, seed)]

        def gradient(jaxpr):
            def loss(*args):
                return sum(jnp.sum(jnp.tanh(y)) for y in eval_jaxpr(jaxpr, (), *args))

            return functrax.grad(loss, tuple(range(len(jaxpr.invars))))

        for found, wanted in zip(gradient(after)(*values), gradient(before)(*values), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_models_keep_their_values(name):
    """Every program that a model traces, its derivatives and the bodies of its loops included."""
    traced: list[Jaxpr] = []
    program_observers.append(traced.append)
    try:
        PROGRAMS[name]()
    finally:
        program_observers.remove(traced.append)
    for jaxpr in dict.fromkeys(traced):
        if not jaxpr.constvars and not jaxpr.effects and len(jaxpr.eqns) < 300:
            check_stages(jaxpr)


def test_optimisation_off_gives_the_same_values():
    jaxpr = random_program(7, steps=30)
    values = check.draw(jaxpr)
    with Override("opt", False):
        plain = run_pipeline(jaxpr).program
    optimised = run_pipeline(jaxpr).program
    assert len(optimised.eqns) < len(plain.eqns)
    found = check.run_reference(optimised, values)
    assert check.same_bits(found, check.run_reference(plain, values))


# ---- a planted miscompile -----------------------------------------------------------------------


def planted(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """Turns every sum around, which is right, and every difference, which is not."""
    eqns = []
    for eqn in jaxpr.eqns:
        if eqn.primitive in (add, sub) and rewrites.allow("operands change places", eqn):
            eqn = Eqn(eqn.primitive, eqn.invars[::-1], eqn.outvars, eqn.params, eqn.source)
        eqns.append(eqn)
    return Jaxpr((), jaxpr.invars, jaxpr.outvars, eqns, jaxpr.name)


def test_a_planted_miscompile_is_found():
    sums = "".join(f" {'bcdefghij'[k]}:f32[] = add {'xbcdefghi'[k]} y" for k in range(9))
    jaxpr = parse_jaxpr(
        f"""{{ lambda ; x:f32[] y:f32[]. let
              {sums}
              p:f32[] = sub j y  # train.py:7 in loss
              q:f32[] = add p y
              r:f32[] = sub q x  # train.py:9 in loss
            in (r,) }}"""
    )
    values = [np.float32(0.3), np.float32(1.7)]
    wanted = check.run_reference(jaxpr, values)

    def is_right(program):
        return check.same_bits(check.run_reference(program, values), wanted)

    passes = (*PIPELINE[:2], as_pass("planted", planted), *PIPELINE[2:])
    culprit = first_wrong_rewrite(jaxpr, is_right, passes)
    assert culprit is not None
    assert (culprit.name, culprit.number) == ("planted", 10)
    assert "operands change places" in culprit.rewrite
    assert "train.py:7 in loss" in culprit.rewrite
    assert str(culprit).endswith("avoided by FUNCTRAX_OPT_LIMIT=planted=9")
    assert is_right(culprit.before)
    assert not is_right(culprit.after)
    with Override("opt_limit", "planted=9"):
        assert is_right(run_pipeline(jaxpr, passes).program)
    with Override("opt_limit", "planted=10"):
        assert not is_right(run_pipeline(jaxpr, passes).program)


def test_a_right_pipeline_has_no_culprit():
    assert first_wrong_rewrite(random_program(3), lambda program: True) is None


def test_a_pass_that_is_wrong_without_a_rewrite():
    def drop(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
        return Jaxpr((), jaxpr.invars, [jaxpr.invars[0]], (), jaxpr.name)

    jaxpr = parse_jaxpr("{ lambda ; x:f32[] y:f32[]. let z:f32[] = add x y in (z,) }")
    found = first_wrong_rewrite(jaxpr, lambda program: bool(program.eqns), (as_pass("drop", drop),))
    assert found is not None
    assert (found.name, found.number, found.rewrite) == ("drop", 0, "")
