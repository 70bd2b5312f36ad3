"""The beginning of a file, by which its format is recognised: names lie, and profilers share suffixes."""

import re
import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from tracekit.files import opened

READ_BYTES = 1 << 18
_UNPACKED_BYTES = 1 << 20  # at most, of what the bytes read unpack to
_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\0"
_ZIP = b"PK\x03\x04"
_LFS = b"version https://git-lfs.github.com/spec/"
_PERFETTO = (".pftrace", ".perfetto-trace", ".perfetto", ".protobuf.perfetto")
# What other files beside traces are, that share their suffixes.
OTHER_JSON, TEXT = "JSON without trace events", "text"
POINTER = "a pointer of Git LFS in place of the file; fetch it with `git lfs pull`"
# Other formats that turn up beside traces, for a sentence that names them.
_OTHER_FORMATS = (
    (_ZIP, "a zip archive, but not of nsys-jax; unpack it, and give the trace in it"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd; decompress it"),
    (b"\xfd7zXZ", "compressed with xz; decompress it"),
    (b"\x04\x22\x4d\x18", "compressed with lz4; decompress it"),
    (b"BZh", "compressed with bzip2; decompress it"),
    (b"7z\xbc\xaf", "a 7z archive; unpack it"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"%PDF", "a PDF"),
    (b"\x7fELF", "a program"),
    (b"PAR1", "a Parquet table"),
    (b"ARROW1", "an Arrow table"),
)


@dataclass(frozen=True)
class Content:
    """The beginning of the file at `path`: `head`, unpacked if the file is `gzipped`, empty if it does not unpack."""

    path: Path
    head: bytes
    gzipped: bool

    @property
    def is_perfetto(self) -> bool:
        """Whether it is called as Perfetto's own traces are, which begin as an XSpace may."""
        return self.path.name.endswith(_PERFETTO)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is an SQLite database, gzipped or not."""
        return self.head.startswith(_SQLITE)

    @property
    def is_zip(self) -> bool:
        """Whether it is a zip archive, gzipped or not."""
        return self.head.startswith(_ZIP)

    @property
    def is_json(self) -> bool:
        """Whether it begins as an object or an array of JSON does."""
        return self.text[:1] in (b"{", b"[")

    @property
    def is_pointer(self) -> bool:
        """Whether it is what Git LFS keeps in the place of a file that it has not fetched."""
        return self.text.startswith(_LFS)

    @property
    def text(self) -> bytes:
        """`head` without a byte order mark and leading space."""
        return self.head.removeprefix(b"\xef\xbb\xbf").lstrip()

    def printable(self, size: int) -> bool:
        """Whether the first `size` bytes of `head` are UTF-8 without control characters; the last may be cut."""
        text = self.head[:size]
        try:
            text.decode()
        except UnicodeDecodeError as error:
            if error.start < len(text) - 4:
                return False
        return not re.search(rb"[\x00-\x08\x0e-\x1f]", text)


def content(path: Path) -> Content:
    """The beginning of the file at `path`."""
    with opened(path) as file:
        head = file.read(READ_BYTES)
    if not head.startswith(_GZIP):
        return Content(path, head, gzipped=False)
    try:
        return Content(path, _unpacked(head), gzipped=True)
    except zlib.error:
        return Content(path, b"", gzipped=True)


def _unpacked(packed: bytes) -> bytes:
    """The beginning of what a gzip file holds: that of its first member that is not empty. Raises zlib.error."""
    text = b""
    while not text and packed.startswith(_GZIP):
        member = zlib.decompressobj(wbits=31)
        text = member.decompress(packed, _UNPACKED_BYTES)
        packed = member.unused_data
    return text


def unlike_json(path: Path) -> str:
    """How a file writes JSON as no profiler does, as the end of the sentence "it is ..."; "" of other files."""
    beginning = content(path)
    if beginning.head[:2] in (b"\xff\xfe", b"\xfe\xff", b"{\0", b"[\0", b"\0{", b"\0["):
        return "text in UTF-16, and traces are UTF-8: convert it, as by `iconv -f UTF-16 -t UTF-8`"
    if re.match(rb"\{[^\r\n]*\}\s*\n\s*\{", beginning.text):
        return "JSON lines, an object in each, and a trace is one object or array with all events: join them"
    return ""


def description(path: Path) -> str:
    """What a file that is not a trace seems to be, as the end of the sentence "it is ..."."""
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        return "a directory, and no file"
    if not stat.S_ISREG(found.st_mode):
        return "a pipe or a device, and no file"
    if not found.st_size:
        return "empty (0 bytes): the profiler or a copy did not finish writing it"
    beginning = content(path)
    text = beginning.text
    if beginning.is_perfetto:
        return "a Perfetto trace; give the file that it was converted from"
    if beginning.is_sqlite:
        return "a gzipped SQLite file; decompress it with gunzip"
    if beginning.gzipped and beginning.is_zip:
        return "a gzipped zip archive; decompress it with gunzip"
    if beginning.is_zip and not zipfile.is_zipfile(path):
        return "a zip archive that is cut off or damaged; copy it again, in binary mode"
    for magic, name in _OTHER_FORMATS:
        if beginning.head.startswith(magic):
            return name
    if not beginning.head:
        return "a gzip file that cannot be decompressed; copy it again, in binary mode"
    if beginning.gzipped and beginning.head.startswith(_GZIP):
        return "compressed twice; decompress it once with gunzip"
    if beginning.is_pointer:
        return POINTER
    if what := unlike_json(path):
        return what
    if text[:15].lower().startswith((b"<!doctype html", b"<html")):
        return "an HTML page, downloaded in place of the file"
    if beginning.is_json:
        return OTHER_JSON
    if not beginning.head.strip(b"\0"):
        return "all zeros: the copy of it is incomplete"
    return TEXT if Content(path, text, beginning.gzipped).printable(512) else "an unknown binary format"
