"""The formats in which a job can be written."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.simulator import jax_json, kineto, nsys, xspace
from tests.simulator.clocks import Recorder
from tests.simulator.truth import Truth

# Writes a job, whose truth is given, to a path as a recorder saw it, and says where tracekit finds the trace.
Writer = Callable[[Truth, Path, Recorder], Path]


def _by_host(write: Writer, truth: Truth, path: Path, recorder: Recorder) -> Path:
    """The file of all ranks, or a folder of one for each, where they are on hosts of their own."""
    if not recorder.apart:
        return write(truth, path, recorder)
    path.mkdir()
    ranks = frozenset(range(truth.job.ranks))
    for rank in sorted(ranks - recorder.missing):
        write(truth, path / f"host{rank}", replace(recorder, missing=ranks - {rank}))
    return path


def _nsys(truth: Truth, path: Path, recorder: Recorder) -> Path:
    return _by_host(nsys.write, truth, path, recorder)


def _xspace(truth: Truth, path: Path, recorder: Recorder) -> Path:
    return _by_host(xspace.write, truth, path, recorder)


def _jax_json(truth: Truth, path: Path, recorder: Recorder) -> Path:
    return _by_host(jax_json.write, truth, path, recorder)


FORMATS: dict[str, Writer] = {"kineto": kineto.write, "nsys": _nsys, "xspace": _xspace, "jax-json": _jax_json}
