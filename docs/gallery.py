"""Build the gallery in reports/gallery: capture the workloads on CPU, report each, and compare them on one page.

`make gallery` does it, in some four minutes on two otherwise idle cores: reports/gallery/index.html compares the
experiments of docs/gallery.toml. Names of experiments build these only. One that fails, or takes longer than LIMIT_S,
is named, does not stop the others, and fails the whole.

Committed are docs/gallery.md, which compares the experiments too, reports/README.md with their verdicts and commands,
their pictures in docs/images/gallery, and reports/gallery/results.json: `python docs/gallery.py --renew` replaces them
by those of the new reports. Renew them on an otherwise idle machine, since the figures of a busy one mislead.
"""

import html
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from tracekit import units

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PICTURES = DOCS / "images" / "gallery"
REPORTS = ROOT / "reports"
GALLERY = REPORTS / "gallery"
RESULTS = GALLERY / "results.json"
INDEX = GALLERY / "index.html"
LIMIT_S = 180  # of the commands of one experiment together
COLOURS = 64  # of a picture: few are flat, the others are the greys of smooth letters


@dataclass(frozen=True)
class Experiment:
    """One experiment of docs/gallery.toml, which says what its fields mean."""

    name: str
    tutorial: str
    title: str
    phases: tuple[str, ...]
    promise: str
    source: str
    proved: str
    reason: str
    accelerator: str
    options: str = ""
    arguments: str = ""
    picture: str = ""

    @property
    def commands(self) -> tuple[str, ...]:
        """What makes its report and its picture, from the root of the repository."""
        trace, report = f"traces/gallery/{self.name}", f"reports/gallery/{self.name}"
        words = "tracekit capture", self.options, f"--out {trace} workloads/{self.name}.py", self.arguments
        capture = " ".join(filter(None, words))
        drawn = f"tracekit figure --what phases --no-title --width 9 --dpi 150 --out {report} {trace}"
        return capture, f"tracekit report --out {report} {trace}", *([] if self.picture else [drawn])


EXPERIMENTS = tuple(
    Experiment(**fields | {"phases": tuple(fields["phases"])})
    for fields in tomllib.loads((DOCS / "gallery.toml").read_text("utf-8"))["experiment"]
)


def build(experiment: Experiment) -> None:
    """Capture, report and draw; the report that stood there before is replaced when all of the new one is done.

    Raises CalledProcessError or TimeoutExpired.
    """
    trace, target = ROOT / "traces" / "gallery" / experiment.name, GALLERY / experiment.name
    shutil.rmtree(trace, ignore_errors=True)
    GALLERY.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + LIMIT_S
    with TemporaryDirectory(dir=REPORTS, prefix=".gallery-") as draft:
        for command in experiment.commands:
            words = command.replace(f"reports/gallery/{experiment.name}", draft).split()[1:]
            run([sys.executable, "-m", "tracekit", *words], end - time.monotonic())
        picture = ROOT / experiment.picture if experiment.picture else Path(draft) / "phases.png"
        shrink(picture, Path(draft) / "picture.png")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(draft, target)


def run(command: Sequence[str], limit_s: float) -> None:
    """Run a command on the CPU, and end it with all that it started when the limit has passed."""
    # File names without the directories of this machine, and no accelerator.
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_HLO_SOURCE_FILE_CANONICALIZATION_REGEX": ".*/"}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=sys.stderr, start_new_session=True) as process:
        try:
            if process.wait(max(limit_s, 0)):
                raise subprocess.CalledProcessError(process.returncode, command)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)


def shrink(picture: Path, target: Path) -> None:
    """Write a picture with a palette of its own, a third as large."""
    with Image.open(picture) as image:
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)


def result(experiment: Experiment) -> dict[str, Any]:
    """What is kept of a built report: its machine, headline, verdicts, and what it proved."""
    summary = json.loads((GALLERY / experiment.name / "summary.json").read_text("utf-8"))
    return {
        "machine": machine(experiment),
        "headline": summary["headline"],
        "proved": experiment.proved.format(**figures(summary["phases"])),
        "busy": any(load["is_busy"] for load in summary["machine"]["load"]),
        "verdicts": {name: summary["verdicts"][name] for name in experiment.phases},
    }


