"""Which files a path means: one file, a run of several hosts or ranks, or a directory that holds runs."""

import os
import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, Self

from tracekit.errors import TraceError
from tracekit.files import SUMMARY as REPORT_SUMMARY
from tracekit.files import refuse_saved_report
from tracekit.readers import capture_facts, formats, nsys_jax
from tracekit.readers.content import OTHER_JSON, POINTER, READ_BYTES, TEXT, description, unlike_json
from tracekit.readers.formats import (
    CHROME,
    FILE_TYPES,
    NSYS,
    NSYS_JAX,
    NSYS_PARQUET,
    NSYS_REPORT,
    ROCPROF,
    SUMMARY,
    XSPACE,
    FileType,
)
from tracekit.readers.nsys import parquet_export
from tracekit.vocabulary.ranks import is_part_of_run, process_number

_NEXT = (
    f"Give the directory that `tracekit capture` wrote, or traces of {formats.writers(*FILE_TYPES)}; docs/formats.md "
    "says how to record them."
)
# What a viewer writes beside a trace.
_CACHES = re.compile(r"^\.|^ALL_HOSTS\.|\.SSTABLE$|\.hlo_proto\.pb$|^cache_version\.txt$")
_JAX_COPY = "perfetto_trace.json.gz"
# What is added to the name of a file that was packed for a copy; and to one that has not come whole, as by browsers,
# WinSCP, gcloud and aws, which adds eight random digits to the base of 16.
_PACKED = re.compile(r"\.(?:gz|zst|xz|lzma|bz2|lz4|br|7z|zip)$")
_COMING = re.compile(
    r"(?:\.(?:part|partial|crdownload|download|filepart|tmp|aria2|(?=\d*[A-Fa-f])[0-9A-Fa-f]{8})|_?\.gstmp)$"
)
# While rsync, Syncthing or iCloud fetch a file, one stands in its place that is hidden. Where rsync adds six letters
# and digits at random, others add `backup` or `sha256`; `._` is what macOS keeps of a file.
_HIDDEN = re.compile(r"\.(?!_)(?:syncthing\.)?(.+)\.(?:(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{6}|tmp|icloud)")
# The table of an archive of nsys-jax, and what else such an archive holds and no other one does.
_TABLE = f"{nsys_jax.FOLDER}/trace.parquet"
_OF_ARCHIVE = re.compile(r"(?:^|/)(?:thread-metadata\.parquet|device-metadata\.parquet|dump/module_\d+\.[^/]*)$")
_DEEPEST = 4
# What was written no further apart may have been in any order: FAT and zip archives keep times to 2 s.
_TICK_S = 2.0
LACKS = "which lacks HLO protos, asynchronous operations of TPUs, the memory of the host and details of devices"
"""What the JSON of JAX does not hold of its XSpace (chrome/jax_planes.py), as the end of a sentence."""
# Names that only traces have, of types whose suffixes other files have too.
_OWN_SUFFIXES: dict[str, tuple[str, ...]] = {
    NSYS_JAX.name: (),
    NSYS_PARQUET.name: (),
    ROCPROF.name: ("_results.json",),
    CHROME.name: (".trace.json", ".trace.json.gz"),
}
# What is read beside a file that stands for its directory.
_BESIDE = {NSYS_PARQUET: parquet_export.tables, NSYS_JAX: nsys_jax.needed}
# What a file system makes of its own, and lets nobody look into.
_OF_DISKS = "lost+found"
_OF_NSYS = frozenset((NSYS, NSYS_PARQUET, NSYS_JAX))
_READABLE = tuple(file_type for file_type in FILE_TYPES if file_type.export_hint is None)
_TRACE_SUFFIXES = tuple(suffix for file_type in _READABLE for suffix in file_type.suffixes)


