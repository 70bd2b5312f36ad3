"""The report as one HTML file that needs nothing else: every figure is from the Report, every name is text."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from tracekit import intervals as iv
from tracekit.analysis.explain import OF_WHOLE
from tracekit.analysis.fleet import Fleet
from tracekit.report.html import heat_map as heat
from tracekit.report.html import pictures
from tracekit.report.html.document import document, head, read
from tracekit.report.html.markup import Markup, TimelineLinks, figure, join, name, picoseconds, prose, table, tag
from tracekit.report.html.opening import opening
from tracekit.report.html.payload import SCRIPTS, STYLES, payload
from tracekit.report.model import Report, time_zero
from tracekit.report.section import Section, Table, Unit
from tracekit.report.sections.key_figures import KeyFigure
from tracekit.report.sections.sections import highlights
from tracekit.timeline.timeline import Timeline
from tracekit.units import count, percent, quantity
from tracekit.version import __version__

# Keys of the sections that come first after what matters most, and of those that are open at first: what else stands
# below repeats them, or explains what is said above.
_FIRST = ("phases", "time", "top_ops")
_OPEN = ("phases", "time", "top_ops")
# Rows of a table that are not folded; and tables, by key, that stand with a picture, and whose ratios are shaded.
_ROWS = 12
# Of phases that are not compared, so many verdicts are open, and so many names of folded ones are shown.
_VERDICTS = 3
_WITH_PICTURE = ("time", "time.cells", "together", "concurrency", "steps.lengths", "steps.parts")
_SHADED = ("hidden", "together")
# Of these sections one table is shown at a time, chosen by the head of its first column. Of those of each device: where
# the column of devices is. All others of them stand in the order of this column.
_CHOICES, _ORDER = ("top_ops",), "total"
_OF_DEVICES = dict.fromkeys(("top_ops.devices", "top_ops.device_operators", "top_ops.device_sources"), 1)
# Bytes of the timeline of a fleet, past which it holds less; and the least share of the time that it is cut to.
_FLEET_LIMIT, _LEAST_SHARE = 1_200_000, 1 / 256
# What every page runs, beside its timeline.
_SCRIPTS = ("theme.js", "folds.js", "matcher.js", "tables.js")
_SHORT = {
    "timeline": "Timeline",
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
    """The page of `report`, a document by itself.

    `timeline` is the Timeline of its trace; without it, as for a report that was loaded, the page has no timeline, and
    nothing leads into it.
    """
    of_all = timeline and (timeline.reduced or timeline)
    cells = Markup(heat.heat_map(report.fleet, of_all) if report.fleet else "")
    some = None
    if timeline is None:
        data = None
    elif report.fleet:
        data, some = _of_few(report, report.fleet, timeline, _FLEET_LIMIT)
    else:
        data = Markup(payload(report, timeline))
    scripts, styles = ((), ()) if timeline is None else (SCRIPTS, STYLES)
    if cells:
        scripts, styles = (*dict.fromkeys((*scripts, *heat.SCRIPTS)),), (*styles, *heat.STYLES)
    parts = _parts(report, data, some, cells)
    return document(
        report.headline,
        [(part.key, _SHORT.get(part.key, part.title)) for part in parts],
        _header(report),
        join(map(_section, parts)),
        _foot(report),
        styles=[*map(read, styles)],
        scripts=[*map(read, (*_SCRIPTS, *scripts))],
    )


class Part(NamedTuple):
    """A section of the page; one with a `fold` is folded at first, under its title and this one line."""

    key: str
    title: str
    content: Markup
    fold: str | None = None


def _parts(report: Report, timeline: Markup | None, some: Markup | None, cells: Markup) -> list[Part]:
    """Everything between the head and the foot, in order; of a fleet `some` says what its timeline holds, and `cells`
    are the data of its heat map."""
    links = TimelineLinks(time_zero(report), lead=timeline is not None)
    parts = [Part("verdict", "Verdict", _verdicts(report))]
    if (missing := report.missing) and missing.sentences:
        parts.insert(0, _part(missing, report, links))
    sections = [*report.overview, *report.sections]
    if report.fleet:
        of_fleet = sections.pop(0)
        parts.append(Part(of_fleet.key, of_fleet.title, join([_heat_map(cells), _content(of_fleet, report, links)])))
    if timeline is not None:
        without = tag("noscript", tag("p", "The timeline needs JavaScript; all figures stand on this page without it."))
        parts.append(Part("timeline", report.timeline_title(), join([without, some, timeline])))
    if lines := highlights(report.sections):
        items = (tag("li", _beside(line.sentence, line.action)) for line in lines)
        scope = tag("p", prose(f"Here, {report.scope}"), class_="about") if report.scope else None
        parts.append(Part("important", "What matters most", join([scope, tag("ol", *items, class_="losses")])))
    there = [its for its in sections if not its.lacking and its is not report.missing]
    there.sort(key=lambda its: _FIRST.index(its.key) if its.key in _FIRST else len(_FIRST))
    if report.classification:
        there.append(report.classification)
    parts += [_part(section, report, links) for section in there]
    if report.lacking:
        reasons = [join([tag("dt", titles), tag("dd", prose(reason))]) for titles, reason in report.lacking]
        titles = ", ".join(titles for titles, _ in report.lacking)
        parts.append(Part("lacking", "Not in this report", tag("dl", *reasons, class_="facts"), f"{titles}."))
    if report.notes:
        first = f"{quantity(len(report.notes), 'note')}: {report.notes[0]}"
        parts.append(Part("notes", "Notes", _list(map(prose, report.notes)), first))
    return parts


def _heat_map(cells: Markup) -> Markup | None:
    """The place of the heat map with its data; None where there is none."""
    if not cells:
        return None
    without = tag("noscript", tag("p", "The heat map needs JavaScript; the tables below have its extremes."))
    return tag("div", without, cells, id="heat-map")


def _of_few(report: Report, fleet: Fleet, timeline: Timeline, limit: int) -> tuple[Markup, Markup]:
    """The data of the timeline of those devices that stand for all, and what it holds of them: in about `limit` bytes
    fewer devices, at least two, and at last less time, around what the timeline opens on."""
    roles = fleet.ranks.set_index("device").loc[list(fleet.drawn), "role"]
    # Whoever differs first, and next to it the one that does not.
    unlike, ordinary = ([*roles.index[is_it]] for is_it in (roles != "median", roles == "median"))
    devices, share = [*unlike[:1], *ordinary, *unlike[1:]], 1.0
    while True:
        data = Markup(payload(report, timeline.narrowed(_windows(report, timeline, share), devices), whole=timeline))
        if len(data) <= limit or share < _LEAST_SHARE:
            break
        if len(devices) > 2:
            devices = devices[: -(-len(devices) // 2)]
        else:
            share /= 2
    names = [device for device in fleet.drawn if device in devices]
    number = f"{quantity(len(names), 'device')} of {count(len(fleet.ranks))} {'is' if len(names) == 1 else 'are'} drawn"
    less = f", {percent(share)} of the time, since the page would be too large" if share < 1 else ""
    return data, tag("p", prose(f"{number}, and stand for all{less}: {', '.join(names)}."), class_="about")


def _windows(report: Report, timeline: Timeline, share: float) -> Any:
    """The windows of a timeline, or such a share of their time: by clock, around what the timeline opens on."""
    if share == 1:
        return timeline.windows
    first, parts = opening(report), {}
    for clock, windows in timeline.unions.windows.items():
        start, end = int(windows[0, 0]), int(windows[-1, 1])
        length = round((end - start) * share)
        middle = (first.start_ps + first.end_ps) // 2 if first and first.clock == clock else start
        begin = min(max(middle - length // 2, start), end - length)
        parts[clock] = iv.intersection(windows, iv.intervals([begin], [begin + length]))
    return parts


def _part(section: Section, report: Report, links: TimelineLinks) -> Part:
    """A section as the page shows it, folded unless it is to be open, or has no line to be folded under."""
    line = section.in_one_line
    is_open = section.key in _OPEN or not line
    return Part(section.key, section.title, _content(section, report, links), None if is_open else line)


def _section(part: Part) -> Markup:
    title = tag("h2", part.title, id=f"{part.key}-title")
    inside = join([title, part.content])
    if part.fold is not None:
        line = tag("span", prose(part.fold), class_="result")
        inside = tag("details", tag("summary", title, " ", line), part.content, class_="part")
    return tag("section", inside, id=part.key, aria_labelledby=f"{part.key}-title")


def _verdicts(report: Report) -> Markup:
    """The key figures, then what the headline does not say: the rest of the verdict, and those on the phases, of which
    only the compared ones are open."""
    rest = (report.verdict or "").removeprefix(report.finding).strip()
    parts = [_key_figures(report), tag("p", prose(rest)) if rest else None]
    open_first = [*report.compared] or list(report.verdicts)[:_VERDICTS]
    shown = [(phase, verdict) for phase, verdict in report.verdicts.items() if phase in open_first]
    folded = [(phase, verdict) for phase, verdict in report.verdicts.items() if phase not in open_first]
    parts += [_phase_verdicts(shown, report)] if shown else []
    if folded:
        names = join((name(phase) for phase, _ in folded[:_VERDICTS]), ", ")
        more = f" and {len(folded) - _VERDICTS} more" if len(folded) > _VERDICTS else None
        line = tag("summary", f"{quantity(len(folded), 'other phase')}: ", names, more)
        parts.append(tag("details", line, _phase_verdicts(folded, report)))
    return join(parts)


def _key_figures(report: Report) -> Markup | None:
    items = [
        tag(
            "div",
            tag("dt", key_figure.label),
            tag(
                "dd",
                tag("b", _value(key_figure)),
                tag("span", prose(key_figure.of), class_="of"),
            ),
        )
        for key_figure in report.key_figures
    ]
    return tag("dl", *items, class_="figures") if items else None


def _value(key_figure: KeyFigure) -> Markup:
    if key_figure.unit == Unit.TIME:
        return picoseconds(int(key_figure.value))
    return figure(key_figure.text, key_figure.value)


def _phase_verdicts(verdicts: list[tuple[str, str]], report: Report) -> Markup:
    items = [
        tag(
            "div",
            tag("dt", name(phase)),
            tag("dd", prose(verdict)),
            class_="compared" if phase in report.compared else None,
        )
        for phase, verdict in verdicts
    ]
    return tag("dl", *items, class_="verdicts")


def _content(section: Section, report: Report, links: TimelineLinks) -> Markup:
    """A section's findings and sentences, then its tables, each behind its picture where it has one."""
    about = ""
    if report.scope and section in report.sections and not (report.steady and section.key in OF_WHOLE):
        phases = f"what ran in {report.compared_words.replace(' counts:', ' counts here:', 1)}"
        about = f"Only {'the steady steps count here' if report.steady else phases}."
    lines = [_advice(finding.sentence, finding.action) for finding in section.findings]
    lines += [prose(sentence) for sentence in section.sentences]
    words = [tag("p", line) for line in lines] if len(lines) < 2 else [_list(lines)]
    parts: list[Markup] = []
    tables = [table for table in section.tables if table.rows]
    for with_picture, group in groupby(tables, lambda table: table.key in _WITH_PICTURE):
        content = [_table(table, report, links) for table in group]
        choice = section.title if section.key in _CHOICES else None
        parts += content if with_picture else [tag("div", *content, class_="tables", data_choice=choice)]
    return join([tag("p", about, class_="about") if about else None, *words, *parts])


