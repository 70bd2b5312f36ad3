"""Which host spans are steps by what they are called, where none has a step number of its own."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import by_label, distinct, places_of
from tracekit.timeline.rows import Rows
from tracekit.vocabulary.host_calls import Activity, activity_of, executes
from tracekit.vocabulary.step_names import Recurring, counters, is_epoch, numbers_epoch, recurring, step_name

_THREAD = ("host", "process", "thread")
# A name counts if it does so at least so often on a thread; one that a library uses, a time less.
_FEWEST = 3
_COMPILING = (Activity.LOWERING, Activity.COMPILING)
# Names with more numbers are of something else.
_MOST_NUMBERS = 4

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]


def inside_runtime(spans: pd.DataFrame) -> Mask:
    """Which spans, shape (n,), lie inside one on their thread in which a compiler runs, or what executes a program: the
    compiler's passes, and what XLA calls its own doings (`[iter=3]` of a loop, `command_buffer_5`)."""
    inside = np.zeros(len(spans), bool)
    is_runtime = by_label(spans["name"].array, lambda name: executes(name) or activity_of(name) in _COMPILING)
    if not is_runtime.any():
        return inside
    thread, first = distinct(*(spans[name].cat.codes.to_numpy().astype(np.int64) for name in _THREAD))
    start, end = spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy()
    places = places_of(thread, len(first))
    for code in np.unique(thread[is_runtime]).tolist():
        mine = places[code]
        runtime = mine[is_runtime[mine]]
        times = iv.union(iv.intervals(start[runtime], end[runtime]))
        if not len(times):  # spans that last no time hold no other
            continue
        last = np.searchsorted(times[:, 0], start[mine], side="right") - 1
        inside[mine] = (last >= 0) & (end[mine] <= times[last, 1])
    return inside


class _StepSpans(NamedTuple):
    """The spans that are steps: their places, and the number and the times of each step, all (m,)."""

    place: Column
    number: Column
    start: Column
    end: Column


class _Spans:
    """The spans of a trace that neither tracekit nor the runtime wrote, as columns.

    `code` (n,) is the place in `names` of each span's name; a span of tracekit's own, or inside the runtime, has -1.
    """

    def __init__(self, rows: Rows, spans: pd.DataFrame, launches: pd.DataFrame) -> None:
        self.start, self.end = spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy()
        self.names = [str(name) for name in spans["name"].cat.categories]
        is_users = spans["tracekit"].isna().to_numpy(bool) & ~inside_runtime(spans)
        self.code = np.where(is_users, spans["name"].cat.codes.to_numpy(), -1)
        codes = [spans[name].cat.codes.to_numpy().astype(np.int64) for name in _THREAD]
        self.thread, _ = distinct(*codes)
        self.host = np.array([*map(str, spans["host"].cat.categories), ""], object)[codes[0]]
        self._rows, self._launches = rows, launches

    @cached_property
    def launches(self) -> tuple[NDArray[Any], Column]:
        """The host and the begin of each launch, or of each row where no launch is known."""
        if len(self._launches):
            return self._launches["host"].astype(object).to_numpy(), self._launches["start_ps"].to_numpy()
        return np.array([*map(str, self._rows.hosts)], object)[self._rows.device], self._rows.start

    def by_name(self, values: Sequence[int]) -> Column:
        """The value of each span by its name's, -1 for spans of tracekit's own; (n,)."""
        return np.array([*values, -1], np.int64)[self.code]

    def in_order(self, place: Column) -> tuple[Column, Column]:
        """The places by thread and begin, and where each thread's begin among them."""
        place = place[np.lexsort((self.start[place], self.thread[place]))]
        return place, np.flatnonzero(np.append(True, np.diff(self.thread[place]) != 0))

    def work(self, steps: _StepSpans) -> tuple[int, int, int]:
        """How many launches begin in the steps, how many from the first to the last of their host, and of all."""
        inside = between = 0
        host = self.host[steps.place]
        hosts, moments_of_all = self.launches
        for name in dict.fromkeys(host):
            mine = host == name
            moments = moments_of_all[hosts == name]
            windows = iv.union(iv.intervals(steps.start[mine], steps.end[mine]))
            if len(windows) and len(moments):
                at = np.searchsorted(windows[:, 0], moments, side="right") - 1
                inside += int((moments[at >= 0] < windows[at[at >= 0], 1]).sum())
                between += int(((moments >= windows[0, 0]) & (moments < windows[-1, 1])).sum())
        return inside, between, len(moments_of_all)


