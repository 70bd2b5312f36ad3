"""A report that was saved and loaded is the same report, for everything that compares, gates or renders it."""

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import tracekit
from tests.frames import events, spans, trace
from tests.report.html.pages import NAMES, report
from tracekit import cli
from tracekit.cli import main
from tracekit.errors import TracekitError
from tracekit.files import SUMMARY
from tracekit.readers import unpacking
from tracekit.report import load, storage
from tracekit.report.html.page import page
from tracekit.report.markdown import markdown
from tracekit.report.terminal import printout

DATA = Path(__file__).parents[1] / "data"
MS = 10**9


@pytest.fixture(scope="module")
def saved_reports(tmp_path_factory) -> dict[str, Path]:
    return {name: report(name).save(tmp_path_factory.mktemp(name)) for name in ("one", "phases")}


@pytest.fixture
def copy_saved(saved_reports, tmp_path) -> Callable[[str], Path]:
    """Put a saved report into the test's own directory, and return that: saving it again takes ten times as long."""
    return lambda name: shutil.copytree(saved_reports[name], tmp_path, dirs_exist_ok=True)


def as_pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_report_equals_the_one_that_was_saved(name, tmp_path):
    saved = report(name)
    loaded = tracekit.load(saved.save(tmp_path / "out"))
    assert loaded == saved
    assert markdown(loaded) == markdown(saved)
    assert page(loaded) == page(saved)
    assert json.dumps(loaded.summary()) == json.dumps(saved.summary())


def test_a_report_below_a_path_that_is_no_text_is_loaded(tmp_path):
    directory = tmp_path / os.fsdecode(b"r\xff")
    report(NAMES[0]).save(directory)
    assert tracekit.load(directory) == report(NAMES[0])


@pytest.mark.parametrize("often", [False, True])
def test_a_report_that_is_replaced_while_it_is_read_is_never_mixed(often, saved_reports, tmp_path, monkeypatch):
    first, second = (Path(shutil.copytree(saved_reports[name], tmp_path / name)) for name in ("one", "phases"))

    def read_and_exchanged(directory):
        if often or not second.with_suffix(".done").exists():
            document = storage.read(directory)
            first.rename(tmp_path / "third")
            second.rename(first)
            (tmp_path / "third").rename(second)
            second.with_suffix(".done").touch()
            return document
        return storage.read(directory)

    monkeypatch.setattr(load, "read", read_and_exchanged)
    if often:
        with pytest.raises(TracekitError, match="is written anew again and again"):
            tracekit.load(first)
    else:
        assert tracekit.load(first) == report("phases")


def test_a_written_frame_is_read_back_as_it_was_its_integers_as_differences(tmp_path):
    labels = pd.Categorical(["b", None, "a"] * 1000)
    frame = pd.DataFrame(
        {
            "start_ps": pd.Series(range(0, 3_000_000, 1000), dtype="int64") + 2**62,
            "bytes": pd.array([1, None, -(2**63)] * 1000, "Int64"),
            "ratio": pd.array([0.5, None, 1.5] * 1000, "Float64"),
            "name": labels,
            "text": pd.array(["x", None, "é"] * 1000, "str"),
            "is_last": [False, True, False] * 1000,
        }
    )
    storage.write_frame(frame, tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "a.parquet"), frame)
    group = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    packed = {name for name, column in columns.items() if "DELTA_BINARY_PACKED" in column.encodings}
    assert packed == {"start_ps", "bytes"} == {name for name, column in columns.items() if column.is_stats_set}
    assert columns["start_ps"].total_compressed_size < len(frame)  # of eight bytes each
    assert columns["start_ps"].statistics.min == 2**62


def test_a_difference_of_a_picosecond_is_a_difference():
    rows = [("gpu:0", "compute", 0, 10 * MS), ("gpu:1", "compute", 5 * MS, 15 * MS)]
    shorter = tracekit.analyse(trace(events(*rows)))
    longer = tracekit.analyse(trace(events(rows[0], ("gpu:1", "compute", 5 * MS, 15 * MS + 1))))
    assert shorter == tracekit.analyse(trace(events(*rows)))
    assert shorter != longer
    assert shorter != "a report"


def test_saving_again_leaves_no_frame_of_the_report_before(tmp_path):
    report("phases").save(tmp_path)
    assert tracekit.load(report("one").save(tmp_path)) == report("one")


