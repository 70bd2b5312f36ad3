"""`tracekit view`: pick the viewer, and open a browser where somebody sits before a screen.

`import tracekit` imports this module, so the viewers wait inside the function.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

from tracekit import remote
from tracekit.errors import ViewError
from tracekit.files import is_saved_report, path_of


def view(
    source: str | os.PathLike[str],
    *,
    port: int = 6006,
    run: str | None = None,
    browser: bool = True,
    perfetto: bool = False,
    perfetto_ui: str | os.PathLike[str] | None = None,
) -> None:
    """Serve a trace in TensorBoard until a signal stops it, on loopback only; prints the address that opens it.

    TensorBoard takes a log directory (all its runs are served), one of its runs, or one `.xplane.pb` file. `port` 0
    picks a free one. `run` names the run that the address opens, by default the newest. `browser` opens the address
    where there is a terminal and a display. `perfetto` serves a trace of any format in a Perfetto UI that is installed
    on this machine; `perfetto_ui` names it, a directory or a zip file. Nothing is written beside the trace. Raises
    ViewError if there is no such trace or run, the viewer is not installed, the port cannot be used, or the server ends
    by itself.
    """
    from tracekit.view import perfetto_ui as ui
    from tracekit.view import tensorboard

    place = path_of(source)
    if is_saved_report(place):
        raise ViewError(
            f"{place} is a saved report, and view serves traces. Open {remote.child(place, 'report.html')} in a "
            "browser, or give the trace that the report was made from."
        )
    browser = browser and has_screen(os.environ, sys.stdout.isatty())
    if not (perfetto or perfetto_ui):
        with remote.fetched(place, f"*{tensorboard.SUFFIX}") as trace_dir:
            tensorboard.serve(trace_dir, name=str(place), port=port, run=run, browser=browser)
        return
    with nullcontext() if perfetto_ui is None else remote.fetched(remote.place(perfetto_ui)) as ui_place:
        ui.serve(place, _export, ui=ui_place, port=port, run=run, browser=browser)


def has_screen(environment: Mapping[str, str], on_terminal: bool, platform: str = sys.platform) -> bool:
    """Whether somebody sits before a screen: a terminal, and a display or a BROWSER of the user's own choice."""
    names = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    return on_terminal and (platform == "darwin" or any(environment.get(name) for name in names))


def _export(trace_dir: Path | str, run: str | None, out: Path) -> None:
    from tracekit.export.export import export

    files = export(trace_dir, out, run=run, force=True)
    if len(files) > 1:
        raise ViewError(
            f"The clocks of {len(files)} hosts of {trace_dir} are not aligned, and Perfetto has one time axis. "
            "Write a file for each with `tracekit export`, and open one of them."
        )
