"""The folder of real traces, each read once for all tests that look at it."""

from functools import cache
from pathlib import Path

import pytest

from tracekit.readers import read
from tracekit.trace import Trace

REAL = Path(__file__).parents[2] / "shared" / "traces"

needed = pytest.mark.skipif(not REAL.is_dir(), reason="the folder of real traces, shared/traces, is not here")


@cache
def trace(case: str) -> Trace:
    return read(REAL / case)