@dataclass(frozen=True)
class TraceFiles:
    """The files of one trace, all of one type, and of others of its hosts the `summaries` and, beside XSpace files, the
    JSON that JAX wrote of them (`json`); if there are only summaries, they are its files.

    `directory` holds them; `runs` are the names of all runs that the path holds, this one first; `notes` say what was
    chosen and what was skipped. `unreadable`: the files that are called as if they held the other hosts or ranks, and
    hold no trace, or that of another profiler, each with what it is. `newer`: the runs that are newer and hold no
    trace, each with the reason; of directories of Nsight Systems, which stand for files, older ones too. `copied`: the
    XSpaces that are none, and that JSON is read in their place.
    """

    directory: Path
    files: tuple[Path, ...]
    file_type: FileType
    runs: tuple[str, ...]
    notes: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    summaries: tuple[Path, ...] = ()
    newer: tuple[str, ...] = ()
    json: tuple[Path, ...] = ()
    copied: tuple[str, ...] = ()

    @property
    def each(self) -> tuple[Path, ...]:
        """The files of its hosts, of every type."""
        return (*self.files, *self.json, *self.summaries)

    @property
    def needed(self) -> tuple[Path, ...]:
        """All files that are opened to read it: with the one file that stands for a directory, the others of that."""
        beside = (each for file in self.files for each in self.parts(file)[1:])
        return (*self.each, *beside)

    def parts(self, file: Path) -> tuple[Path, ...]:
        """A file of the trace, and what is read with it where it stands for a directory."""
        return parts(file, SUMMARY if self.type_of(file) is SUMMARY else self.file_type)

    def type_of(self, file: Path) -> FileType:
        """The type of one of its files."""
        return self._others.get(file, self.file_type)

    @cached_property
    def _others(self) -> dict[Path, FileType]:
        """The files of another type than most; of a thousand, looking through tuples took 0.8 s."""
        return dict.fromkeys(self.json, CHROME) | dict.fromkeys(self.summaries, SUMMARY)

    @property
    def capture(self) -> Path:
        """The directory whose `capture.json` is of this run: that of the files, or what holds a directory that stands
        for a file."""
        directory = self.directory.absolute()
        above = 2 if directory.name == nsys_jax.FOLDER else 1 if parquet_export.FOLDERS.search(directory.name) else 0
        places = [self.directory, *directory.parents[:above]]
        return next((place for place in places if (place / capture_facts.NAME).exists()), self.directory)


def parts(file: Path, file_type: FileType) -> tuple[Path, ...]:
    """A file of this type, and what is read with it where it stands for a directory."""
    others = _BESIDE.get(file_type)
    return tuple(dict.fromkeys((file, *(others(file) if others else ()))))


@dataclass(frozen=True)
class _Run:
    """The traces of one run: path and type of each file."""

    name: str
    directory: Path
    files: tuple[tuple[Path, FileType], ...]

    @property
    def readable(self) -> bool:
        """Whether it holds a file that can be read here."""
        return not all(_export_hint(file, file_type) for file, file_type in self.files)


def _export_hint(file: Path, file_type: FileType) -> str:
    """How to export a file that cannot be read here as it is, else ""."""
    return file_type.export_hint(file) if file_type.export_hint else ""


def head_bytes(name: str) -> int:
    """How many of its first bytes say whether a file of this name is a trace: none of what a viewer has written, few of
    an XSpace, which its name tells."""
    if _CACHES.search(name):
        return 0
    return 64 if name.endswith(XSPACE.suffixes) and not name.endswith(".gz") else READ_BYTES


def told_by_their_ends(path: Path) -> list[Path]:
    """The files at or below `path` that are told by their ends, not by their first bytes: zip archives; and a file that
    is named."""
    if path.is_file():
        return [path]
    return [file for file in path.rglob("*.zip") if not file.name.endswith(SUMMARY.suffixes)]