def figures(phases: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """The figures of the phases of a summary.json as text, by measure and phase; "unknown" where it has none."""
    measures = {"wall": wall, "speedup": speedup, "overlap": overlap, "idle": idle}
    hidden = {"collectives": "collective", "copies": "memory"}
    texts = {name: {phase["name"]: of(phase) for phase in phases} for name, of in measures.items()}
    return texts | {name: {phase["name"]: behind(phase, what) for phase in phases} for name, what in hidden.items()}


def wall(phase: Mapping[str, Any]) -> str:
    """How long it took."""
    return units.time(phase["wall_ps"])


def speedup(phase: Mapping[str, Any]) -> str:
    """How many times as fast as what it is compared with."""
    return "unknown" if phase["speedup"] is None else f"{phase['speedup']:.2f}x"


def overlap(phase: Mapping[str, Any]) -> str:
    """For how much of the shorter busy time its two devices were busy at the same time."""
    ratios = [pair["ratio_min"] for pair in phase["device_pairs"]]
    return units.percent(ratios[0], 1) if len(ratios) == 1 and ratios[0] is not None else "unknown"


def idle(phase: Mapping[str, Any]) -> str:
    """For how much of their time its devices were idle."""
    window, devices = sum(phase["concurrency"]), len(phase["concurrency"]) - 1
    busy = sum(number * time for number, time in enumerate(phase["concurrency"]))
    return units.percent(devices * window - busy, devices * window) if window else "unknown"


def behind(phase: Mapping[str, Any], what: str) -> str:
    """How much of its collectives, or copies, compute hid."""
    rows = [row for row in phase["overlap"] if row["what"] == what]
    total = sum(row["total_ps"] for row in rows)
    return units.percent(sum(row["hidden_ps"] for row in rows), total) if total else "unknown"


def machine(experiment: Experiment) -> str:
    """What a trace was captured on, as tracekit wrote it beside it."""
    path = next((ROOT / "traces" / "gallery" / experiment.name).glob("plugins/profile/*/*capture.json"))
    facts = json.loads(path.read_text("utf-8"))
    versions = facts["versions"]
    return (
        f"{facts['started'][:10]} on {facts['usable_cores']} virtual cores ({platform.machine()}), jax "
        f"{versions['jax']}, Python {versions['python']}"
    )


def captured(results: Mapping[str, Any]) -> str:
    """The sentence on where and when the traces were captured."""
    machines = dict.fromkeys(result["machine"] for result in results.values())
    return f"Captured on {', and on '.join(machines)}."


def shown(results: Mapping[str, Any]) -> list[tuple[Experiment, Mapping[str, Any]]]:
    """The experiments that have a result, in their order."""
    return [(each, results[each.name]) for each in EXPERIMENTS if each.name in results]


def proof(result: Mapping[str, Any]) -> str:
    """What a trace proved, and whether the machine was free to show it."""
    return f"{result['proved']}{_BUSY if result['busy'] else ''}"


def comparison(results: Mapping[str, Any]) -> str:
    """The page of the docs that compares the experiments."""
    parts = [_HEAD, f"{_wrap(f'{_ABOUT} {captured(results)}')}\n\n{_wrap(_KNOW)}"]
    rows = ["| experiment | what the prose promises | what the trace proved |", "|---|---|---|"]
    for each, own in shown(results):
        rows.append(f"| [{each.name}](#{_anchor(each.title)}) | {each.promise} | {_plain(proof(own))} |")
    parts.append("\n".join(rows))
    for each, own in shown(results):
        picture = f"images/gallery/{each.name}.png"
        facts = [
            f"**Promise.** {each.promise} {each.source}",
            f"**Proof.** {_plain(proof(own))}",
            f"**Reason.** {each.reason}",
            f"**Only on accelerators, and not claimed here.** {each.accelerator}",
        ]
        image = f"[![{_plain(own['headline'])}]({picture})]({picture})"
        where = f"`workloads/{each.name}.py`, [step by step](tutorial/{each.tutorial}.md)"
        parts += [f"## {each.title}", where, image, *map(_wrap, facts)]
    return "\n\n".join([*parts, _TAIL]) + "\n"


def readme(results: Mapping[str, Any]) -> str:
    """The page of the repository that has the verdicts and the commands."""
    parts = [_README, _wrap(f"{_README_ABOUT} {captured(results)} {_KNOW}")]
    for each, own in shown(results):
        picture = f"../docs/images/gallery/{each.name}.png"
        image = f'<img src="{picture}" width="720" alt="{_plain(own["headline"])}">'
        lines = [_wrap(f"* **{name}**: {_plain(verdict)}", "  ") for name, verdict in own["verdicts"].items()]
        parts += [f"### {each.title}", f"[{image}]({picture})", "\n".join(lines), "Made by"]
        parts += ["\n".join(f"    {command}" for command in each.commands)]
    return "\n\n".join(parts) + "\n"


def index(results: Mapping[str, Any], failed: Mapping[str, str]) -> str:
    """The page beside the reports that are built: the same comparison, with links to them; it needs no network."""
    rows, sections = [], []
    for each, own in shown(results):
        report = f"{each.name}/report.html"
        cells = f'<a href="#{each.name}">{each.name}</a>', _inline(each.promise), _inline(proof(own))
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        verdicts = "".join(f"<li><b>{html.escape(k)}</b>: {html.escape(v)}</li>" for k, v in own["verdicts"].items())
        sections.append(
            f'<h2 id="{each.name}">{html.escape(each.title)}</h2>\n'
            f'<p><a href="{report}"><img src="{each.name}/picture.png" alt="{html.escape(own["headline"])}"></a></p>\n'
            f"<p><b>Promise.</b> {_inline(each.promise)} {_inline(each.source)}</p>\n"
            f"<p><b>Proof.</b> {_inline(proof(own))}</p>\n<ul>{verdicts}</ul>\n"
            f"<p><b>Reason.</b> {_inline(each.reason)}</p>\n"
            f"<p><b>Only on accelerators, and not claimed here.</b> {_inline(each.accelerator)}</p>\n"
            f'<p><a href="{report}">The whole report</a></p>'
        )
    failures = "".join(f"<p><b>{name} failed</b>: {html.escape(why)}</p>\n" for name, why in failed.items())
    head = "".join(f"<th>{name}</th>" for name in ("experiment", "what the prose promises", "what the trace proved"))
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Gallery</title>\n<style>{_STYLE}</style>\n'
        f"<h1>Gallery</h1>\n{failures}<p>{captured(results)}</p>\n<p>{_KNOW}</p>\n"
        f"<table><tr>{head}</tr>\n{_lines(rows)}</table>\n{_lines(sections)}"
    )


