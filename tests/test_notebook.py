"""Results show themselves in a notebook: true figures in few lines, text that stays text, colours of the notebook's."""

import re
import subprocess
import sys
from dataclasses import dataclass, field, fields
from functools import cache

import numpy as np
import pandas as pd
import pytest

import tracekit
from tests.frames import events, spans, trace
from tests.notebook_html import words
from tracekit import notebook
from tracekit.columns import frame
from tracekit.report.build import analyse
from tracekit.report.sections.sections import highlights, in_one_line
from tracekit.trace import MEMORY_COLUMNS

MS = 10**9
HOSTILE = "</script><img src=x onerror=alert(1)>$\\alpha$ \u202eabc\x1b[31m"


@dataclass(frozen=True, repr=False)
class Result(notebook.Result, busy="", none=""):
    """A result as the analyses make them."""

    busy: pd.DataFrame
    more: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"a": [1, 2]}))
    none: pd.DataFrame = field(default_factory=pd.DataFrame)
    notes: tuple[str, ...] = ()
    lacking: str = ""


def test_a_value_is_told_in_the_unit_of_its_column():
    texts = {
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
    assert {key: notebook.cell(*key) for key in texts} == texts


def test_a_frame_shows_its_first_rows_with_the_names_that_the_next_question_needs():
    frame = pd.DataFrame({"device": list("abcdefg"), "busy_ps": range(7), "x": 0})
    output = words(notebook.frame("busy", frame, "device busy_ps"))
    assert output[:3] == ["busy: first 5 of 7 rows, 2 of 3 columns", "device", "busy_ps"]
    assert output[3:] == ["a", "0 ps", "b", "1 ps", "c", "2 ps", "d", "3 ps", "e", "4 ps"]


def test_a_result_shows_some_frames_names_the_others_and_folds_away_most_of_its_notes():
    result = Result(pd.DataFrame({"device": ["gpu:0"], "busy_ps": [MS]}), notes=tuple("abcde"))
    assert words(result._repr_html_()) == [
        "Result", "busy: 1 row", "device", "busy_ps", "gpu:0", "1.00 ms", "More in more (2 rows).",
        "Note: a", "Note: b", "Note: c", "2 more notes", "d", "e",
    ]  # fmt: skip
    assert repr(result) == "<Result: busy 1, more 2, none 0>"


def test_a_result_without_evidence_says_why_and_nothing_else():
    result = Result(pd.DataFrame({"a": [1]}), lacking="The trace holds no steps.")
    assert words(result._repr_html_()) == ["Result", ": The trace holds no steps."]
    assert repr(result) == "<Result: The trace holds no steps.>"


# How many there are in `everything`: to collect the tests, it need not be made.
VALUES = 17


@cache
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
    allocation = {"host": [name], "device": [f"gpu:0{name}"], "allocator": [name], "label": [name], "frees": [False]}
    sizes = {"time_ps": [MS], "delta_bytes": [5], "in_use_bytes": [7]}
    memory = frame(MEMORY_COLUMNS, allocation | sizes)
    whole_trace = trace(rows, marks, notes=(name,) * 5, memory=memory)
    report = analyse(whole_trace)
    analyses = [getattr(report.explanation, field.name) for field in fields(report.explanation)]
    parts = [analysis for analysis in analyses if hasattr(analysis, "lacking")]
    values = [whole_trace, report, report.explanation, report.advice, tracekit.explain(whole_trace), *parts]
    assert len(values) == VALUES
    return values


@pytest.mark.parametrize("place", range(VALUES))
def test_a_hostile_name_shows_as_text_in_every_result(place):
    value = everything(HOSTILE)[place]
    page = value._repr_html_()
    text = "".join(words(page))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e]", page)
    if "onerror" in page:
        assert "</script><img" in text or "onerror=alert(1)>$\\alpha$ \ufffdabc\ufffd[31m" in text
    assert repr(value).isprintable()


@pytest.mark.parametrize("place", range(VALUES))
def test_every_result_is_one_short_line_elsewhere(place):
    value = everything("k")[place]
    assert re.fullmatch(rf"<{type(value).__name__}[: ].+>", repr(value))
    assert len(repr(value)) < 250


def test_a_trace_without_device_work_and_its_results_show_themselves():
    empty = trace(events())
    report = analyse(empty)
    for value in (empty, report, report.explanation, report.advice, report.explanation.idle):
        assert words(value._repr_html_())
    assert repr(empty) == "<Trace test: 0 devices, 0 events, xplane>"


def test_reasons_show_first_what_each_part_found_and_last_what_they_lack():
    explanation = tracekit.explain(everything("k")[0])
    parts = "top_ops, critical_path, offenders, collectives, host_api, bandwidth, memory"
    assert repr(explanation) == f"<Explanation: 2 devices, 5 events: {parts}>"
    output = words(explanation._repr_html_())
    assert output[:2] == ["Explanation", ": 2 devices, 5 events"]
    assert "collectives: collectives 1, device_time_ps 15.00 ms, wait_ratio 6.7 %, exposed_ps 15.00 ms" in output
    assert [line.partition(":")[0] for line in output[-4:]] == ["steps", "idle", "launches", "machine"]


def test_a_report_shows_key_figures_and_verdicts_then_what_matters_most_then_everything_else():
    report = analyse(everything("k")[0])
    output = words(report._repr_html_())
    begins = ["Report", f": {report.headline}"]
    begins += ["85.0 %", "busy, of both k (20.00 ms), mean of 2 devices"]
    begins += ["100 %", "overlapped, of the shorter busy time of both"]
    begins += ["45.0 %", "exposed, of the devices' time: communication 37.5 %, copies 7.5 %"]
    begins += ["0.45x", "speedup, over k"]
    begins += [*(f"{name}: {verdict}" for name, verdict in report.labelled_verdicts)]
    begins += ["What matters most", f"Here, {report.scope}", *map(in_one_line, highlights(report.sections)), "Phases"]
    assert output[: len(begins)] == begins
    assert [section.title for section in report.sections if not section.lacking and section.title not in output] == []
    lacking = [f"{section.title}: {section.lacking}" for section in report.sections if section.lacking]
    assert set(lacking) <= set(output)
    assert f"Note: {report.notes[0]}" in output


def test_showing_needs_no_ipython():
    code = (
        "import sys, tests.frames as f; repr(f.trace(f.events()))\n"
        "f.trace(f.events())._repr_html_(); print('IPython' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == "False\n"


def test_numbers_of_numpy_are_told_like_those_of_python():
    frame = pd.DataFrame({"n": np.array([1234], np.int64), "ratio": np.array([0.5], np.float64)})
    assert words(notebook.frame("x", frame))[-2:] == ["1,234", "50.0 %"]
