"""A history in files: one page, its picture, and the tables as Parquet."""

from functools import partial
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.files import refuse_unwritable, replaced
from tracekit.trends.history import History
from tracekit.trends.page import page

PAGE, PICTURE, TABLE, CHANGES = "history.html", "history.png", "history.parquet", "changes.parquet"


def write_history(history: History, source: str | Path, out: str | Path) -> tuple[str, ...]:
    """Write the files of the history of the directory `source` into `out`, and return their names; each is complete or
    not there.

    Without matplotlib there is no picture. Raises TracekitError where `out` cannot be written.
    """
    place = Path(out)
    refuse_unwritable(place, "a history")
    try:
        from tracekit.trends.figure import figure

        drawings = [figure(history, theme=theme) for theme in ("light", "dark")]
    except TracekitError:  # without matplotlib
        drawings = []
    pictures = (drawings[0].encoded("svg"), drawings[1].encoded("svg")) if drawings else None
    text = page(history, str(source), pictures)
    try:
        place.mkdir(parents=True, exist_ok=True)
        replaced(place / PAGE, partial(Path.write_text, data=text, encoding="utf-8"))
        for name, table in ((TABLE, history.table), (CHANGES, history.changes)):
            replaced(place / name, partial(table.to_parquet, index=False))
        for drawing in drawings[:1]:
            drawing.save(place / PICTURE)
    except OSError as error:
        raise TracekitError(f"The history cannot be written to {place}: {error}. Give another --out.") from None
    return (PAGE, *([PICTURE] if drawings else []), TABLE, CHANGES)
