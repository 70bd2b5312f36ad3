"""Where a command's files go: their names, what is never written to, and files that are never half-written."""

import os
import re
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tracekit.errors import TraceError, TracekitError

# The files of a saved report: figures and sentences, and the frames beside them.
SUMMARY, FRAMES = "summary.json", "frames"
# How a report's summary.json begins; that of another program does not.
_REPORT = re.compile(rb'\s*\{\s*"schema":\s*\d+,\s*"trace":')
# What a file may be called on every system, without the names of devices there.
_LONGEST_NAME = 60
# What the names of trace files end in, from the outside in.
_SUFFIXES = (".gz", ".pb", ".xplane", ".json", ".trace", ".pt", ".sqlite")


def path_of(source: object, wanted: str = "the path of a trace") -> Path:
    """`source` as a path; raises TypeError, which says what is `wanted` and what was given, for anything else."""
    if isinstance(source, str | os.PathLike) and isinstance(path := os.fspath(source), str):
        return Path(path)
    remedy = ""
    if type(source).__name__ == "Report":
        remedy = " A Report holds results: they are in its fields, such as report.whole.partition."
    elif isinstance(source, list | tuple | set):
        remedy = " Of several files of one run give their directory."
    raise TypeError(f"{wanted} is wanted here, not a value of type {type(source).__name__}.{remedy}")


def trace_name(trace_path: Path) -> str:
    """What files about a trace are called: after the log directory, whether that, a run or a file in it was given; else
    after the file or directory itself."""
    parts = trace_path.resolve().parts
    for at in range(len(parts) - 1, 0, -1):
        if parts[at - 1 : at + 1] == ("plugins", "profile"):
            parts = parts[: at - 1]
            break
    name = parts[-1]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def file_part(name: str) -> list[str]:
    """`name` as a part of a file's name, if there is one; a number stands for what is changed in it beyond spaces."""
    spaced = "-".join(name.split())
    safe = re.sub(r"[^\w.+-]", "_", spaced)[:_LONGEST_NAME]
    if safe != spaced:
        safe += f"-{zlib.crc32(name.encode('utf-8', 'surrogatepass')):08x}"
    return [safe] if safe else []


def refuse_inside(out: Path, trace_path: Path) -> None:
    """Raise TracekitError if `out` lies in the trace's own directory, where nothing is ever written.

    A file outside a log directory has no directory of its own.
    """
    home = trace_path.resolve()
    home = home.parent if home.is_file() and home.parts[-4:-2] == ("plugins", "profile") else home
    if out.resolve() == home or home in out.resolve().parents:
        raise TracekitError(f"{out} lies inside the trace {trace_path}, where nothing is written. Give another --out.")


def refuse_unwritable(out: Path, what: str) -> None:
    """Raise TracekitError unless files can be written in the directory `out`, which is left as it was; `what` is put
    there."""
    try:
        if out.exists() and not out.is_dir():
            raise TracekitError(f"{out} is a file, and {what} is a directory; name another with --out.")
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


def is_saved_report(place: Path) -> bool:
    """Whether a report was saved into the directory `place`, also where its summary.json is damaged or gone."""
    try:
        with (place / SUMMARY).open("rb") as file:
            is_summary = bool(_REPORT.match(file.read(100)))
    except OSError:
        is_summary = False
    return is_summary or (place / FRAMES / "whole.partition.parquet").is_file()


def refuse_saved_report(path: Path) -> None:
    """Raise TraceError if `path` is the directory of a saved report, or a file in it: neither is a trace."""
    place = path.parent if path.is_file() else path
    if is_saved_report(place):
        raise TraceError(
            f"{place} is a saved report, which holds the figures of a trace and not its events. Give the trace that it "
            f"was made from; `tracekit report {place}` prints the report."
        )


def replaced(path: Path, fill: Callable[[Path], object]) -> None:
    """Fill a file beside `path` and move it there, so that `path` is never half-written."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fill(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
