"""A page with nothing but the timeline, for its tests."""

from importlib import resources
from pathlib import Path
from string import Template

from tracekit.report import palette
from tracekit.report.build import analyse
from tracekit.report.html.payload import SCRIPTS, STYLES, payload
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import Trace

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>timeline</title>
<style>:root{$light} @media (prefers-color-scheme:dark){:root{color-scheme:dark;$dark}}
body{background:var(--paper);color:var(--ink);font:16px system-ui,sans-serif;margin:0 2rem}
$styles</style></head>
<body>$links<section id="timeline"><h2>Timeline</h2>$data</section>$scripts</body></html>
""")


def write_page(path: Path, trace: Trace, links: str = "") -> Path:
    """The timeline of a trace as a page at `path`; `links` is HTML before it."""
    timeline = timeline_of(trace)
    report = analyse(timeline)
    files = resources.files("tracekit.report.html")
    colours = {
        theme: ";".join(f"--{key}:{colour}" for key, colour in palette.properties(theme_colours).items())
        for theme, theme_colours in palette.THEMES.items()
    }
    scripts = "".join(f"<script>{(files / name).read_text('utf-8')}</script>" for name in SCRIPTS)
    styles = "".join((files / name).read_text("utf-8") for name in STYLES)
    path.write_text(
        _PAGE.substitute(colours, styles=styles, links=links, data=payload(report, timeline), scripts=scripts), "utf-8"
    )
    return path
