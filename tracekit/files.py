"""Where a command's files go: their names, what is never written to, and files that are never half-written."""

import ctypes
import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tracekit import remote
from tracekit.errors import TraceError, TracekitError
from tracekit.units import spelt

# The files of a saved report: figures and sentences, and the frames beside them.
SUMMARY, FRAMES = "summary.json", "frames"
# One frame that every report has.
_FRAME = "whole.partition.parquet"
# Those files below a directory.
REPORT_FILES = (SUMMARY, f"{FRAMES}/*.parquet")
# What the head of a picture says that tracekit has drawn: a chunk of PNG.
SOFTWARE = "tracekit"
DRAWN = f"Software\0{SOFTWARE}".encode()
# How a report's summary.json begins; that of another program does not.
_REPORT = re.compile(rb'\s*\{\s*"schema":\s*\d+,\s*"trace":')
# What the names of drafts end in, of a directory as tempfile has it.
_OF_DIRECTORY, _OF_FILE = re.compile(r"[a-z0-9_]{8}"), re.compile(r"[0-9a-f]{16}")
# From linux/fcntl.h and linux/fs.h.
_HERE, _RENAME_EXCHANGE = -100, 2
# What a file may be called on every system, without the names of devices there; and how many bytes are left for what a
# trace is called, of 255, beside what it ends in.
_LONGEST_NAME, _LONGEST_TRACE_NAME = 60, 200
# What the names of trace files end in, from the outside in.
_SUFFIXES = (
    *(".zip", ".tracekit", ".gz", ".pb", ".xplane", ".json", ".trace", ".pt", ".sqlite"),
    *(".nsys-rep", ".qdrep", ".qdstrm"),
)


def path_of(source: object, wanted: str = "the path of a trace") -> Path | str:
    """`source` as a path, or the URL that it is (`remote.place`); raises TypeError, which says what is `wanted` and
    what was given, for anything else."""
    if isinstance(source, str | os.PathLike) and isinstance(os.fspath(source), str):
        return remote.place(source)
    remedy = ""
    if type(source).__name__ == "Report":
        remedy = " A Report holds results: they are in its fields, such as report.whole.partition."
    elif isinstance(source, list | tuple | set):
        remedy = " Of several files of one run give their directory."
    raise TypeError(f"{wanted} is wanted here, not a value of type {type(source).__name__}.{remedy}")


def trace_name(trace_path: str | os.PathLike[str]) -> str:
    """What files about a trace are called: after the log directory, whether that, a run or a file in it was given; else
    after the file or directory itself."""
    place = remote.place(trace_path)
    parts = resolved(place).parts if isinstance(place, Path) else remote.parts(place)
    for at in range(len(parts) - 1, 0, -1):
        if parts[at - 1 : at + 1] == ("plugins", "profile"):
            parts = parts[: at - 1]
            break
    name = parts[-1]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    if len(os.fsencode(name)) > _LONGEST_TRACE_NAME:
        name = f"{_beginning(name, _LONGEST_TRACE_NAME - 9)}-{zlib.crc32(os.fsencode(name)):08x}"
    return name


def _beginning(name: str, most: int) -> str:
    """The whole letters among the first bytes of a name, at `most` so many, without those that are no text."""
    return os.fsencode(name)[:most].decode("utf-8", "ignore")


def file_part(name: str) -> list[str]:
    """`name` as a part of a file's name, if there is one; a number stands for what is changed in it beyond spaces."""
    spaced = "-".join(name.split())
    safe = re.sub(r"[^\w.+-]", "_", spaced)[:_LONGEST_NAME]
    if safe != spaced:
        safe += f"-{zlib.crc32(name.encode('utf-8', 'surrogatepass')):08x}"
    return [safe] if safe else []


def resolved(path: Path) -> Path:
    """A path without links; one of links in a circle, which `Path.resolve` refuses before Python 3.13, as it is."""
    return Path(os.path.realpath(path))


def refuse_inside(out: str | os.PathLike[str], trace_path: str | os.PathLike[str]) -> None:
    """Raise TracekitError if `out` lies in the trace's own directory, where nothing is ever written.

    A file outside a log directory has no directory of its own.
    """
    place, home = remote.place(out), remote.place(trace_path)
    if isinstance(place, Path) and isinstance(home, Path):
        home = resolved(home)
        home = home.parent if home.is_file() and home.parts[-4:-2] == ("plugins", "profile") else home
        is_inside = resolved(place) == home or home in resolved(place).parents
    elif isinstance(place, str) and isinstance(home, str):
        home = home.rpartition("/")[0] if remote.parts(home)[-4:-2] == ("plugins", "profile") else home
        is_inside = remote.lies_in(place, home)
    else:
        is_inside = False
    if is_inside:
        raise TracekitError(f"{out} lies inside the trace {trace_path}, where nothing is written. Give another --out.")


