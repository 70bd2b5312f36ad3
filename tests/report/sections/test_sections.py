"""What the report shows first, what it shows at all, and what it says that it lacks."""

import io
import json
from dataclasses import replace

import pandas as pd
import pytest
from rich.console import Console

from tests.frames import events, spans, trace
from tracekit.report.build import analyse
from tracekit.report.markdown import markdown
from tracekit.report.section import Recommendation, Section
from tracekit.report.sections.sections import MOST, highlights, in_one_line
from tracekit.report.terminal import printout
from tracekit.timeline.timeline import timeline_of

KEYS = (
    "findings",
    "top_ops",
    "critical_path",
    "steps",
    "offenders",
    "collectives",
    "idle",
    "host_api",
    "launches",
    "bandwidth",
    "memory",
    "machine",
)
# Two GPUs that take turns, and a collective that the second waits for.
TURNS = trace(
    events(
        ("gpu:0", "compute", 0, 40),
        ("gpu:1", "compute", 40, 80),
        ("gpu:0", "collective", 80, 100, "all-reduce.1"),
        ("gpu:1", "collective", 80, 100, "all-reduce.1"),
    )
)
PHASES = trace(
    events(*[("gpu:0", "compute", at, at + 10) for at in (0, 20)], ("gpu:1", "compute", 20, 30)),
    spans(("alone", 0, 10), ("both", 20, 30, None, "alone")),
)


def lines_of(report) -> list[str]:
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    printout.show(report, console, full=True)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("any_trace", [TURNS, PHASES, trace(events())])
def test_the_verdict_the_figures_and_at_most_five_lines_come_first(any_trace):
    report = analyse(any_trace)
    lines = lines_of(report)
    blank = lines.index("")
    first = highlights(report.sections)
    assert 0 <= len(first) <= MOST
    assert " ".join(lines[:blank]).startswith(report.labelled_verdicts[0][0])
    if first:
        scope = [f"Here, {report.scope}"] if report.scope else []
        begins = ["What matters most", *scope, f"1. {in_one_line(first[0])}"]
        before = lines[blank + 1 : lines.index("What matters most")]
        assert [figure.text for figure in report.key_figures if figure.text not in before[0]] == []
        words = " ".join(" ".join(lines[lines.index("What matters most") :]).split())
        assert words.startswith(" ".join(begins))


@pytest.mark.parametrize("any_trace", [TURNS, PHASES, trace(events())])
def test_each_section_is_shown_or_named_with_the_reason_why_not(any_trace):
    report = analyse(any_trace)
    assert [section.key for section in report.sections] == list(KEYS)
    lines, page, summary = lines_of(report), markdown(report, "x.png"), report.summary()
    json.dumps(summary, allow_nan=False)
    for section in report.sections:
        assert (section.title in lines) is not bool(section.lacking)
        assert (f"## {section.title}\n" in page) is not bool(section.lacking)
        assert any(
            line.endswith(f": {section.lacking}") and section.title in line for line in page.splitlines()
        ) is bool(section.lacking)
        assert (summary[section.key] is None) is bool(section.lacking)
        assert summary["lacking"].get(section.key, "") == section.lacking
        assert not (section.lacking and (section.sentences or section.findings or section.tables))


def test_no_line_of_a_table_or_a_sentence_is_wider_than_the_terminal():
    assert [line for any_trace in (TURNS, PHASES) for line in lines_of(analyse(any_trace)) if len(line) > 80] == []


def test_the_costliest_findings_lead_and_the_largest_loss_follows():
    report = analyse(TURNS)
    first = highlights(report.sections)
    assert first[0].sentence.startswith(
        "Collectives were exposed (not overlapped with compute) for 20.0 % of the devices' time"
    )
    assert "offenders" in [line.key for line in first[1:4]]


def test_the_largest_loss_leads_whether_there_is_advice_on_it_or_not():
    findings = tuple(
        Recommendation(rule, f"{rule}.", "act.", share=share)
        for rule, share in (("busy_machine", None), ("host_bound", 0.22), ("contention", None), ("launch_latency", 0.1))
    )
    sections = [
        Section("findings", "What to try", findings=findings),
        Section("critical_path", "Path", ("The path.",), result="The path in short."),
        Section("offenders", "Top offenders", ("Slow calls.",), share=0.73, loss="slow launch call"),
        Section("idle", "Idle time", ("One of 8 devices.",), share=0.11, loss="before first work"),
    ]
    # What the advice has first stays before what it has behind; what stands for no time, and is no advice, is last.
    assert [line.sentence for line in highlights(sections)] == [
        "busy_machine.",
        "Slow calls.",
        "host_bound.",
        "contention.",
        "One of 8 devices.",
    ]
    assert [line.sentence for line in highlights(sections[1:])] == [
        "Slow calls.",
        "One of 8 devices.",
        "The path in short.",
    ]
    first = Section("findings", "What to try", findings=findings[:1])
    assert in_one_line(highlights([first])[0]) == "busy_machine. Try: act."
    assert highlights([Section("steps", "Steps", lacking="none")]) == []


def test_a_loss_of_one_device_and_one_of_all_are_on_one_scale():
    # Of 8 devices, gpu:0 idles for 90 of 100 ps, a tenth of all their time; each of the others copies for 20 ps.
    rows = [("gpu:0", "compute", 0, 10)]
    for at in range(1, 8):
        rows += [(f"gpu:{at}", "compute", 0, 80), (f"gpu:{at}", "memcpy", 80, 100, "copy", "H2D")]
    report = analyse(trace(events(*rows)))
    shares = {section.key: section.share for section in report.sections}
    assert (shares["idle"], shares["offenders"]) == (90 / 800, 140 / 800)
    first, second, *_ = highlights(report.sections)
    assert (first.share, second.share) == (140 / 800, 90 / 800)
    assert first.sentence.startswith("Copies, mostly H2D, were exposed for 17.5 % of the devices' time")
    assert second.sentence.startswith("gpu:0 was idle for 90.0 % of the window")
    offenders = next(section for section in report.sections if section.key == "offenders")
    assert offenders.in_one_line == (
        "Exposed H2D copy cost 140 ps summed over 7 devices (17.5 % of the devices' time), "
        "most on gpu:1 (20.0 % of its window)."
    )


