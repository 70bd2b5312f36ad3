"""The partition bars: every part is its exact share of the window, and told apart."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frames import events, spans, trace
from tests.report.figures.figure_parts import area, filled_boxes, words
from tracekit.columns import concat
from tracekit.report.figures.figure import draw
from tracekit.report.figures.partition_bars import CELLS
from tracekit.report.figures.selection import select
from tracekit.report.palette import DARK, LIGHT
from tracekit.report.sections.overview import CELL_WORDS
from tracekit.report.trace_contents import no_device_work
from tracekit.timeline.unions import CELLS as EXACT
from tracekit.trace import EVENT_COLUMNS, Trace

# Of 100 ps gpu:0 computes 40, of which 10 hide a collective and 5 of these a copy too; 20 are exposed collectives, of
# which 5 copy; 10 are exposed copies; 30 idle. gpu:1 idles but for the ends.
ROWS = events(
    ("gpu:0", "compute", 0, 40),
    ("gpu:0", "collective", 30, 60),
    ("gpu:0", "memcpy", 35, 40, "copy", "H2D"),
    ("gpu:0", "memcpy", 55, 70, "copy", "H2D"),
    ("gpu:1", "memset", 0, 1),
    ("gpu:1", "compute", 99, 100),
)


def partition(selection, **options):
    return draw(selection, "partition", **options)


def test_every_exact_cell_has_a_part_of_the_bar():
    assert set(CELLS) == set(EXACT)


def test_each_part_has_its_share_and_kinds_that_ran_at_once_divide_its_height():
    by_colour = filled_boxes(partition(select(trace(ROWS))).axes[0])
    bar = by_colour[LIGHT["idle"]][:, 3].max() - by_colour[LIGHT["idle"]][:, 2].min()
    height = by_colour[LIGHT["idle"]][0, 3] - by_colour[LIGHT["idle"]][0, 2]
    assert bar > height
    share = {name: area(by_colour[LIGHT[name]]) / height for name in ("compute", "collective", "memcpy", "idle")}
    assert share == pytest.approx(
        {
            "compute": 30 + 5 / 2 + 5 / 3 + 1,
            "collective": 5 / 2 + 5 / 3 + 15 + 5 / 2,
            "memcpy": 5 / 3 + 5 / 2 + 10 + 1,
            "idle": 30 + 98,
        }
    )
    assert sum(share.values()) == pytest.approx(200)


def test_the_words_are_the_exact_shares():
    figure = partition(select(trace(ROWS)))
    assert (
        words(figure)[0] == "2 devices: 20.5 % compute, 10.0 % exposed collectives, 5.5 % exposed copies, 64.0 % idle"
    )
    assert words(figure)[2:9] == [name for name in CELL_WORDS.values() if name != "copy behind compute"]
    table = words(figure)[9:24]
    assert table == [
        *("compute only", "hidden", "exposed", "idle", "device"),
        *("gpu:0", "30.0 %", "10.0 %", "30.0 %", "30.0 %"),
        *("gpu:1", "1.0 %", "0 %", "1.0 %", "98.0 %"),
    ]
    assert words(figure)[24] == (
        "Each bar is the whole window; its segments are exact and add up to it. Kinds that ran concurrently share the "
        "height of their segment. Copies include memsets."
    )
    assert words(figure)[25:] == ["30.0 %", "15.0 %", "10.0 %", "30.0 %", "98.0 %"]
    assert figure.axes[0].get_xlabel() == "share of the window of 100 ps (%)"


KINDS = st.sampled_from(["compute", "collective", "memcpy", "memset"])
ROW = st.tuples(st.sampled_from(["gpu:0", "gpu:1", "gpu:2"]), KINDS, st.integers(0, 90), st.integers(1, 40))


@settings(max_examples=6)
@given(st.lists(ROW, min_size=1, max_size=12), st.integers(0, 50), st.integers(1, 60))
def test_the_parts_of_every_bar_are_counted_point_by_point(rows, start, length):
    given_rows = events(*[(device, kind, begin, begin + long) for device, kind, begin, long in rows])
    first = min(begin for _, _, begin, _ in rows)
    last = max(begin + long for _, _, begin, long in rows)
    if start >= last - first:
        return
    figure = partition(select(trace(given_rows), start_ps=start, end_ps=start + length))
    points = range(first + start, min(first + start + length, last))
    expected = dict.fromkeys(("compute", "collective", "memcpy", "idle"), 0.0)
    devices = sorted({device for device, *_ in rows})
    for device in devices:
        for point in points:
            kinds_at_point = {
                kind for name, kind, begin, long in rows if name == device and begin <= point < begin + long
            }
            kinds = {"memcpy" if kind == "memset" else kind for kind in kinds_at_point} or {"idle"}
            for kind in kinds:
                expected[kind] += 100 / len(points) / len(kinds)
    by_colour = filled_boxes(figure.axes[0])
    any_box = next(iter(by_colour.values()))
    pitch = abs(np.diff(figure.axes[0].get_ylim())[0]) / len(devices)
    assert len(any_box)
    shares = {kind: area(by_colour.get(LIGHT[kind], np.zeros((0, 4)))) / (2 * round(0.36 * pitch)) for kind in expected}
    assert shares == pytest.approx(expected, abs=1e-6)


def test_a_dark_figure_has_the_dark_palette():
    figure = partition(select(trace(ROWS)), theme="dark")
    assert DARK["compute"] in filled_boxes(figure.axes[0])
    assert figure.get_facecolor()[:3] == pytest.approx([int(DARK["paper"][at : at + 2], 16) / 255 for at in (1, 3, 5)])


def test_one_device_and_copies_of_an_unknown_one():
    rows = events(("cpu:0", "compute", 0, 10), ("cpu:?", "memcpy", 2, 4, "copy", "P2P"))
    texts = words(partition(select(trace(rows))))
    assert texts[0] == "cpu:0: 100 % compute"
    assert "Copies on cpu:? have no bar: the trace does not say which device they ran on." in texts


def test_several_clocks_have_bars_of_their_own_windows():
    host_a = events(("a/gpu:0", "compute", 5, 25), host="a", clock="a")
    host_b = events(("b/gpu:0", "compute", 900, 904), ("b/gpu:0", "compute", 908, 910), host="b", clock="b")
    view = select(trace(concat(EVENT_COLUMNS, [host_a, host_b])))
    figure = partition(view)
    assert figure.axes[0].get_xlabel() == "share of the window of each device's own clock (%)"
    assert "60.0 %" in words(figure)
    late_figure = partition(select(view.trace, start_ps=12))
    assert "-" in words(late_figure)


def test_without_device_time_the_figure_says_so():
    empty, host_only = Trace(events()), Trace(events(), spans(("p", 0, 5)))
    assert words(partition(select(empty)))[-1] == no_device_work(empty)
    assert words(partition(select(host_only, phase="p")))[-1] == no_device_work(host_only)


def test_128_devices_stand_on_a_page_and_their_names_do_not_collide():
    rows = events(*[(f"gpu:{i}", "compute", i, 200) for i in range(128)])
    figure = partition(select(trace(rows)))
    assert figure.get_size_inches()[1] < 12
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.texts if text.get_text().startswith("gpu:")]
    assert len(boxes) >= 64
    assert not any(a.overlaps(b) for a, b in itertools.pairwise(boxes))
