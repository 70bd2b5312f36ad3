"""Tracks of what tracekit tells of a trace: its steps, and its collectives with one slice for all devices."""

from collections.abc import Iterator

import numpy as np

from tracekit.export import track_events, tracks
from tracekit.export.nesting import nested
from tracekit.export.protobuf import Ints
from tracekit.export.timeline import Timeline
from tracekit.export.track_events import Slices
from tracekit.export.tracks import Part


def steps(timeline: Timeline, clock: str, uuids: Iterator[int]) -> Part:
    """The windows of the steps on one clock, which touch; without steps, no track."""
    table = timeline.steps.table
    at = np.flatnonzero((table["clock"] == clock).to_numpy(bool))
    table = table.iloc[at]
    number = table["step"].fillna(table.index.to_series().astype("Int64")).to_numpy(np.int64)
    labels = [f"{name} {step}" for name, step in zip(table["name"].fillna("step"), number.tolist(), strict=True)]
    names = sorted(set(labels))
    place = {label: code for code, label in enumerate(names)}
    return _part(
        "steps",
        "The windows of the steps: each ends when the host and all devices are done with it.",
        names,
        np.array([place[label] for label in labels], np.int64),
        (table["start_ps"].to_numpy(), table["end_ps"].to_numpy()),
        "step",
        {"step": number, "rows": table["rows"].to_numpy()},
        uuids,
    )


def collectives(timeline: Timeline, clock: str, uuids: Iterator[int]) -> Part:
    """The collectives on one clock, from the first start to the last end on any device; without any, no track."""
    rows = timeline.rows
    mine = np.array([*(one == clock for one in rows.clocks), False], bool)
    at = np.flatnonzero((timeline.instance >= 0) & mine[rows.device])
    number, first, group = np.unique(timeline.instance[at], return_index=True, return_inverse=True)
    start = np.full(len(number), np.iinfo(np.int64).max)
    end = np.full(len(number), np.iinfo(np.int64).min)
    np.minimum.at(start, group, rows.start[at])
    np.maximum.at(end, group, rows.end[at])
    return _part(
        "collectives",
        "Each collective once, from the first device that enters it to the last that leaves it.",
        rows.labels("name"),
        rows.codes("name")[at[first]],
        (start, end),
        "collective",
        {"instance": number, "devices": np.bincount(group, minlength=len(number))},
        uuids,
    )


def _part(
    track: str,
    description: str,
    names: list[str],
    name: Ints,
    times: tuple[Ints, Ints],
    category: str,
    numbers: dict[str, Ints],
    uuids: Iterator[int],
) -> Part:
    """Slices of one track; where they overlap without nesting, Perfetto shows the tracks of one name as one."""
    order = np.lexsort((-times[1], times[0]))
    start, end = times[0][order], times[1][order]
    layer, opened = nested(np.zeros(len(start), np.int64), start, end)
    uuid = [next(uuids) for _ in range(int(layer.max(initial=-1)) + 1)]
    everything = np.ones(len(start), bool)
    slices = Slices(
        order=opened,
        track=np.array(uuid, np.int64)[layer],
        name=name[order],
        start=start,
        end=end,
        category=np.zeros(len(start), np.int64),
        categories=[track_events.categories(category)],
        numbers={key: (values[order], everything) for key, values in numbers.items()},
    )
    return Part(b"".join(tracks.track(one, track, description=description) for one in uuid), slices, names)
