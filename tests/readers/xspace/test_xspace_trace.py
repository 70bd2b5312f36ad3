"""Whole files, hand-made and real, with figures known beforehand; files cut between two planes tell what is missing."""

from itertools import pairwise

import pandas as pd
import pytest
from jax.profiler import ProfileData

from tests import traces
from tests.fuzz import fields_of, message_of, varint
from tests.readers.xspaces import PlaneText, write
from tracekit.errors import TraceError
from tracekit.readers import protobuf_decoder as protobuf
from tracekit.readers import read, xspace
from tracekit.readers.xspace import xspace_file, xspace_trace
from tracekit.trace import FRAME_COLUMNS

# What a profiler writes last: a file with it is not cut.
SESSION = 'planes { name: "Task Environment" }'


def rows(path, *columns):
    table = read(path).events[list(columns)].astype(object)
    return table.where(table.notna(), None).values.tolist()


def test_a_broken_time_is_left_out_and_noted(tmp_path):
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "ok", 0, 1).event("Stream #1(Compute)", "bad", 5, -7)
    trace = read(write(tmp_path / "h.xplane.pb", plane.text()))
    assert trace.events["name"].tolist() == ["ok"]
    assert "gpu:0: 1 events damaged or without a valid time were skipped." in trace.notes


def test_planes_that_are_empty_or_no_device_are_noted(tmp_path):
    text = PlaneText("/device:GPU:0").text() + PlaneText("/device:CUSTOM:Megascale").text()
    text += PlaneText("/device:GPU:1").event("Stream #1(Compute)", "k", 0, 1).text()
    assert read(write(tmp_path / "h.xplane.pb", text)).notes == (
        "No work was recorded on gpu:0 (empty planes).",
        "Skipped (not a GPU or TPU core): /device:CUSTOM:Megascale.",
    )


def test_no_event_is_longer_than_its_profile_or_where_that_is_unknown_than_a_day(tmp_path):
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "ok", 0, 900)
    plane.event("Stream #1(Compute)", "odd", 0, 1001)
    session = PlaneText("Task Environment", profile_start_time=5 * 10**18, profile_stop_time=5 * 10**18 + 1000)
    assert rows(write(tmp_path / "h.xplane.pb", plane.text() + session.text()), "name") == [["ok"]]
    plane.event("Stream #1(Compute)", "overflow", 0, 86_400 * 10**9 + 1)
    assert rows(write(tmp_path / "h.xplane.pb", plane.text()), "name") == [["ok"], ["odd"]]


@pytest.mark.parametrize("start", [2**63 - 500, 2**63 - 10**12])
def test_a_profile_of_no_year_that_there_is_has_no_time(tmp_path, start):
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 10**12, 900)
    session = PlaneText("Task Environment", profile_start_time=start, profile_stop_time=start + 400)
    trace = read(write(tmp_path / "h.xplane.pb", plane.text() + session.text()))
    assert (len(trace.events), trace.hosts["origin_ns"].isna().tolist()) == (1, [True])
    assert trace.losses["evidence"].tolist() == ["profile_start_time, profile_stop_time"]


def test_devices_that_lack_the_same_share_a_note(tmp_path):
    text = "".join(PlaneText(f"/device:GPU:{at}").event("Stream #1(Compute)", "k", 0, -7).text() for at in range(2))
    assert read(write(tmp_path / "h.xplane.pb", text)).notes == (
        "gpu:0, gpu:1: 1 events damaged or without a valid time were skipped.",
    )


def test_events_without_a_time_are_lost_and_a_plane_called_almost_like_a_device_is_told(tmp_path):
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 0, -7).event("Stream #1(Compute)", "l", 9, 7)
    other = PlaneText("/gpu:1").event("Stream #1(Compute)", "k", 0, 7)
    trace = read(write(tmp_path / "h.xplane.pb", plane.text() + other.text()))
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["planes", 1, 2], ["events", 1, 2]]
    assert "1 of 2 planes could not be read (called as no profiler calls them: /gpu:1)." in trace.notes


def test_a_host_plane_is_missed_where_another_is_called_almost_so(tmp_path):
    host = PlaneText("/host:CPX").event("python", "train", 0, 7).text()
    trace = read(
        write(tmp_path / "h.xplane.pb", PlaneText("/device:GPU:0").event("Stream #1", "k", 0, 7).text() + host)
    )
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["planes", 1, 2]]
    both = host + PlaneText("/host:CPU").event("python", "train", 0, 7).text()
    assert read(write(tmp_path / "h.xplane.pb", both)).losses.empty


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (("XLA Opt", "XLA Modules", "Steps"), ["lines"]),
        (("XLA Ops", "", "TC Overlay"), ["lines"]),
        (("XLA Ops", "XLA Modules", "Rings"), []),
        (("XLA Ops", "XLA Modules", "_counters_"), []),
    ],
)
def test_a_line_of_a_tpu_that_may_be_that_of_its_work_is_counted(tmp_path, lines, what):
    plane = PlaneText("/device:TPU:0")
    for line in lines:
        plane.event(line, "jit_f(7)", 0, 7)
    trace = read(write(tmp_path / "h.xplane.pb", plane.text()))
    assert trace.losses["what"].tolist() == what
    assert any("lines of unknown meaning were skipped: Rings" in note for note in trace.notes) == ("Rings" in lines)