def _table(source: Table, report: Report, links: TimelineLinks) -> Markup:
    """A table with its picture, where it has one; it is left out or folded where the picture tells most of it."""
    is_choice = source.key.partition(".")[0] in _CHOICES
    open_table = table(
        source,
        links,
        max(len(source.brief), _ROWS),
        shaded=source.key in _SHADED,
        order=_ORDER if is_choice and source.key not in _OF_DEVICES else "",
        data_by=source.columns[0].head if is_choice else None,
        data_column=_OF_DEVICES.get(source.key),
    )
    rows = f"Exact figures: {source.title} ({quantity(len(source.rows), 'row')})"
    folded = tag("details", tag("summary", rows), open_table)
    match source.key:
        case "time":
            # The bars of a fleet are those of a few devices.
            return join([pictures.partitions(report), open_table if report.fleet else None])
        case "time.cells":
            return folded
        case "together":
            return join([pictures.matrices(report), folded if pictures.has_cells(report) else open_table])
        case "concurrency":
            return join([pictures.concurrency(report), folded])
        case "steps.lengths":
            return join([open_table, pictures.walls(report, links)])
        case "steps.parts":
            bars = pictures.typical(report)
            return join([bars, open_table]) if report.fleet else bars or open_table
        case _:
            return open_table