def test_the_command_reports_on_a_saved_report_and_the_function_writes_its_page_without_a_timeline(tmp_path):
    with_phase = trace(events(("gpu:0", "compute", 0, 10 * MS)), spans(("p", 0, 10 * MS)))
    saved = tracekit.report(with_phase, tmp_path / "first")
    assert tracekit.report(tmp_path / "first") == saved
    assert tracekit.report(tmp_path / "first", tmp_path / "second") == saved
    assert sorted(path.name for path in (tmp_path / "second").iterdir()) == [
        "frames",
        "overlap.csv",
        "report.html",
        "report.md",
        "summary.json",
    ]
    assert "timeline-header" not in (tmp_path / "second" / "report.html").read_text("utf-8")


@pytest.mark.parametrize("option", ["phase", "alone", "baseline", "run", "kinds"])
def test_a_saved_report_takes_no_option_of_its_making(option, monkeypatch, capsys, copy_saved, tmp_path):
    copy_saved("one")
    monkeypatch.setattr("sys.argv", ["tracekit", "report", str(tmp_path), f"--{option}", "anything"])
    with pytest.raises(SystemExit, match="1"):
        main()
    out, err = capsys.readouterr()
    assert out == ""
    assert f"is a saved report, to which --{option} cannot be applied. Give the trace" in err


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda place: (place / "summary.json").unlink(), r"holds no report: summary\.json is not there"),
        (lambda place: (place / "summary.json").write_text("{"), r"summary\.json cannot be read: .*from its trace"),
        (lambda place: (place / "summary.json").write_text('{"schema": 99}'), r"has schema 99, .* reads 2"),
        (lambda place: (place / "summary.json").write_text("[]"), "has schema None"),
        (lambda place: next((place / "frames").iterdir()).unlink(), "is damaged: .*from its trace"),
        (
            lambda place: as_pipe(place / "summary.json"),
            r"summary\.json cannot be read: .*no regular file.*from its trace",
        ),
        (lambda place: as_pipe(place / "frames/whole.partition.parquet"), "is damaged: .* no regular file"),
        (lambda place: next((place / "frames").iterdir()).write_text("no"), "is damaged: .*from its trace"),
    ],
)
def test_what_is_no_saved_report_or_a_damaged_one_is_one_sentence(damage, sentence, copy_saved, tmp_path):
    copy_saved("one")
    damage(tmp_path)
    with pytest.raises(TracekitError, match=sentence):
        tracekit.load(tmp_path)


def _without(document, name):
    """Drop a field, whose place is named as in the report, from a summary.json."""
    *parts, last = name.split(".")
    data = document["report"]["fields"]
    for part in parts:
        data = data[int(part) if isinstance(data, list) else part]
    del data[last]


@pytest.mark.parametrize(
    "name",
    [
        "notes",
        "trace.clocks",
        "whole.waiting_ratio",
        "cores",
        "inside.both.pairs",
        "explanation.rows",
        "explanation.idle",
        "explanation.idle.largest",
        "advice.findings.0.share",
    ],
)
def test_what_an_earlier_version_did_not_write_is_null_and_a_note_says_so(name, copy_saved, tmp_path):
    document = json.loads((copy_saved("phases") / "summary.json").read_text("utf-8"))
    _without(document, name)
    (tmp_path / "summary.json").write_text(json.dumps(document), "utf-8")
    loaded = tracekit.load(tmp_path)
    assert loaded.notes[-1] == (
        f"{tmp_path}/summary.json, of another version of tracekit, does not hold {name}. "
        "Make the report again from its trace: tracekit report TRACE."
    )
    assert markdown(loaded).count("of another version of tracekit") == 1
    if name == "explanation.idle":
        assert loaded.explanation.idle.lacking.startswith(f"{tmp_path}/summary.json holds no idle. ")
    assert tracekit.load(loaded.save(tmp_path / "again")) == loaded


