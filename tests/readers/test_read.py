"""Finding the trace: every layout that holds one is taken, and what is not there is said in one sentence."""

import json
import os

import pytest

from tests.readers.xspaces import write
from tracekit.errors import TraceError
from tracekit.readers import read

TEXT = """planes { name: "/device:GPU:0" lines { id: 7 name: "Stream #7(Compute)" timestamp_ns: 5
  events { metadata_id: 1 offset_ps: 1 duration_ps: %d } } event_metadata { key: 1 value { id: 1 name: "k" } } }"""


@pytest.fixture
def logdir(tmp_path):
    for at, run in enumerate(("2026_01_02", "2026_01_01")):
        directory = tmp_path / "log" / "sub" / "plugins" / "profile" / run
        directory.mkdir(parents=True)
        file = write(directory / "host.xplane.pb", TEXT % (at + 1))
        os.utime(file, (1000 + at, 1000 + at))
    return tmp_path / "log"


def length(path, **more) -> int:
    events = read(path, **more).events
    return int((events["end_ps"] - events["start_ps"]).iloc[0])


@pytest.mark.parametrize(
    "below",
    [
        "sub/plugins/profile/2026_01_01",
        "sub/plugins/profile/2026_01_01/host.xplane.pb",
        "sub/plugins/profile",
        "sub/plugins",
        "sub",
        "",
    ],
)
def test_any_level_of_the_layout_is_taken_and_the_newest_run_is_read(logdir, below):
    assert length(logdir / below) == 2


def test_several_runs_are_told_and_one_can_be_named(logdir):
    trace = read(logdir)
    assert trace.runs == ("2026_01_01", "2026_01_02")
    assert "2 runs; 2026_01_01 was read" in trace.notes[0]
    assert length(logdir, run="2026_01_02") == 1
    with pytest.raises(TraceError, match="no run 'x'; its runs are: 2026_01_01, 2026_01_02"):
        read(logdir, run="x")


def test_what_capture_wrote_beside_the_trace_comes_along(logdir):
    (logdir / "sub" / "plugins" / "profile" / "2026_01_01" / "capture.json").write_text(json.dumps({"usable_cores": 3}))
    assert read(logdir).capture == {"usable_cores": 3}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path, "does not exist"),
        (lambda path: path.mkdir(), "holds no trace"),
        (lambda path: path.write_text("x"), "is no XSpace file"),
    ],
)
def test_what_is_no_trace_is_one_sentence_that_says_what_to_give(tmp_path, make, said):
    make(tmp_path / "given")
    with pytest.raises(TraceError, match=rf"{said}.*Give the directory"):
        read(tmp_path / "given")


def test_several_hosts_in_one_run_are_not_mixed(logdir):
    run = logdir / "sub" / "plugins" / "profile" / "2026_01_01"
    write(run / "other.xplane.pb", TEXT % 9)
    with pytest.raises(TraceError, match=r"2 hosts \(host.xplane.pb, other.xplane.pb\)"):
        read(logdir)
    assert length(run / "other.xplane.pb") == 9
