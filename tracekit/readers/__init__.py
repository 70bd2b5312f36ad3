"""Read a trace, whatever wrote it, into a `Trace`: `formats` lists what is read, `read` finds the files and picks."""

import errno
import lzma
import os
import platform
import sqlite3
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import pandas as pd

from tracekit import executors, remote
from tracekit.columns import concat, constant, frame, records, rising
from tracekit.errors import NoStepsError, TraceError, TracekitError, fault, on_damage
from tracekit.files import path_of
from tracekit.readers import (
    capture_facts,
    chrome,
    copies,
    device_clocks,
    find,
    formats,
    losses,
    merge,
    step_range,
    summary,
)
from tracekit.readers.bounds import bounded
from tracekit.readers.chrome import Dialect, Document
from tracekit.readers.formats import NSYS, NSYS_PARQUET, SUMMARY, FileType
from tracekit.readers.losses import Lost
from tracekit.readers.nsys import sqlite_export
from tracekit.readers.step_range import Steps
from tracekit.readers.summary import HostTrace
from tracekit.trace import EVENT_COLUMNS, HOST_COLUMNS, LOSS_COLUMNS, Trace
from tracekit.units import others, quantity, spelt
from tracekit.vocabulary import rules
from tracekit.vocabulary.losses import DAMAGE, MANY_MISSING, WORTH_WITHHOLDING, Loss, matters, not_whole
from tracekit.vocabulary.ranks import missing_machines, process_number

T = TypeVar("T")

