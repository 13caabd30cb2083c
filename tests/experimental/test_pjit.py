"""``pjit`` is ``jit``."""

import functrax
from functrax.experimental.pjit import pjit


def test_it_is_jit() -> None:
    assert pjit is functrax.jit
    assert float(pjit(lambda x: x + 1)(1.0)) == 2.0