def find(path: Path, run: str | None = None) -> TraceFiles:
    """What to read for `path`.

    A file is taken for what it holds, whatever its name. A directory is a run if traces stand in it; else every
    `plugins/profile/<run>` below it is one, or any directory with traces, where directories that are numbered as ranks
    or hosts are one together. Of several runs the newest is taken, or the one called `run`; of several types of file
    the one that tells most, and with it all summaries. Files that are no traces are passed over. Raises TraceError if
    there is nothing to read.
    """
    if not path.exists():
        raise TraceError(f"{path} does not exist. {_NEXT}")
    if not path.is_file() and not path.is_dir():
        raise TraceError(f"{path} is a pipe or a device, and no file. Write what it gives to a file, and give that.")
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
    summaries_of_run = {file for file, of_type in chosen.files if of_type is SUMMARY}
    beside = [file.name for file, _ in _traces(path) if file not in summaries_of_run]
    if chosen.directory != path and beside:
        notes.append(f"Skipped {_short_list(beside)}, which is in none of the runs.")
    summaries = [file for file, of_type in chosen.files if of_type is SUMMARY]
    files, file_type, others, skipped = _one_type(chosen, summaries)
    summaries = [] if file_type is SUMMARY else summaries
    json = [file for file in others if file_type is XSPACE and others[file] is CHROME]
    if above := [file.name for file in summaries if file.parent == path != chosen.directory]:
        notes.append(f"Read as other hosts of the run {chosen.name}: {_short_list(above)}.")
    own_names = list(dict.fromkeys(file.parent.name for file in files if file.parent.parent.name == "profile"))
    if len(own_names) > 1:
        notes.append(f"Each process named its run itself: {_short_list(own_names)} were read as one run.")
    other_runs = (each.name for each in runs)
    copied = _in_place_of(chosen, json or files) if file_type in (CHROME, XSPACE) else {}
    callings = [_Calling.of(file_type, files), _Calling.of(SUMMARY, summaries)]
    return TraceFiles(
        chosen.directory,
        files,
        file_type,
        (chosen.name, *other_runs),
        (*notes, *skipped),
        (
            *_unreadable(path, (*files, *summaries), chosen, callings, copied),
            *(_lost_copies(chosen, (*files, *summaries)) if file_type is XSPACE else ()),
            *(
                f"{label(file)} is of another profiler than the {file_type.title} files, with which it is not merged"
                for file in others
                if file not in json
            ),
        ),
        tuple(summaries),
        () if run is not None else tuple(_newer_without_trace(path, chosen, runs)),
        tuple(json),
        tuple(
            f"{label(file)} is {_what(file)}; {copy.name} was read in its place, {LACKS}"
            for file, copy in copied.items()
        ),
    )


def _type_of_named_file(path: Path) -> FileType:
    file_type = _file_type(path, sure=True)
    if file_type is None or path.name == REPORT_SUMMARY:
        refuse_saved_report(path)
    if file_type is None:
        raise TraceError(f"{path} is not a supported trace: it is {description(path)}. {_NEXT}")
    if hint := _export_hint(path, file_type):
        raise TraceError(hint)
    return NSYS if file_type is NSYS_REPORT else file_type


def _file_type(path: Path, sure: bool = False) -> FileType | None:
    try:
        return formats.file_type(path, sure)
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.") from None


def _nothing(path: Path, runs: Sequence[_Run]) -> str:
    """The sentence on a directory without a trace that can be read."""
    for run in runs:
        for file, file_type in run.files:
            if hint := _export_hint(file, file_type):
                return hint
    for directory in (path, *_directories(path, _DEEPEST)):
        if reason := _closed(directory):
            return f"{directory} cannot be read: {reason}."
    entries = _entries(path)
    files = [entry for entry in entries if _is(entry.is_file)]
    for file in files:
        try:
            file.open("rb").close()
        except OSError as error:
            raise TraceError(f"{file} cannot be read: {error.strerror}.") from None
    for file in files:
        if file.suffix in NSYS_JAX.suffixes:
            return f"{path} contains no trace: {file.name} is {_what(file)}. {_NEXT}"
    for file in entries:
        if file.name.endswith(_TRACE_SUFFIXES) and not (_is(file.is_file) and file.stat().st_size):
            return f"{path} contains no trace: {file.name} is {_what(file)}. {_NEXT}"
    for file in (*entries, *_hidden_copies(path)):
        if _is_under_way(file.name) and any(name.endswith(_TRACE_SUFFIXES) for name in _unpacked(file.name)):
            return f"{path} contains no trace: {file.name} is {_what(file)}. {_NEXT}"
    for file in files:
        if ".json" in file.name and (what := unlike_json(file)):
            return f"{path} contains no trace: {file.name} is {what}. {_NEXT}"
    return f"{path} contains no trace: no file in it or below it is one. {_NEXT}"


