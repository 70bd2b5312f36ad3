"""Summaries of hosts: every trace comes back as it was, and what is no whole summary is one sentence."""

import json
import tracemalloc
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests import traces
from tests.frames import events
from tracekit.columns import frame
from tracekit.errors import TraceError
from tracekit.readers import host_trace, read, summary
from tracekit.readers.summary import HostTrace
from tracekit.timeline.reduction import reduced
from tracekit.trace import FRAME_COLUMNS, LAUNCH_COLUMNS, OP_COLUMNS, SPAN_COLUMNS, Trace

GENERATED = [f"generated/{name}" for name in ("gpu.xplane.pb", "tpu.xplane.pb", "rocm.xplane.pb", "gpu.trace.json.gz")]
OWN = ["two-cpu-devices-jax0.12.0.xplane.pb", "stepped-cpu.xplane.pb.gz", "kineto-rank1.pt.trace.json"]
REAL = [
    "kineto/hta_rank0_queue",
    "nsys/mfu_2gpu_before-2xH100",
    "xplane/tpu-v6e-4chip",
    "mxnet/gpu_mnist_cnn_profile_output",
]


def assert_equal(trace, other):
    """Both traces have the same values, dtypes and categories, in the same order."""
    for name in FRAME_COLUMNS:
        table, others = getattr(trace, name), getattr(other, name)
        # Of what categories an empty list of them is, says nothing.
        empty = [column for column in table if isinstance(table[column].dtype, pd.CategoricalDtype)]
        empty = [column for column in empty if table[column].cat.categories.empty]
        assert all(others[column].cat.categories.empty and others[column].isna().all() for column in empty)
        pd.testing.assert_frame_equal(others.drop(columns=empty), table.drop(columns=empty), check_exact=True)
        assert list(others) == list(table)
    assert (other.notes, other.source, other.format) == (trace.notes, trace.source, trace.format)


def there_and_back(host, folder):
    path = folder / "host.tracekit.zip"
    summary.write(host, path)
    return summary.read(path)


@pytest.mark.parametrize("case", traces.cases(*GENERATED, *OWN, *REAL))
def test_a_trace_comes_back_as_its_reader_gave_it(tmp_path, case):
    source = traces.path(case)
    host = host_trace(source)
    back = there_and_back(host, tmp_path)
    assert_equal(host.trace, back.trace)
    assert replace(back, trace=host.trace) == host
    assert len(host.trace.events)


@pytest.fixture
def of_any_size(monkeypatch):
    """What is left of the rows stands beside them, however much of a summary it is."""
    monkeypatch.setattr(summary, "_MOST_BESIDE", 100)


@pytest.mark.usefixtures("of_any_size")
@pytest.mark.parametrize("case", traces.cases(*GENERATED, *OWN, *REAL))
def test_what_a_run_of_many_hosts_needs_stands_beside_the_rows(tmp_path, case):
    path, host = tmp_path / "host.tracekit.zip", host_trace(traces.path(case))
    small = reduced(host.trace)
    summary.write(host, path, small)
    assert_equal(host.trace, summary.read(path).trace)
    again = summary.read_reduced(path)
    if small is host.trace:
        assert again is None
    else:
        assert_equal(small, again.trace)
        assert len(again.trace.merged)
        assert replace(again, trace=host.trace) == host


def test_it_stands_there_only_where_it_is_little(tmp_path):
    path, host = tmp_path / "host.tracekit.zip", host_trace(traces.path(GENERATED[0]))
    sizes = []
    for of_trace in (None, host.trace, reduced(host.trace)):
        summary.write(host, path, of_trace)
        sizes.append(path.stat().st_size)
        assert summary.read_reduced(path) is None
    assert sizes[0] == sizes[1] == sizes[2]


@pytest.fixture
def with_reduced(tmp_path, of_any_size) -> Path:
    """The summary of a host that can do without most rows."""
    path, host = tmp_path / "host.tracekit.zip", host_trace(traces.path(GENERATED[0]))
    small = reduced(host.trace)
    assert small is not host.trace
    summary.write(host, path, small)
    return path


def left_with(path, **members):
    """What is left beside the rows in the summary at `path`, with other contents of some members."""
    part = path.with_name("left.zip")
    with zipfile.ZipFile(path) as archive:
        part.write_bytes(archive.read("reduced.tracekit.zip"))
    return rewritten(part, **members).read_bytes()


