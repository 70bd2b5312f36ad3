"""A report of a part of a trace: which part it is, and that its figures are those of the rows cut by hand."""

import random

import pandas as pd
import pytest

from tests.frames import events, spans, trace
from tests.report.two_gpus import PHASES, ROWS
from tracekit.analysis.overlap import breakdown
from tracekit.columns import concat, frame
from tracekit.errors import TracekitError
from tracekit.report.build import analyse
from tracekit.report.markdown import markdown
from tracekit.report.part import choose
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import EVENT_COLUMNS, SPAN_COLUMNS


def random_rows(seed):
    draw = random.Random(seed)
    starts = [draw.randrange(100) for _ in range(30)]
    kinds = "compute", "collective", "memcpy"
    return [(f"gpu:{draw.randrange(3)}", draw.choice(kinds), at, at + draw.randrange(1, 30)) for at in starts]


@pytest.mark.parametrize("seed", range(10))
def test_a_range_has_the_figures_of_the_rows_cut_by_hand(seed):
    rows = random_rows(seed)
    origin = min(start for _, _, start, _ in rows)
    low, high = origin + 20, origin + 70
    cut = [(device, kind, max(a, low), min(b, high)) for device, kind, a, b in rows if a < high and b > low]
    narrowed = breakdown(timeline_of(trace(events(*rows))).narrowed((low, high)))
    by_hand = breakdown(timeline_of(trace(events(*cut)), (low, high)))
    assert analyse(trace(events(*rows)), start=20, end=70).whole.partition.equals(narrowed.partition)
    for name in ("partition", "overlap", "pairs", "concurrency"):
        assert getattr(narrowed, name).equals(getattr(by_hand, name))


def test_some_devices_keep_their_figures_and_the_window_of_all():
    whole, one = (analyse(trace(ROWS), devices=devices) for devices in ((), ("gpu:1",)))
    rows = whole.whole.partition
    assert one.whole.partition.equals(rows[rows["device"] == "gpu:1"].reset_index(drop=True))
    assert one.part == "on gpu:1"


def test_a_step_says_from_when_to_when_in_as_many_digits_as_its_length_calls_for():
    first, at, length = 5, 88_565_084_796_500, 784_124_626_250
    whole = trace(
        events(("gpu:0", "compute", first, first + 1), ("gpu:0", "compute", at, at + length)),
        spans(("train", at, at + length)).assign(step=pd.array([3], "Int64")),
    )
    assert analyse(whole, step=3).part == "step 3 (train), from 88.5651 s to 89.3492 s"


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ({"start": 20, "end": "50ps"}, "the range from 20 ps to 50 ps"),
        ({"start": 20, "devices": ["gpu:0"]}, "the range from 20 ps to 100 ps"),
        ({"devices": ["gpu:0"]}, "the trace"),
        ({"phase": "both"}, "both"),
    ],
)
def test_a_part_has_a_name_that_stands_after_in(part, name):
    timeline = timeline_of(trace(ROWS, PHASES))
    assert set(choose(timeline, **part).of(timeline).windows["name"]) == {name}


def test_steps_in_which_no_known_device_worked_have_a_report():
    marks = frame(SPAN_COLUMNS, {
        "host": ["h"] * 3, "thread": ["python"] * 3, "name": ["train"] * 3, "step": [0, 1, 2],
        "start_ps": [10, 40, 80], "end_ps": [40, 80, 120],
    })  # fmt: skip
    copies = events(*[("gpu:?", "memcpy", at, at + 5) for at in (15, 45, 85)])
    report = analyse(trace(concat(EVENT_COLUMNS, [ROWS, copies]), marks), devices=["gpu:?"])
    assert report.explanation.steps.lacking == "No known device worked in the steps."


def test_steps_of_other_devices_have_a_report_of_one_that_only_worked_for_no_time():
    rows = events(("gpu:0", "memset", 100, 100), ("gpu:1", "memcpy", 10, 12)).assign(group_id=pd.array([0, 0], "Int64"))
    for devices in (["gpu:0"], ["gpu:1"], []):
        assert analyse(trace(rows), devices=devices).part == (f"on {devices[0]}" if devices else "")


@pytest.mark.parametrize("clock", [None, "c"])
def test_a_step_of_work_that_took_no_time_has_a_report(clock):
    row = events(("cpu:0", "memcpy", 171, 171)).assign(
        group_id=pd.array([0], "Int64"), run_id=pd.array([1], "Int64"), clock=pd.Categorical([clock])
    )
    report = analyse(trace(row))
    assert report.whole.partition["window_ps"].tolist() == [0]
    assert markdown(report)


