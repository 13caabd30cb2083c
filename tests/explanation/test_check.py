"""``functrax.check``: agreement on right programs, and what it says of planted miscompiles."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, lax
from functrax.backends.compilation import codegen, pipeline
from functrax.backends.compilation.stage import Stage, as_pass
from functrax.backends.kernels.ir import Store
from functrax.backends.loops.rewrites.peel import Peel
from functrax.backends.loops.rewrites.rewrite import on_loops
from functrax.backends.loops.tree import Function, Loop
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Literal
from functrax.core.options.config import Override
from functrax.core.prims.arithmetic import add, sub
from functrax.core.records import replace
from functrax.explanation.agreement import Judge
from functrax.transforms.arguments.inspect_types import jaxpr_as_fun
from tests.backends.passes.pass_checks import draw
from tests.backends.passes.random_programs import random_program

X = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with functrax.backend("llvm"), Override("cache", False):
        yield


def normalised(x: Any) -> Any:
    mean = x.mean(1, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(1, keepdims=True) + 1)


def scanned(x: Any) -> Any:
    return lax.scan(lambda c, row: (c * 0.5 + row.sum(), c), jnp.float32(0), x)


@pytest.mark.parametrize(
    "function",
    [
        normalised,
        functrax.jit(normalised),
        functrax.grad(lambda x: (normalised(x) ** 3).sum()),
        scanned,
        functrax.grad(lambda x: scanned(x)[0]),
        functrax.vmap(lambda row: jnp.sort(row) * 2),
        lambda x: lax.while_loop(lambda c: c.sum() < 100, lambda c: jnp.abs(c) * 2 + 1, x),
        lambda x: lax.cond(x[0, 0] > 0, lambda v: v * 2, lambda v: v.T.T - 1, x),
        lambda x: x.at[jnp.array([1, 1, 3])].add(2.0),
        lambda x: (x > 0, jnp.argmax(x, 1), (x * 10).astype(jnp.int32)),
        lambda x: jnp.sqrt(x),  # NaNs at the same places
        lambda x: jnp.zeros((0, 3)) + x[:0, :3],
    ],
)
def test_right_programs_agree(function: Any) -> None:
    report = functrax.check(function)(X)
    assert report.passes[-1] == "fuse"
    assert "agrees" in str(report)


@pytest.mark.parametrize("strict", [False, True])
def test_subnormal_numbers_are_no_mistake(strict: bool) -> None:
    """The reference flushes them where programs do."""
    x = np.array([2e-38, -3e-38, 1e-40, 1], np.float32)
    with Override("strict", strict):
        functrax.check(lambda x: (x * 0.25, jnp.log(x * 0.25), x * 0.25 > 0, x % 1))(x)


def check_random_program(seed: int) -> None:
    """A random program, or a derivative or a batch of derivatives of one."""
    kind = seed % 4
    jaxpr = random_program(seed, steps=5 + seed % 20, smooth=kind > 1, large=seed % 8 == 0)
    values = [jnp.asarray(v) for v in draw(jaxpr, seed)]
    function: Any = jaxpr_as_fun(functrax.ClosedJaxpr(jaxpr, ()))
    if kind > 1:
        plain = function
        function = functrax.grad(lambda *a: sum(jnp.sum(jnp.sin(x)) for x in plain(*a)))
    if kind == 3:
        function, values = functrax.vmap(function), [jnp.stack([v, v * 0.5]) for v in values]
    functrax.check(function)(*values)


def test_random_programs_agree() -> None:
    for seed in range(16):
        check_random_program(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_random_programs_agree(block: int) -> None:
    for seed in range(100 * block + 100, 100 * block + 200):
        check_random_program(seed)


def test_types_stand_for_random_arrays() -> None:
    report = functrax.check(normalised)(functrax.ShapeDtypeStruct((4, 4), "float32"))
    assert report.launches == len(report.kernels) > 0


def test_cancellation_is_rounding() -> None:
    """A result that is rounding alone differs by any number of units in the last place."""
    report = functrax.check(lambda x, y: x * y - y * x * 1.0000001)(X, X[::-1])
    assert report.launches == 1


def test_the_order_of_long_sums_is_rounding() -> None:
    def f(x: Any, y: Any) -> Any:
        return functrax.grad(lambda w: (jnp.tanh(x @ w) * y).sum())(jnp.ones((4, 3)))

    random = np.random.default_rng(0)
    x, y = (random.standard_normal((5000, n)).astype(np.float32) for n in (4, 3))
    assert functrax.check(f)(x, y).launches > 0


def test_the_order_of_products_that_are_summed_is_rounding() -> None:
    """Of many elements some have a sum near zero, though their products are not."""
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(s).astype(np.float32) for s in ((100, 600), (600, 120)))
    judge = Judge(functrax.make_jaxpr(jnp.matmul)(x, y).jaxpr, [x, y])
    one_by_one = np.zeros((100, 120), np.float32)
    for k in range(600):
        one_by_one += x[:, k : k + 1] * y[k]
    assert judge.mismatch([one_by_one]) is None
    one_by_one -= x[:, :1] * y[0]
    found = judge.mismatch([one_by_one])
    assert found is not None and found.count > 0.9 * one_by_one.size, "a term is missing"


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_a_sum_is_as_noisy_as_its_terms_are_many(dtype: str) -> None:
    """Rows of a scatter get as many terms as they are named; running sums have no more."""
    random = np.random.default_rng(0)
    x = random.standard_normal((5000, 3)).astype(dtype)
    rows = np.where(np.arange(5000) % 10, 0, np.arange(5000) % 7)

    def f(x: Any, rows: Any) -> Any:
        return jnp.zeros((7, 3), x.dtype).at[rows].add(x), jnp.cumsum(x, 0), x.sum(0)

    values = [x, rows.astype(np.int32)]
    judge = Judge(functrax.make_jaxpr(f)(*values).jaxpr, values)
    table, running, total = judge.wanted
    one_by_one = x.cumsum(0, dtype=np.result_type(dtype, np.float32))[-1].astype(dtype)
    assert judge.mismatch([table, running, one_by_one]) is None
    wrong = table.copy()
    wrong[0] -= 20
    assert judge.mismatch([wrong, running, total]) is not None
    assert judge.mismatch([table, running + 20, total]) is not None


def planted(run: Any) -> tuple[Stage, ...]:
    """The pipeline with a pass before fusion."""
    steps = [*pipeline.PIPELINE]
    steps.insert(len(steps) - 1, as_pass("planted", run))
    return tuple(steps)


def swap_second(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """Replaces x + 1 by 1 + x, which is right, and x - 2 by x + 2, which is not."""
    eqns = []
    for eqn in jaxpr.eqns:
        second = eqn.invars[1] if len(eqn.invars) == 2 else None
        if eqn.primitive is add and rewrites.allow("commute", eqn):
            eqn = Eqn(add, eqn.invars[::-1], eqn.outvars, eqn.params, eqn.source)
        elif eqn.primitive is sub and isinstance(second, Literal):
            if rewrites.allow("wrong sign", eqn):
                eqn = Eqn(add, eqn.invars, eqn.outvars, eqn.params, eqn.source)
        eqns.append(eqn)
    return Jaxpr((), jaxpr.invars, jaxpr.outvars, eqns, jaxpr.name)


def test_a_wrong_pass_and_its_rewrite_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "PIPELINE", planted(swap_second))

    def f(x: Any) -> Any:
        return jnp.sqrt(jnp.sqrt(abs(x) + 1) - 2) + 3

    with pytest.raises(errors.MiscompilationError) as caught:
        functrax.check(f)(X)
    text = str(caught.value)
    assert "the pass planted changes what f computes" in text
    assert re.search(r"rewrite 2: wrong sign: .*= sub", text)
    assert "FUNCTRAX_OPT_LIMIT=planted=1" in text


def test_a_wrong_kernel_is_named_with_its_equations(monkeypatch: pytest.MonkeyPatch) -> None:
    real = codegen.emit_kernel

    def wrong(kernel: Any, *options: Any) -> Any:
        emitted = real(kernel, *options)
        if "sqrt" not in kernel.name:
            return emitted
        return dataclasses.replace(emitted, text=emitted.text.replace(" fadd ", " fsub "))

    monkeypatch.setattr(codegen, "emit_kernel", wrong)

    def f(x: Any) -> Any:
        total = jnp.cumsum(x * 2.5, 1)
        return jnp.sqrt(jnp.abs(total) + 1)

    with pytest.raises(errors.MiscompilationError) as caught:
        functrax.check(f)(X)
    text = str(caught.value)
    assert re.match(r"check: the kernel sqrt_add\w* computes something else", text)
    assert "30 elements differ" in text and "= add " in text
    assert "without any rewrite of its loops, too" in text
    assert f":{f.__code__.co_firstlineno + 2} in f" in text


def test_a_wrong_rewrite_of_loops_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Peel.apply

    def wrong(self: Peel, tree: Function) -> Function:
        """Stores zeros in the last vector of each row."""

        def zeros(loop: Loop) -> list[Loop]:
            body = [
                replace(s, value=tree.builder.const(0, s.value.dtype)) if type(s) is Store else s
                for s in loop.body
            ]
            return [replace(loop, body=tuple(body)) if loop.peeled else loop]

        tree = real(self, tree)
        return on_loops(tree, self.dim, zeros)

    monkeypatch.setattr(Peel, "apply", wrong)
    x = np.random.default_rng(0).standard_normal((70, 1001), dtype=np.float32)
    with pytest.raises(errors.MiscompilationError) as caught:
        functrax.check(lambda v: jnp.sqrt(abs(v)) + v)(x)
    text = str(caught.value)
    assert re.search(r"from the rewrite \d of its loops on: peel d\d", text), text
    assert re.search(r"FUNCTRAX_OPT_LIMIT=schedule=\d avoids it", text)


def test_a_wrong_kernel_inside_a_loop_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = codegen.emit_kernel

    def wrong(kernel: Any, *options: Any) -> Any:
        emitted = real(kernel, *options)
        return dataclasses.replace(emitted, text=emitted.text.replace(" fmul ", " fadd "))

    monkeypatch.setattr(codegen, "emit_kernel", wrong)

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, c: jnp.sort(c) * 1.5, x)

    with pytest.raises(errors.MiscompilationError, match="the kernel mul"):
        functrax.check(f)(X)


def test_the_judge_counts_units_and_places() -> None:
    jaxpr = functrax.make_jaxpr(lambda x: (x * 1.0 + 0.5, x > 0))(X).jaxpr
    judge = Judge(jaxpr, [X])
    a, b = judge.wanted
    assert judge.mismatch([np.nextafter(a, np.float32(9)), b]) is None
    assert 0 < judge.largest <= 1
    wrong = a.copy()
    wrong[2, 3] = np.nan
    found = judge.mismatch([wrong, b])
    assert found is not None and (found.index, found.count, found.size) == ((2, 3), 1, 30)
    found = judge.mismatch([a, ~b])
    assert found is not None and (found.result, found.count) == (1, 30)
    small = a.copy()
    small[0, 0] *= np.float32(1.0001)
    assert judge.mismatch([small, b]) is not None


def test_options_of_jit_and_their_errors() -> None:
    functrax.check(lambda n, x: x * n, static_argnums=0)(3, X)
    with pytest.raises(errors.ArgumentError, match="takes no options of jit"):
        functrax.check(functrax.jit(normalised), static_argnums=0)(X)
    with pytest.raises(errors.ArgumentError, match="being traced"):
        functrax.jit(lambda x: functrax.check(normalised)(x))(X)
