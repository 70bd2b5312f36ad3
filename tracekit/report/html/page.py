"""The report as one HTML file that needs nothing else: every figure is from the Report, every name is text."""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from tracekit.columns import records
from tracekit.report import palette, text
from tracekit.report.html import bars, matrix, payload, phases, timed
from tracekit.report.html.markup import Markup, join, name, none, number, picoseconds, tag
from tracekit.report.html.tables import advised, sentences, table, titled
from tracekit.report.html.timeline_links import Jumps, jumps
from tracekit.report.model import Report
from tracekit.report.section import Section
from tracekit.report.sections.sections import important
from tracekit.timeline.timeline import Timeline
from tracekit.version import __version__

# Section of summary.json, in the order of the page, that stand before the timeline.
_FIRST = ("steps", "collectives", "offenders")
_SHORT = {
    "important": "What matters",
    "time": "Time",
    "hidden": "Hidden",
    "together": "Together",
    "concurrency": "At once",
    "findings": "What to try",
    "critical_path": "Critical path",
    "offenders": "Offenders",
    "idle": "Idle time",
    "launches": "Launches",
    "bandwidth": "Bandwidth",
    "lacking": "Not in it",
    "known": "Kinds",
}


def page(report: Report, timeline: Timeline | None = None) -> str:
    """The page of `report`: UTF-8, no request to anywhere, scripts known to its policy by their hash.

    `timeline` is the Timeline of its trace; without it, as for a report that was loaded, the page has no timeline.
    """
    to = jumps(report)
    parts = sections(report, to)
    if timeline is None:
        parts = [part for part in parts if part[0] != "timeline"]
    data, scripts, styles = (None, [], []) if timeline is None else _timeline(report, timeline)
    body = join(_section(key, title, inside, data if key == "timeline" else None) for key, title, inside in parts)
    links = [tag("li", tag("a", _SHORT.get(key, title), href=f"#{key}")) for key, title, _ in parts]
    own = _read("theme.js")
    return Template(_read("page.html")).substitute(
        title=tag("title", f"tracekit: {report.headline}"),
        policy=_policy([own, *scripts]),
        style=tag("style", Markup("\n".join([_colours(), _read("page.css"), *styles]))),
        navigation=tag("ul", *links),
        header=_header(report),
        body=body,
        foot=_foot(report),
        script=join(tag("script", Markup(one)) for one in [own, *scripts]),
    )


def sections(report: Report, to: Jumps) -> list[tuple[str, str, Markup]]:
    """Key, title and content of everything between the head and the foot, in order."""
    there = {one.key: one for one in report.sections if not one.lacking}
    found = [("verdict", "Verdict", _verdicts(report))]
    if lines := important(report.sections):
        found.append(("important", "What matters most", tag("ol", *(tag("li", advised(line)) for line in lines))))
    if len(report.whole.partition):
        found += [
            ("time", "Where the time went", bars.partitions(report)),
            ("hidden", "Hidden behind compute", _hidden(report)),
            ("together", "Devices busy at the same time", matrix.matrices(report)),
            ("concurrency", "How many devices were busy at once", bars.concurrency(report)),
        ]
    if len(report.phases):
        found.append(("phases", "Phases", phases.phases(report, to)))
    about = (
        f"Only what ran in the compared phases counts here: {', '.join(report.compared)}." if report.compared else ""
    )
    shown = [there[key] for key in _FIRST if key in there]
    found += [(one.key, one.title, _of(one, report, to, about)) for one in shown]
    found.append(("timeline", "Timeline", Markup("")))
    found += [(key, one.title, _of(one, report, to, about)) for key, one in there.items() if key not in _FIRST]
    if lacking := [one for one in report.sections if one.lacking]:
        items = [join([tag("dt", one.title), tag("dd", one.lacking)]) for one in lacking]
        found.append(("lacking", "Not in this report", tag("dl", *items, class_="facts")))
    if told := text.known_by(report):
        guessed = (titled(one) for one in text.guesses(report))
        found.append(("known", "How it is known what ran", join([tag("p", told), *guessed])))
    if report.notes:
        found.append(("notes", "Notes", tag("ul", *(tag("li", note) for note in report.notes))))
    return found


def _section(key: str, title: str, inside: Markup, data: Markup | None) -> Markup:
    head = tag("h2", title, id=f"{key}-title")
    more = tag("noscript", tag("p", "The timeline needs JavaScript; all figures stand on this page without it."))
    content = [head, inside] if data is None else [head, more, data]
    return tag("section", *content, id=key, aria_labelledby=f"{key}-title")


def _verdicts(report: Report) -> Markup:
    several = len(report.verdicts) > 1 or list(report.verdicts) != [report.whole.name]
    if not several:
        return tag("p", *report.verdicts.values(), class_="one")
    items = [
        tag("div", tag("dt", name(key)), tag("dd", said), class_="compared" if key in report.compared else None)
        for key, said in report.verdicts.items()
    ]
    return tag("dl", *items, class_="verdicts")