@pytest.mark.parametrize("name", ["#Chip0 Misc", "Host CPUs", "Syscalls", "/custom:a", "/host:python-tracer", "Rings"])
def test_a_plane_of_which_nothing_is_asked_is_no_loss(tmp_path, name):
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 0, 7)
    trace = read(write(tmp_path / "h.xplane.pb", plane.text() + PlaneText(name).event("a", "b", 0, 7).text()))
    assert trace.losses.empty
    assert ("Skipped (not a GPU or TPU core): Rings." in trace.notes) == (name == "Rings")


@pytest.mark.parametrize("name", ["", "/DEVICE:GPU:1", "/device:GPU:x", "/device:GPU:1/y", "hos:CPU"])
def test_a_plane_that_is_called_as_no_profiler_calls_it_is_counted(tmp_path, name):
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 0, 7)
    other = PlaneText(name).event("Stream #1(Compute)", "k", 0, 7)
    trace = read(write(tmp_path / "h.xplane.pb", plane.text() + other.text()))
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["planes", 1, 2]]


def test_an_event_outside_of_the_profile_is_counted_where_the_file_tells_how_long_that_was(tmp_path):
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 0, 7).event("Stream #1(Compute)", "l", 9, 7)
    plane.event("Stream #1(Compute)", "late", 18_000 * 10**9, 7)
    assert len(read(write(tmp_path / "h.xplane.pb", plane.text())).events) == 3  # such a profile is possible
    session = PlaneText("Task Environment", profile_start_time=5 * 10**18, profile_stop_time=5 * 10**18 + 10**9)
    trace = read(write(tmp_path / "h.xplane.pb", plane.text() + session.text()))
    assert trace.events["name"].tolist() == ["k", "l"]
    assert trace.losses[["what", "lost", "evidence"]].to_numpy().tolist() == [
        ["events", 1, "their times are outside of the profile"]
    ]


@pytest.mark.parametrize("zero_ns", [0, 18 * 10**17])
@pytest.mark.parametrize(
    ("late_ns", "is_lost"),
    # A tenth of a second of profile, and one more by which a clock may be off, on either side.
    [(10**8, False), (199 * 10**6, False), (201 * 10**6, True), (35 * 10**9, True), (-99 * 10**6, False),
     (-101 * 10**6, True)],
)  # fmt: skip
def test_an_event_that_begins_long_before_or_after_the_profile_is_lost(tmp_path, zero_ns, late_ns, is_lost):
    plane = PlaneText("/device:GPU:0")
    for name, at_ns in (("k", 0), ("l", 9000), ("late", late_ns)):
        plane.event("Stream #1(Compute)", name, at_ns, 7)
    session = PlaneText("Task Environment", profile_start_time=18 * 10**17, profile_stop_time=18 * 10**17 + 10**8)
    trace = read(write(tmp_path / "h.xplane.pb", plane.text(zero_ns) + session.text()))
    assert ("late" not in trace.events["name"].tolist(), len(trace.losses)) == (is_lost, is_lost)


def test_where_more_than_a_few_events_are_outside_of_the_profile_its_time_is_not_believed(tmp_path):
    plane = PlaneText("/device:GPU:0")
    for at_ns in (0, 9000, 18_000, 201 * 10**6, 202 * 10**6):
        plane.event("Stream #1(Compute)", "k", at_ns, 7)
    session = PlaneText("Task Environment", profile_start_time=18 * 10**17, profile_stop_time=18 * 10**17 + 10**8)
    trace = read(write(tmp_path / "h.xplane.pb", plane.text() + session.text()))
    assert (len(trace.events), len(trace.losses)) == (5, 0)


def test_a_device_whose_clock_is_another_one_keeps_its_events(tmp_path):
    plane = PlaneText("/device:GPU:0")
    plane.event("Stream #1(Compute)", "k", 0, 7).event("Stream #1(Compute)", "l", 9, 7)
    host = PlaneText("/host:CPU").event("main", "f", 0, 7).event("main", "g", 9, 7).event("main", "h", 20, 7)
    session = PlaneText("Task Environment", profile_start_time=18 * 10**17, profile_stop_time=18 * 10**17 + 10**8)
    trace = read(write(tmp_path / "h.xplane.pb", host.text() + plane.text(20 * 10**9) + session.text()))
    assert (trace.events["name"].tolist(), len(trace.losses)) == (["k", "l"], 0)


# The fields of the messages of an XSpace that are messages, as the events lie in them.
_INNER = {"space": {1: "plane"}, "plane": {3: "line"}, "line": {4: "event"}, "event": {4: "stat"}}


def with_long_tags(message: bytes, kind: str = "space") -> bytes:
    """The message with tags of five bytes, of which 32 bits count, down to the stats of events."""
    parts = []
    for number, wire_type, start, end in protobuf.fields(message, 0, len(message)):
        content = message[start:end]
        if inner := _INNER.get(kind, {}).get(number):
            content = with_long_tags(content, inner)
        tag = 1 << 32 | number << 3 | wire_type
        parts += [varint(tag), varint(len(content)) if wire_type == protobuf.LENGTH else b"", content]
    return b"".join(parts)


