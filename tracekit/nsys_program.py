"""The program `nsys` of Nsight Systems, where this machine has it: its options, and what it exports of its reports.

Options come and go with its versions, so that each is asked for in what `nsys COMMAND --help` prints: 2022.4 does not
export blobs, for one.
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from tracekit import remote
from tracekit.errors import TraceError

RAW = ".qdstrm"
# Where an importer lies, from the directory of nsys on; Debian's packages keep it apart (nsight-systems, non-free).
_IMPORTERS = ("../host-linux-x64", "../../../nsight-systems/host-linux-x64")
_END_BYTES = 1 << 16  # at each end of a report, by which its export is known again
_STALE_S = 86_400.0
# What only answers does so at once; an export of a report of many GB takes minutes.
_ANSWER_S, _EXPORT_S = 60, 3600
_PROGRESS = re.compile(r"\[\d+/\d+\] \[|\[=*\d+%|^Processing \[")
_NEWER = re.compile(r"Version number is invalid: (\d{4})@(\d+)@(\d+)")


def program() -> str | None:
    """The path of `nsys`, None where it is not on PATH."""
    return shutil.which("nsys")


def is_exported(report: Path) -> bool:
    """Whether this machine has what exports a report in nsys's own format."""
    nsys = program()
    return nsys is not None and (report.suffix != RAW or importer(nsys) is not None)


@lru_cache
def version(nsys: str) -> str:
    """The version of `nsys`, such as `2022.4.2`, "?" where it does not say."""
    match = re.search(r"\d{4}\.\d+(?:\.\d+)?", _output([nsys, "--version"])[1])
    return match[0] if match else "?"


def known(nsys: str, command: str, options: Sequence[str]) -> list[str]:
    """Those of `options`, such as `--include-blobs=true`, that `nsys command` knows."""
    text = _help(nsys, command)
    return [option for option in options if re.search(rf"(?<![\w-]){option.partition('=')[0]}(?![\w-])", text)]


def importer(nsys: str) -> Path | None:
    """The program that makes a report of the raw stream (`.qdstrm`) which nsys leaves where it does not find that."""
    home = Path(nsys).resolve().parent
    beside = (home / place / "QdstrmImporter" for place in _IMPORTERS)
    named = shutil.which("QdstrmImporter")
    return next((path for path in [*beside, *([Path(named)] if named else [])] if os.access(path, os.X_OK)), None)


def imported(nsys: str, raw: Path, report: Path) -> str:
    """Make a report of a raw stream; "", or why that failed."""
    program_path = importer(nsys)
    if program_path is None:
        return "its importer is not installed"
    code, said = _output([str(program_path), f"--input-file={raw}", f"--output-file={report}"], _EXPORT_S)
    return "" if code == 0 and report.is_file() else _reason(said, code)


def export(nsys: str, report: Path, target: Path) -> str:
    """Export a report to the SQLite file `target`; "", or why nsys did not."""
    options = known(nsys, "export", ["--force-overwrite=true", "--quiet=true", "--include-blobs=true"])
    code, said = _output([nsys, "export", "--type=sqlite", f"--output={target}", *options, str(report)], _EXPORT_S)
    if code == 0 and target.is_file() and target.stat().st_size:
        return ""
    if newer := _NEWER.search(said):
        recorded = ".".join(newer.groups())
        return f"version {recorded} wrote it, which this nsys does not know. Export it with that version or a newer one"
    return _reason(said, code)


@contextmanager
def exported(report: Path) -> Iterator[Path]:
    """The SQLite that nsys exports of a report, as long as the context; it is kept in a cache, whose size is that of
    what is fetched from stores (TRACEKIT_CACHE_GB), and made anew where the report has changed.

    Nothing is written beside the report. Raises TraceError where nsys does not export it.
    """
    nsys = program()
    if nsys is None:
        raise TraceError(f"{report} cannot be exported: there is no `nsys` on PATH.")
    with remote.cache_directory("nsys") as root:
        kept = root / "exports" / f"{_key(nsys, report)}.sqlite"
        kept.parent.mkdir(exist_ok=True)
        _remove_stale(root)
        with tempfile.TemporaryDirectory(prefix="export-", dir=root, ignore_cleanup_errors=True) as directory:
            # A link to what is kept stays readable where another process removes it from the cache.
            own = Path(directory) / f"{report.stem}.sqlite"
            with suppress(OSError):
                os.link(kept, own)
            if not own.is_file():
                _export(nsys, report, own)
                with suppress(OSError):  # a file system without links: it is exported each time
                    os.link(own, kept)
            yield own
        remote.trim(kept.parent)


def _export(nsys: str, report: Path, target: Path) -> None:
    """Export a report or a raw stream to `target`; raises TraceError, which says why it failed."""
    source = report
    if report.suffix == RAW:
        source = target.with_suffix(".nsys-rep")
        if problem := imported(nsys, report, source):
            raise TraceError(f"{report} cannot be imported: {problem}.")
    if problem := export(nsys, source, target):
        raise TraceError(
            f"{report} cannot be exported by nsys {version(nsys)}: {problem}, and give the .sqlite file."
            if problem.endswith("newer one")
            else f"{report} cannot be exported by nsys {version(nsys)}: {problem}. Copy the report again, or export it "
            "where it was recorded (`nsys export --type sqlite`)."
        )


def _key(nsys: str, report: Path) -> str:
    """What names the export of a report: another for other bytes at its ends, another time, and another nsys."""
    status = report.stat()
    with report.open("rb") as file:
        ends = file.read(_END_BYTES)
        file.seek(max(0, status.st_size - _END_BYTES))
        ends += file.read(_END_BYTES)
    facts = f"{status.st_size} {status.st_mtime_ns} {version(nsys)}".encode()
    return hashlib.sha256(facts + ends).hexdigest()


def _remove_stale(root: Path) -> None:
    """Remove what processes left behind that were killed while they exported."""
    for directory in root.glob("export-*"):
        with suppress(OSError):
            if time.time() - directory.stat().st_mtime > _STALE_S:
                shutil.rmtree(directory, ignore_errors=True)


@lru_cache
def _help(nsys: str, command: str) -> str:
    return _output([nsys, command, "--help"])[1]


def _output(command: Sequence[str], most_s: float = _ANSWER_S) -> tuple[int, str]:
    """The exit code of a program, and all that it says; it is ended, with what it started, after `most_s`."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return 127, f"{command[0]} cannot be run: {error.strerror}"
    with process:
        try:
            text, _ = process.communicate(timeout=most_s)
        except subprocess.TimeoutExpired:
            return 124, f"{command[0]} did not end within {most_s:g} s"
        finally:
            # Also where this process is interrupted: a terminal's signals do not reach a session of its own.
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, text


def said(text: str) -> list[str]:
    """What nsys said, line by line, without its bars of progress."""
    lines = [line.rpartition("\r")[2].strip() for line in text.splitlines()]
    return [line for line in lines if line and not _PROGRESS.search(line)]


def _reason(text: str, code: int) -> str:
    lines = said(text)
    return lines[-1].rstrip(".") if lines else f"it ended with exit code {code} and said nothing"
