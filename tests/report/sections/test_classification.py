"""The report says what told the kinds, shows the largest guesses, and takes a user's rules."""

import io
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from tests.frames import events, trace
from tests.readers.xspaces import write as write_xspace
from tests.report.sections.brief import brief
from tracekit.errors import TracekitError
from tracekit.readers import read
from tracekit.report.build import analyse
from tracekit.report.markdown import markdown
from tracekit.report.report import report
from tracekit.report.terminal import printout
from tracekit.trace import Trace

US = 10**6
LONG = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<float>>(int)"
SHORT = "elementwise_kernel<128, 4, at:…tive::gpu_kernel_impl<float>>"


def mixed_trace() -> Trace:
    rows = events(
        ("gpu:0", "compute", 0, 80 * US, "fusion"),
        ("gpu:0", "compute", 80 * US, 96 * US, LONG),
        ("gpu:0", "collective", 96 * US, 99 * US, "ncclDevKernel_Generic"),
        ("gpu:1", "memcpy", 0, 100 * US, "copy", "H2D"),
        ("gpu:0", "compute", 99 * US, 100 * US, "mine"),
    )
    rows["known_by"] = pd.Categorical(["opcode", "name", "name", "stat", "nothing"])
    return trace(rows)


def full_text(any_trace: Trace, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    printout.show(analyse(any_trace), console, full=True)
    return console.file.getvalue()


def test_the_shares_are_one_sentence_and_the_guesses_one_table():
    report = analyse(mixed_trace())
    section = report.classification
    assert section.sentences == (
        "40.0 % of the busy time by HLO opcode, 50.0 % by the profiler's record, 9.5 % by name, 0.5 % unclassified "
        "(counted as compute). Rules (--kinds) correct a wrong classification.",
    )
    assert list(brief(section).values()) == [
        (
            "Largest kernels classified by name only, or unclassified",
            ["name", "counted as", "by", "device time", "of busy"],
            [
                [SHORT, "compute", "name", "16.00 µs", "8.0 %"],
                ["ncclDevKernel_Generic", "collective", "name", "3.00 µs", "1.5 %"],
                ["mine", "compute", "unclassified", "1.00 µs", "0.5 %"],
            ],
        )
    ]


def test_they_fit_a_terminal_of_80_columns_and_a_number_keeps_its_unit():
    text = full_text(mixed_trace())
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"\d\n%", text)
    assert re.search(r"^elementwise_kernel…[\w:]+<float>>  ", text, re.MULTILINE)
    page = markdown(analyse(mixed_trace()), "gantt.png")
    assert SHORT.replace("<", "&lt;") in page
    assert analyse(mixed_trace()).classification.sentences[0] in page


def test_at_most_five_guesses_are_printed_and_twenty_are_in_the_summary():
    many = analyse(trace(events(*[("gpu:0", "compute", 10 * at, 10 * at + 9, f"k{at}_") for at in range(30)])))
    assert [len(table.rows) for table in many.classification.tables] == [5]
    assert len(many.summary()["guessed"]) == 20


def test_where_everything_is_known_no_guess_is_shown_and_without_work_nothing_is_said():
    rows = events(("gpu:0", "compute", 0, 9))
    rows["known_by"] = pd.Categorical(["opcode"])
    without_guesses = analyse(trace(rows))
    section = without_guesses.classification
    assert section.sentences == ("100 % of the busy time by HLO opcode.",)
    assert brief(section) == {}
    assert analyse(trace(events())).classification is None


def test_the_summary_holds_the_shares_and_the_guesses():
    summary = analyse(mixed_trace()).summary()
    assert sum(level["busy_ps"] for level in summary["known_by"]) == sum(
        device["busy_ps"] for device in summary["devices"]
    )
    assert summary["known_by"][1] == {"level": "opcode", "busy_ps": 80 * US, "ratio": 0.4}
    assert summary["guessed"][1] == {
        "name": "ncclDevKernel_Generic",
        "kind": "collective",
        "level": "name",
        "events": 1,
        "device_time_ps": 3 * US,
        "ratio": 0.015,
    }
    json.dumps(summary)


def test_every_column_of_the_table_is_defined_in_the_docs():
    docs = Path(__file__).parents[3] / "docs"
    pages = "".join((docs / name).read_text("utf-8") for name in ("concepts.md", "columns.md"))
    words = set(re.findall(r"`([^`]+)`", pages))
    (table,) = analyse(mixed_trace()).classification.tables
    assert {column.head for column in table.columns} <= words


SPACE = """
planes { name: "/device:GPU:0"
  lines { id: 7 name: "Stream #7(Compute)" timestamp_ns: 1
    events { metadata_id: 1 offset_ps: 0 duration_ps: 3000 }
    events { metadata_id: 2 offset_ps: 3000 duration_ps: 1000 } }
  event_metadata { key: 1 value { id: 1 name: "ring_exchange" } }
  event_metadata { key: 2 value { id: 2 name: "other" } } }
"""


def test_rules_decide_what_the_report_counts_and_a_rule_without_rows_is_noted(tmp_path):
    path = write_xspace(tmp_path / "host.xplane.pb", SPACE)
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname="^ring"\nkind="collective"\n[[rule]]\nname="gone"\nkind="compute"\n')
    out = tmp_path / "out"
    report(read(path, kinds=rules), out)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["devices"][0]["kinds"]["collective"] == {"events": 1, "union_ps": 3000}
    assert {level["level"]: level["busy_ps"] for level in summary["known_by"] if level["busy_ps"]} == {
        "rule": 3000,
        "nothing": 1000,
    }
    assert f"Rule 2 of {rules} matches no row." in summary["notes"]
    assert pd.read_parquet(out / "intervals.parquet")["known_by"].tolist() == ["rule", "nothing"]


def test_a_mistake_in_the_rules_is_found_before_the_trace_is_read(tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname="x"\nkind="copy"\n')
    with pytest.raises(TracekitError, match="kind is 'copy'"):
        read(tmp_path / "no trace", kinds=rules)
