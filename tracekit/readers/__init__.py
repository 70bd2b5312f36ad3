"""Read a trace, whatever wrote it, into a `Trace`: one module per format; `read` finds the files and picks."""

import json
from dataclasses import replace
from pathlib import Path

from tracekit.errors import TraceError
from tracekit.readers import xplane
from tracekit.trace import Trace

_SUFFIXES = (".xplane.pb", ".xplane.pb.gz")
_NEXT = "Give the directory that `tracekit capture` wrote, one of its runs, or a *.xplane.pb file."


def read(path: str | Path, run: str | None = None) -> Trace:
    """The trace at `path`: a log directory, a directory of one run, or one `*.xplane.pb` file (gzipped or not).

    A log directory may hold several runs; `run` names one, else the newest is read and a note says so. Raises
    TraceError if nothing is there, if it is broken, or if there is no run of that name.
    """
    path = Path(path)
    runs: tuple[str, ...] = ()
    if not path.exists():
        raise TraceError(f"{path} does not exist. {_NEXT}")
    if path.is_file():
        if not path.name.endswith(_SUFFIXES) and path.suffix != ".pb":
            raise TraceError(f"{path} is no XSpace file (*.xplane.pb). {_NEXT}")
        chosen, files = path.parent, [path]
    else:
        chosen, runs = _run(path, run)
        files = _files(chosen)
    if len(files) > 1:
        raise TraceError(
            f"{chosen} holds {len(files)} hosts ({', '.join(file.name for file in files)}); one is read at a time. "
            "Give the path of one of these files."
        )
    trace = xplane.read(files[0])
    notes = trace.notes
    if len(runs) > 1:
        notes = (f"{path} holds {len(runs)} runs; {runs[0]} was read. --run NAME picks another.", *notes)
    return replace(trace, source=str(path), runs=runs or (chosen.name,), notes=notes, capture=_capture(chosen))


def _files(directory: Path) -> list[Path]:
    return sorted(file for file in directory.iterdir() if file.name.endswith(_SUFFIXES) and file.is_file())


def _run(path: Path, name: str | None) -> tuple[Path, tuple[str, ...]]:
    """The directory of the run to read and the names of all runs below `path`, the chosen one first."""
    if _files(path):
        found = [path]
    else:
        found = [one for profile in _profiles(path) for one in profile.iterdir() if one.is_dir() and _files(one)]
    if not found:
        raise TraceError(f"{path} holds no trace: no plugins/profile/<run>/*.xplane.pb is below it. {_NEXT}")
    found.sort(key=lambda one: (max(file.stat().st_mtime for file in _files(one)), one.name), reverse=True)
    names = tuple(one.name for one in found)
    if name is None:
        return found[0], names
    if name not in names:
        raise TraceError(f"{path} holds no run {name!r}; its runs are: {', '.join(names)}.")
    at = names.index(name)
    return found[at], (name, *names[:at], *names[at + 1 :])


def _profiles(path: Path) -> list[Path]:
    """Every `plugins/profile` directory at or below `path`; `path` itself may be one, or its parent."""
    if path.name == "profile" and path.parent.name == "plugins":
        return [path]
    if path.name == "plugins":
        return [path / "profile"] if (path / "profile").is_dir() else []
    return sorted(one for one in path.glob("**/plugins/profile") if one.is_dir())


def _capture(directory: Path) -> dict[str, object] | None:
    """What `capture.json` in the run's directory says, None if there is none or it is unreadable."""
    try:
        found = json.loads((directory / "capture.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