def test_what_does_not_fit_to_the_rows_is_passed_over(with_reduced, tmp_path):
    other, left = tmp_path / "other.tracekit.zip", tmp_path / "left.zip"
    host = host_trace(traces.path("generated/rocm.xplane.pb"))
    summary.write(host, other, reduced(host.trace))
    before = summary.read_reduced(with_reduced)
    counts = before.trace.counts
    fewer = before.trace.changed(counts=counts.assign(rows=counts["rows"] + 1))
    negative = before.trace.changed(counts=counts.assign(rows=[-1, *counts["rows"][1:]]))
    parts = [left_with(other)]
    for trace in (fewer, negative):
        parts.append(summary.to_bytes(HostTrace(trace.changed(merged=trace.merged[:0]), is_fitted=True)))
    parts.append(left_with(with_reduced, devices=b"PAR1 and no more"))
    left_with(with_reduced)
    parts.append(left_with(with_reduced, tracekit_summary=manifest(left, tracekit_summary=summary.VERSION + 1)))
    for part in parts:
        rewritten(with_reduced, reduced=part)
        assert summary.read_reduced(with_reduced) is None
    assert_equal(before.trace, reduced(summary.read(with_reduced).trace))


def test_a_part_that_is_packed_twice_is_not_unpacked(with_reduced):
    """It might hold so many times the size of what is unpacked from as many times that of the file."""
    with zipfile.ZipFile(with_reduced) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    inner = with_reduced.with_name("inner.zip")
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tracekit-summary.json", members["tracekit-summary.json"])
        archive.writestr("labels.parquet", bytes(200 << 20))
        archive.writestr(zipfile.ZipInfo("zeros"), bytes(3 << 20))
    with zipfile.ZipFile(with_reduced, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (members | {"reduced.tracekit.zip": inner.read_bytes()}).items():
            archive.writestr(name, content)
    tracemalloc.start()
    try:
        assert summary.read_reduced(with_reduced) is None
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_a_damaged_byte_anywhere_is_left_to_who_reads_all(with_reduced):
    data = with_reduced.read_bytes()
    with zipfile.ZipFile(with_reduced) as archive:
        places = [info.header_offset + 60 for info in archive.infolist() if info.filename.endswith(".parquet")]
    for place in places:
        with_reduced.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert summary.read_reduced(with_reduced) is None
    with_reduced.write_bytes(data)
    assert summary.read_reduced(with_reduced)


@pytest.mark.parametrize("content", [None, b"", b"PK and no more", "whole"], ids=str)
def test_where_that_is_damaged_or_gone_the_rows_tell_it(with_reduced, content):
    before = summary.read_reduced(with_reduced)
    if content == "whole":  # but cut in the middle
        with zipfile.ZipFile(with_reduced) as archive:
            content = archive.read("reduced.tracekit.zip")
            content = content[: len(content) // 2]
    rewritten(with_reduced, reduced=content)
    assert summary.read_reduced(with_reduced) is None
    assert_equal(before.trace, reduced(summary.read(with_reduced).trace))


def test_what_is_left_out_otherwise_than_today_is_passed_over(with_reduced, monkeypatch):
    assert summary.read_reduced(with_reduced)
    monkeypatch.setattr(summary, "REDUCTION", summary.REDUCTION + 1)
    assert summary.read_reduced(with_reduced) is None
    monkeypatch.undo()
    for values in ({"reduction": None}, {"reduction": summary.REDUCTION, "tracekit_summary": summary.VERSION + 1}):
        rewritten(with_reduced, tracekit_summary=manifest(with_reduced, **values))
        assert summary.read_reduced(with_reduced) is None


def test_of_damaged_rows_nothing_is_told_of_when_devices_computed(with_reduced):
    rewritten(with_reduced, events=b"PAR1 and no more")
    assert summary.read_reduced(with_reduced) is None
    with pytest.raises(TraceError, match="is a damaged summary: events"):
        read(with_reduced)


IDS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 3))
TIMES = st.integers(-(2**61), 2**61)
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "b;c", "\0", "\u00e9"]))
LENGTHS = st.integers(0, 2**60)


