"""Run every benchmark, and write the tables that docs and README quote: `make bench`, or `python benchmarks/bench.py`.

Each (suite.py) runs in processes of its own, as its script alone would. What it measured goes to benchmarks/results,
and from there into the pages, between `<!-- bench NAME -->` and `<!-- /bench -->`. `--quick` runs all at small sizes,
to see that they run: its figures are printed, and nothing is written. `--tables` writes the pages from what was
measured.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import result_files
from read_xspace import machine
from suite import BENCHMARKS, Benchmark

_HERE = Path(__file__).parent
ROOT = _HERE.parent
PAGES = (
    ROOT / "docs" / "benchmarks.md",
    ROOT / "docs" / "fleet.md",
    ROOT / "docs" / "howto" / "compare-runs.md",
    ROOT / "README.md",
)
_BLOCK = re.compile(r"(<!-- bench (\w+) -->\n).*?(<!-- /bench -->)", re.DOTALL)
_PEERS = ("hta", "tracelens")


def headline(directory: Path = result_files.RESULTS) -> str:
    """What the README says of the speed of reading, in one sentence."""
    found = result_files.read("read_xspace", directory)
    ours = found and found.median("tracekit, Trace", "seconds")
    if not found or not ours:
        return "How fast it reads has not been measured."
    times = found.ratios("ProfileData, every stat", "tracekit, Trace", "seconds")
    peer = f", where `jax.profiler.ProfileData` takes {statistics.median(times):.0f} times as long" if times else ""
    return (
        f"An XSpace of {found.last.facts['events']:,.0f} events is read in {ours:.2f} s{peer}\n"
        "([measured](docs/benchmarks.md))."
    )


def tables(directory: Path = result_files.RESULTS) -> dict[str, str]:
    """What stands in each block, by name: the table of each benchmark, and the README's sentence."""
    blocks = {"headline": headline(directory)}
    for benchmark in BENCHMARKS:
        found = result_files.read(benchmark.name, directory)
        blocks[benchmark.name] = benchmark.table(found) if found else "Not measured yet."
    return blocks


def filled(page: str, blocks: Mapping[str, str]) -> str:
    """A page with its blocks filled anew."""
    return _BLOCK.sub(lambda match: f"{match[1]}\n{blocks[match[2]]}\n\n{match[3]}", page)


def write_tables() -> None:
    """Write the blocks of all pages."""
    blocks = tables()
    for path in PAGES:
        before = path.read_text("utf-8")
        after = filled(before, blocks)
        if after != before:
            path.write_text(after, "utf-8")
            print(f"Wrote {path.relative_to(ROOT)}")


def words(where: Mapping[str, Any], load_after: float) -> str:
    """The machine in words: processor, cores, load, versions."""
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    return f"{where['cpu']}, {where['cores']} cores, load {where['load']:.1f} to {load_after:.1f}, {versions}"


def rounds_of(command: str) -> int:
    """The rounds that a command asks for; 1 of a script that has none."""
    found = re.search(r"--rounds (\d+)", command)
    return int(found[1]) if found else 1


def run(
    benchmark: Benchmark, commands: Sequence[str], peers: Mapping[str, str], before: result_files.Results | None = None
) -> result_files.Results:
    """What the commands of a benchmark measure, with what was measured `before` of rows that they skip.

    Raises RuntimeError with the last line of a script that fails.
    """
    where = machine()
    measured = []
    more = [part for peer in benchmark.peers if peer in peers for part in (f"--{peer}", peers[peer])]
    for command in commands:
        script, *options = shlex.split(command)
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch, "result.json")
            paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
            process = subprocess.run(
                [sys.executable, _HERE / script, *options, *more, "--json", out],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                env={**os.environ, "PYTHONPATH": paths},
            )
            if not out.exists():
                last = process.stderr.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
                raise RuntimeError(f"{command}: {last[0]}")
            measured.append(json.loads(out.read_text("utf-8")))
            where["versions"] |= measured[-1].get("machine", {}).get("versions", {})
    now = f"{datetime.now(UTC):%Y-%m-%d}"
    description = words(where, os.getloadavg()[0])
    its = result_files.Run(now, description, rounds_of(commands[0]), benchmark.facts(measured))
    return result_files.merged(before, its, benchmark.rows(measured))


def main() -> int:
    """Run, print, write; 1 if a benchmark failed."""
    parser = argparse.ArgumentParser(description="Run the benchmarks, and write the tables of docs and README.")
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"only these: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="at small sizes, and write nothing")
    parser.add_argument("--tables", action="store_true", help="run nothing: write the tables of what was measured")
    for peer in _PEERS:
        parser.add_argument(f"--{peer}", metavar="PYTHON", help=f"an interpreter that has {peer}")
    options = parser.parse_args()
    peers = {peer: path for peer in _PEERS if (path := getattr(options, peer))}
    failed = []
    for benchmark in [] if options.tables else BENCHMARKS:
        if options.only and benchmark.name not in options.only:
            continue
        commands = benchmark.quick if options.quick else benchmark.commands
        print(f"\n{benchmark.name}: {benchmark.question}", *commands, sep="\n  ", flush=True)
        try:
            found = run(benchmark, commands, peers, None if options.quick else result_files.read(benchmark.name))
        except RuntimeError as error:
            failed.append(benchmark.name)
            print(f"Failed: {error}", file=sys.stderr)
            continue
        print(f"\n{benchmark.table(found)}", flush=True)
        if not options.quick:
            print(f"Wrote {result_files.write(benchmark.name, found).relative_to(ROOT)}")
    if not options.quick:
        write_tables()
    if failed:
        print(f"Failed: {', '.join(failed)}; what was measured of them before stays.", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
