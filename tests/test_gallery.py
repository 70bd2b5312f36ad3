"""The committed part of the gallery is whole and small, its page quotes its own results, its commands are commands."""

import html
import importlib.util
import json
import re
import subprocess
from pathlib import Path

import pytest
import typer

from tests.frames import events
from tests.frames import trace as make_trace
from tracekit.cli import app
from tracekit.report.build import analyse

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "reports" / "gallery"

spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs" / "gallery.py")
gallery = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gallery)

ENTRIES = pytest.mark.parametrize("entry", gallery.ENTRIES, ids=lambda entry: entry.name)
COMMITTED = ["results.json", *(f"{entry.name}.png" for entry in gallery.ENTRIES)]
# A report's own files, where `make gallery` has built them.
BUILT = [
    path
    for entry in gallery.ENTRIES
    for path in (GALLERY / entry.name).glob("*")
    if path.is_file() and path.suffix != ".parquet"
]


def page() -> str:
    return (ROOT / "reports" / "README.md").read_text("utf-8")


def results() -> dict:
    return json.loads(gallery.RESULTS.read_text("utf-8"))


def test_a_picture_and_a_result_of_each_report_are_committed_and_nothing_else():
    files = {path.name for path in GALLERY.iterdir() if path.is_file()}
    assert files == set(COMMITTED)
    assert list(results()["reports"]) == [entry.name for entry in gallery.ENTRIES]
    for entry in gallery.ENTRIES:
        assert (GALLERY / f"{entry.name}.png").read_bytes().startswith(b"\x89PNG")


def test_what_a_build_adds_is_ignored():
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    names = ["report.html", "report.md", "summary.json", "gantt.png", "intervals.parquet"]
    paths = [f"reports/gallery/{entry.name}/{name}" for entry in gallery.ENTRIES for name in names]
    committed = [f"reports/gallery/{name}" for name in COMMITTED]
    process = subprocess.run(
        ["git", "check-ignore", "--no-index", *paths, *committed], cwd=ROOT, capture_output=True, text=True
    )
    assert process.stdout.split() == paths


def test_the_page_is_what_the_script_writes_from_the_results_beside_it():
    assert gallery.readme(results()) == page()


@ENTRIES
def test_the_page_quotes_the_verdicts_of_the_report(entry):
    text = html.unescape(" ".join(page().split()))
    verdicts = results()["reports"][entry.name]["verdicts"]
    assert list(verdicts) == list(entry.phases)
    for name, verdict in verdicts.items():
        assert f"* **{name}**: {verdict}" in text


def test_the_results_are_those_of_the_reports_that_are_built(tmp_path, monkeypatch):
    assert {"headline", "verdicts"} <= analyse(make_trace(events(("gpu:0", "compute", 0, 10)))).summary().keys()
    summary = {
        "headline": "h",
        "verdicts": {name: f"v {name}" for name in gallery.ENTRIES[0].phases} | {"other": "o"},
    }
    monkeypatch.setattr(gallery, "GALLERY", tmp_path)
    monkeypatch.setattr(gallery, "ENTRIES", gallery.ENTRIES[:1])
    monkeypatch.setattr(gallery, "machine", lambda: "Captured on …")
    (tmp_path / "concurrent").mkdir()
    (tmp_path / "concurrent" / "summary.json").write_text(json.dumps(summary))
    verdicts = {"both": "v both", "both wide": "v both wide"}
    assert gallery.results() == {
        "machine": "Captured on …",
        "reports": {"concurrent": {"headline": "h", "verdicts": verdicts}},
    }


@ENTRIES
def test_the_commands_are_commands_of_tracekit_and_of_the_workload(entry):
    group = typer.main.get_command(app)
    for command in entry.commands:
        assert f"    {command}\n" in page()
        program, name, *words = command.split()
        assert program == "tracekit"
        with group.commands[name].make_context(name, words):
            pass
    script = (ROOT / "workloads" / entry.script).read_text("utf-8")
    assert [option for option in entry.arguments.split()[::2] if f'"{option}"' not in script] == []


@pytest.mark.parametrize(
    "path", [GALLERY / "results.json", *BUILT], ids=lambda path: path.relative_to(GALLERY).as_posix()
)
def test_no_report_names_a_directory_of_the_machine_that_made_it(path):
    text = path.read_bytes().decode("utf-8", "replace") if path.suffix != ".png" else ""
    assert re.findall(r"""["'`(\s>]/(?:home|root|tmp|usr|var|opt|mnt|work)/[\w./-]*""", text) == []


def test_links_of_the_page_lead_somewhere():
    for target in re.findall(r'\]\(([^)]+)\)|src="([^"]+)"', page()):
        assert (ROOT / "reports" / "".join(target)).exists(), target


def test_what_is_committed_is_small():
    assert sum((GALLERY / name).stat().st_size for name in COMMITTED) < 1_000_000