@settings(max_examples=40, deadline=None)
@given(
    calls=st.lists(st.tuples(TIMES, LENGTHS, IDS, TEXTS), max_size=6),
    ops=st.lists(st.tuples(TEXTS, TEXTS, IDS), max_size=4),
    steps=st.lists(st.tuples(IDS, TEXTS), max_size=4),
    are_spans=st.booleans(),
)
@example(  # from the last to the first time that there may be
    calls=[(2**61 - 10_000, 11_264, None, None), (-(2**61), 0, None, None)], ops=[], steps=[], are_spans=False
)
def test_any_values_and_nulls_come_back(tmp_path_factory, calls, ops, steps, are_spans):
    start, length, number, process = (list(column) for column in zip(*calls, strict=True)) if calls else ([],) * 4
    launches = {
        "host": ["h"] * len(calls),
        "process": process,
        "thread": ["t"] * len(calls),
        "name": ["n"] * len(calls),
        "start_ps": start,
        "end_ps": [a + b for a, b in zip(start, length, strict=True)],
        "correlation_id": number,
    }
    spans = [("h", None, "t", "n", 0, 1, step, None, text, None) for step, text in steps]
    if are_spans:
        repeated = zip(process, start, launches["end_ps"], strict=True)
        spans += [("h", its, "t", "n", a, b, None, None, None, None) for its, a, b in repeated][::-1]
    trace = Trace(
        events(("gpu:0", "compute", 0, 5)),
        spans=frame(SPAN_COLUMNS, spans),
        launches=frame(LAUNCH_COLUMNS, launches) if calls else frame(LAUNCH_COLUMNS),
        ops=frame(OP_COLUMNS, [("p", op, code, None, None, flops, None) for op, code, flops in ops]),
        notes=("a note",),
        source="/s",
        format="f",
    )
    host = HostTrace(trace, 4, {"a": [1]}, ("skipped",))
    back = there_and_back(host, tmp_path_factory.mktemp("summary"))
    assert_equal(trace, back.trace)
    assert replace(back, trace=trace) == host


def test_rows_of_nulls_alone_are_as_many(tmp_path):
    trace = Trace(events(("gpu:0", "compute", 0, 5)), ops=frame(OP_COLUMNS, [(None,) * 7] * 3))
    assert_equal(trace, there_and_back(HostTrace(trace), tmp_path).trace)


def test_a_kernel_takes_less_than_four_bytes(tmp_path):
    n, rng = 200_000, np.random.default_rng(0)
    length, gap = rng.integers(1000, 9000, n), rng.integers(500, 2000, n)
    end = np.cumsum(length + gap) * 1000
    kernels = events(*[("gpu:0", "compute", 0, 1)] * n).assign(
        start_ps=end - length * 1000,
        end_ps=end,
        correlation_id=pd.array(np.arange(n), "Int64"),
        name=pd.Categorical.from_codes(np.arange(n) % 300, [f"kernel_{at}" for at in range(300)]),
    )
    there_and_back(HostTrace(Trace(kernels)), tmp_path)
    # 13 and 11 bits of each row are chance.
    assert (tmp_path / "host.tracekit.zip").stat().st_size < 4 * n


@pytest.fixture
def whole(tmp_path) -> Path:
    path = tmp_path / "host.tracekit.zip"
    summary.write(host_trace(traces.path(OWN[0])), path)
    return path


def rewritten(path, **members):
    """The summary at `path` with other contents of some members, by name; None leaves one out."""
    with zipfile.ZipFile(path) as archive:
        contents = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            content = members.get(name.partition(".")[0].replace("-", "_"), content)
            if content is not None:
                archive.writestr(name, content)
    return path


def manifest(path, **values):
    with zipfile.ZipFile(path) as archive:
        return json.dumps(json.loads(archive.read("tracekit-summary.json")) | values).encode()


def test_a_newer_summary_is_one_sentence_that_says_what_to_do(whole):
    rewritten(whole, tracekit_summary=manifest(whole, tracekit_summary=2, tracekit="9.9"))
    with pytest.raises(
        TraceError, match=r"host.tracekit.zip is a summary of version 2, written by tracekit 9.9; .* reads version 1. "
    ):
        read(whole)


def test_what_a_later_version_of_the_same_form_adds_is_passed_over(whole):
    before = read(whole)
    rewritten(whole, tracekit_summary=manifest(whole, more=[1]), more=b"?")
    pd.testing.assert_frame_equal(read(whole).events, before.events)


