"""Rules held against reports: what holds, what is broken, what the trace cannot tell; on screen and for CI systems."""

import json
import re
from dataclasses import replace
from datetime import datetime
from xml.etree import ElementTree

import pytest

import tracekit
from tests import traces
from tests.docs.blocks import ROOT, page_blocks
from tests.frames import events, spans
from tests.frames import trace as make_trace
from tracekit import Outcome, Rule, TracekitError, Unit
from tracekit.analysis.completeness import LOSS_COLUMNS
from tracekit.cli import main
from tracekit.columns import frame
from tracekit.gate.check import CheckResult, RuleResult
from tracekit.gate.faces import annotations, lines, publish, step_summary
from tracekit.gate.junit import junit
from tracekit.units import safe

STEPPED = str(traces.path("stepped-cpu.xplane.pb.gz"))
# 80 of 100 ps busy on one GPU, 60 on the other, 50 at once.
ROWS = events(("gpu:0", "compute", 0, 80), ("gpu:1", "compute", 30, 90), ("gpu:1", "collective", 90, 100))
OTHER = make_trace(events(("gpu:0", "compute", 0, 81), ("gpu:1", "compute", 30, 90)))
OVERLAP, IDLE, COPIES = (
    Rule("overlap", 0.7, None, Unit.RATIO, "devices"),
    Rule("idle", None, 0.2, Unit.RATIO),
    Rule("exposed-copy", None, 10, Unit.TIME),
)


@pytest.fixture(scope="module")
def report():
    return tracekit.analyse(make_trace(ROWS, spans(("late", 80, 100))))


def test_each_rule_holds_or_not_with_the_value_that_was_measured(report):
    result = tracekit.check(report, [OVERLAP, IDLE, COPIES])
    assert [str(each.outcome) for each in result.results] == ["holds", "broken", "cannot be told"]
    assert [each.text for each in result.results] == [
        "overlap of devices at least 70.0 %: 71.4 % (gpu:0 and gpu:1, whole trace)",
        "idle at most 20.0 %: 30.0 % (gpu:1, whole trace)",
        "exposed copy at most 10 ps: No copies ran in the whole trace, or the trace does not record them.",
    ]
    assert result.headline == "Of 3 rules: 1 broken, 1 cannot be told, 1 holds."


def damaged(report, rows="1 of 79 events could not be read."):
    """The report of a trace of which a part of the work is lost."""
    losses = frame(LOSS_COLUMNS, [("h", "events", 1, 79, "without a time")])
    known = replace(report.explanation.completeness, losses=losses, rows=rows)
    return replace(report, explanation=replace(report.explanation, completeness=known))


def test_of_a_damaged_trace_no_rule_of_any_scope_is_told_and_every_face_says_why(report):
    """The kernel that is lost may have been the last of its phase, of its step or of all: each rule holds or is broken
    without it."""
    lost = damaged(report)
    scopes = [{}, {"phase": "late"}, {"phase": "whole"}, {"step": "median"}]
    rules = [Rule("wall", None, 10**12, Unit.TIME, **scope) for scope in scopes[:3]]
    rules += [Rule("idle", None, 1.0, Unit.RATIO, **scope) for scope in scopes]
    rules += [Rule("step-time", None, 10**12, Unit.TIME), Rule("speedup", 0.001, None, Unit.FACTOR, phase="late")]
    result = tracekit.check(lost, rules, baseline=OTHER, floor=0.02)
    assert {each.outcome for each in result.results} == {Outcome.UNKNOWN}
    assert all("1 of 79 events could not be read" in each.found for each in result.results[:-1])
    assert "too much is missing from the trace of B" in result.results[-1].found
    note = "traces/test is damaged: 1 of 79 events could not be read (without a time)."
    assert result.notes == (note,)
    assert note in lines(result)
    assert result.data["notes"] == [note]
    assert "is damaged: 1 of 79 events could not be read" in step_summary(result)
    assert annotations(result)[0] == f"::warning title=tracekit check%3A not whole::{note}"
    assert ElementTree.fromstring(junit(result, datetime(2026, 1, 1))).find("testsuite/system-err").text == note


