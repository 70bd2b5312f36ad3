"""Reading, analysing, saving and exporting use no network, and leave the directory of the trace as it is."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.view.served import contents

ROOT = Path(__file__).parents[1]

# Commands in a Python in which every use of a socket is an error; the file's descriptors and pipes are none.
WITHOUT_NETWORK = """
import json, sys

def refuse(event, arguments):
    if event.startswith("socket."):
        raise RuntimeError(f"{event} {arguments}")

sys.addaudithook(refuse)
from tracekit.cli import app
for words in json.loads(sys.argv[1]):
    app(words, standalone_mode=False)
"""


def test_no_command_that_reads_a_trace_uses_a_socket_or_writes_beside_it(tmp_path):
    run = tmp_path / "trace" / "plugins" / "profile" / "run"
    run.mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "data" / "view-cpu.xplane.pb", run / "host.xplane.pb")
    before = contents(tmp_path / "trace")
    trace = str(tmp_path / "trace")
    commands = [
        ["read", trace],
        ["report", trace, "--out", "report"],
        ["export", trace, "--out", "trace.pftrace.gz"],
        ["figure", trace],
    ]
    command = [sys.executable, "-c", WITHOUT_NETWORK, json.dumps(commands)]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert contents(tmp_path / "trace") == before
    assert {path.name for path in tmp_path.iterdir()} == {"trace", "report", "trace.pftrace.gz", "reports"}