@pytest.mark.parametrize("loop", ["plain", "compiled"])
def test_tags_that_have_bytes_too_many_are_read_as_others_read_them(tmp_path, monkeypatch, loop):
    monkeypatch.setattr(xspace_file, "COMPILE_FROM_BYTES", 0 if loop == "compiled" else 10**12)
    source = traces.DATA / "generated" / "gpu.xplane.pb"
    path = tmp_path / source.name
    path.write_bytes(with_long_tags(source.read_bytes()))
    trace, whole = read(path), read(source)
    assert trace.losses.empty
    for name in ("events", "spans", "launches"):
        pd.testing.assert_frame_equal(getattr(trace, name), getattr(whole, name))


def with_another_wire_type(message: bytes, place: tuple[int, ...]) -> bytes:
    """The message with the first field at a place, the numbers of fields from the outside in, as a fixed32."""
    fields = fields_of(message)
    at = next(at for at, (number, _, _) in enumerate(fields) if number == place[0])
    number, kind, value = fields[at]
    inner = with_another_wire_type(value, place[1:]) if place[1:] else b"\1\1\1\1"
    fields[at] = number, kind if place[1:] else protobuf.FIXED32, inner
    return message_of(fields)


@pytest.mark.parametrize("loop", ["plain", "compiled"])
@pytest.mark.parametrize(
    ("place", "what", "rows_left"),
    [
        pytest.param((1,), "planes", 1, id="a plane"),
        pytest.param((2,), "details", 3, id="an error of the space"),
        pytest.param((1, 2), "planes", 1, id="the name of a plane"),
        pytest.param((1, 3), "lines", 1, id="a line"),
        pytest.param((1, 3, 2), "lines", 1, id="the name of a line"),
        pytest.param((1, 3, 3), "lines", 1, id="the time of a line"),
        pytest.param((1, 3, 4), "lines", 1, id="an event"),
        pytest.param((1, 3, 4, 1), "events", 2, id="the metadata of an event"),
        pytest.param((1, 3, 4, 2), "events", 2, id="the offset of an event"),
        pytest.param((1, 3, 4, 3), "events", 2, id="the duration of an event"),
        pytest.param((1, 3, 4, 4), "events", 2, id="a stat of an event"),
        pytest.param((1, 3, 4, 4, 4), "events", 2, id="the value of a stat"),
        pytest.param((1, 4), "details", 3, id="metadata of events"),
        pytest.param((1, 4, 1), "details", 3, id="the id of metadata"),
        pytest.param((1, 4, 2), "details", 3, id="the value of metadata"),
        pytest.param((1, 4, 2, 2), "details", 3, id="the name of an event"),
        pytest.param((1, 4, 2, 5), "details", 3, id="a stat of metadata"),
        pytest.param((1, 4, 2, 5, 4), "details", 3, id="the value of a stat of metadata"),
        pytest.param((1, 5), "details", 3, id="the name of a stat"),
        pytest.param((1, 5, 2, 2), "details", 3, id="the text of the name of a stat"),
        pytest.param((1, 6), "details", 3, id="a stat of a plane"),
        pytest.param((1, 6, 4), "details", 3, id="the value of a stat of a plane"),
    ],
)
def test_a_value_of_another_wire_type_is_counted(tmp_path, monkeypatch, loop, place, what, rows_left):
    monkeypatch.setattr(xspace_file, "COMPILE_FROM_BYTES", 0 if loop == "compiled" else 10**12)
    plane = PlaneText("/device:GPU:0", memory_bandwidth=5).event("Stream #1(Compute)", "k", 1, 7, correlation_id=3)
    plane.event("Stream #1(Compute)", "l", 9, 7, correlation_id=4).describe("k", flops=7).describe("l", flops=7)
    other = PlaneText("/device:GPU:1").event("Stream #1(Compute)", "k", 1, 7)
    path = write(tmp_path / "h.xplane.pb", plane.text() + other.text() + SESSION + 'errors: "e"')
    path.write_bytes(with_another_wire_type(path.read_bytes(), place))
    trace = read(path)
    # An event without metadata lost its name besides, and work its call with the name of `correlation_id`.
    assert {what} <= set(trace.losses["what"]) <= {what, "details", "kinds", "events"}
    assert len(trace.events) == rows_left
    assert any("could not be read" in note or "1 events damaged" in note for note in trace.notes)


def test_a_stat_whose_name_is_lost_is_counted_where_events_have_it(tmp_path):
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 1, 7, correlation_id=3)
    text = plane.text() + SESSION
    assert not len(read(write(tmp_path / "h.xplane.pb", text)).losses)
    trace = read(write(tmp_path / "i.xplane.pb", text.replace('name: "correlation_id"', 'name: ""')))
    # What launched the work is not known then, and what rests on that is withheld.
    assert trace.losses[["what", "lost"]].to_numpy().tolist() == [["details", 1], ["events", 1]]


@pytest.mark.parametrize("name", ["", "Stre\x01m #2", "\ufffd"])
def test_a_line_of_a_gpu_without_a_name_is_lost(tmp_path, name):
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 1, 7).event(name, "l", 9, 7)
    trace = read(write(tmp_path / "h.xplane.pb", plane.text()))
    assert trace.events["name"].tolist() == ["k"]
    lost = trace.losses[["what", "lost", "total", "evidence"]].to_numpy().tolist()
    assert ["lines", 1, 2, "without a name, of gpu:0"] in lost


