"""The page of an experiment by several frameworks: a table for each phase that two of them have, reasons for dashes."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.frames import events, spans
from tests.frames import trace as make_trace
from tracekit import TraceError
from tracekit.report.build import analyse

spec = importlib.util.spec_from_file_location("frameworks", Path(__file__).parents[1] / "docs" / "frameworks.py")
frameworks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(frameworks)


def report(*rows, marks):
    return analyse(make_trace(events(*rows), spans(*marks)))


TWO_DEVICES = report(
    ("gpu:0", "compute", 0, 10), ("gpu:1", "compute", 0, 5), ("gpu:0", "collective", 5, 10), marks=[("both", 0, 10)]
)
ONE_DEVICE = report(
    ("gpu:0", "compute", 0, 30), ("gpu:0", "compute", 40, 60), marks=[("alone", 0, 30), ("both", 40, 60)]
)


def cells(row):
    return [re.sub("<[^>]+>", "", cell) for cell in re.findall("<t[hd]>(.*?)</t[hd]>", row)]


def test_a_phase_of_two_frameworks_is_a_table_with_a_reason_for_what_cannot_be_told():
    reports = {"A": TWO_DEVICES, "B <i>": ONE_DEVICE}
    assert frameworks.shared_phases(reports) == ["both"]
    table = frameworks.table(reports, "both")
    assert [cells(row) for row in re.findall("<tr>(.*?)</tr>", table)] == [
        ["", "A", "B &lt;i&gt;"],
        ["wall time, median round", "10 ps", "20 ps"],
        ["devices busy at the same time, of the shorter busy time", "100 %", "-1"],
        ["collectives hidden behind compute", "100 %", "-2"],
        ["exposed collectives, of the time", "0 %", "-2"],
        ["idle, of the time, on the worst device", "50.0 %", "0 %"],
        ["operation with most time, on all devices", "op, 3 of 6 ps", "op, 1 of 20 ps"],
    ]
    (notes,) = re.findall("<ol>(.*?)</ol>", table)
    assert len(re.findall("<li>", notes)) == 2
    assert "<li>No collectives ran in the phase both, or the trace does not record them.</li>" in notes


def test_how_often_and_how_long_the_largest_operation_ran_says_that_the_work_differs():
    rounds = [
        ("gpu:0", "compute", 0, 4, "dot"),
        ("gpu:1", "compute", 0, 2, "dot"),
        ("gpu:0", "compute", 5, 6, "add"),
        ("gpu:0", "compute", 10, 16, "dot"),
        ("gpu:1", "compute", 10, 14, "dot"),
    ]
    several = report(*rounds, marks=[("both", 0, 10), ("both", 10, 20), ("none", 30, 40)])
    assert frameworks.largest(several, "both") == "dot, 2 of 4 ps"
    assert frameworks.largest(several, "none") == "-"


def test_a_framework_without_a_trace_is_said_to_be_missing(tmp_path, capsys, monkeypatch):
    def analyse(path):
        if path == "c":
            raise TraceError("c does not exist.")
        return {"a": TWO_DEVICES, "b": ONE_DEVICE}[path]

    monkeypatch.setattr(frameworks.tracekit, "analyse", analyse)
    monkeypatch.setattr(frameworks, "picture", lambda name, path: f"[{name} of {path}]")
    out = tmp_path / "page.html"
    assert frameworks.main(["A=a", "MXNet=c", "B=b", "--out", str(out)]) == 0
    assert capsys.readouterr().err == "frameworks.py: without MXNet: c does not exist.\n"
    text = out.read_text("utf-8")
    assert "<p>Without MXNet: c does not exist.</p>" in text
    assert f"<p>{frameworks.SIZES}</p>" in text
    assert text.endswith("[A of a][B of b]</html>\n")
    assert frameworks.main(["A=a", "MXNet=c", "--out", str(tmp_path / "none.html")]) == 1
    assert not (tmp_path / "none.html").exists()


def test_traces_without_a_common_phase_are_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(frameworks.tracekit, "analyse", {"a": TWO_DEVICES, "b": report(marks=[("other", 0, 1)])}.get)
    assert frameworks.main(["A=a", "B=b", "--out", str(tmp_path / "page.html")]) == 1
    assert capsys.readouterr().err == (
        "frameworks.py: No two of these traces have a phase of the same name: give captures of twins.\n"
    )
    with pytest.raises(SystemExit):
        frameworks.main(["A=a", "b"])
    assert not [*tmp_path.iterdir()]
