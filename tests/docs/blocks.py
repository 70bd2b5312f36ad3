"""The code blocks of a page, and what the comment above each says about how it is tested.

<!-- not run: needs a GPU -->       only checked: its commands parse, its Python compiles and its names exist
<!-- file: train.py -->             written to that file; a Python file is compiled
<!-- output -->                     what the block before it prints, to the letter
<!-- output, figures differ -->     the same with any figures: each line without one stands in the real output
<!-- setup                          Python that runs here and is not shown
"""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = {"cli.md", "api.md"}  # other tests compare these with the code
PAGES = (ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name not in GENERATED))

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_SETUP = re.compile(r"^<!-- setup\n(?P<body>.*?)^-->$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?:(?: {4}.*|)\n)*? {4}\S.*\n(?:(?: {4}.*|)\n)*(?=\S|\Z)")
_COMMENT = re.compile(r"<!-- ((?:(?!-->).)+) -->\s*\Z", re.DOTALL)
_COMMANDS = ("tracekit ", "python ", "pip ", "make ", "nsys ", "apt-get ", "ssh ")


@dataclass(frozen=True)
class Block:
    """One block: `language` is python, bash, toml, text, …; `comment` the HTML comment right above it, or empty."""

    page: str
    line: int
    language: str
    text: str
    comment: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def guess_language(text: str) -> str:
    """Tell the language of an indented block: commands, Python, or text."""
    lines = [line for line in text.splitlines() if line.strip()]
    if all(line.startswith(_COMMANDS) for line in lines):
        return "bash"
    try:
        ast.parse(text)
    except SyntaxError:
        return "text"
    return "python"


def blocks(page: str, text: str) -> list[Block]:
    """Every block of a page in order: fenced, indented by four spaces, or setup in a comment."""
    parts = []
    fenced = list(_FENCE.finditer(text))
    for match in fenced:
        body = re.sub(rf"^{match['indent']}", "", match["body"], flags=re.MULTILINE)
        comment = _COMMENT.search(text[: match.start()])
        parts.append((match.start(), match["language"], body, comment[1] if comment else ""))
    for match in _SETUP.finditer(text):
        parts.append((match.start(), "python", match["body"], "setup"))
    for match in _INDENTED.finditer(text):
        if any(fence.start() <= match.start() < fence.end() for fence in fenced):
            continue
        body = re.sub("^    ", "", match[0], flags=re.MULTILINE).strip("\n") + "\n"
        comment = _COMMENT.search(text[: match.start()])
        parts.append((match.start(), guess_language(body), body, comment[1] if comment else ""))
    return [
        Block(page, text.count("\n", 0, at) + 1, language, body, comment)
        for at, language, body, comment in sorted(parts)
    ]


def page_blocks(path: Path) -> list[Block]:
    """The blocks of a file of the repository."""
    return blocks(str(path.relative_to(ROOT)), path.read_text("utf-8"))
