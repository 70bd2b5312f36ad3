"""Overlap, partition, device pairs and concurrency against a brute-force oracle that looks at every picosecond."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.any_rows import KINDS, some_rows
from tests.frames import events
from tracekit.analysis.overlap import concurrency, device_pairs, overlap, partition
from tracekit.timeline.unions import CELLS


def points_of(rows, device, want) -> set[int]:
    """The points at which `device` runs work for which `want(kind, direction, kind of the frame)` holds."""
    return {
        p
        for d, kind, start, end, _, way in rows
        if d == device and want(KINDS[kind], way, kind)
        for p in range(start, end)
    }


def edges(rows):
    return min(row[2] for row in rows), max(row[3] for row in rows)


@settings(max_examples=40)
@given(
    some_rows(), st.one_of(st.none(), st.tuples(st.integers(-3, 20), st.integers(0, 25)).map(lambda w: (w[0], sum(w))))
)
def test_every_figure_counts_points(rows, window):
    frame = events(*rows)
    inside = set(range(*(window or edges(rows))))
    devices = sorted({row[0] for row in rows}, key=lambda name: int(name[4:]))

    cells = partition(frame, window)
    assert cells["device"].tolist() == devices
    for device, row in zip(devices, cells.to_dict("records"), strict=True):
        sets = {
            kind: points_of(rows, device, lambda k, _, __, kind=kind: k == kind) & inside
            for kind in ("compute", "collective", "memory")
        }
        for cell in CELLS:
            expected = {
                p for p in inside if {kind for kind in sets if p in sets[kind]} == set(cell.split("+")) - {"idle"}
            }
            assert row[cell] == len(expected)
        busy = set().union(*sets.values())
        assert (row["window_ps"], row["busy_ps"]) == (len(inside), len(busy))
        # A row that lasts no time is at the edge of the window too, where that is the window of all rows.
        moments = {
            start
            for on, _, start, end, *_ in rows
            if on == device and start == end and (start in inside or window is None)
        }
        extent = {p for point in busy for p in (point, point + 1)} | moments
        assert row["span_ps"] == (max(extent) - min(extent) if extent else 0)

    for row in overlap(frame, window).to_dict("records"):
        what = points_of(rows, row["device"], lambda *its, want=row["what"]: want in its) & inside
        behind = points_of(rows, row["device"], lambda k, _, __: k == "compute") & inside
        assert (row["hidden_ps"], row["total_ps"]) == (len(what & behind), len(what))
        assert (row["ratio"] == len(what & behind) / len(what)) if what else row["reason"].startswith("no ")

    busy = {device: points_of(rows, device, lambda *_: True) & inside for device in devices}
    pairs = device_pairs(frame, window)
    assert len(pairs) == len(devices) * (len(devices) - 1) // 2
    for row in pairs.to_dict("records"):
        both, a, b = busy[row["a"]] & busy[row["b"]], busy[row["a"]], busy[row["b"]]
        assert row["overlap_ps"] == len(both)
        if a and b:
            assert (row["ratio_min"], row["ratio_union"]) == (len(both) / min(len(a), len(b)), len(both) / len(a | b))
        else:
            assert "idle throughout" in row["reason"]

    counts = concurrency(frame, window)["time_ps"].tolist()
    assert counts == [
        sum(sum(p in points for points in busy.values()) == k for p in inside) for k in range(len(devices) + 1)
    ]
