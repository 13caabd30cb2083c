"""What packages say of functrax: the same dependencies everywhere, all Pythons with wheels."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text()
RECIPE = (ROOT / "conda/meta.yaml").read_text()
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14", "3.15"]


def bounds(text: str) -> dict[str, str]:
    """The lowest versions that lines of requirements name."""
    return dict(re.findall(r"([a-z][\w-]*) ?>=([\d.]+)", text))


def section(text: str, begin: str, end: str) -> str:
    return text.split(begin, 1)[1].split(end, 1)[0]


def test_conda_asks_for_what_pip_asks_for() -> None:
    asked = bounds(section(PYPROJECT, "\ndependencies = [", "\n]"))
    python = re.search(r'requires-python = ">=([\d.]+)"', PYPROJECT)
    assert python is not None
    assert bounds(section(RECIPE, "  run:", "\ntest:")) == {"python": python[1], **asked}
    building = bounds(section(PYPROJECT, "\nrequires = [", "]"))
    assert building.items() <= bounds(section(RECIPE, "  host:", "  run:")).items()


def test_every_python_with_wheels_is_declared() -> None:
    declared = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)
    built = re.search(r'^build = "(.*)"', PYPROJECT, re.MULTILINE)
    assert built is not None
    assert declared == PYTHONS
    assert built[1].split() == [f"cp{x.replace('.', '')}-*" for x in PYTHONS]


def test_versions_agree() -> None:
    version = re.search(r'__version__ = "(.*)"', (ROOT / "functrax/__init__.py").read_text())
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert version is not None and cited is not None
    assert version[1] == cited[1]
    assert f"## [{version[1]}]" in (ROOT / "CHANGELOG.md").read_text()
