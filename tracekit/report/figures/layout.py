"""Where things stand on a timeline, in pixels: its lanes from the foot up, and the names of its phases; no drawing."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import pandas as pd

from tracekit import intervals as iv
from tracekit.report.figures import labels
from tracekit.report.figures.coverage import Group, Layer, laid_out
from tracekit.vocabulary.kinds import Kind

# Few lanes are high, many are low; past MAX_LANES_PX they share what there is.
MIN_PITCH_PX, MAX_PITCH_PX, LANES_PX, MAX_LANES_PX = 40, 80, 480, 1260
TIERS, NAME_SIZE, MAX_NAME_PX = 3, 9.0, 330


@dataclass(frozen=True)
class Row:
    """One lane on the page: its foot and height in px, and what fills it, the first of `keys` lowest."""

    device: str
    label: str
    layers: list[Layer]
    keys: Sequence[Hashable]
    y: int
    height: int

    @property
    def middle(self) -> float:
        """Half way up."""
        return self.y + self.height / 2


@dataclass(frozen=True)
class Name:
    """A phase's name: its left edge in px, its tier above the lanes, and the x of the leader to its band, if any."""

    text: str
    x: float
    tier: int
    leader: float | None


def rows(groups: Sequence[Group], shared: Sequence[Layer], bins: Sequence[Hashable]) -> list[Row]:
    """The lanes from the top down, the one that devices share last; the last stands near the foot of the axes."""
    lanes = [(group.device, label, layers, tuple(Kind)) for group in groups for label, layers in group.lanes]
    wanted: list[tuple[str, str, Sequence[Layer], Sequence[Hashable]]] = [*lanes]
    if bins:
        wanted.append(("overlap", "devices at once", shared, tuple(reversed(bins))))
    pitch = min(max(LANES_PX // len(wanted), MIN_PITCH_PX), MAX_PITCH_PX, max(MAX_LANES_PX // len(wanted), 2))
    made: list[Row] = []
    y, below = pitch // 4, wanted[-1][0]
    for device, label, layers, keys in reversed(wanted):
        y += pitch // 3 if device != below else 0
        made.append(Row(device, label, list(layers), keys, y, max(pitch * 3 // 4, 1)))
        y, below = y + pitch, device
    return made[::-1]


def middles(rows: Sequence[Row]) -> list[tuple[float, str]]:
    """The (y, device) half way up the lanes of each device, from the top."""
    devices = dict.fromkeys(row.device for row in rows)
    heights = {device: [row.middle for row in rows if row.device == device] for device in devices}
    return [((found[0] + found[-1]) / 2, device) for device, found in heights.items()]


def spaced(marks: Sequence[tuple[float, str]], size: float) -> list[tuple[float, str]]:
    """As many of the (y, label), given from the top down, as stand apart at this font size."""
    made: list[tuple[float, str]] = []
    for y, label in marks:
        if not made or made[-1][0] - y >= size * labels.DPI / 72:
            made.append((y, label))
    return made


def inside(phases: pd.DataFrame, windows: iv.Intervals, name: str = "") -> list[tuple[str, int, int]]:
    """(name, start, end) of the phases with time in the merged `windows`, laid end to end from 0.

    Where several rounds of the phase `name` are laid end to end, each is told by its number.
    """
    made: list[tuple[str, int, int]] = []
    rounds = int((phases["name"] == name).sum())
    number = 0
    for word, first, last in zip(phases["name"], phases["start_ps"], phases["end_ps"], strict=True):
        label = labels.plain(word)
        if word == name and rounds > 1:
            number += 1
            label = f"round {number}"
        made += [(label, start, end) for start, end in laid_out(iv.intervals([first], [last]), windows).tolist()]
    return made


def names(bands: Sequence[tuple[str, float, float]], width: float) -> tuple[list[Name], int]:
    """Where the names of the bands (name, x0, x1 in px) go, and how many find no room.

    A name that fits its band stands over it, in tier 0. Any other becomes a flag in a higher tier, with a leader to its
    band, unless the same name stands elsewhere already. Flags are placed from the right, so that no leader crosses a
    name.
    """
    made: list[Name] = []
    taken: list[list[tuple[float, float]]] = [[] for _ in range(TIERS)]

    def free(tier: int, x0: float, x1: float) -> bool:
        return all(x1 <= a or b <= x0 for a, b in taken[tier])

    narrow: dict[str, float] = {}
    for text, x0, x1 in bands:
        x, size = (x0 + x1) / 2, _size(text)
        if size <= x1 - x0 and free(0, x - size / 2, x + size / 2):
            taken[0].append((x - size / 2, x + size / 2))
            made.append(Name(text, x - size / 2 + 4, 0, None))
        else:
            narrow.setdefault(text, x)
    placed = {name.text for name in made}
    flags = sorted(((x, text) for text, x in narrow.items() if text not in placed), reverse=True)
    missing = 0
    for x, text in flags:
        shown = labels.cut(text, MAX_NAME_PX, _size)
        size = _size(shown)
        left = x if x + size <= width else max(x - size, 0)
        for tier in range(1, TIERS):
            if free(tier, left, left + size) and all(free(lower, x - 4, x + 4) for lower in range(1, tier)):
                for lower in range(1, tier):
                    taken[lower].append((x - 4, x + 4))
                taken[tier].append((left, left + size))
                made.append(Name(shown, left + 4, tier, x))
                break
        else:
            missing += 1
    return made, missing


def _size(text: str) -> float:
    return labels.measure(text, NAME_SIZE) + 8