def test_a_column_that_an_earlier_version_did_not_write_is_null(copy_saved, tmp_path):
    saved = report("phases")
    file = copy_saved("phases") / "frames" / "explanation.idle.largest.parquet"
    pd.read_parquet(file).drop(columns=["idle_ps", "cause"]).to_parquet(file)
    document = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    for column in ("idle_ps", "cause"):
        del document["report"]["frames"]["explanation.idle.largest"][column]
    del document["report"]["digests"]  # nor did it write these
    (tmp_path / "summary.json").write_text(json.dumps(document), "utf-8")
    loaded = tracekit.load(tmp_path)
    assert "does not hold explanation.idle.largest.idle_ps, explanation.idle.largest.cause." in loaded.notes[-1]
    largest = loaded.explanation.idle.largest
    assert largest[["idle_ps", "cause"]].isna().all(axis=None)
    assert [*largest.columns[-2:]] == ["idle_ps", "cause"]
    kept = saved.explanation.idle.largest.drop(columns=["idle_ps", "cause"])
    assert largest[kept.columns].equals(kept)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda fields: fields.update(headline=5), "headline is 5"),
        (lambda fields: fields["explanation"].update(devices=None), "explanation.devices is None"),
        (lambda fields: fields["explanation"]["idle"].update(largest="other"), r"frames/other\.parquet"),
        (lambda fields: fields.update(trace="a"), "trace is 'a'"),
        (lambda fields: fields.update(windows=[]), r"windows is \[\]"),
        (lambda fields: fields.update(windows={"": [[0, 1e300]]}), "too large to convert"),
        (lambda fields: fields.pop("verdicts"), "verdicts is absent"),
        (lambda fields: fields["verdicts"].pop("both"), "its parts do not fit together"),
        (lambda fields: fields["explanation"]["collectives"].pop("total"), "does not hold explanation.collectives.tot"),
    ],
)
def test_what_is_malformed_or_cannot_be_absent_is_damage_in_one_sentence(change, fault, copy_saved, tmp_path):
    document = json.loads((copy_saved("phases") / "summary.json").read_text("utf-8"))
    change(document["report"]["fields"])
    (tmp_path / "summary.json").write_text(json.dumps(document), "utf-8")
    with pytest.raises(
        TracekitError, match=rf"^The report in .* is damaged: .*{fault}.*\. Make the report again .*\.$"
    ):
        tracekit.load(tmp_path)


@pytest.mark.parametrize(("dtype", "fault"), [("9" * 5000, "integer string conversion"), ("x", "not understood")])
def test_a_dtype_that_is_none_is_damage_in_one_sentence(dtype, fault, copy_saved, tmp_path):
    document = json.loads((copy_saved("one") / "summary.json").read_text("utf-8"))
    document["report"]["frames"]["whole.partition"]["busy_ps"] = dtype
    (tmp_path / "summary.json").write_text(json.dumps(document), "utf-8")
    with pytest.raises(TracekitError, match=f"^The report in .* is damaged: .*{fault}"):
        tracekit.load(tmp_path)


def test_a_frame_of_another_report_is_damage(copy_saved, tmp_path):
    other = (copy_saved("one") / "frames" / "whole.partition.parquet").read_bytes()
    ours = copy_saved("phases") / "frames" / "whole.partition.parquet"
    assert ours.read_bytes() != other
    ours.write_bytes(other)
    with pytest.raises(
        TracekitError, match=r"frames/whole\.partition\.parquet is not the one that was saved with summary"
    ):
        tracekit.load(tmp_path)


def test_a_summary_nested_too_deep_is_one_sentence(tmp_path):
    (tmp_path / "summary.json").write_text('{"schema": 2, "trace": ' + "[" * 200_000, "utf-8")
    with pytest.raises(TracekitError, match=r"summary\.json cannot be read: .*from its trace"):
        tracekit.load(tmp_path)


def test_a_frame_that_holds_more_rows_than_its_size_can_is_refused(copy_saved, tmp_path, monkeypatch):
    path = copy_saved("one") / "frames" / "whole.partition.parquet"
    table = pq.read_table(path).slice(0, 1)
    pq.write_table(table.take([0] * (1 << 20)), path, compression="zstd")
    document = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    del document["report"]["digests"]
    (tmp_path / "summary.json").write_text(json.dumps(document), "utf-8")
    with pytest.raises(TracekitError, match="is damaged: its parts do not fit together"):
        tracekit.load(tmp_path)
    monkeypatch.setattr(unpacking, "MOST_EXPANSION", 0)
    with pytest.raises(TracekitError, match="is damaged: it unpacks to more than 200 times its size"):
        tracekit.load(tmp_path)


def test_the_command_parses_the_summary_of_a_saved_report_once(monkeypatch, capsys, copy_saved, tmp_path):
    copy_saved("one")
    texts = []
    loads = json.loads
    monkeypatch.setattr(storage.json, "loads", lambda text: texts.append(text) or loads(text))
    cli.report(tmp_path)
    assert report("one").headline in capsys.readouterr().out
    assert [text for text in texts if "headline" in text] == [(tmp_path / "summary.json").read_text("utf-8")]


