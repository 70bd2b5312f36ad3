"""The page's scripts, looked at by a linter."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "tracekit" / "report" / "html"


def test_the_scripts_pass_the_linter():
    linter = shutil.which("oxlint", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if linter is None:
        pytest.skip("oxlint is not installed: pip install oxlint")
    config = Path(__file__).with_name("oxlint.json")
    process = subprocess.run(
        [linter, "--config", config, "--deny-warnings", PAGE], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
