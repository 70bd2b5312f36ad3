"""How much each two devices were busy at the same time: cells to read, and above MOST_CELLS devices a picture."""

import base64
import struct
import zlib
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.report.html.markup import Markup, join, name, none, picoseconds, share, tag
from tracekit.report.html.tables import table
from tracekit.report.model import Report, Stretch
from tracekit.units import percent, whole_percent

MOST_CELLS = 32
# Of more devices the cells hold whole percents.
_ROOMY = 12
RATIOS = {"ratio_min": "of the shorter one's busy time", "ratio_union": "of the time either was busy"}


def matrices(report: Report) -> Markup:
    """The pairs of the whole trace and of each phase: one table of pairs for two devices, else a matrix for each."""
    stretches = [report.whole, *report.inside.values()]
    if not len(report.whole.pairs):
        return tag("p", "There is one device, so there is no pair.")
    why = sorted({str(one) for one in report.whole.pairs["reason"].dropna()})
    reasons = tag("p", f"Not known for some pairs: {'; '.join(why[:3])}.", class_="about") if why else None
    if len(report.whole.pairs) == 1:
        rows = [_pair(one) for one in stretches]
        row = report.whole.pairs.iloc[0]
        title = join(["Both busy: ", name(row["a"]), " and ", name(row["b"])])
        return join([table(title, ["in", "together", *RATIOS.values()], rows, shown=24), reasons])
    parts = [reasons, tag("div", *_both(report.whole), class_="pairs")]
    for one in report.inside.values():
        inside = tag("div", *_both(one), class_="pairs")
        parts.append(tag("details", tag("summary", name(one.name)), inside, open=one.name in report.compared))
    return join(parts)


def _pair(one: Stretch) -> list[Markup]:
    row = one.pairs.iloc[0]
    return [
        name(one.name),
        picoseconds(row["overlap_ps"], row["reason"]),
        *(heat(row[ratio], row["reason"]) for ratio in RATIOS),
    ]


def heat(ratio: Any, reason: Any = None) -> Markup:
    """A ratio on a ground the darker the larger it is."""
    if pd.isna(ratio):
        return none(reason)
    return tag("span", share(ratio), class_="heat", style=f"--dark:{ratio:.3f}")


def _both(one: Stretch) -> list[Markup]:
    devices = list(one.partition["device"])
    if len(devices) <= MOST_CELLS:
        return [_matrix(one, ratio, devices) for ratio in RATIOS]
    pictures = [_picture(one, ratio, devices) for ratio in RATIOS]
    return [*pictures, _extremes(one)]


def _matrix(one: Stretch, ratio: str, devices: list[str]) -> Markup:
    values = _square(one, ratio, devices)
    reasons = dict(zip(zip(one.pairs["a"], one.pairs["b"], strict=True), one.pairs["reason"], strict=True))
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
    return tag("div", made, class_="wide", tabindex=0, role="group", aria_label=f"{caption}, {one.name}")


def _cell(ratio: float, self: bool, reason: str | None, dense: bool) -> Markup:
    if self:
        return tag("td", class_="self")
    if np.isnan(ratio):
        return tag("td", none(reason), class_="unknown")
    exact = percent(ratio)
    shown = whole_percent(ratio) if dense else exact.removesuffix(" %")
    figure = tag("data", shown, value=repr(float(ratio)), title=exact if dense else None)
    return tag("td", figure, class_="heat", style=f"--dark:{ratio:.3f}")


def _square(one: Stretch, ratio: str, devices: list[str]) -> NDArray[np.float64]:
    """The ratios as a symmetric matrix, shape (n, n); NaN where there is none, and on the diagonal."""
    place = {device: at for at, device in enumerate(devices)}
    i, j = one.pairs["a"].map(place).to_numpy(), one.pairs["b"].map(place).to_numpy()
    values = np.full((len(devices), len(devices)), np.nan)
    values[i, j] = values[j, i] = one.pairs[ratio].to_numpy(np.float64, na_value=np.nan)
    return values


def _picture(one: Stretch, ratio: str, devices: list[str]) -> Markup:
    """The matrix as a picture with one pixel a cell, in the page's own colours: its alpha is the ratio.

    Where a ratio is not known, the hatched ground shows.
    """
    values = _square(one, ratio, devices)
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


def _extremes(one: Stretch, most: int = 12) -> Markup:
    """The pairs that overlap least and most."""
    known = one.pairs[one.pairs["ratio_min"].notna()].sort_values("ratio_min", kind="stable")
    ends = pd.concat([known.head(most), known.tail(most)]).drop_duplicates(["a", "b"])
    columns = ["a", "b", "overlap_ps", *RATIOS]
    rows = [
        [join([name(a), " & ", name(b)]), picoseconds(both), *(heat(ratio) for ratio in ratios)]
        for a, b, both, *ratios in ends[columns].itertuples(index=False)
    ]
    head = ["devices", "together", *RATIOS.values()]
    about = f"All {len(one.pairs):,} pairs are in summary.json (device_pairs)."
    return table(f"The {most} pairs that overlap least, then the {most} that overlap most", head, rows, 24, about)
