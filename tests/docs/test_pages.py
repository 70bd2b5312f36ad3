"""Every command and every piece of code that a page shows is run, or checked where it cannot be."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, blocks, page_blocks
from tests.docs.running import Outcomes, prepare, run_page
from tests.doctor.machines import CPU
from tracekit.doctor import facts

# What README.md leaves open, as it is on a code host alone: placeholders, and what its phases run.
README = (
    (r"traces/train-<time>-<id>|traces/train-…", "traces/train"),
    (r"tracekit capture train.py --steps 20", "tracekit capture --devices 2 --out traces/train train.py --steps 20"),
    (r"tracekit report TRACE --as-phase step", "tracekit report traces/train --as-phase train"),
    (r"^    ((?:make \w+|pip install) .*)$", r"<!-- not run: installs -->\n\n    \1"),
    (r"(?=^    import tracekit$)", "<!-- setup\nimport jax\nx0 = x1 = 1.0\ndef step(x): return x\n-->\n\n"),
    (r"^    (tracekit view .*)$", r"    tracekit view --help"),
)
IMAGES = Path("/usr/share/datasets/fashion-mnist")
TRAIN = ["capture", "--devices", "2", "--out", "traces/train", "train.py", "--steps", "20"]


@pytest.fixture(scope="session")
def tracekit(shared_tmp_path, compiled):
    return Outcomes(shared_tmp_path / "outcomes", compiled)


@pytest.fixture(scope="session")
def common(tmp_path_factory, tracekit):
    """What pages may count on: the tutorial's script, a trace of it, and its report."""
    directory = tmp_path_factory.mktemp("common")
    script = next(b for b in page_blocks(ROOT / "docs/tutorial/your-script.md") if b.comment == "file: train.py")
    (directory / "train.py").write_text(script.text, "utf-8")
    tracekit(TRAIN, directory)
    return {name: directory / name for name in ("train.py", "traces/train")}


@pytest.fixture(autouse=True)
def _programs_of_doctor(monkeypatch):
    """What the programs say that `tracekit doctor` runs; tests/doctor runs them."""
    said = {name: getattr(CPU, name) for name in ("devices", "viewer", "capture", "read")}
    monkeypatch.setattr(facts, "probe", lambda gathered: replace(gathered, **said))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_blocks_of(path, tracekit, common, tmp_path, monkeypatch):
    text = path.read_text("utf-8")
    if "workloads/training.py" in text and path.parent.name == "tutorial" and not IMAGES.is_dir():
        pytest.skip("needs Debian's package dataset-fashion-mnist")
    if path.name == "README.md":
        for pattern, replacement in README:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    blocks_of_page = blocks(str(path.relative_to(ROOT)), text)
    if blocks_of_page:
        prepare(tmp_path, common)
        run_page(blocks_of_page, tmp_path, tracekit)


def test_code_in_the_docs_stands_in_fences_that_name_its_language():
    languages = {"bash", "dockerfile", "json", "python", "sql", "text", "toml", "yaml"}
    every_block = [block for path in PAGES if path.name != "README.md" for block in page_blocks(path)]
    assert [block.where for block in every_block if block.language not in languages] == []


def test_no_page_is_too_long_to_read():
    """But the references of the Python interface and of summary.json, which are looked up and not read."""
    pages = [path for path in PAGES if path.name not in ("api.md", "summary.md")]
    assert [path.name for path in pages if len(path.read_text("utf-8").splitlines()) > 400] == []
