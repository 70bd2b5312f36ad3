"""The example notebook runs, and shows what is committed. `python tests/test_example_notebook.py` renews what it shows.

Figures differ from one version of a library to the next, and cells with the tag "differs" from run to run: of those
only the kind of what they show is compared.
"""

import html
import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

nbformat = pytest.importorskip("nbformat")
# Looked for and not imported, which takes longer than reading the notebook.
if not all(map(find_spec, ("nbclient", "ipykernel"))):
    pytest.skip("needs nbclient and ipykernel (dependency group dev)", allow_module_level=True)

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebooks" / "tracekit.ipynb"


@cache
def execute():
    """The notebook, run in its own directory by this interpreter on virtual CPU devices."""
    import nbclient

    notebook = nbformat.read(NOTEBOOK, 4)
    place = {"metadata": {"path": str(NOTEBOOK.parent)}}
    client = nbclient.NotebookClient(notebook, timeout=300, coalesce_streams=True, resources=place)
    with TemporaryDirectory() as profile:
        client.execute(env={**os.environ, "JAX_PLATFORMS": "cpu", "IPYTHONDIR": profile})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    return notebook


def outputs(cell) -> list[tuple[str, str]]:
    """What a cell shows: the kind of each output, and its words where they are always the same."""
    kinds_and_words = []
    for output in cell.outputs:
        data = output.get("data", {"text/plain": output.get("text", "")})
        kind = next(mime for mime in ("image/png", "text/html", "text/plain") if mime in data)
        text = re.sub(r"<style.*?</style>|<[^>]+>", " ", data[kind], flags=re.DOTALL) if kind == "text/html" else ""
        text = html.unescape(text) or data[kind]
        same = kind != "image/png" and "differs" not in cell.metadata.get("tags", ())
        kinds_and_words.append((kind, " ".join(text.split()) if same else ""))
    return kinds_and_words


def words() -> str:
    """All words that are always the same."""
    return " ".join(text for cell in CELLS.values() for _, text in outputs(cell))


CELLS = {cell.id: cell for cell in nbformat.read(NOTEBOOK, 4).cells if cell.cell_type == "code"}


@pytest.mark.parametrize("name", CELLS)
def test_the_notebook_shows_what_is_committed(name):
    (cell,) = [cell for cell in execute().cells if cell.id == name]
    assert outputs(cell) == outputs(CELLS[name])


def test_the_figures_that_the_text_quotes_stand_in_the_outputs():
    text = " ".join(cell.source for cell in nbformat.read(NOTEBOOK, 4).cells if cell.cell_type == "markdown")
    quoted = re.findall(r"\d[\d.,]*(?:x| %| ms)", text)
    assert len(quoted) > 2
    assert [figure for figure in quoted if figure not in words()] == []


if __name__ == "__main__":
    nbformat.write(execute(), NOTEBOOK)
