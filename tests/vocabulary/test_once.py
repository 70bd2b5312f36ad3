"""What profilers call things stands in the vocabulary once: no other module holds a second list of it."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tracekit.vocabulary.collectives import OPERATIONS

SOURCES = Path(__file__).parents[2] / "tracekit"
MODULES = sorted(
    path
    for path in SOURCES.rglob("*")
    if path.suffix in (".py", ".js") and "vocabulary" not in path.relative_to(SOURCES).parts
)
# What only the vocabulary may seek in a name, and what makes a string a pattern.
WORDS = re.compile(
    r"all[\W_]*(reduce|gather|to[\W_]*all)|reduce[\W_]*scatter|permute|[nr]ccl(?!:)|nvshmem|synchroni|compil|memcpy|memset|h(2|to)d\b|d(2|to)h\b"
    r"|profilerstep|step_num|rank|worker|launch|wait|rendezvous|execut|pjit|event_?record",
    re.IGNORECASE,
)
PATTERN = re.compile(r"[\\^$|*+?]|\(\?|\[[^]]*\]")
# A call of a program, as profilers write it.
CALL = re.compile(r"([A-Z]\w*[a-z][A-Z]\w*|\w+::[\w:]*)( \(.*\))?$")
BEGINNING = re.compile(r"([A-Z]\w+: |Rendezvous)$")
# Those that are no list of what others call things.
EXCEPTIONS = {
    # Which collectives PyTorch's older annotations count wrongly: they tell only the tensors that go in.
    "readers/chrome/kineto_work.py": {("all-gather", "gather", "scatter")},
}


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The nodes of a module in Python."""
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))


@cache
def strings(path: Path) -> list[str]:
    """The string constants of a module that are neither docstrings nor parts of a sentence."""
    documents = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in nodes(path) if isinstance(node, ast.JoinedStr) for part in node.values}
    return [
        node.value
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents | parts
    ]


def is_pattern(text: str) -> bool:
    """A sentence has spaces and ends in none of these; a pattern holds characters that only patterns hold."""
    return bool(PATTERN.search(text)) and not re.search(r"[a-z,] [a-z]+ [a-z]", text)


def lists(path: Path) -> list[tuple[str, ...]]:
    """The collections of constants that hold three or more operations."""
    collections = []
    for node in nodes(path):
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            parts = node.keys if isinstance(node, ast.Dict) else node.elts
            names = tuple(part.value for part in parts if isinstance(part, ast.Constant) and part.value in OPERATIONS)
            collections += [names] if len(names) > 2 else []
    return collections


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_no_other_module_holds_a_list_of_names(path):
    if path.suffix == ".js":
        patterns = re.findall(r"/(?:[^/\n\\]|\\.)+/[gimsuy]*(?=[.,;)])", path.read_text("utf-8"))
        assert [pattern for pattern in patterns if WORDS.search(pattern)] == []
        return
    assert [text for text in strings(path) if is_pattern(text) and WORDS.search(text)] == []
    assert set(lists(path)) <= EXCEPTIONS.get(path.relative_to(SOURCES).as_posix(), set())


def test_no_other_module_names_a_call_that_launches_waits_meets_or_executes():
    texts = {text for path in MODULES if path.suffix == ".py" for text in strings(path)}
    assert [text for text in sorted(texts) if (CALL.match(text) or BEGINNING.match(text)) and WORDS.search(text)] == []


def test_no_two_modules_hold_the_name_of_one_call():
    modules: dict[str, set[str]] = {}
    for path in MODULES:
        if path.suffix == ".py":
            for text in filter(CALL.fullmatch, strings(path)):
                modules.setdefault(text, set()).add(path.relative_to(SOURCES).as_posix())
    assert {text for text, holders in modules.items() if len(holders) > 1} == {"TensorBoard"}
