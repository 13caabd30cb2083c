"""What the tests of eager mode share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from functrax.backends import eager


@pytest.fixture
def usual_cuts() -> Iterator[None]:
    """For tests of where recorded operations are cut: as for users, also in the stress mode."""
    with eager.stress(""):
        yield