def _beside(sentence: str, action: str) -> Markup:
    """A sentence, with what to try about it beside it."""
    advice = tag("span", tag("b", " Try: "), prose(action), class_="try") if action else None
    return tag("div", tag("span", prose(sentence)), advice, class_="loss")


def _advice(sentence: str, action: str) -> Markup:
    """A sentence, with what to try about it on a line of its own."""
    return join([prose(sentence), tag("span", tag("b", " Try: "), prose(action), class_="try") if action else None])


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
    last_part = trace.source.rstrip("/").rpartition("/")[2] or trace.source
    kicker = join(["tracekit report", *([" · ", name(last_part, longest=80)] if last_part else [])])
    return head(kicker, report.headline, {key: value for key, value in facts.items() if value is not None})


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
        f"Underlined times lead into the timeline, and count from its time 0. {time_zero(report).sentence}",
    ]
    return join(
        [
            tag("h2", "How to read this"),
            _list(map(prose, reading)),
            tag("p", "Run: ", name(runs[0]), *_others(runs)) if runs else None,
            tag("p", f"Made by tracekit {__version__} from ", name(report.trace.source, longest=100), ". "
                "All figures are in summary.json beside this page; tracekit's docs/concepts.md defines every word."),
        ]
    )  # fmt: skip


def _others(runs: tuple[str, ...]) -> list[object]:
    return [f"; not read: {len(runs) - 1} more, ", join(map(name, runs[1:4]), ", ")] if len(runs) > 1 else []
