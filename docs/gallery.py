"""Build the gallery in reports/gallery: capture the workloads on CPU, and write a report on each trace.

`make gallery` does it, in a minute on two otherwise idle cores. The picture and verdicts of each report are committed,
with the page reports/README.md that shows them: `python docs/gallery.py --renew` replaces them by those of the new
reports. Renew them on an otherwise idle machine, since the figures of a busy one mislead.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parent.parent
REPORTS = ROOT / "reports"
GALLERY = REPORTS / "gallery"
RESULTS = GALLERY / "results.json"


@dataclass(frozen=True)
class Entry:
    """One report of the gallery: the workload and its arguments, the phases whose verdicts it shows, where to look."""

    name: str
    title: str
    script: str
    phases: tuple[str, ...]
    look: str
    arguments: str = ""

    @property
    def commands(self) -> tuple[str, str]:
        """What makes it, from the root of the repository."""
        capture = f"tracekit capture --out traces/gallery/{self.name} workloads/{self.script} {self.arguments}".rstrip()
        return capture, f"tracekit report --out reports/gallery/{self.name} traces/gallery/{self.name}"


ENTRIES = (
    Entry(
        "concurrent",
        "The same products on two devices, apart and together",
        "concurrent.py",
        ("both", "both wide"),
        "Compare what ran concurrently (the lowest lane of the timeline) with the speedup (the table of phases).",
    ),
    Entry(
        "copy_overlap",
        "Copies between two devices behind compute, naive and pipelined",
        "copy_overlap.py",
        ("naive", "pipelined"),
        "In the timeline, `naive` copies one result at a time, `pipelined` each result right behind its product.",
    ),
    Entry(
        "training",
        "Data-parallel training on one and on two devices",
        "training.py",
        ("2 devices",),
        "The steps show how long each device computed, and how long its all-reduce was exposed. A speedup does not "
        "prove a contribution of the second device here: on CPU two batches of 128 cost less than one of 256 "
        "([figures](../docs/training.md)).",
        "--steps 6",
    ),
    Entry(
        "autoparallel",
        "More devices than cores",
        "autoparallel.py",
        ("8 devices",),
        "The collectives show how long the devices that arrived first waited for those without a core.",
        "--steps 5",
    ),
)


def build(entry: Entry) -> None:
    """Capture and report; the report that stood there before is replaced when all of the new one is done."""
    trace, target = ROOT / "traces" / "gallery" / entry.name, GALLERY / entry.name
    # File names without the directories of this machine, and no accelerator.
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_HLO_SOURCE_FILE_CANONICALIZATION_REGEX": ".*/"}
    shutil.rmtree(trace, ignore_errors=True)
    GALLERY.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=REPORTS, prefix=".gallery-") as draft:
        for command in entry.commands:
            words = command.replace(f"reports/gallery/{entry.name}", draft).split()[1:]
            subprocess.run([sys.executable, "-m", "tracekit", *words], cwd=ROOT, env=env, check=True, stdout=sys.stderr)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(draft, target)


def machine() -> str:
    """What the traces were captured on, as tracekit wrote it beside the first of them."""
    (path,) = (ROOT / "traces" / "gallery" / ENTRIES[0].name).glob("plugins/profile/*/capture.json")
    facts = json.loads(path.read_text("utf-8"))
    versions = facts["versions"]
    return (
        f"Captured on {facts['started'][:10]} on {facts['usable_cores']} virtual cores ({platform.machine()}), "
        f"jax {versions['jax']}, Python {versions['python']}."
    )


def results() -> dict[str, Any]:
    """The machine, and of each built report its headline and the verdicts on the phases that the entry is about."""
    reports = {}
    for entry in ENTRIES:
        summary = json.loads((GALLERY / entry.name / "summary.json").read_text("utf-8"))
        verdicts = {name: summary["verdicts"][name] for name in entry.phases}
        reports[entry.name] = {"headline": summary["headline"], "verdicts": verdicts}
    return {"machine": machine(), "reports": reports}


def readme(results: dict[str, Any]) -> str:
    """The page that shows the gallery."""
    parts = [_HEAD, _wrap(f"{_ABOUT} {results['machine']} {_KNOW}")]
    for entry in ENTRIES:
        report, picture = results["reports"][entry.name], f"gallery/{entry.name}.png"
        image = f'<img src="{picture}" width="720" alt="{_plain(report["headline"])}">'
        lines = [_wrap(f"* **{name}**: {_plain(report['verdicts'][name])}", "  ") for name in entry.phases]
        parts += [f"### {entry.title}", f"[{image}]({picture})", "\n".join(lines), _wrap(entry.look), "Made by"]
        parts += ["\n".join(f"    {command}" for command in entry.commands)]
    return "\n\n".join(parts) + "\n"


def renew() -> None:
    """Replace the committed pictures, results and page by those of the reports that are built."""
    for entry in ENTRIES:
        shutil.copyfile(GALLERY / entry.name / "gantt.png", GALLERY / f"{entry.name}.png")
    new = results()
    RESULTS.write_text(json.dumps(new, indent=1) + "\n", "utf-8")
    (REPORTS / "README.md").write_text(readme(new), "utf-8")
    print("Wrote reports/README.md, and results and pictures in reports/gallery/", file=sys.stderr)


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace('"', "&quot;")


_HEAD = """# Reports

`tracekit report` writes here, one directory per trace. Only the gallery's pictures and results are committed.

## Gallery

<!-- Written by `python docs/gallery.py --renew`: change docs/gallery.py, not this page. -->"""
_ABOUT = (
    "Reports of the [workloads](../workloads). `make gallery` builds them with their pages, tables and figures: "
    "`reports/gallery/<name>/report.html` and the files next to it. Pictures and verdicts here are from one such run."
)
_KNOW = (
    "All are CPU runs, since no accelerator was available. CPU devices are queues that share the cores, so their "
    "overlap says little about accelerators, and on a shared machine figures differ from run to run: consider speedup "
    "and stretch as well."
)


def main(options: list[str]) -> None:
    """Build all reports; with --renew, replace what is committed of them."""
    if options not in ([], ["--renew"]):
        raise SystemExit(f"usage: {sys.argv[0]} [--renew]")
    for entry in ENTRIES:
        build(entry)
        print(f"Wrote {(GALLERY / entry.name / 'report.html').relative_to(ROOT)}", file=sys.stderr)
    if options:
        renew()


if __name__ == "__main__":
    main(sys.argv[1:])
