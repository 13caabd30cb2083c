"""``pytest -p functrax.compat.pytest_plugin``: the tests' ``import jax`` gives functrax."""

from __future__ import annotations

from typing import Any

from functrax.compat import install, report

install()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which names of JAX were used that functrax lacks."""
    used = [request for request in report() if request.used]
    if used:
        terminalreporter.section("names of JAX that functrax lacks")
        for request in used:
            terminalreporter.line(str(request))