def _lines(parts: Sequence[str]) -> str:
    return "".join(f"{part}\n" for part in parts)


def _inline(text: str) -> str:
    """Markdown of one line as HTML: links, of which those to pages of the docs are words, and code."""
    text = re.sub(r"\[([^]]+)\]\((https://[^)]+)\)", r'<a href="\2">\1</a>', html.escape(text, quote=False))
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def _anchor(title: str) -> str:
    """Where a heading is, as the docs are built."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def renew(built: Sequence[Experiment]) -> None:
    """Replace the committed pictures, results and pages by those of the reports that were built."""
    results = json.loads(RESULTS.read_text("utf-8")) | {each.name: result(each) for each in built}
    results = {each.name: own for each, own in shown(results)}
    PICTURES.mkdir(parents=True, exist_ok=True)
    for each in built:
        shutil.copyfile(GALLERY / each.name / "picture.png", PICTURES / f"{each.name}.png")
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    (DOCS / "gallery.md").write_text(comparison(results), "utf-8")
    (REPORTS / "README.md").write_text(readme(results), "utf-8")
    print(
        "Wrote docs/gallery.md, docs/images/gallery/, reports/README.md, reports/gallery/results.json", file=sys.stderr
    )


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace('"', "&quot;")


_BUSY = " (On a busy machine.)"
_HEAD = """# Gallery

<!-- Written by `python docs/gallery.py --renew` from docs/gallery.toml: change that, not this page. -->"""
_ABOUT = (
    "What teaching material promises of programs on several devices, and what a trace of each experiment proved. "
    "`make gallery` runs them again on your machine, and writes the same comparison with their whole reports: "
    "`reports/gallery/index.html`, which opens offline."
)
_KNOW = (
    "All are CPU runs, since no accelerator was available. CPU devices are queues that share the cores, so their "
    "overlap says little about accelerators, and on a shared machine figures differ from run to run: consider speedup "
    "and stretch as well. Each picture has the phases of an experiment on one scale of time."
)
_TAIL = """## The page of a report

[![The top of a report's page](images/page.png)](page.md)

[How to use it](page.md)"""
_README = """# Reports

`tracekit report` writes here, one directory per trace. Only the gallery's results are committed.

## Gallery

<!-- Written by `python docs/gallery.py --renew`: change docs/gallery.toml, not this page. -->"""
_README_ABOUT = (
    "Reports of the [workloads](../workloads). [One page compares them](../docs/gallery.md); here are their verdicts "
    "and commands. `make gallery` builds them with their pages, tables and figures: "
    "`reports/gallery/<name>/report.html` and the files next to it. Pictures and verdicts here are from such runs."
)
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}img{max-width:100%}"
    "table{border-collapse:collapse}td,th{border:1px solid #bbb;padding:.4rem .6rem;text-align:left;vertical-align:top}"
)


def main(words: list[str]) -> int:
    """Build the experiments that are named, or all; with --renew, replace what is committed of them."""
    names = {each.name for each in EXPERIMENTS}
    asked = [word for word in words if word != "--renew"]
    if not {*asked} <= names:
        raise SystemExit(f"usage: {sys.argv[0]} [--renew] [{' | '.join(each.name for each in EXPERIMENTS)}] …")
    failed: dict[str, str] = {}
    chosen = [each for each in EXPERIMENTS if not asked or each.name in asked]
    for each in chosen:
        try:
            build(each)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            late = isinstance(error, subprocess.TimeoutExpired)
            why = f"took too long ({LIMIT_S} s in all)" if late else f"ended with exit code {error.returncode}"
            failed[each.name] = f"tracekit {error.cmd[3]} {why}"
            print(f"{each.name} FAILED: {failed[each.name]}", file=sys.stderr)
        else:
            print(f"Wrote {(GALLERY / each.name / 'report.html').relative_to(ROOT)}", file=sys.stderr)
    built = [each for each in chosen if each.name not in failed]
    whole = [each for each in EXPERIMENTS if (GALLERY / each.name / "summary.json").exists()]
    INDEX.write_text(index({each.name: result(each) for each in whole}, failed), "utf-8")
    print(f"Wrote {INDEX.relative_to(ROOT)}", file=sys.stderr)
    if "--renew" in words and built:
        renew(built)
    if failed:
        print(f"{len(failed)} of {len(chosen)} experiments failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
