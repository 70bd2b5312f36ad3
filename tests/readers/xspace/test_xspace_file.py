"""The wire decoder: what it keeps, that plain and compiled loops agree, and that broken bytes only raise TraceError."""

import errno
import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import varint
from tests.readers.xspaces import write
from tracekit.errors import TraceError
from tracekit.readers import read
from tracekit.readers.xspace import xspace_file

TEXT = """
planes {
  id: 7 name: "/device:GPU:0"
  lines {
    id: -3 name: "Stream #13(Compute)" display_name: "shown" timestamp_ns: 1700000000000000000 duration_ps: 9
    events { metadata_id: 1 offset_ps: 5 duration_ps: 7 stats { metadata_id: 4000000000 int64_value: -2 } }
    events { metadata_id: 2 offset_ps: -1 duration_ps: 0
      stats { metadata_id: 2 ref_value: 3 } stats { metadata_id: 4 double_value: -2.5 }
      stats { metadata_id: 5 uint64_value: 18446744073709551615 } stats { metadata_id: 2 str_value: "twice" } }
    events { metadata_id: 1 num_occurrences: 4 duration_ps: 11 stats { metadata_id: 6 bytes_value: "\\377x" } }
  }
  lines { id: 2 name: "other" timestamp_ns: 1700000000000000001
    events { metadata_id: 9 offset_ps: 1 duration_ps: 1 stats { metadata_id: 2 ref_value: 3 } } }
  event_metadata { key: 1 value { id: 1 name: "kernel" display_name: "k" stats { metadata_id: 2 str_value:
  "all-reduce" } } } event_metadata { key: 2 value { id: 2 name: "other kernel" } }
  stat_metadata { key: 4000000000 value { id: 4000000000 name: "correlation_id" } }
  stat_metadata { key: 2 value { id: 2 name: "hlo_category" } }
  stat_metadata { key: 3 value { id: 3 name: "referred to" } }
  stat_metadata { key: 4 value { id: 4 name: "ratio" } }
  stat_metadata { key: 5 value { id: 5 name: "run_id" } }
  stat_metadata { key: 6 value { id: 6 name: "blob" } }
  stats { metadata_id: 4 double_value: 1.5 }
}
errors: "lost 3 events" warnings: "slow" hostnames: "h"
"""
STATS = ("correlation_id", "hlo_category", "ratio", "run_id", "blob")


@pytest.fixture(params=["plain", "compiled"])
def loop(request, monkeypatch):
    monkeypatch.setattr(xspace_file, "COMPILE_FROM_BYTES", 0 if request.param == "compiled" else 10**12)
    return request.param


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "host.xplane.pb", TEXT)


def test_every_field_of_the_schema_is_kept(path, loop):
    space = xspace_file.read(path, STATS)
    (plane,) = space.planes
    assert (space.errors, space.warnings, space.hostnames) == (["lost 3 events"], ["slow"], ["h"])
    assert (plane.name, plane.stats) == ("/device:GPU:0", {"ratio": 1.5})
    assert plane.lines == [
        xspace_file.Line(-3, "Stream #13(Compute)", "shown", 1700000000000000000, 9),
        xspace_file.Line(2, "other", "", 1700000000000000001, 0),
    ]
    assert plane.line.tolist() == [0, 0, 0, 1]
    assert plane.metadata_id.tolist() == [1, 2, 1, 9]
    assert plane.offset_ps.tolist() == [5, -1, 0, 1]
    assert plane.duration_ps.tolist() == [7, 0, 11, 1]
    assert plane.occurrences.tolist() == [-1, -1, 4, -1]
    assert list(plane.names) == ["kernel", "other kernel", "kernel", ""]
    assert plane.event_metadata(1) == xspace_file.EventMetadata("kernel", "k", {"hlo_category": "all-reduce"})


