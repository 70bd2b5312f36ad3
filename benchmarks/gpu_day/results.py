"""The folder of a GPU day: what goes where, README.md and summary.json over all of it, and the archive to send."""

import gzip
import json
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from comparison import Figures, table
from parts import Outcome

SMALL_BYTES = 200_000  # the largest trace that goes to tests/data
LARGEST_BYTES = 100_000_000  # a larger file stays out of the archive


@dataclass(frozen=True)
class Layout:
    """Where things go in the folder of results."""

    root: Path

    @property
    def devices(self) -> Path:
        """What jax sees, written by the part of that name."""
        return self.root / "devices.json"

    def trace(self, name: str) -> Path:
        """The directory of a capture."""
        return self.root / "traces" / name

    def compare(self, name: str) -> Path:
        """A file of the comparison."""
        return self.root / "compare" / name


def keep_small(layout: Layout) -> list[dict[str, Any]]:
    """Gzip what may go to tests/data into small/; the name and bytes of each, and whether it is small enough."""
    found = {
        f"{path.parents[3].name}.xplane.pb": path for path in layout.root.glob("traces/small-*/plugins/profile/*/*.pb")
    }
    found |= {
        path.name: path for path in layout.compare("").glob("*") if path.name.endswith((".sqlite", ".pt.trace.json"))
    }
    kept = []
    for name, path in found.items():
        target = layout.root / "small" / f"{name}.gz"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        kept.append({"name": target.name, "bytes": target.stat().st_size, "fits": target.stat().st_size <= SMALL_BYTES})
    return kept


@dataclass(frozen=True)
class Day:
    """What a day has found, for the files that tell it."""

    facts: Mapping[str, Any]
    lacking: list[str]
    outcomes: list[Outcome]
    figures: list[Figures]
    small: list[dict[str, Any]]
    reports: Mapping[str, Mapping[str, Any]]

    def summary(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {"schema": 1, **asdict(self)}

    def markdown(self) -> str:
        """All of it for people."""
        lines = ["# A GPU day", "", *(f"* {name}: {value}" for name, value in self.facts.items()), "", _ABOUT, ""]
        if self.lacking:
            lines += ["## What is missing", "", *(f"* {sentence}" for sentence in self.lacking), ""]
        lines += ["## Parts", "", "| part | | seconds | |", "|---|---|---|---|"]
        lines += [f"| {each.name} | {each.state} | {each.seconds:.1f} | {_cell(each.why)} |" for each in self.outcomes]
        if self.figures:
            lines += ["", "## The same program, according to each tool", "", _ABOUT_FIGURES, "", *table(self.figures)]
        if self.small:
            lines += ["", "## Small traces, in small/", "", "| file | bytes | |", "|---|---|---|"]
            too_large = f"more than {SMALL_BYTES:,}"
            lines += [
                f"| {each['name']} | {each['bytes']:,} | {'' if each['fits'] else too_large} |" for each in self.small
            ]
        if self.reports:
            lines += ["", "## Reports, in reports/"]
        for name, report in self.reports.items():
            lines += ["", f"### {name}", "", f"* {report['headline']}"]
            lines += [f"* **{phase}**: {verdict}" for phase, verdict in (report["verdicts"] or {}).items()]
        return "\n".join(lines) + "\n"


_ABOUT = (
    "Beside this page: `summary.json`, the same for programs; `logs/`, what each part printed; `traces/`, `reports/`; "
    "`compare/`, files of the other profilers; `small/`, traces for tests."
)
_ABOUT_FIGURES = (
    "Products with copies to the GPU and from it queued beside them; of the first GPU. A profiler slows down the host: "
    "the program's own clock without one comes first. Each tool's own rows are counted without tracekit."
)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def reports_of(layout: Layout) -> dict[str, dict[str, Any]]:
    """Headline and verdicts of each report."""
    found = {}
    for path in sorted(layout.root.glob("reports/*/summary.json")):
        summary = json.loads(path.read_text("utf-8"))
        found[path.parent.name] = {"headline": summary["headline"], "verdicts": summary["verdicts"]}
    return found


def write(layout: Layout, day: Day) -> Path:
    """Write README.md and summary.json, and all of the folder as a tar archive beside it, whose path is returned."""
    large = [path for path in layout.root.rglob("*") if path.is_file() and path.stat().st_size > LARGEST_BYTES]
    day.lacking.extend(f"{path.relative_to(layout.root)} is too large for the archive." for path in large)
    (layout.root / "summary.json").write_text(json.dumps(day.summary(), indent=1) + "\n", "utf-8")
    (layout.root / "README.md").write_text(day.markdown(), "utf-8")
    archive = layout.root.with_name(f"{layout.root.name}.tar.gz")
    left_out = {f"{layout.root.name}/{path.relative_to(layout.root)}" for path in large}
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(layout.root, layout.root.name, filter=lambda member: None if member.name in left_out else member)
    return archive
