"""What `tracekit.analyse` takes, and mistakes in one sentence."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import tracekit
from tests.frames import events, spans, trace
from tracekit.errors import TracekitError
from tracekit.report.html.page import page

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
CAPTURED = Path(__file__).parents[1] / "data" / "two-cpu-devices-jax0.10.2.xplane.pb"


def test_annotations_become_phases_and_are_compared():
    report = tracekit.analyse(TRACE, phases=["one", "two", "both"], alone=["one", "two"])
    marks = spans(("one", 0, 10 * MS), ("two", 10 * MS, 20 * MS), ("both", 20 * MS, 30 * MS, "one;two"))
    assert report.verdicts == tracekit.analyse(replace(TRACE, spans=marks)).verdicts
    assert report.headline.startswith("both: ")
    assert tracekit.analyse(TRACE).headline != report.headline


def test_a_phase_may_be_called_as_people_call_the_whole():
    report = tracekit.analyse(replace(TRACE, spans=spans(("whole trace", 0, 15 * MS))))
    assert (report.verdict, list(report.verdicts)) == (None, ["whole trace"])
    assert (report.whole.name, report.inside["whole trace"].name) == (None, "whole trace")
    items = [part for part in page(report).split("<dt>") if part.startswith("<bdi>whole trace</bdi></dt><dd>")]
    assert len(items) == 1
    assert report.verdicts["whole trace"] in items[0].replace("\u00a0", " ")


def test_whatever_a_user_has_in_hand_gives_the_same_report():
    report = tracekit.analyse(CAPTURED)
    trace_of_it = tracekit.read(CAPTURED)
    assert report == tracekit.analyse(str(CAPTURED)) == tracekit.analyse(trace_of_it)
    assert tracekit.analyse(trace_of_it.events).whole.partition.equals(report.whole.partition)


def test_a_report_is_written_under_the_name_of_its_trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tracekit.report(TRACE)
    assert (tmp_path / "reports" / "test" / "gantt.png").exists()
    tracekit.report(TRACE.events)
    assert (tmp_path / "reports" / "trace" / "gantt.png").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"phases": ["one", "tow"]}, "traces/test holds no annotation 'tow'"),
        ({"phases": ["both"], "alone": ["one"]}, "'one' is no phase of traces/test"),
        ({"phases": ["both"], "baseline": "one"}, "'one' is no phase of traces/test"),
        ({"alone": ["one"]}, "say what the last of the phases is compared with"),
        ({"baseline": "one"}, "say what the last of the phases is compared with"),
    ],
)
def test_a_name_that_the_trace_does_not_hold_is_refused(arguments, sentence):
    with pytest.raises(TracekitError, match=sentence):
        tracekit.analyse(TRACE, **arguments)


def test_nothing_is_written_into_the_trace(tmp_path):
    with pytest.raises(TracekitError, match="inside the trace"):
        tracekit.report(TRACE, "traces/test/out")
