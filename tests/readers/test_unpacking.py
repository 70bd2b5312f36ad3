"""Compressed files that hold far more than any trace: refused before they fill the memory."""

import gzip
import io
import lzma
import zipfile
import zlib
from pathlib import Path

import pytest

from tracekit.errors import TraceError
from tracekit.readers import read, unpacking

MIB = 1 << 20


def packed(size: int, head: bytes = b"", unit: bytes = b" ") -> bytes:
    file = io.BytesIO()
    with gzip.open(file, "wb", compresslevel=9) as out:
        out.write(head)
        for _ in range(size // MIB):
            out.write(unit * (MIB // len(unit)))
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "head", "unit"),
    [("a.xplane.pb.gz", b"", b"\x0a\x00"), ("a.json.gz", b'{"rocprofiler-sdk-tool":[', b" ")],
)
def test_a_file_that_unpacks_to_more_than_a_trace_can_is_refused(tmp_path, name, head, unit):
    path = tmp_path / name
    path.write_bytes(packed(2 * unpacking.FREE_BYTES, head, unit))
    with pytest.raises(TraceError, match="is no trace: it unpacks to more than 200 times its size"):
        read(path)


@pytest.mark.parametrize("text", [b'{"traceEvents":[' + b" " * (40 * MIB), b"[" * (40 * MIB)])
def test_json_without_the_end_of_an_event_is_not_searched_to_its_end(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_bytes(text)
    with pytest.raises(TraceError, match="contains no trace events"):
        read(path)


def test_members_are_unpacked_one_after_the_other_up_to_what_is_none():
    whole = gzip.compress(b"one, ") + gzip.compress(b"two" * 5000) + b"\0" * 9
    assert b"".join(unpacking.gunzipped(io.BytesIO(whole), Path("a"))) == b"one, " + b"two" * 5000
    with pytest.raises(EOFError):
        list(unpacking.gunzipped(io.BytesIO(whole[:30]), Path("a")))
    with pytest.raises(zlib.error):
        list(unpacking.gunzipped(io.BytesIO(whole[:20] + b"\xff" * 99), Path("a")))


def test_what_is_as_large_as_its_bound_is_whole(monkeypatch):
    monkeypatch.setattr(unpacking, "FREE_BYTES", 0)
    data = b"a" * 100_000
    ratio = len(data) // len(gzip.compress(data))
    for most, fits in ((ratio + 1, True), (ratio - 1, False)):
        monkeypatch.setattr(unpacking, "MOST_EXPANSION", most)
        parts = unpacking.gunzipped(io.BytesIO(gzip.compress(data)), Path("a"))
        if fits:
            assert b"".join(parts) == data
        else:
            with pytest.raises(TraceError):
                list(parts)


def test_xz_and_members_of_archives_are_bounded(monkeypatch):
    data = b"a" * 100_000
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", data)
    with zipfile.ZipFile(file) as archive:
        assert unpacking.unxz(lzma.compress(data)) == unpacking.member(archive, "a") == data
        monkeypatch.setattr(unpacking, "FREE_BYTES", 0)
        with pytest.raises(lzma.LZMAError):
            unpacking.unxz(lzma.compress(data))
        with pytest.raises(zipfile.BadZipFile, match="holds more than 200 times"):
            unpacking.member(archive, "a")
