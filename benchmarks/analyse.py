"""What does the complete analysis of a trace cost? `python benchmarks/analyse.py --intervals 1000000`.

One run compares tracekit with its peers on two generated files: with XProf on an XSpace of four GPUs (make_xspace.py),
with HTA and TraceLens on a Kineto file (make_kineto.py). Rounds interleave them, each in a fresh process, with the file
in the page cache; medians count. Imports are not in the times, nor is what tracekit compiles once on a machine. HTA and
TraceLens want packages of their own: `--hta` and `--tracelens` name interpreters that have them.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analyse_peers import PEERS
from fresh import figures
from read_xspace import machine

# How many events of a generated file make one device interval: a kernel stands in an XSpace three times, and in a
# Kineto file beside five CPU ops, three calls and four flow events.
_EVENTS = {"xspace": 3.06, "kineto": 13}
_SMALLEST = 200
_TITLES = {"xspace": "XSpace", "kineto": "Kineto"}
_MEMORY = ("peak", "loaded", "growth")
_HERE = Path(__file__).parent


def run(name: str, path: Path, pythons: Mapping[str, str | None], numba_cache: Path) -> dict[str, Any]:
    """What `measure` gives in a process of its own, or why there is no figure."""
    package = name.partition(",")[0]
    python = pythons.get(package, sys.executable)
    if python is None:
        return {"skipped": f"no interpreter that has {package} was named (--{package.lower()})"}
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        # XProf writes caches beside what it reads.
        copy = Path(scratch, path.name)
        shutil.copyfile(path, copy)
        return figures([python, _HERE / "analyse_peers.py", name, copy], numba_cache)


def summarise(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of one peer's rounds; a round without figures stands for all."""
    for measurement in rounds:
        if "read_s" not in measurement:
            return measurement
    figures = [
        {
            "read_s": measurement["read_s"],
            "first_s": sum(measurement["first_s"].values()),
            "again_s": sum(measurement["again_s"].values()),
            "total_s": measurement["read_s"] + sum(measurement["first_s"].values()),
            **{key: measurement[key] for key in ("loaded", "growth", "peak", "intervals")},
        }
        for measurement in rounds
    ]
    return {
        "version": rounds[0]["version"],
        **_medians(figures),
        "asked": _medians([measurement["again_s"] for measurement in rounds]),
        "parts": _medians([measurement["parts"] for measurement in rounds]),
        "rounds": rounds,
    }


def _medians(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of each figure, None where a round has none."""
    columns: dict[str, list[Any]] = {key: [row.get(key) for row in figures] for key in figures[0]}
    return {key: None if None in column else statistics.median(column) for key, column in columns.items()}


def show(result: dict[str, Any]) -> None:
    """Print the machine, a table for each file, and what took how long."""
    where, peers = result["machine"], result["peers"]
    load = f"load {where['load']:.1f} before and {where['load_after']:.1f} after"
    print(f"{where['cpu']}, {where['cores']} cores, {load}, {where['system']}")
    print(", ".join(f"{name} {version}" for name, version in where["versions"].items()))
    print(f"medians of {result['rounds']} rounds; seconds and MB")
    for kind, size in result["bytes"].items():
        base = peers.get(f"tracekit, {_TITLES[kind]}", {})
        print(f"\n{_TITLES[kind]}, {size / 1e6:.1f} MB")
        print(
            f"{'':18}{'intervals':>10}{'read':>8}{'answer':>8}{'again':>8}{'total':>8}{'peak':>7}{'loaded':>7}"
            f"{'growth':>7}  slower: total, again"
        )
        for name, peer in peers.items():
            if PEERS[name][0] != kind:
                continue
            if "read_s" not in peer:
                print(f"{name:18}{peer.get('skipped') or peer.get('failed')}")
                continue
            seconds = "".join(f"{peer[key]:8.2f}" for key in ("read_s", "first_s", "again_s", "total_s"))
            memory = "".join(f"{'-' if peer[key] is None else round(peer[key] / 1e6):>7}" for key in _MEMORY)
            ratios = [f"{peer[key] / base[key]:.1f}" if base.get(key) else "-" for key in ("total_s", "again_s")]
            intervals = "-" if peer["intervals"] is None else f"{peer['intervals']:.0f}"
            print(f"{name:18}{intervals:>10}{seconds}{memory}  {', '.join(ratios)}")
    for name, peer in peers.items():
        if "read_s" in peer:
            parts = {**(peer["asked"] if len(peer["asked"]) > 1 else {}), **peer["parts"]}
            longest = [f"{part} {seconds:.3f}" for part, seconds in parts.items() if seconds >= 0.001]
            print(f"\n{name} ({peer['version']}): {PEERS[name][1].__doc__}\n  {', '.join(longest)}")


def main() -> int:
    """Generate, measure, print; 1 if tracekit itself gave no figures."""
    parser = argparse.ArgumentParser(description="Measure what the complete analysis of a trace costs.")
    parser.add_argument(
        "--intervals", type=int, default=1_000_000, help="device intervals in the XSpace (default: 1e6)"
    )
    parser.add_argument(
        "--kineto", type=int, default=100_000, help="device intervals in the Kineto file (default: 1e5)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which medians are taken (default: 3)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write everything measured to OUT")
    parser.add_argument("--only", metavar="TEXT", nargs="*", default=[""], help="only peers whose name contains a TEXT")
    parser.add_argument("--hta", metavar="PYTHON", help="an interpreter that has HolisticTraceAnalysis")
    parser.add_argument("--tracelens", metavar="PYTHON", help="an interpreter that has TraceLens")
    options = parser.parse_args()
    names = [name for name in PEERS if any(text.lower() in name.lower() for text in options.only)]
    if options.rounds < 1 or not names or min(options.intervals, options.kineto) < _SMALLEST:
        parser.error(f"--rounds must be at least 1, each file have {_SMALLEST} intervals, and --only leave a peer")
    where = machine()
    intervals = {"xspace": options.intervals, "kineto": options.kineto}
    pythons = {"HTA": options.hta, "TraceLens": options.tracelens}
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as scratch:
        files = {"xspace": Path(scratch, "host.xplane.pb"), "kineto": Path(scratch, "rank0.pt.trace.json")}
        files = {kind: path for kind, path in files.items() if any(PEERS[name][0] == kind for name in names)}
        for kind, path in files.items():
            # In a process of its own: what this one holds would count in its children's peak memory.
            events = str(round(intervals[kind] * _EVENTS[kind]))
            writer = [sys.executable, str(_HERE / f"make_{kind}.py"), "--events", events, "--out", str(path)]
            subprocess.run(writer, check=True, stdout=subprocess.DEVNULL)
        cache = Path(scratch, "numba")
        for name in names:
            if name.startswith("tracekit"):
                print(f"compiling: {name}", file=sys.stderr, flush=True)
                run(name, files[PEERS[name][0]], pythons, cache)
        for at in range(options.rounds):
            for name in names:
                print(f"round {at + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
                rounds[name].append(run(name, files[PEERS[name][0]], pythons, cache))
        sizes = {kind: path.stat().st_size for kind, path in files.items()}
    where["load_after"] = os.getloadavg()[0]
    peers = {name: summarise(measurements) for name, measurements in rounds.items()}
    result = {"machine": where, "bytes": sizes, "rounds": options.rounds, "peers": peers}
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
        print(f"Wrote {options.json}")
    return int(any("read_s" not in peer for name, peer in peers.items() if name.startswith("tracekit")))


if __name__ == "__main__":
    sys.exit(main())
