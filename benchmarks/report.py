"""What does `tracekit report` cost, and does a row cost the same in a large trace? `python benchmarks/report.py`.

Each report is one process, from the command to the last file, of a generated XSpace (make_xspace.py). Rounds go through
the sizes in turn, with the files in the page cache; what tracekit compiles once on a machine is in no figure. The cost
of a row is the processor's time beyond that of a trace of 500 events, most of which is starting Python; that of a
further row what is beyond the next smaller trace.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fresh import environment
from make_xspace import KINDS, SMALLEST
from read_xspace import generate, machine

from tracekit.jit import COMPILE_FROM_ROWS

# A kernel of the kind "four" stands in an XSpace three times: these are 3e3 to 3e6 device rows.
SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
_WARM_UP_EVENTS = 4 * COMPILE_FROM_ROWS


def measure(path: Path, out: Path, numba_cache: Path) -> dict[str, Any]:
    """Seconds of the clock and of the processor, and the peak memory of one `tracekit report` in a process of its own.

    Raises RuntimeError where it fails.
    """
    command = [sys.executable, "-m", "tracekit", "report", str(path), "--out", str(out)]
    with tempfile.TemporaryFile("w+") as errors:
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=environment(numba_cache),
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"tracekit report of {path.name} failed: {errors.read().strip()[-500:]}")
    peak = usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024
    return {"wall_s": wall_s, "cpu_s": usage.ru_utime + usage.ru_stime, "peak_bytes": peak}


def rows_of(out: Path) -> int:
    """The device rows of a report."""
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    return sum(kind["events"] for device in summary["devices"] for kind in device["kinds"].values())


def show(result: dict[str, Any]) -> None:
    """Print the machine, and a line for each size."""
    where, sizes = result["machine"], result["sizes"]
    load = f"load {where['load']:.1f} before and {where['load_after']:.1f} after"
    print(f"{where['cpu']}, {where['cores']} cores, {load}, {where['system']}")
    print(f"{KINDS[result['kind']].gpus} GPUs, medians of {result['rounds']} rounds\n")
    heads = f"{'events':>12}{'rows':>12}{'file MB':>9}{'wall s':>8}{'CPU s':>8}{'peak MB':>9}"
    print(f"{heads}{'us a row':>10}{'further':>9}")
    start_s = statistics.median(sizes[0]["cpu_s"])
    smaller_s, smaller = start_s, sizes[0]["rows"]
    for size in sizes:
        wall_s, cpu_s, peak = (statistics.median(size[key]) for key in ("wall_s", "cpu_s", "peak_bytes"))
        cost, further = "-", "-"
        if size is not sizes[0]:
            cost = f"{(cpu_s - start_s) / size['rows'] * 1e6:.2f}"
            further = f"{(cpu_s - smaller_s) / (size['rows'] - smaller) * 1e6:.2f}"
        smaller_s, smaller = cpu_s, size["rows"]
        print(
            f"{size['events']:12,}{size['rows']:12,}{size['bytes'] / 1e6:9.1f}{wall_s:8.2f}{cpu_s:8.2f}"
            f"{peak / 1e6:9.0f}{cost:>10}{further:>9}"
        )


def main() -> int:
    """Generate, report, print."""
    parser = argparse.ArgumentParser(description="Measure what `tracekit report` costs.")
    parser.add_argument("--events", type=int, nargs="+", default=SIZES, help="XEvents of each file")
    parser.add_argument("--kind", choices=KINDS, default="four", help="how many GPUs, and which lines (default: four)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which medians are taken (default: 3)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write everything measured to OUT")
    options = parser.parse_args()
    if options.rounds < 1 or min(options.events) < SMALLEST:
        parser.error(f"--rounds must be at least 1, and --events at least {SMALLEST}")
    where = machine()
    sizes: list[dict[str, Any]] = [
        {"events": events, "wall_s": [], "cpu_s": [], "peak_bytes": []}
        for events in sorted({SMALLEST, *options.events})
    ]
    with tempfile.TemporaryDirectory() as scratch:
        cache, out = Path(scratch, "numba"), Path(scratch, "out")
        if sizes[-1]["events"] > COMPILE_FROM_ROWS:
            warm_up = Path(scratch, "warm-up.xplane.pb")
            generate(warm_up, _WARM_UP_EVENTS, options.kind)
            print("compiling", file=sys.stderr, flush=True)
            measure(warm_up, out, cache)
        for size in sizes:
            path = Path(scratch, f"{size['events']}.xplane.pb")
            generate(path, size["events"], options.kind)
            size["bytes"] = path.stat().st_size
        for at in range(options.rounds):
            for size in sizes:
                print(f"round {at + 1} of {options.rounds}: {size['events']:,} events", file=sys.stderr, flush=True)
                for key, value in measure(Path(scratch, f"{size['events']}.xplane.pb"), out, cache).items():
                    size[key].append(value)
                size["rows"] = rows_of(out)
    where["load_after"] = os.getloadavg()[0]
    result = {"machine": where, "kind": options.kind, "rounds": options.rounds, "sizes": sizes}
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
        print(f"Wrote {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
