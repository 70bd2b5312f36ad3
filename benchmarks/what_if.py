"""Is it right what the critical path says of a step without its collectives or copies? `python benchmarks/what_if.py`.

Out of sample: a program is captured with its all-reduce, and the length of its step without is predicted from that
trace alone; then the same program without it is captured, and the two are compared. The same with copies. Rounds
interleave the programs, each in a process of its own; the one without is captured twice, so that what two runs of one
program differ by stands beside the error of the prediction, and how much longer the same compute took without.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import tracekit
from tracekit.analysis.critical_path.critical_path import critical_path
from tracekit.analysis.steps import steps
from tracekit.cores import affinity
from tracekit.timeline.timeline import timeline_of

# What is taken away, the program with it and the one without.
PAIRS = (("collectives", "reduced", "alone"), ("copies", "copied", "resident"))
_PROGRAM = Path(__file__).with_name("what_if_program.py")
# One thread a device, or the products of one device would take turns with those of the other on every core.
_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"


def capture(program: str, more: list[str], out: Path) -> None:
    """Capture one program in a process of its own."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {_ONE_THREAD}".strip()
    process = subprocess.run(
        [sys.executable, "-m", "tracekit", "capture", "--out", out, _PROGRAM, program, *more],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    if process.returncode != 0:
        sys.exit(f"what_if.py: capturing {program} failed:\n{process.stderr}")


def measure(path: Path, what: str) -> dict[str, Any]:
    """The median step of a trace, and how long it would be without `what`, if the trace has any of it."""
    trace = tracekit.read(path)
    timeline = timeline_of(trace)
    paths = critical_path(timeline, steps(timeline).table)
    removals = paths.what_if[paths.what_if["what"] == what].to_dict("records")
    wall = paths.steps["wall_ps"].sum()
    compute = trace.events[trace.events["kind"] == "compute"]
    result: dict[str, Any] = {
        "step_ps": statistics.median(paths.steps["wall_ps"].tolist()),
        "compute_ps": int((compute["end_ps"] - compute["start_ps"]).sum()),
        "unexplained": float(paths.steps["unexplained_ps"].sum() / wall),
    }
    for removal in removals:
        # The change of all steps together, put on the median step; none where the report refuses it.
        result["refused"] = isinstance(removal["reason"], str)
        result["predicted_ps"] = None if result["refused"] else result["step_ps"] * removal["ratio"]
    return result


def one_round(
    scratch: Path, number: int, pairs: list[tuple[str, str, str]], more: list[str]
) -> dict[str, dict[str, Any]]:
    """Each pair once: predicted and measured lengths in seconds, and ratios."""
    figures = {}
    for what, with_it, without in pairs:
        measurements = {}
        for name, program in (("with", with_it), ("without", without), ("again", without)):
            path = scratch / f"{number}-{what}-{name}"
            capture(program, more, path)
            measurements[name] = measure(path, what)
        real, predicted_ps = measurements["without"]["step_ps"], measurements["with"]["predicted_ps"]
        figures[what] = {
            "with_s": measurements["with"]["step_ps"] / 1e12,
            "without_s": real / 1e12,
            "predicted_s": None if predicted_ps is None else predicted_ps / 1e12,
            "error": None if predicted_ps is None else predicted_ps / real - 1,
            "again": measurements["again"]["step_ps"] / real - 1,
            "compute": measurements["without"]["compute_ps"] / measurements["with"]["compute_ps"] - 1,
            "unexplained": measurements["with"]["unexplained"],
            "refused": float(measurements["with"]["refused"]),
        }
    return figures


def show(result: dict[str, Any]) -> None:
    """Print for each pair the medians over the rounds, and the range of what is a ratio."""
    print(f"{result['cores']} cores, load {result['load']:.1f}, {result['rounds']} rounds of {result['steps']} steps\n")
    for what, rounds in result["pairs"].items():

        def over(key: str, rounds: list[dict[str, Any]] = rounds) -> list[float]:
            return sorted(value for figures in rounds if (value := figures[key]) is not None)

        def ratio(key: str) -> str:
            values = over(key)
            if not values:
                return "refused"
            return f"{100 * statistics.median(values):+.1f} % ({100 * values[0]:+.1f} to {100 * values[-1]:+.1f})"

        keys = ("with_s", "predicted_s", "without_s")
        times = [f"{1000 * statistics.median(values):.1f} ms" if (values := over(key)) else "?" for key in keys]
        print(f"without {what}: a step of {times[0]} would take {times[1]}; it takes {times[2]}")
        print(f"  error of the prediction   {ratio('error')}")
        print(f"  the same program again    {ratio('again')}")
        print(f"  its compute took          {ratio('compute')}")
        print(f"  unexplained in the trace  {ratio('unexplained')}")
        print(f"  refused by the report in {int(sum(over('refused')))} of {len(rounds)} rounds\n")


def main() -> int:
    """Capture, predict, compare, print."""
    parser = argparse.ArgumentParser(description="Test what-if predictions on programs with and without a part.")
    parser.add_argument("--rounds", type=int, default=7, help="rounds, of which medians are taken (default: 7)")
    parser.add_argument("--steps", type=int, default=16, help="steps of each capture (default: 16)")
    parser.add_argument("--width", type=int, default=1024, help="of the layer (default: 1024)")
    parser.add_argument("--rows", type=int, default=128, help="of a batch (default: 128)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write everything measured to OUT")
    parser.add_argument("--only", choices=[what for what, _, _ in PAIRS], help="only this pair of programs")
    options = parser.parse_args()
    if min(options.rounds, options.steps, options.width, options.rows) < 1:
        parser.error("everything must be at least 1")
    more = [f"--steps={options.steps}", f"--width={options.width}", f"--rows={options.rows}"]
    pairs = [pair for pair in PAIRS if options.only in (None, pair[0])]
    with tempfile.TemporaryDirectory() as scratch:
        rounds = []
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            rounds.append(one_round(Path(scratch), number, pairs, more))
    result = {
        "cores": affinity(),
        "load": os.getloadavg()[0],
        "rounds": options.rounds,
        "steps": options.steps,
        "pairs": {what: [figures[what] for figures in rounds] for what, _, _ in pairs},
    }
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
        print(f"Wrote {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
