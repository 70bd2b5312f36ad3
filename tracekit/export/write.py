"""Write an export to files: drafts first, then moved to their places, and nothing of anyone's overwritten unasked."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.export import FRAMES, PERFETTO, gz, perfetto, tables
from tracekit.export.timeline import timeline
from tracekit.files import refuse_inside, replaced, trace_name
from tracekit.trace import Trace

_DIRECTORY = Path("exports")
# Where a name of several files gets what tells them apart.
_SUFFIXES = (".gz", ".pftrace", ".perfetto-trace", ".perfetto", ".pb")

Files = Mapping[Path, Callable[[Path], object]]


def default_path(trace_path: Path, to: str, table: str | None = None, gzip: bool = False) -> Path:
    """`exports/<trace>.pftrace.gz`; tables go to a directory, `exports/<trace>-csv`, or one of them to a file in it."""
    name = trace_name(trace_path)
    if to == PERFETTO:
        return _DIRECTORY / f"{name}.pftrace.gz"
    directory = _DIRECTORY / f"{name}-{to}"
    return directory / f"{table}{suffix(to, gzip)}" if table else directory


def suffix(to: str, gzip: bool) -> str:
    """What the files of a table format end in."""
    return tables.TABLES[to][0] + (".gz" if gzip else "")


def perfetto_files(trace: Trace, out: Path) -> Files:
    """One file, compressed where `out` ends in `.gz`; one for each clock where times of several cannot be compared."""
    shown = timeline(trace)
    clocks = shown.clocks
    paths = [out] if len(clocks) == 1 else _named_after(out, clocks)

    def written(clock: str) -> Callable[[Path], None]:
        def fill(path: Path) -> None:
            with path.open("wb") as file:
                if out.name.endswith(".gz"):
                    gz.write(file, perfetto.blocks(shown, clock))
                else:
                    file.writelines(perfetto.blocks(shown, clock))

        return fill

    return {path: written(clock) for path, clock in zip(paths, clocks, strict=True)}


def table_files(trace: Trace, to: str, out: Path, table: str | None, gzip: bool) -> Files:
    """One frame in the file `out`, or every frame in a directory, with `trace.json` on what they are."""

    def written(name: str) -> Callable[[Path], None]:
        return lambda draft: tables.TABLES[to][1](trace, name, draft, **({"gzip": True} if gzip else {}))

    if table:
        return {out: written(table)}
    ending = suffix(to, gzip)
    files = {out / (name + ending): written(name) for name in FRAMES}
    said = json.dumps(tables.contents(trace, ending), indent=1)
    return {**files, out / "trace.json": lambda draft: draft.write_text(said + "\n", "utf-8")}


def put(files: Files, trace_path: Path, force: bool) -> None:
    """Fill each file and move it to its place.

    Raises TracekitError, before anything is written, if one lies in the trace's own directory or is there already and
    not to be replaced; and if it cannot be written.
    """
    for path in files:
        refuse_inside(path, trace_path)
        if path.is_dir():
            raise TracekitError(f"{path} is a directory; give the file to write with --out.")
        if path.exists() and not force:
            raise TracekitError(f"{path} exists already. Give another --out, or replace it with --force.")
    for path, fill in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replaced(path, fill)
        except OSError as error:
            raise TracekitError(f"{path} cannot be written: {error}. Give another --out.") from None


def _named_after(out: Path, clocks: list[str]) -> list[Path]:
    """A file beside `out` for each clock, named after it as far as a file can be."""
    stem, ending = out.name, ""
    for end in _SUFFIXES:
        if stem.endswith(end):
            stem, ending = stem.removesuffix(end), end + ending
    names = [re.sub(r"[^\w.-]+", "_", clock)[:60] or "clock" for clock in clocks]
    told = [name if names.count(name) == 1 else f"{name}-{place}" for place, name in enumerate(names, 1)]
    return [out.with_name(f"{stem}-{name}{ending}") for name in told]
