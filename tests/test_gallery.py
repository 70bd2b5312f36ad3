"""The gallery names every workload; what is committed of it is whole, small and quotes its own results; a failure is
said and stops no other."""

import html
import importlib.util
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from tests.frames import events, spans
from tests.frames import trace as make_trace
from tracekit.cli import app
from tracekit.report.build import analyse

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "reports" / "gallery"

spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs" / "gallery.py")
gallery = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gallery)

EACH = pytest.mark.parametrize("each", gallery.EXPERIMENTS, ids=lambda each: each.name)
NAMES = [each.name for each in gallery.EXPERIMENTS]
# A report's own files, where `make gallery` has built them.
BUILT = [path for name in NAMES for path in (GALLERY / name).glob("*") if path.is_file() and path.suffix != ".parquet"]
PAGES = [ROOT / "reports" / "README.md", ROOT / "docs" / "gallery.md"]


def page() -> str:
    return PAGES[0].read_text("utf-8")


def results() -> dict:
    return json.loads(gallery.RESULTS.read_text("utf-8"))


def test_the_gallery_the_table_of_workloads_and_their_files_name_the_same():
    table = (ROOT / "workloads" / "README.md").read_text("utf-8")
    assert re.findall(r"^\| \[(\w+)\.py\]\(\1\.py\) \|", table, re.MULTILINE) == NAMES
    paths = (ROOT / "workloads").glob("*.py")
    assert {path.stem for path in paths if '__name__ == "__main__"' in path.read_text("utf-8")} == {*NAMES}


