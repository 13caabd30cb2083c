"""An operation that fails when it runs, until it is told not to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import functrax.core.tracing.primitive as primitives


@contextmanager
def failing_operation() -> Iterator[Any]:
    """A copy of its operand; it raises ``ValueError("no value")`` while its ``wrong`` is true."""

    class Failing(primitives.Elementwise):
        name = "fails_when_it_runs"
        wrong = True

        def reference(self, *args: Any, **params: Any) -> Any:
            if self.wrong:
                raise ValueError("no value")
            return np.asarray(args[0])

    try:
        yield Failing()
    finally:
        del primitives.registry[Failing.name]