def _hidden(report: Report) -> Markup:
    """How much of each device's copies and collectives ran behind compute: a device a row, a kind of work a column."""
    several = bool(report.inside)
    stretches = [report.whole, *report.inside.values()]
    ran = {one.name: one.overlap[one.overlap["total_ps"] > 0] for one in stretches}
    whats = list(dict.fromkeys(what for one in ran.values() for what in one["what"]))
    rows = []
    for stretch, found in ran.items():
        by_device: dict[str, dict[str, Mapping[str, Any]]] = {}
        for row in records(found):
            by_device.setdefault(row["device"], {})[row["what"]] = row
        for device, mine in by_device.items():
            cells = [_behind(mine[what]) if what in mine else none(f"no {what} work there") for what in whats]
            behind = next(iter(mine.values()))["behind"]
            rows.append([*([name(stretch)] if several else []), name(device), behind, *cells])
    if not rows:
        return tag("p", "No copy and no collective ran.")
    head = [*(["in"] if several else []), "device", "behind", *whats]
    about = "The share that ran while compute did, and how much of how much. Memory is all copies and memsets together."
    return table("Copies and collectives behind compute", head, rows, shown=16, about=about)


def _behind(row: Mapping[str, Any]) -> Markup:
    amount = tag("span", picoseconds(row["hidden_ps"]), " of ", picoseconds(row["total_ps"]), class_="small")
    return join([matrix.heat(row["ratio"], row["reason"]), amount])


def _of(section: Section, report: Report, to: Jumps, about: str) -> Markup:
    """A section's sentences, then the tables with links into the timeline, then its other tables."""
    show, replaced = timed.TIMED.get(section.key, (None, ()))
    others = [titled(one) for one in section.tables if not one[0].startswith(replaced)]
    own = show(report, to) if show else None
    told = tag("p", about, class_="about") if about else None
    return join([told, sentences(section.said), tag("div", *others, own, class_="tables")])


def _header(report: Report) -> Markup:
    """The finding, and what was traced."""
    trace, hosts, models = report.trace, list(report.trace.hosts), list(report.trace.models)
    devices = list(report.whole.partition["device"])
    windows = [
        join([f"{clock}: " if clock else None, picoseconds(int(window[0, 1] - window[0, 0]))])
        for clock, window in report.windows.items()
    ]
    facts: Mapping[str, object] = {
        "trace": name(trace.source, longest=100),
        "format": name(trace.format),
        "hosts" if len(hosts) > 1 else "host": _names(hosts),
        "devices" if len(devices) != 1 else "device": _names(devices),
        "model": _names(models) if models else None,
        "window": _listed(windows) if windows else None,
        "intervals": number(int(trace.intervals["intervals"].sum())),
    }
    shown = [tag("div", tag("dt", key), tag("dd", value)) for key, value in facts.items() if value is not None]
    # Without phases the headline is the verdict, which stands right below.
    title = report.headline if report.headline not in report.verdicts.values() else _last(trace.source)
    return join([tag("h1", title), tag("dl", *shown, class_="facts traced")])


def _last(path: str) -> str:
    """The last part of a path; whole if there is none."""
    return path.rstrip("/").rpartition("/")[2] or path or "Trace"


def _names(names: list[str], most: int = 4) -> Markup:
    if len(names) <= most:
        return _listed([name(one) for one in names]) if names else Markup("none")
    return join([f"{len(names)}: ", _listed([name(one) for one in names[:3]]), ", … ", name(names[-1])])


def _listed(parts: list[Markup]) -> Markup:
    return join([part if not at else join([", ", part]) for at, part in enumerate(parts)])


def _foot(report: Report) -> Markup:
    runs = report.trace.runs
    reading = [
        "Busy time is the union of a device's intervals, never a sum of durations: nothing counts twice.",
        "Hidden means that the same device computed meanwhile; exposed that it did not.",
        "Overlap says that things ran at the same time; speedup says what that bought, stretch what it cost.",
        "A dash is a figure that cannot be told: rest the pointer on it for the reason, on a time for its exact value.",
        "Underlined times lead into the timeline, and count from its time 0.",
    ]
    return join(
        [
            tag("h2", "How to read this"),
            tag("ul", *(tag("li", one) for one in reading)),
            tag("p", "Run: ", _listed([name(run) for run in runs[:1]]), *_others(runs)) if runs else None,
            tag("p", f"Made by tracekit {__version__} from ", name(report.trace.source, longest=100), ". "
                "All figures for machines are in summary.json beside this page; tracekit's docs/concepts.md defines "
                "every word."),
        ]
    )  # fmt: skip


def _others(runs: tuple[str, ...]) -> list[object]:
    return [f"; not read: {len(runs) - 1} more, ", _listed([name(run) for run in runs[1:4]])] if len(runs) > 1 else []


def _timeline(report: Report, timeline: Timeline) -> tuple[Markup, list[str], list[str]]:
    """Data, scripts and styles of the timeline."""
    scripts, styles = ([_read(one) for one in files] for files in (payload.SCRIPTS, payload.STYLES))
    return Markup(payload.payload(report, timeline)), scripts, styles


def _policy(scripts: list[str]) -> Markup:
    """Nothing is loaded from anywhere, and no script runs but these, whatever a name may hold."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts)
    rules = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"
    return tag("meta", http_equiv="Content-Security-Policy", content=f"{rules}; base-uri 'none'; form-action 'none'")


def _colours() -> str:
    """The palette as custom properties, dark where the reader or the system asks for it, never on paper."""
    light, dark = (_properties(theme) for theme in (palette.LIGHT, palette.DARK))
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
    )


def _properties(theme: Mapping[str, str]) -> str:
    return ";".join(f"--{name}:{colour}" for name, colour in palette.properties(theme).items())


@cache
def _read(file: str) -> str:
    return (resources.files(__package__) / file).read_text("utf-8")
