"""The frames as tables, read back by pyarrow, pandas and the standard library: every row and value, and its dtype."""

import csv
import gzip
import json
import re
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from tests.export.frames_of import launches, rows, spans
from tracekit.columns import frame, no_formula
from tracekit.export import FRAMES, SUFFIXES, tables
from tracekit.trace import EVENT_COLUMNS, LOSS_COLUMNS, OP_COLUMNS, OPERAND_COLUMNS, Trace

NAMES = ["", "=cmd|' /C calc'!A0", "+1", "-1", "@x", "'quoted'", 'a "b", c\n\r\td', "\x1b[31m\x7f", "</script>", "日本"]
TRACE = Trace(
    rows(
        {"start_ps": 0, "end_ps": 2**62, "bytes": 2**53 + 1, "direction": "H2D", "kind": "memcpy", "run_id": -(2**63)},
        {"start_ps": -7, "end_ps": -7, "correlation_id": 2**63 - 1, "occupancy_ratio": 0.1, "op": 1},
        *({"start_ps": n, "end_ps": n + 1, "name": name, "hlo_op": name} for n, name in enumerate(NAMES)),
    ),
    spans=spans({"start_ps": 0, "end_ps": 1, "tracekit": "phase", "alone": "a;b", "step": 3}),
    launches=launches({"start_ps": 0, "end_ps": 1, "correlation_id": 5}),
    ops=frame(OP_COLUMNS, {"program": ["p", "p"], "hlo_op": ["a", "b"], "flops": pd.array([None, 2], "Int64")}),
    operands=frame(OPERAND_COLUMNS, {"op": [1], "operand": [0]}),
    losses=frame(LOSS_COLUMNS, {"host": ["h"], "what": ["records"], "lost": pd.array([2], "Int64")}),
    notes=("a note, with “quotes”",),
    source="traces/x",
    format="xplane",
)
EMPTY = Trace(frame(EVENT_COLUMNS))


def write(trace: Trace, to: str, name: str, directory: Path, **more: bool) -> Path:
    path = directory / (name + SUFFIXES[to])
    tables.write(trace, name, path, to, **more)
    return path


def values(table: pd.DataFrame) -> list[list]:
    """The cells, None where null."""
    return [
        [None if cell is pd.NA or cell != cell else cell for cell in row] for row in table.astype(object).to_numpy()
    ]


def test_every_frame_has_a_table():
    frames = {name for name in Trace.__dataclass_fields__ if isinstance(getattr(EMPTY, name), pd.DataFrame)}
    # Of a trace of which rows were left out nothing is exported.
    assert set(FRAMES) == frames - {"merged", "counts"}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("trace", [TRACE, EMPTY], ids=["full", "empty"])
@pytest.mark.parametrize("to", ["parquet", "arrow"])
def test_parquet_and_arrow_give_back_the_frame_with_its_dtypes(to, trace, name, tmp_path):
    path = write(trace, to, name, tmp_path)
    table = {"parquet": pd.read_parquet, "arrow": pd.read_feather}[to](path)
    # Categories that no row has, and the order of those of texts, are not part of the contract.
    assert_frame_equal(table, getattr(trace, name), check_categorical=False)
    if len(table):  # it keeps the contract, so that it can stand in a trace again
        assert Trace(**{"events": frame(EVENT_COLUMNS), "ops": TRACE.ops, name: table})


@pytest.mark.parametrize("to", ["parquet", "arrow"])
def test_a_table_says_whose_it_is(to, tmp_path):
    path = write(TRACE, to, "events", tmp_path)
    schema = {"parquet": pyarrow.parquet.read_schema, "arrow": lambda p: pyarrow.feather.read_table(p).schema}[to](path)
    assert json.loads(schema.metadata[b"tracekit"]) == tables.about(TRACE) | {"frame": "events"}
    assert tables.about(TRACE) | {"tracekit": ""} == {
        "schema": 1,
        "tracekit": "",
        "source": "traces/x",
        "format": "xplane",
        "runs": [],
        "notes": ["a note, with “quotes”"],
    }


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", FRAMES)
def test_csv_holds_every_value_as_text_and_null_as_nothing(name, compressed, tmp_path):
    path = write(TRACE, "csv", name, tmp_path, gzip=compressed)
    text = (gzip.decompress(path.read_bytes()) if compressed else path.read_bytes()).decode()
    head, *lines = csv.reader(text.splitlines(keepends=True))
    assert head == list(getattr(TRACE, name).columns)
    expected = [["" if cell is None else str(cell) for cell in row] for row in values(getattr(TRACE, name))]
    assert [list(map(_unmark, row)) for row in lines] == expected


def _unmark(field: str) -> str:
    """What the docs tell readers to do."""
    return re.sub(r"([;\s\x00-\x1f\x7f-\xa0\u200b\u2060\ufeff]*)'", _without_mark, field.removeprefix("'"))


def _without_mark(found: re.Match[str]) -> str:
    return found[1] + ("'" if set(found[1]).isdisjoint(";\t\r\n") else "")


def test_no_text_of_a_csv_is_a_formula_and_numbers_stay_numbers(tmp_path):
    with write(TRACE, "csv", "events", tmp_path).open(newline="") as file:
        records = list(csv.DictReader(file))
    assert [row["name"] for row in records][2:8] == ["", "'=cmd|' /C calc'!A0", "'+1", "'-1", "'@x", "''quoted'"]
    assert records[0]["run_id"] == "-9223372036854775808"
    assert pd.read_csv(tmp_path / "events.csv", dtype_backend="pyarrow")["start_ps"].tolist()[1] == -7


