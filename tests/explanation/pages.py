"""What tests know of a page: its elements, the names that links lead to, and what it refers to."""

from __future__ import annotations

from html.parser import HTMLParser

_EMPTY = frozenset({"meta", "input", "br", "img", "rect", "path"})


class Page(HTMLParser):
    """Reads a page; elements that are not closed in order are an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.links: list[str] = []
        self.resources: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if known.get("id"):
            self.names.append(str(known["id"]))
        if tag == "a":
            self.links.append(str(known["href"]))
        self.resources += [str(known[key]) for key in ("src", "data", "action") if key in known]
        self.resources += [str(known["href"])] if tag in ("link", "use", "image") else []
        if tag not in _EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _EMPTY:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in _EMPTY:
            return
        assert self._open and self._open[-1] == tag, (tag, self._open, self.getpos())
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("script", "style"):
            self.text += data


def checked(text: str) -> Page:
    """A page that needs nothing else, and whose links lead somewhere."""
    page = Page(text)
    assert page.resources == [] and "url(http" not in text and "@import" not in text
    assert len(set(page.names)) == len(page.names)
    lost = {link for link in page.links if link[0] != "#" or link[1:] not in page.names}
    assert not lost
    return page
