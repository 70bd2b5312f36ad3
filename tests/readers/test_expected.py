"""Every trace through `read`, against figures known beforehand: of its schedule, or of independent sweeps over it."""

import re
from functools import cache
from typing import Any

import pytest

from tests import traces
from tracekit import intervals as iv
from tracekit.analysis.overlap import device_pairs, overlap, partition
from tracekit.timeline.timeline import timeline_of

# Without the real traces these are left out, as nothing tells what else there would be.
FIGURES = [(case, what) for case, figures in traces.FIGURES.items() for what in figures if what != "about"]


def device(name: str, devices) -> str:
    """The device that a key names: itself, or the only one of a rank."""
    rank = re.fullmatch(r"rank (\d+)", name)
    if not rank:
        return name
    (key,) = [key for key, unions in devices.items() if unions.host == f"rank{rank[1]}"]
    return key


@cache
def analysis_of(case: str) -> tuple[Any, Any, Any]:
    """The unions, overlaps and pairs of devices of a case."""
    events = traces.trace(case).events
    return timeline_of(events).unions, overlap(events), device_pairs(events)


def figures_of(case: str, name: str) -> dict[str, float]:
    """Counts, and microseconds of unions and of their intersections, by the keys of expected.json."""
    events = traces.trace(case).events
    unions, overlaps, _ = analysis_of(case)
    name = device(name, unions.devices)
    device_unions = unions.devices[name]
    rows = events[events["device"] == name]
    kinds = rows["kind"].astype(str)
    sets = {
        "compute": device_unions.compute,
        "collective": device_unions.collective,
        "mem": device_unions.memory,
        **device_unions.directions,
    }
    lengths = {key: iv.total(union) / 1e6 for key, union in sets.items()}
    intersections = {f"{a}&{b}": iv.total(iv.intersection(sets[a], sets[b])) / 1e6 for a in sets for b in sets}
    hidden = overlaps.set_index(["device", "what"])["ratio"]
    return {
        "n_compute": int((kinds == "compute").sum()),
        "n_collective": int((kinds == "collective").sum()),
        "n_mem": int(kinds.isin(["memcpy", "memset"]).sum()),
        "span": (rows["end_ps"].max() - rows["start_ps"].min()) / 1e6,
        "busy": iv.total(device_unions.busy) / 1e6,
        "overlap_ratio": hidden.get((name, "collective")),
        **lengths,
        **intersections,
    }


# The overlap ratios are given to five digits, all else to 1 ns.
DIGITS = {"overlap_ratio": 5}


@pytest.mark.parametrize(("case", "what"), FIGURES)
def test_the_figures_are_those_of_the_schedule_or_of_independent_sweeps(case, what):
    expected = traces.FIGURES[case][what]
    if what.startswith("busy "):
        unions, _, pairs = analysis_of(case)
        a, b = (device(name, unions.devices) for name in what.removeprefix("busy ").split(" & "))
        assert round(pairs.set_index(["a", "b"])["overlap_ps"][a, b] / 1e6, 3) == round(expected, 3)
    else:
        actual = figures_of(case, what)
        assert {key: round(actual[key], DIGITS.get(key, 3)) for key in expected if key != "about"} == {
            key: round(value, DIGITS.get(key, 3)) for key, value in expected.items() if key != "about"
        }


@pytest.mark.parametrize("case", traces.FIGURES)
def test_the_cells_of_the_partition_add_up_to_the_kinds_unions(case):
    unions, _, _ = analysis_of(case)
    for row in partition(traces.trace(case).events).to_dict("records"):
        device_unions = unions.devices[row["device"]]
        for kind in ("compute", "collective", "memory"):
            union = getattr(device_unions, kind)
            assert sum(time for cell, time in row.items() if kind in str(cell).split("+")) == iv.total(union)
        assert row["busy_ps"] == row["window_ps"] - row["idle"] == iv.total(device_unions.busy)
