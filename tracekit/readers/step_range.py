"""Only some steps of what a file holds: what a report takes grows with the rows that are read, and of a long run, or of
a thousand hosts, a few steps say what all of them do.

Steps are those that spans number (`SPAN_COLUMNS`), or where none does, that are called `step 3` and the like. They are
cut where the host begins and ends them, thread by thread, and work belongs to the step in which it was launched,
whenever it ran: so every rank keeps the same work of the same steps, and collectives still meet. What else runs on the
devices meanwhile, but collectives, is kept beside it.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import by_label, distinct, texts
from tracekit.errors import NoStepsError, TracekitError
from tracekit.intervals import Intervals
from tracekit.readers.step_spans import THREAD, cut_to_next, inner
from tracekit.trace import Trace
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.step_names import series, step_name

# So many steps further than asked for is looked at most: one kernel may run as long as the program.
_MOST_FURTHER = 32

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]
# A host, a process of it and a thread of that, "" where the file does not tell; and with "" all processes and threads.
_Thread = tuple[str, str, str]


class Steps(tuple[int, int]):
    """The first and the last step that are asked for; so many more are read `around` them, on each side, and further
    ones of which work runs in their time, and `beyond` that so many ps before and behind."""

    around = 0
    beyond = (0, 0)

    @property
    def read(self) -> tuple[int, int]:
        """The first and the last step that are read."""
        first, last = self
        return max(first - self.around, 0), last + self.around

    def reading(self, around: int, beyond: tuple[int, int] = (0, 0)) -> "Steps":
        """The same steps with so many around them, and so much time beyond theirs."""
        steps = Steps(self)
        steps.around, steps.beyond = around, beyond
        return steps


def parse(text: str) -> Steps:
    """The steps that an option names: `7`, or `7-9`. Raises TracekitError where it names none."""
    first, dash, last = text.partition("-")
    if not (first.isdecimal() and first.isascii() and (not dash or (last.isdecimal() and last.isascii()))):
        raise TracekitError(f"--only-steps {text} is no step and no range of steps: give 7, or 7-9.")
    return checked((int(first), int(last or first)))


def checked(steps: tuple[int, int]) -> Steps:
    """The steps, where there may be such; raises TracekitError otherwise."""
    first, last = steps
    if not 0 <= first <= last:
        raise TracekitError(f"Steps {first} to {last} are none: give the first and the last of them, from 0 on.")
    return steps if isinstance(steps, Steps) else Steps((first, last))


def note(steps: Steps) -> str:
    """What a trace tells of being read in part."""
    first, last = steps.read
    return f"Only {_named(first, last)} of each file {'was' if first == last else 'were'} read."


def with_context(steps: tuple[int, int]) -> Steps:
    """The steps with one before and one behind: what is launched in one may run in the next, and where a step ended
    tells where the next began."""
    return checked(steps).reading(around=1)


def held(trace: Trace, steps: Steps) -> set[int]:
    """Which of the steps asked for a trace numbers."""
    number = _numbers(trace.spans)
    return {*number[(number >= steps[0]) & (number <= steps[1])].tolist()}


def named(steps: Steps) -> str:
    """The steps asked for: `step 7`, or `steps 7 to 9`."""
    return _named(*steps)


def _named(first: int, last: int) -> str:
    return f"step {first}" if first == last else f"steps {first} to {last}"


def only(trace: Trace, path: Path, steps: Steps) -> Trace:
    """What `trace`, of the file at `path`, holds of `steps`: the calls that began in them, the work that such calls
    launched, or that began in them where no call is known, what else ran then, and the spans that reach into them.

    Where some are read around those that are asked for, these are as many as launched what runs in the time of the
    asked ones. Raises NoStepsError where the file numbers no step, or none of those asked for.
    """
    spans, events, launches = trace.spans, trace.events, trace.launches
    number = _numbers(spans)
    is_numbered = number >= 0
    marks, is_step = _marked(spans, number, path, steps)
    launched = _Launched(trace, marks)
    first, last = launched.reaching_into(steps) if steps.around else steps.read
    windows = _windows(marks, (first, last))
    kept, inside = launched.inside(windows)
    beside = _beside(events, inside)
    # Of numbered spans, one around many would pass for a step where few of them are left.
    reach = np.where(is_numbered, _begin_inside(spans, windows), _reach_inside(spans, windows))
    chosen = is_step & (number >= first) & (number <= last)
    row_key, call_key = launched.row_key, launched.call_key
    host_work, syncs, memory = trace.host_work, trace.syncs, trace.memory
    frames = {
        "events": events[inside | beside],
        "launches": launches[kept | np.isin(call_key, row_key[beside & (row_key >= 0)])],
        "spans": spans[chosen | reach],
        "host_work": host_work[_begin_inside(host_work, windows)],
        "syncs": syncs[_begin_inside(syncs, windows)],
        "memory": memory[_inside(memory, memory["time_ps"].to_numpy(), windows)],
    }
    notes = trace.notes
    if (first, last) != steps.read:
        reason = f"work that they launched runs in the time of {named(steps)}"
        notes = (*notes, f"Of {path.name} {_named(first, last)} were read: {reason}.")
    return trace.changed(notes=notes, **{name: table.reset_index(drop=True) for name, table in frames.items()})


def wider(trace: Trace, steps: Steps) -> Steps | None:
    """The steps with the time beyond theirs in which a device of a `trace` of several files may have worked on what was
    not read of it; None where all was read, or that time is in them already.

    A file is read with what its own devices ran in the time of its own steps. Those of a rank that is ahead of others
    run later ones while others are still in these; and so may the collectives of a device, on a lane of their own.
    """
    if not steps.around or any(steps.beyond):
        return None
    number = _numbers(trace.spans)
    marks, _ = _marked(trace.spans, number, Path(trace.source), steps)
    clock_of = dict(zip(trace.hosts["host"].astype(str), trace.hosts["clock"].astype(str), strict=True))
    rows = trace.events[["host", "device", "lane", "kind", "start_ps", "end_ps"]]
    rows = rows.assign(clock=rows["host"].map(clock_of))
    asked = rows[_Launched(trace, marks).of(*steps)]
    if not len(asked):
        return None
    window, of_host = (
        pd.DataFrame({"from": each["start_ps"].min(), "to": each["end_ps"].max()})
        for each in (asked.groupby(by, observed=True) for by in ("clock", ["host", "clock"]))
    )
    window = window.rename(columns={"from": "from_all", "to": "to_all"})
    own = of_host.reset_index().join(window, on="clock")
    beyond = int((own["from"] - own["from_all"]).max()), int((own["to_all"] - own["to"]).max())
    if not any(beyond):
        return None
    has_before, has_behind = (
        {*trace.spans["host"][mask].unique()} for mask in ((number >= 0) & (number < steps[0]), number > steps[1])
    )
    collective = rows[(rows["kind"] == Kind.COLLECTIVE.value).to_numpy(bool)]
    for each, keys in ((rows, ["host", "device"]), (collective, ["host", "device", "lane"])):
        of = each.groupby([*keys, "clock"], observed=True)
        read = pd.DataFrame({"first": of["start_ps"].min(), "last": of["end_ps"].max()}).reset_index()
        read = read.join(window, on="clock")
        host = read["host"].astype(str)
        is_short = host.isin(has_before) & (read["first"] > read["from_all"])
        is_short |= host.isin(has_behind) & (read["last"] < read["to_all"])
        if is_short.any():
            return steps.reading(steps.around, beyond)
    return None


class _Launched:
    """Which calls and device rows of a `trace` are of which of its steps, `marks`."""

    def __init__(self, trace: Trace, marks: pd.DataFrame) -> None:
        self.events, self.launches, self.marks = trace.events, trace.launches, marks
        self.row_key, self.call_key = _call_keys(trace.events, trace.launches)

    def inside(self, windows: dict[_Thread, Intervals]) -> tuple[Mask, Mask]:
        """Which calls begin inside the windows of steps, and which rows are theirs."""
        kept = _begin_inside(self.launches, windows)
        return kept, _launched_inside(self.events, self.row_key, self.call_key, kept, windows)

    def of(self, first: int, last: int) -> Mask:
        """Which rows are of the steps from the first to the last."""
        return self.inside(_windows(self.marks, (first, last)))[1]

    def reaching_into(self, steps: Steps) -> tuple[int, int]:
        """The first and the last of the steps read around those asked for, or of more: before these, as many as
        launched what still runs in the time of the asked ones, which begin when it ends; behind them, as many as
        launched what else would not be read of that time: devices would seem idle then."""
        first, last = steps.read
        runs, called, numbers = self._in_time_of(steps), self._called(), self.marks["number"]
        for _ in range(_MOST_FURTHER):
            inside = self.of(first, last)
            begin, end = self._host_times(first, last)
            lower, higher = numbers[numbers < first], numbers[numbers > last]
            is_before = runs & ~inside & (called < begin)
            is_behind = runs & ~inside & ~_beside(self.events, inside) & (called >= end)
            wider = (
                int(lower.max()) if len(lower) and is_before.any() else first,
                int(higher.min()) if len(higher) and is_behind.any() else last,
            )
            if wider == (first, last):  # else they were launched in no step
                break
            first, last = wider
        return first, last

    def _in_time_of(self, steps: Steps) -> Mask:
        """Which rows run between the end of the step before those asked for and the end of these, on their host, or in
        the time beyond."""
        asked, before = self.of(*steps), np.zeros(len(self.events), bool)
        if steps.read[0] < steps[0]:
            before = self.of(steps.read[0], steps[0] - 1)
        start, end = self.events["start_ps"].to_numpy(), self.events["end_ps"].to_numpy()
        host, runs = self.events["host"].cat.codes.to_numpy(), np.zeros(len(self.events), bool)
        for code in np.unique(host[asked]):
            mine = host == code
            low = start[asked & mine].min()
            if (before & mine).any():
                low = min(low, end[before & mine].max())
            high = end[asked & mine].max() + steps.beyond[1]
            runs[mine] = (start[mine] < high) & (end[mine] > low - steps.beyond[0])
        return runs

    def _host_times(self, first: int, last: int) -> tuple[int, int]:
        """From when to when the steps from the first to the last are, on any thread."""
        its = self.marks[self.marks["number"].between(first, last)]
        return int(its["start_ps"].min()), int(its["end_ps"].max())

    def _called(self) -> Column:
        """When each row was launched, or where no call is known, when it began; (n,)."""
        order = np.argsort(self.call_key, kind="stable")
        keys, times = self.call_key[order], self.launches["start_ps"].to_numpy()[order]
        place = np.minimum(np.searchsorted(keys, self.row_key), max(len(keys) - 1, 0))
        called: Column = self.events["start_ps"].to_numpy().copy()
        if len(keys):
            has_call = (self.row_key >= 0) & (keys[place] == self.row_key)
            called[has_call] = times[place[has_call]]
        return called


def _marked(spans: pd.DataFrame, number: Column, path: Path, steps: Steps) -> tuple[pd.DataFrame, Mask]:
    """The steps that spans mark, by their `number` (n,), and which of the spans these are; raises NoStepsError where
    none of `steps` is there."""
    is_numbered = number >= 0
    marks, is_mark = _marks(spans[is_numbered], number[is_numbered])
    is_step = is_numbered.copy()
    is_step[is_numbered] = is_mark
    if (is_step & (number >= steps[0]) & (number <= steps[1])).any():
        return marks, is_step
    if is_step.any():
        least, most = number[is_step].min(), number[is_step].max()
        raise NoStepsError(f"{path} has no {named(steps)}: it numbers steps {least} to {most}.")
    raise NoStepsError(
        f"{path} numbers no steps, so {named(steps)} cannot be told from others: read all of it, or number them "
        "(docs/training.md)."
    )


def _numbers(spans: pd.DataFrame) -> NDArray[np.int64]:
    """The number of the step that each span is, -1 of others: its own, or where none has one, that of its name."""
    number = spans["step"].to_numpy(np.int64, na_value=-1)
    if (number >= 0).any():
        return number
    names = by_label(spans["name"].array, _number_of, -1).astype(np.int64)
    return np.where(spans["tracekit"].isna().to_numpy(bool), names, -1)


def says_step(names: pd.Series) -> Mask:
    """Which of some spans' names, (n,), say that they are a step, and its number."""
    return by_label(names.array, lambda name: _number_of(name) >= 0).astype(bool)


