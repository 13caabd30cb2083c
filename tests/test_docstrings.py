"""Every example in a docstring runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import functrax
from functrax.core import native
from functrax.core.options.config import Override

#: The extension, and what changes the process that imports it.
NOT_IMPORTED = ("functrax._native", "functrax.compat.pytest_plugin")
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(functrax.__path__, "functrax.")
    if module.name not in NOT_IMPORTED
)


@pytest.mark.parametrize("name", ["functrax", *MODULES])
def test_examples(name: str) -> None:
    if native.extension is None and name in ("functrax", "functrax.backends.eager"):
        pytest.skip("pending_program shows what is recorded, which is nothing")
    with Override("traceback_filtering", "off"):  # doctests would compare the note as well
        result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples fail"
