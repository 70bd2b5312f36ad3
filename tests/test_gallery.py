"""The gallery is whole, its page quotes its own figures, and its commands are commands."""

import html
import importlib.util
import json
import re
import zlib
from pathlib import Path

import pytest
import typer

from tracekit.cli import app

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "reports" / "gallery"

spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs" / "gallery.py")
gallery = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gallery)

ENTRIES = pytest.mark.parametrize("entry", gallery.ENTRIES, ids=lambda entry: entry.name)


def page() -> str:
    return (ROOT / "reports" / "README.md").read_text("utf-8")


def test_every_report_of_the_gallery_is_whole_and_there_are_no_others():
    found = {path.relative_to(GALLERY).as_posix() for path in GALLERY.rglob("*") if path.is_file()}
    assert found == {f"{entry.name}/{name}" for entry in gallery.ENTRIES for name in gallery.KEPT}


def test_the_page_is_what_the_script_writes_from_the_figures_beside_it():
    machine = re.search(r"Captured on .*?, Python [\d.]+\.", page().replace("\n", " "))[0]
    assert gallery.readme(machine) == page()


@ENTRIES
def test_the_page_quotes_the_verdicts_of_the_report(entry):
    summary = json.loads((GALLERY / entry.name / "summary.json").read_text("utf-8"))
    text = html.unescape(" ".join(page().split()))
    for name in entry.phases:
        assert f"* **{name}**: {summary['verdicts'][name]}" in text
    assert summary["trace"]["source"] == f"traces/gallery/{entry.name}"


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


@ENTRIES
def test_no_report_names_a_directory_of_the_machine_that_made_it(entry):
    for name in ("report.html", "report.md", "summary.json"):
        text = (GALLERY / entry.name / name).read_text("utf-8")
        assert re.findall(r"""["'`(\s>]/(?:home|root|tmp|usr|var|opt|mnt|work)/[\w./-]*""", text) == []


def test_links_of_the_page_lead_somewhere():
    for target in re.findall(r'\]\(([^)]+)\)|src="([^"]+)"', page()):
        assert (ROOT / "reports" / "".join(target)).exists(), target


def test_the_gallery_is_small_enough_for_a_repository():
    packed = sum(len(zlib.compress(path.read_bytes())) for path in GALLERY.rglob("*") if path.is_file())
    assert packed < 2_500_000
