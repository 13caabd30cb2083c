"""The tests here make the calls of jitted functions in C++ and in its Python twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import functrax
from functrax.core import native


class InPython:
    """A jitted function all of whose calls are made in Python."""

    def __init__(self, jitted: Any) -> None:
        self.jitted = jitted

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.jitted._call_in_python(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.jitted, name)


@pytest.fixture(params=["native", "python"])
def jit(request: pytest.FixtureRequest) -> Callable[..., Any]:
    if request.param == "python":
        return lambda *args, **kwargs: InPython(functrax.jit(*args, **kwargs))
    if native.extension is None:
        pytest.skip("the extension is not built")
    return functrax.jit
