"""Write a trace for other tools: drafts first, then moved to their places, and nothing of anyone's overwritten unasked.

`import tracekit` imports this module, so what is heavy waits inside the functions.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import remote
from tracekit.errors import TracekitError
from tracekit.export import FORMATS, FRAMES, PERFETTO, SUFFIXES
from tracekit.files import is_open_or_special, refuse_inside, replaced, trace_name

if TYPE_CHECKING:
    from tracekit.timeline.timeline import Source, Timeline
    from tracekit.trace import Trace

_DIRECTORY = Path("exports")
# Formats that are text: csv and json files can be compressed as a whole, the others are compressed inside.
_TEXT = ("csv", "json")
# What the end of a path says of the format.
_ENDINGS = {
    ".pftrace": PERFETTO,
    ".perfetto-trace": PERFETTO,
    **{suffix: to for to, suffix in SUFFIXES.items()},
    ".feather": "arrow",
}
# Before these, a name of several files gets what tells them apart.
_SUFFIXES = (".gz", ".pftrace", ".perfetto-trace", ".perfetto", ".pb")

# A file, and what fills it.
Files = Mapping[Path, Callable[[Path], object]]


def export(
    source: "Source",
    out: str | os.PathLike[str] | None = None,
    *,
    to: str | None = None,
    table: str | None = None,
    gzip: bool = False,
    force: bool = False,
    run: str | None = None,
    kinds: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
) -> list[Path | str]:
    """Write a trace for Perfetto, or as tables, and return the files.

    `source` is a path, of which `run`, `kinds` and `executor` are as for `tracekit.read`, or anything that has a trace.
    `to` is "perfetto", "parquet", "csv", "json" or "arrow"; by default what the end of `out` says, else "perfetto".
    `out` is a file for Perfetto, and a directory for tables, by default `exports/<trace>.pftrace.gz` and
    `exports/<trace>-csv`. `table` names the one frame to write to the file `out`. `gzip` compresses csv and json files,
    and so does an `out` that ends in .gz. Files that are there already are replaced only with `force`. Hosts on clocks
    that cannot be compared get a file each for Perfetto, which has one time axis. Raises TracekitError where options
    contradict each other, or a file lies inside the trace's own directory, is there already, or cannot be written.
    """
    place = None if out is None else remote.place(out)
    write: Callable[..., Sequence[Path | str]] = _uploaded if isinstance(place, str) else _exported
    return [*write(source, place, to=to, table=table, gzip=gzip, force=force, run=run, kinds=kinds, executor=executor)]


def _uploaded(source: "Source", url: str, *, force: bool, **options: Any) -> list[Path | str]:
    """Export to a URL, and return those of the files."""
    remote.refuse_unreachable(url)
    origin = getattr(getattr(source, "trace", source), "source", source)
    if isinstance(origin, str | os.PathLike) and origin:
        refuse_inside(url, origin)
    home = remote.parent(url)
    with remote.written(home) as draft:  # hosts on clocks of their own get files beside this one
        files = _exported(source, draft / remote.base_name(url), force=True, **options)
        urls: list[Path | str] = [remote.child(home, path.relative_to(draft).as_posix()) for path in files]
        for each in urls if not force else ():
            if remote.exists(each):
                raise _already_there(each)
    return urls


def _exported(
    source: "Source",
    path: Path | None,
    *,
    to: str | None,
    table: str | None,
    gzip: bool,
    force: bool,
    **reading: Any,
) -> list[Path]:
    from tracekit.timeline.timeline import timeline_of

    to = to or _implied(path) or PERFETTO
    is_compressed = gzip or (path is not None and path.name.endswith(".gz"))
    _check(path, to, table, gzip, is_compressed)
    timeline = timeline_of(source, **reading)
    trace = timeline.trace
    if len(trace.counts):
        raise TracekitError("Of a trace of which rows were left out nothing is exported. Read it without a reduction.")
    name = trace_name(trace.source) if trace.source else "trace"
    if to == PERFETTO:
        files = _perfetto_files(timeline, path or _DIRECTORY / f"{name}.pftrace.gz")
    else:
        files = _table_files(trace, path, _DIRECTORY / f"{name}-{to}", to, table, is_compressed)
    _write(files, trace.source, force)
    return list(files)


def _check(out: Path | None, to: str, table: str | None, gzip: bool, is_compressed: bool) -> None:
    """Raise TracekitError where the options contradict each other."""
    implied = _implied(out)
    if to not in FORMATS:
        raise TracekitError(f"{to!r} is not an export format; --to takes {', '.join(FORMATS)}.")
    if implied not in (None, to):
        raise TracekitError(f"--out {out} is named like {implied}, but --to says {to}. Give them the same format.")
    if to == PERFETTO and (table or gzip):
        raise TracekitError("--table and --gzip are for tables; give --to csv, json, parquet or arrow with them.")
    if to == PERFETTO and out is not None and out.is_dir():
        raise TracekitError(f"{out} is a directory; give the file to write with --out, such as {out}/trace.pftrace.gz.")
    if is_compressed and to not in (PERFETTO, *_TEXT):
        raise TracekitError(f"{to} files are compressed inside; --gzip and .gz are for csv and json.")
    if table and table not in FRAMES:
        raise TracekitError(f"{table!r} is not a table of a trace; --table takes {', '.join(FRAMES)}.")
    if implied and to != PERFETTO and not table:
        raise TracekitError(
            f"--out {out} names one file, but a trace has {len(FRAMES)} tables. Name one with "
            "--table events, or give a directory."
        )


def _implied(out: Path | None) -> str | None:
    """The format that the end of a path says, if it says one."""
    if out is None:
        return None
    name = out.name.lower().removesuffix(".gz")
    return next((to for ending, to in _ENDINGS.items() if name.endswith(ending)), None)


def _perfetto_files(timeline: "Timeline", out: Path) -> Files:
    """One file, compressed where `out` ends in `.gz`; one for each clock where times of several cannot be compared."""
    from tracekit.export import gz, perfetto

    clocks = timeline.clocks
    paths = [out] if len(clocks) == 1 else _paths_of_clocks(out, clocks)

    def writer(clock: str) -> Callable[[Path], None]:
        return lambda draft: gz.write(draft, perfetto.blocks(timeline, clock), gzip=out.name.endswith(".gz"))

    return {path: writer(clock) for path, clock in zip(paths, clocks, strict=True)}


def _paths_of_clocks(out: Path, clocks: list[str]) -> list[Path]:
    """A file beside `out` for each clock, named after it as far as a file can be."""
    stem, suffixes = out.name, ""
    for suffix in _SUFFIXES:
        if stem.endswith(suffix):
            stem, suffixes = stem.removesuffix(suffix), suffix + suffixes
    names = [re.sub(r"[^\w.-]+", "_", clock)[:60] or "clock" for clock in clocks]
    unique = [name if names.count(name) == 1 else f"{name}-{place}" for place, name in enumerate(names, 1)]
    return [out.with_name(f"{stem}-{name}{suffixes}") for name in unique]


def _table_files(trace: "Trace", out: Path | None, default: Path, to: str, table: str | None, gzip: bool) -> Files:
    """One frame in the file `out`, or every frame in a directory, with `trace.json` on what they are."""
    from tracekit.export import tables

    def writer(name: str) -> Callable[[Path], None]:
        return lambda draft: tables.write(trace, name, draft, to, gzip)

    suffix = SUFFIXES[to] + (".gz" if gzip else "")
    if table:
        return {out or default / (table + suffix): writer(table)}
    directory = out or default
    about = json.dumps(tables.contents(trace, suffix), indent=1) + "\n"
    files = {directory / (name + suffix): writer(name) for name in FRAMES}
    return {**files, directory / "trace.json": lambda draft: draft.write_text(about, "utf-8")}


def _already_there(path: Path | str) -> TracekitError:
    return TracekitError(f"{path} exists already. Give another --out, or replace it with --force.")


def _write(files: Files, source: str, force: bool) -> None:
    """Fill each file and move it to its place; what speaks against one of them is said before any is written."""
    for path in files:
        if source:
            refuse_inside(path, source)
        if path.is_dir():
            raise TracekitError(f"{path} is a directory; give the file to write with --out.")
        if path.exists() and not force and not is_open_or_special(path):
            raise _already_there(path)
    for path, fill in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replaced(path, fill)
        except OSError as error:
            raise TracekitError(f"{path} cannot be written: {error}. Give another --out.") from None
