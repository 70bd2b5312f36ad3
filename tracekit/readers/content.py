"""What format a file is of, by its first bytes: names lie, and profilers share suffixes."""

import re
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

XSPACE_SUFFIXES = (".xplane.pb", ".xplane.pb.gz")
_HEAD = 1 << 18  # bytes read of a file
_UNPACKED = 1 << 20  # and at most so many of what they unpack to
_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\0"
_NSYS_REPORTS = (".nsys-rep", ".qdrep", ".qdstrm")
_NSYS_TABLES = {"META_DATA_EXPORT", "TARGET_INFO_SESSION_START_TIME", "NVTX_EVENTS", "ANALYSIS_DETAILS"}
_PERFETTO = (".pftrace", ".perfetto-trace", ".perfetto", ".protobuf.perfetto")
# Keys that only traces have, of an object and of a bare array of events.
_OBJECT_KEYS = re.compile(rb'"(traceEvents|deviceProperties|distributedInfo)"\s*:')
_EVENT_KEYS = re.compile(rb'"ph"\s*:\s*"[A-Za-z]"')
# Other formats that turn up beside traces, for a sentence that names them.
_OTHERS = (
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd; unpack it"),
    (b"\xfd7zXZ", "packed with xz; unpack it"),
    (b"BZh", "packed with bzip2; unpack it"),
    (b"7z\xbc\xaf", "a 7z archive; unpack it"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"%PDF", "a PDF"),
    (b"\x7fELF", "a program"),
    (b"PAR1", "a Parquet table"),
    (b"ARROW1", "an Arrow table"),
)


def form(path: Path, sure: bool = False) -> str | None:
    """The format of the file at `path`: "xplane", "chrome" (Chrome JSON, of any profiler), "nsys", "nsys-rep" or None.

    gzip is looked through, but a packed SQLite file is none that can be opened. JSON counts where it looks like a
    trace. With `sure`, where the user named the file, any JSON or `.pb` file does: its reader says what is wrong.
    """
    if path.name.endswith(_NSYS_REPORTS):
        return "nsys-rep"
    head = _head(path)
    if path.name.endswith(_PERFETTO) or not head:
        return None
    if head.startswith(_SQLITE):
        return "nsys" if not _is_gzip(path) and (sure or _is_nsys(path)) else None
    text = _text(head)
    if text[:1] in (b"{", b"["):
        keys = _OBJECT_KEYS if text[:1] == b"{" else _EVENT_KEYS
        return "chrome" if sure or keys.search(text) else None
    named = path.name.endswith((*XSPACE_SUFFIXES, ".pb") if sure else XSPACE_SUFFIXES)
    return "xplane" if named or _is_xspace(head) else None


def described(path: Path) -> str:
    """What a file that is no trace seems to be, as the end of the sentence "it is ..."."""
    if not path.stat().st_size:
        return "empty (0 bytes): the profiler did not finish writing it, or the copy did not"
    head = _head(path)
    text = _text(head)
    if path.name.endswith(_PERFETTO):
        return "a Perfetto trace; give the file that it was made from"
    if head.startswith(_SQLITE):
        return "a packed SQLite file; unpack it with gunzip"
    for magic, what in _OTHERS:
        if head.startswith(magic):
            return what
    if not head:
        return "a gzip file that does not unpack; copy it again, in binary"
    if text[:15].lower().startswith((b"<!doctype html", b"<html")):
        return "a web page: the download got a page in place of the file"
    if text[:1] in (b"{", b"["):
        return "JSON without trace events"
    if not head.strip(b"\0"):
        return "all zeros: the copy of it was cut or never written"
    return "text" if _printable(text[:512]) else "of no format that its first bytes tell"


def _head(path: Path) -> bytes:
    """The first bytes of what the file holds, unpacked if it is gzipped; empty where they do not unpack."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if not head.startswith(_GZIP):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _UNPACKED)
    except zlib.error:
        return b""


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == _GZIP


def _is_nsys(path: Path) -> bool:
    """Whether an SQLite file has a table that Nsight Systems writes; a broken one counts, its reader says why."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as file:
            tables = {str(name) for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except (sqlite3.Error, UnicodeDecodeError):  # SQLite words some errors with the broken bytes themselves
        return True
    return any(name in _NSYS_TABLES or name.startswith("CUPTI_ACTIVITY_KIND_") for name in tables)


def _text(head: bytes) -> bytes:
    """`head` without a byte order mark and leading space."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()


def _is_xspace(head: bytes) -> bool:
    """Whether a protobuf begins as an XSpace does: field 1, a length, then a plane's id, name or lines.

    A text that begins with a line feed begins with the same byte, but not with the same third part.
    """
    if head[:1] != b"\x0a":
        return False
    at = 1
    while at < min(len(head), 10) and head[at] & 0x80:
        at += 1
    return head[at + 1 : at + 2] in (b"\x08", b"\x12", b"\x1a") and not _printable(head[:64])


def _printable(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        if error.start < len(text) - 4:
            return False
    return not re.search(rb"[\x00-\x08\x0e-\x1f]", text)
