"""What figures over time share: the axis, the phases as bands with their names, and the words for busy devices."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from tracekit import units
from tracekit.report.figures import labels, layout, sheet, time_axis
from tracekit.report.figures.selection import View
from tracekit.report.figures.sheet import Page
from tracekit.vocabulary.kinds import Kind

TIER_PX = 28


def ruled(made: Page, axes: Axes, view: View) -> None:
    """Draw the time below `axes`, whose x is ps since the start of the view."""
    width = axes.get_position().width * made.width
    ticks, symbol, zero = time_axis.axis(view.start_ps, view.start_ps + view.length_ps, max(round(width / 140), 2))
    words = f"time since {units.exact(zero)}" if zero else view.axis
    made.rule(axes, ticks, f"{words} ({symbol})")


def phases(view: View) -> list[tuple[str, int, int]]:
    """(name, start, end) of the phases in the view, in ps from its start; none on several clocks."""
    if not view.aligned:
        return []
    ((_, windows),) = view.seen.windows.items()
    return layout.inside(view.marks, windows, view.name.removeprefix("phase "))


def draw(
    made: Page,
    axes: Axes,
    phases: Sequence[tuple[str, int, int]],
    names: Sequence[layout.Name],
    high_px: float,
) -> None:
    """Every other phase lightly shaded, a separator at the ends of each one wide enough to see, and the names.

    The y of `axes` is px from its foot; the bands are `high_px` high, and the names stand above them.
    """
    pixel = axes.get_xlim()[1] / (axes.get_position().width * made.width)
    line: dict[str, Any] = {"color": made.colours["line"], "linewidth": 0.8, "zorder": 1, "clip_on": False}
    for i, (label, start, end) in enumerate(phases):
        shade = made.colours["band2" if i % 2 else "band"]
        axes.add_artist(sheet.filled(Rectangle((start, 0), end - start, high_px), shade, zorder=0, label=label))
    # Separators have a width of their own: many of them would be ink that stands for no time.
    wide = [phase for phase in phases if phase[2] - phase[1] > 12 * pixel]
    for x in sorted({edge for _, start, end in wide for edge in (start, end)}):
        axes.plot([x, x], [0, high_px], **line)
    for name in names:
        y = high_px + TIER_PX * (name.tier + 0.45)
        if name.leader is not None:
            axes.plot([name.leader * pixel] * 2, [high_px, y + TIER_PX / 3], **line)
        how: dict[str, Any] = {"va": "center", "color": made.colours["ink"], "parse_math": False}
        axes.text(name.x * pixel, y, name.text, fontsize=layout.NAME_SIZE, fontfamily=labels.FONT, **how)


def colours(theme: Mapping[str, str], bins: Sequence[Hashable]) -> dict[Hashable, str]:
    """The colour of each kind, and of each bin of the number of busy devices, the fewest first."""
    more = (theme["few"], theme["many"], theme["all"])
    # The most devices are always "all".
    return {kind: theme[kind] for kind in Kind} | dict(zip(bins, [theme["one"], *more[4 - len(bins) :]], strict=False))


def meaning(busy: tuple[int, int], devices: int) -> str:
    """The words for `busy` = from so many to so many busy devices."""
    low, high = busy
    if high == 1:
        return "1 device busy"
    if low == devices:
        return "both devices busy" if devices == 2 else f"all {devices} devices busy"
    return f"{low} busy" if low == high else f"{low}-{high} busy"
