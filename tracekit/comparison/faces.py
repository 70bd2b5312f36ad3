"""A comparison on its faces: the terminal, Markdown, and one HTML page."""

import base64
from dataclasses import replace
from importlib import resources
from string import Template

from rich.console import Console
from rich.text import Text

from tracekit import console as terminal
from tracekit.comparison import words
from tracekit.comparison.model import Comparison, ScopeComparison
from tracekit.report.html.markup import Markup, TimelineLinks, join, name, prose, table, tag
from tracekit.report.html.page import colours, policy, read
from tracekit.report.markdown import escaped, table_lines
from tracekit.report.section import Table
from tracekit.report.terminal import printout
from tracekit.report.time_zero import TimeZero
from tracekit.version import __version__

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
        printout.sentence(f"{side.name}: {words.sources(side)}", on)
    on.print()
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
    printout.heading(f"{scope.label[0].upper()}{scope.label[1:]}: {words.counted(scope)}", on)
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
    lines += [f"* **{side.name}**: {escaped(words.sources(side))}" for side in (comparison.a, comparison.b)]
    lines += ["", *(f"> {escaped(caution.sentence)}\n" for caution in comparison.cautions)]
    if figure:
        lines += [f"![Both timelines on one scale, and where the difference went]({figure})", ""]
    if (each := words.verdicts(comparison.scopes)) is not None:
        lines += table_lines(each, "##", _ZERO)
    for scope in comparison.scopes:
        lines += [f"## {escaped(scope.label[0].upper() + scope.label[1:])}: {words.counted(scope)}", ""]
        lines += [f"* {escaped(line)}" for line in (*words.sentences(scope), *scope.notes)] + [""]
        for its in words.tables(scope):
            lines += table_lines(its, "###", _ZERO)
    if comparison.missing:
        lines += [f"Not compared: {escaped('; '.join(comparison.missing))}.", ""]
    return "\n".join(lines)


def page(comparison: Comparison, pictures: tuple[bytes, bytes] | None = None) -> str:
    """The comparison as one HTML page that needs nothing else; `pictures` are its figure as SVG, on light and on dark
    ground."""
    sections = [_opening(comparison), *(_section(scope, at) for at, scope in enumerate(comparison.scopes))]
    if pictures:
        sections.insert(1, tag("section", _picture(*pictures), id="picture", aria_label="Picture"))
    places = [("verdict", "Verdict"), *([("picture", "Picture")] if pictures else [])]
    places += [(f"scope-{at}", scope.label) for at, scope in enumerate(comparison.scopes)]
    links = [tag("li", tag("a", title, href=f"#{key}")) for key, title in places]
    source = (resources.files("tracekit.report.html") / "page.html").read_text("utf-8")
    return Template(source).substitute(
        title=tag("title", f"tracekit: {comparison.headline}"),
        policy=policy([]),
        style=tag("style", Markup("\n".join([colours(), read("page.css"), _STYLE]))),
        navigation=tag("ul", *links),
        header=_header(comparison),
        body=join(sections),
        foot=tag("p", f"Made by tracekit {__version__}. All figures are in comparison.json beside this page."),
        script="",
    )


# A figure has its own ground, and on a narrow screen scrolls sideways.
_STYLE = ".picture img{width:100%;min-width:44rem;height:auto}.picture{overflow-x:auto}.caution{font-weight:600}"


def _header(comparison: Comparison) -> Markup:
    items = [
        tag("div", tag("dt", side.name), tag("dd", name(words.sources(side), longest=120)))
        for side in (comparison.a, comparison.b)
    ]
    kicker = tag("p", "tracekit compare", class_="kicker")
    return join([kicker, tag("h1", prose(comparison.headline)), tag("dl", *items, class_="facts traced")])


def _opening(comparison: Comparison) -> Markup:
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
    title = tag("h2", f"{scope.label[0].upper()}{scope.label[1:]}: {words.counted(scope)}")
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


def _picture(light: bytes, dark: bytes) -> Markup:
    def address(svg: bytes) -> str:
        return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"

    source = tag("source", media="(prefers-color-scheme: dark)", srcset=address(dark))
    image = tag("img", src=address(light), alt="Both timelines on one scale, and where the difference went")
    return tag("div", tag("picture", source, image), class_="picture wide")
