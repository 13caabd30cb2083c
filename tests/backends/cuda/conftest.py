"""Random numbers of these tests are the same whatever ran before in the process."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.backends.cuda import numbers_of_types


@pytest.fixture(autouse=True)
def own_random_numbers() -> Iterator[None]:
    numbers_of_types.RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state
    yield
