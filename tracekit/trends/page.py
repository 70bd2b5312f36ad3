"""A history as one HTML page that needs nothing else, with the changes, the picture, and the figures of every run; and
the files beside it."""

import os
from collections.abc import Sequence
from contextlib import suppress

import pandas as pd

from tracekit.columns import records
from tracekit.errors import TracekitError
from tracekit.files import refuse_unwritable, write_all
from tracekit.report.html.document import PICTURE_STYLE, document, head, picture
from tracekit.report.html.markup import Markup, TimelineLinks, join, name, prose, table, tag
from tracekit.report.section import Cell, Column, Missing, Table, Unit
from tracekit.report.time_zero import TimeZero
from tracekit.trends.change_points import FEWEST
from tracekit.trends.history import History, Series, interval, reasons, series_of
from tracekit.units import change, number, quantity
from tracekit.version import __version__

PAGE, PICTURE, TABLE, CHANGES = "history.html", "history.png", "history.parquet", "changes.parquet"
# No time of a history is an instant of a trace.
_LINKS = TimelineLinks(TimeZero({}, {}), lead=False)
_ALT = "Each measure over the runs, and where its level changed"


def page(history: History, source: str, pictures: tuple[bytes, bytes] | None = None) -> str:
    """The history of the directory `source`; `pictures` are its figure as SVG, on light and on dark ground."""
    runs, title = history.runs, history.headline
    sections = [("changes", "Changes", _changes(history))]
    if pictures:
        sections.append(("picture", "Picture", picture(*pictures, _ALT)))
    sections.append(("runs", "Runs", _runs(history)))
    body = [tag("section", tag("h2", words), content, id=key) for key, words, content in sections]
    facts = {"directory": source, "first run": runs[0], "last run": runs[-1]}
    return document(
        title,
        [(key, words) for key, words, _ in sections],
        head(Markup("tracekit history"), title, {key: name(value, longest=120) for key, value in facts.items()}),
        join(body),
        tag("p", f"Made by tracekit {__version__}. All figures are in {TABLE} beside this page."),
        styles=[PICTURE_STYLE],
    )


def _changes(history: History) -> Markup:
    words = history.came_or_went if len(history.changes) else history.sentences
    if len(history.runs) >= FEWEST:
        words = [*words, history.about_chance]
    sentences = [tag("li", prose(each)) for each in (*words, *history.notes)]
    rows = [_change(history, each, row) for each in series_of(history) for row in records(each.changes)]
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


def _change(history: History, series: Series, row: dict[str, object]) -> tuple[Cell, ...]:
    before, after = row["before"], row["after"]
    levels = series.levels(row)
    by = change(after / before) if before else "-"  # type: ignore[operator]
    return (
        series.title, history.named(str(row["run"])), *levels, by,
        interval(series, row).strip(" []").replace(", ", " to ") or "too few runs", number(row["p"]),
        int(row["runs_before"]), int(row["runs_after"]),  # type: ignore[call-overload]
    )  # fmt: skip


def _runs(history: History) -> Markup:
    """The figures of all runs, a table for each scope, folded; and why series have none."""
    parts: list[object] = []
    commits = [commit or Missing("not known") for commit in history.commits]
    named: dict[str, Sequence[Cell]] = {"run": history.runs} | ({"commit": commits} if any(history.commits) else {})
    for phase in dict.fromkeys(each.phase for each in series_of(history)):
        series = [each for each in series_of(history) if each.phase == phase]
        columns = (
            *(Column(words, Unit.NAME) for words in named),
            *(Column(each.measure, each.unit) for each in series),
        )
        values = [[_cell(row) for row in records(each.rows)] for each in series]
        rows = tuple(zip(*named.values(), *values, strict=True))
        title = "Steady steps or whole trace" if phase is None else f"Phase {phase}"
        its = Table(f"runs-{len(parts)}", title, columns, rows, tuple(range(len(rows))))
        summary = tag("summary", f"{title}: {quantity(len(rows), 'run')}")
        parts.append(tag("details", summary, table(its, _LINKS, len(rows)), open=len(rows) <= FEWEST))
    words = [tag("li", prose(each)) for each in reasons(history)]
    return join([*parts, tag("ul", *words) if words else None])


def _cell(row: dict[str, object]) -> Cell:
    if pd.isna(row["value"]):  # type: ignore[call-overload]
        return Missing(str(row["reason"]))
    value = float(row["value"])  # type: ignore[arg-type]
    return int(value) if row["unit"] == Unit.TIME else value


def write_history(history: History, source: str | os.PathLike[str], out: str | os.PathLike[str]) -> tuple[str, ...]:
    """Write the files of the history of the directory `source` into `out`, and return their names; each is complete or
    not there.

    Without matplotlib there is no picture. Raises TracekitError where `out` cannot be written.
    """
    refuse_unwritable(out, "a history")
    pictures: tuple[bytes, bytes] | None = None
    png: dict[str, bytes] = {}
    with suppress(TracekitError):  # without matplotlib
        import tracekit.report.figures  # noqa: F401 -- raises it
        from tracekit.trends.figure import figure

        light, dark = (figure(history, theme=theme) for theme in ("light", "dark"))
        pictures, png = (light.encoded("svg"), dark.encoded("svg")), {PICTURE: light.encoded("png")}
    files = {
        PAGE: page(history, str(source), pictures).encode(),
        **png,
        TABLE: history.table.to_parquet(index=False),
        CHANGES: history.changes.to_parquet(index=False),
    }
    return write_all(out, "The history", files)
