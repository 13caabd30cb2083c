"""docs/kernels.md lists every primitive that no kernel computes, and no other."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

from functrax.backends.compiler import compile_program
from functrax.backends.program import HostCall
from functrax.core import dtypes
from tests.backends.random_checks import traced
from tests.primitives.harness import Case, first_cases

PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"
#: What makes complex numbers of others, or parts of them.
COMPLEX = {"complex", "conj", "imag", "real"}


def is_called(case: Case, dtype: np.dtype[np.generic]) -> bool:
    """Whether the reference is called for a sample of a primitive."""
    jaxpr, _ = traced(lambda *xs: list(case.apply(*xs, dtype=dtype)), case.operands(dtype))
    works = compile_program(jaxpr).works
    return any(isinstance(i, HostCall) for work in works for i in work.instructions)


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
    assert called - COMPLEX == listed
