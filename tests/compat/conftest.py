"""``import jax`` gives functrax while one of these tests runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from functrax import compat
from functrax.compat import missing
from functrax.compat.finder import Finder


def _modules() -> dict[str, ModuleType]:
    return {n: m for n, m in sys.modules.items() if n.partition(".")[0] in ("jax", "jaxlib")}


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    """Install, and leave everything as it was: a JAX that is there too is another test's."""
    before, environment = _modules(), dict(os.environ)
    for name in before:
        del sys.modules[name]
    compat.install()
    try:
        yield
    finally:
        sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, Finder)]
        for name in _modules():
            del sys.modules[name]
        sys.modules.update(before)
        os.environ.pop("FUNCTRAX_COMPAT", None)
        if "FUNCTRAX_COMPAT" in environment:
            os.environ["FUNCTRAX_COMPAT"] = environment["FUNCTRAX_COMPAT"]
        missing._requests.clear()