def _number_of(name: str) -> int:
    said = step_name(name)
    return -1 if said is None or said.part else said.number


def _marks(numbered: pd.DataFrame, number: NDArray[np.int64]) -> tuple[pd.DataFrame, Mask]:
    """The steps among the `numbered` spans, each with its `number` and cut to the next one; and which these are: as
    timelines have it, those that no other span of the process is around, nor several of them inside."""
    spans = numbered[["start_ps", "end_ps"]].reset_index(drop=True)
    spans[THREAD] = pd.DataFrame(_threads(numbered), columns=THREAD, dtype=object)
    names = by_label(numbered["name"].array, series, "").astype(object)
    spans = spans.assign(number=number, name=names, program=spans["process"])
    is_step = ~inner(spans)
    return cut_to_next(spans[is_step]), is_step


def _windows(marks: pd.DataFrame, steps: tuple[int, int]) -> dict[_Thread, Intervals]:
    """From the begin of the first to the end of the last of the `steps` that each thread marks, and each process and
    host in those of all of its threads; a thread that does not mark each of them has no window of its own.

    What lies between them is theirs, also where it is another step, as of an evaluation: without it, devices would seem
    idle there.
    """
    windows: dict[_Thread, list[Intervals]] = {}
    numbers: dict[_Thread, set[int]] = {}
    chosen = marks[marks["number"].between(*steps).to_numpy(bool)]
    for its_thread, mine in chosen.groupby(THREAD, sort=False):
        host, process, thread = map(str, its_thread)
        window = iv.intervals([mine["start_ps"].min()], [mine["end_ps"].max()])
        for key in {(host, process, thread), (host, process, ""), (host, "", "")}:
            windows.setdefault(key, []).append(window)
            numbers.setdefault(key, set()).update(mine["number"].tolist())
    return {
        key: iv.union(np.concatenate(of))
        for key, of in windows.items()
        if not key[2] or numbers[key] == numbers[(*key[:2], "")]
    }


