"""What the tests of eager mode share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from functrax.backends import eager
from functrax.core import native


@pytest.fixture
def usual_cuts() -> Iterator[None]:
    """For tests of where recorded operations are cut: as for users, also in the stress mode."""
    if native.extension is None:
        pytest.skip("nothing is recorded without the extension")
    with eager.stress(""):
        yield
