"""tracekit reads from each format the rows that the simulator knows, as the clocks of their ranks show them."""

import pytest

from tests.simulator.clocks import MS, US, WHOLE, WORLDS, Clock, Recorder, recorder
from tests.simulator.job import Sort
from tests.simulator.random_jobs import random_job
from tests.simulator.test_simulate import three_kernels
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS
from tracekit.readers import read


def rows(events):
    """Kind, start, end, and the last number of the device of each row, from the first on, in ns."""
    first = events["start_ps"].min()
    kinds, ranks = events["kind"].astype(str), events["device"].astype(str).str.extract(r"(\d+)$")[0].astype(int)
    times = ((events[name] - first) // 1000 for name in ("start_ps", "end_ps"))
    return sorted(zip(ranks, *times, kinds, strict=True))


@pytest.mark.parametrize("trace_format", FORMATS)
def test_a_written_job_has_the_rows_that_the_simulator_knows(tmp_path, trace_format):
    truth = Truth(three_kernels())
    events = read(FORMATS[trace_format](truth, tmp_path / "trace", WHOLE)).events
    starts = (events["start_ps"] - events["start_ps"].min()) // 1000
    ends = (events["end_ps"] - events["start_ps"].min()) // 1000
    assert list(zip(events["name"], starts, ends, strict=True)) == [("a", 0, 30), ("b", 31, 35), ("c", 36, 56)]


@pytest.mark.parametrize("trace_format", FORMATS)
def test_all_formats_have_the_same_rows_of_a_job(tmp_path, trace_format):
    truth = Truth(random_job(3))
    kinds = {Sort.KERNEL: "compute", Sort.MEMCPY: "memcpy", Sort.MEMSET: "memset"}
    known = [
        (row.rank, *truth.recording.times(row), "collective" if row.collective >= 0 else kinds[row.sort])
        for row in truth.job.rows
        if row.sort in kinds
    ]
    first = min(start for _, start, _, _ in known)
    expected = sorted((rank, start - first, end - first, kind) for rank, start, end, kind in known)
    assert rows(read(FORMATS[trace_format](truth, tmp_path / "trace", WHOLE)).events) == expected


@pytest.mark.parametrize("trace_format", FORMATS)
def test_a_late_device_s_rows_are_late_against_their_launches(tmp_path, trace_format):
    late = Recorder({0: Clock(device_ns=5 * MS)})
    trace = read(FORMATS[trace_format](Truth(three_kernels()), tmp_path / "trace", late))
    delay_ps = trace.events["start_ps"].min() - trace.launches["start_ps"].min()
    assert delay_ps - trace.devices["shift_ps"][0] == (5 * MS + 5) * 1000  # as far as the reader has put it right


@pytest.mark.parametrize("trace_format", FORMATS)
def test_a_missing_rank_is_not_in_the_trace(tmp_path, trace_format):
    trace = read(FORMATS[trace_format](Truth(random_job(3)), tmp_path / "trace", Recorder(missing=frozenset({0}))))
    assert {rank for rank, *_ in rows(trace.events)} == {1}


@pytest.mark.parametrize("trace_format", FORMATS)
def test_ranks_on_hosts_of_their_own_have_files_of_their_own(tmp_path, trace_format):
    trace = read(FORMATS[trace_format](Truth(random_job(3)), tmp_path / "trace", recorder("hosts", 3, 2)))
    assert {rank for rank, *_ in rows(trace.events)} == {0, 1}
    assert trace.events["host"].nunique() == 2


def test_a_clock_is_off_by_its_offset_and_what_it_has_drifted():
    truth = Truth(three_kernels())
    (step,) = [row for row in truth.job.rows if row.sort == Sort.STEP]
    assert Clock(offset_ns=7, drift_ppm=100_000).times(truth.recording, step) == (7, 85 + 8 + 7)


def test_worlds_are_drawn_from_the_seed():
    assert recorder("exact", 1, 4) == WHOLE
    for world in WORLDS[1:]:
        assert recorder(world, 1, 4) == recorder(world, 1, 4) != recorder(world, 2, 4)
    assert len(recorder("missing", 1, 4).missing) == 1
    assert max(abs(clock.device_ns) for clock in recorder("devices", 1, 4).clocks.values()) > 10 * US
