"""What the command does, from Python: the same report, the same files, and mistakes in one sentence."""

import json

import pandas as pd
import pytest

from tests.frames import events, spans, trace
from tracekit.errors import TracekitError
from tracekit.report.analyse import analyse, save
from tracekit.report.summary import summary

MS = 10**9
MARKS = spans(("one", 0, 10 * MS), ("two", 10 * MS, 20 * MS), ("both", 20 * MS, 30 * MS))
TRACE = trace(
    events(
        ("gpu:0", "compute", 0, 10 * MS),
        ("gpu:1", "compute", 10 * MS, 20 * MS),
        ("gpu:0", "compute", 20 * MS, 30 * MS),
        ("gpu:1", "compute", 20 * MS, 30 * MS),
    ),
    MARKS.assign(tracekit=pd.Categorical([None] * 3)),
)


def test_annotations_become_phases_and_are_compared():
    report = analyse(TRACE, phases=["one", "two", "both"], alone=["one", "two"])
    assert report.headline == "both: devices overlapped 100 %, speedup 2.00x"
    assert analyse(TRACE).headline != report.headline


def test_saved_files_hold_the_report(tmp_path):
    report = analyse(TRACE)
    assert save(report, tmp_path / "out") == tmp_path / "out"
    assert json.loads((tmp_path / "out" / "summary.json").read_text("utf-8")) == json.loads(json.dumps(summary(report)))


def test_a_report_is_saved_under_the_name_of_its_trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert save(analyse(TRACE)).as_posix() == "reports/test"
    assert (tmp_path / "reports" / "test" / "gantt.png").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"phases": ["one", "tow"]}, r"traces/test has no phase 'tow'\. .* trace\.spans has the names"),
        ({"phases": ["both"], "alone": ["one"]}, "has no phase 'one'"),
        ({"phases": ["both"], "baseline": "one"}, "has no phase 'one'"),
        ({"alone": ["one"]}, "alone and baseline say what the last of the phases is compared with"),
        ({"baseline": "one"}, "alone and baseline say what the last of the phases is compared with"),
    ],
)
def test_a_name_that_the_trace_does_not_hold_is_refused(given, said):
    with pytest.raises(TracekitError, match=said):
        analyse(TRACE, **given)


def test_nothing_is_written_into_the_trace(tmp_path):
    with pytest.raises(TracekitError, match="inside the trace"):
        save(analyse(TRACE), "traces/test/out")
