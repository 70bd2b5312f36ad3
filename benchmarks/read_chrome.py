"""How fast is a large Kineto trace read, and in how much memory? `python benchmarks/read_chrome.py --events 1000000`.

One run measures tracekit and its peers on one generated file (make_kineto.py): rounds interleave them, each in a fresh
process, with the file in the page cache; medians count. Imports and a first call on a small file are not in the time.
HTA is measured where `--hta` names an interpreter that has it (HolisticTraceAnalysis wants versions of its own).
"""

import argparse
import importlib
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from fresh import figures
from read_peers import Peer, measure
from read_xspace import machine, summarise

# Every peer is compared with these two ways to read, A and B.
BASES = ("tracekit, columns", "tracekit, Trace")
_HTA = "HTA, TraceAnalysis"
_WARM_UP_EVENTS = 2_000
_PACKAGES = ("msgspec", "pyarrow", "orjson", "pysimdjson", "ijson")
_HERE = Path(__file__).parent


def tracekit_columns() -> Peer:
    """All events as columns: names, categories, ids, exact times; the args still as text."""
    from tracekit.readers import chrome

    return chrome.load, len


def tracekit_trace() -> Peer:
    """The whole way to a checked Trace, as `tracekit.read` goes; only its device rows are counted."""
    import tracekit

    return tracekit.read, lambda trace: len(trace.events)


def loads(library: str) -> Peer:
    """A JSON library that makes Python objects of the whole file, of which nothing is looked at yet."""
    module = importlib.import_module(library)
    decode = module.decode if library == "msgspec.json" else module.loads
    return lambda path: decode(path.read_bytes()), lambda document: len(document["traceEvents"])


def simdjson_parse() -> Peer:
    """simdjson's own index of the file; no Python object is made of any event."""
    parser = importlib.import_module("simdjson").Parser()
    return lambda path: parser.parse(path.read_bytes()), lambda document: len(document["traceEvents"])


def ijson_stream() -> Peer:
    """A streaming library: one event after the other, none of them kept, floats as floats."""
    items = importlib.import_module("ijson").items

    def read(path: Path) -> int:
        with path.open("rb") as file:
            return sum(1 for _ in items(file, "traceEvents.item", use_float=True))

    return read, lambda events: events


def hta() -> Peer:
    """What a user of HTA calls: its parse to a DataFrame, with the last step kept, times rounded to microseconds."""
    analysis = importlib.import_module("hta.trace_analysis").TraceAnalysis
    logging.disable()

    def read(path: Path) -> Any:
        return analysis(trace_files={0: str(path)}, trace_dir="", include_last_profiler_step=True)

    return read, lambda analysis: len(analysis.t.get_trace(0))


PEERS: dict[str, Callable[[], Peer]] = {
    "tracekit, columns": tracekit_columns,
    "tracekit, Trace": tracekit_trace,
    "simdjson, parse only": simdjson_parse,
    "msgspec, all objects": lambda: loads("msgspec.json"),
    "orjson, all objects": lambda: loads("orjson"),
    "json, all objects": lambda: loads("json"),
    "ijson, streamed": ijson_stream,
    _HTA: hta,
}


def measure_fresh(peer: str, warm_up: Path, path: Path, hta_python: str | None) -> dict[str, Any]:
    """What a process of its own measures for one peer, or why there is no figure."""
    if peer == _HTA and hta_python is None:
        return {"skipped": "no interpreter that has HTA was named (--hta)"}
    python = hta_python if peer == _HTA and hta_python else sys.executable
    return figures([python, Path(__file__), "--measure", peer, warm_up, path])


def show(result: dict[str, Any]) -> None:
    """Print the machine and the table."""
    where, peers = result["machine"], result["peers"]
    load = f"load {where['load']:.1f} before and {where['load_after']:.1f} after"
    print(f"{where['cpu']}, {where['cores']} cores, {load}, {where['system']}")
    print(", ".join(f"{name} {version}" for name, version in where["versions"].items()))
    print(f"{result['events']:,} events, {result['bytes'] / 1e6:.1f} MB, medians of {result['rounds']} rounds\n")
    print(f"{'':24}{'seconds':>9}{'events/s':>13}{'peak MB':>9}{'before':>8}{'rows':>11}  slower than A / B")
    for name, peer in peers.items():
        if "seconds" not in peer:
            print(f"{name:24}{peer.get('skipped') or peer.get('failed')}")
            continue
        ratios = [
            f"{peer['seconds'] / peers[base]['seconds']:.1f}" if "seconds" in peers.get(base, {}) else "-"
            for base in BASES
        ]
        print(
            f"{name:24}{peer['seconds']:9.3f}{peer['events_per_s']:13,.0f}{peer['peak_bytes'] / 1e6:9.0f}"
            f"{peer['before_bytes'] / 1e6:8.0f}{peer['events']:>11}  {' / '.join(ratios)}"
        )
    print("".join(f"\n{letter} = {base}" for letter, base in zip("AB", BASES, strict=True)))


def main() -> int:
    """Generate, measure, print; 1 if tracekit itself gave no figures."""
    parser = argparse.ArgumentParser(description="Measure how fast a Kineto trace is read.")
    parser.add_argument("--events", type=int, default=1_000_000, help="events in the file (default: 1000000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which medians are taken (default: 3)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write everything measured to OUT")
    parser.add_argument("--only", metavar="TEXT", nargs="*", default=[""], help="only peers whose name contains a TEXT")
    parser.add_argument("--hta", metavar="PYTHON", help="an interpreter that has HolisticTraceAnalysis")
    parser.add_argument("--measure", nargs=3, metavar=("PEER", "WARM_UP", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        peer, warm_up, path = options.measure
        print(json.dumps(measure(PEERS[peer], Path(warm_up), Path(path), collect=True)))
        return 0
    names = [name for name in PEERS if any(text.lower() in name.lower() for text in options.only)]
    if options.rounds < 1 or not names:
        parser.error("--rounds must be at least 1, and --only must leave a peer")
    where = machine()
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            where["versions"][package] = metadata.version(package)
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as scratch:
        path, warm_up = Path(scratch, "rank0.pt.trace.json"), Path(scratch, "warm-up.json")
        for target, events in ((path, options.events), (warm_up, min(options.events, _WARM_UP_EVENTS))):
            # In a process of its own: what this one holds would count in its children's peak memory.
            writer = [sys.executable, str(_HERE / "make_kineto.py"), "--events", str(events), "--out", str(target)]
            subprocess.run(writer, check=True, stdout=subprocess.DEVNULL)
        for at in range(options.rounds):
            for name in names:
                print(f"round {at + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
                rounds[name].append(measure_fresh(name, warm_up, path, options.hta))
        size = path.stat().st_size
    where["load_after"] = os.getloadavg()[0]
    peers = {name: summarise(measurements, options.events) for name, measurements in rounds.items()}
    result = {"machine": where, "events": options.events, "bytes": size, "rounds": options.rounds, "peers": peers}
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
        print(f"Wrote {options.json}")
    return int(any("seconds" not in peer for name, peer in peers.items() if name.startswith("tracekit")))


if __name__ == "__main__":
    sys.exit(main())
