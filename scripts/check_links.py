"""Check that the links of a site lead somewhere: ``python scripts/check_links.py FOLDER``.

Looks at links from page to page, to a place within a page, and to pictures and other files; those
to other sites are left alone.  Ends with 1 if one leads nowhere.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The places of a page, and what it links to.

    Attributes:
      places: the names that a link may have behind ``#``.
      links: what it links to, as written.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element's names and links."""
        for name, value in attrs:
            if value and (name == "id" or (name == "name" and tag == "a")):
                self.places.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


def dead_links(folder: Path) -> list[str]:
    """What leads nowhere: the page, and the link as written."""
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found = target.is_file()
            if found and parts.fragment and target in pages:
                found = unquote(parts.fragment) in pages[target].places
            if not found:
                dead.append(f"{path.relative_to(folder.resolve())}: {link}")
    return dead


def main() -> int:
    """Print the dead links of the folder that the command line names."""
    folder = Path(sys.argv[1])
    dead = dead_links(folder)
    print("\n".join(dead) if dead else f"{folder}: every link leads somewhere")
    return 1 if dead else 0


if __name__ == "__main__":
    raise SystemExit(main())
