"""Which files a path means: one file, a run of several hosts or ranks, or a directory that holds runs."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tracekit.errors import TraceError
from tracekit.readers import content, nsys

_NEXT = (
    "Give the directory that `tracekit capture` wrote, or traces of JAX, PyTorch, MXNet or Nsight Systems (SQLite); "
    "docs/formats.md says how to record them."
)
# Of one run written in several formats the first is read: XSpace and SQLite hold what their JSON copies leave out.
_PREFERRED = ("xplane", "nsys", "chrome")
_CALLED = {"xplane": "XSpace", "nsys": "Nsight Systems", "chrome": "Chrome JSON", "nsys-rep": "Nsight Systems report"}
# What a viewer writes beside a trace.
_CACHES = re.compile(r"^\.|^ALL_HOSTS\.|\.SSTABLE$|\.hlo_proto\.pb$|^cache_version\.txt$")
_JAX_COPY = "perfetto_trace.json.gz"
# Directories called so hold the parts of one run, others a run each.
_PART_OF_RUN = re.compile(r"(.*[-_.])?(rank|worker|host|node|process|proc|task)[-_]?\d+", re.IGNORECASE)
_DEEPEST = 4
_TRACE_SUFFIXES = (*content.XSPACE_SUFFIXES, ".json", ".json.gz", ".sqlite")


@dataclass(frozen=True)
class Found:
    """The files of one trace, all of `format` ("xplane", "nsys" or "chrome").

    `directory` holds them; `runs` are the names of all runs that the path holds, this one first; `notes` say what was
    chosen and what was left out.
    """

    directory: Path
    files: tuple[Path, ...]
    format: str
    runs: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Run:
    """The traces of one run: path and format of each file."""

    name: str
    directory: Path
    files: tuple[tuple[Path, str], ...]


def find(path: Path, run: str | None = None) -> Found:
    """What to read for `path`.

    A file is taken for what it holds, whatever its name. A directory is a run if traces stand in it; else every
    `plugins/profile/<run>` below it is one, or any directory with traces, where directories that are numbered as ranks
    or hosts are one together. Of several runs the newest is taken, or the one called `run`; of several formats the one
    that tells most. Files that are no traces are passed over. Raises TraceError if there is nothing to read.
    """
    if not path.exists():
        raise TraceError(f"{path} does not exist. {_NEXT}")
    if path.is_file():
        return Found(path.parent, (path,), _form_of_file(path), (path.parent.name,))
    runs = _runs(path)
    if not any(form != "nsys-rep" for one in runs for _, form in one.files):
        raise TraceError(_nothing(path, runs))
    runs = [one for one in runs if any(form != "nsys-rep" for _, form in one.files)]
    runs.sort(key=_age, reverse=True)
    names = [one.name for one in runs]
    if run is not None and run not in names:
        raise TraceError(f"{path} holds no run {run!r}; its runs are: {', '.join(names)}.")
    chosen = runs.pop(names.index(run) if run is not None else 0)
    notes = []
    if runs:
        notes.append(f"{path} holds {len(names)} runs; {chosen.name} was read. --run NAME picks another.")
    if chosen.directory != path and (beside := _traces(path)):
        notes.append(f"{_shown([file.name for file, _ in beside])} beside the runs was left out.")
    files, form, left_out = _one_format(chosen)
    own_names = list(dict.fromkeys(file.parent.name for file in files if file.parent.parent.name == "profile"))
    if len(own_names) > 1:
        notes.append(f"Each process named its run for itself: {_shown(own_names)} were taken for one run.")
    left_out += _empty(files)
    return Found(chosen.directory, files, form, (chosen.name, *(one.name for one in runs)), (*notes, *left_out))


def _form_of_file(path: Path) -> str:
    form = _form(path, sure=True)
    if form == "nsys-rep":
        raise TraceError(nsys.export_hint(path))
    if form is None:
        raise TraceError(f"{path} is no trace that tracekit reads: it is {content.described(path)}. {_NEXT}")
    return form


def _form(path: Path, sure: bool = False) -> str | None:
    try:
        return content.form(path, sure)
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.") from None


def _nothing(path: Path, runs: Sequence[_Run]) -> str:
    """The sentence on a directory without a trace that can be read."""
    reports = [file for one in runs for file, _ in one.files]
    if reports:
        return nsys.export_hint(reports[0])
    empty = [file for file in _files(path) if file.name.endswith(_TRACE_SUFFIXES) and not file.stat().st_size]
    if empty:
        return f"{path} holds no trace: {empty[0].name} is empty (0 bytes). {_NEXT}"
    return f"{path} holds no trace: no file in it or below it is one. {_NEXT}"


def _runs(path: Path) -> list[_Run]:
    """Every run at or below `path`."""
    here = _traces(path)
    if any(form == "xplane" for _, form in here):
        return [_Run(path.name, path, here)]
    profiles = [one for profile in _profiles(path) for one in sorted(profile.iterdir()) if one.is_dir()]
    found = _together(path, profiles)
    if found or here:
        return found or [_Run(path.name, path, here)]
    return _together(path, _directories(path, _DEEPEST))


def _together(path: Path, directories: Iterable[Path]) -> list[_Run]:
    """The runs in `directories` below `path`; those that differ only in the number of a rank or host are one."""
    runs: dict[tuple[str, ...], list[_Run]] = {}
    for one in directories:
        if files := _traces(one):
            parts = tuple(part for part in one.relative_to(path).parts if not _PART_OF_RUN.fullmatch(part))
            runs.setdefault(parts, []).append(_Run(parts[-1] if parts else path.name, one, files))
    joined = [(key[:-1], _joined(found)) for key, found in runs.items() if len(found) > 1]
    single = [(key[:-1], found[0]) for key, found in runs.items() if len(found) == 1]
    return [run for _, run in joined] + _paired(path, single)


def _joined(parts: Sequence[_Run]) -> _Run:
    return _Run(parts[0].name, parts[0].directory, tuple(file for part in parts for file in part.files))


def _paired(path: Path, runs: Sequence[tuple[tuple[str, ...], _Run]]) -> list[_Run]:
    """`runs` of single processes, which name their runs for themselves: the newest ones of all ranks are one run."""
    by_parent: dict[tuple[str, ...], dict[tuple[str, ...], list[_Run]]] = {}
    for parent, run in runs:
        rank = tuple(part for part in run.directory.relative_to(path).parts if _PART_OF_RUN.fullmatch(part))
        by_parent.setdefault(parent, {}).setdefault(rank, []).append(run)
    found: list[_Run] = []
    for ranks in by_parent.values():
        ordered = [sorted(of_rank, key=_age, reverse=True) for of_rank in ranks.values()]
        found += [_joined([run for run in each if run]) for each in zip_longest(*ordered)]
    return found


def _age(run: _Run) -> tuple[float, str]:
    """A key that sorts newer runs behind older ones."""
    return max(file.stat().st_mtime for file, _ in run.files), run.name


def _profiles(path: Path) -> list[Path]:
    """Every `plugins/profile` directory at or below `path`; `path` itself may be one, or its parent."""
    if path.name == "profile" and path.parent.name == "plugins":
        return [path]
    if path.name == "plugins":
        return [path / "profile"] if (path / "profile").is_dir() else []
    return sorted(one for one in path.glob("**/plugins/profile") if one.is_dir())


def _directories(path: Path, depth: int) -> Iterator[Path]:
    """The directories below `path`, no deeper than `depth`, without hidden ones."""
    for one in sorted(path.iterdir()):
        if one.is_dir() and not one.name.startswith("."):
            yield one
            if depth > 1:
                yield from _directories(one, depth - 1)


def _files(directory: Path) -> list[Path]:
    return sorted(file for file in directory.iterdir() if file.is_file() and not _CACHES.search(file.name))


def _traces(directory: Path) -> tuple[tuple[Path, str], ...]:
    """The files in `directory` that are traces, by their content; XSpaces, which have no magic, by name too."""
    found = [(file, form) for file in _files(directory) if (form := _form(file))]
    return tuple(
        (file, form) for file, form in found if form != "xplane" or file.name.endswith(content.XSPACE_SUFFIXES)
    )


def _one_format(run: _Run) -> tuple[tuple[Path, ...], str, list[str]]:
    """The files of the format that tells most, that format, and notes on the files that were left out."""
    form = next(form for form in _PREFERRED if any(form == other for _, other in run.files))
    files = [file for file, other in run.files if other == form]
    notes = []
    if form == "chrome" and len(files) > 1 and (copies := [file for file in files if file.name == _JAX_COPY]):
        files = [file for file in files if file not in copies]
        notes.append(f"{_JAX_COPY} was left out: it is a copy of {files[0].name}.")
    # JAX writes a JSON copy of its own beside every XSpace: that this one is not read is worth no word.
    read_hosts = {file.name.split(".xplane.")[0] for file in files} if form == "xplane" else set()
    for other in ("nsys", "chrome"):
        left = [
            name
            for name in dict.fromkeys(file.name for file, its in run.files if its == other != form)
            if name != _JAX_COPY and name.split(".trace.json")[0] not in read_hosts
        ]
        if left:
            notes.append(
                f"{_shown(left)} {'was' if len(left) == 1 else 'were'} left out: the {_CALLED[form]} files of the run "
                f"were read."
            )
    exported = {file.name.split(".")[0] for file, its in run.files if its == "nsys"}
    reports = [file for file, its in run.files if its == "nsys-rep" and file.name.split(".")[0] not in exported]
    if reports:
        notes.append(f"{_shown([file.name for file in reports])} left out: {nsys.export_hint(reports[0])}")
    return tuple(files), form, notes


def _empty(files: Sequence[Path]) -> list[str]:
    """The note on empty files beside `files` that are called as traces are: a host or rank is lost with them."""
    beside = [file for directory in {file.parent: None for file in files} for file in _files(directory)]
    lost = [file.name for file in beside if file.name.endswith(_TRACE_SUFFIXES) and not file.stat().st_size]
    return [f"Empty (0 bytes), so that nothing of it could be read: {_shown(lost)}."] if lost else []


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} others"
