"""Real traces of an H100, against counts that know nothing of tracekit's readers, and against CUDA events."""

import gzip
import json
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from jax.profiler import ProfileData

import tracekit
from tracekit import intervals as iv
from tracekit.timeline.timeline import timeline_of

DATA = Path(__file__).parents[1] / "data"
STEPS, COPIES = DATA / "h100-steps-jax0.11.2.xplane.pb.gz", DATA / "h100-copies-jax0.11.2.xplane.pb.gz"
TORCH = DATA / "h100-copies-torch2.11.pt.trace.json.gz"
NSYS = DATA / "h100-copies-nsys2023.4.sqlite.gz"
# ProfileData has times in floating-point ns.
NS = 1_000


def merged(spans: list[tuple[float, float]]) -> float:
    """The length of a union, by going through its sorted intervals."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        total += max(stop, end) - max(start, end) if stop > end else 0.0
        end = max(end, stop)
    return total


def gpu_rows(path: Path) -> list[tuple[str, float, float]]:
    """Name, start and end in ns of each row of the GPU, by JAX's own reader."""
    data = ProfileData.from_serialized_xspace(gzip.decompress(path.read_bytes()))
    plane = next(plane for plane in data.planes if plane.name == "/device:GPU:0")
    return [
        (event.name, event.start_ns, event.start_ns + event.duration_ns)
        for line in plane.lines
        if line.name.startswith("Stream")
        for event in line.events
        if ("hlo_module", "jit_tracekit_end") not in list(event.stats)
    ]


def phase_end(path: Path) -> float:
    """The end of the last phase in ns; what follows is of the end of a capture, where nothing waits to run."""
    planes = ProfileData.from_serialized_xspace(gzip.decompress(path.read_bytes())).planes
    ends = [event.end_ns for plane in planes for line in plane.lines for event in line.events if event.name == "both"]
    return max(ends, default=float("inf"))


@pytest.mark.parametrize("path", [STEPS, COPIES], ids=["steps", "copies"])
def test_busy_time_is_that_of_jaxs_own_reader(path):
    rows = [row for row in gpu_rows(path) if row[1] < phase_end(path)]
    trace = tracekit.read(path)
    assert len(trace.events) == len(rows)
    busy = iv.total(timeline_of(trace).unions.devices["gpu:0"].busy)
    assert busy == pytest.approx(merged([(start, end) for _, start, end in rows]) * 1000, abs=len(rows) * NS)


def test_each_step_is_one_graph_of_the_same_kernels():
    report = tracekit.analyse(STEPS)
    (summary,) = report.explanation.steps.summary.to_dict("records")
    assert (summary["name"], summary["steps"]) == ("train", 5)
    assert report.explanation.steps.table["rows"].tolist() == [22] * 5
    assert report.explanation.completeness.is_complete
    names = [name for name, *_ in gpu_rows(STEPS)]
    assert len(names) == 110
    assert all(names.count(name) % 5 == 0 for name in names)


def test_the_phases_of_a_capture_with_autotuning_are_what_its_report_is_about():
    report = tracekit.analyse(COPIES)
    assert report.headline.startswith("both: ")
    events = tracekit.read(COPIES).events
    copies = events[events["kind"] == "memcpy"]
    ways = {name: set(copies.loc[copies["name"] == name, "direction"].dropna()) for name in copies["name"].unique()}
    assert ways["MemcpyOther"] == set()  # from host to host, by the autotuner
    assert (ways["MemcpyH2D"], ways["MemcpyD2H"]) == ({"H2D"}, {"D2H"})


def test_copies_of_pytorch_are_those_of_its_own_rows_and_near_what_cuda_events_said():
    events = json.loads(gzip.decompress(TORCH.read_bytes()))["traceEvents"]
    rows = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    kernels, memory = (
        [(row["ts"], row["ts"] + row["dur"]) for row in rows if (row["cat"] == "kernel") == is_kernel]
        for is_kernel in (True, False)
    )
    busy, compute, copies = merged(kernels + memory), merged(kernels), merged(memory)
    unions = timeline_of(tracekit.read(TORCH)).unions.devices["gpu:0"]
    assert iv.total(unions.busy) == pytest.approx(busy * 1e6, abs=len(rows) * NS)
    hidden = iv.total(iv.intersection(unions.compute, unions.memory))
    assert hidden == pytest.approx((compute + copies - busy) * 1e6, abs=len(rows) * NS)
    wall_ms = (max(row["ts"] + row["dur"] for row in rows) - min(row["ts"] for row in rows)) / 1e3
    assert wall_ms == pytest.approx(27.12, rel=0.01)
    assert compute / 1e3 == pytest.approx(6.64, rel=0.07)


def test_an_export_of_nsight_systems_is_its_own_rows_and_the_profilers_age_is_told(tmp_path):
    path = tmp_path / "export.sqlite"
    path.write_bytes(gzip.decompress(NSYS.read_bytes()))
    trace = tracekit.read(path)
    tables = {"compute": "KERNEL", "memcpy": "MEMCPY", "memset": "MEMSET"}
    with closing(sqlite3.connect(path)) as export:
        for kind, table in tables.items():
            rows = export.execute(f"SELECT start, end FROM CUPTI_ACTIVITY_KIND_{table} ORDER BY start, end").fetchall()
            mine = trace.events[trace.events["kind"] == kind].sort_values(["start_ps", "end_ps"])
            lengths = (mine["end_ps"] - mine["start_ps"]).tolist()
            assert lengths == [(end - start) * NS for start, end in rows]
            assert (mine["start_ps"].diff().dropna().tolist()) == [
                (late[0] - early[0]) * NS for early, late in pairwise(rows)
            ]
    phases = trace.spans.loc[trace.spans["tracekit"] == "phase", "name"].tolist()
    assert phases == ["compute", "to device", "to host", "both"]
    assert any(note.startswith("Nsight Systems 2023.4 is older than the driver's CUDA 13.0") for note in trace.notes)
