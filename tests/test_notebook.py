"""Results show themselves in a notebook: true figures in few lines, text that stays text, colours of the notebook's."""

import re
import subprocess
import sys
from dataclasses import dataclass, field, fields

import numpy as np
import pandas as pd
import pytest

import tracekit
from tests.frames import events, spans, trace
from tests.notebook_html import words
from tracekit import notebook
from tracekit.report.build import analyse
from tracekit.report.sections.sections import highlights, in_one_line

MS = 10**9
HOSTILE = "</script><img src=x onerror=alert(1)>$\\alpha$ \u202eabc\x1b[31m"


@dataclass(frozen=True)
class Held:
    """A result as the analyses make them."""

    busy: pd.DataFrame
    more: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"a": [1, 2]}))
    none: pd.DataFrame = field(default_factory=pd.DataFrame)
    notes: tuple[str, ...] = ()
    lacking: str = ""


def test_a_value_is_told_in_the_unit_of_its_column():
    told = {
        ("busy_ps", 1_234_000_000): "1.23 ms",
        ("busy_ps", pd.NA): "-",
        ("idle_ratio", 0.125): "12.5 %",
        ("ratio_min", 1.0): "100 %",
        ("share", None): "-",
        ("flops_per_s", 75.2e9): "75.2 G",
        ("bytes_per_s", 12): "12.0",
        ("bytes", 1_048_576): "1,048,576",
        ("mean", 6.04): "6.04",
        ("straggler", True): "True",
        ("name", "x" * 99): "x" * 30 + "…" + "x" * 29,
        ("durations", 7): "7",  # no ratio
    }
    assert {key: notebook.cell(*key) for key in told} == told


def test_a_frame_shows_its_first_rows_with_the_names_that_the_next_question_needs():
    frame = pd.DataFrame({"device": list("abcdefg"), "busy_ps": range(7), "x": 0})
    shown = words(notebook.frame("busy", frame, "device busy_ps"))
    assert shown[:3] == ["busy: first 5 of 7 rows, 2 of 3 columns", "device", "busy_ps"]
    assert shown[3:] == ["a", "0 ps", "b", "1 ps", "c", "2 ps", "d", "3 ps", "e", "4 ps"]


def test_a_result_shows_some_frames_names_the_others_and_folds_away_most_of_its_notes():
    held = Held(pd.DataFrame({"device": ["gpu:0"], "busy_ps": [MS]}), notes=tuple("abcde"))
    assert words(notebook.result(held, busy="", none="")) == [
        "Held", "busy: 1 row", "device", "busy_ps", "gpu:0", "1.00 ms", "More in more (2 rows).",
        "Note: a", "Note: b", "Note: c", "2 more notes", "d", "e",
    ]  # fmt: skip
    assert notebook.line(held) == "<Held: busy 1, more 2, none 0>"


def test_a_result_without_evidence_says_why_and_nothing_else():
    held = Held(pd.DataFrame({"a": [1]}), lacking="The trace holds no steps.")
    assert words(notebook.result(held, busy="")) == ["Held", ": The trace holds no steps."]
    assert notebook.line(held) == "<Held: The trace holds no steps.>"


def everything(name: str) -> list[object]:
    """All that shows itself, of a trace whose every name is `name`; several clocks, steps, copies and a collective."""
    rows = events(
        (f"gpu:0{name}", "compute", 0, 9 * MS, name),
        (f"gpu:0{name}", "memcpy", 9 * MS, 12 * MS, name, "H2D"),
        (f"gpu:1{name}", "compute", 2 * MS, 9 * MS, name),
        *[(f"gpu:{at}{name}", "collective", (12 + at) * MS, 20 * MS, name) for at in range(2)],
        host=name,
    )
    marks = spans((name, 0, 9 * MS), (f"both {name}", 0, 20 * MS, name), host=name)
    made = trace(rows, marks, notes=(name,) * 5)
    report = analyse(made)
    named = [getattr(report.explanation, one.name) for one in fields(report.explanation)]
    parts = [one for one in named if hasattr(one, "lacking")]
    assert len(parts) == 7
    return [made, report, report.explanation, report.advice, tracekit.explain(made), *parts]


@pytest.mark.parametrize("one", everything(HOSTILE), ids=lambda one: type(one).__name__)
def test_a_hostile_name_shows_as_text_in_every_result(one):
    page = one._repr_html_()
    shown = "".join(words(page))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e]", page)
    if "onerror" in page:
        assert "</script><img" in shown or "onerror=alert(1)>$\\alpha$ \ufffdabc\ufffd[31m" in shown
    assert repr(one).isprintable()


@pytest.mark.parametrize("one", everything("k"), ids=lambda one: type(one).__name__)
def test_every_result_is_one_short_line_elsewhere(one):
    assert re.fullmatch(rf"<{type(one).__name__}[: ].+>", repr(one))
    assert len(repr(one)) < 250


def test_a_trace_without_device_work_and_its_results_show_themselves():
    made = trace(events())
    report = analyse(made)
    for one in (made, report, report.explanation, report.advice, report.explanation.idle):
        assert words(one._repr_html_())
    assert repr(made) == "<Trace test: 0 devices, 0 events, xplane>"


def test_reasons_show_first_what_each_part_found_and_last_what_they_lack():
    found = tracekit.explain(everything("k")[0])
    assert repr(found) == "<Explanation: 2 devices, 5 events: critical_path, offenders, collectives, bandwidth>"
    shown = words(found._repr_html_())
    assert shown[:2] == ["Explanation", ": 2 devices, 5 events"]
    assert "collectives: collectives 1, device_time_ps 15.00 ms, wait_ratio 6.7 %, exposed_ps 15.00 ms" in shown
    assert [one.partition(":")[0] for one in shown[-3:]] == ["steps", "idle", "launches"]


def test_a_report_shows_the_verdicts_then_what_matters_most_then_everything_else():
    report = analyse(everything("k")[0])
    shown = words(report._repr_html_())
    begins = ["Report", f": {report.headline}", *(f"{name}: {said}" for name, said in report.verdicts.items())]
    begins += ["What matters most", *map(in_one_line, highlights(report.sections)), "Phases"]
    assert shown[: len(begins)] == begins
    assert [one.title for one in report.sections if not one.lacking and one.title not in shown] == []
    assert [one for one in report.sections if one.lacking and f"{one.title}: {one.lacking}" not in shown] == []
    assert f"Note: {report.notes[0]}" in shown


def test_showing_needs_no_ipython():
    code = (
        "import sys, tests.frames as f; repr(f.trace(f.events()))\n"
        "f.trace(f.events())._repr_html_(); print('IPython' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_numbers_of_numpy_are_told_like_those_of_python():
    frame = pd.DataFrame({"n": np.array([1234], np.int64), "ratio": np.array([0.5], np.float64)})
    assert words(notebook.frame("x", frame))[-2:] == ["1,234", "50.0 %"]
