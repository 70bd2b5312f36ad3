"""The tests of the docs see what is wrong with a page: an option, a name, a column, an output that is not so."""

import pytest

from tests.docs.blocks import Block, blocks
from tests.docs.checks import WrongDocsError, check, commands
from tests.docs.running import compare, run_page, run_tracekit


def block(language: str, text: str, comment: str = "") -> Block:
    return Block("page.md", 1, language, text, comment)


@pytest.mark.parametrize(
    ("language", "text", "complaint"),
    [
        ("bash", "tracekit report traces/a --outt b", "--outt"),
        ("bash", "tracekit reprot traces/a", "no command 'reprot'"),
        ("bash", "tracekit report", "source"),
        ("bash", "tracekit view traces/a --port 70000", "70000"),
        ("bash", "echo a && tracekit read traces/a --jsn | head", "--jsn"),
        ("bash", "XLA_FLAGS=--x tracekit capture --devicess 2 a.py", "--devicess"),
        ("bash", "python benchmarks/read_xspace.py --event 10", "no option --event"),
        ("bash", "python benchmarks/none.py", "no benchmarks/none.py"),
        ("bash", "make demmo", "no demmo"),
        ("bash", "unheard-of --option", "unheard-of"),
        ("python", "tracekit.raed('a')", "no tracekit.raed"),
        ("python", "from tracekit.analysis import overlaps", "no tracekit.analysis.overlaps"),
        ("python", "import tracekit.nothing", "no tracekit.nothing"),
    ],
)
def test_a_block_that_is_not_run_is_checked(language, text, complaint):
    with pytest.raises(WrongDocsError, match=complaint):
        check(block(language, text))


@pytest.mark.parametrize("text", ["x = (", "def f(:"])
def test_python_that_does_not_compile_is_seen(text):
    with pytest.raises(SyntaxError):
        check(block("python", text))


def test_what_exists_passes_the_checks():
    check(block("bash", "tracekit report traces/a \\\n  --out b  # why\nmake demo\nsudo apt-get install x\n"))
    check(block("python", "import tracekit\nwith tracekit.phase('a'):\n    tracekit.read('x').events.kind\n"))


def test_a_block_that_fails_is_named_by_its_page_and_line(tmp_path):
    wrong = "import pandas\npandas.DataFrame({'ratio': [1]})['ration']\n"
    with pytest.raises(WrongDocsError, match=r"page\.md:1: KeyError: 'ration'"):
        run_page([block("python", wrong)], tmp_path, run_tracekit)
    with pytest.raises(WrongDocsError, match=r"page\.md:1: tracekit read missing: .*does not exist"):
        run_page([block("bash", "tracekit read missing\n")], tmp_path, run_tracekit)
    with pytest.raises(WrongDocsError, match=r"page\.md:1: false"):
        run_page([block("bash", "false\n")], tmp_path, run_tracekit)


def test_output_is_compared_to_the_letter_or_without_figures():
    output = "device  busy\ncpu:0    81 %\nnothing else\n"
    compare(block("text", "device busy\ncpu:0 81 %\n", "output"), output)
    compare(block("text", "device busy\n[…]\ncpu:0 7 %\n", "output, figures differ"), output)
    with pytest.raises(WrongDocsError, match="cpu:0 7 %"):
        compare(block("text", "cpu:0 7 %\n", "output"), output)
    with pytest.raises(WrongDocsError, match="device idle"):
        compare(block("text", "device idle\n", "output, figures differ"), output)


def test_blocks_of_a_page_are_found_in_order_with_their_comments():
    text = (
        "# A\n\n<!-- setup\nx = 1\n-->\n\n<!-- not run: needs a GPU -->\n```bash\nmake demo\n```\n\n"
        "text <!-- not this --> and\n\n    make test      # all\n\nthen\n\n    with a:\n        b()\n\n    c()\n\nend\n"
    )
    assert [(b.line, b.language, b.text, b.comment) for b in blocks("p", text)] == [
        (3, "python", "x = 1\n", "setup"),
        (8, "bash", "make demo\n", "not run: needs a GPU"),
        (14, "bash", "make test      # all\n", ""),
        (18, "python", "with a:\n    b()\n\nc()\n", ""),
    ]


def test_the_words_of_commands_are_found_behind_variables_pipes_and_line_ends():
    text = "A=1 tracekit read \\\n  x | head -3 && make demo > out # not this\n\n# nor this\n"
    assert commands(text) == [["tracekit", "read", "x"], ["head", "-3"], ["make", "demo"]]
