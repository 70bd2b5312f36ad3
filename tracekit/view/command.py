"""What `tracekit view` does: pick the viewer, and open a browser where somebody sits before one."""

import os
import sys
from pathlib import Path

from tracekit.view import browser, perfetto, tensorboard


def run(
    trace_dir: Path,
    *,
    port: int = 6006,
    run_name: str | None = None,
    browse: bool = True,
    perfetto_ui: Path | None = None,
    export: perfetto.Export | None = None,
) -> None:
    """Serve the trace in the Perfetto UI if there is an `export` that writes its file, else in TensorBoard."""
    browse = browse and browser.is_wanted(os.environ, sys.stdout.isatty())
    if export is None:
        tensorboard.view(trace_dir, port=port, run=run_name, browse=browse)
    else:
        perfetto.view(trace_dir, export, ui=perfetto_ui, port=port, run=run_name, browse=browse)
