"""docs/kernels.md lists every primitive that no kernel computes, and no other."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.compilation.compiler import compile_program
from functrax.backends.executables.program import HostCall
from functrax.backends.libraries.calls import PRIMITIVES
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.native import available
from functrax.core.tracing.stage import close
from functrax.core.types import dtypes
from functrax.scipy.sparse.linalg import cg
from tests.backends.random_checks import traced
from tests.primitives.harness import Case, first_cases

PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"


def makes_calls(jaxpr: Jaxpr) -> bool:
    """Whether a program calls the reference."""
    works = compile_program(jaxpr).works
    return any(isinstance(i, HostCall) for work in works for i in work.instructions)


def is_called(case: Case, dtype: np.dtype[np.generic]) -> bool:
    """Whether the reference is called for a sample of a primitive."""
    jaxpr, _ = traced(lambda *xs: list(case.apply(*xs, dtype=dtype)), case.operands(dtype))
    return makes_calls(jaxpr)


def test_the_list_is_true() -> None:
    called = set()
    for case in first_cases():
        kind = type(case.primitive)
        if not hasattr(sys.modules.get(kind.__module__), kind.__name__) or (
            not kind.__module__.startswith("functrax.")
        ):
            continue  # another test's, or an example's in a docstring
        wanted = [d for d in case.tested_dtypes if d == dtypes.float32] or case.tested_dtypes[:1]
        called |= {case.primitive.name for dtype in wanted if is_called(case, dtype)}
    section = PAGE.read_text().partition("## What runs by reference")[2]
    listed = set(re.findall(r"`([a-z0-9_]+)`", section.partition("- contractions")[0])) - {
        "explain"
    }
    without = set() if available else PRIMITIVES
    assert called - without == listed


def attention_over_edges(nodes: Any, weights: Any) -> Any:
    """The gradient adds products to where index arrays say, twice to the same nodes."""
    ends = [np.arange(40, dtype=np.int32) * k % 9 for k in (3, 5)]
    both = jnp.concatenate([nodes[e] for e in ends], axis=-1)
    return jnp.sum(jnp.tanh(both @ weights))


def newton_step(matrix: Any, x: Any) -> Any:
    gradient = functrax.grad(lambda x: jnp.sum(jnp.cosh(matrix @ x)))
    return cg(lambda v: functrax.jvp(gradient, (x,), (v,))[1] + v, gradient(x), maxiter=5)[0]


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (functrax.grad(attention_over_edges, (0, 1)), ((9, 4), (8,))),
        (newton_step, ((6, 5), (5,))),
        (functrax.grad(lambda a, x: jnp.sum(newton_step(a, x)), 1), ((6, 5), (5,))),
    ],
)
def test_what_no_reference_is_called_for(function: Any, shapes: Any) -> None:
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype(np.float32) / 2 for shape in shapes]
    jaxpr = close(functrax.make_jaxpr(function)(*args).jaxpr)
    assert not makes_calls(jaxpr)
    with functrax.backend("interp"):
        wanted = functrax.tree.map(np.asarray, functrax.jit(function)(*args))
    found = functrax.jit(function)(*args)
    for x, y in zip(functrax.tree.leaves(found), functrax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