def test_a_damaged_baseline_is_none(report):
    result = tracekit.check(OTHER, baseline=damaged(report), floor=0.02)
    assert [each.outcome for each in result.results] == [Outcome.UNKNOWN]
    assert "too much is missing from the trace of A" in result.results[0].found
    assert result.notes == (
        "Of the baseline given: traces/test is damaged: 1 of 79 events could not be read (without a time).",
    )
    whole = tracekit.check(report, [IDLE])
    assert whole.notes == ()
    assert ElementTree.fromstring(junit(whole, datetime(2026, 1, 1))).find("testsuite/system-err").text is None


def test_a_loss_that_changes_no_figure_by_much_is_told_and_decides_nothing(report):
    result = tracekit.check(damaged(report, rows=""), [IDLE])
    assert [each.outcome for each in result.results] == [Outcome.BROKEN]
    assert result.notes == ("traces/test is damaged: 1 of 79 events could not be read (without a time).",)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ("holds holds", 0),
        ("holds broken", 3),
        ("holds cannot-be-told", 4),
        ("inconclusive holds", 5),
        ("inconclusive cannot-be-told", 4),
        ("inconclusive cannot-be-told broken", 3),
    ],
)
def test_the_worst_outcome_decides_the_exit_code(outcomes, code):
    results = [RuleResult("", Outcome(outcome.replace("-", " ")), "") for outcome in outcomes.split()]
    assert CheckResult("", tuple(results)).exit_code == code


@pytest.mark.parametrize(
    ("least", "most", "outcome"), [(0.2, 0.2, "holds"), (0.21, None, "broken"), (None, 0.19, "broken")]
)
def test_a_bound_itself_is_kept(report, least, most, outcome):
    (result,) = tracekit.check(report, [Rule("idle", least, most, Unit.RATIO, device="gpu:0")]).results
    assert (result.outcome, result.measure.value) == (outcome, 0.2)


def test_a_value_that_rounds_to_its_bound_says_on_which_side_it_is(report):
    (result,) = tracekit.check(report, [Rule("overlap", 0.7143, None, Unit.RATIO, "devices")]).results
    assert result.text == "overlap of devices at least 71.4 %: just below 71.4 % (gpu:0 and gpu:1, whole trace)"


def test_a_scope_that_the_trace_lacks_does_not_hold(report):
    result = tracekit.check(report, [Rule("idle", None, 1.0, Unit.RATIO, phase="early")])
    assert result.exit_code == 4
    assert result.results[0].found == "The trace has no phase 'early'. Its phases are late."


def test_a_saved_report_is_checked_as_its_trace_is(tmp_path):
    rules = [Rule("idle", None, 0.5, Unit.RATIO, step="median"), Rule("overlap", 0.5, None, Unit.RATIO, "collective")]
    saved = tracekit.analyse(STEPPED).save(tmp_path)
    of_trace = tracekit.check(STEPPED, rules)
    assert tracekit.check(saved, rules).results == of_trace.results
    assert tracekit.check(saved / "summary.json", rules).results == of_trace.results
    with pytest.raises(tracekit.TracekitError, match="saved report, to which run cannot be applied"):
        tracekit.check(saved, rules, run="newest")


def captured(*idle_ps):
    """A report of a capture of 100 ps for each of these idle times."""
    return [
        tracekit.analyse(make_trace(events(("gpu:0", "compute", 0, 40), ("gpu:0", "compute", 40 + idle, 100))))
        for idle in idle_ps
    ]


@pytest.mark.parametrize(
    ("idle", "outcome", "found"),
    [
        ((10, 19, 20), "holds", "10.0 %, 19.0 % and 20.0 % in 3 captures"),
        ((21, 30), "broken", "21.0 % and 30.0 % in 2 captures"),
        ((10, 30, 11), "inconclusive", "10.0 %, 30.0 % and 11.0 % in 3 captures, of which 1 breaks it"),
        (range(20, 28), "inconclusive", "20.0 % to 27.0 % in 8 captures, of which 7 break it"),
    ],
)
def test_of_several_captures_all_have_to_keep_a_rule(idle, outcome, found):
    result = tracekit.check(captured(*idle), [IDLE])
    (rule,) = result.results
    assert (str(rule.outcome), rule.found) == (outcome, f"{found} (worst: gpu:0, whole trace)")
    assert rule.measure.value == max(idle) / 100
    assert result.data["rules"][0]["values"] == [each / 100 for each in idle]
    assert result.exit_code == {"holds": 0, "broken": 3, "inconclusive": 5}[outcome]


