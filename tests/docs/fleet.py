"""Renew the pictures of docs/fleet.md: `python -m tests.docs.fleet`.

They are of a simulated fleet in which one rank is slow, one host becomes slow, and one step takes longer everywhere.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.browser import launch_chromium
from tests.docs.screenshots import save
from tests.fleet_traces import A_HOST, fleet
from tracekit.report.build import analyse
from tracekit.report.figures.figure import figure
from tracekit.report.html.page import page
from tracekit.timeline.timeline import Timeline, timeline_of

RANKS, STEPS = 256, 60
SLOW_RANK, SLOW_HOST, SLOW_STEP = 77, 21, 40


def job() -> Timeline:
    """Its trace: about a millisecond of compute a step, then an all-reduce."""
    rng = np.random.default_rng(0)
    compute = rng.normal(1.0, 0.01, (RANKS, STEPS))
    compute[SLOW_RANK] += 0.2
    compute[SLOW_HOST * A_HOST : (SLOW_HOST + 1) * A_HOST, STEPS // 2 :] += 0.1
    compute[:, SLOW_STEP] += 0.15
    made = fleet(RANKS, (compute * 1e9).astype(np.int64), transfer_ps=80_000_000, gap_ps=40_000_000)
    return timeline_of(made.trace)


def main(folder: Path) -> None:
    """Draw the figure, and photograph the heat map of the page with a cell that is pointed at."""
    timeline = job()
    figure(timeline, "fleet", width=10, dpi=130).save(folder / "fleet.png")
    save((folder / "fleet.png").read_bytes(), "fleet")
    (folder / "report.html").write_text(page(analyse(timeline), timeline), "utf-8")
    for chromium in launch_chromium():
        tab = chromium.new_page(viewport={"width": 1120, "height": 900})
        tab.goto((folder / "report.html").resolve().as_uri())
        tab.wait_for_selector("#heat-map[data-ready]")
        tab.evaluate("document.querySelector('#fleet').scrollIntoView()")
        tab.evaluate("(rank) => tracekit.heat.reveal(tracekit.heat.app, rank, 20)", SLOW_RANK)
        tab.wait_for_timeout(500)
        save(tab.screenshot(), "fleet-page")


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        main(Path(directory))