@pytest.mark.parametrize(("command", "name"), [("read", ""), ("read", "summary.json"), ("figure", ""), ("export", "")])
def test_commands_that_need_events_say_that_a_saved_report_has_none(
    command, name, monkeypatch, capsys, copy_saved, tmp_path
):
    copy_saved("one")
    monkeypatch.setattr("sys.argv", ["tracekit", command, str(tmp_path / name)])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"tracekit: {tmp_path} is a saved report, which holds the figures of a trace and not its events. "
        f"Give the trace that it was made from; `tracekit report {tmp_path}` prints the report."
    )


def test_view_names_the_page_of_a_saved_report(copy_saved, tmp_path):
    copy_saved("one")
    with pytest.raises(TracekitError, match=r"is a saved report, and view serves traces\. Open .*/report\.html in"):
        tracekit.view(tmp_path)


@pytest.mark.parametrize("text", ['{"accuracy": 0.9}', "[1]", "{}", "no JSON"])
def test_the_summary_of_another_program_beside_a_trace_makes_it_no_saved_report(text, tmp_path):
    (tmp_path / "trace").mkdir()
    shutil.copy(DATA / "kineto-rank1.pt.trace.json", tmp_path / "trace")
    (tmp_path / "trace" / "summary.json").write_text(text)
    report = tracekit.report(tmp_path / "trace", tmp_path / "out")
    assert report == tracekit.load(tmp_path / "out")
    with pytest.raises(tracekit.TracekitError):
        tracekit.load(tmp_path / "trace")


def test_a_report_in_hand_is_written_without_its_trace(tmp_path):
    saved = report("three")
    assert tracekit.report(saved, tmp_path) is saved
    assert (tmp_path / "report.html").is_file()
    assert tracekit.load(tmp_path) == saved
    with pytest.raises(tracekit.TracekitError, match="This is a saved report, to which --as-phase cannot be applied"):
        tracekit.report(saved, tmp_path, phases=["a"])


