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
FIGURES = [(case, what) for case, held in traces.FIGURES.items() for what in held if what != "about"]


def device(name: str, devices) -> str:
    """The device that a key names: itself, or the only one of a rank."""
    rank = re.fullmatch(r"rank (\d+)", name)
    if not rank:
        return name
    (found,) = [key for key, held in devices.items() if held.host == f"rank{rank[1]}"]
    return found


@cache
def analysed(case: str) -> tuple[Any, Any, Any]:
    """The unions, overlaps and pairs of devices of a case."""
    events = traces.trace(case).events
    return timeline_of(events).unions, overlap(events), device_pairs(events)


def measured(case: str, name: str) -> dict[str, float]:
    """Counts, and microseconds of unions and of their intersections, by the keys of expected.json."""
    events = traces.trace(case).events
    seen, overlaps, _ = analysed(case)
    name = device(name, seen.devices)
    held = seen.devices[name]
    rows = events[events["device"] == name]
    kinds = rows["kind"].astype(str)
    sets = {"compute": held.compute, "collective": held.collective, "mem": held.memory, **held.directions}
    lengths = {key: iv.total(one) / 1e6 for key, one in sets.items()}
    both = {f"{a}&{b}": iv.total(iv.intersection(sets[a], sets[b])) / 1e6 for a in sets for b in sets}
    hidden = overlaps.set_index(["device", "what"])["ratio"]
    return {
        "n_compute": int((kinds == "compute").sum()),
        "n_collective": int((kinds == "collective").sum()),
        "n_mem": int(kinds.isin(["memcpy", "memset"]).sum()),
        "span": (rows["end_ps"].max() - rows["start_ps"].min()) / 1e6,
        "busy": iv.total(held.busy) / 1e6,
        "overlap_ratio": hidden.get((name, "collective")),
        **lengths,
        **both,
    }


# The overlap ratios are given to five digits, all else to 1 ns.
DIGITS = {"overlap_ratio": 5}


@pytest.mark.parametrize(("case", "what"), FIGURES)
def test_the_figures_are_those_of_the_schedule_or_of_independent_sweeps(case, what):
    wanted = traces.FIGURES[case][what]
    if what.startswith("busy "):
        seen, _, pairs = analysed(case)
        a, b = (device(name, seen.devices) for name in what.removeprefix("busy ").split(" & "))
        assert round(pairs.set_index(["a", "b"])["overlap_ps"][a, b] / 1e6, 3) == wanted
    else:
        found = measured(case, what)
        assert {key: round(found[key], DIGITS.get(key, 3)) for key in wanted if key != "about"} == {
            key: value for key, value in wanted.items() if key != "about"
        }


@pytest.mark.parametrize("case", traces.FIGURES)
def test_the_cells_of_the_partition_add_up_to_the_kinds_unions(case):
    seen, _, _ = analysed(case)
    for row in partition(traces.trace(case).events).to_dict("records"):
        held = seen.devices[row["device"]]
        for kind, one in (("compute", held.compute), ("collective", held.collective), ("memory", held.memory)):
            assert sum(time for cell, time in row.items() if kind in str(cell).split("+")) == iv.total(one)
        assert row["busy_ps"] == row["window_ps"] - row["idle"] == iv.total(held.busy)
