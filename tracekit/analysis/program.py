"""What wrote the program, and what it does already: the one place that decides in which words advice is given."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.host_records import outermost_ranges, thread_numbers
from tracekit.columns import by_label, distinct
from tracekit.timeline.timeline import Timeline
from tracekit.units import percent, quantity
from tracekit.vocabulary.frameworks import FORMATS, Framework, Practice, Source, framework_of, practices
from tracekit.vocabulary.host_calls import jitted_function, launches_graph, turns_loop

# From these shares on a program does a thing: of its kernels that graphs launched, and of its collectives' time hidden.
GRAPHS = 0.5
OVERLAPPED = 0.1
# What stands in a CUDA graph (xla/debug_options_flags.cc): a list, `+WHILE,-CUBLAS` to change the default, or nothing.
_GRAPHS_FLAG = re.compile(r"(?<!\S)(--xla_gpu_enable_command_buffer)=(\S*)")
# Names of kernels of one framework may be ten thousands; so many of each source are looked at.
_MOST_NAMES = 20_000


@dataclass(frozen=True)
class Program:
    """The `framework` (a Framework, "" where nothing tells), what `evidence` says so, and what it `does` already: a
    Practice, and what says so."""

    framework: str = ""
    evidence: str = ""
    does: Mapping[str, str] = field(default_factory=dict)


def program(timeline: Timeline, partition: pd.DataFrame) -> Program:
    """What the trace tells of its program; `partition` (overlap.partition) has the times of its collectives."""
    framework, evidence = framework_by(timeline)
    does: dict[str, str] = {}
    for source, names in _names(timeline):
        for name in names:
            for practice in practices(source, name):
                does.setdefault(str(practice), f"the {source} {name}")
    facts = (
        (Practice.ONE_PROGRAM, _one_program(timeline)),
        (Practice.GRAPHS, _graphs(timeline)),
        (Practice.OVERLAP, _overlapped(partition)),
    )
    return Program(framework, evidence, does | {str(practice): fact for practice, fact in facts if fact})


def framework_by(timeline: Timeline) -> tuple[str, str]:
    """The framework, and what says so; both "" where nothing does.

    The format tells it where only one framework writes it, else names: of the compiled programs, of the operations, of
    the host's events and of the kernels; of the first of these that tells any, the framework that most names tell.
    """
    if timeline.trace.format in FORMATS:
        return str(FORMATS[timeline.trace.format]), f"the format {timeline.trace.format}"
    for source, names in _names(timeline):
        by_framework: dict[Framework, list[str]] = {}
        for name in names:
            if framework := framework_of(source, name):
                by_framework.setdefault(framework, []).append(name)
        if by_framework:
            most = max(by_framework, key=lambda framework: len(by_framework[framework]))
            return str(most), f"the {source} {by_framework[most][0]}"
    return "", ""


def _names(timeline: Timeline) -> Iterator[tuple[Source, list[str]]]:
    """The names that occur in the trace, by where they stand, in the order of trust."""
    trace = timeline.trace
    columns = (
        (Source.MODULE, trace.events["hlo_module"]),
        (Source.OPERATION, trace.ops["framework_op"]),
        (Source.SPAN, trace.spans["name"]),
        (Source.KERNEL, trace.events["name"]),
    )
    for source, column in columns:
        names = column.cat.categories[np.flatnonzero(np.bincount(column.cat.codes + 1)[1:])[:_MOST_NAMES]]
        yield source, [str(name) for name in names]


def _one_program(timeline: Timeline) -> str:
    """That each step runs one program on each of its devices, "" where it runs several, or that is not known.

    Executions are counted by their numbers, or where rows have none by the calls of jitted functions; JAX writes some
    calls twice, one in the other.
    """
    steps, rows = timeline.steps, timeline.rows
    run, has_run = rows.numbers("run_id")
    counted = np.flatnonzero((steps.step_of >= 0) & has_run)
    if len(counted):
        columns = (steps.step_of, rows.device, rows.codes("hlo_module"), run)
        # Rows of one execution mostly stand together on a device, so that the first of them are few.
        changes = [column[counted[1:]] != column[counted[:-1]] for column in columns]
        heads = counted[np.append(True, np.logical_or.reduce(changes))]
        _, first = distinct(*(column[heads] for column in columns))
        places = heads[first]
        which, _ = distinct(steps.step_of[places], rows.device[places])
        executions = np.bincount(which)
        return _told(executions, "execution", steps.step_of[places])
    if steps.lacking or not len(steps.table):
        return ""
    spans = timeline.spans
    is_call = np.array([*(jitted_function(str(name)) is not None for name in spans["name"].cat.categories), False])
    calls = spans[is_call[spans["name"].cat.codes.to_numpy()]]
    begin, end = (steps.table[f"host_{edge}_ps"].to_numpy(np.int64, na_value=0) for edge in ("start", "end"))
    (thread,) = thread_numbers(calls)
    begins, ends = (calls[edge].to_numpy(np.int64) for edge in ("start_ps", "end_ps"))
    _, start, _, _ = outermost_ranges((thread, begins, ends, thread))
    executions = np.array(
        [np.count_nonzero((start >= low) & (start < high)) for low, high in zip(begin, end, strict=True)]
    )
    return _told(executions, "call of a jitted function", np.arange(len(executions)))


def _told(executions: NDArray[np.int64], what: str, step: NDArray[np.int64]) -> str:
    """The fact that most steps have one of what was counted; "" where they have not."""
    if not len(executions) or np.median(executions) != 1:
        return ""
    return f"one {what} in each of {quantity(len(np.unique(step)), 'step')}"


def in_loops(timeline: Timeline) -> NDArray[np.bool_]:
    """Which launches of the trace, (len(launches),), the host made in a turn of a loop of a compiled program."""
    launches, spans = timeline.trace.launches, timeline.trace.spans
    turns = spans[by_label(spans["name"].array, turns_loop).astype(bool)]
    is_inside = np.zeros(len(launches), bool)
    if len(turns):
        of_launch, of_turn = thread_numbers(launches, turns)
        start = launches["start_ps"].to_numpy()
        for number in np.unique(of_turn).tolist():
            own = np.flatnonzero(of_launch == number)
            edges = (turns[edge].to_numpy()[of_turn == number] for edge in ("start_ps", "end_ps"))
            is_inside[own] = iv.within(iv.intervals(*edges), iv.intervals(start[own], start[own] + 1)) > 0
    return is_inside


def graphs_turned_off(timeline: Timeline) -> str:
    """The flag by which the capture turned XLA's CUDA graphs off, "" where it did not, or that is not known."""
    capture = timeline.trace.capture
    flags = capture.get("xla_flags") if isinstance(capture, Mapping) else None
    found = _GRAPHS_FLAG.findall(flags) if isinstance(flags, str) else []
    return f"{found[-1][0]}=" if found and not found[-1][1] else ""  # the last of a flag counts


def _graphs(timeline: Timeline) -> str:
    """That most rows of known launch were launched by graphs, else ""."""
    names = timeline.trace.launches["name"].cat
    is_graph = np.array([*(launches_graph(str(name)) for name in names.categories), False], bool)
    launch = timeline.launch[timeline.launch >= 0]
    if not len(launch) or not is_graph.any():
        return ""
    by_graph = int(np.count_nonzero(is_graph[names.codes.to_numpy()[launch]]))
    share = by_graph / len(launch)
    return f"graphs launch {percent(share)} of the devices' work" if share >= GRAPHS else ""


def _overlapped(partition: pd.DataFrame) -> str:
    """That compute hides some of the collectives' time, else ""."""
    hidden = sum(map(int, partition[["compute+collective", "compute+collective+memory"]].sum()))
    total = hidden + sum(map(int, partition[["collective", "collective+memory"]].sum()))
    if not total or hidden / total < OVERLAPPED:
        return ""
    return f"compute hides {percent(hidden / total)} of the collectives' time"
