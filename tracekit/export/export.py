"""What `tracekit export` does: read, convert, write."""

import sys
from pathlib import Path

from tracekit import console as terminal
from tracekit.errors import TracekitError
from tracekit.export import FORMATS, FRAMES, PERFETTO
from tracekit.export.write import default_path, perfetto_files, put, table_files
from tracekit.load import load

# What a path's end tells of its format.
_ENDS = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".csv": "csv", ".jsonl": "json"}
_TEXT = ("csv", "json")


def run(
    trace_path: Path,
    to: str | None = None,
    out: Path | None = None,
    run_name: str | None = None,
    table: str | None = None,
    gzip: bool = False,
    force: bool = False,
    kinds: Path | None = None,
) -> list[Path]:
    """Export the trace at `trace_path` and return the files that were written.

    `to` is one of FORMATS; by default what the end of `out` says, else Perfetto. `table` names the one frame to write
    to the file `out`, else all are written to the directory `out`. `kinds` is a file of rules (vocabulary.rules).
    """
    told = _told(out)
    to = to or told or PERFETTO
    if to not in FORMATS:
        raise TracekitError(f"{to!r} is no format to export to; --to takes {', '.join(FORMATS)}.")
    if told not in (None, to):
        raise TracekitError(f"--out {out} is named like {told}, but --to says {to}. Give them the same format.")
    if to == PERFETTO and (table or gzip):
        raise TracekitError("--table and --gzip are for tables; give --to csv, json, parquet or arrow with them.")
    if gzip and to not in _TEXT:
        raise TracekitError(f"{to} files are compressed inside; --gzip is for csv and json.")
    if table and table not in FRAMES:
        raise TracekitError(f"{table!r} is no table of a trace; --table takes {', '.join(FRAMES)}.")
    if told and to != PERFETTO and not table:
        raise TracekitError(
            f"--out {out} names one file, but a trace has {len(FRAMES)} tables. Name one with "
            "--table events, or give a directory."
        )
    gzip = gzip or (out is not None and out.name.endswith(".gz"))
    out = out or default_path(trace_path, to, table, gzip)
    if to == PERFETTO and out.is_dir():
        raise TracekitError(f"{out} is a directory; give the file to write with --out, such as {out}/trace.pftrace.gz.")
    with terminal.progress(["reading", "writing"]) as step:
        step("reading")
        trace = load(trace_path, run_name, kinds)
        step("writing")
        files = perfetto_files(trace, out) if to == PERFETTO else table_files(trace, to, out, table, gzip)
        put(files, trace_path, force)
    if to == PERFETTO and len(files) > 1:
        few = f"The clocks of {len(files)} hosts cannot be compared, and Perfetto has one time axis"
        print(f"{few}: each has a file of its own.", file=sys.stderr)
    if to != PERFETTO and not table:
        print(f"Wrote {out}/ ({', '.join(path.name for path in files)})", file=sys.stderr)
    else:
        print(*(f"Wrote {path}" for path in files), sep="\n", file=sys.stderr)
    return list(files)


def for_perfetto(trace_path: Path, run_name: str | None, out: Path) -> None:
    """Write the trace at `trace_path` to the file `out` for Perfetto to show, and nothing else."""
    files = perfetto_files(load(trace_path, run_name), out)
    if len(files) > 1:
        raise TracekitError(
            f"The clocks of {len(files)} hosts of {trace_path} cannot be compared, and Perfetto has one time axis. "
            "Write a file for each with `tracekit export`, and open one of them."
        )
    put(files, trace_path, force=True)


def _told(out: Path | None) -> str | None:
    """The format that the end of a path tells, if it tells one."""
    if out is None:
        return None
    name = out.name.lower().removesuffix(".gz")
    if name.endswith((".pftrace", ".perfetto-trace")):
        return PERFETTO
    return next((to for end, to in _ENDS.items() if name.endswith(end)), None)