def refuse_unwritable(location: str | os.PathLike[str], what: str) -> None:
    """Raise TracekitError unless files can be written in the directory at `location`, which is left as it was; `what`
    is put there."""
    out = remote.place(location)
    if not isinstance(out, Path):
        remote.refuse_unreachable(out)
        return
    try:
        if out.exists() and not out.is_dir():
            raise TracekitError(f"{out} is a file, and {what} is a directory; name another with --out.")
        with suppress(FileNotFoundError):
            out.stat()  # links in a circle
        folder = out.absolute()
        # No directory is made: another process may be about to write there.
        there = next(directory for directory in [folder, *folder.parents] if directory.exists())
        for name in folder.relative_to(there).parts:  # one may be too long, or hold a null character
            with suppress(FileNotFoundError):
                (there / name).lstat()
        with tempfile.TemporaryFile(dir=there):
            pass
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        reason = getattr(error, "strerror", None) or error
        raise TracekitError(f"{out} cannot be written: {reason}; name another directory with --out.") from None


def refuse_foreign(out: str | os.PathLike[str], own: Collection[str]) -> None:
    """Raise TracekitError where a directory holds what would be lost when a report's `own` entries take their place in
    it: any of these names where no report was saved, and else what no report has, as files among its frames."""
    place = remote.place(out)
    if not isinstance(place, Path) or not place.is_dir():
        return
    place = resolved(place)
    # A process that was killed, or still writes, may have moved some of a report's entries and not others.
    is_ours = is_saved_report(place) or any(_has_draft(folder, place.name) for folder in (place, place.parent))
    for name in own:
        if foreign := _foreign(place, name, is_ours):
            raise TracekitError(
                f"{out} holds {foreign}, which is of no report that tracekit saved, and would be lost. Give another "
                "--out, or move it away."
            )


def _foreign(place: Path, name: str, is_ours: bool) -> str:
    """What of the entry called so is not of a report, "" where all is; nothing behind a link would be lost."""
    entry = place / name
    if not is_ours:
        return name if os.path.lexists(entry) and not _is_drawn(entry) else ""
    if entry.is_symlink() or not entry.is_dir():
        return ""
    if name != FRAMES:
        return name
    known = _frames(place)
    with suppress(OSError):
        for frame in sorted(entry.iterdir()):
            is_own = frame.suffix == ".parquet" if known is None else frame.name in known
            if frame.is_dir() or not (is_own or frame.name.startswith(".")):  # as systems leave, such as .DS_Store
                return f"{name}/{frame.name}"
    return ""


def _frames(place: Path) -> set[str] | None:
    """The names of the files of a saved report's frames, None where its summary.json does not tell them."""
    try:
        return {f"{name}.parquet" for name in json.loads(regular_bytes(place / SUMMARY))["report"]["frames"]}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _is_drawn(path: Path) -> bool:
    """Whether a file is a picture that tracekit has drawn, which says so."""
    try:
        return DRAWN in regular_bytes(path, first=200)
    except OSError:
        return False


def _has_draft(folder: Path, name: str) -> bool:
    """Whether a folder holds a draft of a directory called `name`."""
    start = _start(name)
    with suppress(OSError):
        return any(
            each.startswith(start) and _OF_DIRECTORY.fullmatch(each[len(start) :]) for each in os.listdir(folder)
        )
    return False


def _start(name: str) -> str:
    """What the names of drafts of a file or directory begin with."""
    return f".{_beginning(name, _LONGEST_NAME)}."


def opened(path: Path) -> BinaryIO:
    """A regular file to read. Raises OSError where it is none, such as a pipe, which would be waited for: also where it
    became one since it was looked at."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return open(number, "rb")


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A new file for a library that writes to files: one that knows no name, as Arrow takes names of UTF-8 alone, and
    pandas opens a file that has one anew."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    with open(number, "wb") as file:
        yield file


def is_utf8(path: Path) -> bool:
    """Whether a path is text; on Linux it may be any bytes."""
    return spelt(str(path)) == str(path)


@contextmanager
def utf8_name(directory: Path) -> Iterator[str]:
    """What a library that takes names of UTF-8 alone may call a directory as long as the context: its path, or its
    descriptor's in Linux's /proc, for which it is made if need be."""
    if is_utf8(directory):
        yield str(directory)
        return
    directory.mkdir(parents=True, exist_ok=True)
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def regular_bytes(path: Path, most: int | None = None, first: int | None = None) -> bytes:
    """What a regular file holds, or its `first` bytes. Raises OSError where it is none, such as a pipe, of which nobody
    knows when its end comes, and ValueError where it holds more than `most` bytes."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise ValueError(f"it holds {size:,} bytes, which is more than tracekit writes")
        wanted = first if most is None else most
        return file.read(-1 if wanted is None else wanted)