def _runs(path: Path) -> list[_Run]:
    """Every run at or below `path`."""
    here = _traces(path)
    if any(file_type is XSPACE for _, file_type in here):
        return [_Run(path.name, path, here)]
    below_profiles = [run for profile in _profiles(path) for run in _listed(profile) if _is(run.is_dir)]
    runs = _by_rank(path, below_profiles)
    summaries = tuple(each for each in here if each[1] is SUMMARY)
    if len(summaries) == len(here):
        runs = runs or _by_rank(path, _directories(path, _DEEPEST))
    if len(runs) == 1:  # of which those above it are other hosts
        return [replace(runs[0], files=runs[0].files + summaries)]
    return runs or ([_Run(path.name, path, here)] if here else [])


def _by_rank(path: Path, directories: Iterable[Path]) -> list[_Run]:
    """The runs in `directories` below `path`; those that differ only in the number of a rank or host are one."""
    runs: dict[tuple[str, ...], list[_Run]] = {}
    for directory in directories:
        if files := _traces(directory):
            parts = _run_parts(path, directory)
            runs.setdefault(parts, []).append(_Run(parts[-1] if parts else path.name, directory, files))
    merged = [_one_run(ranks) for ranks in runs.values() if len(ranks) > 1]
    single = [(parts[:-1], ranks[0]) for parts, ranks in runs.items() if len(ranks) == 1]
    return merged + _paired(path, single)


def _run_parts(path: Path, directory: Path) -> tuple[str, ...]:
    """The names of the directories from `path` down to `directory` that tell its run: not those of ranks or hosts."""
    # Unpacked archives beside each other are of one run, as packed ones are.
    relative = directory.relative_to(path).parts[: -2 if directory.name == nsys_jax.FOLDER else None]
    return tuple(part for part in relative if not is_part_of_run(part))


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
    # A hidden directory is one that a capture has not finished.
    return sorted(
        profile
        for profile in path.glob("**/plugins/profile")
        if _is(profile.is_dir) and not any(part.startswith(".") for part in profile.relative_to(path).parts)
    )


def _directories(path: Path, depth: int, seen: set[tuple[int, int]] | None = None) -> Iterator[Path]:
    """The directories below `path`, no deeper than `depth`, without hidden ones; each once, by its own name rather than
    by that of a link to it."""
    seen = {_identity(path)} if seen is None else seen
    directories = [entry for entry, is_dir in _scanned(path) if is_dir and not entry.name.startswith(".")]
    for directory in sorted(directories, key=Path.is_symlink):
        if _identity(directory) not in seen:
            seen.add(_identity(directory))
            yield directory
            if depth > 1:
                yield from _directories(directory, depth - 1, seen)


def _identity(directory: Path) -> tuple[int, int]:
    found = directory.stat()
    return found.st_dev, found.st_ino


def _newer_without_trace(path: Path, chosen: _Run, others: Sequence[_Run]) -> Iterator[str]:
    """The runs at or below `path` that may be newer than the one `chosen` (`_may_be_newer`), or exports of Nsight
    Systems of any age as it is, and hold no trace, and why; `others` hold one. An older one, beside a newer one that is
    read, is not told: nobody would have read it.

    Every directory beside the runs of profiles is one, another if it is called as the one that was chosen, or holds
    something that is called as its files are.
    """
    if chosen.directory == path:
        return
    newest = _age(chosen)
    of_profiles = dict.fromkeys(entry for profile in _profiles(path) for entry in _listed(profile))
    callings = _callings(chosen)
    known = {_run_parts(path, file.parent) for run in (chosen, *others) for file, _ in run.files}
    beside = [
        entry
        for folder in (path, *_directories(path, _DEEPEST - 1))
        for entry in _listed(folder)
        if not entry.name.startswith(".") and not _is_of(_run_parts(path, entry), known)
    ]
    told = set()
    for entry in dict.fromkeys([*of_profiles, *beside]):
        is_gone = entry.is_symlink() and not _is(entry.exists)
        parts = _run_parts(path, entry)
        if not (is_gone or _is(entry.is_dir)) or parts in told:
            continue
        # How old it is what lies in it tells.
        is_hidden = not is_gone and bool(_closed(entry))
        is_newer = is_hidden or _may_be_newer(entry, parts[-1] if parts else entry.name, newest)
        if not (is_newer or _are_exports(entry, chosen)):
            continue
        if why := _why_no_run(entry, chosen, callings, is_of_profile=entry in of_profiles):
            told.add(parts)
            instead = f"; {chosen.name} was read instead" if is_newer else ""
            yield f"{parts[-1] if parts else entry.name}: {why}{instead}"


