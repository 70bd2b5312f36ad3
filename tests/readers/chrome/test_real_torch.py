"""Real profiles of PyTorch on a CPU, held against a sweep over their events that shares no code with the reader."""

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise

import pytest

from tests.traces import DATA
from tracekit import intervals as iv
from tracekit.analysis.collectives import collectives
from tracekit.analysis.phases import phases
from tracekit.readers import read
from tracekit.timeline.timeline import timeline_of

PHASES = DATA / "torch-phases.pt.trace.json.gz"
RANKS = DATA / "torch-two-ranks"
LIST = DATA / "torch-1.13-list.json.gz"
ASKS = ("c10d::", "record_param_comms")


def events_of(path):
    """The complete events of a file as (name, category, thread, start, end), times in ps from any origin."""
    with gzip.open(path, "rt") as file:
        document = json.load(file, parse_float=Decimal)
    items = document if isinstance(document, list) else document["traceEvents"]
    return [
        (each["name"], each.get("cat"), each["tid"], int(each["ts"] * 10**6), int((each["ts"] + each["dur"]) * 10**6))
        for each in items
        if each["ph"] == "X" and each.get("cat") != "Trace"
    ]


def is_op(event):
    name, category = event[:2]
    if category is not None:
        return category == "cpu_op"
    return "::" in name or name.split(":")[-1].strip().rstrip("0123456789").endswith("Backward")


def busy_by_thread(events):
    """The time in which each thread does the work of an operator, or a collective: between two times next to each other
    the operator that began last counts, unless it only asks for a collective."""
    works = defaultdict(list)
    for event in events:
        if is_op(event):
            works[event[2]].append((*event[3:], not event[0].startswith(ASKS)))
        elif event[0].startswith("gloo:"):
            works[event[2]].append((*event[3:], True))
    busy = {}
    for thread, rows in works.items():
        edges = sorted({edge for start, end, _ in rows for edge in (start, end)})
        pieces = pairwise(edges)
        busy[thread] = sum(
            until - begin
            for begin, until in pieces
            if (inside := [row for row in rows if row[0] <= begin and until <= row[1]])
            and max(inside, key=lambda row: (row[0], -row[1]))[2]
        )
    return sorted(busy.values())


def lanes_busy(events):
    return sorted(
        int(sum(end - start for start, end in iv.union(iv.intervals(lane["start_ps"], lane["end_ps"])).tolist()))
        for _, lane in events.groupby("lane", observed=True)
    )


@pytest.mark.parametrize(
    ("path", "threads"),
    [(PHASES, 3), (RANKS / "vm-rank0.pt.trace.json.gz", 3), (RANKS / "vm-rank1.pt.trace.json.gz", 3), (LIST, 1)],
    ids=lambda value: value.name if hasattr(value, "name") else str(value),
)
def test_each_thread_is_a_lane_that_is_busy_for_as_long_as_its_operators_work(path, threads):
    trace = read(path)
    assert trace.events["device"].cat.categories.tolist() == ["cpu:0"]
    assert len(busy := lanes_busy(trace.events)) == threads
    # Times of Kineto are decimal microseconds: a sum of two may be cut by 1 ps, once for each edge.
    assert busy == pytest.approx(busy_by_thread(events_of(path)), abs=len(trace.events))


def test_phases_are_read_back_from_the_names_of_their_annotations():
    raw = {event[0]: event[4] - event[3] for event in events_of(PHASES) if event[1] == "user_annotation"}
    assert set(raw) == {"one#tracekit=phase#", "two#tracekit=phase,alone=one#"}
    trace = read(PHASES)
    spans = trace.spans[["name", "tracekit", "alone"]].astype(object)
    assert spans.where(spans.notna(), None).values.tolist() == [["one", "phase", None], ["two", "phase", "one"]]
    table = phases(trace).table.set_index("name")
    assert table["compared_with"].fillna("").tolist() == ["", "one"]
    one, two = raw["one#tracekit=phase#"], raw["two#tracekit=phase,alone=one#"]
    assert table.loc["one", "wall_ps"] == pytest.approx(one, abs=2)
    assert table.loc["two", "speedup"] == pytest.approx(one / two)


def test_ranks_of_one_machine_share_a_clock_and_their_collectives():
    trace = read(RANKS)
    assert trace.hosts["world_size"].tolist() == [2, 2]
    assert trace.hosts["clock"].nunique() == 1
    found = collectives(timeline_of(trace)).table
    # A Linear(16, 8) in one bucket: (16 + 1) * 8 floats, in each of three steps.
    assert found["devices"].tolist() == [2, 2, 2]
    reduces = trace.events[trace.events["kind"] == "collective"]
    assert set(zip(reduces["name"], reduces["bytes"], strict=True)) == {("gloo:all_reduce", 544)}


def test_a_list_without_kineto_has_phases_too():
    trace = read(LIST)
    raw = [event[4] - event[3] for event in events_of(LIST) if event[0].startswith("train#")]
    spans = trace.spans[trace.spans["tracekit"] == "phase"]
    assert spans["name"].tolist() == ["train", "train"]
    assert (spans["end_ps"] - spans["start_ps"]).tolist() == raw
    assert any("whole microseconds" in note for note in trace.notes)
