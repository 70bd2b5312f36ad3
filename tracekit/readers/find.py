"""Which files a path means: one file, a run of several hosts or ranks, or a directory that holds runs."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tracekit.errors import TraceError
from tracekit.files import SUMMARY, refuse_saved_report
from tracekit.readers import formats
from tracekit.readers.content import description
from tracekit.readers.formats import CHROME, FILE_TYPES, NSYS, NSYS_REPORT, XSPACE, FileType
from tracekit.vocabulary.ranks import is_part_of_run

_NEXT = (
    f"Give the directory that `tracekit capture` wrote, or traces of {formats.writers(*FILE_TYPES)}; docs/formats.md "
    "says how to record them."
)
# What a viewer writes beside a trace.
_CACHES = re.compile(r"^\.|^ALL_HOSTS\.|\.SSTABLE$|\.hlo_proto\.pb$|^cache_version\.txt$")
_JAX_COPY = "perfetto_trace.json.gz"
_DEEPEST = 4
_READABLE = tuple(file_type for file_type in FILE_TYPES if file_type.export_hint is None)
_TRACE_SUFFIXES = tuple(suffix for file_type in _READABLE for suffix in file_type.suffixes)


@dataclass(frozen=True)
class TraceFiles:
    """The files of one trace, all of one type.

    `directory` holds them; `runs` are the names of all runs that the path holds, this one first; `notes` say what was
    chosen and what was skipped.
    """

    directory: Path
    files: tuple[Path, ...]
    file_type: FileType
    runs: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Run:
    """The traces of one run: path and type of each file."""

    name: str
    directory: Path
    files: tuple[tuple[Path, FileType], ...]

    @property
    def readable(self) -> bool:
        """Whether it holds a file that tracekit reads itself."""
        return any(file_type in _READABLE for _, file_type in self.files)


def find(path: Path, run: str | None = None) -> TraceFiles:
    """What to read for `path`.

    A file is taken for what it holds, whatever its name. A directory is a run if traces stand in it; else every
    `plugins/profile/<run>` below it is one, or any directory with traces, where directories that are numbered as ranks
    or hosts are one together. Of several runs the newest is taken, or the one called `run`; of several types of file
    the one that tells most. Files that are no traces are passed over. Raises TraceError if there is nothing to read.
    """
    if not path.exists():
        raise TraceError(f"{path} does not exist. {_NEXT}")
    if path.is_file():
        if run not in (None, path.parent.name):
            raise TraceError(f"{path} is one file, and not the run {run!r}. Give the directory of the runs.")
        return TraceFiles(path.parent, (path,), _type_of_named_file(path), (path.parent.name,))
    candidates = _runs(path)
    runs = [candidate for candidate in candidates if candidate.readable]
    if not runs:
        refuse_saved_report(path)
        raise TraceError(_nothing(path, candidates))
    runs.sort(key=_age, reverse=True)
    names = [each.name for each in runs]
    if run is not None and run not in names:
        raise TraceError(f"{path} contains no run {run!r}; its runs are: {', '.join(names)}.")
    chosen = runs.pop(names.index(run) if run is not None else 0)
    notes = []
    if runs:
        notes.append(f"{path} contains {len(names)} runs; {chosen.name} was read. --run NAME picks another.")
    if chosen.directory != path and (beside := _traces(path)):
        notes.append(f"Skipped {_short_list([file.name for file, _ in beside])}, which is in none of the runs.")
    files, file_type, skipped = _one_type(chosen)
    own_names = list(dict.fromkeys(file.parent.name for file in files if file.parent.parent.name == "profile"))
    if len(own_names) > 1:
        notes.append(f"Each process named its run itself: {_short_list(own_names)} were read as one run.")
    other_runs = (each.name for each in runs)
    return TraceFiles(
        chosen.directory, files, file_type, (chosen.name, *other_runs), (*notes, *skipped, *_empty(files))
    )


def _type_of_named_file(path: Path) -> FileType:
    file_type = _file_type(path, sure=True)
    if file_type is None or path.name == SUMMARY:
        refuse_saved_report(path)
    if file_type is None:
        raise TraceError(f"{path} is not a supported trace: it is {description(path)}. {_NEXT}")
    if file_type.export_hint:
        raise TraceError(file_type.export_hint(path))
    return file_type


def _file_type(path: Path, sure: bool = False) -> FileType | None:
    try:
        return formats.file_type(path, sure)
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.") from None


def _nothing(path: Path, runs: Sequence[_Run]) -> str:
    """The sentence on a directory without a trace that can be read."""
    for run in runs:
        for file, file_type in run.files:
            if file_type.export_hint:
                return file_type.export_hint(file)
    empty = [file for file in _files(path) if file.name.endswith(_TRACE_SUFFIXES) and not file.stat().st_size]
    if empty:
        return f"{path} contains no trace: {empty[0].name} is empty (0 bytes). {_NEXT}"
    return f"{path} contains no trace: no file in it or below it is one. {_NEXT}"


def _runs(path: Path) -> list[_Run]:
    """Every run at or below `path`."""
    here = _traces(path)
    if any(file_type is XSPACE for _, file_type in here):
        return [_Run(path.name, path, here)]
    below_profiles = [run for profile in _profiles(path) for run in sorted(profile.iterdir()) if run.is_dir()]
    runs = _by_rank(path, below_profiles)
    if runs or here:
        return runs or [_Run(path.name, path, here)]
    return _by_rank(path, _directories(path, _DEEPEST))


def _by_rank(path: Path, directories: Iterable[Path]) -> list[_Run]:
    """The runs in `directories` below `path`; those that differ only in the number of a rank or host are one."""
    runs: dict[tuple[str, ...], list[_Run]] = {}
    for directory in directories:
        if files := _traces(directory):
            parts = tuple(part for part in directory.relative_to(path).parts if not is_part_of_run(part))
            runs.setdefault(parts, []).append(_Run(parts[-1] if parts else path.name, directory, files))
    merged = [_one_run(ranks) for ranks in runs.values() if len(ranks) > 1]
    single = [(parts[:-1], ranks[0]) for parts, ranks in runs.items() if len(ranks) == 1]
    return merged + _paired(path, single)


def _one_run(ranks: Sequence[_Run]) -> _Run:
    return _Run(ranks[0].name, ranks[0].directory, tuple(file for run in ranks for file in run.files))


def _paired(path: Path, runs: Sequence[tuple[tuple[str, ...], _Run]]) -> list[_Run]:
    """`runs` of single processes, which name their runs for themselves: the newest ones of all ranks are one run."""
    by_parent: dict[tuple[str, ...], dict[tuple[str, ...], list[_Run]]] = {}
    for parent, run in runs:
        rank = tuple(part for part in run.directory.relative_to(path).parts if is_part_of_run(part))
        by_parent.setdefault(parent, {}).setdefault(rank, []).append(run)
    pairs: list[_Run] = []
    for ranks in by_parent.values():
        newest_first = [sorted(of_rank, key=_age, reverse=True) for of_rank in ranks.values()]
        pairs += [_one_run([run for run in each if run]) for each in zip_longest(*newest_first)]
    return pairs


def _age(run: _Run) -> tuple[float, str]:
    """A key that sorts newer runs behind older ones."""
    return max(file.stat().st_mtime for file, _ in run.files), run.name


def _profiles(path: Path) -> list[Path]:
    """Every `plugins/profile` directory at or below `path`; `path` itself may be one, or its parent."""
    if path.name == "profile" and path.parent.name == "plugins":
        return [path]
    if path.name == "plugins":
        return [path / "profile"] if (path / "profile").is_dir() else []
    return sorted(profile for profile in path.glob("**/plugins/profile") if profile.is_dir())


def _directories(path: Path, depth: int) -> Iterator[Path]:
    """The directories below `path`, no deeper than `depth`, without hidden ones."""
    for directory in sorted(path.iterdir()):
        if directory.is_dir() and not directory.name.startswith("."):
            yield directory
            if depth > 1:
                yield from _directories(directory, depth - 1)


def _files(directory: Path) -> list[Path]:
    return sorted(file for file in directory.iterdir() if file.is_file() and not _CACHES.search(file.name))


def _traces(directory: Path) -> tuple[tuple[Path, FileType], ...]:
    """The files in `directory` that are traces, by their content; XSpaces, which have no magic, by name too."""
    traces = [(file, file_type) for file in _files(directory) if (file_type := _file_type(file))]
    return tuple(
        (file, file_type)
        for file, file_type in traces
        if file_type is not XSPACE or file.name.endswith(file_type.suffixes)
    )


def _one_type(run: _Run) -> tuple[tuple[Path, ...], FileType, list[str]]:
    """The files of the type that tells most, that type, and notes on the files that were skipped."""
    by_type = {each: [file for file, file_type in run.files if file_type is each] for each in FILE_TYPES}
    chosen = next(file_type for file_type in _READABLE if by_type[file_type])
    files = by_type[chosen]
    notes = []
    if chosen is CHROME and len(files) > 1 and (copies := [file for file in files if file.name == _JAX_COPY]):
        files = [file for file in files if file not in copies]
        notes.append(f"Skipped {_JAX_COPY}, which is a copy of {files[0].name}.")
    # JAX writes a JSON copy of its own beside every XSpace: that this one is not read is worth no word.
    hosts = {file.name.split(".xplane.")[0] for file in files} if chosen is XSPACE else set()
    for file_type in (NSYS, CHROME):
        names = dict.fromkeys(file.name for file in by_type[file_type]) if file_type is not chosen else ()
        skipped = [name for name in names if name != _JAX_COPY and name.split(".trace.json")[0] not in hosts]
        if skipped:
            notes.append(f"Skipped {_short_list(skipped)}: the run's {chosen.title} files were read instead.")
    exported = {file.name.split(".")[0] for file in by_type[NSYS]}
    reports = [file for file in by_type[NSYS_REPORT] if file.name.split(".")[0] not in exported]
    if reports and NSYS_REPORT.export_hint:
        notes.append(f"Skipped {_short_list([file.name for file in reports])}: {NSYS_REPORT.export_hint(reports[0])}")
    return tuple(files), chosen, notes


def _empty(files: Sequence[Path]) -> list[str]:
    """The note on empty files beside `files` that are called as traces are: a host or rank is lost with them."""
    beside = [file for directory in {file.parent: None for file in files} for file in _files(directory)]
    empty = [file.name for file in beside if file.name.endswith(_TRACE_SUFFIXES) and not file.stat().st_size]
    return [f"Skipped empty files (0 bytes): {_short_list(empty)}."] if empty else []


def _short_list(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} others"
