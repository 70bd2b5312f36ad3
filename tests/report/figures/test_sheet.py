"""The sheet of a figure: legends that fit, and widths and themes that there are."""

import itertools

import pytest

from tracekit.errors import TracekitError
from tracekit.report.figures import sheet

ENTRIES = [(name, ["#000000"]) for name in ("compute", "collective", "memcpy", "memset")]
BUSY = [(name, ["#000000"]) for name in ("1 device busy", "all 8 devices busy")]


def room(width: int) -> int:
    return width - 2 * sheet.MARGIN


def test_a_legend_stands_in_one_row_with_its_second_part_at_the_right_edge():
    legend = sheet.legend(ENTRIES, BUSY, room(1800))
    assert legend.height == sheet.LEGEND_PX
    assert len({y for _, y, _ in legend.entries}) == 1
    assert [entry for *_, entry in legend.entries] == [*ENTRIES, *BUSY]
    last = legend.entries[-1]
    assert last[0] + sheet._entry_px(last[2]) == 1800 - sheet.MARGIN


def test_a_legend_without_room_takes_more_rows_and_no_entries_meet():
    legend = sheet.legend(ENTRIES, BUSY, room(750))
    assert legend.height > sheet.LEGEND_PX
    for _, row in itertools.groupby(legend.entries, key=lambda entry: entry[1]):
        ends = [(x, x + sheet._entry_px(entry)) for x, _, entry in row]
        assert all(a[1] < b[0] for a, b in itertools.pairwise(ends))
        assert ends[-1][1] <= 750 - sheet.MARGIN


def test_no_entries_take_no_room():
    assert sheet.legend([], [], room(900)) == sheet.Legend([], 0)


@pytest.mark.parametrize("inches", [4.9, 48.5, float("nan")])
def test_a_width_that_fits_no_page_is_told(inches):
    with pytest.raises(TracekitError, match="give a width from 5 to 48"):
        sheet.pixels(inches)


def test_an_unknown_theme_is_told():
    with pytest.raises(TracekitError, match="There is no theme 'blue': say light or dark"):
        sheet.colours_of("blue")