def _may_be_newer(entry: Path, name: str, newest: tuple[float, str]) -> bool:
    """Whether a directory, or a link to one that is gone, may be of a newer run, of that `name`, than the `newest`, of
    which `_age` tells time and name.

    It is where it, or what lies in it, was written later, or its name comes behind by the first number in which both
    differ, as a date or a count of steps does: copies lose times (`cp -r`, `git clone`). What was written within a tick
    is as old, unless its name comes before.
    """
    words = zip(*(re.split(r"(\d+)", each) for each in (name, newest[1])), strict=False)
    its, other = next((pair for pair in words if pair[0] != pair[1]), ("", ""))
    order = int(its) - int(other) if its.isdecimal() and other.isdecimal() else 0
    since = newest[0] + (_TICK_S if order < 0 else -_TICK_S)
    return order > 0 or any(each.lstat().st_mtime >= since for each in (entry, *_entries(entry)))


def _is_of(parts: tuple[str, ...], runs: Collection[tuple[str, ...]]) -> bool:
    """Whether a directory is that of one of the `runs`, or lies below it."""
    return any(parts[:depth] in runs for depth in range(len(parts) + 1))


def _callings(run: _Run) -> "list[_Calling]":
    """How the files of each type are called in a run."""
    types = {file_type.name: file_type for _, file_type in run.files}.values()
    return [_Calling.of(each, [file for file, of_type in run.files if of_type is each]) for each in types]


def _are_exports(entry: Path, chosen: _Run) -> bool:
    """Whether a directory, and the one that was chosen, are called as those that Nsight Systems exports to."""
    return all(map(parquet_export.FOLDERS.search, (entry.name, chosen.directory.name)))


def _why_no_run(entry: Path, chosen: _Run, callings: "Sequence[_Calling]", is_of_profile: bool) -> str:
    """Why a directory, or a link to one that is gone, is no run as the one `chosen`, whose files are called as
    `callings` say; "" where it is not to be one."""
    is_export = _are_exports(entry, chosen)
    is_called_so = is_of_profile or is_export or _without_numbers(entry.name) == _without_numbers(chosen.name)
    if not _is(entry.exists):
        return "it is a link to a directory that does not exist" if is_called_so else ""
    if _traces(entry):
        return ""
    if closed := _closed(entry):
        return "" if entry.name == _OF_DISKS else f"it cannot be read: {closed}"
    if not _listed(entry):
        return "it is empty" if is_called_so else ""
    for file in (*_entries(entry), *_named_as_files(entry)):
        if is_of_profile:  # a run's capture.json is JSON, and no trace
            names = (file.name, *_unpacked(file.name))
            is_named_so = file.name != capture_facts.NAME and any(name.endswith(_TRACE_SUFFIXES) for name in names)
        else:
            is_named_so = any(calling.fits(file) for calling in callings)
        if is_named_so:
            return f"{file.name} is {_what(file)}"
    return f"it holds no table {parquet_export.STRINGS}" if is_export else ""


def _files(directory: Path) -> list[Path]:
    return [entry for entry in _entries(directory) if _is(entry.is_file)]


def _entries(directory: Path) -> list[Path]:
    """What lies in a directory and is none, pipes and links to nothing too."""
    return [entry for entry, is_dir in _scanned(directory) if not is_dir and not _CACHES.search(entry.name)]


def _is_under_way(name: str) -> bool:
    """Whether a file of this name is what a copy or a download has written so far."""
    return bool(_COMING.search(name) or _HIDDEN.fullmatch(name))


def _hidden_copies(directory: Path) -> list[Path]:
    """The files in a directory that stand in the place of others while these are fetched."""
    return [entry for entry, is_dir in _scanned(directory) if not is_dir and _HIDDEN.fullmatch(entry.name)]


def _named_as_files(directory: Path) -> list[Path]:
    """The directories in a directory that have a suffix that traces have, as what a tool unpacked may have."""
    return [
        entry
        for entry, is_dir in _scanned(directory)
        if is_dir and any(name.endswith(_TRACE_SUFFIXES) for name in (entry.name, *_unpacked(entry.name)))
    ]


def _listed(directory: Path) -> list[Path]:
    """All that lies in a directory; nothing where it may not be looked into, of which `_nothing`, `_unreadable` and
    `_newer_without_trace` tell."""
    return [entry for entry, _ in _scanned(directory)]