# What Python and libraries raise of bytes, texts and numbers that are not as they should be; others are mistakes here.
_OF_DAMAGE = (
    *(ValueError, OverflowError, EOFError, struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
    *(sqlite3.Error, msgspec.MsgspecError),
)

_OF_COPIES = "jax-json"  # the format of what JAX writes beside an XSpace
_NAMED = 3  # of the files that cannot be read, so many are named
# Starting processes takes as long as reading so much text, which Python holds its lock for.
_WORTH_BYTES, _OF_GZ = 96_000_000, 10
# So many traces take longer to be reduced than processes to start.
_WORTH_REDUCING = 32


class Reduction(NamedTuple):
    """How the trace of each file of several is `reduced` as it is read, a function that processes can be sent, where
    the frames of all would take more than `most_bytes`; None for any."""

    reduced: Callable[[Trace], Trace]
    most_bytes: int | None = None


class _How(NamedTuple):
    """How the files of a run are read: by which executor, which steps of them, and whether each is reduced; None for
    here, for all, and for none."""

    executor: Executor | None = None
    steps: Steps | None = None
    reduction: Reduction | None = None


def read(
    source: str | os.PathLike[str],
    run: str | None = None,
    kinds: str | os.PathLike[str] | None = None,
    *,
    steps: tuple[int, int] | None = None,
    strict: bool = False,
    executor: Executor | None = None,
    reduction: Reduction | None = None,
) -> Trace:
    """The trace at `source`: a file of any format, a run of several hosts or ranks, or a directory that holds runs.

    Formats are told by content: XSpace (JAX, TensorFlow), Chrome JSON (PyTorch Kineto, JAX, MXNet), Nsight Systems'
    SQLite export, rocprofv3's JSON. `run` names one of several runs, else the newest that can be read is, and a note
    says so. The files of a run become one trace, as `merge` says; a summary (`tracekit.summarise`) stands for the file
    that it was made of. `kinds` is a file of the user's own rules for what an operation is (vocabulary.rules); a
    mistake in it is raised before anything is read. Of damaged files what is whole is read; what is not is counted in
    `Trace.losses` and told in `Trace.notes`, and so are ranks without a file. `steps` are the first and the last step
    to keep of each file, which has to number them, or is lost as a damaged one is: what is kept of them
    `readers.step_range` says. An `executor` (`concurrent.futures`), of
    processes or of Dask, reads the files of a run beside each other and hands over their summaries, so the trace is the
    same; its workers have to see the files, and fetch those at a URL themselves. A file whose worker dies is lost as a
    damaged one is. A `reduction` makes each of several traces smaller before they are joined, and takes no `kinds`.
    Raises TraceError if nothing is there, if nothing of it is whole, if there is no run of that name, or with `strict`
    if anything is damaged or a rank has no file, and TracekitError where there are no such `steps`.
    """
    place = path_of(source)
    if kinds and reduction:
        raise TracekitError("A reduction leaves out rows of compute, which kinds may call otherwise. Give one of them.")
    own = rules.read(kinds) if kinds else ()
    how = _How(executor, None if steps is None else step_range.checked(steps), reduction)
    with _located(place, run) as (tree, origin):
        try:
            trace = _run(tree, origin, how)
        except TraceError as error:
            if run is not None or strict or isinstance(error, NoStepsError):
                raise
            older = _older_run(tree, origin.runs, str(error), how)
            if older is None:
                raise
            trace = older
        else:
            if run is None and (nothing := _nothing_whole(trace)):
                trace = _older_run(tree, origin.runs, nothing, how) or trace
        trace = _named(trace, tree)
    unused = rules.unused(trace.events, own)
    trace = trace.changed(
        **({"events": rules.apply(trace.events, own)} if own else {}),
        source=spelt(os.fspath(source if isinstance(place, Path) else place)),
        notes=tuple(map(spelt, (*trace.notes, *unused))),
    )
    if damaged := _damaged(trace):
        if strict:
            raise TraceError(f"{damaged} {_remedy(trace)}")
        on_damage.get()(damaged, _remedy(trace))
    return trace


def _run(tree: remote.Tree, origin: find.TraceFiles, how: _How) -> Trace:
    """The trace in the files of `origin`, which `find` gave for what lies in `tree`."""
    files = len(origin.each) + len(origin.unreadable)
    origin = _read_once(origin, tree, how.executor)
    how = how._replace(reduction=_needed_reduction(origin, tree, how))
    hosts, unknown, damaged, without_steps, lost = _read_files(origin, tree, how)
    if how.reduction and (why := _needs_rows(hosts)):
        if how.reduction.most_bytes is not None:
            raise TracekitError(
                f"All rows of {tree.named(str(tree.path))} take more memory than is free, and none can be left out, as "
                f"{why}. Read some of its steps (--only-steps FIRST-LAST) or of its files, or use a larger machine."
            )
        return _run(tree, origin, how._replace(reduction=None))
    hosts, without_events = _with_events(hosts)
    damaged += without_events
    hosts, notes, of_others = _of_one_profiler(hosts)
    damaged += of_others
    hosts, left_out = _whole_of_many(hosts)
    damaged += left_out
    lost = [*_lost_files([*origin.unreadable, *damaged], files), *lost]
    lost += [Lost(Loss.DETAILS, None, None, why) for why in origin.copied]
    lost += [Lost(Loss.RUNS, 1, None, why) for why in origin.newer]
    with_few, of_steps = _lacking_steps(hosts, how.steps) if how.steps else ([], [])
    lost += _lost_files([*without_steps, *with_few], files, Loss.STEPS)
    unknown += of_steps
    size, unlike, of_sizes = _size_of_job(hosts)
    lost += of_sizes
    unknown += unlike
    capture, of_capture = capture_facts.read(origin.capture, origin.each)
    if not capture:
        of_host = next((host.capture for host in hosts if host.capture is not None), None)
        capture, of_summary = (None, []) if of_host is None else capture_facts.whole(of_host)
        of_capture += of_summary
    lost += [*of_capture, *(_without_spaces(hosts, lost, bool(capture)) if tree.path.is_dir() else [])]
    machines = (capture or {}).get("machines", {})

    places = {str(name): host.place for host in hosts for name in host.trace.hosts["host"]}

    def merged(_: Path) -> Trace:
        traces = [host.trace for host in hosts]
        return merge.merge(traces, size if tree.path.is_dir() else None, machines or None, is_last_use=True)

    trace = _guarded(merged, tree.path)
    if how.steps and len(hosts) > 1 and (steps := step_range.wider(trace, how.steps)):
        return _run(tree, origin, how._replace(steps=steps))
    absent = [name for name in machines if name not in set(trace.hosts["host"])]
    if absent and len(trace.hosts) + len(absent) == len(machines):  # hosts are called as their files are
        if tree.path.is_dir() and Loss.RANKS not in {*trace.losses["what"]}:
            lost.append(Lost(Loss.RANKS, len(absent), len(machines), _few(absent)))
        unknown.append(
            f"{capture_facts.NAME} names {len(machines)} processes, and the files of {len(absent)} are not here "
            f"({_few(absent)}): copy them into {origin.capture}."
        )
    elif not origin.unreadable and not machines:
        of_names, without = _missing_machines(trace, [file.name for file in origin.each])
        unknown += of_names
        lost += without
    of_hosts = dict.fromkeys(note for host in hosts for note in host.notes)
    if {host.trace.format for host in hosts} > {formats.XSPACE.name}:
        trace = trace.changed(format=formats.XSPACE.name)
    return trace.changed(
        axis=trace.axis and trace.axis._replace(files=places, steps=how.steps),
        runs=origin.runs,
        losses=concat(LOSS_COLUMNS, [losses.table("", lost), trace.losses]),
        notes=(
            *losses.notes(lost),
            *_of_failed(capture),
            *([step_range.note(how.steps)] if how.steps else []),
            *_of_left_out(trace),
            *origin.notes,
            *of_hosts,
            *unknown,
            *notes,
            *trace.notes,
        ),
        capture=capture,
    )


def _without_spaces(hosts: Sequence[HostTrace], told: Sequence[Lost], is_captured: bool) -> list[Lost]:
    """That JSON of JAX was read of hosts of which no XSpace is there, where one was written: those of other hosts are,
    or tracekit captured the run; but for what is `told`."""
    if not is_captured and all(host.trace.format != formats.XSPACE.name for host in hosts):
        return []
    files = [Path(host.trace.source) for host in hosts if host.trace.format == _OF_COPIES]
    names = [find.label(file) for file in files if find.is_called_as_copies(file)]
    names = [name for name in names if not any(name in (each.evidence or "") for each in told)]
    if not names:
        return []
    evidence = f"no .xplane.pb is beside {_few(names)}, read in its place, {find.LACKS}"
    return [Lost(Loss.DETAILS, None, None, evidence)]


def _lacking_steps(hosts: Sequence[HostTrace], steps: Steps) -> tuple[list[str], list[str]]:
    """Which of the `hosts` lack steps asked for that others hold, and the note on those steps that none holds."""
    its = [step_range.held(host.trace, steps) for host in hosts]
    there = set().union(*its)
    lacking = [
        f"{find.label(Path(host.trace.source))} lacks {_few([str(step) for step in sorted(there - held)])}"
        for host, held in zip(hosts, its, strict=True)
        if there > held
    ]
    absent, listed = others(there, steps[1], steps[0])
    return lacking, [f"Of {step_range.named(steps)} no file holds {listed}."] if absent else []


def _few(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _size_of_job(hosts: Sequence[HostTrace]) -> tuple[int | None, list[str], list[Lost]]:
    """How many ranks the job had by those of the files that tell, None where they contradict each other; and the note
    and the loss where they do, as then nobody knows which ranks are missing."""
    by_size: dict[int, list[str]] = {}
    for host in hosts:
        if host.world_size is not None:
            by_size.setdefault(host.world_size, []).append(find.label(Path(host.trace.source)))
    if len(by_size) < 2:
        return next(iter(by_size), None), [], []
    told = "; ".join(f"{quantity(size, 'rank')} by {_few(names)}" for size, names in sorted(by_size.items()))
    why = f"the files are of jobs of different sizes: {told}"
    return None, [f"{why[0].upper()}{why[1:]}."], [Lost(Loss.RANKS, None, None, why)]


def _missing_machines(trace: Trace, files: Collection[str]) -> tuple[list[str], list[Lost]]:
    """The note on the machines of which no file is there, and their loss, where the size of the job, the equal number
    of devices of all others and their names tell; the `files` of a run are called after machines, those too that could
    not be read."""
    sizes = trace.hosts["world_size"].dropna().unique()
    hosts = {str(host) for host in trace.hosts["host"]}
    host, device = (trace.events[column].cat for column in ("host", "device"))
    several = max(len(device.categories), 1)
    pairs = rising(host.codes.to_numpy().astype(np.int64) * several + device.codes.to_numpy())
    counts = np.bincount(pairs // several, minlength=len(host.categories)).tolist()
    # A file of which a part could not be read may lack devices.
    damaged = {str(row["host"]) for row in records(trace.losses) if row["what"] in DAMAGE}
    whole = [name not in damaged for name in map(str, host.categories)]
    devices = {count for count, is_whole in zip(counts, whole, strict=True) if is_whole} or {*counts}
    if len(sizes) != 1 or len(devices) != 1 or not (of_each := devices.pop()) or sizes[0] % of_each:
        return [], []
    machines = int(sizes[0]) // of_each
    # Behind the name of a machine a file's says what it is, and a machine's own name may hold dots.
    starts = [[name[:at] for at, letter in enumerate(name) if letter == "."] or [name] for name in files]
    names = hosts | {begun[0] for begun in starts if hosts.isdisjoint(begun)}
    are_ranks = any(map(process_number, hosts))  # which are told
    absent = missing_machines(names, machines) if 2 < len(names) < machines and not are_ranks else []
    if not absent:
        return [], []
    note = (
        f"The job had {sizes[0]} devices on {machines} hosts, {of_each} on each: {_few(absent)} "
        f"{'is' if len(absent) == 1 else 'are'} missing, no file of {'it' if len(absent) == 1 else 'them'} is here."
    )
    return [note], [Lost(Loss.RANKS, len(absent), machines, _few(absent))]


def _of_left_out(trace: Trace) -> list[str]:
    """The note on rows that were left out."""
    if not len(trace.counts):
        return []
    count = trace.row_count - len(trace.events)
    return [
        f"{count:,} of {trace.row_count:,} rows of devices were left out as the files were read; when their devices "
        "computed is told merged."
    ]


def _of_failed(capture: Mapping[str, Any] | None) -> list[str]:
    """The note on a captured script that failed or was ended."""
    code = capture.get("exit_code") if capture else None
    if not isinstance(code, int) or code == 0:
        return []
    return [f"The script ended with exit code {code}: the trace holds what ran until then."]


def _older_run(tree: remote.Tree, runs: Sequence[str], why: str, how: _How) -> Trace | None:
    """The newest of `runs` behind the first, of which `why` says that it cannot be read, that can; None if there is
    none."""
    for name in runs[1:]:
        try:
            trace = _run(tree, _find(tree.path, name), how)
        except TraceError:
            continue
        if _nothing_whole(trace):
            continue
        reason = why.replace(f"{tree.path}/", "").split(". ")[0].rstrip(".")
        lost = Lost(Loss.RUNS, 1, None, f"{runs[0]}: {reason}; {name} was read instead")
        return _with_losses(trace, [lost])
    return None


def _with_losses(trace: Trace, lost: Sequence[Lost]) -> Trace:
    """The trace with these losses of its run before its own."""
    return trace.changed(
        losses=concat(LOSS_COLUMNS, [losses.table("", lost), trace.losses]),
        notes=(*losses.notes(lost), *trace.notes),
    )


def _nothing_whole(trace: Trace) -> str:
    """Why a trace holds nothing to look at, "" where it holds something."""
    if len(trace.events) or len(trace.spans):
        return ""
    return _damaged(trace) or ("" if len(trace.launches) or len(trace.memory) else "it holds no events")


def _named(trace: Trace, tree: remote.Tree) -> Trace:
    """The trace with its files by their URLs, where they lie in a store."""
    if not tree.url:
        return trace
    return trace.changed(
        hosts=trace.hosts.assign(source=trace.hosts["source"].cat.rename_categories(tree.named)),
        losses=trace.losses.assign(evidence=trace.losses["evidence"].cat.rename_categories(tree.named)),
        source=tree.named(trace.source),
        notes=tuple(map(tree.named, trace.notes)),
    )


def host_trace(
    source: str | os.PathLike[str], run: str | None = None, steps: tuple[int, int] | None = None
) -> HostTrace:
    """What the one file at `source` holds, as its reader gives it: what a summary is made of.

    `source`, `run` and `steps` are as `read` takes them. Raises what `read` raises, and TraceError where there are
    several files.
    """
    how = _How(steps=None if steps is None else step_range.checked(steps))
    with _located(path_of(source), run) as (tree, origin):
        origin = _read_once(origin, tree, None)
        files = origin.each
        several = len(files) + len(origin.unreadable) - len(copies.twins(files))
        hosts, notes, _, _, of_files = _read_files(origin, tree, how) if several == 1 else ([], [], [], [], [])
        if len(hosts) != 1:
            raise TraceError(
                f"{source} holds the files of {max(several, len(hosts))} hosts or ranks, and a summary is of one. Give "
                f"one of them, such as {files[0]}."
            )
        (host,) = hosts
        capture, lost = capture_facts.read(origin.capture, origin.each)
        trace = _named(_with_losses(host.trace, [*of_files, *lost]), tree)
        if damaged := _damaged(trace):
            on_damage.get()(damaged, _remedy(trace))
        of_steps = [step_range.note(how.steps), *_lacking_steps([host], how.steps)[1]] if how.steps else []
        notes = [*of_steps, *host.notes, *map(tree.named, origin.notes), *notes]
        return replace(host, trace=trace, capture=capture or host.capture, notes=tuple(notes))


def read_hosts(trace: Trace, hosts: Collection[str]) -> Trace:
    """All rows of some `hosts` of a merged `trace` of which rows were left out: their files are read again, and have
    its names and its axis.

    Raises TraceError where one cannot be read any more, or holds other rows than it did, and of a trace that `read` did
    not make of several files.
    """
    files = trace.axis.files if trace.axis else {}
    if unknown := [name for name in hosts if name not in files]:
        raise TraceError(f"{trace.source or 'This trace'} does not say where the file of {unknown[0]} is read.")
    traces = {}
    for name in hosts:
        with _located(path_of(files[name]), None) as (tree, origin):
            found, *_ = _read_files(_read_once(origin, tree, None), tree, _How(steps=trace.axis.steps))
        if len(found) != 1:
            raise TraceError(f"{files[name]} holds the files of several hosts, where it was that of one.")
        traces[name] = found[0].trace
    again = merge.placed(traces, trace.axis)
    if changed := [name for name in hosts if not _is_of(trace, again, name)]:
        raise TraceError(f"{files[changed[0]]} holds other rows than it did when it was read first.")
    return again


def _is_of(trace: Trace, again: Trace, host: str) -> bool:
    """Whether the rows of a host in `again` can be those of which `trace` kept some: as many, and those among them."""
    kept, there = (table["host"].to_numpy(object) == host for table in (trace.events, again.events))
    left_out = trace.counts["rows"][kept[trace.counts["event"].to_numpy()]] - 1
    return np.count_nonzero(kept) + int(left_out.sum()) == np.count_nonzero(there) and all(
        np.isin(trace.events[edge].to_numpy()[kept], again.events[edge].to_numpy()[there]).all()
        for edge in ("start_ps", "end_ps")
    )


@contextmanager
def _located(place: Path | str, run: str | None) -> Iterator[tuple[remote.Tree, find.TraceFiles]]:
    """What lies at `place`, and which files of it are read."""
    if isinstance(place, str) and place.endswith(NSYS_PARQUET.suffixes):  # one table of an export, which has all
        place = remote.parent(place)
    with remote.listed(place, find.head_bytes, beside=[capture_facts.NAME]) as tree:
        if tree.url:
            tree.complete(find.told_by_their_ends(tree.path))
        yield tree, _find(tree.path, run)


def _find(path: Path, run: str | None) -> find.TraceFiles:
    try:
        return find.find(path, run)
    except OSError as error:  # a directory that may not be looked into
        raise TraceError(f"{error.filename or path} cannot be read: {error.strerror}.") from None


def _damaged(trace: Trace) -> str:
    """The sentence on what of the trace is damaged, or which ranks have no file, "" where nothing is."""
    found = not_whole(records(trace.losses))
    return f"{trace.source} {found}" if found else ""


def _damage_of(trace: Trace) -> set[str]:
    """What of a trace is damaged, or was not found: steps that were asked for, or tables of an export."""
    return {*trace.losses["what"]} & {*DAMAGE}


def _remedy(trace: Trace) -> str:
    """What to do about a trace that is damaged, or not whole."""
    damage_of = _damage_of(trace)
    if damage_of == {Loss.STEPS}:
        return "Ask for steps that all of its files hold, or read without strict those that some hold."
    if not {*trace.losses["what"]} & {*DAMAGE, Loss.RANKS}:
        return "Record it again, or read without strict what there is."
    if damage_of == {Loss.ABSENT}:
        return "Export every table of the report, record again what it lacks, or read without strict what is there."
    return "Copy its files again, or read without strict what is whole."


def _lost_files(damaged: Sequence[str], files: int, what: Loss = Loss.FILES) -> list[Lost]:
    """The loss of whole files, or of steps of them, each told by a sentence."""
    if not damaged:
        return []
    more = f"; and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
    return [Lost(what, len(damaged), files, "; ".join(damaged[:_NAMED]) + more)]


def _result(reader: Callable[[Path], T], file: Path) -> T | TraceError:
    try:
        return _guarded(reader, file)
    except TraceError as error:
        return error


def _guarded(reader: Callable[[Path], T], file: Path) -> T:
    """What `reader` gives of a file; whatever else it raises becomes a TraceError that names the file."""
    try:
        return reader(file)
    except TraceError:
        raise
    except FileNotFoundError:
        raise TraceError(f"{file} is no longer there: it was moved or deleted while it was read.") from None
    except (OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            raise TraceError(f"{file} cannot be read: {error.strerror or error}.") from None
        raise TraceError(
            f"{file} does not fit in memory: record fewer steps, or read it on a larger machine."
        ) from None
    except ImportError as error:
        raise TraceError(f"{file} cannot be read: {error}. Install tracekit anew.") from error
    except _OF_DAMAGE as error:
        raise TraceError(
            f"{file} cannot be read: it is damaged in a way that tracekit does not know ({fault(error)}). Copy it "
            "again; if that does not help, please report that, with the file if it may be shared."
        ) from error
    except Exception as error:
        raise TraceError(
            f"{file} cannot be read, by a bug of tracekit: {fault(error)}. Please report that, with the file if it may "
            "be shared."
        ) from error


def _read_once(origin: find.TraceFiles, tree: remote.Tree, executor: Executor | None) -> find.TraceFiles:
    """`origin` without copies of its files; those that only workers fetch are looked at here where they may be some."""
    if executor and tree.url and _fetches_there(origin, tree):
        return copies.read_once(origin, tree.complete)
    tree.complete(origin.needed)
    return copies.read_once(origin)


def _fetches_there(origin: find.TraceFiles, tree: remote.Tree) -> bool:
    """Whether workers of an executor find the files of a store themselves."""
    # A file that stands for a directory does not say which others there are.
    return bool(tree.url) and remote.is_shared(tree.url) and {*origin.needed} <= {*origin.each}


def _read_files(
    origin: find.TraceFiles, tree: remote.Tree, how: _How
) -> tuple[list[HostTrace], list[str], list[str], list[str], list[Lost]]:
    """What the files hold that a known profiler wrote, the note on others, why files cannot be read, which do not hold
    the steps asked for, and what copies lack that were read in the place of such."""
    files = origin.each
    results = dict(zip(files, _results(origin, tree, how), strict=True))
    lost = _read_in_their_place(results, origin, tree, how)
    notes = [_one_of_twins(results, *pair) for pair in copies.twins(files)]
    errors = {file: result for file, result in results.items() if isinstance(result, TraceError)}
    if len(errors) == len(results):
        raise next(iter(errors.values()))
    known = [
        replace(result, place=result.place or _place(file, tree))
        for file, result in results.items()
        if isinstance(result, HostTrace)
    ]
    unknown = [file.name for file, result in results.items() if result is None]
    writers = formats.writers(formats.CHROME)
    if not known:
        raise TraceError(
            f"{origin.files[0]} holds trace events, but not as {writers} writes them. Give the file that the profiler "
            "itself wrote."
        )
    why = {file: str(error).replace(str(file), find.label(file)).rstrip(".") for file, error in errors.items()}
    absent = [why.pop(file) for file, error in errors.items() if isinstance(error, NoStepsError)]
    notes += [f"Skipped {', '.join(unknown)}: not written by {writers}."] if unknown else []
    return known, [*filter(None, notes)], [*why.values()], absent, lost


def _read_in_their_place(
    results: dict[Path, HostTrace | TraceError | None], origin: find.TraceFiles, tree: remote.Tree, how: _How
) -> list[Lost]:
    """Put what the JSON copies of XSpaces of a run hold in the place of those that cannot be read; what they lack."""
    lost = []
    broken = [file for file in origin.files if isinstance(results[file], TraceError)] if tree.path.is_dir() else []
    for file in broken if origin.file_type is formats.XSPACE else ():
        if (copy := find.copy_of(file)) is None:
            continue
        tree.complete([copy])
        result = _result(partial(_host_trace, file_type=formats.CHROME, steps=how.steps), copy)
        if isinstance(result, HostTrace) and result.trace.format == _OF_COPIES:
            why = str(results[file]).replace(str(file), find.label(file)).partition(". ")[0].rstrip(".")
            evidence = f"{why}; {copy.name} was read in its place, {find.LACKS}"
            lost.append(Lost(Loss.DETAILS, None, None, evidence))
            results[file] = replace(result, place=_place(copy, tree))
    return lost


def _one_of_twins(results: dict[Path, HostTrace | TraceError | None], plain: Path, packed: Path) -> str:
    """Leave one of two files that have one name, but that one is packed, where the other is damaged, and say so; "",
    and both, where both are whole and differ."""

    def badness(file: Path) -> tuple[bool, bool, int]:
        result = results[file]
        if not isinstance(result, HostTrace):
            return True, True, 0
        return False, bool(_damaged(result.trace)), -len(result.trace.events)

    worst = [badness(file) for file in (plain, packed)]
    if worst[0][1] or worst[1][1]:
        read, other = (plain, packed) if worst[0] <= worst[1] else (packed, plain)
        why = "both are damaged, and it holds more" if worst[0][1] == worst[1][1] else "the other is damaged"
    elif short := [pair for pair in ((plain, packed), (packed, plain)) if copies.is_beginning(*pair)]:
        ((other, read),) = short
        why = "the other is cut off"
    else:
        return ""
    del results[other]
    return f"Of {find.label(plain)} and {packed.name}, which have one name, {read.name} was read: {why}."


def _results(origin: find.TraceFiles, tree: remote.Tree, how: _How) -> Iterator[HostTrace | TraceError | None]:
    """What `_host_trace` gives of each of the files (`find.TraceFiles.each`), or why it cannot be read."""
    executor, steps, reduction = how
    divided = _divided(origin, executor, reduction is not None) if executor else ()
    reduced = reduction and reduction.reduced
    is_fetched_there = _fetches_there(origin, tree)
    here = set(origin.needed) - set(divided if is_fetched_there else ())
    tree.complete([*here, origin.capture / capture_facts.NAME])
    if executor and divided:
        # A worker may have started in another directory.
        places = [_place(file, tree) if is_fetched_there else str(file.absolute()) for file in divided]
        types = [origin.type_of(file).name for file in divided]
        # What is left of a reduced trace is small, and packing it would take a third of the time of reading it.
        is_packed = reduced is None or not isinstance(executor, executors.Processes)
        tasks = [
            (place, str(file), of, steps, reduced, is_packed)
            for place, file, of in zip(places, divided, types, strict=True)
        ]
        answers = executors.results(executor, read_there, tasks)
        yield from (_handed_over(answer, file) for answer, file in zip(answers, divided, strict=True))
    # One after the other: what of it holds no lock of Python runs on threads inside of each. Beside each other, a
    # thousand summaries and 64 XSpaces of 4 MB took 15 % longer, and three XSpaces of 85 MB as long.
    for file in origin.each[len(divided) :]:
        yield _result(partial(_host_trace, file_type=origin.type_of(file), steps=steps, reduced=reduced), file)


def _place(file: Path, tree: remote.Tree) -> str:
    """Where a file of a run is read from, for whoever may work in another directory."""
    return tree.url_of(file) if tree.url else str(file.absolute())


def _needs_rows(hosts: Sequence[HostTrace]) -> str:
    """Why figures of all `hosts` rest on each of their rows, as a part of a sentence; "" where they do not."""
    names = Counter(str(name) for host in hosts for name in host.trace.hosts["host"])
    again = [name for name, files in names.items() if files > 1]
    if again:
        return f"several files are of one host ({_few(again)}), and may hold the same rows"
    numbered = (host.trace.spans[host.trace.spans["step"].notna().to_numpy(bool)] for host in hosts)
    if len({bool(step_range.says_step(spans["name"]).all()) for spans in numbered if len(spans)}) > 1:
        return "not all files number their steps in one way"
    marked = [host for host in hosts if (host.trace.spans["tracekit"] == "phase").any()]
    return f"{find.label(Path(marked[0].trace.source))} marks phases" if marked else ""


def _needed_reduction(origin: find.TraceFiles, tree: remote.Tree, how: _How) -> Reduction | None:
    """The reduction of a run of several files: in any case, or where they take more memory than it allows."""
    if not how.reduction or len(origin.each) < 2:
        return None
    most = how.reduction.most_bytes
    return how.reduction if most is None or _expected_bytes(origin, tree, how) > most else None


def _expected_bytes(origin: find.TraceFiles, tree: remote.Tree, how: _How) -> float:
    """How much memory the frames of all files of a run would take, as the largest of each type that can be read tells:
    by their sizes, or of a store, where these are not known, each as much."""
    by_type: dict[str, list[Path]] = {}
    for file in origin.each:
        by_type.setdefault(origin.type_of(file).name, []).append(file)
    expected = 0.0
    for files in by_type.values():
        sizes = [1 if tree.url else max(sum(part.stat().st_size for part in origin.parts(file)), 1) for file in files]
        # The largest one: a host that only coordinates has spans, and no rows of devices.
        for size, file in sorted(zip(sizes, files, strict=True), key=lambda each: -each[0]):
            tree.complete(origin.parts(file))
            result = _result(partial(_host_trace, file_type=origin.type_of(file), steps=how.steps), file)
            if isinstance(result, HostTrace):
                expected += result.trace.frame_bytes * sum(sizes) / size
                break
    return expected


def _divided(origin: find.TraceFiles, executor: Executor, is_reduced: bool) -> Sequence[Path]:
    """The first files of a run, which the executor reads: any that a caller has made, and processes where they pay.
    Summaries are packed as workers would pack them, unless each is reduced."""
    files = origin.each if is_reduced else () if origin.file_type is SUMMARY else origin.files
    if not isinstance(executor, executors.Processes):
        return files
    if not executor.is_automatic:
        return files if len(files) > 1 else ()
    is_worth = len(files) >= _WORTH_REDUCING
    if not is_reduced:
        sizes = sorted(file.stat().st_size * (_OF_GZ if file.suffix == ".gz" else 1) for file in files)
        is_worth = origin.file_type is formats.CHROME and sum(sizes[:-1]) >= _WORTH_BYTES
    return files if executor.count > 1 and is_worth else ()


def read_there(
    where: str,
    name: str,
    file_type: str,
    steps: Steps | None,
    reduced: Callable[[Trace], Trace] | None = None,
    is_packed: bool = True,
) -> HostTrace | bytes | TraceError | None:
    """What an executor runs: what the file at a path or URL holds, packed as its summary if `is_packed`, None where
    `_host_trace` gives that, or why it cannot be read; in them the file is called `name`."""
    (its_type,) = (each for each in formats.FILE_TYPES if each.name == file_type)
    try:
        with remote.fetched(remote.place(where)) as path:
            if not path.exists():
                return TraceError(
                    f"{name} is not on {platform.node()}: it was moved while it was read, or workers share no disk. "
                    "Put it where all of them see it, or into a bucket."
                )
            # The directory stands for an export of several files.
            names = [remote.Tree(path, name), remote.Tree(path.parent, str(Path(name).parent))]
            names = [] if path == Path(name) else names

            def held(path: Path) -> HostTrace | bytes | None:
                host = _host_trace(path, its_type, steps, reduced)
                host = host and replace(host, trace=reduce(_named, names, host.trace))
                return summary.to_bytes(host) if host and is_packed else host

            result = _result(held, path)
            if isinstance(result, TraceError):
                return type(result)(reduce(lambda text, tree: tree.named(text), names, str(result)))
            return result
    except TracekitError as error:
        return TraceError(str(error))


def _handed_over(answer: HostTrace | bytes | Exception | None, file: Path) -> HostTrace | TraceError | None:
    """What a worker has read of a file, or why it did not."""
    if isinstance(answer, bytes):
        return _result(lambda file: summary.from_bytes(answer, file), file)
    if answer is None or isinstance(answer, HostTrace | TraceError):
        return answer
    return TraceError(
        f"{file} was not read: its worker came to no end ({executors.reason_of(answer)}). If it takes more memory than "
        "there is, read fewer files at a time, or on larger workers."
    )


def _host_trace(
    path: Path, file_type: FileType, steps: Steps | None, reduced: Callable[[Trace], Trace] | None = None
) -> HostTrace | None:
    """What the file at `path` holds of `steps`, None for all, its devices on the clock of their host, and as it is
    `reduced`, if it is; None if it is a Chrome JSON document of no known profiler."""
    with _unwritten(path, file_type):
        if reduced and steps is None and file_type is SUMMARY and (host := summary.read_reduced(path)):
            return replace(host, trace=bounded(host.trace))
        host = _as_written(path, file_type)
    if host is None:
        return None
    trace = bounded(host.trace)
    trace = trace if host.is_fitted else device_clocks.fit(trace)
    trace = trace if steps is None else step_range.only(trace, path, steps)
    return replace(host, trace=reduced(trace) if reduced else trace, is_fitted=True)


@contextmanager
def _unwritten(path: Path, file_type: FileType) -> Iterator[None]:
    """Raise TraceError where the file at `path`, or what is read with it, is written inside the block: what was read of
    it may be half of one trace and half of another, and look whole."""

    def found() -> dict[Path, tuple[int, ...]]:
        files = {part: _state(part) for part in find.parts(path, file_type)}
        logs = [path.with_name(path.name + suffix) for suffix in sqlite_export.BESIDE] if file_type is NSYS else []
        written = (log for log in logs if log.is_file() and log.stat().st_size)  # who only looks may leave an empty one
        return files | {log: _state(log) for log in written}

    before = found()

    def refuse() -> None:
        # Of a file that is gone, what was open was read.
        written = [part for part, state in found().items() if state != before.get(part, ()) and part.exists()]
        if written:
            raise TraceError(
                f"{written[0]} was written while it was read, so that what was read is of no one trace. Read it again "
                "when what writes it has finished."
            ) from None

    try:
        yield
    except Exception:
        refuse()
        raise
    refuse()


def _state(file: Path) -> tuple[int, ...]:
    """What changes of a file when it is written or replaced, () of none; its size is first."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev


def _as_written(path: Path, file_type: FileType) -> HostTrace | None:
    if file_type is SUMMARY:
        return summary.read(path)
    if file_type is not formats.CHROME:
        (reader,) = (each.reader for each in formats.FORMATS if each.file_type is file_type)
        assert not isinstance(reader, Dialect)
        return HostTrace(reader(path))
    document = chrome.load(path)
    if match := formats.dialect(document):
        _, dialect = match
        return HostTrace(dialect.read(document, path), dialect.ranks(document))
    return None if len(document) else HostTrace(_empty(document, path))


def _with_events(hosts: Sequence[HostTrace]) -> tuple[list[HostTrace], list[str]]:
    """Those of the `hosts` whose files hold events, and of the others, if these are not all, that they hold none."""
    without = [host for host in hosts if host.trace.format == "chrome"]  # as `_empty` calls it
    if len(without) == len(hosts):
        return [*hosts], []
    names = [find.label(Path(host.trace.source)) for host in without]
    return [host for host in hosts if host.trace.format != "chrome"], [f"{name} holds no events" for name in names]


def _of_one_profiler(hosts: Sequence[HostTrace]) -> tuple[list[HostTrace], list[str], list[str]]:
    """Those of the `hosts` that were written by the profiler that wrote most, the note on JSON of JAX that is a copy of
    an XSpace and on others of the same hosts, and why the others are left out."""
    by_profiler: dict[str, list[HostTrace]] = {}
    for host in hosts:
        its = formats.XSPACE.name if host.trace.format == _OF_COPIES else host.trace.format
        by_profiler.setdefault(its, []).append(host)
    most = max(by_profiler.values(), key=len)
    kept = [Path(host.trace.source) for host in most]
    others = [Path(host.trace.source) for each in by_profiler.values() for host in each if each is not most]
    again = [file.name for file in others if find.are_of_one(file, kept)]
    left_out = [
        f"{find.label(file)} is of another profiler than the others, with which it is not merged"
        for file in others
        if file.name not in again
    ]
    spaces = [host for host in most if host.trace.format == formats.XSPACE.name]
    json = [host for host in most if host.trace.format == _OF_COPIES]
    copies = {id(host): space for host in json for space in spaces if _is_copy(host, space)}
    notes = [
        f"Skipped {find.label(Path(host.trace.source))}: it holds the work of {find.label(Path(copy.trace.source))}, "
        "which is not counted twice."
        for host in most
        if (copy := copies.get(id(host)))
    ]
    notes += [f"Skipped {', '.join(again)}: written by another profiler than the other files."] if again else []
    return [host for host in most if id(host) not in copies], notes, left_out


def _is_copy(host: HostTrace, space: HostTrace) -> bool:
    """Whether JSON of JAX, by whatever name, was written of an XSpace: most of its work takes as long, to the
    picosecond."""

    def work(trace: Trace) -> pd.Series:
        events = trace.events
        return (events["end_ps"] - events["start_ps"]).groupby(events["name"].astype("str")).value_counts()

    ours, theirs = work(host.trace), work(space.trace)
    common = np.minimum(*(each.to_numpy() for each in ours.align(theirs, join="inner")))
    return len(host.trace.events) > 0 and 2 * int(common.sum()) > len(host.trace.events)


def _whole_of_many(hosts: Sequence[HostTrace]) -> tuple[list[HostTrace], list[str]]:
    """Those of the `hosts` whose files are whole, and why the others are left out; all, unless these are few of many.

    Beside a host of which work is lost, nothing could be told of why all the others waited or were idle; and what is
    told of itself would be false, as a kernel that is lost leaves its device idle.
    """
    whole, left_out = [], []
    for host in hosts:
        of_work = [
            loss
            for loss in records(host.trace.losses)
            if matters(Loss(loss["what"]), loss["lost"], loss["total"], host.trace.row_count, WORTH_WITHHOLDING)
        ]
        if of_work:
            evidence = f": {of_work[0]['evidence']}" if of_work[0]["evidence"] else ""
            left_out.append(
                f"{find.label(Path(host.trace.source))}, left out as it lacks {of_work[0]['what']}{evidence}"
            )
        else:
            whole.append(host)
    return (whole, left_out) if len(left_out) < MANY_MISSING * len(hosts) else ([*hosts], [])


def _empty(document: Document, path: Path) -> Trace:
    """The trace of a document without events, which tells no profiler."""
    host = constant(path.name.removesuffix(".gz").removesuffix(".json").removesuffix(".trace"), 1)
    return Trace(
        frame(EVENT_COLUMNS),
        hosts=frame(HOST_COLUMNS, {"host": host}),
        losses=losses.table(str(host[0]), document.lost),
        notes=document.notes,
        source=str(path),
        format="chrome",
    )
