"""A capture into a store: the run is there and not on this machine; where it cannot go there, it stays here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = "import jax.numpy as jnp, os, sys\nprint(jnp.ones(3).sum())\n"
# Captures the script into fsspec's file system in memory, which is this process's own, and tells what is there after.
CODE = """
import json, sys
import fsspec, tracekit
from tracekit.capture import capture as module
script, out, is_broken = sys.argv[1], "memory://bucket/traces", sys.argv[2] == "broken"
memory = fsspec.filesystem("memory")
def tell(captured=None):
    print(json.dumps({"files": memory.find("/bucket"), "run": captured and captured.run}), flush=True)
if is_broken:
    def refuse(self, *_, **__):
        raise OSError("no space in the bucket")
    type(memory).put_file = refuse
said = module.say_written
module.say_written = lambda captured: (said(captured), tell(captured))
try:
    captured = tracekit.capture(script, out=out)
    tell(captured)
    trace = tracekit.read(captured)
    print(json.dumps([trace.source, len(trace.spans) + len(trace.events) > 0, trace.capture["schema"]]))
except tracekit.TracekitError as error:
    print(json.dumps(str(error)))
"""


def captured(tmp_path, compiled, script: str, how: str = "") -> tuple[list, str]:
    """What the code told after the script's own first line, and its stderr; temporary files are below `tmp_path`."""
    (tmp_path / "script.py").write_text(script)
    (tmp_path / "drafts").mkdir()
    process = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "script.py"), how],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=compiled | {"TMPDIR": str(tmp_path / "drafts"), "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    first, *lines = process.stdout.splitlines()
    assert first == "3.0", process.stderr
    return [json.loads(line) for line in lines], process.stderr


@pytest.mark.parametrize("ending", ["", "sys.stdout.flush()\nos._exit(0)\n"])
def test_a_capture_goes_to_a_store_and_leaves_nothing_here_however_the_script_ends(tmp_path, compiled, ending):
    (told, *read), stderr = captured(tmp_path, compiled, SCRIPT + ending)
    run = told["run"]
    assert run.startswith("memory://bucket/traces/plugins/profile/")
    names = {Path(name).name for name in told["files"]}
    assert "capture.json" in names
    assert any(name.endswith(".xplane.pb") for name in names)
    assert {str(Path(name).parent) for name in told["files"]} == {run.removeprefix("memory:/")}
    assert read == ([] if ending else [["memory://bucket/traces", True, 1]])
    assert not ending or f"Wrote {run}\n" in stderr
    assert not [*(tmp_path / "drafts").rglob("*.xplane.pb")]


def test_a_capture_that_cannot_be_uploaded_stays_where_the_error_says(tmp_path, compiled):
    (error,), _ = captured(tmp_path, compiled, SCRIPT, "broken")
    start = "memory://bucket/traces cannot be written: no space in the bucket. Check the name and the credentials. "
    assert error.startswith(f"{start}The trace stays in {tmp_path}/drafts/tracekit-capture-")
    place = Path(error.removeprefix(f"{start}The trace stays in ").removesuffix(": copy it from there."))
    assert [*place.glob("plugins/profile/*/*.xplane.pb")]
