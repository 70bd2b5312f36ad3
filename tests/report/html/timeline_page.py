"""A page with nothing but the timeline, for its tests: what it shows, and where on the screen."""

from importlib import resources
from pathlib import Path
from string import Template

import pandas as pd

from tests.frames import events, spans, trace
from tracekit.columns import frame
from tracekit.report import palette
from tracekit.report.build import analyse
from tracekit.report.html.payload import SCRIPTS, STYLES, payload
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import LAUNCH_COLUMNS, Trace

US = 10**6
HOSTILE = "</script><img src=x onerror=document.title='broken'>"

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>timeline</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>:root{$light} @media (prefers-color-scheme:dark){:root{color-scheme:dark;$dark}}
body{background:var(--paper);color:var(--ink);font:16px system-ui,sans-serif;margin:0 2rem}
$styles</style></head>
<body>$links<section id="timeline"><h2>Timeline</h2>$data</section>$scripts</body></html>
""")


def write_page(path: Path, any_trace: Trace, links: str = "") -> Path:
    """The timeline of a trace as a page at `path`; `links` is HTML before it."""
    timeline = timeline_of(any_trace)
    report = analyse(timeline)
    files = resources.files("tracekit.report.html")
    colours = {
        theme: ";".join(f"--{key}:{colour}" for key, colour in palette.properties(theme_colours).items())
        for theme, theme_colours in palette.THEMES.items()
    }
    scripts = "".join(f"<script>{(files / name).read_text('utf-8')}</script>" for name in ("matcher.js", *SCRIPTS))
    styles = "".join((files / name).read_text("utf-8") for name in STYLES)
    path.write_text(
        _PAGE.substitute(colours, styles=styles, links=links, data=payload(report, timeline), scripts=scripts), "utf-8"
    )
    return path


def work() -> pd.DataFrame:
    """Two devices that compute, copy and meet in three all-reduces; the second comes late; one name is hostile."""
    rows = []
    for at in range(3):
        for device in range(2):
            start = 100 * at * US + 10 * device * US
            rows.append((f"gpu:{device}", "compute", start, start + 40 * US, "gemm" if at else HOSTILE))
            rows.append((f"gpu:{device}", "collective", start + 40 * US, (100 * at + 80) * US, "all-reduce"))
        rows.append(("gpu:0", "memcpy", (100 * at + 20) * US, (100 * at + 60) * US, "copy", "H2D"))
    result = events(*rows)
    result["bytes"] = pd.array([4 * 10**6 if name == "copy" else None for name in result["name"]], "Int64")
    result["correlation_id"] = pd.array(range(len(result)), "Int64")
    return result


def demo() -> Trace:
    """Their trace, with phases and with a call of the host for each row."""
    rows = work()
    marks = spans(("first", 0, 90 * US), (HOSTILE, 100 * US, 280 * US))
    launches = frame(
        LAUNCH_COLUMNS,
        {
            "host": ["h"] * len(rows),
            "thread": ["main"] * len(rows),
            "name": ["launch"] * len(rows),
            "start_ps": rows["start_ps"] - 5 * US,
            "end_ps": rows["start_ps"] - 4 * US,
            "correlation_id": rows["correlation_id"],
        },
    )
    return trace(rows, marks, launches=launches)


def frames(page) -> None:
    """Waits until what was asked for is drawn, and the address written."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def view(page) -> tuple[float, float]:
    """From and to in picoseconds."""
    frames(page)
    return tuple(
        page.evaluate("[tracekit.app.view.from, tracekit.app.view.to].map((x) => x * tracekit.app.data.unitPs)")
    )


def box(page) -> dict:
    return page.locator(".tl-plot").bounding_box()


def x_of(page, ps: int) -> float:
    start, end = view(page)
    return box(page)["x"] + (ps - start) / (end - start) * box(page)["width"]


def y_of(page, key: str) -> float:
    """The middle of the bar of a row, such as "g0" or "l2"."""
    return box(page)["y"] + page.evaluate(
        "(key) => { const row = tracekit.canvas.inSight(tracekit.app).find((one) => one.key === key);"
        " return row.top + row.height / 2 - 1; }",
        key,
    )


def at(page, ps: int, key: str) -> tuple[float, float]:
    return x_of(page, ps), y_of(page, key)


def focus(page) -> None:
    page.locator(".tl-plot").focus()
