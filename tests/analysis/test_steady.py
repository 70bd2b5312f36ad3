"""The steady steps of a trace, told apart from compiling and warm-up, and what a report then says."""

from dataclasses import replace

import pandas as pd
import pytest

import tracekit
from tests.frames import events, trace
from tests.stepped import annotations, join, work
from tracekit.analysis.steady import compiled_outside, steady
from tracekit.report.figures.selection import select
from tracekit.report.html.page import page
from tracekit.report.markdown import markdown
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import Trace

MS = 10**9


def run(*steps: tuple[int, int], outside: int = 0, device: str = "gpu:0", more: tuple = ()) -> Trace:
    """Steps 0, 1, … of so many ms each, in which a compiler ran for so many ms, each followed by 10 ms of work that
    the host waits for; before them `outside` ms of compiling, between an event and the first step."""
    marks, rows, at = [], [(device, "compute", 0, MS, 0)], MS
    if outside:
        marks.append(("backend_compile", None, at, at + outside * MS))
        at += outside * MS
    for number, (idle, compiling) in enumerate(steps):
        if compiling:
            marks.append(("backend_compile", None, at, at + compiling * MS))
        begin, end = at + idle * MS, at + (idle + 10) * MS
        rows.append((device, "compute", begin, end, begin - 1))
        marks.append(("train", number, at, end))
        at = end
    made, launches = work(*rows, *more)
    return trace(made, annotations(*marks), launches=launches)


# Step 0 compiles for 80 ms of its 100, and the others are busy for 10 of 20 ms.
THREE = run((90, 80), (10, 0), (10, 0))


def test_a_script_of_three_steps_is_judged_by_those_that_did_not_compile():
    report = tracekit.analyse(THREE)
    assert report.headline == (
        "Steady steps 1 and 2 (step 0 compiled for 80.00 ms): gpu:0 was busy 50.0 % of 40.00 ms "
        "(the trace holds one device); 50.0 % idle, mostly host-bound."
    )
    assert report.verdict == (
        f"{report.headline} In the whole trace, gpu:0 was busy 22.0 % of 141.0 ms; 78.0 % idle, of which 56.7 points "
        "while compiling."
    )
    (busy, *_) = report.key_figures
    assert (busy.text, busy.of) == ("50.0 %", "of the steady steps (40.00 ms)")


def test_the_whole_trace_stays_beside_it():
    report = tracekit.analyse(THREE)
    assert report.whole.partition["window_ps"].tolist() == [141 * MS]
    assert report.steady.partition[["window_ps", "busy_ps"]].to_numpy().tolist() == [[40 * MS, 20 * MS]]
    assert report.explanation.steps.table["left_out"].tolist()[0] == "compiles"
    assert report.explanation.idle.by_cause["idle_ps"].sum() == 20 * MS
    assert report.summary()["steady"]["words"] == "steps 1 and 2"


def test_every_face_says_which_steps_are_judged():
    report = tracekit.analyse(THREE)
    words = "only the steady steps count: steps 1 and 2 (40.00 ms in all), but for compiling, memory and the machine."
    assert words in report.scope
    for face in (markdown(report), page(report), report._repr_html_()):
        text = face.replace("\u00a0", " ")  # between a number and its unit
        assert words in text
        assert "Steady steps 1 and 2 (step 0 compiled for 80.00 ms): " in text
        assert "56.7 points while compiling" in text


def test_a_loaded_report_is_the_saved_one(tmp_path):
    report = tracekit.analyse(THREE)
    assert tracekit.load(report.save(tmp_path)) == report


def test_compiling_that_is_done_before_the_steady_steps_is_the_last_finding():
    findings = tracekit.analyse(run((90, 80), (20, 0), (20, 0))).advice.findings
    assert [finding.rule for finding in findings] == ["host_bound", "compiling"]
    assert findings[-1].evidence["again"] == []


def test_a_step_that_compiles_again_is_the_first_finding_and_named():
    report = tracekit.analyse(run((90, 80), (10, 0), (10, 0), (190, 170), (10, 0)))
    assert report.headline.startswith("Steady steps 1, 2 and 4 (steps 0 and 3 compiled for 250.0 ms): ")
    (finding, *_) = next(section for section in report.sections if section.key == "findings").findings
    assert finding.sentence.endswith(", again in step 3.")
    assert "keep shapes" in finding.action


def test_compiling_before_the_first_step_is_told_apart_too():
    report = tracekit.analyse(run((10, 0), (10, 0), (10, 0), outside=100))
    assert report.headline.startswith(
        "Steady steps 0 to 2 (compiling outside of steps took 100.0 ms): gpu:0 was busy 50.0 % of 60.00 ms "
        "(the trace holds one device); "
    )


