"""How large is report.html, and how fast does its timeline move? `python benchmarks/page.py --intervals 1000000`.

An XSpace of four GPUs (make_xspace.py) is read and analysed, its page made and opened in headless Chromium, which draws
without a GPU here. Told are the bytes of the page, the seconds and the memory that it takes to make, the time until the
timeline stands in a fresh tab, and what one frame costs while it is zoomed and moved: drawing alone, and the distance
from frame to frame, which a screen of 60 Hz holds at 16.7 ms or more.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from read_xspace import machine

from tracekit.report.build import analyse
from tracekit.report.html.page import page
from tracekit.timeline.timeline import timeline_of

# A kernel stands in an XSpace three times.
_EVENTS = 3.06
_SMALLEST = 200
_HERE = Path(__file__).parent
_CHROMIUM = "/usr/bin/chromium"
_QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
_SCALES = (1, 2)

# Zooms in from the whole to a thousandth, there moves along, and zooms out again: one change a frame.
_TOUR = """async (n) => {
  const { app, act, canvas, overlay, viewport } = tracekit;
  const [frame, over, drawing] = [canvas.frame, overlay.frame, []];
  let began = 0;
  canvas.frame = (state) => { began = performance.now(); frame(state); };
  overlay.frame = (state) => { over(state); drawing.push(performance.now() - began); };
  const middle = app.whole.from * 0.6 + app.whole.to * 0.4;
  const zoom = (factor) => () => viewport.zoomed(app.view, middle, factor, app.whole);
  const pan = (_, i) => () => viewport.panned(app.view, i % 20 < 10 ? 0.05 : -0.05, app.whole);
  const leg = Array(n).fill(0);
  const [near, far] = [1000 ** (-1 / n), 1000 ** (1 / n)];
  const steps = [leg.map(() => zoom(near)), leg.map(pan), leg.map(() => zoom(far)), leg.map(pan)].flat();
  const times = [];
  let last = null;
  for (const step of steps) {
    await new Promise((done) => requestAnimationFrame((now) => {
      if (last !== null) times.push(now - last);
      last = now;
      act.show(step());
      done();
    }));
  }
  canvas.frame = frame;
  overlay.frame = over;
  return { drawing: drawing.slice(1), frames: times.slice(1) };
}"""


def open_page(chromium: Any, path: Path, scale: int, frames: int) -> dict[str, Any]:
    """One visit to the page in a fresh tab: milliseconds, and bytes of JavaScript's heap."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, device_scale_factor=scale)
    tab = context.new_page()
    tab.goto(path.as_uri(), timeout=120_000)
    tab.wait_for_selector("#timeline[data-ready]", timeout=120_000)
    tab.locator(".tl-plot").scroll_into_view_if_needed()
    drawn_ms = tab.evaluate("performance.getEntriesByName('timeline drawn')[0].startTime")
    tour = tab.evaluate(_TOUR, frames // 4)
    lanes = tab.locator(".tl-row").count()
    heap = tab.evaluate("performance.memory.usedJSHeapSize")
    context.close()
    return {"drawn_ms": drawn_ms, "heap_bytes": heap, "lanes": lanes, **tour}


def summarise(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds, and of all their frames the median, the 95th percentile and the worst."""
    medians: dict[str, Any] = {
        key: statistics.median(visit[key] for visit in rounds) for key in ("drawn_ms", "heap_bytes", "lanes")
    }
    for key in ("drawing", "frames"):
        every = sorted(length for visit in rounds for length in visit[key])
        medians[f"{key}_ms"] = {
            "median": statistics.median(every),
            "p95": every[int(0.95 * (len(every) - 1))],
            "worst": every[-1],
            "n": len(every),
        }
    return medians


def write_page(path: Path, out: Path) -> dict[str, Any]:
    """Write the page of the trace at `path`; what that took, apart from reading and analysing."""
    timeline = timeline_of(path)
    report = analyse(timeline)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    text = page(report, timeline)
    seconds = time.perf_counter() - began
    out.write_text(text, "utf-8")
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return {
        "intervals": len(timeline.trace.events),
        "calls": len(timeline.trace.launches),
        "make_s": seconds,
        "growth_bytes": growth,
        "bytes": out.stat().st_size,
    }


def show(result: dict[str, Any]) -> None:
    """The figures as a table."""
    cost = result["page"]
    print(f"{cost['intervals']:,} intervals and {cost['calls']:,} host calls: {cost['bytes'] / 1e6:.2f} MB of HTML, "
          f"made in {cost['make_s']:.2f} s with {cost['growth_bytes'] / 1e6:.0f} MB more memory")  # fmt: skip
    heads = ["pixels per CSS pixel", "rows", "until drawn", "heap"]
    heads += [f"{what}: median / 95 % / worst" for what in ("drawing", "frame to frame")]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for scale, tab in result["tabs"].items():
        cells = [scale, f"{tab['lanes']:.0f}", f"{tab['drawn_ms'] / 1e3:.2f} s"]
        cells += [f"{tab['heap_bytes'] / 1e6:.0f} MB"]
        for key in ("drawing_ms", "frames_ms"):
            cells.append(" / ".join(f"{tab[key][part]:.1f}" for part in ("median", "p95", "worst")) + " ms")
        print(f"| {' | '.join(cells)} |")


def main() -> int:
    """Generate, make, open, print."""
    parser = argparse.ArgumentParser(description="Measure report.html: its size, and the frames of its timeline.")
    parser.add_argument("--intervals", type=int, default=1_000_000, help="device intervals (default: 1e6)")
    parser.add_argument("--rounds", type=int, default=3, help="fresh tabs for each scale (default: 3)")
    parser.add_argument("--frames", type=int, default=240, help="frames of each visit (default: 240)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write everything measured to OUT")
    parser.add_argument("--chromium", default=_CHROMIUM, metavar="PATH", help=f"the browser (default: {_CHROMIUM})")
    options = parser.parse_args()
    if options.rounds < 1 or options.frames < 8 or options.intervals < _SMALLEST:
        parser.error(f"--rounds must be at least 1, --frames 8, and --intervals {_SMALLEST}")
    if not Path(options.chromium).exists():
        parser.error(f"{options.chromium} is not there: install Debian's package chromium, or give --chromium")
    from playwright.sync_api import sync_playwright

    where = machine()
    with tempfile.TemporaryDirectory() as scratch:
        path, out = Path(scratch, "host.xplane.pb"), Path(scratch, "report.html")
        events = str(round(options.intervals * _EVENTS))
        writer = [sys.executable, str(_HERE / "make_xspace.py"), "--events", events, "--out", str(path)]
        subprocess.run(writer, check=True, stdout=subprocess.DEVNULL)
        cost = write_page(path, out)
        tabs: dict[str, list[dict[str, Any]]] = {str(scale): [] for scale in _SCALES}
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=options.chromium, args=list(_QUIET))
            where["versions"]["chromium"] = chromium.version
            for _ in range(options.rounds):
                for scale in _SCALES:
                    tabs[str(scale)].append(open_page(chromium, out, scale, options.frames))
            chromium.close()
    where["load_after"] = os.getloadavg()[0]
    result = {"machine": where, "page": cost, "tabs": {scale: summarise(visits) for scale, visits in tabs.items()}}
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
        print(f"Wrote {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