def test_times_count_from_the_start_of_the_profile_whose_unix_time_is_that_of_the_host(tmp_path):
    text = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 20, 1).text(line_stamp_ns=300)
    session = PlaneText("Task Environment", profile_start_time=5 * 10**18, profile_stop_time=6 * 10**18)
    assert read(write(tmp_path / "h.xplane.pb", text)).hosts["origin_ns"].isna().all()
    path = write(tmp_path / "h.xplane.pb", text + session.text())
    assert read(path).hosts["origin_ns"].tolist() == [5 * 10**18 + 320]


def test_a_file_mangled_by_a_text_encoding_fails_with_one_sentence(tmp_path):
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(traces.path("generated/tpu.xplane.pb").read_bytes().decode("utf-8", "replace").encode())
    with pytest.raises(TraceError, match=r"is corrupt or not an XSpace: the bytes at offset \d+"):
        read(path)


def test_what_seems_to_go_on_behind_its_end_and_is_no_plane_is_not_called_cut(tmp_path):
    path = tmp_path / "h.xplane.pb"
    whole = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 20, 1).text()
    raw = write(path, whole).read_bytes()
    for content in (b"\nno trace but a text of several words\n", raw[:10] + bytes(9)):
        path.write_bytes(content)
        with pytest.raises(TraceError, match="is corrupt or not an XSpace"):
            read(path)


@traces.needs_real
def test_a_real_file_mangled_by_a_text_encoding_fails_with_one_sentence():
    path = traces.xspace("xplane/corrupt")
    with pytest.raises(TraceError, match=r"is corrupt or not an XSpace: the bytes at offset \d+"):
        read(path)


@pytest.mark.parametrize(
    ("case", "kinds", "count", "size", "ranks"),
    [
        traces.param("generated/tpu.xplane.pb", ["memcpy", "collective"], 6, {8 << 20}, {"0,1"}),
        # The same groups stand in the text of the op as [4,2]<=[2,4]T(1,0), and in its proto one by one.
        traces.param(
            "xplane/tpu-v6e-4chip", ["memcpy"], 600, {5 * 1024 * 1024 * 256 * 4}, {"{{0,4},{1,5},{2,6},{3,7}}"}
        ),
    ],
)
def test_the_pairs_of_a_tpu_are_those_that_its_line_of_ops_in_flight_shows(case, kinds, count, size, ranks):
    space = xspace_file.read(traces.xspace(case), (), xspace.is_decoded)
    zero = min(int(plane.start_ps(0).min()) for plane in space.planes if len(plane))
    (plane,) = (plane for plane in space.planes if plane.name == "/device:TPU:0")
    in_flight = plane.line == [line.name for line in plane.lines].index("Async XLA Ops")
    start = plane.start_ps(0)[in_flight] - zero
    events = traces.trace(case).events
    pairs = events[(events["device"] == "tpu:0") & events["kind"].isin(kinds) & (events["hlo_op"] != "all-reduce.6")]
    assert sorted(pairs[["start_ps", "end_ps"]].values.tolist()) == sorted(
        map(list, zip(start.tolist(), (start + plane.duration_ps[in_flight]).tolist(), strict=True))
    )
    assert len(pairs) == count
    assert set(pairs.loc[pairs["kind"] == "memcpy", "bytes"]) == size
    assert set(events.loc[events["kind"] == "collective", "ranks"]) == ranks


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        traces.param("generated/rocm.xplane.pb", {"H2D": 7, "D2D": 6}),  # of 6 others it is not known
        traces.param("xplane/jax-MI300X-gemm", {"H2D": 12, "D2D": 12}),
    ],
)
def test_copy_kernels_of_a_rocm_trace_have_the_direction_of_their_launch(case, expected):
    events = traces.trace(case).events
    copies = events[events["kind"] == "memcpy"]
    assert copies.groupby("direction", observed=True).size().to_dict() == expected
    assert copies.loc[copies["direction"] == "D2D", "hlo_op"].unique().tolist() == ["copy.1"]


WHOLE = sorted(traces.DATA.glob("*.xplane.pb"))


def planes(raw):
    """Where each plane of a serialised XSpace ends."""
    return [end for number, _, _, end in protobuf.fields(raw, 0, len(raw)) if number == 1]


def truncation_notes(notes):
    """The notes that say that something is missing from the file."""
    return [note for note in notes if "truncated" in note]


def cut(tmp_path, raw, end):
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(raw[:end])
    return truncation_notes(read(path).notes)


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_captures_cut_between_planes_are_noted_and_whole_ones_are_not(tmp_path, path):
    raw = path.read_bytes()
    assert truncation_notes(read(path).notes) == []
    for end in planes(raw)[:-1]:
        (note,) = cut(tmp_path, raw, end)
        evidence = read(tmp_path / "host.xplane.pb").losses.query("what == 'planes'")["evidence"]
        # Of a file without any work nobody knows whether it had some.
        assert [*evidence.str.startswith("the file ends before Task Environment")] == [True] * ("no work" not in note)


