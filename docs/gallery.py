"""Make the gallery in reports/: capture the workloads on CPU, report on each trace, and write what is to be seen there.

`make gallery` makes all of it, in a minute on two quiet cores. Run it where little else runs: figures are as they come.
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
# What of a report is committed: frames of all intervals are as large as the trace.
KEPT = ("report.html", "report.md", "gantt.png", "summary.json")


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
        "Compare what ran at the same time (the timeline's lowest lane) with what it bought (the table of phases).",
    ),
    Entry(
        "copy_overlap",
        "Copies between two devices behind compute, naive and pipelined",
        "copy_overlap.py",
        ("naive", "pipelined"),
        "In the timeline, the copies of `naive` come one at a time, and of `pipelined` each right behind its product.",
    ),
    Entry(
        "training",
        "Data-parallel training on one and on two devices",
        "training.py",
        ("2 devices",),
        "In the steps, how long each device computed, and how long it stood in an all-reduce, with nothing beside it. "
        "A speedup is no proof of a second device here: on CPU two batches of 128 cost less than one of 256 "
        "([figures](../docs/training.md)).",
        "--steps 6",
    ),
    Entry(
        "autoparallel",
        "More devices than cores",
        "autoparallel.py",
        ("8 devices",),
        "In the collectives, how long the devices that came first waited for those that had no core.",
        "--steps 5",
    ),
)


def make(entry: Entry) -> None:
    """Capture and report; what stood there before is replaced when all of it is done."""
    trace, target = ROOT / "traces" / "gallery" / entry.name, REPORTS / "gallery" / entry.name
    # File names without the directories of this machine, and no accelerator.
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_HLO_SOURCE_FILE_CANONICALIZATION_REGEX": ".*/"}
    shutil.rmtree(trace, ignore_errors=True)
    (ROOT / "reports").mkdir(exist_ok=True)
    with TemporaryDirectory(dir=REPORTS, prefix=".gallery-") as draft:
        for command in entry.commands:
            words = command.replace(f"reports/gallery/{entry.name}", draft).split()[1:]
            subprocess.run([sys.executable, "-m", "tracekit", *words], cwd=ROOT, env=env, check=True, stdout=sys.stderr)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for name in KEPT:
            (Path(draft) / name).replace(target / name)


def machine() -> str:
    """What the traces were captured on, as tracekit wrote it beside the first of them."""
    (found,) = (ROOT / "traces" / "gallery" / ENTRIES[0].name).glob("plugins/profile/*/capture.json")
    told = json.loads(found.read_text("utf-8"))
    versions = told["versions"]
    return (
        f"Captured on {told['started'][:10]} on {told['usable_cores']} virtual cores ({platform.machine()}), "
        f"jax {versions['jax']}, Python {versions['python']}."
    )


def readme(machine: str) -> str:
    """The page that shows the gallery, from the figures that stand in it."""
    parts = [_HEAD, _wrapped(f"{_ABOUT} {machine} {_KNOW}")]
    for entry in ENTRIES:
        home = f"gallery/{entry.name}"
        summary = json.loads((REPORTS / home / "summary.json").read_text("utf-8"))
        files = f"[Page]({home}/report.html), [text]({home}/report.md), [figures]({home}/summary.json); made by"
        image = f'<img src="{home}/gantt.png" width="720" alt="{_plain(summary["headline"])}">'
        parts += [f"### {entry.title}", f"[{image}]({home}/gantt.png)", "\n".join(said(entry, summary))]
        parts += [_wrapped(entry.look), files, "\n".join(f"    {command}" for command in entry.commands)]
    return "\n\n".join(parts) + "\n"


def said(entry: Entry, summary: dict[str, Any]) -> list[str]:
    """The verdicts on the phases that the entry is about, in the report's words."""
    return [_wrapped(f"* **{name}**: {_plain(summary['verdicts'][name])}", "  ") for name in entry.phases]


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace('"', "&quot;")


_HEAD = """# Reports

`tracekit report` writes here, one directory a trace; that is not committed, the gallery is.

## Gallery

<!-- Made by `make gallery` from the reports below: change docs/gallery.py, not this page. -->"""
_ABOUT = "Real reports of the [workloads](../workloads)."
_KNOW = (
    "CPU only so far: no accelerator was at hand. CPU devices are queues that share the cores, so overlap there says "
    "little about accelerators, and on a shared machine each run gives other figures: read speedup and stretch beside "
    "it. Each page is one file that opens offline; download it, since GitHub shows its source."
)


def main() -> None:
    """Make all reports, then the page."""
    for entry in ENTRIES:
        make(entry)
    (REPORTS / "README.md").write_text(readme(machine()), "utf-8")
    print("Wrote reports/README.md and reports/gallery/", file=sys.stderr)


if __name__ == "__main__":
    main()
