"""What does it cost to write a trace for other tools? `python benchmarks/export.py --intervals 1000000`.

One run compares tracekit's exports with named peers on one generated XSpace of four GPUs (make_xspace.py), each kind of
file with its own. Rounds interleave them, each in a fresh process, with the file in the page cache; medians count.
Reading is timed apart; imports and what tracekit compiles once on a machine are in no figure.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from export_peers import PEERS
from fresh import figures
from read_xspace import machine

# A kernel stands in an XSpace three times.
_EVENTS = 3.06
_SMALLEST = 200
_FIGURES = ("read_s", "write_s", "cpu_s", "growth", "bytes")
_HERE = Path(__file__).parent


def run(name: str, path: Path, numba_cache: Path) -> dict[str, Any]:
    """What a peer's figures are in a process of its own, or why there are none."""
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        # XProf writes caches beside what it reads.
        copy = Path(scratch, path.name)
        shutil.copyfile(path, copy)
        return figures([sys.executable, _HERE / "export_peers.py", name, copy, Path(scratch, "out")], numba_cache)


def summarise(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of one peer's rounds; a round without figures stands for all."""
    for measurement in rounds:
        if "write_s" not in measurement:
            return measurement
    columns = {key: [measurement[key] for measurement in rounds] for key in _FIGURES}
    medians = {key: None if None in values else statistics.median(values) for key, values in columns.items()}
    return {"version": rounds[0]["version"], **medians, "rounds": rounds}


def show(result: dict[str, Any]) -> None:
    """Print the machine, and a table for each kind of file; ratios are to tracekit's in the same table."""
    where, peers = result["machine"], result["peers"]
    load = f"load {where['load']:.1f} before and {where['load_after']:.1f} after"
    print(f"{where['cpu']}, {where['cores']} cores, {load}, {where['system']}")
    print(", ".join(f"{name} {version}" for name, version in where["versions"].items()))
    print(f"medians of {result['rounds']} rounds, XSpace of {result['bytes'] / 1e6:.1f} MB; seconds and MB")
    print(f"{'':38}{'read':>8}{'write':>8}{'CPU':>8}{'growth':>8}{'file':>8}  slower: write, CPU; larger")
    base: dict[str, Any] = {}
    for name, peer in peers.items():
        if name.startswith("tracekit"):
            base = peer
        if "write_s" not in peer:
            print(f"{name:38}{peer.get('skipped') or peer.get('failed')}")
            continue
        seconds = "".join(f"{peer[key]:8.2f}" for key in ("read_s", "write_s", "cpu_s"))
        growth = "-" if peer["growth"] is None else f"{peer['growth'] / 1e6:.0f}"
        ratios = [f"{peer[key] / base[key]:.1f}" if base.get(key) else "-" for key in ("write_s", "cpu_s", "bytes")]
        print(f"{name:38}{seconds}{growth:>8}{peer['bytes'] / 1e6:8.1f}  {ratios[0]}, {ratios[1]}; {ratios[2]}")
    for name, peer in peers.items():
        if description := PEERS[name].write.__doc__:
            print(f"{name} ({peer.get('version', 'not measured')}): {description}")


def main() -> int:
    """Generate, measure, print; 1 if tracekit itself gave no figures."""
    parser = argparse.ArgumentParser(description="Measure what it costs to write a trace for other tools.")
    parser.add_argument("--intervals", type=int, default=1_000_000, help="device intervals (default: 1e6)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which medians are taken (default: 3)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write everything measured to OUT")
    parser.add_argument("--only", metavar="TEXT", nargs="*", default=[""], help="only peers whose name contains a TEXT")
    options = parser.parse_args()
    names = [name for name in PEERS if any(text.lower() in name.lower() for text in options.only)]
    if options.rounds < 1 or not names or options.intervals < _SMALLEST:
        parser.error(f"--rounds must be at least 1, --intervals at least {_SMALLEST}, and --only must leave a peer")
    where = machine()
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as scratch:
        path, cache = Path(scratch, "host.xplane.pb"), Path(scratch, "numba")
        # In a process of its own: what this one holds would count in its children's peak memory.
        writer = [sys.executable, str(_HERE / "make_xspace.py"), "--out", str(path)]
        subprocess.run(
            [*writer, "--events", str(round(options.intervals * _EVENTS))], check=True, stdout=subprocess.DEVNULL
        )
        print("compiling", file=sys.stderr, flush=True)
        run("tracekit, Perfetto", path, cache)
        for at in range(options.rounds):
            for name in names:
                print(f"round {at + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
                rounds[name].append(run(name, path, cache))
        size = path.stat().st_size
    where["load_after"] = os.getloadavg()[0]
    peers = {name: summarise(measurements) for name, measurements in rounds.items()}
    result = {"machine": where, "bytes": size, "rounds": options.rounds, "peers": peers}
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
        print(f"Wrote {options.json}")
    return int(any("write_s" not in peer for name, peer in peers.items() if name.startswith("tracekit")))


if __name__ == "__main__":
    sys.exit(main())
