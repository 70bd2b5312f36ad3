"""Write the trace of one host as a small file that stands for it: a cluster moves megabytes, and reports on all hosts.

`readers.summary` says what is in the file.
"""

import os
from pathlib import Path

from tracekit import remote
from tracekit.errors import TraceError, TracekitError
from tracekit.files import file_part, path_of, refuse_inside, replaced
from tracekit.readers import host_trace, summary
from tracekit.readers.summary import HostTrace
from tracekit.timeline.reduction import reduced
from tracekit.vocabulary.ranks import process_number

_DIRECTORY = Path("summaries")


def summarise(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    run: str | None = None,
    steps: tuple[int, int] | None = None,
) -> Path | str:
    """Write the summary of one host's trace and return its file: some thirtieth of an XSpace, with nothing left out.

    `tracekit.read` and every command take it in place of the trace, and a directory of summaries, or of summaries and
    traces, in place of the traces of a run; the results are the same, bit for bit. `source`, `run` and
    `steps` are as `tracekit.read` takes them. `out` is the file or a directory for it, which is there or ends in `/`,
    by default `summaries`; there it is called after its host, and after the directories above it that are numbered as
    ranks. A URL is that of a directory unless it ends in `.tracekit.zip`. Raises TracekitError where `source` holds no
    trace or those of several hosts, and where `out` lies inside the trace's own directory, is the summary of another
    trace or no summary, or cannot be written.
    """
    path = path_of(source)
    place = _DIRECTORY if out is None else remote.place(out)
    if out is not None:
        refuse_inside(place, path)
    if isinstance(place, str):
        remote.refuse_unreachable(place)
    host = host_trace(path.absolute() if isinstance(path, Path) else path, run, steps)
    if isinstance(place, Path):
        is_directory = place.is_dir() or (out is not None and os.fspath(out).endswith(("/", os.sep)))
    else:
        is_directory = not place.endswith(summary.SUFFIX)
    file = remote.child(place, _name(host)) if out is None or is_directory else place
    refuse_inside(file, path)
    _refuse_another(file, host.trace.source)
    try:
        with remote.written(file) as there:
            there.parent.mkdir(parents=True, exist_ok=True)
            replaced(there, lambda draft: summary.write(host, draft, reduced(host.trace)))
    except OSError as error:
        raise TracekitError(f"{file} cannot be written: {error.strerror or error}. Give another --out.") from None
    return file


def _name(host: HostTrace) -> str:
    """What the summary of a host is called."""
    path = remote.place(host.trace.source)
    hosts = host.trace.hosts["host"]
    above = (path.parts if isinstance(path, Path) else remote.parts(path))[:-1]
    numbered = [part for part in above if process_number(part)]
    parts = [*numbered, str(hosts.iat[0]) if len(hosts) else remote.base_name(path)]
    return "-".join(part for name in parts for part in file_part(name)) + summary.SUFFIX


def _refuse_another(file: Path | str, source: str) -> None:
    """Raise TracekitError where `file` is there already, and not the summary of the trace at `source`."""
    try:
        with remote.fetched(file) as there:
            if not there.exists():
                return
            other = summary.source_of(there)
    except TraceError:
        raise TracekitError(f"{file} is there already, and is no summary. Give another --out.") from None
    if other != source:
        raise TracekitError(f"{file} is the summary of another trace, {other}. Give another --out.")