def test_a_saved_report_is_not_written_over_itself(tmp_path):
    tracekit.report(report("one"), tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_bytes()
    with pytest.raises(tracekit.TracekitError, match=r"is the saved report itself.* Give another --out\."):
        tracekit.report(tmp_path / "out", tmp_path / "out")
    assert (tmp_path / "out" / "report.html").read_bytes() == page


def test_the_summary_is_the_same_json_with_a_row_of_a_table_in_one_line(saved_reports):
    text = (saved_reports["phases"] / SUMMARY).read_text("utf-8")
    assert json.loads(text).items() >= json.loads(json.dumps(report("phases").summary())).items()
    lines = [line.strip().rstrip(",") for line in text.splitlines()]
    assert all(json.dumps(row) in lines for row in report("phases").summary()["overlap"])


@given(
    st.recursive(
        st.none() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    )
)
def test_any_document_is_written_as_json(document):
    assert json.loads(storage._json(document)) == document


def test_times_above_2_to_the_53_and_nulls_come_back_exactly(tmp_path):
    rows = events(("gpu:0", "compute", 0, 2**60 + 1), ("gpu:0", "collective", 5, 2**60 + 3, "all-reduce"))
    rows["bytes"] = pd.array([pd.NA, 2**62 + 1], "Int64")
    saved = tracekit.analyse(trace(rows))
    loaded = tracekit.load(saved.save(tmp_path))
    assert loaded == saved
    assert loaded.whole.partition["busy_ps"].tolist() == [2**60 + 3]


# What schema 1 says in words, and schema 2 with a key.
KEYS_OF_WORDS = {
    "an operand": "operand",
    "order in a queue": "queue_order",
    "order on a thread of the host": "thread_order",
    "members of a collective": "collective",
    "collective transfers": "collective_transfers",
    "the host": "host",
}
# Keys of schema 1 that have other names in schema 2.
RENAMED = {
    "told_by": "marked_by",
    "told_wait_ps": "recorded_wait_ps",
    "told_ratio": "coverage_ratio",
    "shown": "example",
}


@pytest.mark.parametrize("name", ["concurrent", "training"])
def test_a_summary_of_schema_1_loads_with_all_that_it_holds(name, tmp_path):
    """The files are of the gallery at 54ffded, their longest lists cut."""
    place = DATA / "report-schema-1" / name
    saved = json.loads(
        (place / "summary.json").read_text("utf-8"),
        object_hook=lambda row: {RENAMED.get(key, key): value for key, value in row.items()},
    )
    loaded = tracekit.load(place)
    summary = json.loads(json.dumps(loaded.summary()))
    # Sentences are those of this version, and of the lists that were cut it counts what is there.
    counts = {"steps_total", "by_device_total", "bound_total", "tiny_total", "steps_in_all", "by_device_found"}
    counts |= {"ops_found", "low_occupancy_found"}
    new = {"completeness", "host_api", "machine", "memory", "top_ops"}
    assert set(summary["lacking"]) == {*saved["lacking"], *new}
    for lacking in (summary["lacking"], saved["lacking"]):
        [lacking.pop(key, None) for key in ("findings", *new)]
    (zero,) = summary["trace"].pop("time_zero")
    assert zero == {"clock": "", "start_ps": saved["devices"][0]["window_start_ps"]}
    for clock in summary["trace"]["clocks"]:  # schema 1 knew no drift
        assert clock.pop("drift_ppm") is None
    assert summary["trace"].pop("commit") is None  # nor commits
    if rates := summary["bandwidth"]:  # nor of how much of the time FLOPs are known, and against which peak
        new_of_device = ("known_ps", "known_ratio", "known_flops_per_s", "known_flops_ratio", "peak_of")
        told = [row.pop(key) for row in rates["by_device"] for key in new_of_device]
        assert {*told, *(row.pop("peak_of") for row in rates["ops"])} <= {None}
    of_steps = summary["steps"]["steps"] if summary["steps"] else []
    assert {row.pop("slow_program") for row in of_steps} <= {None}  # nor which program made a step slow
    ended = summary["steps"]["by_device"] if summary["steps"] else []
    assert {row.pop("last_end_ps") for row in ended} <= {None}  # nor when a device ended a step
    path = saved["critical_path"] or {"edges": [], "what_if": [], "step_what_if": []}
    for row in [*path.get("steps", []), *path["what_if"]]:  # schema 1 had replays that left out what nothing explains
        for key in ("replayed_ps", "error_ratio", "without_ps"):
            row.pop(key, None)
    if summary["critical_path"]:
        assert [summary["critical_path"].pop(key) for key in ("busy_ratio", "queued_ratio", "unexplained")] == [
            None,
            None,
            [],
        ]
    for row in [*path["edges"], *path["what_if"], *path["step_what_if"]]:
        row |= {key: KEYS_OF_WORDS.get(row[key], row[key]) for key in ("edge", "what") if key in row}
    for counts_of in [*(kind for device in saved["devices"] for kind in device["kinds"].values()), *saved["guessed"]]:
        counts_of["events"] = counts_of.pop("intervals")
    if summary["collectives"]:  # schema 1 knew nothing of late hosts, nor of what a device would save if on time
        assert [summary["collectives"].pop(name) for name in ("by_host", "by_group")] == [[], []]
        assert {row.pop("gain_ps") for row in summary["collectives"]["by_device"]} == {None}
    for key in set(saved) - {"schema", "important", "notes", "findings"}:
        if isinstance(saved[key], dict):
            assert {part: value for part, value in summary[key].items() if part not in counts} == {
                part: value for part, value in saved[key].items() if part not in counts
            }
        else:
            assert summary[key] == saved[key], key
    assert [(row["rule"], row["cost_ps"], row["evidence"]) for row in summary["findings"] or ()] == [
        (row["rule"], row["cost_ps"], row["evidence"]) for row in saved["findings"] or ()
    ]
    assert tracekit.load(loaded.save(tmp_path)) == loaded


def test_of_a_report_of_schema_1_nobody_knows_what_is_missing():
    known = tracekit.load(DATA / "report-schema-1" / "concurrent").explanation.completeness
    assert not known.is_complete
    assert known.not_whole(1).startswith("does not tell what is missing: ")


def test_a_report_of_schema_1_says_what_is_absent_and_why():
    loaded = tracekit.load(DATA / "report-schema-1" / "concurrent")
    saved = json.loads((DATA / "report-schema-1" / "concurrent" / "summary.json").read_text("utf-8"))
    assert loaded.explanation.collectives.lacking == saved["lacking"]["collectives"]
    assert loaded.notes[-1].endswith(
        "summary.json, of schema 1, does not hold the single idle gaps, the launch queues over time, the rounds of "
        "phases and their parts of time; it holds 3 of 10 rows of offenders.by_device, 3 of 24 rows of bandwidth.ops. "
        "Make the report again from its trace: tracekit report TRACE."
    )
    assert page(loaded).count("schema 1") == 5
    assert markdown(loaded).count("schema 1") == 5
    assert repr(loaded.explanation) == "<Explanation: 2 devices: critical_path, offenders, idle, launches, bandwidth>"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda document: document["critical_path"].update(steps=[]), "does not hold the step of median length"),
        (lambda document: document.pop("critical_path"), "holds no critical_path"),
    ],
)
def test_a_section_that_a_file_of_schema_1_does_not_hold_is_lacking(change, sentence, tmp_path):
    document = json.loads((DATA / "report-schema-1" / "concurrent" / "summary.json").read_text("utf-8"))
    change(document)
    (tmp_path / "summary.json").write_text(json.dumps(document), "utf-8")
    assert f", of schema 1, {sentence}" in tracekit.load(tmp_path).explanation.critical_path.lacking


