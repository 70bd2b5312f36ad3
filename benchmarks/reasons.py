"""Are the reasons true that a report gives? `python benchmarks/reasons.py --jobs 100 --formats kineto nsys xspace`.

Random training jobs of the tests' simulator are written as traces, tracekit is asked of each, and its answers are held
against what the simulator knows: the share of each class on the critical path (the largest difference, in percentage
points of the path), the what-ifs (predicted less true ratio, in percentage points), and the causes of idle time (the
share with a wrong cause). `--world` records the jobs otherwise: each rank on a host with a clock of its own,
devices whose clocks are not the host's, or without one of the ranks. `--show SEED` prints truth and answer of one job.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.simulator.clocks import WORLDS, recorder
from tests.simulator.compare import Errors, compare
from tests.simulator.random_jobs import habits, random_job
from tests.simulator.truth import REMOVED, Truth
from tests.simulator.writers import FORMATS

# So many of the worst jobs are named.
WORST = 5


def errors_of(seed: int, trace_format: str, world: str) -> Errors:
    """What is wrong in tracekit's answers on the job of a seed."""
    truth = Truth(random_job(seed))
    with tempfile.TemporaryDirectory() as folder:
        try:
            recorded = recorder(world, seed, truth.job.ranks)
            return compare(truth, FORMATS[trace_format](truth, Path(folder) / "trace", recorded))
        except Exception as error:
            error.add_note(f"in the job of seed {seed} as {trace_format}")
            raise


def distribution(errors: Sequence[float]) -> dict[str, float | None]:
    """Median, 95th percentile and worst, null of nothing."""
    if not errors:
        return {"median": None, "p95": None, "worst": None}
    ordered = sorted(errors)
    p95 = ordered[min(int(0.95 * len(ordered)), len(ordered) - 1)]
    return {"median": statistics.median(ordered), "p95": p95, "worst": ordered[-1]}


def figures(jobs: dict[int, Errors]) -> dict[str, Any]:
    """What a format's jobs come to, ratios in 0..1."""
    worst = {
        "composition": {seed: job.composition for seed, job in jobs.items() if job.composition is not None},
        "what_if": {seed: max(map(abs, job.what_if.values())) for seed, job in jobs.items() if job.what_if},
        "idle": {seed: job.idle for seed, job in jobs.items() if job.idle is not None},
    }
    by_what: dict[str, list[float]] = {}
    wrong: Counter[str] = Counter()
    for job in jobs.values():
        for what, error in job.what_if.items():
            by_what.setdefault(what if what in REMOVED else "op", []).append(abs(error))
        wrong.update({f"{true}, told: {told}": ns for (true, told), ns in job.idle_wrong.items()})
    return {
        "jobs": len(jobs),
        "composition": distribution(list(worst["composition"].values())),
        "joined": distribution([job.joined for job in jobs.values() if job.joined is not None]),
        "claimed": distribution([job.claimed for job in jobs.values() if job.claimed is not None]),
        "as_one": distribution([job.as_one for job in jobs.values() if job.as_one is not None]),
        "worst_class": dict(Counter(job.of_class for job in jobs.values()).most_common()),
        "what_if": distribution([abs(error) for job in jobs.values() for error in job.what_if.values()]),
        "what_if_by": {what: distribution(errors) for what, errors in sorted(by_what.items())},
        "refused": sum(job.refused for job in jobs.values()) / max(sum(job.asked for job in jobs.values()), 1),
        "idle": distribution(list(worst["idle"].values())),
        "idle_wrong_ns": dict(wrong.most_common(WORST)),
        "steps_wrong": sum(not job.steps for job in jobs.values()) / max(len(jobs), 1),
        "clock_us": distribution([job.clock_ns / 1000 for job in jobs.values() if job.clock_ns is not None]),
        "wall": distribution([job.wall for job in jobs.values() if job.wall is not None]),
        "worst_seeds": {
            measure: sorted(errors, key=lambda seed: -errors[seed])[:WORST] for measure, errors in worst.items()
        },
    }


def print_figures(title: str, result: dict[str, Any]) -> None:
    """The table of some jobs."""
    print(f"\n{title}, {result['jobs']} jobs; percentage points".ljust(60) + "  median     p95   worst   worst jobs")
    lines = [
        ("path: difference of a class", result["composition"], "composition"),
        ("path: the same, all of the host as one class", result["joined"], ""),
        ("path: a class told too large", result["claimed"], ""),
        ("path: difference from one path through all steps", result["as_one"], ""),
        ("what-if", result["what_if"], "what_if"),
        *((f"what-if: {what}", values, "") for what, values in result["what_if_by"].items()),
        ("idle time with a wrong cause", result["idle"], "idle"),
        ("length of a step", result["wall"], ""),
    ]
    for name, values, measure in lines:
        numbers = [values[place] for place in ("median", "p95", "worst")]
        cells = "".join(f"{'-' if number is None else f'{100 * number:.2f}':>8}" for number in numbers)
        seeds = " ".join(map(str, result["worst_seeds"].get(measure, [])))
        print(f"  {name:57}{cells}   {seeds}".rstrip())
    print(f"  refused {result['refused']:.1%} of the what-ifs; steps wrong in {result['steps_wrong']:.1%} of the jobs")
    clocks = ", ".join(f"{name} {us:.3f}" for name, us in result["clock_us"].items() if us is not None)
    print(f"  devices' clocks are off by {clocks} us")
    print("  largest error of a path is in:", ", ".join(f"{name} {n}" for name, n in result["worst_class"].items()))
    print("  wrong idle time:", "; ".join(f"{name} {ns / 1e6:.2f} ms" for name, ns in result["idle_wrong_ns"].items()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100, help="how many jobs")
    parser.add_argument("--seed", type=int, default=0, help="the first job's seed; the others follow")
    parser.add_argument("--formats", nargs="+", choices=list(FORMATS), default=list(FORMATS))
    parser.add_argument("--world", choices=WORLDS, default=WORLDS[0], help="how the jobs are recorded")
    parser.add_argument("--workers", type=int, default=1, help="how many jobs at once")
    parser.add_argument("--show", type=int, metavar="SEED", help="print truth and answer of one job")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args(arguments)
    if options.show is not None:
        print(habits(options.show))
        for trace_format in options.formats:
            print(f"{trace_format}\n" + "\n".join(errors_of(options.show, trace_format, options.world).lines))
        return
    results = {}
    for trace_format in options.formats:
        seeds = range(options.seed, options.seed + options.jobs)
        if options.workers > 1:
            with ProcessPoolExecutor(options.workers) as pool:
                errors = list(pool.map(errors_of, seeds, repeat(trace_format), repeat(options.world)))
        else:
            errors = [errors_of(seed, trace_format, options.world) for seed in seeds]
        jobs = dict(zip(seeds, errors, strict=True))
        evident = {seed: job for seed, job in jobs.items() if habits(seed).has_evidence}
        results[trace_format] = {**figures(jobs), "with_evidence": figures(evident)}
        print_figures(trace_format, results[trace_format])
        print_figures(f"{trace_format}, with rows for all that the host does", results[trace_format]["with_evidence"])
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
