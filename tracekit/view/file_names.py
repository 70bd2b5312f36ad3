"""What XProf makes names of files of: the programs in a trace, which whoever wrote it has named.

It writes the proto of each program beside the trace, as `<module>(<id>).hlo_proto.pb`, and takes `../` in the name of a
module for a directory (seen with XProf 2.24): a trace could write files anywhere.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tracekit.errors import ViewError
from tracekit.files import regular_bytes
from tracekit.readers import protobuf_decoder as protobuf

_METADATA = b"/host:metadata"
_SEPARATORS = bytes.maketrans(b"/\\", b"__")
Span = tuple[int, int]


def without_directories(file: Path) -> tuple[bytes, bool]:
    """The bytes of an XSpace with `_` for what separates directories in the names of its programs, and whether there
    was any.

    Raises OSError where it is no regular file, and ViewError for one that is damaged: XProf may find names in it that
    are not found here.
    """
    held = regular_bytes(file)  # a map of it would end this process where the file is cut meanwhile
    try:
        changes = [*_changes(held)]
    except protobuf.Broken as broken:
        raise ViewError(
            f"{file} is damaged at byte {broken.args[0]}, and TensorBoard reads whole files only: `tracekit report` "
            "reads what is whole of it"
        ) from None
    if not changes:
        return held, False
    changed = bytearray(held)
    for (start, end), new in changes:
        changed[start:end] = new
    return bytes(changed), True


def _changes(buf: bytes) -> Iterator[tuple[Span, bytes]]:
    """Where a name is to be changed, and what it is then; of equal length, so that what is around it stays whole."""
    for plane in _messages(buf, (0, len(buf)), 1):
        is_metadata = any(buf[start:end] == _METADATA for start, end in _messages(buf, plane, 2))
        for entry in _messages(buf, plane, 4):
            for metadata in _messages(buf, entry, 2):
                if is_metadata:
                    for field in (2, 4):  # name, display_name
                        yield from _separated(buf, _messages(buf, metadata, field))
                for stat in _messages(buf, metadata, 5):
                    for proto in _messages(buf, stat, 6):
                        yield from _of_proto(buf, proto, is_metadata)


def _of_proto(buf: bytes, proto: Span, is_certain: bool) -> Iterator[tuple[Span, bytes]]:
    """The same of an HloProto. Where it is certain to be one, one that is damaged becomes zeros, which are none: what
    XProf reads of it is not known."""
    try:
        names = [span for module in _messages(buf, proto, 1) for span in _messages(buf, module, 1)]
    except protobuf.Broken:
        if is_certain:
            yield proto, bytes(proto[1] - proto[0])
        return
    yield from _separated(buf, names)


def _separated(buf: bytes, names: Iterable[Span]) -> Iterator[tuple[Span, bytes]]:
    for start, end in names:
        name = buf[start:end]
        if (new := name.translate(_SEPARATORS)) != name:
            yield (start, end), new


def _messages(buf: bytes, span: Span, number: int) -> Iterator[Span]:
    """Where the messages, texts and bytes of a field stand. Raises Broken where what holds them is damaged."""
    for field, wire_type, start, end in protobuf.fields(buf, *span):
        if (field, wire_type) == (number, protobuf.LENGTH):
            yield start, end
