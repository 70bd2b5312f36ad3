"""Unpack compressed files, within a bound: a file of 10 MB may hold 10 GB of nothing.

Traces are compressed to a fiftieth of their size at most; what holds more than MOST_EXPANSION times its size (and more
than FREE_BYTES) was not written by a profiler.
"""

import errno
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tracekit.errors import TraceError
from tracekit.files import is_utf8

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData, ParquetFile

MOST_EXPANSION = 200
FREE_BYTES = 64 << 20
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ"
_PACKED_BYTES = 1 << 12
TOO_MUCH = f"it unpacks to more than {MOST_EXPANSION} times its size"
_TEXT = "BYTE_ARRAY"
_VALUE_BYTES = 8  # of a number or time; a text of Parquet has at least as much


def most_bytes(packed: int) -> int:
    """How many bytes so many `packed` ones may hold."""
    return FREE_BYTES + MOST_EXPANSION * packed


def gunzipped(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """What the gzip members of `file` hold, in small parts, so that a stream that breaks off costs little.

    Raises TraceError, which names `path`, beyond the bound; zlib.error where the stream is damaged, and EOFError where
    it ends early: also where what follows a member is none, as no profiler adds anything. Zeros behind it, as blocks of
    tapes and disks leave, are nothing, as they are to gzip.
    """
    member, packed = zlib.decompressobj(31), b""
    packed_bytes = held_bytes = 0
    while True:
        if len(packed) < len(GZIP):  # where a member ends, less may be left of what was read than the next begins with
            more = file.read(_PACKED_BYTES)
            packed_bytes += len(more)
            packed += more
        if not packed:
            break
        if member.eof:
            packed = packed.lstrip(b"\0")
            if not packed:
                continue
            if not packed.startswith(GZIP):
                raise EOFError
            member = zlib.decompressobj(31)
        part = member.decompress(packed)
        packed = member.unused_data
        held_bytes += len(part)
        if held_bytes > most_bytes(packed_bytes):
            raise bomb(path)
        yield part
    if not member.eof:
        raise EOFError


def unxz(data: bytes, most: int) -> bytes:
    """What xz packed into `data`, `most` bytes of it. Raises lzma.LZMAError where it is damaged, cut, or more."""
    stream = lzma.LZMADecompressor()
    held = stream.decompress(data, max_length=max(most, 1))
    if not stream.eof:
        raise lzma.LZMAError("its stream is cut, or holds more than any trace")
    return held


@contextmanager
def opened_zip(file: Path | BytesIO) -> Iterator[zipfile.ZipFile]:
    """An archive whose members, of which `read` gives no more than the stated size, hold no more than the bound for
    all of it. Raises zipfile.BadZipFile beyond it."""
    with zipfile.ZipFile(file) as archive:
        if sum(about.file_size for about in archive.infolist()) > most_bytes(size_of(file)):
            raise zipfile.BadZipFile(TOO_MUCH)
        yield archive


def size_of(file: Path | BytesIO) -> int:
    """The size of a file in bytes."""
    return file.stat().st_size if isinstance(file, Path) else file.getbuffer().nbytes


class Bound:
    """How many bytes of one trace or report are still to be read, of what so many `packed` ones may hold."""

    def __init__(self, packed: int) -> None:
        self.left = most_bytes(packed)

    def take(self, held: int) -> None:
        """Count bytes that are read. Raises pyarrow.ArrowInvalid beyond the bound."""
        import pyarrow as pa

        if held > self.left:
            raise pa.ArrowInvalid(TOO_MUCH)
        self.left -= held


class ParquetFiles:
    """The Parquet files of one trace or report, whose values take no more than so many `packed` bytes may hold: a
    column of one value repeated takes next to nothing in a file, however many rows there are."""

    def __init__(self, packed: int) -> None:
        self._bound = Bound(packed)

    def opened(self, source: Path | bytes, dictionaries: Sequence[str] = ()) -> "ParquetFile":
        """One of them, of which everything is read, the columns `dictionaries` as such. Raises pyarrow.ArrowInvalid
        beyond the bound of all, and OSError of what is no regular file, such as a pipe, which would be waited for."""
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile

        if isinstance(source, Path) and source.exists() and not source.is_file():
            raise OSError(errno.EINVAL, f"{source.name} is no regular file")
        if isinstance(source, Path) and not is_utf8(source):  # which Arrow does not open
            source = source.read_bytes()

        def opened(**options: Any) -> ParquetFile:
            return ParquetFile(pa.BufferReader(source) if isinstance(source, bytes) else source, **options)

        file = opened(read_dictionary=[*dictionaries])
        try:
            self._bound.take(_held(file.metadata, self._bound.left, opened))
        except pa.ArrowException:
            file.close()
            raise
        return file


def _held(about: "FileMetaData", most: int, opened: "Callable[..., ParquetFile]") -> int:
    """How many bytes the values of a Parquet file take, or something above `most`; `opened` opens it again.

    Told by its columns and row groups, but for lists, which no profiler's table has: where the statistics of a column
    are damaged, pyarrow 26 ends the process that asks for a chunk of it.
    """
    kinds = [about.schema.column(column) for column in range(about.num_columns)]
    lists = [column for column, kind in enumerate(kinds) if kind.max_repetition_level]
    if any(kinds[column].path == kinds[column].name for column in lists):
        return most + 1  # a list that is none of Arrow's, in which a damaged byte turns a column
    texts = {kind.name for kind in kinds if kind.physical_type == _TEXT and kind.path == kind.name}
    held = perhaps = 0
    for group in map(about.row_group, range(about.num_row_groups)):
        size = max(group.total_byte_size, 0)
        counts = [max(group.num_rows, 0)] * len(kinds)
        for column in lists:
            counts[column] = max(group.column(column).num_values, 0)
        widths = (max(_VALUE_BYTES, kind.length or 0) for kind in kinds)
        held += max(sum(width * count for width, count in zip(widths, counts, strict=True)), size)
        of_text = sum(count for kind, count in zip(kinds, counts, strict=True) if kind.physical_type == _TEXT)
        perhaps += of_text * size  # were the longest text in each value
    if held > most or held + perhaps <= most:
        return held
    if len(texts) < sum(kind.physical_type == _TEXT for kind in kinds):
        return held + perhaps  # of texts in lists, which no profiler's table has so many of
    import pyarrow as pa
    import pyarrow.compute as compute

    with opened(read_dictionary=[*texts]) as file:
        for batch in file.iter_batches(columns=[*texts]):
            for column in batch.columns:  # a dictionary, which takes as much as its different texts
                if pa.types.is_dictionary(column.type):
                    lengths = compute.binary_length(column.dictionary).take(column.indices)
                    held += compute.sum(lengths.cast(pa.int64())).as_py() or 0
                else:
                    held += column.nbytes
            if held > most:
                break
    return held


def bomb(path: Path) -> TraceError:
    """What to tell of a file that holds far more than a trace of its size can."""
    return TraceError(
        f"{path} is no trace: {TOO_MUCH}. Give the file that the profiler itself wrote, or unpack "
        "it if you know that it did."
    )
