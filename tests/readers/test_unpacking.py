"""Compressed files that hold far more than any trace: refused before they fill the memory."""

import gzip
import io
import lzma
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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


def unpacked(content):
    """What it holds, and whether it ends early."""
    parts = []
    try:
        for part in unpacking.gunzipped(io.BytesIO(content), Path("a")):
            parts.append(part)
    except EOFError:
        return b"".join(parts), True
    return b"".join(parts), False


@pytest.mark.parametrize("read_bytes", [2, 3, 25, 26, 50, 4096])
def test_members_are_unpacked_one_after_the_other_wherever_they_end(monkeypatch, read_bytes):
    monkeypatch.setattr(unpacking, "_PACKED_BYTES", read_bytes)
    first, second = gzip.compress(b"one, "), gzip.compress(b"two" * 5000)
    assert unpacked(first + second) == (b"one, " + b"two" * 5000, False)
    for rest in (second[:1], second[:2], b"x" + second[1:], second + b"\0x", b"\0" * 9 + b"x"):
        content, is_cut = unpacked(first + rest)
        assert content.startswith(b"one, ")
        assert is_cut
    # As gzip takes blocks of tapes and disks for nothing.
    assert unpacked(first + b"\0" * 9) == (b"one, ", False)
    assert unpacked(first + second + b"\0") == (b"one, " + b"two" * 5000, False)
    with pytest.raises(zlib.error):
        unpacked(first[:20] + b"\xff" * 99)


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


def test_xz_and_archives_are_bounded(monkeypatch):
    data = b"a" * 100_000
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", data)
    assert unpacking.unxz(lzma.compress(data), len(data)) == data
    with pytest.raises(lzma.LZMAError):
        unpacking.unxz(lzma.compress(data), len(data) - 1)
    with unpacking.opened_zip(file) as archive:
        assert archive.read("a") == data
    monkeypatch.setattr(unpacking, "FREE_BYTES", 0)
    with pytest.raises(zipfile.BadZipFile, match="unpacks to more than 200 times"), unpacking.opened_zip(file):
        pass


@pytest.mark.parametrize(
    ("column", "size", "fits"),
    [
        (pa.array([1] * 200_000), 1_600_000, True),
        (pa.array([1] * 200_000), 1_599_999, False),
        (pa.array([None] * 200_000, pa.int64()), 1_599_999, False),
        (pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), ["x" * 50_000]), 50_000_000, False),
        (pa.array(["x" * 50_000, *["y"] * 10_000]), 200_000, True),  # one long text among short ones
        (pa.array([["x" * 50_000], *[["y"]] * 10_000]), 200_000, False),  # in lists it may stand in all rows
        (pa.array([["x" * 50_000] * 10_000]), 1_000_000, False),  # and in all values of one
        (pa.array([[1] * 200_000]), 1_599_999, False),
        (pa.array([[1] * 200_000]), 1_600_000, True),
    ],
)
def test_the_values_of_parquet_are_bounded_by_the_size_of_the_file(monkeypatch, column, size, fits):
    file = io.BytesIO()
    pq.write_table(pa.table({"a": column}), file, store_schema=False)
    monkeypatch.setattr(unpacking, "FREE_BYTES", size)
    monkeypatch.setattr(unpacking, "MOST_EXPANSION", 0)
    if fits:
        with unpacking.ParquetFiles(1).opened(file.getvalue()) as table:
            assert table.read()["a"].equals(pa.chunked_array([column]))
    else:
        with pytest.raises(pa.ArrowInvalid, match="unpacks to more than"):
            unpacking.ParquetFiles(1).opened(file.getvalue())


MUTANTS = """
from io import BytesIO
import pyarrow as pa, pyarrow.parquet as pq
from tracekit.readers.unpacking import ParquetFiles
file = BytesIO()
pq.write_table(pa.table({"a": [1, 2, None], "b": ["x", "y", "z"]}), file)
data, read = file.getvalue(), 0
end = len(data) - 8
for at in range(end - int.from_bytes(data[end : end + 4], "little"), end):
    for value in range(4):
        try:
            with ParquetFiles(len(data)).opened(data[:at] + bytes([value]) + data[at + 1 :]) as table:
                table.read(use_threads=False)
                read += 1
        except (pa.ArrowException, ArithmeticError, LookupError, OSError, TypeError, ValueError):
            pass
print(read)
"""


def test_no_damage_of_what_a_file_of_parquet_says_of_itself_ends_the_process():
    """pyarrow 26 calls terminate where it is asked for a chunk of a column whose statistics do not fit its schema."""
    ran = subprocess.run([sys.executable, "-c", MUTANTS], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 100


def test_several_files_of_parquet_have_one_bound(monkeypatch):
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1] * 100_000}), file)
    monkeypatch.setattr(unpacking, "FREE_BYTES", 1_600_000)
    files = unpacking.ParquetFiles(0)
    for _ in range(2):
        files.opened(file.getvalue()).close()
    with pytest.raises(pa.ArrowInvalid):
        files.opened(file.getvalue())
