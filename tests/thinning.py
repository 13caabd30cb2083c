"""Which generated cases run by default, and which only with `-m slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(every: int, cases: Iterable[Any]) -> list[Any]:
    """All the cases, of which only each `every`-th, from the first on, is not marked slow.

    >>> [type(case).__name__ for case in one_in(2, [7, 8, 9])]
    ['int', 'ParameterSet', 'int']
    """
    return [
        case if k % every == 0 else pytest.param(case, marks=pytest.mark.slow)
        for k, case in enumerate(cases)
    ]