def _scanned(directory: Path) -> list[tuple[Path, bool]]:
    """What `_listed` gives, and whether each is a directory, which the system tells with the names of them."""
    try:
        with os.scandir(directory) as entries:
            named = sorted(entries, key=attrgetter("name"))
    except OSError:
        return []
    paths = [(directory / entry.name, entry) for entry in named]
    return [(path, _is(path.is_dir if entry.is_symlink() else entry.is_dir)) for path, entry in paths]


def _is(test: Callable[[], bool]) -> bool:
    """What a test of a path says; it is nothing where a link may not be followed."""
    try:
        return test()
    except OSError:
        return False


def _closed(directory: Path) -> str:
    """Why a directory may not be looked into, "" where it may."""
    try:
        next(directory.iterdir(), None)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _traces(directory: Path) -> tuple[tuple[Path, FileType], ...]:
    """The files in `directory` that are traces, by their content; XSpaces, which have no magic, by name too."""
    traces = []
    for file in _files(directory):
        with suppress(TraceError):  # of one that may not be read, `_unreadable` tells
            if file_type := _file_type(file):
                traces.append((file, file_type))
    return tuple(
        (file, file_type)
        for file, file_type in traces
        if file_type is not XSPACE or file.name.endswith(file_type.suffixes)
    )


def _one_type(
    run: _Run, summaries: Sequence[Path]
) -> tuple[tuple[Path, ...], FileType, dict[Path, FileType], list[str]]:
    """The files of the type that tells most, that type; those of other hosts or ranks by their names, of which there is
    none of it and no summary, by type; and notes on the files that were skipped."""
    by_type = {each: [file for file, file_type in run.files if file_type is each] for each in FILE_TYPES}
    # A report is read as the export that nsys makes of it, unless that lies beside it.
    exported = {file.name.split(".")[0] for file in by_type[NSYS]}
    reports = [file for file in by_type[NSYS_REPORT] if file.name.split(".")[0] not in exported]
    by_type[NSYS] += [file for file in reports if not _export_hint(file, NSYS_REPORT)]
    chosen = next(file_type for file_type in _READABLE if by_type[file_type])
    files = by_type[chosen]
    notes = []
    if chosen is CHROME and len(files) > 1 and (copies := [file for file in files if file.name == _JAX_COPY]):
        files = [file for file in files if file not in copies]
        notes.append(f"Skipped {_JAX_COPY}, which is a copy of {files[0].name}.")
    # JAX writes a JSON copy of its own beside every XSpace: that this one is not read is worth no word.
    hosts = {file.name.split(".xplane.")[0] for file in files} if chosen is XSPACE else set()
    others: dict[Path, FileType] = {}
    for file_type in _READABLE:
        if file_type in (chosen, SUMMARY):
            continue
        beside = [file for file in by_type[file_type] if file.name != _JAX_COPY]
        if not {file_type, chosen} <= _OF_NSYS:  # which are all of one profiler, and named otherwise
            others |= {file: file_type for file in beside if not are_of_one(file, (*files, *summaries))}
        names = dict.fromkeys(file.name for file in beside if file not in others)
        if skipped := [name for name in names if name.split(".trace.json")[0] not in hosts]:
            notes.append(f"Skipped {_short_list(skipped)}: the run's {chosen.title} files were read instead.")
    if unread := [file for file in reports if _export_hint(file, NSYS_REPORT)]:
        hint = _export_hint(unread[0], NSYS_REPORT)
        notes.append(f"Skipped {_short_list([file.name for file in unread])}: {hint}")
    return tuple(files), chosen, others, notes


def are_of_one(file: Path, others: Iterable[Path]) -> bool:
    """Whether one of the `others` is called after the same host or rank as a file of another format."""
    number, name = process_number(label(file)), stem(file)
    found = {(process_number(label(other)), stem(other)) for other in others}
    return (number, name) in found or (number is not None and number in {other for other, _ in found})


def is_called_as_copies(file: Path) -> bool:
    """Whether a file is called as the JSON that JAX writes beside an XSpace."""
    return file.name.endswith(_OWN_SUFFIXES[CHROME.name])