@pytest.mark.parametrize(
    "made",
    [
        run((10, 0), (10, 0), (10, 0)),
        run((90, 0), (10, 0), (10, 0)),
        run((10, 1), *[(10, 0)] * 30),
        run((90, 80), (90, 80), (90, 80)),
        run((10, 0), (90, 80), (90, 80)),
    ],
    ids=["nothing compiles", "longer without evidence", "too little to change a share", "all compile", "most compile"],
)
def test_the_whole_trace_is_judged_where_nothing_is_to_be_told_apart(made):
    timeline = timeline_of(made)
    assert steady(timeline) is None
    report = tracekit.analyse(timeline)
    assert (report.steady, report.scope, report.summary()["steady"]) == (None, "", None)
    assert "Steady" not in report.verdict


def test_a_part_that_was_asked_for_is_judged_as_it_is():
    report = tracekit.analyse(THREE, step=0)
    assert report.steady is None
    assert report.headline.startswith("Only step 0 (train), ")
    assert tracekit.analyse(THREE, devices=["gpu:0"]).steady is not None


def test_phases_are_judged_as_they_are_marked():
    assert tracekit.analyse(THREE, phases=["train"]).steady is None


def test_phases_without_comparison_are_what_a_report_is_about_where_compiling_around_them_hides_them():
    made = run((10, 0), (10, 0), (10, 0), outside=100)
    report = tracekit.analyse(made, phases=["train"])
    assert (report.compared, report.steady) == (("train",), None)
    assert report.headline == "train: gpu:0 was busy 50.0 % of the time (the trace holds one device)."
    assert report.scope == "only what ran in the phases counts: train (60.00 ms in all)."
    assert "Only what ran in the phases counts here: train." in page(report).replace("\u00a0", " ")
    assert report.summary()["compared"] == ["train"]
    # A figure, which makes no report, says the same.
    is_phase = made.spans["name"].eq("train").map({True: "phase", False: None}).astype("category")
    phased = replace(made, spans=made.spans.assign(tracekit=is_phase))
    assert tracekit.analyse(phased).headline == report.headline
    assert select(phased).finding == report.headline.removesuffix(".")
    # Little is compiled, or it is the phases that compile.
    for whole in (run((10, 0), (10, 0), (10, 0)), run((90, 80), (90, 80), (90, 80))):
        assert tracekit.analyse(whole, phases=["train"]).compared == ()


def test_a_longer_first_step_without_evidence_is_only_told():
    (sentence, *_) = next(
        section for section in tracekit.analyse(run((90, 0), (10, 0), (12, 0))).sections if section.key == "steps"
    ).sentences
    assert sentence.endswith(
        "The first step took 100.0 ms, 4.55x as long as the longest of the others; no compiler ran in it, so it counts."
    )
    for others in ([(10, 0), (50, 0)], [(80, 0), (85, 0)]):  # they differ as much, or it is hardly longer
        (sentence, *_) = next(
            section for section in tracekit.analyse(run((90, 0), *others)).sections if section.key == "steps"
        ).sentences
        assert "no compiler" not in sentence


def test_without_steps_the_idle_time_while_compiling_is_told_in_points():
    """Of 100 ms the device is idle for 80, in 60 of which the thread that launches for it compiled."""
    rows, launches = work(("gpu:0", "compute", 0, 10 * MS, 0), ("gpu:0", "compute", 90 * MS, 100 * MS, 89 * MS + 10**8))
    marks = annotations(("backend_compile", None, 20 * MS, 80 * MS))
    (first, *_) = tracekit.analyse(trace(rows, marks, launches=launches)).verdict.split(". ")
    assert first.endswith("80.0 % idle, of which 60.0 points while compiling.")


def test_the_call_of_a_program_tells_whether_its_first_execution_compiled():
    rows = events(*(("gpu:0", "compute", at * 10 * MS, at * 10 * MS + 9 * MS) for at in (3, 4, 5)))
    rows = rows.assign(hlo_module=pd.Categorical(["jit_f"] * 3), run_id=pd.array(range(3), "Int64"))
    for name, reasons in (("PjitFunction(f)", ["compiles"]), ("PjitFunction(g)", [])):
        marks = annotations((name, None, 0, 35 * MS), ("backend_compile", None, MS, 25 * MS))
        report = tracekit.analyse(trace(rows, marks))
        assert report.explanation.steps.table["left_out"].dropna().tolist() == reasons


def test_compiling_outside_of_steps_counts_once_whoever_compiles():
    made = run((10, 0), (10, 0), outside=30)
    beside = annotations(("backend_compile", None, 11 * MS, 41 * MS), thread="other")
    both = trace(made.events, join([made.spans, beside]), launches=made.launches)
    assert compiled_outside(timeline_of(both)) == {"": 30 * MS}