SCHEMA_1 = {name: DATA / "report-schema-1" / name / "summary.json" for name in ("training", "concurrent")}


def _keys(value, place=()):
    """The place of every key in the first rows of a document, no deeper than three."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield (*place, key)
            yield from _keys(part, (*place, key)) if len(place) < 2 else ()
    elif isinstance(value, list) and value:
        yield from _keys(value[0], (*place, 0))


def _places():
    """Every key of schema 1 once: its place, and a report that has it."""
    documents = {name: json.loads(file.read_text("utf-8")) for name, file in SCHEMA_1.items()}
    places = {place: name for name, document in documents.items() for place in _keys(document)}
    by_key = {}
    for place, name in places.items():
        by_key.setdefault(place[0], []).append((name, place))
    return by_key


@pytest.mark.parametrize("key", sorted(_places()))
def test_a_report_of_schema_1_without_one_of_its_parts_is_shown_or_refused_in_one_sentence(key, tmp_path):
    for name, (*above, last) in _places()[key]:
        text = SCHEMA_1[name].read_text("utf-8")
        for is_removed in (True, False):
            document = json.loads(text)
            part = document
            for step in above:
                part = part[step]
            if is_removed:
                del part[last]
            elif isinstance(part[last], list | dict) and part[last]:
                part[last] = type(part[last])()
            else:
                continue
            (tmp_path / "summary.json").write_text(json.dumps(document), "utf-8")
            try:
                loaded = tracekit.load(tmp_path)
            except TracekitError as error:
                assert str(error).endswith(storage.REMEDY)  # noqa: PT017
                continue
            for full in (False, True):
                printout.show(loaded, Console(file=io.StringIO(), width=120), full)
            markdown(loaded), page(loaded)


def test_a_part_that_a_report_of_schema_1_lacks_is_null_with_the_reason(tmp_path):
    document = json.loads(SCHEMA_1["concurrent"].read_text("utf-8"))
    del document["phases"][0]["efficiency"]
    (tmp_path / "summary.json").write_text(json.dumps(document), "utf-8")
    loaded, whole = tracekit.load(tmp_path), tracekit.load(SCHEMA_1["concurrent"].parent)
    assert loaded.notes[-1] == f"{tmp_path / SUMMARY} does not hold phases.efficiency. {storage.REMEDY}"
    assert loaded.phases.table["efficiency"].tolist()[1:] == whole.phases.table["efficiency"].tolist()[1:]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda document: document.update(phases=[]), "its parts do not fit together"),
        (lambda document: document["trace"].update(hosts=[None]), r"None is no text"),
        (lambda document: document["critical_path"]["notes"].append(None), r"None is no text"),
        (lambda document: document["idle"]["by_device"][0].pop("device"), r"it has no idle.by_device.device"),
    ],
)
def test_a_report_of_schema_1_whose_parts_do_not_fit_together_is_refused(change, reason, tmp_path):
    document = json.loads(SCHEMA_1["concurrent"].read_text("utf-8"))
    change(document)
    (tmp_path / "summary.json").write_text(json.dumps(document), "utf-8")
    with pytest.raises(TracekitError, match=f"is damaged: .*{reason}"):
        tracekit.load(tmp_path)
