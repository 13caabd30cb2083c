"""A headless Chromium, and the pages that it opens; without it these tests are skipped.

They need ``functrax[browser]`` and Chromium: Debian's package ``chromium``, the browser of
``playwright install chromium``, or the one that ``FUNCTRAX_CHROMIUM`` names.  The pages of the
documentation are built, unless ``FUNCTRAX_SITE`` names a folder that has them.  Pictures of what
was seen are left in ``build/screenshots``.  ``bash scripts/look_at_pages.sh`` does all of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def _chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    named = os.environ.get("FUNCTRAX_CHROMIUM")
    return named or next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser that reaches no network."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs functrax[browser]")
    with playwright.sync_playwright() as driver:
        path = _chromium() or driver.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("needs Chromium; none is installed")
        made = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"]
        )
        yield made
        made.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the documentation's pages."""
    if given := os.environ.get("FUNCTRAX_SITE"):
        return Path(given).absolute()
    missing = [name for name in ("sphinx", "myst_parser", "furo") if find_spec(name) is None]
    if missing:
        pytest.skip(f"needs functrax[docs]; {', '.join(missing)} not found")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "docs", str(out)]
    subprocess.run(command, cwd=ROOT, check=True)
    return out


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """Where pictures of pages go."""
    folder = ROOT / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
