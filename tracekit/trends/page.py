"""A history as one HTML page that needs nothing else: the changes, the picture, and the figures of every run."""

import base64
from importlib import resources
from string import Template

import pandas as pd

from tracekit.columns import records
from tracekit.report.html.markup import Markup, TimelineLinks, join, name, prose, table, tag
from tracekit.report.html.page import colours, policy, read
from tracekit.report.section import Cell, Column, Missing, Table, Unit
from tracekit.report.time_zero import TimeZero
from tracekit.trends.change_points import FEWEST
from tracekit.trends.history import History, Series, interval, series_of
from tracekit.units import change, number, quantity
from tracekit.version import __version__

# No time of a history is an instant of a trace.
_LINKS = TimelineLinks(TimeZero({}, {}), lead=False)
# A figure has its own ground, and on a narrow screen scrolls sideways.
_STYLE = ".picture img{width:100%;min-width:44rem;height:auto}.picture{overflow-x:auto}"


def page(history: History, source: str, pictures: tuple[bytes, bytes] | None = None) -> str:
    """The history of the directory `source`; `pictures` are its figure as SVG, on light and on dark ground."""
    runs, found = history.runs, len(history.changes)
    title = f"{quantity(len(runs), 'run')}: {quantity(found, 'change') if found else 'no change'} of level"
    sections = [("changes", "Changes", _changes(history))]
    if pictures:
        sections.append(("picture", "Picture", _picture(*pictures)))
    sections.append(("runs", "Runs", _runs(history)))
    body = [tag("section", tag("h2", words), content, id=key) for key, words, content in sections]
    kicker = tag("p", "tracekit history", class_="kicker")
    facts = [("directory", source), ("first run", runs[0]), ("last run", runs[-1])]
    items = [tag("div", tag("dt", words), tag("dd", name(value, longest=120))) for words, value in facts]
    page_source = (resources.files("tracekit.report.html") / "page.html").read_text("utf-8")
    return Template(page_source).substitute(
        title=tag("title", f"tracekit: {title}"),
        policy=policy([]),
        style=tag("style", Markup("\n".join([colours(), read("page.css"), _STYLE]))),
        navigation=tag("ul", *(tag("li", tag("a", words, href=f"#{key}")) for key, words, _ in sections)),
        header=join([kicker, tag("h1", prose(title)), tag("dl", *items, class_="facts traced")]),
        body=join(body),
        foot=tag("p", f"Made by tracekit {__version__}. All figures are in history.parquet beside this page."),
        script="",
    )


def _changes(history: History) -> Markup:
    words = [] if len(history.changes) else history.sentences
    if len(history.runs) >= FEWEST:
        words = [*words, history.about_chance]
    sentences = [tag("li", prose(each)) for each in (*words, *history.notes)]
    rows = [_change(each, row) for each in series_of(history) for row in records(each.changes)]
    columns = (
        Column("measure", Unit.NAME), Column("from run", Unit.NAME), Column("before", Unit.TEXT),
        Column("after", Unit.TEXT), Column("change", Unit.TEXT), Column("95 % interval", Unit.TEXT),
        Column("p", Unit.TEXT), Column("runs before", Unit.COUNT), Column("runs after", Unit.COUNT),
    )  # fmt: skip
    about = (
        "Medians up to the change before and the next one. The interval is that of the change; p is how often chance "
        "parts a series as clearly."
    )
    found = Table("changes", "Changes of level", columns, tuple(rows), tuple(range(len(rows))), about)
    return join([tag("ul", *sentences), table(found, _LINKS, len(rows)) if rows else None])


def _change(series: Series, row: dict[str, object]) -> tuple[Cell, ...]:
    before, after = row["before"], row["after"]
    by = change(after / before) if before else "-"  # type: ignore[operator]
    return (
        series.title, str(row["run"]), series.text(before), series.text(after), by,
        interval(series, row).strip(" []").replace(", ", " to ") or "too few runs", number(row["p"]),
        int(row["runs_before"]), int(row["runs_after"]),  # type: ignore[call-overload]
    )  # fmt: skip


def _runs(history: History) -> Markup:
    """The figures of all runs, a table for each scope, folded; and why series have none."""
    parts: list[object] = []
    for phase in dict.fromkeys(each.phase for each in series_of(history)):
        series = [each for each in series_of(history) if each.phase == phase]
        columns = (Column("run", Unit.NAME), *(Column(each.measure, each.unit) for each in series))
        values = [[_cell(row) for row in records(each.rows)] for each in series]
        rows = tuple(zip(history.runs, *values, strict=True))
        title = "Steady steps or whole trace" if phase is None else f"Phase {phase}"
        its = Table(f"runs-{len(parts)}", title, columns, rows, tuple(range(len(rows))))
        summary = tag("summary", f"{title}: {quantity(len(rows), 'run')}")
        parts.append(tag("details", summary, table(its, _LINKS, len(rows)), open=len(rows) <= FEWEST))
    reasons = [
        tag("li", prose(f"{each.title}: {reason}"))
        for each in series_of(history)
        for reason in dict.fromkeys(each.rows["reason"].dropna())
    ]
    return join([*parts, tag("ul", *reasons) if reasons else None])


def _cell(row: dict[str, object]) -> Cell:
    if pd.isna(row["value"]):  # type: ignore[call-overload]
        return Missing(str(row["reason"]))
    value = float(row["value"])  # type: ignore[arg-type]
    return int(value) if row["unit"] == Unit.TIME else value


def _picture(light: bytes, dark: bytes) -> Markup:
    def address(svg: bytes) -> str:
        return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"

    source = tag("source", media="(prefers-color-scheme: dark)", srcset=address(dark))
    image = tag("img", src=address(light), alt="Each measure over the runs, and where its level changed")
    return tag("div", tag("picture", source, image), class_="picture wide")
