"""How often `tracekit compare` raises a false alarm, and how often it misses a slowdown, with simulated step times.

    python -m benchmarks.verdicts [--pairs 200] [--captures 3] [--slower 1.1]

Each line is one kind of noise (tests/comparison/noise.py): pairs of one program, of which a verdict is a false alarm;
and pairs in which every step of B takes `--slower` as long, of which anything but "slower" is a miss. One more line has
the captures of both sides in order of time while the machine drifts: that is what captures that alternate avoid. The
last ones have stalls in B, by chance so many a capture, which lengthen its mean step and not the median.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from tests.comparison.noise import Noise, captures
from tracekit.comparison.verdict import Change, verdict

KINDS = {
    "quiet: runs differ by 0.5 %": Noise(between=0.005, within=0.01, outliers=0.0),
    "usual: runs differ by 1 %": Noise(between=0.01),
    "noisy: runs differ by 1.5 %": Noise(between=0.015, within=0.05, outliers=0.1),
    "very noisy: runs differ by 3 %": Noise(between=0.03, within=0.05, outliers=0.1),
    "wild: a few runs differ by far more": Noise(between=0.01, tail=3),
    "steps resemble the last (0.9)": Noise(between=0.01, follows=0.9),
    "every 4th step takes five times as long": Noise(between=0.01, period=4),
    "0.3 stalls a capture, of ten steps each": Noise(between=0.01, stalls=0.3),
    "0.7 stalls a capture, of ten steps each": Noise(between=0.01, stalls=0.7),
    "3 stalls a capture, of ten steps each": Noise(between=0.01, stalls=3),
}
# What a change may bring: stalls that captures of A do not have, or hardly.
STALLING = {"stalls": Noise(between=0.01, stalls=3), "stall": Noise(between=0.01, stalls=1)}


def main() -> None:
    """Print a line for each kind of noise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--captures", type=int, default=3)
    parser.add_argument("--slower", type=float, default=1.1)
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write everything measured to OUT")
    options = parser.parse_args()
    number = options.captures
    print(f"{'noise':<42} false alarms   misses")
    shares = {}
    for name, noise in KINDS.items():
        rng = np.random.default_rng(1)
        pairs = [(captures(rng, number, noise), captures(rng, number, noise)) for _ in range(options.pairs)]
        slow = [captures(rng, number, noise, slower=options.slower) for _ in range(options.pairs)]
        alarms = [verdict(a, b).outcome in (Change.FASTER, Change.SLOWER) for a, b in pairs]
        misses = [verdict(a, b).outcome != Change.SLOWER for (a, _), b in zip(pairs, slow, strict=True)]
        shares[name] = {"alarms": float(np.mean(alarms)), "misses": float(np.mean(misses))}
        print(f"{name:<42} {np.mean(alarms):>11.1%} {np.mean(misses):>8.1%}", flush=True)
    rng, drift = np.random.default_rng(1), np.linspace(1, 1.03, 2 * number)
    by_order = []
    for _ in range(options.pairs):
        runs = captures(rng, 2 * number, Noise(between=0.005))
        drifted = [np.round(walls * by).astype(np.int64) for walls, by in zip(runs, drift, strict=True)]
        blocks, alternating = (drifted[:number], drifted[number:]), (drifted[::2], drifted[1::2])
        by_order.append([verdict(*its).outcome in (Change.FASTER, Change.SLOWER) for its in (blocks, alternating)])
    one, other = np.mean(by_order, axis=0)
    print(f"machine drifts by 3 %: A before B {one:.1%} false alarms, alternating {other:.1%}")
    found = {}
    for name, noise in STALLING.items():
        rng = np.random.default_rng(1)
        pairs = [(captures(rng, number, Noise()), captures(rng, number, noise)) for _ in range(options.pairs)]
        found[name] = float(np.mean([verdict(*pair).outcome == Change.SLOWER for pair in pairs]))
        print(f"B has {noise.stalls} stalls a capture by chance, of ten steps each: {found[name]:.1%} found")
    if options.json:
        asked = {"pairs": options.pairs, "captures": number, "slower": options.slower}
        result = {**asked, "noise": shares, "blocks": float(one), "alternating": float(other), **found}
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
