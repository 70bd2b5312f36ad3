"""A drawing, and its files: PNG, SVG with text as text, PDF with its fonts; whole or not at all, the same each time."""

import re
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from tracekit.errors import TracekitError
from tracekit.files import replaced
from tracekit.report.figures import labels

FORMATS = ("png", "svg", "pdf")
# What a user's own matplotlibrc must not change.
STYLE: dict[Any, Any] = {
    "text.usetex": False,
    "font.family": labels.FONT,
    "path.effects": [],
    "axes.formatter.useoffset": False,
    "axes.formatter.use_locale": False,
    "savefig.bbox": None,
    "savefig.facecolor": "auto",
    "svg.fonttype": "none",
    "svg.hashsalt": "tracekit",
    "svg.image_inline": True,
    "pdf.fonttype": 42,
    "pdf.compression": 9,
    "pdf.use14corefonts": False,
}
# No dates and no versions: the same figure gives the same bytes.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
# A PNG of a narrow page is as fine as that of a wide one.
_PNG_PX = 1800
_LONG = re.compile(rb"(\d\.\d{3})\d+")
# A box as matplotlib writes it, corner by corner.
_BOX = re.compile(rb"M (\S+) (\S+) \nL (\S+) \2 \nL \3 (\S+) \nL \1 \4 \nz")
# Where the font is not installed, the one next to it in width.
_FONT = f"'{labels.FONT}'".encode()


class Drawing(Figure):
    """A matplotlib Figure that shows itself in a notebook, without pyplot, and writes itself in the house style."""

    def save(self, path: str | Path) -> None:
        """Write the figure as the suffix of `path` says: .png, .svg or .pdf; whole or not at all."""
        path = Path(path)
        kind = path.suffix.lower().lstrip(".")
        if kind not in FORMATS:
            *others, last = [f".{suffix}" for suffix in FORMATS]
            suffixes = f"{', '.join(others)} or {last}"
            raise TracekitError(f"A figure cannot be written as {path.name}: name a file that ends in {suffixes}.")
        data = self.encoded(kind)
        replaced(path, lambda draft: draft.write_bytes(data))

    def encoded(self, kind: str) -> bytes:
        """The bytes of the figure as "png", "svg" or "pdf"."""
        file = BytesIO()
        width = round(self.get_size_inches()[0] * labels.DPI)
        finer = max(_PNG_PX // width, 1) if kind == "png" else 1
        with rc_context(STYLE):
            self.savefig(file, format=kind, dpi=self.dpi * finer, metadata=_METADATA[kind])
        return _smaller(file.getvalue()) if kind == "svg" else file.getvalue()

    def _repr_png_(self) -> bytes:
        return self.encoded("png")


def _smaller(svg: bytes) -> bytes:
    """The same picture to a thousandth of a point, with a font to fall back on."""
    head, *rest = re.split(rb"(?=<text)", svg)
    texts = [part.split(b"</text>", 1) for part in rest]
    # Only the drawing: a name may hold a number with many digits.
    shorter = [_style(text) + b"</text>" + _shorter(after[0]) if after else _shorter(text) for text, *after in texts]
    return b"".join([_shorter(head), *shorter])


def _shorter(paths: bytes) -> bytes:
    return _BOX.sub(rb"M\1 \2H\3V\4H\1z", _LONG.sub(rb"\1", paths))


def _style(text: bytes) -> bytes:
    start, end, words = text.partition(b">")
    return start.replace(_FONT, _FONT + b", Verdana, sans-serif") + end + words
