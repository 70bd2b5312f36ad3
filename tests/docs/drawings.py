"""The drawings of the docs: those of intervals, whose figures tracekit computes, and one of the import contracts.

`python -m tests.docs.drawings` renews docs/images/*.svg.
"""

import tomllib
from collections.abc import Sequence
from html import escape

import pandas as pd

import tracekit
from tests.docs.blocks import ROOT
from tests.frames import events
from tracekit.report.palette import LIGHT

IMAGES = ROOT / "docs" / "images"
LEFT, RIGHT, STEP, BAR = 150, 20, 44, 24  # margins, distance of lanes and height of a bar, in pixels
WIDTH = 680
LAYER = 32  # height of a layer of modules

Bar = tuple[float, float, str, str]  # start, end, colour, label
Lane = tuple[str, Sequence[Bar]]


def _text(x: float, y: float, text: str, colour: str = LIGHT["ink"], size: int = 13, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}" font-size="{size}" text-anchor="{anchor}">{escape(text)}</text>'


def picture(title: str, lanes: Sequence[Lane], end: float, caption: Sequence[str], marks: Sequence[float] = ()) -> str:
    """Lay out lanes over a time axis from 0 to `end`; a light ground of its own, to be read on a dark page too."""
    scale = (WIDTH - LEFT - RIGHT) / end
    height = 44 + STEP * len(lanes) + 14 + 20 * len(caption)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="system-ui, sans-serif" role="img" aria-label="{escape(title)}">',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{LIGHT["paper"]}" stroke="{LIGHT["line"]}"/>',
        _text(16, 26, title, size=15),
    ]
    for at, (label, bars) in enumerate(lanes):
        top = 44 + STEP * at
        parts.append(_text(16, top + 17, label, LIGHT["grey"]))
        parts.append(
            f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{BAR}" fill="{LIGHT["idle"]}"/>'
        )
        for start, stop, colour, name in bars:
            x, width = LEFT + start * scale, (stop - start) * scale
            ink = LIGHT["ink"] if colour in ("collective", "few", "idle", "one") else LIGHT["paper"]
            parts.append(
                f'<rect x="{x:g}" y="{top}" width="{width:g}" height="{BAR}" fill="{LIGHT[colour]}" '
                f'stroke="{LIGHT["paper"]}" stroke-width="1"/>'
            )
            if name:
                parts.append(_text(x + width / 2, top + 17, name, ink, 12, "middle"))
    bottom = 44 + STEP * len(lanes) - STEP + BAR
    for mark in marks:
        x = LEFT + mark * scale
        parts.append(
            f'<line x1="{x:g}" y1="38" x2="{x:g}" y2="{bottom + 6}" stroke="{LIGHT["accent"]}" stroke-dasharray="4 3"/>'
        )
    for at, line in enumerate(caption):
        parts.append(_text(LEFT, bottom + 26 + 20 * at, line))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _only(frame: pd.DataFrame, **where: str) -> pd.Series:
    for column, value in where.items():
        frame = frame[frame[column] == value]
    (row,) = frame.to_dict("records")
    return pd.Series(row)


def half_open() -> str:
    """Two intervals that touch."""
    rows = events(("gpu:0", "compute", 0, 4), ("gpu:1", "compute", 4, 9))
    pair = tracekit.device_pairs(rows).iloc[0]
    return picture(
        "Half-open intervals: [0, 4) and [4, 9)",
        [("gpu:0", [(0, 4, "compute", "[0, 4)")]), ("gpu:1", [(4, 9, "compute", "[4, 9)")])],
        10,
        [f"They touch at 4 and share {pair.overlap_ps} ps: an end belongs to no interval."],
        [4],
    )


def union() -> str:
    """Rows that overlap on one device."""
    spans = [(0, 4), (2, 6), (7, 9)]
    rows = events(*(("gpu:0", "compute", start, end) for start, end in spans))
    busy = tracekit.partition(rows).busy_ps.iloc[0]
    return picture(
        "Union before measuring",
        [
            ("stream 1", [(0, 4, "compute", "4"), (7, 9, "compute", "2")]),
            ("stream 2", [(2, 6, "compute", "4")]),
            ("their union", [(0, 6, "all", "6"), (7, 9, "all", "2")]),
        ],
        10,
        [f"Durations sum to {sum(end - start for start, end in spans)}; the device was busy for {busy}."],
    )


def cells() -> str:
    """The partition of a window."""
    rows = events(
        ("gpu:0", "compute", 0, 5),
        ("gpu:0", "compute", 8, 11),
        ("gpu:0", "collective", 3, 9),
        ("gpu:0", "memcpy", 7, 10),
        ("gpu:0", "memcpy", 12, 14),
    )
    row = tracekit.partition(rows).iloc[0]
    names = [
        "idle",
        "compute",
        "collective",
        "memory",
        "compute+collective",
        "compute+memory",
        "collective+memory",
        "compute+collective+memory",
    ]
    short = {"compute": "C", "collective": "N", "memory": "M", "idle": "idle"}
    cell_bars = [
        (0, 3, "compute", "C"),
        (3, 5, "few", "C+N"),
        (5, 7, "collective", "N"),
        (7, 8, "few", "N+M"),
        (8, 9, "all", "all"),
        (9, 10, "few", "C+M"),
        (10, 11, "compute", "C"),
        (11, 12, "idle", "idle"),
        (12, 14, "memcpy", "M"),
    ]
    sums = ", ".join(f"{'+'.join(short[part] for part in name.split('+'))} {row[name]}" for name in names)
    return picture(
        "Eight cells: each moment of the window belongs to one",
        [
            ("compute (C)", [(0, 5, "compute", ""), (8, 11, "compute", "")]),
            ("collective (N)", [(3, 9, "collective", "")]),
            ("memory (M)", [(7, 10, "memcpy", ""), (12, 14, "memcpy", "")]),
            ("cells", cell_bars),
        ],
        14,
        [f"{sums}: together {row.window_ps},", "which is the window, exactly."],
    )


