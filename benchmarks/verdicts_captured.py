"""How often `tracekit compare` raises a false alarm, and how often it misses a slowdown, with real captures on CPU.

    python -m benchmarks.verdicts_captured [--captures 24] [--rounds 150] [--pairs 200] [--slower 1.1]

A program of two phases is captured again and again, each time in a new process, as it is and slowed down in its second
phase, in turn. Pairs with three captures a side are drawn at random from these: both sides from the program as it is,
of which a verdict is a false alarm; and one side from the slower one, of which anything but "slower" is a miss. Pairs
share captures, so their counts spread more than those of as many independent pairs. Each pair is judged three times:
by its walls alone, as `tracekit compare` does by itself, and with `--control first`.
"""

import argparse
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

import tracekit
from tracekit.comparison.scopes import scopes
from tracekit.comparison.verdict import verdict
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
for _ in range(int(sys.argv[2])):
    for name, times in (("first", 40), ("second", round(40 * float(sys.argv[1])))):
        with tracekit.phase(name):
            work(x, times).block_until_ready()
"""


def main() -> None:
    """Capture, then print a line for each phase."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", type=int, default=24, help="of each variant")
    parser.add_argument("--rounds", type=int, default=150, help="of both phases in a capture")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--slower", type=float, default=1.1)
    options = parser.parse_args()
    if options.captures < 2 * A_SIDE:
        parser.error(f"--captures must be at least {2 * A_SIDE}: both sides of a pair have {A_SIDE} of their own")
    with TemporaryDirectory() as directory:
        same, slower = captured(Path(directory), options)
    rng = random.Random(1)
    pairs = [rng.sample(same, 2 * A_SIDE) for _ in range(options.pairs)]
    slow = [rng.sample(slower, A_SIDE) for _ in pairs]
    for name in PHASES:
        spread = np.std([np.log(np.median(walls(report)[name])) for report in same], ddof=1)
        print(f"phase {name}: captures of one program differ by {spread:.1%} (standard deviation of medians)")
    for how, judge in JUDGES.items():
        alarms: Counter[str] = Counter()
        found: Counter[tuple[str, str]] = Counter()
        for drawn, changed in zip(pairs, slow, strict=True):
            for name, outcome in judge(drawn[:A_SIDE], drawn[A_SIDE:]).items():
                alarms[name] += outcome in ("faster", "slower")
            for name, outcome in judge(drawn[:A_SIDE], changed).items():
                found[name, outcome] += 1
        for name in PHASES:
            kinds = ", ".join(f"{said} {n / options.pairs:.1%}" for (of, said), n in found.items() if of == name)
            print(
                f"{how}, phase {name}: false alarms {alarms[name] / options.pairs:.1%} of {options.pairs} pairs; "
                f"against the program whose second phase is {options.slower - 1:.0%} slower: {kinds}"
            )


def captured(directory: Path, options: argparse.Namespace) -> tuple[list[Report], list[Report]]:
    """The reports of the captures of the program, and of it slowed down, captured in turn."""
    script = directory / "program.py"
    script.write_text(PROGRAM)
    reports: tuple[list[Report], list[Report]] = ([], [])
    for at in range(options.captures):
        for variant, factor in enumerate((1.0, options.slower)):
            out = directory / f"{variant}-{at}"
            command = [sys.executable, "-m", "tracekit", "capture", "--out", str(out), str(script)]
            subprocess.run([*command, str(factor), str(options.rounds)], check=True, capture_output=True)
            reports[variant].append(tracekit.analyse(out))
        print(f"\r{at + 1} of {options.captures} captures of each", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return reports


def walls(report: Report) -> dict[str, NDArray[np.int64]]:
    """The walls in ps of the rounds of each phase."""
    return {name: figures.walls_ps for (kind, name), figures in scopes(report).items() if kind == "phase"}


def by_walls(a: list[Report], b: list[Report]) -> dict[str, str]:
    """The outcome of each phase by its walls alone."""
    sides = [[walls(report) for report in side] for side in (a, b)]
    judged = {name: verdict(*([its[name] for its in side] for side in sides), tests=len(PHASES)) for name in PHASES}
    return {name: its.outcome.value for name, its in judged.items()}


def compared(a: list[Report], b: list[Report], control: str | None = None) -> dict[str, str]:
    """The outcome of each phase that `tracekit.compare` gives."""
    comparison = tracekit.compare(a, b, control=control)
    verdicts = {name: comparison.scope("phase", name).verdict for name in PHASES}
    return {name: its.outcome.value for name, its in verdicts.items() if its is not None}


JUDGES: dict[str, Callable[[list[Report], list[Report]], dict[str, str]]] = {
    "walls alone": by_walls,
    "compare": compared,
    "compare --control first": partial(compared, control="first"),
}


if __name__ == "__main__":
    main()