@pytest.mark.parametrize("text", ["\uff1dcmd", "\ufe66c", " =1", "\xa0=1", "\x85=1", "\u2028=1", "\ufeff@x", "\t"])
def test_what_hides_a_formula_from_a_guard_is_marked_too(text):
    assert no_formula(text) == f"'{text}"
    assert no_formula(f"fusion{text}") == f"fusion{text}"


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("k;=1+cmd|' /C calc'!A0;x", "k;'=1+cmd|' /C calc'!A0;x"),
        ("a\t=1;\u2028@x\r\n-1", "a\t'=1;\u2028'@x\r\n'-1"),
        ("\n-1", "'\n'-1"),
        (";=1", ";'=1"),
        ("it's; 'b' = c - d", "it's; ''b' = c - d"),
        ("a;b;\tc", "a;b;\tc"),
    ],
)
def test_behind_what_separates_lists_in_other_languages_no_formula_begins(text, marked):
    """With `;` between fields, as in most of Europe, a quote inside of a line is a letter."""
    assert (no_formula(text), _unmark(marked)) == (marked, text)


@given(st.text(st.sampled_from("=@- ';\t\n\r\x0bab\uff1d"), max_size=12))
def test_a_text_without_its_marks_is_what_it_was_and_none_of_its_parts_is_a_formula(text):
    marked = no_formula(text)
    assert _unmark(marked) == text
    assert not [part for part in re.split("[;\t\r\n]", marked) if part.strip()[:1] in {*"=@-\uff1d"}]


def test_a_long_text_of_blanks_is_looked_through_once():
    begin = time.process_time()
    assert no_formula("a;" + "\t " * 500_000).startswith("a;\t ")
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", FRAMES)
def test_json_lines_hold_every_value_exactly(name, compressed, tmp_path):
    path = write(TRACE, "json", name, tmp_path, gzip=compressed)
    text = (gzip.decompress(path.read_bytes()) if compressed else path.read_bytes()).decode()
    table = getattr(TRACE, name)
    records = [json.loads(line) for line in text.split("\n")[:-1]]
    assert records == [dict(zip(table.columns, row, strict=True)) for row in values(table)]


def test_pandas_reads_json_lines(tmp_path):
    path = write(TRACE, "json", "events", tmp_path)
    table = pd.read_json(path, lines=True, dtype_backend="pyarrow", dtype=False)
    assert table["start_ps"].tolist() == TRACE.events["start_ps"].tolist()


@pytest.mark.parametrize("to", SUFFIXES)
def test_an_empty_frame_is_an_empty_table(to, tmp_path):
    content = write(EMPTY, to, "events", tmp_path).read_bytes()
    assert {"json": content == b"", "csv": content.decode("latin1").count("\n") == 1}.get(to, len(content) > 0)


@pytest.mark.parametrize("to", SUFFIXES)
def test_a_lone_surrogate_and_the_character_0_are_written_as_their_escapes(to, tmp_path):
    trace = Trace(rows(*({"start_ps": 0, "end_ps": 1, "name": name} for name in ("a\ud800", "a\\ud800", "\0b"))))
    path = write(trace, to, "events", tmp_path)
    read = {
        "parquet": pd.read_parquet,
        "arrow": pd.read_feather,
        "csv": pd.read_csv,
        "json": lambda file: pd.read_json(file, lines=True),
    }[to]
    assert read(path)["name"].tolist() == ["a\\ud800", "a\\ud800", "\\x00b"]


@pytest.mark.parametrize("to", ["csv", "json"])
def test_rows_beyond_those_of_one_block_come_back(to, tmp_path):
    n = 40_000
    events = rows({"start_ps": 0, "end_ps": 0}).iloc[np.zeros(n, int)].reset_index(drop=True)
    events = events.assign(start_ps=np.arange(n), end_ps=np.arange(n) + 1)
    path = write(Trace(events), to, "events", tmp_path)
    if to == "csv":
        starts = pd.read_csv(path)["start_ps"].tolist()
    else:
        starts = [json.loads(line)["start_ps"] for line in path.read_text().splitlines()]
    assert starts == list(range(n))


def test_the_contents_name_every_file_its_rows_and_its_columns():
    contents = tables.contents(TRACE, ".csv.gz")
    assert {name: (entry["file"], entry["rows"]) for name, entry in contents["frames"].items()} == {
        "events": ("events.csv.gz", 12),
        "spans": ("spans.csv.gz", 1),
        "launches": ("launches.csv.gz", 1),
        "host_work": ("host_work.csv.gz", 0),
        "syncs": ("syncs.csv.gz", 0),
        "ops": ("ops.csv.gz", 2),
        "operands": ("operands.csv.gz", 1),
        "devices": ("devices.csv.gz", 0),
        "hosts": ("hosts.csv.gz", 0),
        "losses": ("losses.csv.gz", 1),
        "memory": ("memory.csv.gz", 0),
    }
    assert contents["frames"]["operands"]["columns"] == {"op": "int64", "operand": "int64"}
    assert json.loads(json.dumps(contents)) == contents