def _threads(table: pd.DataFrame) -> list[_Thread]:
    """The host, the process and the thread of each row."""
    columns = [[*texts(table[name].array)] if name in table else [""] * len(table) for name in THREAD]
    return [(str(host), str(process or ""), str(thread or "")) for host, process, thread in zip(*columns, strict=True)]


def _begin_inside(table: pd.DataFrame, windows: dict[_Thread, Intervals]) -> Mask:
    """Which calls begin inside the windows of their thread, or of their process or host where that has none."""
    return _inside(table, table["start_ps"].to_numpy(), windows)


def _inside(table: pd.DataFrame, time: NDArray[np.int64], windows: dict[_Thread, Intervals]) -> Mask:
    """Which rows of a table with hosts, and processes and threads if it has them, have a time inside their windows."""
    inside = np.zeros(len(table), bool)
    for rows, of in _by_thread(table, windows):
        at = np.searchsorted(of[:, 0], time[rows], side="right") - 1
        inside[rows] = (at >= 0) & (time[rows] < of[at, 1])
    return inside


def _reach_inside(spans: pd.DataFrame, windows: dict[_Thread, Intervals]) -> Mask:
    """Which spans overlap with the windows of their thread."""
    start, end, inside = spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy(), np.zeros(len(spans), bool)
    for rows, of in _by_thread(spans, windows):
        at = np.searchsorted(of[:, 1], start[rows], side="right")
        inside[rows] = (at < len(of)) & (np.append(of[:, 0], 0)[at] < np.maximum(end[rows], start[rows] + 1))
    return inside


