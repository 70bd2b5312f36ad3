"""The report as one HTML file that needs nothing else: every figure is from the Report, every name is text."""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from itertools import groupby
from string import Template

from tracekit import intervals as iv
from tracekit.report import palette
from tracekit.report.html import markup, pictures
from tracekit.report.html.lanes import origins
from tracekit.report.html.markup import Markup, TimelineLinks, figure, join, name, picoseconds, table, tag
from tracekit.report.html.payload import SCRIPTS, STYLES, payload
from tracekit.report.model import Report
from tracekit.report.section import Section, Table
from tracekit.report.sections.sections import highlights
from tracekit.timeline.timeline import Timeline
from tracekit.units import count
from tracekit.version import __version__

# Keys of the sections that stand before the timeline, in their order.
_FIRST = ("steps", "collectives", "offenders")
# Rows of a table that are not folded; and tables, by key, that stand with a picture, and whose ratios are shaded.
_ROWS = 12
_WITH_PICTURE = ("time", "time.cells", "together", "concurrency", "steps.lengths", "steps.parts")
_SHADED = ("hidden", "together")
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

    `timeline` is the Timeline of its trace; without it, as for a report that was loaded, the page has no timeline, and
    nothing leads into it.
    """
    scripts, styles, data = [_read("theme.js")], [_colours(), _read("page.css")], None
    if timeline is not None:
        data = Markup(payload(report, timeline))
        scripts += map(_read, SCRIPTS)
        styles += map(_read, STYLES)
    parts = _sections(report, data)
    places = [tag("li", tag("a", _SHORT.get(key, title), href=f"#{key}")) for key, title, _ in parts]
    return Template(_read("page.html")).substitute(
        title=tag("title", f"tracekit: {report.headline}"),
        policy=_policy(scripts),
        style=tag("style", Markup("\n".join(styles))),
        navigation=tag("ul", *places),
        header=_header(report),
        body=join(_section(*part) for part in parts),
        foot=_foot(report),
        script=join(tag("script", Markup(script)) for script in scripts),
    )


def _sections(report: Report, timeline: Markup | None) -> list[tuple[str, str, Markup]]:
    """Key, title and content of everything between the head and the foot, in order."""
    links = TimelineLinks(origins(report), report.clock_of, lead=timeline is not None)
    parts = [("verdict", "Verdict", _verdicts(report))]
    if (missing := report.missing) and missing.sentences:
        parts.insert(0, (missing.key, missing.title, _content(missing, report, links)))
    if lines := highlights(report.sections):
        items = (tag("li", _advice(line.sentence, line.action)) for line in lines)
        scope = tag("p", f"Here, {report.scope}") if report.scope else None
        parts.append(("important", "What matters most", join([scope, tag("ol", *items)])))
    # The phases are compared by what stands before them.
    there = [section for section in report.overview if not section.lacking]
    before = sorted(there, key=lambda section: section.key == "phases")
    by_key = {
        section.key: section for section in report.sections if not section.lacking and section.key != "completeness"
    }
    before += [by_key[key] for key in _FIRST if key in by_key]
    parts += [(section.key, section.title, _content(section, report, links)) for section in before]
    if timeline is not None:
        without = tag("noscript", tag("p", "The timeline needs JavaScript; all figures stand on this page without it."))
        parts.append(("timeline", "Timeline", join([without, timeline])))
    after = [section for key, section in by_key.items() if key not in _FIRST]
    parts += [(section.key, section.title, _content(section, report, links)) for section in after]
    if report.lacking:
        reasons = [join([tag("dt", titles), tag("dd", reason)]) for titles, reason in report.lacking]
        parts.append(("lacking", "Not in this report", tag("dl", *reasons, class_="facts")))
    if kinds := report.classification:
        parts.append((kinds.key, kinds.title, _content(kinds, report, links)))
    if report.notes:
        parts.append(("notes", "Notes", _list(report.notes)))
    return parts


def _section(key: str, title: str, inside: Markup) -> Markup:
    return tag("section", tag("h2", title, id=f"{key}-title"), inside, id=key, aria_labelledby=f"{key}-title")


def _verdicts(report: Report) -> Markup:
    if not report.verdicts:
        return tag("p", report.verdict, class_="one")
    items = [
        tag("div", tag("dt", name(phase)), tag("dd", verdict), class_="compared" if phase in report.compared else None)
        for phase, verdict in report.verdicts.items()
    ]
    if report.verdict is not None:
        items.insert(0, tag("div", tag("dt", name(report.whole.label)), tag("dd", report.verdict)))
    return tag("dl", *items, class_="verdicts")


def _content(section: Section, report: Report, links: TimelineLinks) -> Markup:
    """A section's findings and sentences, then its tables, each behind its picture where it has one."""
    about = ""
    if report.compared and section in report.sections:
        about = f"Only what ran in the compared phases counts here: {', '.join(report.compared)}."
    lines = [_advice(finding.sentence, finding.action) for finding in section.findings]
    lines += [markup.text(sentence) for sentence in section.sentences]
    words = [tag("p", line) for line in lines] if len(lines) < 2 else [_list(lines)]
    parts: list[Markup] = []
    tables = [table for table in section.tables if table.rows]
    for with_picture, group in groupby(tables, lambda table: table.key in _WITH_PICTURE):
        content = [_table(table, report, links) for table in group]
        parts += content if with_picture else [tag("div", *content, class_="tables")]
    return join([tag("p", about, class_="about") if about else None, *words, *parts])


