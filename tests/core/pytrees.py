"""What tests of pytrees share: both engines, and types that are registered."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import pytest

from functrax import tree_util as pt
from functrax.core.pytree import treedef as pytree_def

Point = namedtuple("Point", "x y")


@pytest.fixture(params=["native", "python"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if request.param not in pytree_def.engines:
        pytest.skip("functrax._native is not built, or switched off")
    chosen = pytree_def.engines[request.param]
    monkeypatch.setattr(pytree_def, "engine", chosen)
    yield chosen


@pt.register_dataclass
@dataclasses.dataclass
class Layer:
    w: Any
    b: Any
    name: str = dataclasses.field(default="layer", metadata=dict(static=True))


class Box:
    def __init__(self, value: Any, label: Any = None) -> None:
        self.value = value
        self.label = label

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and (self.value, self.label) == (other.value, other.label)

    def __hash__(self) -> int:
        return hash((self.value, self.label))


pt.register_pytree_node(Box, lambda b: ((b.value,), b.label), lambda label, c: Box(*c, label))
