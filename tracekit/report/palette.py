"""The colours of every picture: what each kind of work, the ink and the paper look like on a light and a dark ground.

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
THEMES: Mapping[str, Mapping[str, str]] = {"light": LIGHT, "dark": DARK}