def is_saved_report(location: str | os.PathLike[str]) -> bool:
    """Whether a report was saved into the directory at `location`, also where its summary.json is damaged or gone."""
    place = remote.place(location)
    if not isinstance(place, Path):
        summary, frame = remote.beginnings(place, [SUMMARY, f"{FRAMES}/{_FRAME}"], 100)
        return bool(summary and _REPORT.match(summary)) or frame is not None
    try:
        is_summary = bool(_REPORT.match(regular_bytes(place / SUMMARY, first=100)))
    except OSError:
        is_summary = False
    return is_summary or (place / FRAMES / _FRAME).is_file()


def refuse_saved_report(path: str | os.PathLike[str]) -> None:
    """Raise TraceError if `path` is the directory of a saved report, or a file in it: neither is a trace."""
    place = remote.place(path)
    place = place.parent if isinstance(place, Path) and place.is_file() else place
    if is_saved_report(place):
        raise TraceError(
            f"{place} is a saved report, which holds the figures of a trace and not its events. Give the trace that it "
            f"was made from; `tracekit report {place}` prints the report."
        )


def replaced(path: Path, fill: Callable[[Path], object]) -> None:
    """Fill a file beside `path` and move it there, so that `path` is never half-written.

    A pipe, a terminal or a device takes what the file would hold, and stays; so does what a process has open, such as
    `/dev/stdout`.
    """
    if is_open_or_special(path):
        with tempfile.TemporaryDirectory(prefix="tracekit-") as directory:
            fill(whole := Path(directory, path.name))
            with whole.open("rb") as file, path.open("ab") as there:
                shutil.copyfileobj(file, there)
        return
    start = _start(path.name)

    def made() -> Path:
        draft = path.with_name(start + secrets.token_hex(8))
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))  # no link of another account is followed
        return draft

    for stale in _stale(path.parent, start, _OF_FILE):
        stale.unlink(missing_ok=True)
    with _locked_draft(made) as draft:
        try:
            fill(draft)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def is_open_or_special(path: Path) -> bool:
    """Whether `path` names neither a file or directory, nor nothing, nor a link to these that lies on a disk."""
    try:
        found = path.stat()
    except OSError:
        return False
    target = os.readlink(path) if path.is_symlink() else ""
    is_of_processes = any(place.startswith("/proc/") for place in (os.path.abspath(path), target))
    return is_of_processes or not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))


