"""The colours of figures, page and terminal: each kind of work, ink and paper, on a light and on a dark ground.

Figures take them from THEMES, the page's styles and scripts as the custom properties that `properties` gives.

The hues of the kinds are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), their lightness set apart by at
least 15 of 100, so that they differ in grey print and to a colour-blind reader too.
"""

from collections.abc import Mapping

LIGHT: Mapping[str, str] = {
    "compute": "#005A94",
    "collective": "#F0AB1E",
    "memcpy": "#00A078",
    "memset": "#000000",
    "idle": "#E2E5E9",
    "ink": "#1A1A1A",
    "grey": "#606060",
    "line": "#A9B2BD",
    "paper": "#FFFFFF",
    "accent": "#0B63C5",
    # What lanes are shaded with, and every other phase.
    "track": "#000000",
    "band": "#EEF1F5",
    "band2": "#F9FAFB",
    # How many devices are busy at once: one, then more, then all.
    "one": "#BEBEBE",
    "few": "#D0A5C8",
    "many": "#A8659C",
    "all": "#7A2A6B",
}
DARK: Mapping[str, str] = {
    "compute": "#1F6CB0",
    "collective": "#F5BC45",
    "memcpy": "#14AE86",
    "memset": "#F6F6F6",
    "idle": "#30363E",
    "ink": "#E8EAED",
    "grey": "#A3ABB5",
    "line": "#56606B",
    "paper": "#14171B",
    "accent": "#6CB2F5",
    "track": "#FFFFFF",
    "band": "#1D2228",
    "band2": "#171B1F",
    "one": "#5C6269",
    "few": "#8F5C86",
    "many": "#BE80B2",
    "all": "#EDB4E0",
}
# A scale from little to much, alike on both grounds: viridis, whose lightness grows evenly, so that it reads in grey
# print and to a colour-blind reader too (https://bids.github.io/colormap/, public domain).
HEAT = (
    "#440154", "#482878", "#3E4A89", "#31688E", "#26828E", "#1F9E89", "#35B779", "#6DCD59", "#B4DE2C", "#FDE725",
)  # fmt: skip
THEMES: Mapping[str, Mapping[str, str]] = {"light": LIGHT, "dark": DARK}


def properties(theme: Mapping[str, str]) -> dict[str, str]:
    """The colours of a theme, and as `on-NAME` what text on each is written in, black or white."""
    return {**theme, **{f"on-{name}": readable_on(colour, "#000000", "#FFFFFF") for name, colour in theme.items()}}


def readable_on(ground: str, *inks: str) -> str:
    """Of `inks` the one that stands out most from `ground`; colours are written #RRGGBB."""
    return max(inks, key=lambda ink: _contrast(ink, ground))


def _contrast(a: str, b: str) -> float:
    """The contrast ratio of two colours, 1 to 21 (https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio)."""
    dark, light = sorted((_luminance(a), _luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    """How bright a colour is, in 0..1 (https://www.w3.org/TR/WCAG22/#dfn-relative-luminance)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
