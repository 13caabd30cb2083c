"""Keeping to a budget of memory: what is computed again, and that results stay what they are."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, lax
from functrax.backends.compilation.pipeline import run_pipeline
from functrax.backends.passes.groups import fused
from functrax.backends.passes.memory.rematerialize import alive, rematerialize
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Var
from functrax.core.options.config import Override
from functrax.core.syntax.parsing import parse_jaxpr
from functrax.core.syntax.verify import verify
from tests.backends.passes.pass_checks import draw, run_reference, same_bits
from tests.backends.passes.random_programs import random_program

LAYERS, WIDTH, BATCH = 12, 16, 64


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with functrax.backend("llvm"):
        yield


def chain(weights: Any, x: Any) -> Any:
    for w in weights:
        x = jnp.tanh(x @ w)
    return jnp.sum(x * x)


def chain_inputs() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(WIDTH, WIDTH)).astype("f4") * 0.3 for _ in range(LAYERS)]
    return weights, rng.normal(size=(BATCH, WIDTH)).astype("f4")


def test_a_budget_is_kept_at_the_price_of_operations() -> None:
    weights, x = chain_inputs()
    gradient = functrax.grad(chain)
    free = functrax.explain(gradient)(weights, x)
    wanted = functrax.jit(gradient)(weights, x)
    flops = [free.flops]
    for share in (0.75, 0.5, 0.35):
        budget = int(free.peak_bytes * share)
        with functrax.memory_budget(budget):
            e = functrax.explain(gradient)(weights, x)
            got = functrax.jit(gradient)(weights, x)
        assert e.peak_bytes <= budget and e.passes[-1].name == "rematerialize"
        assert same_bits(got, wanted), "copies of a kernel give its bits"
        flops.append(e.flops)
    assert flops == sorted(flops) and flops[-1] < 2 * flops[0]


def test_a_budget_that_is_too_small_is_neared() -> None:
    weights, x = chain_inputs()
    with functrax.memory_budget("1KB"), pytest.warns(RuntimeWarning, match="the budget is 1,024"):
        e = functrax.explain(functrax.grad(chain))(weights, x)
        assert "rematerialize" in functrax.check(functrax.grad(chain))(weights[:4], x).passes
    assert 1024 < e.peak_bytes < 6 * x.nbytes


def test_what_loops_keep_is_told_once_at_the_call_of_the_program() -> None:
    def chained(w: Any, x: Any) -> Any:
        return lax.fori_loop(0, 20, lambda _, c: jnp.tanh(c @ w), x).sum()

    slope = functrax.jit(functrax.grad(chained))
    arguments = np.ones((16, 16), "f4"), np.ones((32, 16), "f4")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with functrax.memory_budget("1KB"):
            slope(*arguments)
            slope(*arguments)
    (told,) = caught
    assert told.category is RuntimeWarning and told.filename == __file__
    assert "memory_budget: the temporaries of chained take" in str(told.message)


def test_no_budget_and_an_ample_one_leave_programs_as_they_are() -> None:
    weights, x = chain_inputs()
    for budget in ("", "1GB"):
        with functrax.memory_budget(budget):
            assert functrax.explain(functrax.grad(chain))(weights, x).passes[-1].name == "fuse"
    with pytest.raises(errors.ArgumentError, match="memory_budget is not a number of bytes"):
        functrax.config.update("memory_budget", "little")
    with pytest.raises(errors.ArgumentError, match="memory_budget is not a number") as caught:
        functrax.memory_budget("lots")
    assert caught.value.fix.startswith('functrax.memory_budget("512MB")')


def grouped(seed: int) -> Jaxpr:
    jaxpr = random_program(seed, steps=25, smooth=True, large=seed % 4 == 0)
    return run_pipeline(jaxpr).program


def check_random_program(seed: int) -> bool:
    jaxpr = grouped(seed)
    rewrites = Rewrites()
    smaller = rematerialize(jaxpr, rewrites, 0)
    verify(smaller)
    if smaller is jaxpr:
        return False
    assert rewrites.count and alive(smaller) < alive(jaxpr)
    values = draw(jaxpr, seed)
    assert same_bits(run_reference(smaller, values), run_reference(jaxpr, values))
    return True


def test_random_programs() -> None:
    assert sum(map(check_random_program, range(24))) > 1


def test_what_frees_nothing_in_the_end_is_not_done() -> None:
    """There would be fewer places that are as full as before, but still one."""
    jaxpr = grouped(65)
    rewrites = Rewrites()
    assert rematerialize(jaxpr, rewrites, 0) is jaxpr and rewrites.count > 0


@pytest.mark.slow
def test_many_random_programs() -> None:
    assert sum(map(check_random_program, range(24, 1500))) > 100


def test_gradients_of_loops_and_branches() -> None:
    """What loops keep stays as it is; what lies between them is computed again."""
    weights, x = chain_inputs()

    def f(weights: Any, x: Any) -> Any:
        x = lax.fori_loop(0, 3, lambda i, c: jnp.sin(c @ weights[0]), jnp.tanh(x @ weights[1]))
        x = lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, jnp.tanh(jnp.tanh(x @ weights[2]) @ weights[3]))
        return chain(weights[4:9], x)

    gradient = functrax.grad(f)
    wanted = functrax.jit(gradient)(weights, x)
    peak = functrax.explain(gradient)(weights, x).peak_bytes
    with functrax.memory_budget(int(peak * 0.7)):
        assert functrax.explain(gradient)(weights, x).peak_bytes <= 0.7 * peak
        assert same_bits(functrax.jit(gradient)(weights, x), wanted)


def test_the_rewrites_can_be_limited() -> None:
    jaxpr = functrax.make_jaxpr(functrax.grad(chain))(*chain_inputs()).jaxpr
    program = run_pipeline(jaxpr).program
    sizes = []
    for limit in (0, 1, 2):
        rewrites = Rewrites(limit)
        sizes.append(len(rematerialize(program, rewrites, 0).eqns))
        assert rewrites.count == limit
    assert sizes[0] == len(program.eqns) < sizes[1] < sizes[2]
    small = Override("opt_limit", "rematerialize=1"), functrax.memory_budget(1000)
    with small[0], small[1], pytest.warns(RuntimeWarning, match="the budget is 1,000"):
        last = functrax.explain(functrax.grad(chain))(*chain_inputs()).passes[-1]
    assert (last.name, last.rewrites) == ("rematerialize", 1)


def test_of_a_group_of_several_results_one_is_computed_again() -> None:
    """The copy computes no other result, and reads what that needs."""
    inner = parse_jaxpr(
        "{ lambda ; a:f32[99] b:f32[99]. let c:f32[99] = sin a d:f32[99] = mul b b in (c, d) }"
    )
    outer = functrax.make_jaxpr(lambda x, y: x)(np.ones(99, "f4"), np.ones(99, "f4")).jaxpr
    x, y = outer.invars
    c, d = (Var(x.aval) for _ in range(2))
    total, last = Var(x.aval), Var(x.aval)
    neg, add = (
        parse_jaxpr(f"{{ lambda ; a:f32[99] b:f32[99]. let c:f32[99] = {text} in (c,) }}")
        for text in ("mul a a", "add a b")
    )
    eqns = [
        Eqn(fused, (x, y), (c, d), {"jaxpr": inner, "name": "both"}),
        Eqn(fused, (d, d), (total,), {"jaxpr": neg, "name": "square"}),
        Eqn(fused, (c, total), (last,), {"jaxpr": add, "name": "sum"}),
    ]
    program = Jaxpr((), (x, y), (last,), eqns)
    smaller = rematerialize(program, Rewrites(), 0)
    verify(smaller)
    copy = smaller.eqns[2]
    assert list(copy.invars) == [x]
    assert [e.primitive.name for e in copy.params["jaxpr"].eqns] == ["sin"]
    values = draw(program)
    assert same_bits(run_reference(smaller, values), run_reference(program, values))
    assert partial(rematerialize, budget=10**6)(program, Rewrites()) is program