@contextmanager
def whole_directory(out: Path, own: Collection[str], last: str) -> Iterator[Path]:
    """A draft of a directory that takes the place of the entries of `out` called as `own` says, at the end of a context
    that raised nothing: what is in `out` is all old or all new, whenever a process ends or a disk is full.

    The files of others in `out` stay, and so do its owner, group and mode. Where the system cannot exchange
    directories, or `out` holds other directories too, is a mount, another account's or where this process works,
    entries are moved one by one, and `last` is not there meanwhile. Drafts that processes left which were killed are
    removed.
    """
    out = resolved(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    is_apart = out.is_dir() and (not os.access(out.parent, os.W_OK) or _mount(out) != _mount(out.parent))
    beside = out if is_apart else out.parent
    start = _start(out.name)
    for stale in _stale(beside, start, _OF_DIRECTORY):
        with suppress(FileNotFoundError):  # who exchanged it for the directory has removed it meanwhile
            if all(_is_of_draft(name, own) or _is_same(stale / name, out / name) for name in os.listdir(stale)):
                shutil.rmtree(stale, ignore_errors=True)
    with _locked_draft(lambda: Path(tempfile.mkdtemp(prefix=start, dir=beside))) as draft:
        try:
            is_alike = not out.is_dir() or _is_made_alike(draft, out)
            yield draft
            is_new = not out.is_dir()
            out.mkdir(exist_ok=True)
            with _locked_directory(out):
                if is_new:
                    draft.chmod(out.stat().st_mode)
                elif is_alike:
                    shutil.copystat(out, draft)
                is_here = os.path.samestat(out.stat(), os.stat("."))  # a shell would be left in what is removed
                if beside == out or is_here or not is_alike or not _exchange_with_others(draft, out, own):
                    _move_entries(draft, out, own, last)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _is_of_draft(name: str, own: Collection[str]) -> bool:
    """Whether a draft of a directory may hold an entry called so: one of its `own`, or the draft of one of these."""
    if name in own:
        return True
    starts = [start for each in own if name.startswith(start := _start(each))]
    return any(_OF_FILE.fullmatch(name[len(start) :]) for start in starts)


def _is_made_alike(draft: Path, out: Path) -> bool:
    """Give a draft the owner and group of `out`, which what is made in it is of too where `out` says so; whether that
    is allowed."""
    found = out.stat()
    try:
        os.chown(draft, found.st_uid, found.st_gid)
    except OSError:
        return False
    draft.chmod(0o700 | (found.st_mode & stat.S_ISGID))
    return True


def _mount(directory: Path) -> tuple[int, str]:
    """What a directory is mounted from: nothing can be moved from one mount to another, of one disk either."""
    number = os.open(directory, os.O_RDONLY)
    try:
        mount = ""
        with suppress(OSError):  # without Linux's /proc
            lines = Path(f"/proc/self/fdinfo/{number}").read_text().splitlines()
            mount = next((line for line in lines if line.startswith("mnt_id:")), "")
        return os.fstat(number).st_dev, mount
    finally:
        os.close(number)


@contextmanager
def _locked_directory(out: Path) -> Iterator[None]:
    """A lock on what is called `out`, also where another directory took its place while the lock was waited for."""
    while True:
        lock = os.open(out, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(lock), out.stat()):
                yield
                return
        finally:
            os.close(lock)


@contextmanager
def _locked_draft(made: Callable[[], Path]) -> Iterator[Path]:
    """A file or directory that `made` makes, with a lock on it that ends with this process: who gets that lock later
    knows that nobody writes there any more."""
    while True:
        draft = made()
        with suppress(FileNotFoundError):  # another took it for one that was left, and removed it
            lock = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                with suppress(OSError):  # of a disk without locks, where nobody else gets one either
                    fcntl.flock(lock, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(lock), draft.lstat()):
                    yield draft
                    return
            finally:
                os.close(lock)


def _stale(folder: Path, start: str, rest: re.Pattern[str]) -> Iterator[Path]:
    """The drafts in a folder, called `start` and a rest, that processes of this account left which have ended; while
    one is looked at, nobody else takes it for that. No link is one."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(start) and rest.fullmatch(name[len(start) :])]
    except OSError:
        return
    for name in sorted(names):
        with suppress(OSError):  # it is gone meanwhile, a link, or locked by who writes there
            lock = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found = os.fstat(lock)
                is_as_made = stat.S_ISDIR(found.st_mode) if rest is _OF_DIRECTORY else stat.S_ISREG(found.st_mode)
                if is_as_made and found.st_uid == os.geteuid():
                    yield folder / name
            finally:
                os.close(lock)


def _is_same(first: Path, second: Path) -> bool:
    """Whether both are names of one file, and no link to it."""
    try:
        return os.path.samestat(first.lstat(), second.lstat())
    except OSError:
        return False


def _exchange_with_others(draft: Path, out: Path, own: Collection[str]) -> bool:
    """Exchange two directories when the draft has the files of others in `out` too, as links to them; False where that
    cannot be, as of a directory of others: then both are as they were."""
    linked: dict[str, os.stat_result] = {}
    try:
        for name in {*os.listdir(out)} - {*own}:
            os.link(out / name, draft / name, follow_symlinks=False)
            linked[name] = (draft / name).lstat()
        is_exchanged = _exchange(draft, out)
    except (OSError, NotImplementedError):
        is_exchanged = False
    if not is_exchanged:
        for name in linked:
            (draft / name).unlink(missing_ok=True)
        return False
    for name in {*os.listdir(draft)} - {*own}:
        if name not in linked or not os.path.samestat((draft / name).lstat(), linked[name]):  # written meanwhile
            (draft / name).rename(out / name)
    return True


def _exchange(draft: Path, out: Path) -> bool:
    """Put each of two directories in the place of the other at one moment; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(_HERE, os.fsencode(draft), _HERE, os.fsencode(out), _RENAME_EXCHANGE) == 0)


def _move_entries(draft: Path, out: Path, own: Collection[str], last: str) -> None:
    new = os.listdir(draft)
    (out / last).unlink(missing_ok=True)
    for name in [name for name in own if name not in new]:  # of a report that was there before
        _remove(out / name)
    for name in sorted(new, key=lambda name: name == last):
        if (draft / name).is_dir():
            _remove(out / name)
        (draft / name).rename(out / name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_all(out: str | os.PathLike[str], what: str, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Write `files`, contents by name, into the directory `out`, and return their names; each is complete or not
    there.

    Raises TracekitError, which names `what` the files are, where one cannot be written.
    """
    try:
        with remote.written(remote.place(out)) as place:
            place.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                replaced(place / name, partial(Path.write_bytes, data=content))
    except OSError as error:
        raise TracekitError(f"{what} cannot be written to {out}: {error}. Give another --out.") from None
    return tuple(files)