def step_spans(rows: Rows, spans: pd.DataFrame, launches: pd.DataFrame) -> pd.DataFrame:
    """`spans` (SPAN_COLUMNS) with the step of those that are one by their name; unchanged where any has one already.

    The first of these that the spans have tells: names that say so (`step 3`, `iteration 3`, `epoch 1 step 3`); those
    of the parts of a step (`step 3/forward`), whose hull is the step and the span of the first; a name without a number
    that libraries and programs give to each step (`train_step`, `run_training_batch`), in whose spans most of the work
    is launched. Or else, unless the profiler grouped the rows by steps: the one name that counts, three or more spans
    beside each other on a thread which are called alike but for a number that grows by always the same, and may begin
    again where a number before it grows or a pass over the data begins; half of the work is launched in them. Of
    several such names the one counts that takes most time, as the outermost does, and one of epochs only alone. Or else
    what comes at the end of a step, as an optimizer, or at its begin, as a forward pass: a step is then what lies
    between the ends, or the begins, of two of its thread; half of the work must lie there too.
    """
    if spans["step"].notna().any() or spans.empty:
        return spans
    columns = _Spans(rows, spans, launches)
    grouped = bool(rows.has("group_id").any())
    kinds = [recurring(name) for name in columns.names]
    steps = (
        _outermost(columns, _by_name(columns), _recurring(columns, kinds, Recurring.STEP))
        or (None if grouped else _by_counter(columns))
        or _recurring(columns, kinds, Recurring.EVALUATION)
        or (None if grouped else _between(columns, kinds, Recurring.END) or _between(columns, kinds, Recurring.BEGIN))
    )
    if steps is None:
        return spans
    step = np.full(len(spans), -1)
    start, end = columns.start.copy(), columns.end.copy()
    step[steps.place], start[steps.place], end[steps.place] = steps.number, steps.start, steps.end
    return spans.assign(start_ps=start, end_ps=end, step=pd.arrays.IntegerArray(step, step < 0))


def _by_name(columns: _Spans) -> _StepSpans | None:
    """The spans whose names say that they are steps, or the hulls of those that are parts of steps."""
    texts = [step_name(name) for name in columns.names]
    number = columns.by_name([-1 if text is None else text.number for text in texts])
    if (number < 0).all():
        return None
    parts = dict.fromkeys(text.part for text in texts if text)
    code_of = {part: code for code, part in enumerate(["", *filter(None, parts)])}
    part = columns.by_name([-1 if text is None else code_of[text.part] for text in texts])
    whole = np.flatnonzero((number >= 0) & (part == 0))
    if len(whole):
        return _StepSpans(whole, number[whole], columns.start[whole], columns.end[whole])
    place, _ = columns.in_order(np.flatnonzero(part > 0))
    # `Step 1: load the data` stands once: what recurs is a part of several steps.
    pairs = np.unique(np.stack([part[place], number[place]]), axis=1)
    place = place[np.bincount(pairs[0], minlength=len(code_of))[part[place]] >= _FEWEST]
    if len(place) == 0:
        return None
    steps = _hulls(columns, place, number)
    if steps is None:  # the parts of two steps take turns: only one kind of them tells steps apart
        time = np.bincount(part[place], columns.end[place] - columns.start[place])
        steps = _hulls(columns, place[part[place] == np.argmax(time)], number)
    return steps