@pytest.mark.parametrize(
    "members",
    [
        {"events": None},
        {"events": b"PAR1 and no more"},
        {"labels": None},
        {"tracekit_summary": b"{"},
        {"tracekit_summary": b"[]"},
        {"tracekit_summary": b"{}"},
    ],
    ids=str,
)
def test_a_damaged_summary_is_one_sentence(whole, members):
    rewritten(whole, **members)
    with pytest.raises(TraceError, match=r"host.tracekit.zip is a damaged summary: .*\. Make it again from the trace"):
        read(whole)


def with_a_row_of_each(path):
    """The trace in a summary, written to `path`, that has rows in each frame which no other one needs."""
    host = host_trace(traces.path(OWN[0]))
    call = {"host": "h", "process": "p", "thread": "t", "name": "wait", "start_ps": 1, "end_ps": 5}
    rows = {
        "memory": {"host": "h", "process": "p", "allocator": "a", "time_ps": 5, "delta_bytes": 64, "frees": False},
        "host_work": call,
        "syncs": call | {"on_device": "gpu:0"},
        "operands": {"op": 0, "operand": 0},
    }
    parts = {
        name: frame(FRAME_COLUMNS[name], {column: [value] for column, value in row.items()})
        for name, row in rows.items()
    }
    summary.write(replace(host, trace=host.trace.changed(**parts)), path)
    return read(path)


@pytest.mark.parametrize("content", [None, b"", b"PAR1 and no more", "other"], ids=str)
@pytest.mark.parametrize(
    ("name", "what"), [("memory", "details"), ("host_work", "tables"), ("syncs", "tables"), ("operands", "tables")]
)
def test_a_damaged_table_that_no_other_one_needs_costs_itself(tmp_path, name, what, content):
    path = tmp_path / "host.tracekit.zip"
    before = with_a_row_of_each(path)
    if content == "other":
        with zipfile.ZipFile(path) as archive:
            content = archive.read("hosts.parquet")
    rewritten(path, **{name: content})
    trace = read(path)
    assert len(getattr(before, name)) == 1
    for each in FRAME_COLUMNS:
        if each != "losses":
            expected = getattr(before, each)
            pd.testing.assert_frame_equal(
                getattr(trace, each), expected[:0] if each == name else expected, check_categorical=False
            )
    assert trace.losses[["what", "lost"]].to_numpy().tolist() == [[what, 1]]
    evidence = trace.losses["evidence"][0]
    assert evidence.startswith(f"the summary's {name}.parquet: ")
    assert " " in evidence.partition(": ")[2]
    assert any(evidence in note for note in trace.notes)
    with pytest.raises(TraceError, match=rf"is damaged: .*{name}\.parquet"):
        read(path, strict=True)


@pytest.mark.parametrize("name", ["events", "spans", "launches", "labels"])
@pytest.mark.parametrize("content", [b"", b"PAR1 and no more", "other"], ids=str)
def test_of_a_damaged_table_that_others_need_it_is_told_which_it_is_and_what_is_wrong(whole, name, content):
    if content == "other":
        file = BytesIO()
        pq.write_table(pa.table({"a": [1, 2]}), file)
        content = file.getvalue()
    rewritten(whole, **{name: content})
    with pytest.raises(
        TraceError, match=rf"is a damaged summary: {name}\.parquet: \w+ .*\. Make it again from the trace"
    ):
        read(whole)


def test_texts_that_are_not_there_are_one_sentence(whole, tmp_path):
    other = tmp_path / "other.zip"
    summary.write(host_trace(traces.path("view-cpu.xplane.pb")), other)
    with zipfile.ZipFile(other) as archive:
        rewritten(whole, labels=archive.read("labels.parquet"))
    with pytest.raises(TraceError, match="is a damaged summary"):
        read(whole)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"capture": "x"}, "capture"),
        ({"capture": [1]}, "capture"),
        ({"world_size": [1]}, "world_size"),
        ({"notes": "x"}, "notes"),
        ({"notes": [1]}, "notes"),
        ({"skipped": None}, "skipped"),
        ({"source": 1}, "source"),
        ({"steps": {"events": 1}}, "steps"),
        ({"steps": {}}, "its tables are not those that it names"),
    ],
)
def test_a_manifest_of_other_types_is_one_sentence(whole, values, fault):
    rewritten(whole, tracekit_summary=manifest(whole, **values))
    with pytest.raises(TraceError, match=rf"host.tracekit.zip is a damaged summary: .*{fault}.*\. Make it again from"):
        read(whole)


