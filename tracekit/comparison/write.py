"""A comparison in files: comparison.json, Markdown, one page, and the picture."""

import json
from functools import partial
from pathlib import Path

from tracekit.comparison.faces import markdown, page
from tracekit.comparison.model import Comparison
from tracekit.errors import TracekitError
from tracekit.files import refuse_inside, refuse_unwritable, replaced

JSON, MARKDOWN, PAGE, PICTURE = "comparison.json", "comparison.md", "comparison.html", "comparison.png"


def write_comparison(comparison: Comparison, out: str | Path) -> tuple[str, ...]:
    """Write the files of a comparison into the directory `out`, and return their names; each is complete or not there.

    Without matplotlib there is no picture. Raises TracekitError where `out` lies inside a trace that is compared, or
    cannot be written.
    """
    place = Path(out)
    refuse_unwritable(place, "a comparison")
    for capture in (*comparison.a.captures, *comparison.b.captures):
        if capture.report.trace.source:
            refuse_inside(place, Path(capture.report.trace.source))
    try:
        from tracekit.comparison.figure import figure

        drawings = [figure(comparison, theme=theme) for theme in ("light", "dark")]
    except TracekitError:  # without matplotlib
        drawings = []
    summary = json.dumps(comparison.summary(), indent=1) + "\n"
    pictures = (drawings[0].encoded("svg"), drawings[1].encoded("svg")) if drawings else None
    texts = {
        JSON: summary,
        MARKDOWN: markdown(comparison, PICTURE if drawings else None),
        PAGE: page(comparison, pictures),
    }
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            replaced(place / name, partial(Path.write_text, data=text, encoding="utf-8"))
        for drawing in drawings[:1]:
            drawing.save(place / PICTURE)
    except OSError as error:
        raise TracekitError(f"The comparison cannot be written to {place}: {error}. Give another --out.") from None
    return (PAGE, *([PICTURE] if drawings else []), MARKDOWN, JSON)