@pytest.mark.parametrize(
    "case",
    traces.cases(
        *(f"generated/{name}.xplane.pb" for name in ("gpu", "rocm", "tpu")),
        *(f"xplane/{name}" for name in ("tf-8xV100", "tpu-v6e-4chip", "jax-8xMI300X", "jax-MI300X-gemm")),
        "xplane/xla-2xGTX1080Ti",
    ),
)
def test_device_traces_cut_between_planes_are_noted_and_whole_ones_are_not(tmp_path, case):
    raw = traces.xspace(case).read_bytes()
    assert truncation_notes(traces.trace(case).notes) == []
    # Without the last plane nothing of interest is lost: no GPU's work in the TensorFlow trace, the session in others.
    for end in planes(raw)[:-2]:
        assert cut(tmp_path, raw, end)


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_of_a_file_cut_inside_a_plane_the_planes_before_it_are_read(tmp_path, path):
    raw = path.read_bytes()
    first, *ends = planes(raw)
    for end in (first - 1, first // 2):
        with pytest.raises(TraceError, match=r"is cut short: it has [\d,]+ bytes, and [\d,]+ more"):
            cut(tmp_path, raw, end)
    for before, end in pairwise([first, *ends]):
        cut(tmp_path, raw, before)
        whole = read(tmp_path / "host.xplane.pb")
        cut(tmp_path, raw, end - 1)
        trace = read(tmp_path / "host.xplane.pb")
        pd.testing.assert_frame_equal(trace.events, whole.events)
        assert set(trace.losses["what"]) <= {"planes", "details"}
        assert len(trace.losses) == len(whole.losses) + 1


def gpu(number, many=1):
    plane = PlaneText(f"/device:GPU:{number}")
    for at in range(many):
        plane.event("Stream #1(Compute)", "k", 10 * at, 9)
    return ProfileData.text_proto_to_serialized_xspace(plane.text())


def test_of_several_planes_the_one_that_is_damaged_is_left_out_and_told(tmp_path):
    path = tmp_path / "h.xplane.pb"
    for number in range(3):
        planes_of = [gpu(0), gpu(1), gpu(2)]
        planes_of[number] = planes_of[number][:2] + b"\xff" * (len(planes_of[number]) - 2)
        path.write_bytes(b"".join(planes_of))
        trace = read(path)
        assert sorted(trace.events["device"]) == [f"gpu:{other}" for other in range(3) if other != number]
        assert trace.losses[["what", "lost"]].to_numpy().tolist() == [["planes", 1]]
        (note,) = trace.notes
        assert "1 plane could not be read" in note


def test_of_two_planes_of_one_device_the_fuller_is_read(tmp_path):
    text = "".join(PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 0, 9).text() for _ in range(2))
    fuller = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "a", 0, 9).event("Stream #1(Compute)", "b", 10, 9)
    trace = read(write(tmp_path / "h.xplane.pb", text + fuller.text()))
    assert trace.events["name"].tolist() == ["a", "b"]
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["planes", 2, 3]]


def plane_of(fields, name):
    """The place of a plane among the fields of a space, and its own fields."""
    return next(
        (at, fields_of(value))
        for at, (_, _, value) in enumerate(fields)
        if (2, protobuf.LENGTH, name.encode()) in fields_of(value)
    )


@pytest.mark.parametrize("what", ["planes", "lines"])
@pytest.mark.parametrize("name", ["/host:CPU", "/device:GPU:0"])
def test_what_stands_twice_counts_once_and_is_told(name, what, tmp_path):
    path = traces.DATA / "generated" / "gpu.xplane.pb"
    whole = read(path)
    fields = fields_of(path.read_bytes())
    place, plane = plane_of(fields, name)
    if what == "planes":
        fields.append(fields[place])
    else:
        line = next(each for each in plane if each[0] == 3)
        fields[place] = (1, protobuf.LENGTH, message_of([*plane, line]))
    (tmp_path / "twice.xplane.pb").write_bytes(message_of(fields))
    twice = read(tmp_path / "twice.xplane.pb")
    for table in ("events", "spans", "launches"):
        assert len(getattr(twice, table)) == len(getattr(whole, table))
    assert twice.losses[["what", "lost"]].to_numpy().tolist() == [[what, 1]]
    with pytest.raises(TraceError, match="stands in the file twice"):
        read(tmp_path / "twice.xplane.pb", strict=True)


@pytest.mark.parametrize("how", ["behind", "beside", "one"])
@pytest.mark.parametrize(
    ("file", "name"),
    [("gpu", "/host:CPU"), ("gpu", "/device:GPU:0"), ("tpu", "/device:TPU:0"), ("rocm", "/device:GPU:0")],
)
def test_events_that_stand_on_a_line_twice_count_once_and_are_told(file, name, how, tmp_path):
    path = traces.DATA / "generated" / f"{file}.xplane.pb"
    whole = read(path)
    fields = fields_of(path.read_bytes())
    place, plane = plane_of(fields, name)
    lines = [at for at, each in enumerate(plane) if each[0] == 3]
    for at in lines:
        line = fields_of(plane[at][2])
        events = [each for each in line if each[0] == 4]
        if how == "behind":
            plane[at] = (3, protobuf.LENGTH, message_of([*line, *events]))
        elif how == "one":
            behind = next(k for k, each in enumerate(line) if each is events[0]) + 1
            plane[at] = (3, protobuf.LENGTH, message_of([*line[:behind], events[0], *line[behind:]]))
        elif name.startswith("/device:"):  # threads may be called alike
            other = [each for each in line if each[0] != 1] + [(1, protobuf.VARINT, varint(1000 + at))]
            plane.append((3, protobuf.LENGTH, message_of(other)))
    fields[place] = (1, protobuf.LENGTH, message_of(plane))
    (tmp_path / path.name).write_bytes(message_of(fields))
    twice = read(tmp_path / path.name)
    for table in ("events", "spans", "launches"):
        every = [getattr(trace, table) for trace in (whole, twice)]
        every = [each.astype(dict.fromkeys(each.select_dtypes("category"), "str")) for each in every]
        if how == "beside" and table == "events":  # lines that are called alike are told apart by their ids
            every = [each.assign(lane=each["lane"].str.replace(r" \[\d+\]$", "", regex=True)) for each in every]
        one, other = (each.sort_values(list(each.columns), ignore_index=True) for each in every)
        pd.testing.assert_frame_equal(one, other)
    told = [loss for loss in twice.losses["evidence"].dropna() if "twice" in loss]
    expected = f"events of {name} that stand in the file twice, of which one counts"
    assert told == ([] if how == "beside" and name == "/host:CPU" else [expected])


