"""``pjit`` is ``jit``."""

from functrax.experimental.pjit import pjit


def test_it_jits() -> None:
    double = pjit(lambda x: x * 2)
    assert float(double(1.0)) == 2.0
    assert double.cache_info().traces == 1