def _by_thread(table: pd.DataFrame, windows: dict[_Thread, Intervals]) -> list[tuple[NDArray[np.int64], Intervals]]:
    """The rows of each thread that has windows, or whose process or host has, and these."""
    if not len(table):
        return []
    thread, first = distinct(*(table[name].cat.codes.to_numpy(np.int64) for name in THREAD if name in table))
    found = []
    for code, (host, process, name) in enumerate(_threads(table.iloc[first])):
        keys = ((host, process, name), (host, process, ""), (host, "", ""))
        of = next((windows[key] for key in keys if key in windows), None)
        if of is not None:
            found.append((np.flatnonzero(thread == code), of))
    return found


def _launched_inside(
    events: pd.DataFrame, row_key: Column, call_key: Column, kept: Mask, windows: dict[_Thread, Intervals]
) -> Mask:
    """Which device rows were launched by calls that are `kept`, or began inside the windows of their host where no call
    is known, or several of one id, of which some are kept."""
    is_kept, is_left = (np.isin(row_key, call_key[mask]) & (row_key >= 0) for mask in (kept, ~kept))
    inside = _inside(events[["host"]], events["start_ps"].to_numpy(), windows)
    return np.where(is_kept != is_left, is_kept, inside)


def _beside(events: pd.DataFrame, inside: Mask) -> Mask:
    """Which other device rows, but collectives, run between the first and the last of those `inside`, on their host.

    Where the host runs ahead, or copies do, devices run there what other steps launched, and would else seem idle. The
    collectives of other steps stay away: each rank has to keep the same.
    """
    host = events["host"].cat.codes.to_numpy()
    start, end = events["start_ps"].to_numpy(), events["end_ps"].to_numpy()
    beside = ~inside & (events["kind"] != Kind.COLLECTIVE.value).to_numpy(bool)
    for code in np.unique(host):
        its, mine = inside & (host == code), host == code
        if its.any():
            beside[mine] &= (start[mine] < end[its].max()) & (end[mine] > start[its].min())
        else:
            beside[mine] = False
    return beside


def _call_keys(events: pd.DataFrame, launches: pd.DataFrame) -> tuple[Column, Column]:
    """A number for each host and correlation id, of the rows (n,) and of the calls (c,); -1 without an id."""
    both = pd.concat([events[["host", "correlation_id"]], launches[["host", "correlation_id"]]], ignore_index=True)
    ids = both["correlation_id"]
    key, _ = distinct(pd.factorize(both["host"])[0].astype(np.int64), ids.to_numpy(np.int64, na_value=0))
    key = np.where(ids.isna().to_numpy(bool), -1, key)
    return key[: len(events)], key[len(events) :]