def test_events_of_one_thread_that_differ_in_anything_are_none_again(tmp_path):
    usual = {"correlation_id": 1}
    host = PlaneText("/host:CPU")
    for label, start, length, ids in (
        ("cuLaunchKernel", 0, 9, usual),
        ("cuLaunchKernel", 0, 8, usual),
        ("cuLaunchKernelEx", 0, 9, usual),
        ("cuLaunchKernel", 0, 9, {"correlation_id": 2}),
        ("mark", 5, 0, {}),
        ("mark", 5, 0, {}),
    ):
        host.event("t", label, start, length, **ids)
    trace = read(write(tmp_path / "h.xplane.pb", host.text()))
    assert (len(trace.launches), len(trace.spans)) == (4, 6)
    assert not any("twice" in loss for loss in trace.losses["evidence"])


def test_an_id_of_63_bits_leaves_ids_for_the_calls_that_have_none(tmp_path):
    raw = (traces.DATA / "view-cpu.xplane.pb").read_bytes()
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 0, 9, correlation_id=2**63 - 1)
    host = PlaneText("/host:CPU").event("t", "cuLaunchKernel", 0, 1, correlation_id=2**63 - 1)
    path = write(tmp_path / "h.xplane.pb", plane.text() + host.text())
    assert read(path).events["correlation_id"].tolist() == [2**63 - 1]
    path.write_bytes(raw + ProfileData.text_proto_to_serialized_xspace(host.text().replace("host:CPU", "host:CUPTI")))
    assert len(read(path).events) == len(read(traces.DATA / "view-cpu.xplane.pb").events)


@pytest.mark.parametrize("name", ["/device:GPU:0", "/host:CPU"])
def test_names_that_are_damaged_are_counted(tmp_path, name):
    gpu_text = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "kernel", 0, 9).text()
    host_text = PlaneText("/host:CPU").event("t", "thread work", 0, 9).text()
    path = write(tmp_path / "h.xplane.pb", gpu_text + host_text)
    text = b"kernel" if "GPU" in name else b"thread work"
    raw = path.read_bytes()
    at = raw.index(b"\x12" + bytes([len(text)]) + text)
    path.write_bytes(raw[: at + 1] + bytes([100]) + raw[at + 2 :])
    assert "1 detail of devices and events could not be read (names of operations)." in read(path).notes


@pytest.mark.parametrize("loop", ["plain", "compiled"])
@pytest.mark.parametrize("stat_id", [2, 5000])
def test_stats_whose_name_is_not_there_are_counted(tmp_path, monkeypatch, loop, stat_id):
    monkeypatch.setattr(xspace_file, "COMPILE_FROM_BYTES", 0 if loop == "compiled" else 10**12)
    events = "".join(
        f"events {{ metadata_id: 1 offset_ps: {at} duration_ps: 5 stats {{ metadata_id: {key} int64_value: 7 }} }} "
        for at, key in ((10, 1), (20, stat_id), (30, 3))
    )
    names = "".join(
        f'stat_metadata {{ key: {key} value {{ id: {key} name: "{name}" }} }} '
        for key, name in ((1, "correlation_id"), (3, "nobody_asks"))
    )
    plane = f"""planes {{ name: "/device:GPU:0" lines {{ id: 1 name: "Stream #1" {events} }} {names}
      event_metadata {{ key: 1 value {{ id: 1 name: "a" }} }} }}"""
    trace = read(write(tmp_path / "a.xplane.pb", plane + SESSION))
    assert trace.events["correlation_id"].notna().tolist() == [True, False, False]
    assert trace.losses[["what", "lost"]].to_numpy().tolist() == [["details", 1], ["events", 2]]


def test_an_event_whose_metadata_is_not_there_is_told(tmp_path):
    plane = """planes { name: "/host:CPU" lines { id: 1 name: "python" timestamp_ns: 5
      events { metadata_id: 1 offset_ps: 10 duration_ps: 5 } events { metadata_id: 7 offset_ps: 20 duration_ps: 5 } }
      event_metadata { key: 1 value { id: 1 name: "a" } } }"""
    path = write(tmp_path / "a.xplane.pb", plane)
    assert "1 detail of devices and events could not be read (names of operations)." in read(path).notes


def test_zeros_behind_the_end_are_counted_and_what_is_before_them_is_read(tmp_path):
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(gpu(0) + bytes(4096))
    trace = read(path)
    assert len(trace.events) == 1
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["bytes", 4096, len(gpu(0)) + 4096]]
    assert f"zeros from byte {len(gpu(0))} on" in trace.notes[0]


