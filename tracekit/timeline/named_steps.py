"""Which host spans are steps by what they are called, where none has a step number of its own."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import distinct
from tracekit.timeline.rows import Rows
from tracekit.vocabulary.step_names import counters, ends_step, is_a_step, is_epoch, named_step

_THREAD = ("host", "process", "thread")
# A name counts if it does so at least so often on a thread.
_FEWEST = 3
# Names with more numbers are of something else.
_MOST_NUMBERS = 4


def step_spans(rows: Rows, spans: pd.DataFrame, launches: pd.DataFrame) -> pd.DataFrame:
    """`spans` (SPAN_COLUMNS) with the step of those that are one by their name; unchanged where any has one already.

    Their name says so (`step 3`, `iteration 3`, `epoch 1 step 3`, `run_training_batch`); or else, unless the profiler
    grouped the rows by steps, they are of the one name that counts: on a thread, three or more spans beside each other
    are called alike but for a number that grows by one, and at least half of the work was launched between the first
    and the last of them. Of several such names the one counts that takes most time, as the outermost does, and one of
    epochs only alone. Or else they are those of an optimizer: a step is then what lies between the ends of two of its
    thread, and the span of the second begins with the end of the first; half of the work must lie there too.
    """
    if spans["step"].notna().any() or spans.empty:
        return spans
    names = spans["name"].cat
    numbers = [named_step(str(name)) for name in names.categories]
    of_name = np.array([*(-1 if number is None else number for number in numbers), -1], np.int64)
    step = np.where(spans["tracekit"].isna().to_numpy(bool), of_name[names.codes.to_numpy()], -1)
    if (step < 0).all():
        step, _ = _recurring(spans, is_a_step)
    if (step < 0).all() and not rows.has("group_id").any():
        step = _counted(rows, spans, launches)
        if (step < 0).all():
            return _ended(rows, spans, launches)
    return spans.assign(step=pd.arrays.IntegerArray(step, step < 0)) if (step >= 0).any() else spans


def _recurring(spans: pd.DataFrame, test: Callable[[str], bool]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of each span of the one name that passes `test` and takes most time, by its order on its thread, from
    0, -1 for the others; and the span of the name before it on its thread, -1 for none; (len(spans),) each."""
    number, before = np.full((2, len(spans)), -1)
    names = spans["name"].cat
    codes = names.codes.to_numpy()
    is_one = np.array([*(test(str(name)) for name in names.categories), False], bool)[codes]
    at = np.flatnonzero(is_one & spans["tracekit"].isna().to_numpy(bool))
    if len(at) == 0:
        return number, before
    start, end = spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy()
    at = at[codes[at] == np.argmax(np.bincount(codes[at], end[at] - start[at]))]
    thread, _ = distinct(*(spans[name].cat.codes.to_numpy()[at].astype(np.int64) for name in _THREAD))
    order = np.lexsort((start[at], thread))
    at, thread = at[order], thread[order]
    heads = np.flatnonzero(np.append(True, np.diff(thread) != 0))
    number[at] = np.arange(len(at)) - np.repeat(heads, np.diff(heads, append=len(at)))
    before[at] = np.where(number[at] > 0, np.roll(at, 1), -1)
    return number, before


def _ended(rows: Rows, spans: pd.DataFrame, launches: pd.DataFrame) -> pd.DataFrame:
    """The spans, those of the optimizer but the first of each thread as steps that begin where the one before ended."""
    number, before = _recurring(spans, ends_step)
    mine = np.flatnonzero(before >= 0)
    end = spans["end_ps"].to_numpy()
    if number.max(initial=-1) < _FEWEST - 1 or not _holds_work(rows, launches, end[before[mine]], end[mine]):
        return spans
    start = spans["start_ps"].to_numpy().copy()
    start[mine] = np.minimum(end[before[mine]], start[mine])
    step = np.where(before >= 0, number, -1)
    return spans.assign(start_ps=start, step=pd.arrays.IntegerArray(step, step < 0))


def _counted(rows: Rows, spans: pd.DataFrame, launches: pd.DataFrame) -> NDArray[np.int64]:
    """The step of each span by the one name that counts, -1 for the others; (len(spans),)."""
    step = np.full(len(spans), -1)
    texts = [counters(str(name)) for name in spans["name"].cat.categories]
    templates = dict.fromkeys(text[0] for text in texts if text and len(text[1]) <= _MOST_NUMBERS)
    if not templates:
        return step
    place = {template: number for number, template in enumerate(templates)}
    template_of = np.array([place.get(text[0], -1) if text else -1 for text in texts])
    figures = np.zeros((len(texts), _MOST_NUMBERS), np.int64)
    for row in np.flatnonzero(template_of >= 0).tolist():
        values = (texts[row] or ("", ()))[1]
        figures[row, : len(values)] = values
    codes = spans["name"].cat.codes.to_numpy()
    at = np.flatnonzero((template_of[codes] >= 0) & spans["tracekit"].isna().to_numpy(bool))
    if len(at) == 0:
        return step
    thread, _ = distinct(*(spans[name].cat.codes.to_numpy()[at].astype(np.int64) for name in _THREAD))
    start, end = spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy()
    order = np.lexsort((start[at], thread, template_of[codes[at]]))
    at, thread = at[order], thread[order]
    template = template_of[codes[at]]
    heads = np.flatnonzero(np.append(True, (np.diff(template) != 0) | (np.diff(thread) != 0)))
    group = np.repeat(np.arange(len(heads)), np.diff(heads, append=len(at)))
    growth = np.diff(figures[codes[at]], axis=0, prepend=0)
    is_next = (np.count_nonzero(growth, axis=1) == 1) & (growth.sum(axis=1) == 1)
    is_next &= start[at] >= np.append(0, end[at][:-1])
    is_next[heads] = True
    counts = np.logical_and.reduceat(is_next, heads) & (np.bincount(group) >= _FEWEST)
    # The place of the figure that grows, by the second span of a group.
    second = np.minimum(heads + 1, len(at) - 1)
    counter = np.argmax(growth[second] == 1, axis=1)
    time = np.bincount(template[heads], np.add.reduceat(end[at] - start[at], heads) * counts, len(templates))
    labels = list(templates)
    for best in sorted(np.flatnonzero(time > 0).tolist(), key=lambda number: (is_epoch(labels[number]), -time[number])):
        chosen = counts & (template[heads] == best)
        if _holds_work(rows, launches, start[at[heads[chosen]]], end[at[np.append(heads[1:], len(at))[chosen] - 1]]):
            mine = chosen[group]
            step[at[mine]] = figures[codes[at[mine]], counter[group[mine]]]
            break
    return step


def _holds_work(rows: Rows, launches: pd.DataFrame, start: NDArray[np.int64], end: NDArray[np.int64]) -> bool:
    """Whether at least half of the launches, or of the rows where none is known, begin from the first of `start` to the
    last of `end`."""
    moments = launches["start_ps"].to_numpy() if len(launches) else rows.start
    return 2 * int(((moments >= start.min()) & (moments < end.max())).sum()) >= len(moments) > 0
