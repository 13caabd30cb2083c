"""The tests here run on both implementations of the runtime."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from functrax.backends.runtime.choice import NATIVE, PYTHON, Runtime


@pytest.fixture(params=["native", "python"])
def runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """An implementation, whose number of threads and limit are put back."""
    chosen = NATIVE if request.param == "native" else PYTHON
    if chosen is None:
        pytest.skip("the extension is not built")
    threads, limit = chosen.num_threads(), chosen.pool_limit()
    yield chosen
    chosen.set_num_threads(threads)
    chosen.pool_limit(limit)
