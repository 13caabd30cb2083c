"""Make the figures of the documentation: ``python scripts/make_figures.py [NAME ...]``.

A page makes its figures itself: a block of it calls ``savefig("NAME.svg")``.  This runs the pages
that do so, in a folder that is gone afterwards, and copies what they drew to ``docs/images``.
``tests/test_docs.py`` runs them too, and fails where a page saves no figure of that name.

With names, only those pages run whose file names hold one of them.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.test_docs import figures, run_page  # noqa: E402

#: What makes two runs give the same file, and keeps it small: text stays text.
STYLE = {"svg.hashsalt": "functrax", "svg.fonttype": "none", "savefig.dpi": 150}


def cleaned(svg: str) -> str:
    """A picture without the time at which it was drawn, and without blanks at the ends of lines."""
    return re.sub(r" +$", "", re.sub(r"<dc:date>.*?</dc:date>", "", svg), flags=re.MULTILINE)


def main(names: list[str]) -> None:
    """Run the pages, and keep their figures.

    Args:
      names: parts of the names of the pages to run; all if it is empty.
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update(STYLE)
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if not figures(text) or (names and not any(name in page.name for name in names)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            run_page(text, page.name)
            os.chdir(ROOT)
            for name in figures(text):
                drawn = Path(folder, name).read_text(encoding="utf-8")
                drawn = cleaned(drawn)
                (ROOT / "docs" / "images" / name).write_text(drawn, encoding="utf-8")
                print(f"docs/images/{name}: {len(drawn):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
