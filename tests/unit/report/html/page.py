"""A page of HTML as tests ask it: what is in its sections, and what a browser would take for its own."""

from html.parser import HTMLParser

_INSIDE_WORDS = {"a", "strong", "code", "option", "summary", "label"}
_WITHOUT_END = {"meta", "br", "input", "img", "link", "line", "rect", "path", "circle"}


class Page(HTMLParser):
    """A page as a browser parses it.

    Attributes:
        texts: id of a section -> its text, with one space for white space of any kind; "" is what is before the first.
        rows: id of a section -> the cells of each row of its tables.
        tags: the names of all elements, in the order they begin.
        attributes: all of them, with their elements: (element, attribute, value).
        scripts: what is in each script.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: dict[str, str] = {"": ""}
        self.rows: dict[str, list[list[str]]] = {"": []}
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: list[str] = []
        self._section = ""
        self._in: list[str] = []
        self.feed(text)
        self.close()
        self.texts = {name: " ".join(told.split()) for name, told in self.texts.items()}
        self.rows = {name: [[" ".join(cell.split()) for cell in row] for row in rows] for name, rows in self.rows.items()}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in _WITHOUT_END:
            self._in.append(tag)
        if tag == "section":
            self._section = dict(attrs)["id"] or ""
            self.texts[self._section], self.rows[self._section] = "", []
        elif tag == "tr":
            self.rows[self._section].append([])
        elif tag in {"td", "th"}:
            self.rows[self._section][-1].append("")
        elif tag == "script":
            self.scripts.append("")
        if tag not in _INSIDE_WORDS | {"script", "style"}:
            self.handle_data(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._in:
            del self._in[len(self._in) - 1 - self._in[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        if "script" in self._in:
            self.scripts[-1] += data
        elif "style" not in self._in:
            self.texts[self._section] += data
            if "td" in self._in or "th" in self._in:
                self.rows[self._section][-1][-1] += data