def hidden() -> str:
    """A collective, partly behind compute."""
    rows = events(("gpu:0", "compute", 0, 5), ("gpu:0", "compute", 7, 8), ("gpu:0", "collective", 3, 9))
    row = _only(tracekit.overlap(rows), what="collective")
    exposed = row.total_ps - row.hidden_ps
    return picture(
        "Hidden and exposed",
        [
            ("compute", [(0, 5, "compute", ""), (7, 8, "compute", "")]),
            ("all-reduce", [(3, 9, "collective", "")]),
            ("hidden", [(3, 5, "many", ""), (7, 8, "many", "")]),
            ("exposed", [(5, 7, "one", ""), (8, 9, "one", "")]),
        ],
        10,
        [f"{row.hidden_ps} of {row.total_ps} hidden: overlap ratio {row.ratio:.0%}. The exposed {exposed} cost time."],
    )


def wait() -> str:
    """One collective on two devices."""
    rows = events(
        ("gpu:0", "compute", 0, 2),
        ("gpu:0", "collective", 2, 8),
        ("gpu:1", "compute", 0, 5),
        ("gpu:1", "collective", 5, 8),
    )
    first, last = tracekit.partition(rows).collective.tolist()
    return picture(
        "Waiting and transfer",
        [
            ("gpu:0", [(0, 2, "compute", ""), (2, 5, "one", "waits 3"), (5, 8, "collective", "transfer 3")]),
            ("gpu:1 (last)", [(0, 5, "compute", ""), (5, 8, "collective", "transfer 3")]),
        ],
        10,
        [
            f"The all-reduce takes {first} on gpu:0 and {last} on gpu:1, but can only move data",
            f"when both have started: transfer {last}; the other {first - last} on gpu:0 is waiting.",
        ],
        [5],
    )


def critical_path() -> str:
    """The chain that determines a step."""
    return picture(
        "Critical path: the chain that determines the length of a step",
        [
            ("host", [(0, 1, "all", "launch")]),
            (
                "gpu:0",
                [(1, 3, "compute", ""), (3, 6, "one", "waits"), (6, 8, "collective", ""), (8, 9.5, "all", "update")],
            ),
            ("gpu:1", [(1, 6, "all", "compute"), (6, 8, "all", "all-reduce"), (8, 9, "compute", "update")]),
            (
                "the path",
                [(0, 1, "all", "host"), (1, 6, "all", "gpu:1"), (6, 8, "all", "transfer"), (8, 9.5, "all", "gpu:0")],
            ),
        ],
        10,
        [
            "No part of it is a wait: where gpu:0 waits, the path goes on with gpu:1,",
            "which arrived last. A faster gpu:0 shortens only its own part of the path.",
        ],
    )


def stretch() -> str:
    """Contention: the same overlap, nothing gained."""
    rows = events(("cpu:0", "compute", 0, 8), ("cpu:1", "compute", 0, 8))
    pair = tracekit.device_pairs(rows).iloc[0]
    return picture(
        "Overlap is no proof: two ways of running at once",
        [
            ("alone, cpu:0", [(0, 4, "compute", "4")]),
            ("alone, cpu:1", [(4, 8, "compute", "4")]),
            ("parallel, cpu:0", [(0, 4, "compute", "4: stretch 1")]),
            ("parallel, cpu:1", [(0, 4, "compute", "4: stretch 1")]),
            ("contention, cpu:0", [(0, 8, "all", "8: stretch 2")]),
            ("contention, cpu:1", [(0, 8, "all", "8: stretch 2")]),
        ],
        10,
        [
            f"Both pairs overlap {pair.ratio_min:.0%}. One after the other took 8:",
            "in parallel 4 (speedup 2), under contention 8 (speedup 1).",
        ],
    )


def architecture() -> str:
    """The layers of the package as the first import contract has them: a layer may import those below it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = [layer.split(" | ") for layer in contracts[0]["layers"] if layer != "__main__"]
    height = 74 + LAYER * len(layers)
    title = "What a module may import: only the layers below it"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="system-ui, sans-serif" role="img" aria-label="{escape(title)}">',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{LIGHT["paper"]}" stroke="{LIGHT["line"]}"/>',
        _text(16, 26, title, size=15),
    ]
    for at, names in enumerate(layers):
        top, width = 44 + LAYER * at, (WIDTH - 32 + 6) / len(names)
        for place, name in enumerate(names):
            package = (ROOT / "tracekit" / name).is_dir()
            colour, ink = ("compute", "paper") if package else ("idle", "ink")
            x = 16 + width * place
            parts.append(
                f'<rect x="{x:g}" y="{top}" width="{width - 6:g}" height="{LAYER - 6}" rx="4" fill="{LIGHT[colour]}"/>'
            )
            label = f"{name}/" if package else name
            parts.append(_text(x + (width - 6) / 2, top + 17, label, LIGHT[ink], 13, "middle"))
    parts.append(
        _text(16, height - 12, "Dark: a package. Light: a single module. Modules of one row do not import each other.")
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


DRAWINGS = {
    "architecture": architecture,
    "half-open": half_open,
    "union": union,
    "cells": cells,
    "hidden": hidden,
    "wait": wait,
    "critical-path": critical_path,
    "stretch": stretch,
}

if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        (IMAGES / f"{name}.svg").write_text(draw(), "utf-8")
