"""Where a device's clock cannot be compared with its host's, nothing is told of both."""

import pytest

import tracekit
from tests.collective_frames import row, table
from tests.simulator.clocks import WHOLE
from tests.simulator.job import Sort
from tests.simulator.random_jobs import job_with
from tests.simulator.test_compare import TWO_RANKS
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS
from tracekit.analysis.critical_path.critical_path import critical_path
from tracekit.analysis.idle import idle
from tracekit.analysis.launches import launches
from tracekit.analysis.steps import steps
from tracekit.columns import frame
from tracekit.readers.device_clocks import fit
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import LAUNCH_COLUMNS, Trace

US = 10**6


class Jumping:
    """A recorder of clocks of devices that jump to and fro by 3 ms every 5 ms, with the ranks of which they are."""

    def __init__(self, *ranks):
        self.ranks, self.missing, self.apart = ranks, frozenset(), False

    def times(self, recording, row):
        start, end = WHOLE.times(recording, row)
        jumps = row.rank in self.ranks and row.sort in (Sort.KERNEL, Sort.MEMCPY, Sort.MEMSET)
        late = 3_000_000 * (start // 1_500_000 % 2) if jumps else 0
        return start + late, end + late


@pytest.fixture(scope="module", params=["kineto", "nsys"])
def read_with(request, tmp_path_factory):
    """What makes the Timeline of two ranks, some of whose clocks jump."""

    def read(*ranks):
        path = tmp_path_factory.mktemp("trace") / "trace"
        return timeline_of(tracekit.read(FORMATS[request.param](Truth(job_with(TWO_RANKS)), path, Jumping(*ranks))))

    return read


def reasons(timeline):
    return idle(timeline).lacking, launches(timeline).lacking, critical_path(timeline, steps(timeline).table).lacking


def test_clocks_that_fit_lack_nothing(read_with):
    assert reasons(read_with()) == ("", "", "")


def test_no_delay_cause_or_path_is_told_of_clocks_that_jump(read_with):
    timeline = read_with(0, 1)
    assert len(timeline.clock_errors) == 2
    for reason in reasons(timeline):
        assert "no offset or drift of its clock explains it, so" in reason


def test_a_device_whose_clock_fits_keeps_its_causes_and_delays(read_with):
    timeline = read_with(0)
    (wrong,) = timeline.clock_errors
    told = launches(timeline)
    assert told.lacking == ""
    assert told.by_device["device"].tolist() == [name for name in timeline.rows.devices if name != wrong]
    causes = idle(timeline).by_device
    assert "host-bound" not in causes[causes["device"] == wrong]["cause"].tolist()
    assert critical_path(timeline, steps(timeline).table).lacking.startswith(wrong)


@pytest.mark.parametrize("by", [0, -1000])
def test_a_tpu_whose_clock_does_not_fit_has_a_path_without_its_host(by):
    rows = [row("tpu:0", (100 * at + 20 + by) * US, (100 * at + 80 + by) * US, None, kind="compute", correlation_id=at)
            for at in range(9)]  # fmt: skip
    starts = [100 * at * US for at in range(9)]
    calls = frame(LAUNCH_COLUMNS, {
        "host": ["h"] * 9, "thread": ["t"] * 9, "name": ["tpu::System::Execute"] * 9, "start_ps": starts,
        "end_ps": [start + 5 * US for start in starts], "correlation_id": range(9),
    })  # fmt: skip
    events = table(*rows)
    zero = min(0, int(events["start_ps"].min()))
    moved = [each.assign(start_ps=each["start_ps"] - zero, end_ps=each["end_ps"] - zero) for each in (events, calls)]
    timeline = timeline_of(fit(Trace(moved[0], launches=moved[1])))
    parts = set(critical_path(timeline, steps(timeline).table).total["part"])
    causes = set(idle(timeline).by_cause["cause"])
    if by:
        assert list(timeline.clock_errors) == ["tpu:0"]
        assert launches(timeline).lacking.startswith("tpu:0: 9 of 9 rows start before their launch, by up to 980 µs")
        assert parts == {"compute", "unexplained"}
        assert causes <= {"unexplained", "before first work", "after last work"}
    else:
        assert timeline.clock_errors == {}
        assert "host, nothing recorded" in parts
        assert "host-bound" in causes
