"""What a report of many hosts costs, and whether it names what is wrong with them: `python benchmarks/fleet.py`.

For each number of hosts, `make_fleet` writes a run with known faults (some hosts as XSpaces, the others as summaries,
on clocks that are up to 10 ms off and drift), and one process makes its report. Times are of that process, from its
start to its end; its peak is that of the process alone. With `--reduce` it has one process more for each core, which
read the files: their CPU time counts too, and the peak is that of the largest one. Rounds go through the sizes in turn.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import make_fleet
from fresh import environment
from make_fleet import GPUS, name_of
from read_xspace import machine

import tracekit


def measure(directory: Path, out: Path, is_reduced: bool) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and the peak in bytes of a report, of which rows are left out if it `is_reduced`."""
    begin = time.perf_counter()
    program = [sys.executable, "-m", "tracekit", "report", os.fspath(directory), "--out", os.fspath(out)]
    program += ["--reduce"] if is_reduced else []
    silent = os.open(os.devnull, os.O_WRONLY)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, silent, 1)]
        pid = os.posix_spawn(program[0], program, environment(), file_actions=actions)
        _, status, used = os.wait4(pid, 0)
    finally:
        os.close(silent)
    if status:
        sys.exit(f"the report of {directory} failed")
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def found(fleet: make_fleet.Fleet, out: Path) -> dict[str, bool]:
    """Which of the faults the report names, and whether it names a device that has none."""
    report = tracekit.load(out)
    if report.fleet is None:
        sys.exit("The run holds no more than 16 devices that can be read, which are no fleet: take more --hosts.")
    ranks = report.fleet.ranks
    blamed = {*ranks.loc[ranks["straggler"] | ranks["differs_in"].notna(), "device"]}
    slow = {f"{name_of(host)}/gpu:{gpu}" for host, gpu, _ in fleet.slow_gpus}
    late = {f"{name_of(host)}/gpu:{gpu}" for host, _ in fleet.late_hosts for gpu in range(GPUS)}
    # What the first line of the text says: the notes are behind it.
    missing = report.missing.in_one_line if report.missing else ""
    return {
        "slow GPUs": slow <= blamed,
        "late host": late <= blamed,
        "broken files": all(name_of(host) in missing for host in fleet.broken),
        "missing host": all(name_of(host) in missing for host in fleet.missing),
        "no other": blamed <= slow | late,
    }


def rounds_of(options: argparse.Namespace) -> list[dict[str, Any]]:
    """What is measured of each number of hosts: a figure a round, and which faults the reports of all rounds name."""
    with ExitStack() as stack:
        runs = []
        for hosts in options.hosts:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            fleet = make_fleet.with_faults(hosts, steps=options.steps, kernels=options.kernels)
            make_fleet.write(fleet, directory / "run", min(options.files, hosts))
            figures: dict[str, list[float]] = {"wall_s": [], "cpu_s": [], "peak_bytes": []}
            size = {"hosts": hosts, "devices": hosts * GPUS, "events": fleet.events, "named": {}, **figures}
            runs.append((directory, fleet, size))
        for _ in range(options.rounds):
            for directory, fleet, size in runs:
                measured = measure(directory / "run", directory / "report", options.reduce)
                for key, value in zip(("wall_s", "cpu_s", "peak_bytes"), measured, strict=True):
                    size[key].append(value)
                for what, is_named in found(fleet, directory / "report").items():
                    size["named"][what] = size["named"].get(what, True) and is_named
        return [size for _, _, size in runs]


def main() -> None:
    """Parse the options, measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure reports of many hosts.")
    parser.add_argument("--hosts", type=int, nargs="+", default=[64, 256, 1024], help="default: 64 256 1024")
    parser.add_argument("--files", type=int, default=64, help="so many hosts as XSpaces (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--kernels", type=int, default=12, help="of each GPU and step (default: %(default)s)")
    parser.add_argument("--reduce", action="store_true", help="leave out rows of compute as files are read")
    parser.add_argument("--rounds", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="also write the figures of each round to this file")
    options = parser.parse_args()
    sizes = rounds_of(options)
    print("| hosts | devices | events a host | wall s | CPU s | peak MB | named |\n|---|---|---|---|---|---|---|")
    for size in sizes:
        wall_s, cpu_s, peak = (statistics.median(size[key]) for key in ("wall_s", "cpu_s", "peak_bytes"))
        named = ", ".join(f"{what}: {'yes' if yes else 'NO'}" for what, yes in size["named"].items())
        counts = f"{size['hosts']:,} | {size['devices']:,} | {size['events']:,}"
        print(f"| {counts} | {wall_s:.1f} | {cpu_s:.1f} | {peak / 1e6:,.0f} | {named} |")
    if options.json:
        result = {"machine": machine(), "rounds": options.rounds, "sizes": sizes}
        options.json.write_text(json.dumps(result), "utf-8")


if __name__ == "__main__":
    main()