def with_column(path, name, column, values):
    """The summary with other values of one column of its frame `name`: those that `values` makes of an Arrow array."""
    with zipfile.ZipFile(path) as archive:
        table = pq.read_table(BytesIO(archive.read(f"{name}.parquet")))
    new = values(table[column] if column in table.column_names else table[0])
    at = table.column_names.index(column) if column in table.column_names else None
    table = table.append_column(column, new) if at is None else table.set_column(at, column, new)
    file = BytesIO()
    pq.write_table(table, file)
    return rewritten(path, **{name: file.getvalue()})


@pytest.mark.parametrize(
    ("name", "column", "values", "fault"),
    [
        (
            "events",
            "length_ps",
            lambda old: pa.array([1 << 62] * len(old)),
            "length_ps holds times of more than 53 days",
        ),
        ("events", "length_ps", lambda old: pa.array([1 << 60] * len(old)), "of more than 53 days"),
        ("events", "length_ps", lambda old: pa.array([-1] * len(old)), "a row ends before it starts"),
        ("events", "gap_ps", lambda old: pa.array([-(1 << 61)] * len(old)), "of more than 106 days"),
        ("events", "name", lambda old: pa.array(["x"] * len(old)), "events.name is of type string"),
        ("events", "name", lambda old: pa.array([0.5] * len(old)), "events.name is of type double"),
        ("events", "occupancy_ratio", lambda old: pa.array([1e300] * len(old)), "holds what is no ratio"),
        ("launches", "span", lambda old: pa.array([-1] * len(old)), "launches are spans that are not there"),
    ],
)
def test_values_that_no_trace_holds_are_one_sentence(whole, name, column, values, fault):
    with_column(whole, name, column, values)
    with pytest.raises(TraceError, match=rf"host.tracekit.zip is a damaged summary: .*{fault}"):
        read(whole)


@pytest.mark.parametrize("column", ["bytes", "correlation_id", "hlo_op", "category"])
def test_a_column_that_the_manifest_names_and_the_table_lacks_is_told(whole, column):
    before = read(whole)
    with zipfile.ZipFile(whole) as archive:
        table = pq.read_table(BytesIO(archive.read("events.parquet")))
    file = BytesIO()
    pq.write_table(table.drop_columns([column]), file)
    rewritten(whole, events=file.getvalue())
    trace = read(whole)
    assert before.events[column].notna().any()
    assert trace.events[column].isna().all()
    assert trace.losses[["host", "what", "lost"]].to_numpy().tolist() == [[before.hosts["host"][0], "details", 1]]
    assert trace.losses["evidence"][0].endswith(f"lacks events.{column}")
    with pytest.raises(TraceError, match=f"is damaged: 1 detail of .* lacks events.{column}"):
        read(whole, strict=True)


def with_texts(path, frame, column, texts):
    """The summary with these texts, too."""
    with zipfile.ZipFile(path) as archive:
        table = pq.read_table(BytesIO(archive.read("labels.parquet")))
    more = pa.table({"frame": [frame] * len(texts), "column": [column] * len(texts), "label": texts})
    file = BytesIO()
    pq.write_table(pa.concat_tables([table, more.cast(table.schema)]), file)
    return rewritten(path, labels=file.getvalue())


def test_texts_that_no_row_has_take_little_and_change_nothing(whole):
    before = read(whole)
    count = 200_000
    with_texts(whole, "events", "name", [f"{number:x}" for number in range(count)])
    tracemalloc.start()
    trace = read(whole)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * count  # a text of Python takes 50 bytes and more, and was there three times
    assert trace.events.astype({"name": object}).equals(before.events.astype({"name": object}))


