"""How fast is a large XSpace file read, and in how much memory? `python benchmarks/read_xspace.py --events 1000000`.

One run measures tracekit and its peers (read_peers.py) on one generated file of a --kind (make_xspace.py): rounds
interleave them, each in a fresh process, with the file in the page cache; medians count. Imports and first calls are
reported apart.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from fresh import figures
from make_xspace import KINDS
from read_peers import PEERS

from tracekit.cores import affinity

# Every peer is compared with these three ways to read, A, B and C.
BASES = ("tracekit, columns", "tracekit, columns with every stat", "tracekit, Trace")
GOALS = (
    ("ProfileData, every stat", 20),
    ("XProf, trace viewer JSON", 60),
)
# Of the Trace: peak memory to the size of a file of 5 million events, and by how much its first call may take longer.
_MEMORY_GOAL, _FIRST_GOAL_S = 2.2, 0.3
# Above the size at which tracekit compiles, so that the first call does what the measured call needs.
_WARM_UP_EVENTS = 120_000
_HERE = Path(__file__).parent
_PACKAGES = ("jax", "jaxlib", "numpy", "pandas", "numba", "protobuf", "xprof")


def machine() -> dict[str, Any]:
    """Where this runs: processor, usable cores, memory, load, versions."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = (line.partition(":") for line in cpuinfo.read_text(encoding="utf-8").splitlines())
        model = next((value.strip() for key, _, value in lines if key.strip() == "model name"), model)
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "cpu": model,
        "cores": affinity(),
        "load": os.getloadavg()[0],
        "system": platform.platform(),
        "versions": versions,
    }