def test_stats_keep_their_type_and_all_64_bits(path, loop):
    (plane,) = xspace_file.read(path, STATS).planes
    values, there = plane.numbers("correlation_id")
    assert (values[0], there.tolist()) == (-2, [True, False, False, False])
    values, there = plane.numbers("run_id")
    assert (values[1].astype(np.uint64), there.tolist()) == (2**64 - 1, [False, True, False, False])
    assert plane.values[plane.stat_rows["ratio"]][1:2].view(np.float64)[0] == -2.5
    assert plane.types[plane.stat_rows["ratio"]].tolist() == [0, xspace_file.DOUBLE, 0, 0]
    np.testing.assert_array_equal(plane.reals("ratio"), [np.nan, -2.5, np.nan, np.nan])
    assert (plane.reals("correlation_id")[0], plane.reals("run_id")[1]) == (-2, 2.0**64)
    assert np.isnan(plane.reals("blob")).all()
    # The last of two values counts, and `str` and `ref` give the same kind of text.
    assert list(plane.strings("hlo_category").astype(object)) == [np.nan, "twice", np.nan, "referred to"]
    assert list(plane.strings("blob").astype(object)) == [np.nan, np.nan, "\\xffx", np.nan]
    assert not plane.has("not there").any()


def test_epoch_times_do_not_overflow(path, loop):
    (plane,) = xspace_file.read(path, STATS).planes
    assert plane.start_ps(1700000000000000000).tolist() == [5, -1, 0, 1001]


def test_skipped_lines_leave_no_events(path, loop):
    (plane,) = xspace_file.read(path, STATS, keep=lambda plane, line, line_id: line_id == 2).planes
    assert [line.id for line in plane.lines] == [2]
    assert plane.metadata_id.tolist() == [9]


def test_gzipped_files_read_the_same(path, loop):
    packed = path.with_name("packed.xplane.pb.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert xspace_file.read(packed, STATS).planes[0].offset_ps.tolist() == [5, -1, 0, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (bytes(100), "offset 0"),
        (b"not a trace at all, just text", "not an XSpace"),
        (b"\x1f\x8bnot really gzip", "cannot be decompressed"),
    ],
)
def test_a_file_that_is_no_xspace_is_one_clear_error(tmp_path, loop, content, message):
    path = tmp_path / "bad.xplane.pb"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message) as caught:
        xspace_file.read(path, STATS)
    assert str(path) in str(caught.value)


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="this system has no /proc")
def test_a_file_without_a_size_is_one_clear_error(tmp_path, loop):
    path = tmp_path / "h.xplane.pb"
    path.symlink_to("/proc/cpuinfo")
    with pytest.raises(TraceError, match=r"h.xplane.pb has bytes but no size"):
        xspace_file.read(path, STATS)


def test_a_file_that_does_not_fit_in_memory_is_told_to_be_so(tmp_path, monkeypatch):
    path = write(tmp_path / "h.xplane.pb", 'planes { name: "/host:CPU" }')

    def refused(*_, **__):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(xspace_file.mmap, "mmap", refused)
    with pytest.raises(TraceError, match=r"h.xplane.pb does not fit in memory: record fewer steps"):
        read(path)


def test_a_file_that_is_cut_after_it_was_read_changes_nothing(path, loop):
    space = xspace_file.read(path, STATS)
    os.truncate(path, 0)
    (plane,) = space.planes
    assert list(plane.names) == ["kernel", "other kernel", "kernel", ""]
    assert list(plane.strings("hlo_category").astype(object)) == [np.nan, "twice", np.nan, "referred to"]


@pytest.mark.parametrize("left", [0, 40, -1])
def test_a_file_that_is_cut_while_it_is_read_is_one_sentence(tmp_path, loop, monkeypatch, left):
    # More than Python's own buffer holds.
    path = write(tmp_path / "h.xplane.pb", f'planes {{ name: "{"x" * 300_000}" }} planes {{ name: "/host:CPU" }}')
    held = xspace_file._held

    def held_of_cut(path, file, size, reader):
        os.truncate(path, left % size)
        return held(path, file, size, reader)

    monkeypatch.setattr(xspace_file, "_held", held_of_cut)
    with pytest.raises(TraceError, match="became shorter while it was read"):
        xspace_file.read(path, STATS)


