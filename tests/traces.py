"""Traces in files, each read once in a process: our own in `data`, and real ones of other people's machines.

The real ones lie beside the repository, in ../shared/traces, and simulated ones whose truth is known, in
../shared/cases; where they do not, tests of them are skipped. What is read is shared by all tests: none may change it.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tracekit.readers import read
from tracekit.timeline.timeline import Timeline, timeline_of
from tracekit.trace import Trace

DATA = Path(__file__).parent / "data"
REAL = Path(__file__).parents[2] / "shared" / "traces"
SIMULATED = REAL.parent / "cases"
# What schedule.py and independent sweeps over the real files say of each trace, by case, in microseconds.
FIGURES: dict[str, Any] = {
    case: figures
    for path in (DATA / "generated" / "expected.json", REAL / "expected.json", REAL / "expected-2.json")
    if path.is_file()
    for case, figures in json.loads(path.read_text("utf-8")).items()
    if re.search(r"/|\.(gz|pb|sqlite)$", case) and "figures" not in figures
}

_SECOND = REAL / "expected-2.json"
# The second set, whole: some of its cases are several files.
SECOND: dict[str, Any] = json.loads(_SECOND.read_text("utf-8")) if _SECOND.is_file() else {}

needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="the folder of real traces, shared/traces, is not here")
needs_simulated = pytest.mark.skipif(not SIMULATED.is_dir(), reason="the folder shared/cases is not here")


def path(case: str) -> Path:
    """The file or directory of a case, below `data` or else among the real ones, where its ending may be left out, or
    the folder that it is in."""
    if "/" not in case and not (DATA / case).exists():
        (only,) = [found for folder in (REAL, SIMULATED) for found in folder.rglob(case)]
        return only
    for folder in (DATA, REAL, SIMULATED):
        if (folder / case).exists():
            return folder / case
    (only,) = (REAL / case).parent.glob(f"{Path(case).name}.*")
    return only


def xspace(case: str) -> Path:
    """The only XSpace file of a case."""
    (only,) = [path(case)] if path(case).is_file() else path(case).glob("*.xplane.pb")
    return only


def cases(*names: str) -> list[Any]:
    """Parameters of a test, one a case; those of real traces are skipped where these are not."""
    return [param(name) for name in names]


def param(case: str, *values: Any) -> Any:
    """The parameters of a test on one case, skipped where the case is a real trace that is not here."""
    return pytest.param(case, *values, marks=() if (DATA / case).exists() else needs_real)


@cache
def trace(case: str) -> Trace:
    """The trace of a case."""
    return read(path(case))


@cache
def timeline(case: str) -> Timeline:
    """The trace of a case, in order."""
    return timeline_of(trace(case))