def garbled(how):
    """Three planes of which the first or what stands around it is damaged, and the numbers of those that are whole."""
    planes = [gpu(number, many=40) for number in range(3)]
    first, at = planes[0], len(planes[0]) // 2
    match how:
        case "a part of it is gone":
            return first[:at] + first[at + 30 :] + planes[1] + planes[2], [1, 2]
        case "bytes too many in it":
            return first[:at] + first[at - 30 :] + planes[1] + planes[2], [1, 2]
        case "it is said to be longer":
            return first[:1] + bytes([first[1] ^ 1]) + first[2:] + planes[1] + planes[2], [1, 2]
        case "in another field":
            return b"\x4a" + first[1:] + planes[1] + planes[2], [1, 2]
        case "in place of a warning":
            return b"\x1a" + first[1:] + planes[1] + planes[2], [1, 2]
        case "no message between":
            return first + b"\xff" * 50 + planes[1] + planes[2], [0, 1, 2]
        case "no message that is one":  # a field of 50 bytes that holds the begin of the next plane
            return first + b"\x7a\x32" + b"\x01" * 20 + planes[1] + planes[2], [0, 1, 2]
        case "no message but what begins as a plane":  # of no bytes
            return first + b"\n\0\x12\x0e/device:GPU:10" + b"\xff" * 20 + planes[1] + planes[2], [0, 1, 2]
        case "a message in a field of another version":
            inside = b"\x0a" + bytes([len(planes[2]) & 127 | 128, len(planes[2]) >> 7]) + planes[2]
            return b"".join(planes) + b"\x2a" + bytes([len(inside) & 127 | 128, len(inside) >> 7]) + inside, [0, 1, 2]
        case "no message before":
            return b"\xff" * 50 + b"".join(planes), [0, 1, 2]
    return b"".join(planes), [0, 1, 2]


@pytest.mark.parametrize(
    "how",
    [
        "a part of it is gone",
        "bytes too many in it",
        "it is said to be longer",
        "in another field",
        "in place of a warning",
        "no message between",
        "no message that is one",
        "no message but what begins as a plane",
        "no message before",
        "a message in a field of another version",
        "",
    ],
)
def test_planes_behind_what_is_no_message_are_read_and_what_is_none_is_told(tmp_path, how):
    path = tmp_path / "h.xplane.pb"
    data, whole = garbled(how)
    path.write_bytes(data)
    trace = read(path)
    counts = trace.events.groupby("device", observed=True).size()
    assert [counts[f"gpu:{number}"] for number in whole] == [40] * len(whole)
    told = trace.losses[["what", "lost"]].to_numpy().tolist()
    if how.startswith("no message"):
        gone = {"no message that is one": 22, "no message but what begins as a plane": 20}
        assert told == [["bytes", gone.get(how, 50)]]
    elif how.startswith("in "):
        assert told == [["planes", 1]]
    else:
        assert bool(told) == (how not in ("", "a message in a field of another version"))


@pytest.mark.parametrize("offset", [2**63 - 1, 2**62, -(2**62), 2**60])
def test_an_event_far_from_all_others_is_left_out_and_counted(tmp_path, offset):
    text = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 5, 9).text()
    more = "".join(f"events {{ metadata_id: 1 offset_ps: {at} duration_ps: 1000 }} " for at in (7000, 9000, offset))
    path = write(tmp_path / "h.xplane.pb", text.replace("events {", f"{more} events {{", 1))
    trace = read(path)
    assert sorted(trace.events["start_ps"]) == [0, 2000, 4000]
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 1, 4]]


def test_a_second_or_empty_session_beside_the_first_loses_nothing_else(tmp_path):
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "k", 0, 9).text()
    session = PlaneText("Task Environment", profile_start_time=5 * 10**18, profile_stop_time=6 * 10**18).text()
    empty = 'planes { name: "Task Environment" }'
    whole = read(write(tmp_path / "h.xplane.pb", session + plane))
    trace = read(write(tmp_path / "h.xplane.pb", session + empty + plane))
    pd.testing.assert_frame_equal(trace.events, whole.events)
    pd.testing.assert_frame_equal(trace.hosts, whole.hosts)
    assert trace.losses["what"].tolist() == ["details"]


@pytest.mark.parametrize("value", ["abcd", b"\x80\xff", float("nan"), float("inf"), -1, 2.0**80])
@pytest.mark.parametrize("stat", ["memory_bandwidth", "peak_teraflops_per_second", "peak_hbm_bw_gigabytes_per_second"])
def test_a_stat_of_another_type_gives_no_figure_and_is_counted(tmp_path, stat, value):
    plane = PlaneText("/device:GPU:0", **{stat: value}).event("Stream #1(Compute)", "k", 0, 9).text()
    trace = read(write(tmp_path / "h.xplane.pb", plane))
    assert trace.devices[["memory_bandwidth_bytes_per_s", "peak_flops_per_s"]].isna().all(axis=None)
    assert trace.notes == (f"1 detail of devices and events could not be read ({stat} of gpu:0).",)


