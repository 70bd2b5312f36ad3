"""The benchmark of the page runs end to end; how fast is no matter of a test."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_benchmark_of_the_page_measures_its_bytes_and_frames(chromium, tmp_path):
    out = tmp_path / "result.json"
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.run(
        [
            sys.executable,
            ROOT / "benchmarks" / "page.py",
            "--intervals",
            "500",
            "--rounds",
            "1",
            "--frames",
            "8",
            "--json",
            out,
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert process.returncode == 0, process.stdout + process.stderr
    result = json.loads(out.read_text())
    assert 400 < result["page"]["intervals"] < 600
    assert 50_000 < result["page"]["bytes"] < 1_000_000
    assert {scale: tab["frames_ms"]["n"] == 6 for scale, tab in result["tabs"].items()} == {"1": True, "2": True}
    assert "until drawn" in process.stdout