def test_planes_are_read_as_their_bytes_come(tmp_path, loop, monkeypatch):
    """In parts of any size, whose edges fall everywhere: as in one part."""
    line = "lines { events { metadata_id: 1 offset_ps: 5 duration_ps: 7 } }"
    planes = [f'planes {{ name: "{name}" {line * 9} }}' for name in ("/device:GPU:0", "/device:GPU:1", "/host:CPU")]
    path = write(tmp_path / "h.xplane.pb", " ".join(planes) + ' hostnames: "here"')
    whole = xspace_file.read(path, STATS)
    assert [len(plane) for plane in whole.planes] == [9, 9, 9]
    for size in (1, 7, 64, 200):
        monkeypatch.setattr(xspace_file, "_READ_BYTES", size)
        space = xspace_file.read(path, STATS)
        assert space.hostnames == ["here"]
        assert [(plane.name, plane.duration_ps.tolist()) for plane in space.planes] == [
            (plane.name, plane.duration_ps.tolist()) for plane in whole.planes
        ]


def test_texts_of_events_and_metadata_outlive_the_pages_that_are_given_back(tmp_path, loop):
    event = "events { metadata_id: 1 offset_ps: 5 duration_ps: 7 stats { metadata_id: 2 int64_value: 7 } }"
    text = 'events { metadata_id: 1 offset_ps: 5 duration_ps: 7 stats { metadata_id: 2 str_value: "told" } }'
    lines = [event * 4000, text * 3 + event * 4000, event * 4000]
    plane = (
        'planes { name: "/device:GPU:0" '
        + "".join(f"lines {{ id: {at} {line} }}" for at, line in enumerate(lines))
        + 'event_metadata { key: 1 value { id: 1 name: "kernel" } } '
        + 'stat_metadata { key: 2 value { id: 2 name: "hlo_category" } } }'
    )
    (read,) = xspace_file.read(write(tmp_path / "h.xplane.pb", plane), STATS).planes
    assert list(read.names.categories) == ["kernel"]
    assert np.flatnonzero(read.strings("hlo_category").codes >= 0).tolist() == [4000, 4001, 4002]
    assert list(read.strings("hlo_category").categories) == ["told"]
    assert not any(read._buf[read._buf.find(b"\x22") + 8192 : 40_000])  # the first line was given back


def test_a_file_cut_anywhere_inside_its_plane_is_an_error(path, loop):
    whole = path.read_bytes()
    plane_end = whole.index(b"lost 3 events") - 2
    for size in range(1, plane_end):
        path.write_bytes(whole[:size])
        with pytest.raises(TraceError, match=r"cut short|offset"):
            xspace_file.read(path, STATS)