def test_a_rule_with_two_bounds_is_worst_where_it_is_farthest_beyond_either():
    (rule,) = tracekit.check(captured(1, 24, 10), [Rule("idle", 0.09, 0.2, Unit.RATIO)]).results
    assert (str(rule.outcome), rule.measure.value) == ("inconclusive", 0.01)


def test_a_rule_that_one_of_several_captures_cannot_tell_does_not_hold(report):
    rule = Rule("exposed-collective", None, 50, Unit.TIME)
    (result,) = tracekit.check([report, *captured(10)], [rule]).results
    assert str(result.outcome) == "cannot be told"
    assert result.found.startswith("In 1 of 2 captures: No collectives ran in the whole trace")


def test_one_capture_does_not_count_twice(report):
    with pytest.raises(tracekit.TracekitError, match="test and test are one capture: give each once"):
        tracekit.check([report, report], [IDLE])


def test_a_directory_of_saved_reports_is_several_captures(monkeypatch, capsys, tmp_path):
    for number, report in enumerate(captured(10, 30, 11)):
        report.save(tmp_path / "runs" / f"run-{number}")
    code, output = run(monkeypatch, capsys, tmp_path / "runs", "--max-idle", "20%")
    assert code == 5
    assert "10.0 %, 30.0 % and 11.0 % in 3 captures, of which 1 breaks it" in output.out
    runs = [tmp_path / "runs" / f"run-{number}" for number in (0, 2)]
    code, output = run(monkeypatch, capsys, *runs, "--max-idle", "20%", "--json")
    assert (code, json.loads(output.out)["source"]) == (0, "2 captures: run-0, run-2")


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr("sys.argv", ["tracekit", "check", *map(str, words)])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code, capsys.readouterr()


def test_the_command_exits_with_what_the_rules_came_to(monkeypatch, capsys, tmp_path):
    saved = tracekit.analyse(STEPPED).save(tmp_path)
    code, output = run(monkeypatch, capsys, saved, "--min-overlap", "devices=0.9", "--max-step-time", "1s")
    assert code == 0
    assert output.out == (
        "holds           overlap of devices at least 90.0 %: 96.4 % (cpu:0 and cpu:1, steady steps)\n"
        "holds           step time at most 1.00 s: 3.33 ms (median of 7 steps (train))\n"
        "2 rules hold.\n"
    )
    assert run(monkeypatch, capsys, saved, "--max-idle", "1%")[0] == 3
    assert run(monkeypatch, capsys, saved, "--max-exposed-copy", "1ms")[0] == 4
    assert run(monkeypatch, capsys, saved, "--max-exposed-copy", "1ms", "--max-idle", "1%")[0] == 3
    assert run(monkeypatch, capsys, saved)[0] == 1
    code, output = run(monkeypatch, capsys, saved, "--max-idle", "1%", "--json")
    assert json.loads(output.out)["rules"][0]["value"] == pytest.approx(0.9348, abs=1e-4)


RESULT = CheckResult(
    "traces/a|b",
    (
        RuleResult("idle at most 10.0 %", Outcome.HOLDS, "5.0 % (gpu:0, whole trace)"),
        RuleResult("idle <b> at most 10.0 %", Outcome.BROKEN, "50,0 %: too\nmuch\x1b"),
        RuleResult("exposed copy at most 2.00 ms", Outcome.UNKNOWN, "No copies ran."),
        RuleResult("step time", Outcome.INCONCLUSIVE, "within 3 % of it"),
    ),
)


