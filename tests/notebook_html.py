"""The words of a notebook's HTML, which may hold nothing that a notebook would run."""

from html.parser import HTMLParser

# What may stand in an output: nothing that loads, runs or sets a colour.
TAGS = {"div", "p", "strong", "em", "ol", "ul", "li", "details", "summary", "table", "thead", "tbody", "tr", "th", "td"}
LARGE = {"display:flex;flex-wrap:wrap;gap:0.5em 2.5em", "max-width:16em", "font-size:1.75em"}
STYLES = {None, "text-align:left", "text-align:right", *LARGE}


class Checked(HTMLParser):
    """Well-formed, with only those tags and attributes; `words` is what a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS
        assert dict(attrs).keys() <= {"class", "style"}
        assert dict(attrs).get("style") in STYLES
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += [data] if data.strip() else []


def words(page: str) -> list[str]:
    return Checked(page).words