def test_a_picture_and_a_result_of_each_experiment_are_committed_and_nothing_else():
    assert list(results()) == NAMES
    assert {path.stem for path in gallery.PICTURES.iterdir()} == {*NAMES}
    assert {path.name for path in GALLERY.iterdir() if path.is_file()} <= {"results.json", "index.html"}
    for name in NAMES:
        assert (gallery.PICTURES / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_what_a_build_adds_is_ignored():
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    names = ["report.html", "report.md", "summary.json", "gantt.png", "intervals.parquet"]
    paths = [f"reports/gallery/{each}/{name}" for each in NAMES for name in names] + ["reports/gallery/index.html"]
    committed = ["reports/gallery/results.json", *(f"docs/images/gallery/{name}.png" for name in NAMES)]
    process = subprocess.run(
        ["git", "check-ignore", "--no-index", *paths, *committed], cwd=ROOT, capture_output=True, text=True
    )
    assert process.stdout.split() == paths


def test_the_pages_are_what_the_script_writes_from_the_results_beside_them():
    assert [path.read_text("utf-8") for path in PAGES] == [gallery.readme(results()), gallery.comparison(results())]


@EACH
def test_the_pages_quote_the_verdicts_and_the_proof_of_the_report(each):
    own = results()[each.name]
    assert list(own["verdicts"]) == list(each.phases)
    readme, docs = (html.unescape(" ".join(path.read_text("utf-8").split())) for path in PAGES)
    for name, verdict in own["verdicts"].items():
        assert f"* **{name}**: {verdict}" in readme
    assert f"**Proof.** {own['proved']}" in docs
    # All words around the figures are those of the experiment; no figure is typed by hand.
    words = re.split(r"\{\w+\[[^]]+\]\}", each.proved)
    assert re.fullmatch(".+?".join(map(re.escape, words)), own["proved"])


@EACH
def test_the_docs_say_where_a_promise_comes_from_and_what_is_not_claimed(each):
    docs = " ".join(PAGES[1].read_text("utf-8").split())
    assert re.fullmatch(r"(\[[^]]+\]\(https://[^)]+\)(; (?=\[))?)+", each.source)
    assert f"**Promise.** {each.promise} {each.source}" in docs
    assert f"**Only on accelerators, and not claimed here.** {each.accelerator}" in docs


def test_figures_are_those_of_the_phases_of_a_summary():
    # cpu:0 computes 6 of 10 ps, and alone as long; cpu:1 collects 5, of which 3 beside it, and computes 2.
    rows = events(("cpu:0", "compute", 0, 6), ("cpu:1", "collective", 3, 8), ("cpu:1", "compute", 8, 10))
    marks = spans(("alone", 0, 2), ("both", 0, 10, None, "alone"))
    summary = analyse(make_trace(rows, marks)).summary()
    texts = gallery.figures(summary["phases"])
    assert {name: by_phase["both"] for name, by_phase in texts.items()} == {
        "wall": "10 ps",
        "speedup": "0.60x",
        "overlap": "50.0 %",
        "idle": "35.0 %",
        "collectives": "0 %",
        "copies": "unknown",
    }
    assert texts["speedup"]["alone"] == "unknown"


def test_a_failure_is_said_does_not_stop_the_others_and_fails_the_whole(tmp_path, monkeypatch, capsys):
    def build(each):
        if each.name == "small_ops":
            raise subprocess.CalledProcessError(3, [sys.executable, "-m", "tracekit", "capture"])
        if each.name == "scheduling":
            raise subprocess.TimeoutExpired([sys.executable, "-m", "tracekit", "report"], 1)

    monkeypatch.setattr(gallery, "ROOT", tmp_path)
    monkeypatch.setattr(gallery, "GALLERY", tmp_path)
    monkeypatch.setattr(gallery, "INDEX", tmp_path / "index.html")
    monkeypatch.setattr(gallery, "build", build)
    assert gallery.main(["concurrent", "small_ops", "scheduling", "training"]) == 1
    said = capsys.readouterr().err
    assert "small_ops FAILED: tracekit capture ended with exit code 3\n" in said
    assert f"scheduling FAILED: tracekit report took too long ({gallery.LIMIT_S} s in all)\n" in said
    assert "Wrote training/report.html\n" in said
    assert said.endswith("2 of 4 experiments failed: small_ops, scheduling\n")
    assert "<b>small_ops failed</b>" in (tmp_path / "index.html").read_text("utf-8")


def test_a_command_that_takes_too_long_ends_with_all_that_it_started(tmp_path):
    child = f"import time, pathlib; time.sleep(1.5); pathlib.Path({str(tmp_path / 'late')!r}).touch()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with pytest.raises(subprocess.TimeoutExpired):
        gallery.run([sys.executable, "-c", parent], 0.5)
    with pytest.raises(subprocess.CalledProcessError):
        gallery.run([sys.executable, "-c", "raise SystemExit(2)"], 60)
    time.sleep(1.5)
    assert not (tmp_path / "late").exists()


def test_the_page_of_the_reports_that_are_built_needs_no_network():
    text = gallery.index(results(), {})
    assert re.findall(r'(?:src|link href)="(?!\w+/picture\.png")[^"]*"', text) == []
    for each in gallery.EXPERIMENTS:
        assert f'<a href="{each.name}/report.html">' in text
        assert f'<h2 id="{each.name}">' in text


@EACH
def test_the_commands_are_commands_of_tracekit_and_of_the_workload(each):
    group = typer.main.get_command(app)
    for command in each.commands:
        assert f"    {command}\n" in page()
        program, name, *words = command.split()
        assert program == "tracekit"
        with group.commands[name].make_context(name, words):
            pass
    script = (ROOT / "workloads" / f"{each.name}.py").read_text("utf-8")
    assert [option for option in each.arguments.split()[::2] if f'"{option}"' not in script] == []


@pytest.mark.parametrize(
    "path", [GALLERY / "results.json", *BUILT], ids=lambda path: path.relative_to(GALLERY).as_posix()
)
def test_no_report_names_a_directory_of_the_machine_that_made_it(path):
    text = path.read_bytes().decode("utf-8", "replace") if path.suffix != ".png" else ""
    assert re.findall(r"""["'`(\s>]/(?:home|root|tmp|usr|var|opt|mnt|work)/[\w./-]*""", text) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_of_the_pages_lead_somewhere(path):
    text = path.read_text("utf-8")
    headings = {gallery._anchor(heading) for heading in re.findall("^##+ (.+)$", text, re.MULTILINE)}
    for target in map("".join, re.findall(r'\]\(([^)]+)\)|src="([^"]+)"', text)):
        if target.startswith("#"):
            assert target[1:] in headings, target
        elif not target.startswith("https://"):
            assert (path.parent / target).exists(), target


def test_what_is_committed_is_small():
    pictures = [gallery.PICTURES / f"{name}.png" for name in NAMES]
    assert sum(path.stat().st_size for path in (gallery.RESULTS, *pictures)) < 1_000_000