def test_launches_that_no_gpu_answers_are_noted_but_not_the_few_at_the_end_of_a_profile(tmp_path):
    host = PlaneText("/host:CPU")
    plane = PlaneText("/device:GPU:0")
    for at in range(10):
        host.event("t", "cuLaunchKernel", at, 1, correlation_id=at)
        host.event("t", "cuStreamSynchronize", at, 1, correlation_id=100 + at)
        if at < 9:
            plane.event("Stream #1(Compute)", "k", 10 + at, 1, correlation_id=at)
    path = tmp_path / "h.xplane.pb"
    assert read(write(path, host.text() + plane.text())).notes == ()
    trace = read(write(path, host.text()))
    assert trace.notes == (
        "10 of 10 kernels and copies that the host launched are missing (the file contains no GPU plane): the file is "
        "truncated, or the profiler dropped them.",
    )
    assert trace.losses[["what", "evidence"]].to_numpy().tolist() == [
        ["planes", "of GPUs, on which the host launched work"]
    ]


def test_what_xla_builds_a_graph_of_is_no_lost_launch(tmp_path):
    host, plane = PlaneText("/host:CPU"), PlaneText("/device:GPU:0")
    calls = "cuGraphCreate (CudaGraph:1)", *["Memset"] * 8, "cuGraphAddChildGraphNode (CudaGraph:2)", "cuGraphLaunch"
    for at, name in enumerate(calls):
        host.event("t", name, at, 1, correlation_id=at)
    plane.event("Stream #1(Compute)", "k", 20, 1, correlation_id=len(calls) - 1)
    assert not any(
        "launched" in note for note in read(write(tmp_path / "h.xplane.pb", host.text() + plane.text())).notes
    )


def test_compiling_and_running_the_program_that_ends_a_capture_is_no_work_of_the_script(tmp_path):
    """Its autotuner sets memory, with no program's name; another thread may work on meanwhile."""
    host, plane = PlaneText("/host:CPU"), PlaneText("/device:GPU:0")
    host.event("python", "train", 0, 5).event("python", "PjitFunction(tracekit_end)", 10, 50)
    host.event("python", "PjRtCApiClient::CompileAndLoad(jit_tracekit_end)", 12, 40)
    for number, (thread, at) in enumerate((("python", 1), ("python", 20), ("other", 20), ("python", 70))):
        host.event(thread, "Memset", at, 1, correlation_id=number)
        plane.event("Stream #1(Memset)", f"Memset {number}", at + 2, 1, correlation_id=number)
    trace = read(write(tmp_path / "h.xplane.pb", host.text() + plane.text()))
    assert trace.events["name"].tolist() == ["Memset 0", "Memset 2", "Memset 3"]
    assert trace.spans["name"].tolist().count("Memset") == 3
    assert not [name for name in trace.spans["name"] if "tracekit_end" in name]
    assert sorted(trace.launches["correlation_id"]) == [0, 2, 3]


def test_what_other_threads_compile_of_the_program_that_ends_a_capture_is_no_work_of_the_script(tmp_path):
    """As jaxlib 0.10.2 names it on CPU; what another thread compiles, before or meanwhile, is the script's."""
    host = PlaneText("/host:CPU").event("python", "train", 0, 5).event("python", "PjitFunction(tracekit_end)", 10, 50)
    for thread, at, program in (("pool/1", 1, "jit_f"), ("pool/1", 20, "jit_tracekit_end"), ("pool/2", 20, "jit_g")):
        host.event(thread, f"Compile {program} {at}", at, 6).event(thread, f"simplification ({program})", at + 1, 2)
        host.event(thread, f"CpuCompiler::RunBackend {program} {at}", at + 3, 3)
    host.event("tf_xla-cpu-codegen/7", "dispatch 5", 5, 1).event("tf_xla-cpu-codegen/7", "dispatch 24", 24, 1)
    names = set(read(write(tmp_path / "h.xplane.pb", host.text())).spans["name"])
    compiled = {"simplification (jit_f)", "simplification (jit_g)", "dispatch 5"}
    backend = {"CpuCompiler::RunBackend jit_f 1", "CpuCompiler::RunBackend jit_g 20"}
    assert names == {"train", "Compile jit_f 1", "Compile jit_g 20"} | compiled | backend


def test_a_host_that_ran_programs_on_a_tpu_lacks_its_plane(tmp_path):
    host = PlaneText("/host:CPU").event("t", "tpu::System::Execute=>IssueSequencedEvent", 0, 1)
    trace = read(write(tmp_path / "h.xplane.pb", host.text()))
    assert "contains no TPU plane" in trace.notes[0]
    assert trace.losses["evidence"].tolist() == ["of TPUs, on which the host ran programs"]


@pytest.mark.parametrize("file", sorted(traces.DATA.rglob("*.xplane.pb*")), ids=lambda path: path.name)
def test_stats_that_are_not_needed_of_a_plane_would_change_nothing(file, monkeypatch):
    needed = read(file)
    monkeypatch.setattr(xspace_trace, "_needed", lambda plane_name, known: None)
    every = read(file)
    assert needed.notes == every.notes
    for name in FRAME_COLUMNS:
        pd.testing.assert_frame_equal(getattr(needed, name), getattr(every, name))


def test_of_calls_that_launch_work_on_a_gpu_no_stats_of_its_operations_are_kept():
    path = traces.DATA / "generated" / "gpu.xplane.pb"
    every, needed = (
        next(plane for plane in xspace_file.read(path, xspace.STATS, **which).planes if plane.name == "/host:CPU")
        for which in ({}, {"needed": xspace_trace._needed})
    )
    assert every.stat_rows.keys() - needed.stat_rows.keys() == {"group_id"}