def _table(source: Table, report: Report, links: TimelineLinks) -> Markup:
    """A table with its picture, where it has one; it is left out or folded where the picture tells most of it."""
    open_table = table(source, links, max(len(source.brief), _ROWS), shaded=source.key in _SHADED)
    folded = tag("details", tag("summary", "Exact figures"), open_table)
    match source.key:
        case "time":
            return pictures.partitions(report)
        case "time.cells":
            return folded
        case "together":
            return join([pictures.matrices(report), folded if pictures.has_cells(report) else open_table])
        case "concurrency":
            return join([pictures.concurrency(report), folded])
        case "steps.lengths":
            return join([open_table, pictures.walls(report, links)])
        case "steps.parts":
            return pictures.typical(report) or open_table
        case _:
            return open_table


def _advice(sentence: str, action: str) -> Markup:
    """A sentence, with what to try about it on a line of its own."""
    return join([sentence, tag("span", tag("b", " Try: "), action, class_="try") if action else None])


def _header(report: Report) -> Markup:
    """The finding, and what was traced."""
    trace, hosts, models = report.trace, list(report.trace.hosts), list(report.trace.models)
    devices = report.devices
    events = int(trace.events["events"].sum())
    windows = [
        join([f"{clock}: " if clock else None, picoseconds(iv.total(window))])
        for clock, window in report.windows.items()
    ]
    facts: Mapping[str, object] = {
        "only": report.part or None,
        "trace": name(trace.source, longest=100),
        "format": name(trace.format),
        "hosts" if len(hosts) > 1 else "host": _names(hosts),
        "devices" if len(devices) != 1 else "device": _names(devices),
        "model": _names(models) if models else None,
        "window": join(windows, ", ") if windows else None,
        "events": figure(count(events), events),
    }
    items = [tag("div", tag("dt", key), tag("dd", value)) for key, value in facts.items() if value is not None]
    # Where the whole trace has a verdict, that is the headline, which stands right below.
    last_part = trace.source.rstrip("/").rpartition("/")[2] or trace.source or "Trace"
    title = last_part if report.verdict is not None else report.headline
    if report.part and report.verdict is not None:
        title = f"{last_part}, only {report.part}"
    return join([tag("h1", title), tag("dl", *items, class_="facts traced")])


def _names(names: list[str]) -> Markup:
    """Up to four names, or how many there are, and the first and last of them."""
    if len(names) <= 4:
        return join(map(name, names), ", ") if names else Markup("none")
    return join([f"{len(names)}: ", join(map(name, names[:3]), ", "), ", … ", name(names[-1])])


def _list(items: Iterable[object]) -> Markup:
    return tag("ul", *(tag("li", item) for item in items))


def _foot(report: Report) -> Markup:
    runs = report.trace.runs
    reading = [
        "Busy time is the union of a device's events, never a sum of durations: nothing counts twice.",
        "Hidden means that the same device computed meanwhile; exposed that it did not.",
        "Overlap is what ran at the same time, speedup what that gained, and stretch what it cost each device.",
        "A dash is a figure that is not known: hover over it for the reason, over a time for its exact value.",
        "Underlined times lead into the timeline, and count from its time 0.",
    ]
    return join(
        [
            tag("h2", "How to read this"),
            _list(reading),
            tag("p", "Run: ", name(runs[0]), *_others(runs)) if runs else None,
            tag("p", f"Made by tracekit {__version__} from ", name(report.trace.source, longest=100), ". "
                "All figures are in summary.json beside this page; tracekit's docs/concepts.md defines every word."),
        ]
    )  # fmt: skip


def _others(runs: tuple[str, ...]) -> list[object]:
    return [f"; not read: {len(runs) - 1} more, ", join(map(name, runs[1:4]), ", ")] if len(runs) > 1 else []


def _policy(scripts: list[str]) -> Markup:
    """Nothing is loaded from anywhere, and no script runs but these, whatever a name may hold."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
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
