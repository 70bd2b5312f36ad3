"""Concurrency over time: the filled area is the devices' busy time, and the histogram is exact."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frames import events, spans, trace
from tests.report.figures.figure_parts import area, filled_boxes, words
from tracekit.columns import concat, frame
from tracekit.report.figures.figure import draw
from tracekit.report.figures.selection import select
from tracekit.report.palette import LIGHT
from tracekit.report.trace_contents import no_device_work
from tracekit.trace import EVENT_COLUMNS, Trace

ROWS = events(("gpu:0", "compute", 0, 60), ("gpu:1", "compute", 40, 80), ("gpu:2", "memcpy", 90, 100, "c", "H2D"))


def concurrency(selection, **options):
    return draw(selection, "concurrency", **options)


def busy_points(rows, device) -> set[int]:
    return {point for name, start, end in rows if name == device for point in range(start, end)}


def test_few_steps_stand_as_they_are_in_the_colour_of_their_number():
    over_time = filled_boxes(concurrency(select(trace(ROWS))).axes[1])
    assert over_time[LIGHT["one"]].tolist() == [[0, 40, 0, 1], [60, 80, 0, 1], [90, 100, 0, 1]]
    assert over_time[LIGHT["many"]].tolist() == [[40, 60, 0, 2]]


def test_the_histogram_is_the_exact_time_with_so_many_busy():
    figure = concurrency(select(trace(ROWS)))
    bars = filled_boxes(figure.axes[2])
    assert {colour: boxes[:, :2].tolist() for colour, boxes in bars.items()} == {
        LIGHT["idle"]: [[0, 10]],
        LIGHT["one"]: [[0, 70]],
        LIGHT["many"]: [[0, 20]],
    }
    texts = words(figure)
    assert texts[0] == "On average 1.10 of 3 devices were busy, all 3 of them for 0 % of the time"
    assert texts[2:5] == ["no device busy", "1 device busy", "2 busy"]
    assert texts[-4:] == ["70.0 %, 70 ps", "20.0 %, 20 ps", "10.0 %, 10 ps", "0 %"]
    assert "The bars on the right are exact and add up to the window of 100 ps." in texts


DEVICE = st.sampled_from([f"gpu:{i}" for i in range(6)])
ROW = st.tuples(DEVICE, st.integers(0, 5000), st.integers(1, 900)).map(lambda row: (row[0], row[1], row[1] + row[2]))


@settings(max_examples=5)
@given(st.lists(ROW, min_size=2, max_size=40))
def test_the_area_is_the_busy_time_however_many_steps_there_are(rows):
    figure = concurrency(select(trace(events(*[(name, "compute", *when) for name, *when in rows]))), width=5)
    expected = sum(len(busy_points(rows, f"gpu:{i}")) for i in range(6))
    assert sum(map(area, filled_boxes(figure.axes[1]).values())) == pytest.approx(expected)


def test_each_column_of_many_steps_is_the_true_average_and_stacks_its_bins():
    rng = np.random.default_rng(1)
    rows = []
    for device in range(5):
        edges = np.sort(rng.choice(20_000, 2000, replace=False))
        rows += [(f"gpu:{device}", int(a), int(b)) for a, b in edges.reshape(-1, 2)]
    figure = concurrency(select(trace(events(*[(name, "compute", *when) for name, *when in rows]))))
    over_time = filled_boxes(figure.axes[1])
    first = min(start for _, start, _ in rows)
    is_busy = np.zeros((5, 20_000), bool)
    for name, start, end in rows:
        is_busy[int(name[-1]), start:end] = True
    count = is_busy.sum(axis=0)[first:]
    low, high = 3000, 9000
    boxes = np.concatenate(list(over_time.values()))
    cut = np.clip(boxes[:, :2], low, high)
    inside = ((cut[:, 1] - cut[:, 0]) * (boxes[:, 3] - boxes[:, 2])).sum()
    # The ends of the range may cut a column.
    assert inside == pytest.approx(count[low:high].sum(), abs=5 * 20)
    by_bin = {"one": (1, 1), "few": (2, 2), "many": (3, 4), "all": (5, 5)}
    for colour, (least, most) in by_bin.items():
        expected = count[(count >= least) & (count <= most)].sum()
        assert area(over_time[LIGHT[colour]]) == pytest.approx(expected)
    top = sum(boxes[:, 3] - boxes[:, 2])
    assert top > 0
    assert any("shows its average number of busy devices" in text for text in words(figure))


def test_the_ink_is_the_share_of_time_of_many_intervals():
    n = 200_000
    starts = np.arange(n) * 1000
    codes = np.zeros(n, np.int8)
    text_columns = {name: pd.Categorical.from_codes(codes, [name]) for name in ("host", "lane", "name")}
    rows = frame(
        EVENT_COLUMNS,
        {
            **text_columns,
            "device": pd.Categorical.from_codes(np.arange(n) % 2, ["gpu:0", "gpu:1"]),
            "kind": pd.Categorical.from_codes(codes, ["compute"]),
            "start_ps": starts,
            "end_ps": starts + 250,
        },
    )
    figure = concurrency(select(trace(rows)))
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[:, :, :3]
    x0, y0, x1, y1 = np.round(figure.axes[1].get_window_extent().extents).astype(int)
    part = pixels[len(pixels) - y1 : len(pixels) - y0, x0:x1]
    grey = np.array([int(LIGHT["one"][at : at + 2], 16) for at in (1, 3, 5)])
    ink = (np.abs(part.astype(int) - grey).max(axis=2) < 8).mean()
    # 2.5 levels are 0 to 2 with half a level below and above, hence 3; the average is a quarter of one.
    assert ink == pytest.approx(0.25 / 3, abs=0.006)


def test_phases_are_bands_and_rounds_of_one_are_numbered():
    given_trace = trace(ROWS, spans(("a", 0, 50), ("b", 60, 70), ("b", 80, 95)))
    assert [text.get_text() for text in concurrency(select(given_trace)).axes[0].texts] == ["a", "b", "b"]
    assert [text.get_text() for text in concurrency(select(given_trace, phase="b")).axes[0].texts] == [
        "round 1",
        "round 2",
    ]


def test_one_device_is_a_figure_too():
    assert words(concurrency(select(trace(events(("gpu:0", "compute", 0, 5), ("gpu:0", "compute", 9, 10))))))[0] == (
        "The only device was busy 60.0 % of the time"
    )


def test_65_levels_are_labelled_without_collisions():
    rows = events(*[(f"gpu:{i}", "compute", i, 200 - i) for i in range(64)])
    figure = concurrency(select(trace(rows)))
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.axes[2].texts]
    assert len(boxes) > 8
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    ticks = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert ticks[0] == "0"
    assert 5 < len(ticks) < 30


def test_numbers_of_devices_that_were_never_busy_have_no_label_where_few_bars_have_one():
    rows = events(*[(f"gpu:{i}", "compute", 10 * (i % 2), 10 * (i % 2) + 10) for i in range(64)])
    labels = [text.get_text() for text in concurrency(select(trace(rows))).axes[2].texts]
    assert labels == ["100 %, 20 ps"]


def test_what_cannot_be_known_is_a_sentence():
    host_a = events(("a/gpu:0", "compute", 5, 25), host="a", clock="a")
    host_b = events(("b/gpu:0", "compute", 900, 910), host="b", clock="b")
    texts = words(concurrency(select(trace(concat(EVENT_COLUMNS, [host_a, host_b])))))
    assert texts[-1] == "Host clocks are not aligned, so how many devices were busy at the same time is unknown."
    unknown = events(("cpu:?", "memcpy", 0, 10, "copy", "P2P"))
    assert words(concurrency(select(trace(unknown))))[-1] == "The trace does not say which devices its work ran on."
    empty = Trace(events())
    assert words(concurrency(select(empty)))[-1] == no_device_work(empty)
