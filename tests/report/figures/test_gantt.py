"""The timeline: what stands on it, and that its ink is the truth."""

import re
import time
from dataclasses import replace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frames import spans, trace
from tests.report.figures.figure_parts import WINDOW, interval_sets, points
from tests.report.two_gpus import PHASES, ROWS
from tracekit import intervals as iv
from tracekit.columns import frame
from tracekit.report.build import analyse
from tracekit.report.figures import gantt as gantt_figure
from tracekit.report.figures import lanes
from tracekit.report.figures.figure import draw
from tracekit.report.figures.selection import Selection, select
from tracekit.report.palette import LIGHT
from tracekit.report.part import choose
from tracekit.report.trace_contents import no_device_work
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import EVENT_COLUMNS, Trace
from tracekit.vocabulary.kinds import Kind

MS = 10**9
TRACK = 242.0
KINDS = (Kind.COMPUTE, Kind.COLLECTIVE)


def trace_of(rows) -> Trace:
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 5
    names = ["device", "lane", "kind", "start_ps", "end_ps"]
    data = {name: list(values) for name, values in zip(names, columns, strict=True)}
    return Trace(frame(EVENT_COLUMNS, data | {"host": ["h"] * len(rows), "name": ["op"] * len(rows)}))


def one_lane(starts, ends, kind="compute") -> Trace:
    n = len(starts)
    same = {c: pd.Categorical.from_codes(np.zeros(n, np.int8), [c]) for c in ("host", "device", "lane", "name")}
    return Trace(frame(EVENT_COLUMNS, {**same, "kind": [kind] * n, "start_ps": starts, "end_ps": ends}))


def phases_of(*rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["name", "start_ps", "end_ps"])


def gantt(trace, title="", subtitle="", window=None, phases=None, **options):
    """The timeline of a trace, or of any window of it, with any phases."""
    inside = timeline_of(replace(trace, source=subtitle), window)
    phases = phases_of() if phases is None else phases
    selection = Selection(inside, phases, window[0] if window else 0, "time since the start")
    return draw(selection, "gantt", title=title, **options)


TWO = trace_of(
    [
        ("gpu:10", "Stream #13(Compute)", "compute", 10 * MS, 40 * MS),
        ("gpu:2", "Stream #13(Compute)", "compute", 30 * MS, 60 * MS),
        ("gpu:2", "Stream #7(MemcpyH2D)", "memcpy", 0, 10 * MS),
        ("gpu:2", "Stream #7(MemcpyH2D)", "memset", 99 * MS, 99 * MS),
    ]
)


