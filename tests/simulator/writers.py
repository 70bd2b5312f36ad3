"""The formats in which a job can be written."""

from collections.abc import Callable
from pathlib import Path

from tests.simulator import kineto, nsys, xspace
from tests.simulator.clocks import Recorder
from tests.simulator.truth import Truth

# Each writes a job, whose truth is given, to a path as a recorder saw it, and says where tracekit finds the trace.
FORMATS: dict[str, Callable[[Truth, Path, Recorder], Path]] = {
    "kineto": kineto.write,
    "nsys": nsys.write,
    "xspace": xspace.write,
}