def copy_of(file: Path) -> Path | None:
    """The JSON that JAX writes beside an XSpace, of the same host, if it is there."""
    names = [f"{stem(file)}{suffix}" for suffix in reversed(_OWN_SUFFIXES[CHROME.name])]
    return next((copy for name in names if (copy := file.with_name(name)).is_file()), None)


def _in_place_of(run: _Run, files: Sequence[Path]) -> dict[Path, Path]:
    """What is called as an XSpace beside the JSON `files` of a run, and is no trace, with that one of them which JAX
    wrote of it."""
    known = {file for file, _ in run.files}
    found = {}
    for directory in dict.fromkeys(file.parent for file in files):
        for file in {*_entries(directory), *_hidden_copies(directory)} - known:
            spaces = [name for name in (file.name, *_unpacked(file.name)) if name.endswith(XSPACE.suffixes)]
            # One that has not come whole stands for none that is there.
            if spaces and (spaces[0] == file.name or not _is(file.with_name(spaces[0]).exists)):
                found[file] = copy_of(file.with_name(spaces[0]))
    return {file: copy for file, copy in sorted(found.items()) if copy and copy in files}


def _lost_copies(run: _Run, files: Sequence[Path]) -> list[str]:
    """What beside the `files` is called as JAX's JSON of a host of which there is no other file, and is no trace."""
    known = {file for file, _ in run.files}
    return [
        f"{label(file)} is {_what(file)}"
        for directory in dict.fromkeys(file.parent for file in files)
        for file in _entries(directory)
        if file.name.endswith(_OWN_SUFFIXES[CHROME.name]) and file not in known and file.name != _JAX_COPY
        if not are_of_one(file, files)
    ]


def _unreadable(
    path: Path, files: Sequence[Path], run: _Run, callings: "Sequence[_Calling]", copied: Collection[Path]
) -> tuple[str, ...]:
    """What lies beside the `files` of a run, and in directories of other ranks below `path`, is called as `callings`
    say that these are, and is no trace, but for those `copied`; and those directories without any."""
    directories = {file.parent: None for file in files}
    for directory in list(directories):
        if directory != path and is_part_of_run(directory.name):
            directories |= dict.fromkeys(each for each in _listed(directory.parent) if _is(each.is_dir))
    unpacked = _unpacked_archives(path, files)
    directories |= dict.fromkeys(unpacked)
    known = {*(file for file, _ in run.files), *copied}
    own = {_without_numbers(file.parent.name) for file in files}
    unreadable = {
        file: f"{label(file)} is {_what(file)}"
        for directory in directories
        if _without_numbers(directory.name) in own
        for file in (*_entries(directory), *_named_as_files(directory), *_hidden_copies(directory))
        if file not in known and any(calling.fits(file) for calling in callings)
    }
    ranks = {
        folder for file in files for folder in file.parents if path in folder.parents and is_part_of_run(folder.name)
    }
    told = ranks | {folder for file in unreadable for folder in file.parents}
    called = {(rank.parent, _without_numbers(rank.name)) for rank in ranks}
    without = [
        f"{entry.name} {why}"
        for folder in sorted({rank.parent for rank in ranks})
        for entry in _listed(folder)
        if entry not in told and (folder, _without_numbers(entry.name)) in called and (why := _why_no_rank(entry))
    ]
    without += [
        f"{folder.parent.name} holds no {_TABLE}"
        for folder in unpacked
        if folder not in {file.parent for file in (*known, *unreadable)}
    ]
    return tuple(dict.fromkeys([*unreadable.values(), *without]))


def _unpacked_archives(path: Path, files: Iterable[Path]) -> list[Path]:
    """Of the unpacked archives of nsys-jax at or below `path`, beside those of the `files`, the directories of their
    tables."""
    holders = {parent for file in files if file.parent.name == nsys_jax.FOLDER for parent in file.parents[2:3]}
    folders = [each / nsys_jax.FOLDER for holder in sorted(holders) for each in _listed(holder)]
    return [folder for folder in folders if path in folder.parents[1:] and _is(folder.is_dir)]


def _why_no_rank(entry: Path) -> str:
    """Why a directory, or a link to one that is gone, holds no trace, "" where it does or is a file."""
    if not _is(entry.exists):
        return "is a link to a directory that does not exist"
    if not _is(entry.is_dir):
        return ""
    directories = [entry, *_directories(entry, _DEEPEST)]
    if any(map(_traces, directories)):
        return ""
    reason = next(filter(None, map(_closed, directories)), "")
    return f"cannot be read: {reason}" if reason else "holds no trace"


