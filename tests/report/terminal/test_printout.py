"""What `tracekit report` prints: what a person reads first, and with --full all of it, whatever the terminal."""

import io
import re
from functools import cache
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.frames import events, spans, trace
from tests.report.sections.brief import ZERO
from tracekit import console as terminal
from tracekit.report.build import analyse
from tracekit.report.markdown import markdown
from tracekit.report.section import Column, Unit, table
from tracekit.report.terminal import printout
from tracekit.timeline.timeline import timeline_of

MS = 10**9
CODES = re.compile(r"\x1b\[[0-9;]*m")


@cache
def two_phases():
    """Two devices with compute, collectives and copies, in two phases that are compared."""
    frame = events(
        ("gpu:0", "compute", 0, 10 * MS, "matmul"),
        ("gpu:0", "compute", 20 * MS, 30 * MS, "matmul"),
        ("gpu:1", "compute", 20 * MS, 28 * MS, "matmul"),
        ("gpu:0", "collective", 30 * MS, 33 * MS, "all-reduce"),
        ("gpu:1", "collective", 28 * MS, 33 * MS, "all-reduce"),
        ("gpu:1", "memcpy", 33 * MS, 36 * MS, "copy", "H2D"),
    )
    return timeline_of(trace(frame, spans(("one", 0, 10 * MS), ("two", 20 * MS, 40 * MS, None, "one"))))


@cache
def report_of(timeline):
    return analyse(timeline)


def printout_text(any_trace, width=80, full=False, **options) -> str:
    timeline = timeline_of(any_trace)
    report = report_of(timeline)
    file = io.StringIO()
    console = terminal.console(file, width=width)
    if options:
        from rich.console import Console

        console = Console(file=file, width=width, highlight=False, markup=False, **options)
    printout.show(report, console, full, timeline)
    return file.getvalue()


def test_the_verdicts_come_first_then_the_figures_the_timeline_what_matters_most_and_the_tables():
    lines = printout_text(two_phases(), full=True).splitlines()
    starts = [
        "two: ",
        "one: ",
        "72.5 %",
        "Timeline: ",
        "What matters most",
        "Phases",
        "Where the window",
        "Collectives and copies",
    ]
    places = [next(at for at, line in enumerate(lines) if line.startswith(start)) for start in starts]
    assert places == sorted(places)
    assert places[0] == 0


def test_by_default_it_is_one_screen_and_full_prints_every_sentence_and_table():
    report, brief, full = report_of(two_phases()), printout_text(two_phases()), printout_text(two_phases(), full=True)
    sections = [section for section in [*report.sections, report.classification] if not section.lacking]
    titles = [table.title for section in sections for table in section.tables if table.brief]
    assert titles
    for title in titles:
        assert title in full.splitlines()
        assert title not in brief.splitlines()
    assert "Phases" in brief.splitlines()
    for section in sections:
        for finding in section.findings:
            assert "".join(f"{finding.sentence}Try:{finding.action}".split()) in re.sub(r"\s|\*", "", full)
        for sentence in section.sentences:
            assert "".join(sentence.split()) in re.sub(r"\s|\*", "", full)
    assert len(brief.splitlines()) <= 45


def test_many_phases_and_devices_still_fit_one_screen_and_full_has_them_all():
    frame = events(*[(f"gpu:{at}", "compute", 0, 100 * MS) for at in range(16)])
    marks = [(f"p{at}", at * MS, (at + 1) * MS) for at in range(12)]
    recording = timeline_of(trace(frame, spans(*marks, ("last", 12 * MS, 13 * MS, None, "p0"))))
    brief, full = printout_text(recording).splitlines(), printout_text(recording, full=True).splitlines()
    verdicts = [line for line in brief if re.match(r"(p\d+|last): ", line)]
    # What is compared is what the trace was made for.
    assert [line.split(":")[0] for line in verdicts] == ["last"]
    assert "… and 12 more verdicts: --full prints them." in brief
    assert "… and 8 more devices and 9 more phases." in brief
    assert len(brief) <= 40
    assert sum(bool(re.match(r"(p\d+|last): ", line)) for line in full) == 13
    assert not any("--full" in line for line in full)
    assert sum(line.startswith("gpu:") and line.count("%") == 5 for line in full) == 16


def test_key_figures_stand_side_by_side_over_what_they_are_a_share_of():
    lines = printout_text(two_phases()).splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("72.5 %"))
    assert [" ".join(line.split()) for line in lines[at : at + 3]] == [
        "72.5 % 100 % 27.5 % 0.50x",
        "busy, of two overlapped, of exposed, of the speedup, over",
        "(20.00 ms), mean the shorter busy devices' time: one, efficiency",
    ]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_too_wide_and_no_number_is_cut_in_two(width):
    assert max(map(cell_len, printout_text(two_phases(), width).splitlines())) <= width
    lines = printout_text(two_phases(), width, full=True).splitlines()
    assert max(map(cell_len, lines)) <= width
    row = next(line for line in lines if line.startswith("gpu:0") and line.count("%") == 5)
    assert len(re.findall(r"\d[\d.]* (?:ms|%)", row)) == 6