def test_devices_that_take_turns_and_wait_for_each_other_are_one_entry():
    turns = Recommendation("took_turns", "Serialized.", "start all.", share=0.5)
    waiting = "waiting for a collective or another device"
    sections = [
        Section("findings", "What to try", findings=(turns,)),
        Section("offenders", "Top offenders", ("Idle.",), share=0.4, loss=waiting),
        Section("host_api", "Host", ("Fell idle.",), share=0.4, loss=waiting),
    ]
    assert [line.sentence for line in highlights(sections)] == ["Serialized."]


def test_what_is_lost_to_one_thing_is_one_entry():
    finding = Recommendation("host_bound", "Late launches.", "launch more.", share=0.5)
    sections = [
        Section("findings", "What to try", findings=(finding,)),
        Section("offenders", "Top offenders", ("Largest loss: idle time (host-bound).",), share=0.4, loss="host-bound"),
        Section("idle", "Idle time", ("Mainly compiling.",), share=0.5, loss="compiling"),
        Section("critical_path", "Critical path", ("Host work.",), loss="host-bound"),
        Section("collectives", "Collectives", ("Exposed.",), share=0.3, loss="collectives"),
    ]
    assert [line.sentence for line in highlights(sections)] == ["Late launches.", "Mainly compiling.", "Exposed."]


def test_what_more_is_known_of_a_loss_joins_its_entry():
    gap = Section("host_api", "Host calls", ("One gap.",), share=0.3, loss="compiling", detail="One gap.")
    sections = [Section("offenders", "Top offenders", ("Idle.",), share=0.4, loss="compiling"), gap]
    assert [line.sentence for line in highlights(sections)] == ["Idle. One gap."]
    assert [line.sentence for line in highlights([gap])] == ["One gap."]
    assert [line.sentence for line in highlights([replace(sections[0], loss="host-bound"), gap])] == [
        "Idle.",
        "One gap.",
    ]


def test_a_path_that_nothing_explains_gives_way_to_where_the_idle_time_is():
    sections = [
        Section("critical_path", "Critical path", ("Unexplained.",), loss="unexplained"),
        Section("offenders", "Top offenders", ("Largest loss.",), share=0.9, loss="unexplained"),
        Section("host_api", "Host calls", ("A wait.", "One gap."), share=0.9, result="One gap."),
    ]
    assert [line.sentence for line in highlights(sections)] == ["Largest loss.", "One gap."]
    assert [line.sentence for line in highlights(sections[:1])] == ["Unexplained."]


def test_two_findings_on_one_loss_are_one_entry_with_the_advice_of_both():
    findings = (
        Recommendation("exposed_copies", "Copies were exposed.", "copy earlier.", share=0.3),
        Recommendation("host_bound", "Late launches.", "launch more.", share=0.2),
        Recommendation("pageable_copies", "They were pageable.", "pin the memory.", share=0.1),
        Recommendation("copies_in_compute_lane", "They share a stream.", "use another stream.", share=0.1),
    )
    first, second = highlights([Section("findings", "What to try", findings=findings)])
    assert in_one_line(first) == ("Copies were exposed. They were pageable. Try: copy earlier; or pin the memory.")
    assert second.sentence == "Late launches."


def test_of_pageable_copies_on_streams_of_kernels_the_memory_is_told_first():
    pageable = [("gpu:0", "memcpy", at, at + 20, "Memcpy HtoD (Pageable -> Device)", "H2D") for at in (60, 80)]
    table = events(("gpu:0", "compute", 0, 60), *pageable).assign(lane=pd.Categorical(["s", "s", "s"]))
    rules = [finding.rule for finding in analyse(trace(table)).advice.findings]
    assert [rule for rule in rules if "copies" in rule] == [
        "exposed_copies", "pageable_copies", "copies_in_compute_lane",
    ]  # fmt: skip


def test_what_stands_for_less_than_a_thousandth_matters_only_where_nothing_is_larger():
    small = Section("offenders", "Top offenders", ("Little.",), share=0.0009)
    assert [line.sentence for line in highlights([small])] == ["Little."]
    path = Section("critical_path", "Critical path", ("The path.",))
    assert [line.sentence for line in highlights([small, path])] == ["The path."]


def test_the_shares_of_what_matters_are_those_of_the_time_of_all_devices():
    shares = {section.key: section.share for section in analyse(TURNS).sections}
    # gpu:0 idles for 40 of 100 ps, each device communicates for 20, and what the path waits for is not known for 80.
    assert (shares["offenders"], shares["collectives"], shares["critical_path"]) == (40 / 200, 40 / 200, 0.8)


def test_with_compared_phases_the_reasons_are_told_of_them_alone():
    report = analyse(PHASES)
    assert report.compared == ("both",)
    scope = "only what ran in the compared phases counts: both (10 ps in all)."
    assert [line for line in lines_of(report) if line.endswith(scope)] == [f"Here, {scope}", f"From here on, {scope}"]
    assert report.explanation.rows == 2
    assert timeline_of(PHASES).inside(report.compared_rounds).rows.start.tolist() == [20, 20]
    assert report.summary()["compared"] == ["both"]
    assert analyse(TURNS).compared == ()