def test_junit_xml_has_what_both_schemas_require_in_their_order():
    root = ElementTree.fromstring(junit(RESULT, datetime(2026, 1, 2, 3, 4, 5)))
    (suite,) = root
    assert [element.tag for element in suite] == ["properties", *["testcase"] * 4, "system-out", "system-err"]
    assert dict(suite.attrib) == {
        "name": "tracekit check", "package": "tracekit", "id": "0", "tests": "4", "failures": "1", "errors": "2",
        "time": "0", "timestamp": "2026-01-02T03:04:05", "hostname": "localhost",
    }  # fmt: skip
    cases = suite.findall("testcase")
    assert all({*case.attrib} == {"name", "classname", "time"} for case in cases)
    assert [[(each.tag, each.attrib["type"]) for each in case] for case in cases] == [
        [],
        [("failure", "broken")],
        [("error", "cannot be told")],
        [("error", "inconclusive")],
    ]
    assert cases[1][0].attrib["message"] == "50,0 %: too\nmuch\ufffd"


def test_github_shows_what_does_not_hold_and_a_table_of_all():
    assert annotations(RESULT) == [
        "::error title=tracekit check%3A broken::idle <b> at most 10.0 %25: 50,0 %25: too%0Amuch\x1b",
        "::error title=tracekit check%3A cannot be told::exposed copy at most 2.00 ms: No copies ran.",
        "::warning title=tracekit check%3A inconclusive::step time: within 3 %25 of it",
    ]
    table = step_summary(RESULT).splitlines()
    assert table[0] == "### tracekit check: traces/a\\|b"
    assert table[4:7] == [
        "| | rule | measured |",
        "|---|---|---|",
        "| :white_check_mark: holds | idle at most 10.0 % | 5.0 % (gpu:0, whole trace) |",
    ]
    assert table[7] == "| :x: broken | idle &lt;b> at most 10.0 % | 50,0 %: too much␛ |"


def test_annotations_and_a_summary_are_written_in_github_actions_only(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    publish(RESULT)
    assert capsys.readouterr().out == "".join(f"{safe(line)}\n" for line in lines(RESULT))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (tmp_path / "summary.md").write_text("before\n")
    publish(RESULT, tmp_path / "new" / "junit.xml")
    assert capsys.readouterr().out == "".join(f"{safe(line)}\n" for line in [*lines(RESULT), *annotations(RESULT)])
    assert (tmp_path / "summary.md").read_text() == "before\n" + step_summary(RESULT)
    publish(RESULT, as_json=True)
    assert capsys.readouterr().err.count("::error") == 2
    assert ElementTree.parse(tmp_path / "new" / "junit.xml").getroot().tag == "testsuites"


def test_a_junit_file_has_the_time_that_a_build_states_and_lies_in_no_trace(monkeypatch, tmp_path):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767323045")
    publish(RESULT, tmp_path / "junit.xml")
    assert 'timestamp="2026-01-02T03:04:05"' in (tmp_path / "junit.xml").read_text()
    (trace := tmp_path / "trace").mkdir()
    with pytest.raises(TracekitError, match="lies inside the trace"):
        publish(replace(RESULT, traces=(str(trace),)), trace / "junit.xml")
    assert not [*trace.iterdir()]


@pytest.mark.parametrize("stated", ["", "-1", "yesterday", "253402300800", "99999999999999", "9" * 5000])
def test_what_is_no_time_of_a_build_leaves_a_junit_file_that_of_the_check(stated, monkeypatch, tmp_path):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", stated)
    monkeypatch.setattr("time.time", lambda: 1767323045.0)
    publish(RESULT, tmp_path / "junit.xml")
    assert 'timestamp="2026-01-02T03:04:05"' in (tmp_path / "junit.xml").read_text()


def test_the_commands_of_the_example_workflow_are_those_that_its_page_runs():
    of_page = page_blocks(ROOT / "docs" / "howto" / "ci.md")
    (workflow,) = [block.text for block in of_page if block.language == "yaml"]
    shell = [
        line for block in of_page if block.language == "bash" and not block.comment for line in block.text.split("\n")
    ]
    steps = re.findall(r"- run: (.*)", workflow)
    assert [step for step in steps if step not in shell] == ["pip install tracekit-jax"]
