"""What is said, by another process, where a captured one ends without a word."""

import subprocess
import sys

import pytest

from tests.capture.test_capture import ROOT, write


@pytest.mark.parametrize(
    ("is_there", "said"),
    [(True, "ended (it was killed, or crashed) when its trace was written: "), (False, "nothing was saved")],
)
def test_who_is_killed_once_the_trace_is_in_its_place_is_said_to_have_one(tmp_path, is_there, said):
    script = write(
        tmp_path,
        "s.py",
        f"""
        import os, signal
        from pathlib import Path
        from tracekit.capture.sudden_end import SuddenEnd

        (draft := Path("draft")).mkdir()
        SuddenEnd().watch(draft, run := Path("é\\n"))
        if {is_there}:
            draft.rename(run)
        os.kill(os.getpid(), signal.SIGKILL)
        """.replace('\n"', '\\n"'),
    )
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert (r"\xe9\n" in done.stderr) == is_there
