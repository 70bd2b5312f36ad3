"""Unpack compressed files, within a bound: a file of 10 MB may hold 10 GB of nothing.

Traces are compressed to a fiftieth of their size at most; what holds more than MOST_EXPANSION times its size (and more
than FREE_BYTES) was not written by a profiler.
"""

import lzma
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tracekit.errors import TraceError

MOST_EXPANSION = 200
FREE_BYTES = 64 << 20
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ"
_PACKED_BYTES = 1 << 12


def most_bytes(packed: int) -> int:
    """How many bytes so many `packed` ones may hold."""
    return FREE_BYTES + MOST_EXPANSION * packed


def gunzipped(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """What the gzip members of `file` hold, in small parts, so that a stream that breaks off costs little.

    Raises TraceError, which names `path`, beyond the bound; zlib.error where the stream is damaged, and EOFError where
    it ends early: also where what follows a member is none, as no profiler adds anything.
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


def unxz(data: bytes) -> bytes:
    """What xz packed into `data`. Raises lzma.LZMAError where it is damaged, cut, or beyond the bound."""
    stream = lzma.LZMADecompressor()
    held = stream.decompress(data, max_length=most_bytes(len(data)))
    if not stream.eof:
        raise lzma.LZMAError("its stream is cut, or holds more than any trace")
    return held


def member(archive: zipfile.ZipFile, name: str) -> bytes:
    """What the member `name` of an archive holds. Raises zipfile.BadZipFile beyond the bound."""
    about = archive.getinfo(name)
    if about.file_size > most_bytes(about.compress_size):
        raise zipfile.BadZipFile(f"{name} holds more than {MOST_EXPANSION} times its size")
    return archive.read(name)  # which refuses more than the size that was stated


def bomb(path: Path) -> TraceError:
    """What to tell of a file that holds far more than a trace of its size can."""
    return TraceError(
        f"{path} is no trace: it unpacks to more than {MOST_EXPANSION} times its size. Give the file that the profiler "
        "itself wrote, or unpack it if you know that it did."
    )
