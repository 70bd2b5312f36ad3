"""On which part of a trace the timeline of the page opens."""

import pytest

from tests import stepped
from tests.frames import events, spans, trace
from tests.report.html import pages
from tracekit.report.build import analyse
from tracekit.report.html.opening import Opening, opening


def test_it_is_the_median_round_of_the_longest_compared_phase():
    rows = events(*[("gpu:0", "compute", at, at + 5) for at in range(0, 1000, 50)])
    rounds = [("both", 100, 130, None, "alone"), ("both", 200, 220, None, "alone"), ("both", 300, 340, None, "alone")]
    report = analyse(trace(rows, spans(("alone", 0, 50), *rounds, ("end", 950, 1000))))
    assert opening(report) == Opening("the phase both, the median of 3 rounds", 100, 130, "")


def test_it_is_the_step_of_median_length_that_the_critical_path_is_of():
    report = pages.report("launched")
    part = opening(report)
    steps = report.explanation.critical_path.steps
    median = steps[steps["example"] == "median"].iloc[0]
    assert (part.start_ps, part.end_ps) == (median["start_ps"], median["end_ps"])
    which = "median" if len(steps) % 2 else "lower median"
    assert part.words == f"step {median['step']}, the {which} of {len(steps)} steps"
    lengths = sorted(steps["wall_ps"])
    assert median["wall_ps"] == lengths[(len(steps) - 1) // 2]


def test_of_an_even_number_the_shorter_of_both_in_the_middle_is_told_and_whose_it_is():
    rows = events(*[("gpu:0", "compute", at, at + 5) for at in range(0, 1000, 50)])
    rounds = [("both", 100, 130, None, "alone"), ("both", 200, 220, None, "alone"), ("both", 300, 340, None, "alone")]
    marks = spans(("alone", 0, 50), *rounds, ("both", 400, 435, None, "alone"), ("end", 950, 1000))
    assert opening(analyse(trace(rows, marks))) == Opening("the phase both, the lower median of 4 rounds", 100, 130, "")


def test_a_round_is_as_long_as_the_work_begun_in_it_which_is_its_wall():
    # The shortest span holds the longest work.
    works = [(100, 160), (200, 230), (300, 340)]
    rows = events(
        ("gpu:0", "compute", 0, 50), *[("gpu:0", "compute", *at) for at in works], ("gpu:0", "memcpy", 900, 999)
    )
    rounds = [("both", start, end, None, "alone") for start, end in ((100, 110), (200, 230), (300, 340))]
    report = analyse(trace(rows, spans(("alone", 0, 50), *rounds, ("end", 900, 999))))
    part = opening(report)
    wall = report.phases.table.set_index("name").loc["both", "wall_ps"]
    assert (part.start_ps, part.end_ps, wall) == (300, 340, 40)


def stepping(*lengths, pauses=()):
    """A report of steps of some lengths, one after the other, in which gpu:0 works but for 10 at the end of each, for
    pauses (step, length) after its begin, and for 1 in between."""
    rows, marks, start = [], [], 0
    for step, length in enumerate(lengths):
        pause = dict(pauses).get(step, 1)
        end = start + length
        rows += [("gpu:0", "compute", start + 2, start + 20, start), ("gpu:0", "compute", start + 20 + pause, end - 10)]
        rows[-1] += (start + 19 + pause,)
        marks.append(("train", step, start, end))
        start = end
    events, launches = stepped.work(*rows)
    return analyse(trace(events, stepped.annotations(*marks), launches=launches))


def test_it_is_the_step_that_holds_the_largest_loss_where_that_is_one_interval_longer_than_a_step():
    part = opening(stepping(100, 100, 400, 100, 100, 100, pauses=[(2, 300)]))
    which = "the largest loss, idle time (host-bound) on gpu:0, and step 2, which holds it"
    assert part.words == which
    assert (part.start_ps, part.end_ps) == (200, 600)


@pytest.mark.parametrize(
    ("lengths", "pauses"),
    [
        ((100, 100, 150, 100, 100, 100), [(2, 60)]),  # shorter than a step
        ((100, 300, 300, 300, 100, 100, 100, 100), [(1, 200), (2, 200), (3, 200)]),  # a third of the loss
        ((100, 100, 900, 100, 100, 100), [(2, 800)]),  # most of the whole
    ],
)
def test_it_is_the_step_of_median_length_where_the_loss_is_no_such_interval(lengths, pauses):
    report = stepping(*lengths, pauses=pauses)
    assert "median of" in opening(report).words
    assert report.explanation.offenders.table["kind"].iat[0] == "idle"


def test_it_is_the_largest_loss_and_what_is_around_it_in_a_trace_of_many_events():
    rows = [("gpu:0", "compute", at, at + 9) for at in range(0, 3000, 10) if not 1000 <= at < 1200]
    report = analyse(trace(events(*rows)))
    assert opening(report) == Opening(
        "the largest loss, idle time (unexplained) on gpu:0, and what is around it", 899, 1300, ""
    )
    few = analyse(trace(events(*rows[::10])))
    assert opening(few) is None


def test_it_is_the_whole_where_that_is_all_there_is():
    assert opening(pages.report("one")) is None
    assert opening(pages.report("empty")) is None
    rows, launches = stepped.work(("gpu:0", "compute", 0, 90, 0))
    assert opening(analyse(trace(rows, stepped.annotations(("train", 1, 0, 100)), launches=launches))) is None
