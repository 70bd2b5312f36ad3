"""A comparison on its faces: the terminal, Markdown, one HTML page, and all of them in files."""

import json
import os
from contextlib import suppress
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from tracekit import console as terminal
from tracekit.comparison import words
from tracekit.comparison.model import Comparison, ScopeComparison
from tracekit.errors import TracekitError
from tracekit.files import refuse_inside, refuse_unwritable, write_all
from tracekit.report.html.document import PICTURE_STYLE, document, head, picture
from tracekit.report.html.markup import Markup, TimelineLinks, join, name, prose, table, tag
from tracekit.report.markdown import escaped, table_lines
from tracekit.report.section import Table
from tracekit.report.terminal import printout
from tracekit.report.time_zero import TimeZero
from tracekit.version import __version__

JSON, MARKDOWN, PAGE, PICTURE = "comparison.json", "comparison.md", "comparison.html", "comparison.png"
_ALT = "Both timelines on one scale, and where the difference went"
# No time of a comparison is an instant of a trace.
_ZERO = TimeZero({}, {})
_MOST_OPERATIONS, _MOST_CELLS = 6, 6
# Rows of a table of the page that are not folded.
_MOST_ROWS = 16


def show(comparison: Comparison, on: Console, full: bool = False) -> None:
    """Print the headline, what is not the same on both sides, and the scope that it is about, about a screen; with
    `full` every scope with all of its tables."""
    for line in terminal.wrapped(comparison.headline, on):
        on.print(Text(line, style="bold"), soft_wrap=True)
    for side in (comparison.a, comparison.b):
        printout.sentence(f"{side.name}: {words.sources(side.sources)}", on)
    on.print()
    if comparison.is_same:  # as the headline says
        return
    for caution in comparison.cautions:
        printout.sentence(caution.sentence, on, "! ")
    if comparison.cautions:
        on.print()
    if (each := words.verdicts(comparison.scopes)) is not None:
        printout.tables([each], _ZERO, on)
    scopes = comparison.scopes if full else comparison.scopes[:1]
    for scope in scopes:
        _scope(scope, on, full)
    _left_out(comparison, on)


def _scope(scope: ScopeComparison, on: Console, full: bool) -> None:
    printout.heading(words.title(scope), on)
    for line in (*words.sentences(scope, with_operations=full), *scope.notes):
        printout.sentence(line, on, "* ")
    on.print()
    if full:
        printout.tables(words.tables(scope), _ZERO, on)
    else:
        printout.tables([words.cells(scope)], _ZERO, on, _MOST_CELLS)
        printout.tables([words.operations(scope)], _ZERO, on, _MOST_OPERATIONS)


def _left_out(comparison: Comparison, on: Console) -> None:
    if comparison.missing:
        printout.sentence(f"Not compared: {'; '.join(comparison.missing)}.", on)


def markdown(comparison: Comparison, figure: str | None = None) -> str:
    """The comparison as Markdown; `figure` is the file name of its picture, where it stands beside it."""
    lines = [f"# {escaped(comparison.headline)}", ""]
    lines += [
        f"* **{escaped(side.name)}**: {escaped(words.sources(side.sources))}" for side in (comparison.a, comparison.b)
    ]
    scopes = () if comparison.is_same else comparison.scopes  # as the headline says
    cautions = () if comparison.is_same else comparison.cautions
    lines += ["", *(f"> {escaped(caution.sentence)}\n" for caution in cautions)]
    if figure:
        lines += [f"![{_ALT}]({figure})", ""]
    if (each := words.verdicts(scopes)) is not None:
        lines += table_lines(each, "##", _ZERO)
    for scope in scopes:
        lines += [f"## {escaped(words.title(scope))}", ""]
        lines += [f"* {escaped(line)}" for line in (*words.sentences(scope), *scope.notes)] + [""]
        for its in words.tables(scope):
            lines += table_lines(its, "###", _ZERO)
    if comparison.missing:
        lines += [f"Not compared: {escaped('; '.join(comparison.missing))}.", ""]
    return "\n".join(lines)