class _Calling(NamedTuple):
    """How files of a type are called: their names without numbers, and what all of several names begin with."""

    file_type: FileType
    patterns: frozenset[str]
    begin: str

    @classmethod
    def of(cls, file_type: FileType, files: Iterable[Path]) -> Self:
        """How these files are called."""
        names = sorted({file.name for file in files})
        begin = os.path.commonprefix(names) if len(names) > 1 else ""  # noqa: RUF071 - of letters, not of directories
        return cls(file_type, frozenset(map(_without_numbers, names)), begin)

    def fits(self, file: Path) -> bool:
        """Whether a file that is no trace is called as if it were one of them: but for numbers, by a suffix that only
        traces have, or by one that other files have too, where it does not hold what these hold; or as if it were one
        of them that was packed, and does not lie there unpacked."""
        if file.name == capture_facts.NAME and file.name not in self.patterns:
            return False
        if self._is_own(file.name) or self._is_lost(file, file.name):
            return True
        if _is(file.is_dir):
            return False
        names = {other for name in _unpacked(file.name) for other in (name, f"{name}.gz") if other != file.name}
        if any(_is(file.with_name(name).exists) for name in names):
            return False
        return any(self._is_own(name) or self._is_lost(file, name) for name in names)

    def _is_own(self, name: str) -> bool:
        own = _OWN_SUFFIXES.get(self.file_type.name, self.file_type.suffixes)
        return name.endswith(own) or _without_numbers(name) in self.patterns

    def _is_lost(self, file: Path, name: str) -> bool:
        """Whether a file that has, or had under another `name` before it was packed, a suffix that other files have
        too, is none of these others."""
        if not name.endswith(self.file_type.suffixes) or _is(file.is_dir):
            return False
        if self.file_type is NSYS_JAX:
            members = _members(file)
            is_packed = any(pattern.endswith(NSYS_JAX.suffixes) for pattern in self.patterns)
            return is_packed and (members is None or any(map(_OF_ARCHIVE.search, members)))
        if self.file_type not in (CHROME, ROCPROF):
            return False
        begins_so = bool(self.begin and name.startswith(self.begin))
        what = _what(file) if name == file.name else TEXT  # which is not known of what is packed
        return what != OTHER_JSON and (what not in (TEXT, POINTER) or begins_so)


def stem(file: Path) -> str:
    """What a file of a trace is called without what tells its format, as a host or rank."""
    return re.sub(r"(?:\.trace|\.pt)?\.json$|\.xplane\.pb$|\.sqlite$|\.zip$", "", file.name.removesuffix(".gz"))


def _unpacked(name: str) -> Iterator[str]:
    """What a file was called before it was packed, or is to be called once it is whole."""
    if hidden := _HIDDEN.fullmatch(name):
        name = hidden[1]
        yield name
    while match := _PACKED.search(name) or _COMING.search(name):
        name = name[: match.start()]
        yield name


def _members(file: Path) -> list[str] | None:
    """What a zip archive holds; None where it is no whole one."""
    if not _is(file.is_file):
        return None
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError, RuntimeError, ValueError):
        return None


def label(file: Path) -> str:
    """What a file of a run is called: by its directory too, where that names the rank."""
    if file.parent.name == nsys_jax.FOLDER and file.name == Path(_TABLE).name:
        return f"{file.parents[1].name}/{_TABLE}"
    return f"{file.parent.name}/{file.name}" if is_part_of_run(file.parent.name) else file.name


def _what(file: Path) -> str:
    """What a file is that is no trace."""
    try:
        if file.name.endswith(NSYS_JAX.suffixes) and any(map(_OF_ARCHIVE.search, _members(file) or ())):
            return f"an archive of nsys-jax without {_TABLE}"
        if _is(file.is_file) and _is_under_way(file.name):
            return "what a copy left that has not ended"
        return description(file)
    except FileNotFoundError:
        return "a link to a file that does not exist" if file.is_symlink() else "no longer there"
    except OSError as error:
        return f"not readable: {error.strerror}"


def _without_numbers(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _short_list(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} others"