def generate(path: Path, events: int, kind: str) -> None:
    """Write the file in a process of its own: what this process holds would count in its children's peak memory."""
    subprocess.run(
        [sys.executable, _HERE / "make_xspace.py", "--events", str(events), "--kind", kind, "--out", path],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def measure(peer: str, warm_up: Path, path: Path, numba_cache: Path) -> dict[str, Any]:
    """What `read_peers.py` prints for one peer, or why there is no figure."""
    return figures([sys.executable, _HERE / "read_peers.py", peer, warm_up, path], numba_cache)


def summarise(rounds: list[dict[str, Any]], events: int) -> dict[str, Any]:
    """Medians of one peer's rounds; a round without figures stands for all."""
    for measurement in rounds:
        if "seconds" not in measurement:
            return measurement
    seconds = statistics.median(measurement["seconds"] for measurement in rounds)
    return {
        "seconds": seconds,
        "events_per_s": events / seconds,
        "peak_bytes": statistics.median(measurement["peak_bytes"] for measurement in rounds),
        "before_bytes": statistics.median(measurement["before_bytes"] for measurement in rounds),
        "events": rounds[0]["events"],
        "rounds_s": [measurement["seconds"] for measurement in rounds],
        "first_calls_s": [measurement["first_seconds"] for measurement in rounds],
        "second_calls_s": [measurement["again_seconds"] for measurement in rounds],
    }


def goals(peers: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Whether each goal is reached, from each base that has figures."""
    return [
        {"base": base, "peer": peer, "goal": goal, "ratio": ratio, "reached": ratio >= goal}
        for peer, goal in GOALS
        for base in BASES
        if "seconds" in peers.get(peer, {}) and "seconds" in peers.get(base, {})
        for ratio in [peers[peer]["seconds"] / peers[base]["seconds"]]
    ]


def show(result: dict[str, Any]) -> None:
    """Print the machine, the table, the first calls of tracekit, and the goals."""
    where, peers = result["machine"], result["peers"]
    load = f"load {where['load']:.1f} before and {where['load_after']:.1f} after"
    print(f"{where['cpu']}, {where['cores']} cores, {load}, {where['system']}")
    print(", ".join(f"{name} {version}" for name, version in where["versions"].items()))
    size = f"{KINDS[result['kind']].gpus} GPUs, {result['events']:,} events, {result['bytes'] / 1e6:.1f} MB"
    print(f"{size}, medians of {result['rounds']} rounds\n")
    print(
        f"{'':34}{'seconds':>9}{'events/s':>13}{'peak MB':>9}{'before':>8}{'events':>11}  slower than "
        + " / ".join("ABC")
    )
    for name, peer in peers.items():
        if "seconds" not in peer:
            print(f"{name:34}{peer.get('skipped') or peer.get('failed')}")
            continue
        ratios = [
            peer["seconds"] / peers[base]["seconds"] if "seconds" in peers.get(base, {}) else None for base in BASES
        ]
        print(
            f"{name:34}{peer['seconds']:9.3f}{peer['events_per_s']:13,.0f}{peer['peak_bytes'] / 1e6:9.0f}"
            f"{peer['before_bytes'] / 1e6:8.0f}{peer['events'] if peer['events'] >= 0 else '?':>11}  "
            + " / ".join("-" if ratio is None else f"{ratio:.1f}" for ratio in ratios)
        )
    print("".join(f"\n{letter} = {base}" for letter, base in zip("ABC", BASES, strict=True)))
    if "seconds" in peers.get(BASES[0], {}):
        first, *later = peers[BASES[0]]["first_calls_s"]
        then = f", {statistics.median(later):.2f} s in a later process" if later else ""
        print(f"\nA's first call, on another file, with its code still to be compiled: {first:.2f} s{then}")
    if "seconds" in (trace := peers.get(BASES[2], {})):
        calls = zip(trace["first_calls_s"][1:], trace["second_calls_s"][1:], strict=True)
        if more := [first - second for first, second in calls]:
            print(f"C's first call in a process takes {statistics.median(more):.2f} s more, goal {_FIRST_GOAL_S} s")
        ratio = trace["peak_bytes"] / result["bytes"]
        print(f"C's peak memory is {ratio:.2f} times the file's size, goal {_MEMORY_GOAL} at 5 million events")
    print()
    letters = dict(zip(BASES, "ABC", strict=True))
    for peer, goal in GOALS:
        outcomes = [
            f"{letters[goal['base']]} {goal['ratio']:.1f}x {'reached' if goal['reached'] else 'MISSED'}"
            for goal in result["goals"]
            if goal["peer"] == peer
        ]
        if outcomes:
            print(f"{peer}, goal {goal}x: {', '.join(outcomes)}")


def main() -> int:
    """Generate, measure, print; 1 if tracekit itself gave no figures."""
    parser = argparse.ArgumentParser(description="Measure how fast an XSpace file is read.")
    parser.add_argument(
        "--events", type=int, default=1_000_000, help="XEvents in the generated file (default: 1000000)"
    )
    parser.add_argument("--kind", choices=KINDS, default="four", help="how many GPUs, and which lines (default: four)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which medians are taken (default: 3)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write everything measured to OUT")
    parser.add_argument("--only", metavar="TEXT", nargs="*", default=[""], help="only peers whose name contains a TEXT")
    options = parser.parse_args()
    names = [name for name in PEERS if any(text.lower() in name.lower() for text in options.only)]
    if options.rounds < 1 or not names:
        parser.error("--rounds must be at least 1, and --only must leave a peer")
    where = machine()
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as scratch:
        path, warm_up = Path(scratch, "measured.xplane.pb"), Path(scratch, "warm-up.xplane.pb")
        generate(path, options.events, options.kind)
        generate(warm_up, min(options.events, _WARM_UP_EVENTS), options.kind)
        for at in range(options.rounds):
            for name in names:
                print(f"round {at + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
                rounds[name].append(measure(name, warm_up, path, Path(scratch, "numba")))
        size = path.stat().st_size
    where["load_after"] = os.getloadavg()[0]
    peers = {name: summarise(measurements, options.events) for name, measurements in rounds.items()}
    result = {
        "machine": where,
        "kind": options.kind,
        "events": options.events,
        "bytes": size,
        "rounds": options.rounds,
        "peers": peers,
    }
    result["goals"] = goals(peers)
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
        print(f"Wrote {options.json}")
    return int(any("seconds" not in peer for name, peer in peers.items() if name.startswith("tracekit")))


if __name__ == "__main__":
    sys.exit(main())
