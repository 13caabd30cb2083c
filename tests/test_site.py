"""The checker of links finds what leads nowhere; the reference has every public namespace."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import functrax

ROOT = Path(__file__).parents[1]


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_dead_links(tmp_path: Path) -> None:
    links = _module(ROOT / "scripts" / "check_links.py")
    (tmp_path / "b").mkdir()
    (tmp_path / "picture.svg").write_text("<svg/>")
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b/c.html#here">1</a><a href="#top">2</a>'
        '<img src="picture.svg">'
        '<a href="b/c.html#there">3</a><a href="none.html">4</a><img src="lost.png">'
        '<a href="https://example.org/x#y">5</a><a href="mailto:a@example.org">6</a>'
    )
    (tmp_path / "b" / "c.html").write_text('<a name="here"></a><a href="../a.html#gone">7</a>')
    assert links.dead_links(tmp_path) == [
        "a.html: b/c.html#there",
        "a.html: none.html",
        "a.html: lost.png",
        "b/c.html: ../a.html#gone",
    ]


def test_the_reference() -> None:
    site = _module(ROOT / "docs" / "conf.py")
    seen: dict[int, str] = {}
    found = {name: site.public(name, seen) for name in site.NAMESPACES}
    assert found["functrax.numpy"]["sum"] is functrax.numpy.sum
    assert len(found["functrax.numpy"]) > 340 and len(found["functrax.lax"]) > 190
    assert "ShapeError" in found["functrax.errors"] and "ShapeError" not in found["functrax.lax"]
    described = [x for names in found.values() for x in names.values() if not isinstance(x, str)]
    assert len({id(x) for x in described}) == len(described) > 900  # each once


def test_every_page_is_reached() -> None:
    docs = ROOT / "docs"
    listed = re.findall(r"^[\w/]+$", (docs / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    generated = {docs / "decisions", docs / "reference", docs / "site"}  # have indices of their own
    paths = [path for path in docs.rglob("*.md") if not generated & set(path.parents)]
    pages = {path.relative_to(docs).with_suffix("").as_posix() for path in paths} - {"index"}
    assert pages | {"reference/index", "decisions/index"} == set(listed)
    assert len(listed) == len(set(listed))


def test_links_between_folders_stay() -> None:
    nodes = pytest.importorskip("docutils.nodes")
    site = _module(ROOT / "docs" / "conf.py")
    page = nodes.paragraph()
    page += nodes.reference("", "the tests", refuri="../tests/test_site.py")
    page += nodes.reference("", "start", refuri="../start.html", internal=True)
    site.link_sources(None, page, "tutorials/classifier")
    assert [type(child).__name__ for child in page.children] == ["Text", "reference"]


def test_figures_have_pages() -> None:
    images = ROOT / "docs" / "images"
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    text = "".join(path.read_text(encoding="utf-8") for path in pages)
    shown = re.findall(r"images/([\w.]+)\)", text)
    assert sorted(path.name for path in images.iterdir()) == sorted(set(shown))
