"""The timeline's scripts against the frames and Python's own measures: rows, coverage, ratios, ink."""

import itertools

import numpy as np
import pandas as pd
import pytest

from tests.frames import events, trace
from tests.report.html.timeline_page import write_page
from tracekit import intervals as iv
from tracekit.analysis.overlap import device_pairs, overlap, partition
from tracekit.columns import concat, frame
from tracekit.devices import natural
from tracekit.report.build import analyse
from tracekit.report.figures.lanes import layers
from tracekit.report.model import time_zero
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS

KINDS = ["compute", "collective", "memcpy", "memset"]
WAYS = ["H2D", "D2H", "P2P"]


def random_frame(seed: int, rows: int = 300, unit: int = 1, longest: int = 2**34) -> pd.DataFrame:
    """Rows of three devices and cpu:?, of several lanes and kinds, with gaps from none to more than 2**32 ps."""
    rng = np.random.default_rng(seed)
    device = rng.choice(["cpu:2", "cpu:10", "cpu:0", "cpu:?"], rows, p=[0.4, 0.3, 0.25, 0.05])
    lane = rng.choice(["s/1", "s/10", "s/2"], rows)
    kind = np.where(device == "cpu:?", "memcpy", rng.choice(KINDS, rows))
    start = (2.0 ** rng.uniform(0, np.log2(longest), rows)).astype(np.int64) * unit
    long = (2.0 ** rng.uniform(0, np.log2(longest / 4), rows)).astype(np.int64) * rng.integers(0, 2, rows) * unit
    has_bytes = rng.random(rows) < 0.5
    return frame(
        EVENT_COLUMNS,
        {
            "host": ["h"] * rows,
            "device": device,
            "lane": lane,
            "kind": kind,
            "name": rng.choice(["a", "b<script>", "grüße", "💥" * 40], rows),
            "start_ps": start,
            "end_ps": start + long,
            "direction": [rng.choice(WAYS) if row_kind == "memcpy" else None for row_kind in kind],
            "bytes": pd.array(np.where(has_bytes, rng.integers(0, 2**50, rows), 0), "Int64").copy(),
            "wait_ps": pd.array(np.where(has_bytes, long // 2 // unit * unit, 0), "Int64"),
            "correlation_id": pd.array(rng.permutation(rows), "Int64"),
        },
    ).assign(
        bytes=lambda table: table["bytes"].mask(~has_bytes), wait_ps=lambda table: table["wait_ps"].mask(has_bytes)
    )


def calls_of(rows: pd.DataFrame) -> pd.DataFrame:
    """A host call for two of three rows, on one of two threads."""
    rows_with_call = rows[rows["correlation_id"] % 3 != 0]
    start = rows_with_call["start_ps"] - 5000
    calls = {
        "thread": [f"t{correlation_id % 2}" for correlation_id in rows_with_call["correlation_id"]],
        "name": ["launch"] * len(rows_with_call),
    }
    times = {"start_ps": start, "end_ps": start + 1000, "correlation_id": rows_with_call["correlation_id"]}
    return frame(
        LAUNCH_COLUMNS, {"host": ["h"] * len(rows_with_call), **calls, **{k: v.to_numpy() for k, v in times.items()}}
    )


def open_timeline(open_page, path, any_trace):
    page = open_page(write_page(path, any_trace))
    page.wait_for_selector("#timeline[data-ready]")
    return page


ROWS = """() => {
  const { data, index } = tracekit.app;
  const ps = (units) => String(BigInt(units) * data.unit);
  const told = (value) => (Number.isNaN(value) ? null : String(value));
  return Array.from({ length: data.device_rows }, (_, row) => {
    const lane = tracekit.lanes.laneOf(index.lanes, row);
    const origin = BigInt(data.clocks[lane.group.clock].origin_ps);
    const at = (edge) => String(BigInt(edge) * data.unit + origin);
    const call = data.launch[row];
    return [lane.group.name, lane.name, at(data.start[row]), at(data.end[row]), data.names[data.name[row]],
      ...data.classes[data.kind[row]], told(data.bytes[row]), Number.isNaN(data.wait[row]) ? null : ps(data.wait[row]),
      call < 0 ? null : [tracekit.lanes.laneOf(index.lanes, call).name, at(data.start[call]), at(data.end[call])]];
  });
}"""


@pytest.mark.parametrize(("seed", "unit", "longest"), [(1, 1, 2**34), (2, 1000, 2**42), (3, 1, 2**51)])
def test_the_columns_read_back_are_the_frame(open_page, tmp_path, seed, unit, longest):
    rows = random_frame(seed, unit=unit, longest=longest)
    calls = calls_of(rows)
    result = open_timeline(open_page, tmp_path / "p.html", trace(rows, launches=calls)).evaluate(ROWS)
    call = {correlation_id: [t, str(a), str(b)] for correlation_id, t, a, b in calls[
        ["correlation_id", "thread", "start_ps", "end_ps"]].itertuples(index=False)}  # fmt: skip
    expected = [
        [
            *(row.device, row.lane, str(row.start_ps), str(row.end_ps), row.name, row.kind),
            None if pd.isna(row.direction) else row.direction,
            *(None if pd.isna(number) else str(number) for number in (row.bytes, row.wait_ps)),
            call.get(row.correlation_id),
        ]
        for row in rows.rename_axis("row").reset_index(drop=True).itertuples(index=False)
    ]
    expected.sort(
        key=lambda row: (row[0] == "cpu:?", natural(row[0]), natural(row[1]), int(row[2]), int(row[3])),
    )
    assert result == expected


MEASURED = """([from, to]) => {
  const { data, index } = tracekit.app;
  const found = tracekit.measure.range(data, index, from, to);
  const ps = (units) => (units === null ? null : String(BigInt(units) * data.unit));
  const all = (times) => Object.fromEntries(Object.entries(times).map(([part, time]) => [part, ps(time)]));
  return {
    devices: [...found.devices, ...found.unplaced].map((one) =>
      [one.group.name, ps(one.busy), ps(one.idle), all(one.time), all(one.hidden)]),
    pairs: found.pairs.map(({ a, b, both }) => [a.group.name, b.group.name, ps(both)]),
  };
}"""


@pytest.mark.parametrize("seed", [4, 5])
def test_a_measured_range_agrees_with_overlap_partition_and_pairs(open_page, tmp_path, seed):
    rows = random_frame(seed, 400, longest=2**14)
    random_trace = trace(rows)
    page = open_timeline(open_page, tmp_path / "p.html", random_trace)
    zero = time_zero(analyse(random_trace)).start_ps[""]
    rng = np.random.default_rng(seed)
    for window in [(0, 2**15), *np.sort(rng.integers(0, 2**14, (12, 2)), axis=1).tolist()]:
        if window[0] == window[1]:
            continue
        result = page.evaluate(MEASURED, [window[0] - zero, window[1] - zero])
        devices = {name: rest for name, *rest in result["devices"]}
        for row in partition(rows, tuple(window)).itertuples():
            assert devices[row.device][:2] == [str(row.busy_ps), str(row.idle)]
            assert devices[row.device][2]["compute"] == str(
                sum(getattr(row, f"_{at}") if "+" in cell else getattr(row, cell) for at, cell in _compute_cells(row))
            )
        hidden_and_total = {
            (name, kind): (hidden[kind], time[kind])
            for name, (_, _, time, hidden) in devices.items()
            for kind in time
            if kind != "compute"
        }
        expected = {(part.device, part.what): (str(part.hidden_ps), str(part.total_ps)) for part in
                    overlap(rows, tuple(window)).query("what != 'memcpy'").itertuples()}  # fmt: skip
        assert {key: hidden_and_total[key] for key in expected} == expected
        assert all(time == "0" for key, (_, time) in hidden_and_total.items() if key not in expected)
        pairs = [[pair.a, pair.b, str(pair.overlap_ps)] for pair in device_pairs(rows, tuple(window)).itertuples()]
        assert result["pairs"] == pairs


def _compute_cells(row) -> list[tuple[int, str]]:
    """The cells of a partition's row in which compute ran, with their place in the tuple."""
    names = list(partition(events()).columns)
    return [(names.index(name) + 1, name) for name in names if "compute" in name]


COVERED = """([lane, kinds, from, step, columns]) => {
  const { data, index } = tracekit.app;
  const { KINDS, covered, shares } = tracekit.coverage;
  const whole = shares(data.classes, index.lanes[lane].cells, from, step, columns);
  const sets = kinds.map((kind) => {
    const sum = new Float64Array(columns);
    const own = index.lanes[lane].sets.filter((set, bit) => set.length && data.classes[bit][0] === kind);
    covered(tracekit.intervals.uniteAll(own), from, step, columns, sum);
    return Array.from(sum);
  });
  return { sets, shares: kinds.map((kind) => Array.from(whole.kinds[KINDS.indexOf(kind)] ?? [])) };
}"""


def test_each_pixel_column_has_the_coverage_that_python_counts(open_page, tmp_path):
    rows = random_frame(6, 500, longest=2**14)
    rows = rows[(rows["device"] == "cpu:2") & (rows["lane"] == "s/2")].reset_index(drop=True)
    page = open_timeline(open_page, tmp_path / "p.html", trace(rows))
    zero = int(rows["start_ps"].min())
    columns = 700
    unions = {
        kind: iv.union(iv.intervals(*rows.loc[rows["kind"] == kind, ["start_ps", "end_ps"]].to_numpy().T))
        for kind in KINDS
    }
    for step, first in [(1, -7), (37, 3), (4096, -5000)]:
        edges = zero + first + step * np.arange(columns + 1)
        cells = iv.intervals(edges[:-1], edges[1:])
        result = page.evaluate(COVERED, [0, KINDS, first, step, columns])
        assert result["sets"] == [iv.within(unions[kind], cells).tolist() for kind in KINDS]
        for kind, shares in zip(KINDS, result["shares"], strict=True):
            own = [layer for layer in layers(unions) if kind in layer.keys]
            expected = sum(iv.within(layer.intervals, cells) / len(layer.keys) / step for layer in own)
            assert shares == pytest.approx(np.asarray(expected), abs=1e-12)


def test_columns_of_very_many_intervals_end_at_the_nearest_point_of_a_grid_with_their_own_true_share(
    open_page, tmp_path
):
    cell, points = 16, 32768
    rng = np.random.default_rng(8)
    start = np.sort(rng.choice(cell * points - 8, 10_000, replace=False))
    spans = iv.union(iv.intervals(start, start + rng.integers(1, 8, len(start))), iv.intervals([0], [1]))
    spans[-1, 1] = cell * points
    assert len(spans) > 8192
    page = open_timeline(
        open_page, tmp_path / "p.html", trace(events(*[("gpu:0", "compute", a, b) for a, b in spans.tolist()]))
    )
    for first, step, columns in [(0, 512, 1024), (-1000, 700.5, 800), (77, 128, 3000)]:
        shares = page.evaluate(COVERED, [0, ["compute"], first, step, columns])["shares"][0]
        edges = cell * np.floor((first + step * np.arange(columns + 1)) / cell + 0.5).astype(np.int64)
        assert shares == pytest.approx(
            iv.within(spans, iv.intervals(edges[:-1], edges[1:])) / np.diff(edges), abs=1e-12
        )


INK = """([from, to, width, lines]) => {
  const { data, index } = tracekit.app;
  const { paint, shares } = tracekit.coverage;
  const white = 0xffffffff;
  const black = Array(5).fill(0xff000000);
  const colours = { full: black, second: black, dim: black, hint: white, match: white };
  const pixels = new Uint32Array(width * (lines + 2)).fill(white);
  const parts = shares(data.classes, index.groups[0].cells, from, (to - from) / width, width);
  const how = { width, foot: lines, lines, hint: lines, scale: 1, clip: { first: 0, last: lines + 2 } };
  paint(pixels, how, parts, null, colours);
  return pixels.reduce((sum, pixel) => sum + (255 - (pixel & 255)) / 255, 0) / (width * lines);
}"""


def test_the_ink_of_a_lane_is_its_busy_share_and_a_nanosecond_in_a_second_has_next_to_none(open_page, tmp_path):
    second = 10**12
    ticks = [("gpu:0", "compute", at, at + second // 100) for at in range(0, second, second // 20)]
    copies = [
        ("gpu:0", "memcpy", at, at + second // 50, "c", "H2D") for at in range(second // 40, second, second // 10)
    ]
    page = open_timeline(
        open_page, tmp_path / "p.html", trace(events(*ticks, *copies, ("gpu:0", "compute", second, second + 1)))
    )
    assert page.evaluate(INK, [0, second, 1000, 14]) == pytest.approx(0.4, abs=1e-3)
    assert page.evaluate(INK, [0, second, 333, 17]) == pytest.approx(0.4, abs=1e-3)
    rows = [("gpu:0", "compute", at, at + 1000) for at in (0, second // 2, second - 1000)]
    page = open_timeline(open_page, tmp_path / "q.html", trace(events(*rows)))
    assert page.evaluate(INK, [0, second // 1000, 1000, 14]) == pytest.approx(3e-9, abs=3e-9)


def test_devices_on_clocks_that_are_not_aligned_are_not_compared(open_page, tmp_path):
    rows = concat(
        EVENT_COLUMNS,
        [
            events(("a/gpu:0", "compute", 1000, 2000), host="a", clock="a"),
            events(("b/gpu:0", "compute", 10**15, 10**15 + 500), host="b", clock="b"),
        ],
    )
    page = open_timeline(open_page, tmp_path / "p.html", trace(rows))
    assert page.evaluate(MEASURED, [0, 1000])["pairs"] == [["a/gpu:0", "b/gpu:0", None]]
    assert "clocks are not aligned" in page.inner_text("#timeline")
    details = page.evaluate("tracekit.details.describe(tracekit.app, 0)")
    assert details["beside"] == []


def test_cells_are_disjoint_and_tell_exactly_which_sets_hold_each_point(open_page, tmp_path):
    page = open_timeline(open_page, tmp_path / "p.html", trace(events(("gpu:0", "compute", 0, 1))))
    rng = np.random.default_rng(7)
    for _ in range(10):
        sets = [iv.union(np.sort(rng.integers(0, 60, (8, 2)), axis=1)) for _ in range(4)]
        cells = page.evaluate(
            """(sets) => tracekit.intervals.cells(sets.map((rows) => tracekit.intervals.mergedSet(
              Float64Array.from(rows, (row) => row[0]), Float64Array.from(rows, (row) => row[1]))))
              .map(({ mask, set }) => [mask, Array.from(set.start, (start, i) => [start, set.end[i]])])""",
            [rows.tolist() for rows in sets],
        )
        points = {p: mask for mask, rows in cells for start, end in rows for p in range(int(start), int(end))}
        expected = {p: sum(2**k for k, rows in enumerate(sets) if ((rows[:, 0] <= p) & (p < rows[:, 1])).any())
                    for p in range(60)}  # fmt: skip
        assert points == {p: mask for p, mask in expected.items() if mask}
        assert all(a[1] <= b[0] for _, rows in cells for a, b in itertools.pairwise(rows))