def words(figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def legend(figure) -> list[str]:
    kinds = {"compute", "collective", "memcpy", "memset"}
    return [word for word in words(figure) if word in kinds or re.fullmatch(r".* devices? busy|[\d-]+ busy", word)]


def tracks(figure) -> list[str]:
    return [patch.get_label() for patch in figure.axes[0].patches if " | " in patch.get_label()]


def strip(figure, label) -> np.ndarray:
    """The pixels (height, width, 3) of the lane with this label."""
    (track,) = [patch for patch in figure.axes[0].patches if patch.get_label() == label]
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[:, :, :3].astype(float)
    x0, y0, x1, y1 = np.round(track.get_window_extent().extents).astype(int)
    return pixels[len(pixels) - y1 : len(pixels) - y0, x0:x1]


def ink(pixels, colour) -> float:
    """How much of the strip is covered with `colour`, if it holds nothing else."""
    full = 255 * np.array(matplotlib.colors.to_rgb(colour))
    return float(((TRACK - pixels) @ (TRACK - full) / ((TRACK - full) @ (TRACK - full))).mean())


@pytest.mark.parametrize(
    "options",
    [{}, {"phase": "both"}, {"devices": ["gpu:1"]}, {"start": 20, "end": 70}, {"start": 20, "devices": ["gpu:1"]}],
)
def test_the_picture_shows_as_much_of_a_part_as_the_other_faces(options):
    timeline = timeline_of(trace(ROWS, PHASES))
    report = analyse(timeline, **options)
    selection = select(timeline, report, choose(timeline, **options))
    assert gantt_figure.caption(selection).removesuffix(", end to end") == report.timeline_title()


def test_lanes_stand_in_natural_order_with_their_device_and_its_busy_share():
    figure = gantt(TWO, title="Finding", subtitle="where")
    assert tracks(figure) == [
        "gpu:2 | Stream #7(MemcpyH2D)",
        "gpu:2 | Stream #13(Compute)",
        "gpu:10 | Stream #13(Compute)",
        "overlap | devices at once",
    ]
    assert words(figure) == [
        *(
            "Finding",
            "where · Timeline: 99.00 ms, from first start to last end",
            "compute",
            "memcpy",
            "1 device busy",
            "both devices busy",
        ),
        *("Stream #7(MemcpyH2D)", "Stream #13(Compute)", "Stream #13(Compute)", "devices at once"),
        *("device", "lane", "gpu:2", "40.4 % busy", "gpu:10", "30.3 % busy", "overlap", "10.1 % both"),
    ]


def test_the_legend_names_what_occurs_and_zero_length_events_do_not():
    assert legend(gantt(TWO, title="")) == ["compute", "memcpy", "1 device busy", "both devices busy"]


def test_one_device_has_no_lane_for_overlap():
    assert tracks(gantt(one_lane([0], [5]), title="")) == ["device | lane"]


def test_a_copy_of_an_unknown_device_has_a_lane_but_does_not_overlap():
    rows = [("gpu:0", "a", "compute", 0, 10), ("gpu:?", "b", "memcpy", 0, 10), ("gpu:1", "c", "compute", 5, 10)]
    figure = gantt(trace_of(rows), title="")
    assert tracks(figure) == ["gpu:0 | a", "gpu:1 | c", "gpu:? | b", "overlap | devices at once"]
    assert "50.0 % both" in words(figure)
    why = "Copies on gpu:? count in no overlap: the trace does not say which device they ran on."
    assert why in words(figure)
    # Where it did nothing it is not there.
    later = gantt(trace_of([*rows, ("gpu:0", "a", "compute", 20, 30)]), title="", window=(15, 30))
    assert tracks(later) == ["gpu:0 | a", "gpu:1 | c", "overlap | devices at once"]
    assert why not in words(later)


THREADS = trace_of(
    [
        ("cpu:0", "worker/1", "compute", 0, 60),
        ("cpu:0", "worker/2", "collective", 30, 80),
        ("gpu:0", "s", "compute", 0, 100),
    ]
)


def test_a_cpu_device_is_one_lane_whose_threads_share_its_height():
    figure = draw(select(THREADS), "gantt")
    assert tracks(figure) == ["cpu:0 | ", "gpu:0 | s", "overlap | devices at once"]
    assert "80.0 % busy" in words(figure)
    pixels = strip(figure, "cpu:0 | ")
    height, width = pixels.shape[:2]
    colours = [pixels[int(height * y), int(width * x)].tolist() for x, y in ((0.2, 0.2), (0.5, 0.2), (0.5, 0.8))]
    compute, collective = ([round(255 * part) for part in matplotlib.colors.to_rgb(LIGHT[kind])] for kind in KINDS)
    assert colours == [compute, collective, compute]


def test_threads_of_a_cpu_device_are_lanes_where_asked_for():
    assert tracks(draw(replace(select(THREADS), threads=True), "gantt"))[:2] == ["cpu:0 | worker/1", "cpu:0 | worker/2"]


def test_many_cpu_devices_are_not_said_to_be_merged():
    rows = [(f"cpu:{i}", f"worker/{j}", "compute", 10 * j, 10 * j + 10) for i in range(60) for j in range(2)]
    assert len(tracks(gantt(trace_of(rows)))) == 61
    assert not any("merged" in word for word in words(gantt(trace_of(rows))))


def test_the_overlap_lane_bins_many_devices():
    rows = [(f"gpu:{i}", "s", "compute", 10 * i, 100) for i in range(8)]
    figure = gantt(trace_of(rows), title="")
    assert legend(figure) == ["compute", "1 device busy", "2-4 busy", "5-7 busy", "all 8 devices busy"]
    assert "90.0 % 2 or more" in words(figure)


def test_the_axis_starts_at_the_window_in_a_fitting_unit():
    axes = gantt(TWO, title="", window=(20 * MS, 50 * MS)).axes[0]
    assert axes.get_xlabel() == "time since the start (ms)"
    assert axes.get_xlim() == (0, 30 * MS)
    axes.figure.canvas.draw()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["20", "25", "30", "35", "40", "45", "50"]


def test_a_window_cuts_rows_and_phases_and_keeps_idle_lanes():
    phases = phases_of(
        ("before", 0, 20 * MS), ("cut", 0, 35 * MS), ("in", 40 * MS, 45 * MS), ("empty", 30 * MS, 30 * MS)
    )
    figure = gantt(TWO, title="", window=(20 * MS, 50 * MS), phases=phases)
    assert "66.7 % busy" in words(figure)
    assert strip(figure, "gpu:2 | Stream #7(MemcpyH2D)").min() > 150
    bands = [
        (b.get_label(), b.get_x(), b.get_width()) for b in figure.axes[0].patches if b.get_label() in ("cut", "in")
    ]
    assert bands == [("cut", 0, 15 * MS), ("in", 20 * MS, 5 * MS)]
    assert sorted(text.get_text() for text in figure.axes[0].texts) == ["cut", "in"]


def test_phase_names_stand_over_their_bands_or_on_flags_that_do_not_collide():
    phases = phases_of(
        ("warm-up", 0, 1 * MS),
        ("compile", 1 * MS, 2 * MS),
        ("train", 2 * MS, 90 * MS),
        ("a short last one", 90 * MS, 99 * MS),
    )
    figure = gantt(TWO, title="", phases=phases)
    figure.canvas.draw()
    boxes = {text.get_text(): text.get_window_extent() for text in figure.axes[0].texts}
    assert list(boxes) == ["train", "a short last one", "compile", "warm-up"]
    extents = list(boxes.values())
    assert not any(a.overlaps(b) for i, a in enumerate(extents) for b in extents[:i])
    area = figure.axes[0].get_window_extent()
    assert all(area.x0 <= box.x0 and box.x1 <= area.x1 and box.y1 <= area.y1 for box in extents)
    middle = (boxes["train"].x0 + boxes["train"].x1) / 2
    assert middle == pytest.approx(area.x0 + area.width * 46 / 99, abs=2)


def test_a_narrow_phase_that_repeats_is_named_once():
    phases = phases_of(*[("step", i * MS, (i + 1) * MS) for i in range(99)])
    assert [text.get_text() for text in gantt(TWO, title="", phases=phases).axes[0].texts] == ["step"]


def test_phase_names_without_room_are_counted():
    phases = phases_of(*[(f"a name {i}", i * 10**7, (i + 1) * 10**7) for i in range(9)])
    assert words(gantt(TWO, title="", phases=phases))[-1] == "8 phase labels omitted."


@pytest.mark.parametrize("phases", [None, phases_of()])
def test_phases_may_be_absent(phases):
    assert gantt(TWO, title="", phases=phases).axes[0].texts[:] == []


@pytest.mark.parametrize("rows", [[], [("gpu:0", "s", "compute", 5, 5)]], ids=["no rows", "zero length"])
def test_a_trace_without_time_gives_a_figure_that_says_so_once(rows):
    without_time = trace_of(rows)
    assert " ".join(words(draw(select(without_time), "gantt"))).strip() == no_device_work(without_time)


def test_more_than_48_lanes_are_merged_to_one_per_device_and_the_height_is_bounded():
    rows = [
        (f"gpu:{i}", f"Stream #{j}", kind, 0, 10 + i)
        for i in range(60)
        for j, kind in enumerate(("compute", "memcpy", "collective"))
    ]
    figure = gantt(trace_of(rows), title="")
    assert tracks(figure)[:2] == ["gpu:0 | ", "gpu:1 | "]
    assert len(tracks(figure)) == 61
    assert "180 lanes are merged into one per device." in words(figure)
    assert figure.get_size_inches()[1] < 14


@pytest.mark.parametrize(
    ("n", "busy"), [(n, busy) for n in (10, 300, 1000, 3000, 100_000) for busy in (0.066, 0.6)] + [(400_000, 0.066)]
)
def test_the_ink_of_a_lane_is_its_busy_share_at_any_number_of_intervals(n, busy):
    rng = np.random.default_rng(n)
    window = 10**12
    starts = np.sort(rng.integers(0, window, n))
    lengths = rng.integers(1, int(2 * busy * window / n), n)
    trace = one_lane(starts, np.minimum(starts + lengths, window))
    figure = gantt(trace, title="", window=(0, window))
    rows = iv.intervals(trace.events["start_ps"], trace.events["end_ps"])
    pixels = strip(figure, "device | lane")
    assert ink(pixels, LIGHT[Kind.COMPUTE]) == pytest.approx(iv.total(rows) / window, abs=0.002)


def test_the_ink_of_a_burst_in_a_long_window_is_its_busy_share():
    starts = np.arange(600) * 20 * MS // 600 + 500 * MS
    figure = gantt(one_lane(starts, starts + MS // 300), title="", window=(0, 2000 * MS))
    assert ink(strip(figure, "device | lane"), LIGHT[Kind.COMPUTE]) == pytest.approx(0.001, abs=0.0002)


def test_the_ink_of_the_overlap_lane_is_the_time_with_two_devices_busy():
    rows = [("gpu:0", "s", "compute", 2 * i, 2 * i + 1) for i in range(20_000)] + [("gpu:1", "s", "compute", 0, 20_000)]
    figure = gantt(trace_of(rows), title="", window=(0, 40_000))
    pixels = strip(figure, "overlap | devices at once")
    height = len(pixels)
    dark = (pixels[:, :, 1] < 100).mean(axis=1)
    assert dark[height // 2 + 1 :] == pytest.approx(0.5, abs=0.002)
    assert not dark[: height // 2 - 1].any()


def test_a_million_intervals_render_in_seconds_to_a_small_svg(tmp_path):
    starts = np.arange(1_000_000) * 1000
    trace = one_lane(starts, starts + np.random.default_rng(0).integers(1, 900, 1_000_000))
    start_s = time.process_time()
    gantt(trace, title="").save(tmp_path / "a.svg")
    assert time.process_time() - start_s < 5
    assert (tmp_path / "a.svg").stat().st_size < 500_000


HOSTILE = [
    "$\\frac{a$",
    "a_b^c \\",
    "x\ny",
    "\u4e2d\u6587 \U0001f680",
    "</svg><&>\"'--",
    "\x00\x1b[31m",
    "w" * 300,
    "",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_drawn_as_they_are(name, tmp_path):
    rows = [(f"{name}{i}", f"{name}{j}", "compute", 10 * i, 100) for i in range(2) for j in range(2)]
    figure = gantt(trace_of(rows), title=name, subtitle=name, phases=phases_of((name, 0, 100), (name, 0, 1)))
    figure.save(tmp_path / "a.svg")
    if "$" in name:
        assert "$\\frac{a$0" in words(figure)


def test_a_long_title_wraps():
    texts = words(gantt(TWO, title="a long finding " * 12))
    assert " ".join(texts[:2]) == ("a long finding " * 12).strip()


def test_hosts_on_unaligned_clocks_each_start_at_their_own_first_event_and_share_no_lane():
    rows = [("a/gpu:0", "s", "compute", 5 * MS, 10 * MS), ("b/gpu:0", "s", "compute", 900 * MS, 910 * MS)]
    two_hosts = trace_of(rows)
    hosts = ["a", "b"]
    two_hosts = Trace(two_hosts.events.assign(**{c: pd.Categorical(hosts) for c in ("host", "clock")}))
    figure = draw(select(replace(two_hosts, spans=spans(("p", 0, MS)))), "gantt")
    assert tracks(figure) == ["a/gpu:0 | s", "b/gpu:0 | s"]
    assert figure.axes[0].get_xlim() == (0, 10 * MS)
    assert "Host clocks are not aligned: the lanes of each clock start at its own first event." in words(figure)


def test_lanes_of_one_name_look_alike_where_one_of_them_is_crowded():
    rows = [("gpu:0", "s", "compute", 100 * i, 100 * i + 50) for i in range(5000)]
    rows += [("gpu:1", "s", "compute", 100 * i, 100 * i + 50) for i in range(0, 5000, 100)]
    rows += [("gpu:1", "t", "compute", 100 * i, 100 * i + 50) for i in range(0, 5000, 100)]
    drawing = gantt(trace_of(rows))
    sparse, alone = (strip(drawing, f"gpu:1 | {lane}")[2:-2] for lane in "st")
    # Where single rows are drawn, a column has one colour from its foot to its head.
    assert (sparse.std(axis=0) > 1).any()
    assert not (alone.std(axis=0) > 1).any()


@pytest.mark.parametrize("n", [40, 4000])
def test_kinds_that_meet_inside_a_pixel_mix_without_the_ground_between_them(n):
    # Copies fill the lane but for a sliver of compute after each but the last, which takes a tenth of the time.
    edges = np.linspace(0, 10**9, n + 1).astype(np.int64)
    slivers = edges[:-1] + np.diff(edges) * 9 // 10
    rows = [("gpu:0", "s", "memcpy", int(a), int(b)) for a, b in zip(edges[:-1], slivers, strict=True)]
    kinds = ["compute"] * (n - 1) + ["memcpy"]
    rows += [("gpu:0", "s", kind, int(a), int(b)) for kind, a, b in zip(kinds, slivers, edges[1:], strict=True)]
    pixels = strip(gantt(trace_of(rows)), "gpu:0 | s")
    compute, copy = (255 * np.array(matplotlib.colors.to_rgb(LIGHT[kind])) for kind in ("compute", "memcpy"))
    assert pixels.mean(axis=(0, 1)) == pytest.approx(copy + 0.1 * (n - 1) / n * (compute - copy), abs=1)
    # Red is where the track would show: neither kind has any.
    assert pixels[1:-1, :, 0].max() < 12


def test_a_crowded_column_of_one_kind_shows_no_other():
    # Copies half of the time in the left half, compute half of it in the right one.
    starts = np.arange(10_000) * 100
    kinds = np.where(starts < 500_000, "memcpy", "compute")
    rows = [("gpu:0", "s", str(kind), int(a), int(a) + 47) for kind, a in zip(kinds, starts, strict=True)]
    pixels = strip(gantt(trace_of(rows)), "gpu:0 | s")
    right = pixels[:, pixels.shape[1] // 2 + 4 :]
    full = 255 * np.array(matplotlib.colors.to_rgb(LIGHT["compute"]))
    # Every pixel is some mix of the track and compute alone.
    share = (TRACK - right) @ (TRACK - full) / ((TRACK - full) @ (TRACK - full))
    assert np.abs(right - (TRACK + share[:, :, None] * (full - TRACK))).max() < 2


@settings(max_examples=50)
@given(interval_sets, interval_sets, interval_sets)
def test_layers_hold_each_point_under_exactly_its_keys(a, b, c):
    sets = {"a": a, "b": b, "c": c}
    keys_at = {p: layer.keys for layer in lanes.layers(sets) for p in points(layer.intervals)}
    expected = {
        p: tuple(key for key in sets if p in points(sets[key])) for p in set().union(*map(points, sets.values()))
    }
    assert keys_at == expected


@settings(max_examples=50)
@given(interval_sets, interval_sets, interval_sets)
def test_levels_hold_the_points_with_that_many_sets(a, b, c):
    bins = [(1, 1), (2, 3)]
    levels = [points(layer.intervals) for layer in gantt_figure.levels([a, b, c], bins)]
    count = {p: sum(p in points(s) for s in (a, b, c)) for p in range(60)}
    assert levels == [{p for p in count if low <= count[p] <= high} for low, high in bins]


@settings(max_examples=50)
@given(interval_sets, interval_sets, st.integers(1, 60))
def test_the_filled_area_is_the_busy_time_in_crowded_lanes_and_in_others(a, b, columns):
    lane = lanes.layers({"a": a, "b": b})
    edges = iv.even_edges(WINDOW, columns)
    area = {
        key: float(((rows[:, 1] - rows[:, 0]) * (rows[:, 3] - rows[:, 2])).sum())
        for key, rows in lanes.boxes(lane, ("a", "b"), edges, lanes.is_crowded(lane, edges)).items()
    }
    both = iv.total(iv.intersection(a, b))
    assert area == pytest.approx({"a": iv.total(a) - both / 2, "b": iv.total(b) - both / 2})


def test_a_lane_with_more_intervals_than_pixels_is_stacked_in_one_box_per_height():
    rows = iv.intervals(np.arange(0, 600, 10), np.arange(3, 603, 10))
    lane, edges = [lanes.Layer(rows, ("a",))], iv.even_edges((0, 600), 6)
    assert lanes.is_crowded(lane, edges)
    assert lanes.boxes(lane, ("a",), edges, crowded=True)["a"].tolist() == [[0.0, 600.0, 0.0, 0.3]]


def test_a_lane_with_few_intervals_shows_each_at_full_height():
    rows = iv.intervals([100, 300], [101, 450])
    lane, edges = [lanes.Layer(rows, ("a",))], iv.even_edges((50, 650), 6)
    assert not lanes.is_crowded(lane, edges)
    boxes = lanes.boxes(lane, ("a",), edges, crowded=False)
    assert boxes["a"].tolist() == [[50.0, 51.0, 0.0, 1.0], [250.0, 400.0, 0.0, 1.0]]