@settings(max_examples=300)
@given(st.data())
def test_mangled_bytes_raise_only_trace_errors_and_both_loops_agree(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("mangled") / "host.xplane.pb"
    content = bytearray(write(path, TEXT).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    outcomes = []
    for limit in (0, 10**12):
        xspace_file.COMPILE_FROM_BYTES, original = limit, xspace_file.COMPILE_FROM_BYTES
        try:
            planes = xspace_file.read(path, STATS).planes
            outcomes.append(
                [(p.offset_ps.tolist(), p.duration_ps.tolist(), p.values.tolist(), p.types.tolist()) for p in planes]
            )
        except TraceError as error:
            outcomes.append(str(error))
        finally:
            xspace_file.COMPILE_FROM_BYTES = original
    assert outcomes[0] == outcomes[1]


@given(
    st.lists(
        st.binary(max_size=20) | st.sampled_from([b"", b"\0", b"ab", b"ab\0", b"12345678", b"123456789"]), max_size=30
    )
)
def test_strings_are_equal_where_all_bytes_are_and_only_there(strings):
    sizes = np.array([len(string) for string in strings], np.int64)
    starts = np.cumsum(sizes) - sizes
    which, first = xspace_file.distinct_strings(np.frombuffer(b"".join(strings), np.uint8), starts, sizes)
    assert [strings[first[code]] for code in which] == strings
    assert len(first) == len(set(strings))


def test_planes_that_say_nothing_and_those_behind_too_many_cost_no_time(tmp_path):
    path = tmp_path / "planes.xplane.pb"
    path.write_bytes(b"\n\0" * 1_000_000)
    assert len(xspace_file.read(path, ()).planes) == 1
    path.write_bytes(b"\n\x02\x08\x01" * 10_003)
    space = xspace_file.read(path, ())
    assert len(space.planes) == 10_000
    assert [(loss.lost, loss.total) for loss in space.lost] == [(3, 10_003)]


def test_lines_that_say_nothing_and_those_behind_too_many_cost_no_time(tmp_path):
    path = tmp_path / "lines.xplane.pb"

    def written(*planes):
        path.write_bytes(b"".join(b"\n" + varint(len(plane)) + plane for plane in planes))
        return xspace_file.read(path, ())

    space = written(b"\x1a\0" * 300_000 + b"\x22\0" * 300_000 + b"\x2a\0" * 300_000 + b"\x32\0" * 300_000)
    assert (space.planes[0].lines, space.planes[0].stats, space.lost) == ([], {}, [])
    line = b"\x1a\x02\x08\x01"  # of all planes together
    space = written(line * 20_000, line * 30_001, line * 2)
    assert [len(plane.lines) for plane in space.planes] == [20_000, 30_000, 0]
    assert [(loss.what, loss.lost, loss.total) for loss in space.lost] == [("lines", 1, 30_001), ("lines", 2, 2)]


def test_of_a_gzip_stream_that_ends_early_whole_planes_are_read_and_the_rest_is_told(tmp_path):
    planes = b"".join(b"\n\x0f\x12\x0d/device:GPU:%d" % number for number in range(8))
    packed = gzip.compress(planes)
    path = tmp_path / "cut.xplane.pb.gz"
    path.write_bytes(packed)
    assert xspace_file.read(path, ()).lost == []
    seen, refusals = set(), []
    for size in range(12, len(packed)):
        path.write_bytes(packed[:size])
        try:
            space = xspace_file.read(path, ())
        except TraceError as error:
            refusals.append(str(error))
            continue
        assert [plane.name for plane in space.planes] == [f"/device:GPU:{n}" for n in range(len(space.planes))]
        assert space.lost[-1] == ("planes", None, None, "its gzip stream ends early")
        seen.add(len(space.planes))
    assert {1, 8} <= seen
    assert refusals
    assert all("cannot be decompressed: its gzip stream is cut" in text for text in refusals)


def test_stats_with_ids_past_any_table_are_found_by_their_names(tmp_path, loop):
    ids = [5000, 70_000, 2**40, 2**62, 4096, 9999]
    stats = " ".join(f'stat_metadata {{ key: {each} value {{ id: {each} name: "run_id" }} }}' for each in ids)
    other = f'stat_metadata {{ key: {2**50} value {{ id: {2**50} name: "other" }} }}'
    events = " ".join(
        f"events {{ metadata_id: 1 stats {{ metadata_id: {each} int64_value: {at} }} }}"
        for at, each in enumerate([*ids, 2**50, 6000])
    )
    plane = f'planes {{ name: "/device:GPU:0" lines {{ {events} }} {stats} {other} }}'
    (read,) = xspace_file.read(write(tmp_path / "h.xplane.pb", plane), STATS).planes
    values, has = read.numbers("run_id")
    assert values[has].tolist() == [*range(len(ids))]
    assert has.tolist() == [True] * len(ids) + [False, False]


def test_where_numba_compiles_nothing_the_plain_loops_read_large_files(path):
    code = (
        "from tracekit.readers.xspace import xspace_file as x; x.COMPILE_FROM_BYTES = 0\n"
        f"print(x.read({str(path)!r}, {STATS!r}).planes[0].offset_ps.tolist())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    assert run.stdout.split("\n")[0] == str(xspace_file.read(path, STATS).planes[0].offset_ps.tolist()), run.stderr