def test_every_face_says_first_which_part_it_is():
    report = analyse(trace(ROWS), start=20, end="50ps", devices=["gpu:0"])
    assert report.part == "from 20 ps to 50 ps, on gpu:0"
    assert report.headline.startswith(f"Only {report.part}: ")
    assert markdown(report).startswith(f"# Only {report.part}: ")
    assert report.summary()["part"] == report.part


def test_a_sentence_goes_on_behind_the_words_that_say_which_part_it_is():
    idle = analyse(trace(events(("gpu:0", "compute", 0, 10), ("gpu:0", "compute", 50, 60))), start=20, end=30)
    assert idle.headline == f"Only {idle.part}: no device was busy."
    assert idle.finding == "No device was busy."
    assert idle.verdict.startswith(idle.finding)
    named = analyse(trace(ROWS), end=20)
    assert named.headline == f"Only {named.part}: {named.finding}"


def test_the_verdict_of_a_part_does_not_say_again_what_the_headline_says():
    report = analyse(trace(ROWS), end=50)
    assert report.verdict.startswith(report.finding)
    assert report.finding not in markdown(report).partition("\n")[2]


def test_phases_that_are_not_whole_in_the_part_are_left_out_with_a_note():
    report = analyse(trace(ROWS, PHASES), phase="both")
    assert list(report.phases.table["name"]) == ["both"]
    assert report.notes[-1] == "Left out, as not all of their time is in this part of the trace: warm."
    assert report.inside["both"].partition.equals(report.whole.partition)


def test_nothing_is_said_of_the_waiting_of_a_collective_that_is_cut():
    rows = events(
        ("gpu:0", "collective", 10, 40, "all-reduce.1"),
        ("gpu:1", "collective", 20, 40, "all-reduce.1"),
        ("gpu:0", "compute", 40, 60),
    )
    assert analyse(trace(rows)).explanation.collectives.table["wait_ps"].tolist() == [10]
    cut = analyse(trace(rows), start=15, end=50).explanation.collectives
    assert cut.table["wait_ps"].isna().all()
    assert cut.table["exposed_ps"].tolist() == [15 + 15]


def test_the_bytes_of_a_copy_that_is_cut_are_not_known():
    rows = events(("gpu:0", "memcpy", 0, 40, "copy", "H2D"), ("gpu:0", "compute", 40, 60))
    rows["bytes"] = pd.array([80, 80], "Int64")
    cut = timeline_of(trace(rows)).narrowed((20, 60)).rows.events
    assert cut["bytes"].isna().tolist() == [True, False]


def test_an_unknown_device_is_told_with_those_there_are():
    with pytest.raises(TracekitError, match=r"has no work of a device 'gpu:7'\. Its devices are gpu:0 and gpu:1\.$"):
        choose(timeline_of(trace(ROWS)), devices=["gpu:7"])


def test_a_device_of_one_host_alone_needs_no_host():
    rows = [(name, "compute", 0, 10) for name in ("a/gpu:0", "a/gpu:1", "b/gpu:0")]
    timeline = timeline_of(trace(events(*rows)))
    assert choose(timeline, devices=["gpu:1", "b/gpu:0"]).devices == ("a/gpu:1", "b/gpu:0")
    with pytest.raises(TracekitError, match=r"'gpu:0' is a device of several hosts: a/gpu:0 and b/gpu:0\. Name one"):
        choose(timeline, devices=["gpu:0"])


def test_a_part_in_which_a_device_does_nothing_has_one_share_of_exposed_collectives():
    rows = [("gpu:0", "collective", 0, 100), ("gpu:1", "collective", 0, 100), ("gpu:2", "compute", 0, 10)]
    report = analyse(trace(events(*rows)), start=50, end=100)
    assert {figure.key: figure.value for figure in report.key_figures}["exposed"] == 2 / 3
    assert [finding.share for finding in report.advice.findings] == [2 / 3]
    # The time beside the share is summed over the devices that the share is of; and so are those of all sections.
    (finding,) = next(section for section in report.sections if section.key == "findings").findings
    assert "66.7 % of the devices' time (100 ps summed over 3 devices)" in finding.sentence
    shares = {section.key: section.share for section in report.sections}
    assert (shares["collectives"], shares["offenders"]) == (2 / 3, 2 / 3)
