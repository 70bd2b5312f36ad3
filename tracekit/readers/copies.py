"""Files of a run that hold the same, byte for byte, packed or not, under other names: each content is read once."""

import hashlib
import os
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tracekit.errors import TraceError
from tracekit.files import opened
from tracekit.readers.find import TraceFiles, label
from tracekit.readers.unpacking import GZIP, gunzipped
from tracekit.vocabulary.ranks import process_number

_PART = 1 << 16
# So many bytes at so many places tell files of one size apart that are not the same; the rest is read where they agree.
_SAMPLE, _PLACES = 1 << 12, 5
_TRAILER = 8  # of a gzip member: the CRC-32 and the size, modulo 2^32, of what it holds (RFC 1952)
_NAMED = 3
_UNREADABLE = (OSError, EOFError, TraceError, zlib.error)


def read_once(origin: TraceFiles, complete: Callable[[Iterable[Path]], None] | None = None) -> TraceFiles:
    """`origin` without files that are copies of others, and a note that names both.

    Only files of one size are looked into, which for gzip is that of what it holds; more than samples of them are read
    where these agree. Of copies the one is kept that is called after a process, else that with the shortest name.
    `complete` fetches files of which only the first bytes are on this machine.
    """
    files = [*origin.each]
    if len(files) < 2:
        return origin
    parts = {file: origin.parts(file) for file in files}
    if complete:
        files = _may_be_alike(files, parts)
        complete(part for file in files for part in parts[file])

    def of_parts(key: Callable[[Path], Hashable]) -> Callable[[Path], Hashable]:
        return lambda file: tuple(map(key, parts[file]))

    groups = _alike([files], of_parts(_size))
    groups = _alike(groups, of_parts(_head))
    mixed: list[list[Path]] = []
    alike: list[list[Path]] = []
    for group in groups:
        is_mixed = len(_by(group, of_parts(_is_packed))) > 1
        (mixed if is_mixed else alike).append(group)  # samples are of files of one kind only
    groups = _alike([*mixed, *_alike(alike, of_parts(_samples))], of_parts(_digest))
    copies = {copy: first for first, *others in (sorted(group, key=_preferred) for group in groups) for copy in others}
    if not copies:
        return origin
    return replace(
        origin,
        files=tuple(file for file in origin.files if file not in copies),
        json=tuple(file for file in origin.json if file not in copies),
        summaries=tuple(file for file in origin.summaries if file not in copies),
        notes=(*origin.notes, *_notes(copies)),
    )


def twins(files: Sequence[Path]) -> list[tuple[Path, Path]]:
    """The pairs among `files` that have one name, but that one is packed."""
    known = set(files)
    packed = [(file.with_suffix(""), file) for file in files if file.suffix == ".gz"]
    return [pair for pair in packed if pair[0] in known]


def is_beginning(short: Path, long: Path) -> bool:
    """Whether what one file holds, unpacked, is the beginning of what another one does, and less."""
    texts, left = [_unpacked(short), _unpacked(long)], [b"", b""]
    while True:
        left = [text or next(parts, b"") for text, parts in zip(left, texts, strict=True)]
        both = min(map(len, left))
        if not both:
            return len(left[1]) > 0
        if left[0][:both] != left[1][:both]:
            return False
        left = [text[both:] for text in left]


def _may_be_alike(files: Sequence[Path], parts: Mapping[Path, Sequence[Path]]) -> list[Path]:
    """Those of the `files` that may be copies by what is known of them without their ends."""
    if len(_by(files, _is_packed)) > 1:
        return [*files]
    alike = _alike([files], lambda file: tuple(part.stat().st_size for part in parts[file]))
    return [file for group in alike for file in group]


def _alike(groups: Iterable[Sequence[Path]], key: Callable[[Path], Hashable]) -> list[list[Path]]:
    """The groups, each divided by a key, without those of one file."""
    return [alike for group in groups for alike in _by(group, key).values() if len(alike) > 1]


def _by(files: Iterable[Path], key: Callable[[Path], Hashable]) -> dict[Hashable, list[Path]]:
    """The files by a key; without those that cannot be read, which are like no other file."""
    by_key: dict[Hashable, list[Path]] = {}
    for file in files:
        with suppress(*_UNREADABLE):
            by_key.setdefault(key(file), []).append(file)
    return by_key


def _is_packed(file: Path) -> bool:
    with opened(file) as content:
        return content.read(len(GZIP)) == GZIP


def _size(file: Path) -> int:
    """The size of what a file holds unpacked, modulo 2^32: of several gzip members that of the last, as all copies."""
    if _is_packed(file):
        return int.from_bytes(_trailer(file)[4:], "little")
    return file.stat().st_size % (1 << 32)


def _trailer(file: Path) -> bytes:
    with opened(file) as content:
        content.seek(-_TRAILER, os.SEEK_END)
        return content.read()


def _head(file: Path) -> bytes:
    return next(_unpacked(file, _SAMPLE), b"")[:_SAMPLE]


def _samples(file: Path) -> Hashable:
    """Some of what a file holds; of a packed one the checksum of all of it, which its end tells."""
    if _is_packed(file):
        return _trailer(file)
    with opened(file) as content:
        last = max(os.fstat(content.fileno()).st_size - _SAMPLE, 0)
        samples = []
        for place in range(_PLACES):
            content.seek(place * last // (_PLACES - 1))
            samples.append(content.read(_SAMPLE))
        return tuple(samples)


def _digest(file: Path) -> bytes:
    digest = hashlib.blake2b()
    with opened(file) as content:
        packed = content.read(len(GZIP)) == GZIP
        content.seek(0)
        for part in gunzipped(content, file) if packed else iter(lambda: content.read(_PART), b""):
            digest.update(part)
    return digest.digest()


def _unpacked(file: Path, size: int = _PART) -> Iterator[bytes]:
    """What a file holds in parts that are not empty, as far as it can be unpacked."""
    with suppress(*_UNREADABLE), opened(file) as content:
        packed = content.read(len(GZIP)) == GZIP
        content.seek(0)
        parts = gunzipped(content, file) if packed else iter(lambda: content.read(size), b"")
        yield from filter(None, parts)


def _preferred(file: Path) -> tuple[bool, int, str]:
    return process_number(file.name) is None, len(file.name), str(file)


def _notes(copies: dict[Path, Path]) -> list[str]:
    named = [(_name(copy, first), _name(first, copy)) for copy, first in copies.items()]
    if len(named) <= _NAMED:
        return [f"Skipped {copy}, which is a copy of {first}: it is not counted twice." for copy, first in named]
    copy, first = named[0]
    return [f"Skipped {len(named):,} copies of other files, such as {copy} of {first}: none is counted twice."]


def _name(file: Path, other: Path) -> str:
    return label(file) if label(file) != label(other) else str(file)
