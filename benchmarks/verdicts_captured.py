"""How often `tracekit compare` raises a false alarm, and how often it misses a slowdown, with real captures on CPU.

    python -m benchmarks.verdicts_captured [--captures 24] [--pairs 200] [--slower 1.1]

A program of two phases is captured again and again, each time in a new process, as it is and slowed down in its second
phase, in turn. Pairs with three captures a side are drawn at random from these: both sides from the program as it is,
of which a verdict is a false alarm; and one side from the slower one, of which anything but "slower" is a miss. Pairs
share captures, so their counts spread more than those of as many independent pairs.
"""

import argparse
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import tracekit
from tracekit.report.model import Report

A_SIDE = 3
PHASES = ("first", "second")
# The loop's count is a traced number, so that both variants are one compiled program.
PROGRAM = """
import sys
import jax, jax.numpy as jnp
import tracekit

@jax.jit
def work(x, times):
    return jax.lax.fori_loop(0, times, lambda _, y: jnp.tanh(y @ y * 0.01), x)

x = jnp.ones((256, 256)) * 0.1
work(x, 2).block_until_ready()
for _ in range(20):
    for name, times in (("first", 40), ("second", round(40 * float(sys.argv[1])))):
        with tracekit.phase(name):
            work(x, times).block_until_ready()
"""


def main() -> None:
    """Capture, then print a line for each phase."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", type=int, default=24, help="of each variant")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--slower", type=float, default=1.1)
    options = parser.parse_args()
    if options.captures < 2 * A_SIDE:
        parser.error(f"--captures must be at least {2 * A_SIDE}: both sides of a pair have {A_SIDE} of their own")
    with TemporaryDirectory() as directory:
        same, slower = captured(Path(directory), options.captures, options.slower)
    rng = random.Random(1)
    # Of each pair: both sides from one program, and one of them from the slower one.
    alarms: Counter[str] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    for _ in range(options.pairs):
        drawn = rng.sample(same, 2 * A_SIDE)
        for name, outcome in outcomes(drawn[:A_SIDE], drawn[A_SIDE:]).items():
            alarms[name] += outcome in ("faster", "slower")
        for name, outcome in outcomes(drawn[:A_SIDE], rng.sample(slower, A_SIDE)).items():
            found[name, outcome] += 1
    for name in PHASES:
        spread = np.std([np.log(wall(report, name)) for report in same], ddof=1)
        kinds = ", ".join(
            f"{outcome} {n / options.pairs:.1%}" for (phase, outcome), n in found.items() if phase == name
        )
        print(
            f"phase {name}: runs of one program differ by {spread:.1%} (standard deviation of {len(same)} medians); "
            f"false alarms {alarms[name] / options.pairs:.1%} of {options.pairs} pairs; "
            f"against the program whose second phase is {options.slower - 1:.0%} slower: {kinds}"
        )


def captured(directory: Path, number: int, slower: float) -> tuple[list[Report], list[Report]]:
    """The reports of so many captures of the program, and of it slowed down, captured in turn."""
    script = directory / "program.py"
    script.write_text(PROGRAM)
    reports: tuple[list[Report], list[Report]] = ([], [])
    for at in range(number):
        for variant, factor in enumerate((1.0, slower)):
            out = directory / f"{variant}-{at}"
            command = [sys.executable, "-m", "tracekit", "capture", "--out", str(out), str(script), str(factor)]
            subprocess.run(command, check=True, capture_output=True)
            reports[variant].append(tracekit.analyse(out))
        print(f"\r{at + 1} of {number} captures of each", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return reports


def outcomes(a: list[Report], b: list[Report]) -> dict[str, str]:
    """The outcome of the verdict on each phase."""
    scopes = tracekit.compare(a, b).scopes
    verdicts = {scope.name: scope.verdict for scope in scopes if scope.kind == "phase"}
    return {name: verdict.outcome.value for name in PHASES if (verdict := verdicts[name]) is not None}


def wall(report: Report, phase: str) -> float:
    """The median wall time of a phase in ps."""
    return report.measure("wall", phase=phase).value


if __name__ == "__main__":
    main()