def test_colours_change_nothing_but_the_colours():
    recording = two_phases()
    plain = printout_text(recording)
    coloured = printout_text(recording, force_terminal=True, color_system="truecolor", legacy_windows=False)
    assert not CODES.search(plain)
    assert CODES.search(coloured)
    assert [line.rstrip() for line in CODES.sub("", coloured).splitlines()] == [
        line.rstrip() for line in plain.splitlines()
    ]


def test_names_that_a_terminal_would_obey_are_shown_and_not_obeyed():
    names = ["[bold]x[/bold]", "\x1b[2J\x1b]0;gone\x07", "\u202eevil", ":warning:", "漢字\t漢字", "a\nb"]
    frame = events(*[("gpu:0", "compute", at, at + 1, name) for at, name in enumerate(names)])
    recording = timeline_of(trace(frame, spans(*[(name, at, at + 1) for at, name in enumerate(names)])))
    for out in (printout_text(recording, full=True), printout_text(recording, 60)):
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "\x07" not in out
        assert "[bold]x[/bold]" in out
        assert ":warning:" in out
        assert max(map(cell_len, out.splitlines())) <= 80


def test_a_table_that_is_too_wide_loses_empty_columns_then_names_then_words_and_figures_at_last():
    columns = [Column("phase", Unit.NAME), Column("wall", Unit.TIME), Column("efficiency", Unit.RATIO)]
    columns += [Column("overlap ratio", Unit.RATIO)]
    wide = table("t", "T", columns, [("p" * 30, 10 * MS, None, 0.97)])

    def heads(width):
        remaining_columns, figures = printout._columns(wide, ZERO, terminal.console(io.StringIO(), width=width))
        return [column[0] for column in remaining_columns], remaining_columns[0][1], figures

    assert heads(80) == (["phase", "wall", "efficiency", "overlap ratio"], "p" * 30, [False, True, True, True])
    assert heads(60) == (["phase", "wall", "overlap ratio"], "p" * 30, [False, True, True])
    # The head is wrapped before a name is shortened.
    assert heads(49) == (["phase", "wall", "overlap ratio"], "p" * 30, [False, True, True])
    assert heads(36) == (["phase", "wall", "overlap ratio"], "pppppppp…pppppppp", [False, True, True])
    remaining_columns, figures = printout._columns(wide, ZERO, terminal.console(io.StringIO(), width=20))
    assert printout._widths(remaining_columns, figures, 40) == ([8, 8, 13], 2)
    assert printout._widths(remaining_columns, figures, 29) == ([8, 8, 9], 2)
    widths, gap = printout._widths(remaining_columns, figures, 20)
    assert (gap, sum(widths) + 2 * gap) == (1, 20)


def test_names_on_the_right_are_shortened_first():
    columns = [Column("kernel", Unit.NAME), Column("time", Unit.TIME), Column("where", Unit.NAME)]
    long = table("t", "T", columns, [("k" * 40, MS, "w" * 40)])
    (kernel, _, where), _ = printout._columns(long, ZERO, terminal.console(io.StringIO(), width=80))
    assert (kernel[1], len(where[1])) == ("k" * 40, 29)
    (kernel, _, where), _ = printout._columns(long, ZERO, terminal.console(io.StringIO(), width=50))
    assert (len(kernel[1]), len(where[1])) == (23, 16)


def test_names_of_devices_are_left_whole():
    columns = [Column("kernel", Unit.NAME), Column("device", Unit.DEVICE), Column("time spent", Unit.TIME)]
    long = table("t", "T", columns, [("k" * 40, "rank10/gpu:10", MS)])
    for width in (60, 40, 34):
        (kernel, device, _), _ = printout._columns(long, ZERO, terminal.console(io.StringIO(), width=width))
        assert (len(kernel[1]), device[1]) == (width - 13 - 7 - 4, "rank10/gpu:10")


def test_the_table_of_devices_fits_a_terminal_with_names_of_ranks():
    rows = [(f"rank{at}/gpu:{at}", "compute", 0, 5 * MS) for at in range(2)]
    lines = printout_text(trace(events(*rows)), 80, full=True).splitlines()
    assert [line.split()[0] for line in lines if line.count("%") == 5] == ["rank0/gpu:0", "rank1/gpu:1"]


def test_report_md_holds_every_table_that_full_prints(tmp_path: Path):
    report = report_of(two_phases())
    page = markdown(report, "gantt.png")
    for section in [*report.overview, *report.sections, report.classification]:
        for section_table in section.tables:
            assert (section_table.title in page) == bool(section_table.brief), section_table.title