def _hulls(columns: _Spans, place: Column, number: Column) -> _StepSpans | None:
    """From the first begin to the last end of neighbours of one number on a thread, of the spans at `place`, which
    stand by thread and begin; None where a number comes back that is not a thread's first. The first and last steps of
    a thread that have fewer parts than most were cut by the profile, and are none."""
    thread, own = columns.thread[place], number[place]
    threads = np.append(True, np.diff(thread) != 0)
    heads = np.flatnonzero(threads | np.append(True, np.diff(own) != 0))
    of_thread = np.cumsum(threads) - 1
    least = np.minimum.reduceat(own, np.flatnonzero(threads))[of_thread]
    again = np.append(False, np.diff(own) < 0) & ~threads & (own > least)
    if again.any():
        return None
    end = np.maximum.reduceat(columns.end[place], heads)
    size, of_step = np.diff(heads, append=len(place)), of_thread[heads]
    whole = size >= _usual(size, of_step)
    # What lacks parts between two whole steps is a step all the same.
    first = np.full(of_thread[-1] + 1, len(heads))
    np.minimum.at(first, of_step[whole], np.flatnonzero(whole))
    last = np.full(of_thread[-1] + 1, -1)
    np.maximum.at(last, of_step[whole], np.flatnonzero(whole))
    inner = (np.arange(len(heads)) >= first[of_step]) & (np.arange(len(heads)) <= last[of_step])
    heads, end = heads[inner], end[inner]
    return _StepSpans(place[heads], own[heads], columns.start[place[heads]], end)


def _usual(size: Column, group: Column) -> Column:
    """The median of the sizes in each one's group, of an even number the smaller; the groups are 0, 1, 2, ... ."""
    order = np.lexsort((size, group))
    count = np.bincount(group)
    middle = np.cumsum(count) - count + (count - 1) // 2
    usual: Column = size[order][middle][group]
    return usual


def _recurring(columns: _Spans, kinds: Sequence[Recurring | None], kind: Recurring) -> _StepSpans | None:
    """The spans of the name of this kind that takes most time, numbered from 0 on each thread, if it recurs and most
    of what is launched meanwhile is launched in them."""
    for place in _by_time(columns, kinds, kind):
        place, heads = columns.in_order(place)
        number = np.arange(len(place)) - np.repeat(heads, np.diff(heads, append=len(place)))
        steps = _StepSpans(place, number, columns.start[place], columns.end[place])
        inside, between, _ = columns.work(steps)
        if number.max() > 0 and 2 * inside >= between:
            return steps
    return None


def _by_time(columns: _Spans, kinds: Sequence[Recurring | None], kind: Recurring) -> list[Column]:
    """The places of the spans of each name of a kind, by the time that they take, longest first."""
    codes = [code for code, own in enumerate(kinds) if own is kind]
    places = [np.flatnonzero(columns.code == code) for code in codes]
    lengths = [int((columns.end[place] - columns.start[place]).sum()) for place in places]
    order = sorted(range(len(codes)), key=lambda at: -lengths[at])
    return [places[at] for at in order if len(places[at])]


def _outermost(columns: _Spans, inner: _StepSpans | None, outer: _StepSpans | None) -> _StepSpans | None:
    """Of numbered spans and spans without a number the former, unless most lie in the latter, two or more in each."""
    if inner is None or outer is None:
        return inner or outer
    inside = 0
    for thread in np.unique(columns.thread[outer.place]):
        around, own = (columns.thread[spans.place] == thread for spans in (outer, inner))
        at = np.searchsorted(outer.start[around], inner.start[own], side="right") - 1
        inside += int((inner.end[own][at >= 0] <= outer.end[around][at[at >= 0]]).sum())
    return outer if 2 * inside >= max(len(inner.place), 4 * len(outer.place)) else inner


def _between(columns: _Spans, kinds: Sequence[Recurring | None], kind: Recurring) -> _StepSpans | None:
    """The steps between the ends of what comes last in each, or between the begins of what comes first: those of the
    spans of END but the first of each thread, of BEGIN but the last; what the profile cut there is no step."""
    for place in _by_time(columns, kinds, kind)[:1]:
        place, heads = columns.in_order(place)
        sizes = np.diff(heads, append=len(place))
        number = np.arange(len(place)) - np.repeat(heads, sizes)
        if sizes.max() < _FEWEST:
            return None
        start, end = columns.start[place], columns.end[place]
        if kind is Recurring.END:
            mine = np.flatnonzero(number > 0)
            steps = _StepSpans(place[mine], number[mine], np.minimum(end[mine - 1], start[mine]), end[mine])
        else:
            mine = np.flatnonzero(number < np.repeat(sizes, sizes) - 1)
            steps = _StepSpans(place[mine], number[mine], start[mine], np.maximum(start[mine + 1], start[mine]))
        _, between, launches = columns.work(steps)
        return steps if 2 * between >= launches > 0 else None
    return None