def page(comparison: Comparison, pictures: tuple[bytes, bytes] | None = None) -> str:
    """The comparison as one HTML page that needs nothing else; `pictures` are its figure as SVG, on light and on dark
    ground."""
    scopes = () if comparison.is_same else comparison.scopes  # as the headline says
    sections = [_opening(comparison), *(_section(scope, at) for at, scope in enumerate(scopes))]
    if pictures:
        sections.insert(1, tag("section", picture(*pictures, _ALT), id="picture", aria_label="Picture"))
    places = [("verdict", "Verdict"), *([("picture", "Picture")] if pictures else [])]
    places += [(f"scope-{at}", scope.label) for at, scope in enumerate(scopes)]
    sides = {side.name: name(words.sources(side.sources), longest=120) for side in (comparison.a, comparison.b)}
    return document(
        comparison.headline,
        places,
        head(Markup("tracekit compare"), comparison.headline, sides),
        join(sections),
        tag("p", f"Made by tracekit {__version__}. All figures are in {JSON} beside this page."),
        styles=[PICTURE_STYLE, ".caution{font-weight:600}"],
    )


def _opening(comparison: Comparison) -> Markup:
    if comparison.is_same:
        nothing = "Every difference is zero; no scope is shown."
        return tag("section", tag("h2", "Verdict"), tag("p", nothing), id="verdict")
    cautions = [tag("p", prose(caution.sentence), class_="caution") for caution in comparison.cautions]
    each = words.verdicts(comparison.scopes)
    missing = f"Not compared: {'; '.join(comparison.missing)}." if comparison.missing else ""
    parts = [
        tag("h2", "Verdict"),
        *cautions,
        table(each, TimelineLinks(_ZERO, lead=False)) if each else None,
        tag("p", prose(missing)) if missing else None,
    ]
    return tag("section", *parts, id="verdict")


def _section(scope: ScopeComparison, at: int) -> Markup:
    """A scope; all but the first are folded under their title."""
    lines = [tag("li", prose(line)) for line in (*words.sentences(scope), *scope.notes)]
    title = tag("h2", words.title(scope))
    content = join([tag("ul", *lines), *map(_table, words.tables(scope))])
    inside = tag("details", tag("summary", title), content, class_="part") if at else join([title, content])
    return tag("section", inside, id=f"scope-{at}")


def _table(its: Table) -> Markup:
    """A table, of a long one the first rows, and all of it folded below."""
    links = TimelineLinks(_ZERO, lead=False)
    if len(its.rows) <= _MOST_ROWS:
        return table(its, links, _MOST_ROWS)
    folded = tag("details", tag("summary", f"All {len(its.rows)} rows"), table(its, links, len(its.rows)))
    return join([table(replace(its, rows=its.rows[:_MOST_ROWS]), links, _MOST_ROWS), folded])


def write_comparison(comparison: Comparison, out: str | os.PathLike[str]) -> tuple[str, ...]:
    """Write the files of a comparison into the directory `out`, and return their names; each is complete or not there.

    Without matplotlib there is no picture. Raises TracekitError where `out` lies inside a trace that is compared, or
    cannot be written.
    """
    refuse_unwritable(out, "a comparison")
    for capture in (*comparison.a.captures, *comparison.b.captures):
        if capture.report.trace.source:
            refuse_inside(out, capture.report.trace.source)
    pictures: tuple[bytes, bytes] | None = None
    png: dict[str, bytes] = {}
    with suppress(TracekitError):  # without matplotlib
        import tracekit.report.figures  # noqa: F401 -- raises it
        from tracekit.comparison.figure import figure

        light, dark = (figure(comparison, theme=theme) for theme in ("light", "dark"))
        pictures, png = (light.encoded("svg"), dark.encoded("svg")), {PICTURE: light.encoded("png")}
    summary = json.dumps(comparison.summary(), indent=1) + "\n"
    files = {
        PAGE: page(comparison, pictures).encode(),
        **png,
        MARKDOWN: markdown(comparison, PICTURE if png else None).encode(),
        JSON: summary.encode(),
    }
    return write_all(out, "The comparison", files)