@pytest.mark.parametrize("count", [1000, 3000])
def test_texts_may_repeat_and_rows_have_the_first_of_them(count, tmp_path):
    names = pd.Categorical.from_codes(np.arange(count), [f"kernel {number}" for number in range(count)])
    trace = Trace(events(*[("gpu:0", "compute", 0, 1)] * count).assign(name=names))
    path = tmp_path / "host.tracekit.zip"
    summary.write(HostTrace(trace), path)
    with_texts(path, "events", "name", ["kernel 0", "kernel 1"])
    assert_equal(trace, summary.read(path).trace)


@pytest.mark.parametrize(
    ("frame", "column", "text"),
    [("events", "name", None), ("nothing", "name", "x"), (None, "name", "x")],
)
def test_a_text_that_is_null_or_of_no_table_is_one_sentence(whole, frame, column, text):
    with_texts(whole, frame, column, [text])
    with pytest.raises(TraceError, match="a text is null, or of no table"):
        read(whole)


def test_texts_of_a_column_of_a_later_version_are_passed_over(whole):
    before = read(whole)
    with_texts(whole, "events", "colour", ["red"])
    assert_equal(before, read(whole))


def test_numbers_in_place_of_texts_are_one_sentence(whole):
    with zipfile.ZipFile(whole) as archive:
        steps = json.loads(archive.read("tracekit-summary.json"))["steps"]
    del steps["events"]["device"]
    rewritten(whole, tracekit_summary=manifest(whole, steps=steps))
    with pytest.raises(TraceError, match=r"events\.device is not as tracekit writes it"):
        read(whole)


def test_a_summary_of_more_than_its_size_can_hold_is_refused(whole):
    before = read(whole)
    with zipfile.ZipFile(whole) as archive:
        table = pq.read_table(BytesIO(archive.read("events.parquet")))
    file = BytesIO()
    pq.write_table(table.slice(0, 1).take([0] * (1 << 20)), file, compression="zstd")
    rewritten(whole, events=file.getvalue())
    with pytest.raises(
        TraceError, match=r"is a damaged summary: events\.parquet: it unpacks to more than 200 times its size"
    ):
        read(whole)
    long = replace(HostTrace(before), trace=replace(before, notes=("x" * (17 << 20),)))
    summary.write(long, whole)
    with pytest.raises(TraceError, match=r"tracekit-summary\.json is larger than any"):
        read(whole)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
def test_a_summary_that_was_cut_is_one_sentence(whole, share):
    content = whole.read_bytes()
    whole.write_bytes(content[: int(share * len(content))])
    with pytest.raises(TraceError, match=r"is a damaged summary|is not a supported trace"):
        read(whole)


def test_a_byte_that_was_changed_is_noticed(whole):
    content = bytearray(whole.read_bytes())
    with zipfile.ZipFile(whole) as archive:
        at = archive.getinfo("events.parquet").header_offset + 200
    content[at] ^= 1
    whole.write_bytes(content)
    with pytest.raises(TraceError, match="is a damaged summary"):
        read(whole)


def test_another_archive_is_no_summary(tmp_path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("trace.json", "{}")
    with pytest.raises(TraceError, match="is not a supported trace: it is a zip archive"):
        read(tmp_path / "other.zip")


@pytest.mark.parametrize("lost", [b"", b"PK\x03\x04" + bytes(26) + b"tracekit-summary.json{"])
def test_a_broken_summary_beside_others_is_a_hole_and_not_the_end(whole, lost):
    whole.with_name("lost.tracekit.zip").write_bytes(lost)
    trace = read(whole.parent)
    assert trace.notes[0].startswith("1 of 2 files of hosts or ranks could not be read (lost.tracekit.zip is ")
    assert trace.losses["lost"].tolist() == [1]
    assert len(trace.events) == len(read(whole).events)


@pytest.mark.parametrize("name", ["hosts", "devices"])
def test_a_summary_of_more_hosts_or_devices_than_a_file_has_is_one_sentence(tmp_path, name):
    columns = {"host": [f"h{at}" for at in range(10_001)]}
    columns |= {"source": ["a"] * 10_001} if name == "hosts" else {"device": [f"gpu:{at}" for at in range(10_001)]}
    tables = {name: frame(FRAME_COLUMNS[name], columns)}
    with pytest.raises(
        TraceError, match=f"damaged summary: {name}.parquet: it has 10,001 rows, and no file is of more"
    ):
        there_and_back(
            HostTrace(Trace(events(("gpu:0", "compute", 0, 9)), source="a", format="xplane", **tables)), tmp_path
        )