def _by_counter(columns: _Spans) -> _StepSpans | None:
    """The spans of the one name that counts."""
    texts = [counters(name) for name in columns.names]
    labels = list(dict.fromkeys(text[0] for text in texts if text and len(text[1]) <= _MOST_NUMBERS))
    if not labels:
        return None
    code_of = {label: code for code, label in enumerate(labels)}
    template_of = columns.by_name([code_of.get(text[0], -1) if text else -1 for text in texts])
    figures = np.zeros((len(texts), _MOST_NUMBERS), np.int64)
    for row, text in enumerate(texts):
        if text and text[0] in code_of:
            figures[row, : len(text[1])] = text[1]
    place = np.flatnonzero(template_of >= 0)
    if len(place) == 0:
        return None
    place = place[np.lexsort((columns.start[place], columns.thread[place], template_of[place]))]
    template, thread = template_of[place], columns.thread[place]
    heads = np.flatnonzero(np.append(True, (np.diff(template) != 0) | (np.diff(thread) != 0)))
    start, end = columns.start[place], columns.end[place]
    counter = _counters(figures[columns.code[place]], _epochs(columns, place), heads)
    beside = start >= np.append(0, end[:-1])
    beside[heads] = True
    counter = np.where(np.logical_and.reduceat(beside, heads), counter, -1)
    group = np.repeat(np.arange(len(heads)), np.diff(heads, append=len(place)))
    time = np.bincount(template[heads], np.add.reduceat(end - start, heads) * (counter >= 0), len(labels))
    for best in sorted(np.flatnonzero(time > 0).tolist(), key=lambda code: (is_epoch(labels[code]), -time[code])):
        mine = np.flatnonzero(((counter >= 0) & (template[heads] == best))[group])
        number = figures[columns.code[place[mine]], counter[group[mine]]]
        steps = _StepSpans(place[mine], number, start[mine], end[mine])
        inside, between, launches = columns.work(steps)
        if 2 * between >= launches > 0 and 2 * inside >= between:
            return steps
    return None


def _epochs(columns: _Spans, place: Column) -> Column:
    """How many spans of a pass over the data began before each span on its thread, or with it; (len(place),)."""
    are_epochs = np.array([*(numbers_epoch(name) for name in columns.names), False], bool)[columns.code]
    number = np.zeros(len(place), np.int64)
    for thread in np.unique(columns.thread[are_epochs]).tolist():
        begins = np.sort(columns.start[are_epochs & (columns.thread == thread)])
        mine = columns.thread[place] == thread
        number[mine] = np.searchsorted(begins, columns.start[place[mine]], side="right")
    return number


def _counters(figures: NDArray[np.int64], epoch: Column, heads: Column) -> Column:
    """Which of the figures (n, k) of each group counts, -1 for none or several; the groups begin at `heads` (g,).

    One counts that grows by the same from each to the next, and is no larger than before only where another, or the
    number of the `epoch` (n,), grows.
    """
    size = np.diff(heads, append=len(figures))
    growth = np.diff(figures, axis=0, prepend=figures[:1])
    stride = np.repeat(growth[np.minimum(heads + 1, len(figures) - 1)], size, axis=0)
    goes_on = (growth == stride) & (stride > 0)
    others_grow = (growth > 0).sum(axis=1, keepdims=True) > (growth > 0)
    others_grow |= np.diff(epoch, prepend=epoch[:1])[:, None] > 0
    begins_again = (growth <= 0) & others_grow & (stride > 0)
    is_next = goes_on | begins_again
    is_next[heads] = True
    goes_on[heads] = False
    counts = np.logical_and.reduceat(is_next, heads, axis=0)
    counts &= 2 * np.add.reduceat(goes_on, heads, axis=0, dtype=np.int64) >= (size - 1)[:, None]
    counts &= (size >= _FEWEST)[:, None]
    return np.where(counts.sum(axis=1) == 1, np.argmax(counts, axis=1), -1)
