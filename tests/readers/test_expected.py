"""Every real trace through `read`, against the figures that independent sweeps over the same files gave beforehand."""

import json
import re
from pathlib import Path

import pytest

from tracekit import intervals as iv
from tracekit.analysis.overlap import device_pairs, overlap
from tracekit.analysis.partition import partition
from tracekit.readers import read
from tracekit.timeline.unions import unions

REAL = Path(__file__).parents[3] / "shared" / "traces"
EXPECTED = json.loads((REAL / "expected.json").read_text("utf-8")) if REAL.is_dir() else {}
CASES = [name for name in EXPECTED if "/" in name]

pytestmark = pytest.mark.skipif(not CASES, reason="the folder of real traces, shared/traces, is not here")


def source(case: str) -> Path:
    """The file or directory of a case; beside a directory stands a file only where the case is one file."""
    path = REAL / case
    if path.is_dir():
        return path
    (found,) = path.parent.glob(f"{path.name}.*")
    return found


def device(name: str, devices) -> str:
    """The device that a key names: itself, or the only one of a rank."""
    rank = re.fullmatch(r"rank (\d+)", name)
    if not rank:
        return name
    (found,) = [key for key, held in devices.items() if held.host == f"rank{rank[1]}"]
    return found


def measured(events, name: str) -> dict[str, float]:
    """Counts, and microseconds of unions and of their intersections, by the keys of expected.json."""
    seen = unions(events)
    name = device(name, seen.devices)
    held = seen.devices[name]
    rows = events[events["device"] == name]
    kinds = rows["kind"].astype(str)
    sets = {"compute": held.compute, "collective": held.collective, "mem": held.memory, **held.directions}
    lengths = {key: iv.total(one) / 1e6 for key, one in sets.items()}
    both = {f"{a}&{b}": iv.total(iv.intersection(sets[a], sets[b])) / 1e6 for a in sets for b in sets}
    hidden = overlap(seen).set_index(["device", "what"])["ratio"]
    return {
        "n_compute": int((kinds == "compute").sum()),
        "n_collective": int((kinds == "collective").sum()),
        "n_mem": int(kinds.isin(["memcpy", "memset"]).sum()),
        "span": (rows["end_ps"].max() - rows["start_ps"].min()) / 1e6,
        "busy": iv.total(held.busy) / 1e6,
        "overlap_ratio": hidden[name, "collective"],
        **lengths,
        **both,
    }


# The overlap ratios are given to five digits, all else to 1 ns.
DIGITS = {"overlap_ratio": 5}


@pytest.fixture(scope="module")
def events():
    """The events of a case, read once."""
    held = {}
    return lambda case: held.setdefault(case, read(source(case)).events)


@pytest.mark.parametrize(
    ("case", "what"), [(case, what) for case in CASES for what in EXPECTED[case] if what != "about"]
)
def test_the_figures_are_those_of_independent_sweeps(events, case, what):
    wanted = EXPECTED[case][what]
    if what.startswith("busy "):
        devices = unions(events(case)).devices
        a, b = (device(name, devices) for name in what.removeprefix("busy ").split(" & "))
        pairs = device_pairs(events(case)).set_index(["a", "b"])["overlap_ps"]
        assert round(pairs[a, b] / 1e6, 3) == wanted
    else:
        found = measured(events(case), what)
        assert {key: round(found[key], DIGITS.get(key, 3)) for key in wanted if key != "about"} == {
            key: value for key, value in wanted.items() if key != "about"
        }


@pytest.mark.parametrize("case", CASES)
def test_the_cells_of_the_partition_add_up_to_the_kinds_unions(events, case):
    seen = unions(events(case))
    for row in partition(seen).to_dict("records"):
        held = seen.devices[row["device"]]
        for kind, one in (("compute", held.compute), ("collective", held.collective), ("memory", held.memory)):
            assert sum(time for cell, time in row.items() if kind in str(cell).split("+")) == iv.total(one)
        assert row["busy_ps"] == row["window_ps"] - row["idle"] == iv.total(held.busy)
