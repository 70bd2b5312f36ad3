"""How much each two devices were busy at the same time: cells to read, and above MOST_CELLS devices a picture."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from tracekit.report.html.markup import Markup, join, name, none, tag
from tracekit.report.model import Report, Stretch
from tracekit.units import percent, whole_percent

MOST_CELLS = 32
# Of more devices the cells hold whole percents.
_ROOMY = 12
RATIOS = {"ratio_min": "of the shorter busy time", "ratio_union": "of the time when either was busy"}


def matrices(report: Report) -> Markup:
    """A matrix of the pairs for the whole trace and one for each phase; nothing where there is one pair, or none."""
    if len(report.whole.pairs) < 2:
        return Markup("")
    parts = [tag("div", *_both(report.whole), class_="pairs")]
    for stretch in report.inside.values():
        inside = tag("div", *_both(stretch), class_="pairs")
        parts.append(tag("details", tag("summary", name(stretch.name)), inside, open=stretch.name in report.compared))
    return join(parts)


def is_read(report: Report) -> bool:
    """Whether the matrices have cells to read: of more devices they are pictures."""
    return 2 < len(report.whole.partition) <= MOST_CELLS


def _both(stretch: Stretch) -> list[Markup]:
    devices = list(stretch.partition["device"])
    draw = _matrix if len(devices) <= MOST_CELLS else _picture
    return [draw(stretch, ratio, devices) for ratio in RATIOS]


def _matrix(stretch: Stretch, ratio: str, devices: list[str]) -> Markup:
    values = _square(stretch, ratio, devices)
    reasons = dict(zip(zip(stretch.pairs["a"], stretch.pairs["b"], strict=True), stretch.pairs["reason"], strict=True))
    head = tag("tr", tag("td"), *(tag("th", name(device), scope="col") for device in devices))
    dense = len(devices) > _ROOMY
    rows = [
        tag(
            "tr",
            tag("th", name(a), scope="row"),
            *(
                _cell(values[i, j], i == j, reasons.get((a, b), reasons.get((b, a))), dense)
                for j, b in enumerate(devices)
            ),
        )
        for i, a in enumerate(devices)
    ]
    caption = f"Together, {RATIOS[ratio]} (%)"
    made = tag(
        "table",
        tag("caption", tag("span", caption)),
        tag("thead", head),
        tag("tbody", *rows),
        class_="matrix dense" if dense else "matrix",
    )
    return tag("div", made, class_="wide", tabindex=0, role="group", aria_label=f"{caption}, {stretch.name}")


def _cell(ratio: float, self: bool, reason: str | None, dense: bool) -> Markup:
    if self:
        return tag("td", class_="self")
    if np.isnan(ratio):
        return tag("td", none(reason), class_="unknown")
    exact = percent(ratio)
    shown = whole_percent(ratio) if dense else exact.removesuffix(" %")
    figure = tag("data", shown, value=repr(float(ratio)), title=exact if dense else None)
    return tag("td", figure, class_="heat", style=f"--dark:{ratio:.3f}")


def _square(stretch: Stretch, ratio: str, devices: list[str]) -> NDArray[np.float64]:
    """The ratios as a symmetric matrix, shape (n, n); NaN where there is none, and on the diagonal."""
    place = {device: at for at, device in enumerate(devices)}
    i, j = stretch.pairs["a"].map(place).to_numpy(), stretch.pairs["b"].map(place).to_numpy()
    values = np.full((len(devices), len(devices)), np.nan)
    values[i, j] = values[j, i] = stretch.pairs[ratio].to_numpy(np.float64, na_value=np.nan)
    return values


def _picture(stretch: Stretch, ratio: str, devices: list[str]) -> Markup:
    """The matrix as a picture with one pixel a cell, in the page's own colours: its alpha is the ratio.

    Where a ratio is not known, the hatched ground shows.
    """
    values = _square(stretch, ratio, devices)
    known = ~np.isnan(values)
    label = f"{len(devices)} by {len(devices)} devices: together, {RATIOS[ratio]}. The table has the extremes."
    drawn = [
        tag("div", class_="known", style=_mask(known.astype(np.float64))),
        tag("div", class_="cells", style=_mask(np.where(known, values, 0))),
    ]
    ends = tag("span", name(devices[0]), tag("span", name(devices[-1])), class_="ends", aria_hidden="true")
    told = "from none (paper) to all (full colour); hatched where it is not known"
    caption = tag("figcaption", f"Together, {RATIOS[ratio]}", tag("span", told, class_="small"))
    return tag(
        "figure", caption, ends, tag("div", *drawn, class_="ground", role="img", aria_label=label), class_="grid"
    )


def _mask(alpha: NDArray[np.float64]) -> str:
    url = f"url(data:image/png;base64,{base64.b64encode(_png(alpha)).decode()})"
    return f"-webkit-mask-image:{url};mask-image:{url}"


def _png(alpha: NDArray[np.float64]) -> bytes:
    """A grey PNG with `alpha` in 0..1, shape (n, n), as its opacity (https://www.w3.org/TR/png-3/)."""
    n = len(alpha)
    rows = np.zeros((n, 1 + 2 * n), np.uint8)
    rows[:, 2::2] = np.rint(255 * alpha)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", n, n, 8, 4, 0, 0, 0)
    packed = zlib.compress(rows.tobytes(), 6)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
