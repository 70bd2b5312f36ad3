"""Whether an XSpace file is complete: truncated between two planes it still parses, and what is missing shows it.

Profilers write the planes in an order of their own, but `Task Environment` (since February 2024) and the host names
after all others (tsl/profiler/lib/profiler_session.cc): a file with either was not cut.
"""

import numpy as np

from tracekit.devices import type_of
from tracekit.readers.xspace import device_planes, host_events
from tracekit.readers.xspace.planes import Plane, XSpace
from tracekit.vocabulary.host_calls import launches

SESSION = "Task Environment"
HOST = "/host:CPU"
METADATA = "/host:metadata"

# What no profiler wrote before it wrote `Task Environment`, as planes or as stats of planes.
_LATER_PLANES = frozenset({"/host:__ScopeRangeCallStack__"})
_LATER_STATS = frozenset({"gpu_device_name", "core_details", "jax_version", "jaxlib_version"})
_ENQUEUED = ("tpu::System::Execute", "DoEnqueueProgram", "EnqueueProgram")
# At the end of a profile some kernels have not run yet; more than this share of the launches is no such remainder.
_REMAINDER = 0.1


def profile_ps(space: XSpace) -> int | None:
    """How long the profile ran, None if the file does not say."""
    times = _times(space)
    return None if times is None or times[1] <= times[0] else (times[1] - times[0]) * 1000


def started_ns(space: XSpace) -> int | None:
    """The Unix time in ns at which the profile was started, None if the file does not say."""
    times = _times(space)
    return None if times is None else times[0]


def missing(space: XSpace) -> list[str]:
    """What the planes that are there show to be missing, one sentence each."""
    names = {plane.name for plane in space.planes}
    platforms = {type_of(device) for name in names if (device := device_planes.name(name))}
    host = next((plane for plane in space.planes if plane.name == HOST), None)
    notes = _lost_launches(space, "gpu" in platforms)
    if host is not None and "tpu" not in platforms and _calls(host, _ENQUEUED):
        notes.append(
            "The host ran programs on a TPU, but the file contains no TPU plane: it is truncated, or the profiler "
            "could not record the TPU."
        )
    if SESSION in names or space.hostnames:
        return notes
    late = bool(names & _LATER_PLANES) or any(_LATER_STATS & plane.stats.keys() for plane in space.planes)
    launched = any(plane.numbers("correlation_id")[1].any() for plane in space.planes if device_planes.name(plane.name))
    if host is None and METADATA in names and not platforms:
        notes.append(f"The file contains only {METADATA}, no work: it is truncated, or the profiler recorded nothing.")
    elif late or (launched and host is None):
        absent = f"{SESSION} and {HOST}" if host is None else SESSION
        notes.append(
            f"The file is truncated: it ends before {absent}, which the profiler writes last, and other planes may be "
            "missing too. Copy it again."
        )
    return notes


def _lost_launches(space: XSpace, has_gpu: bool) -> list[str]:
    """The note on launches of the host that no event of a GPU answers."""
    launched = host_events.calls(space).ids(launches)
    executed = [np.zeros(0, np.int64)]
    for plane in space.planes:
        if type_of(device_planes.name(plane.name) or "") == "gpu":
            ids, there = plane.numbers("correlation_id")
            executed.append(ids[there])
    unanswered = int((~np.isin(launched, np.concatenate(executed))).sum())
    if unanswered <= _REMAINDER * len(launched):
        return []
    what = "GPU planes are absent" if has_gpu else "the file contains no GPU plane"
    return [
        f"{unanswered} of {len(launched)} kernels and copies that the host launched are missing ({what}): the file is "
        "truncated, or the profiler dropped them."
    ]


def _times(space: XSpace) -> tuple[int, int] | None:
    for plane in space.planes:
        start, stop = (plane.stats.get(f"profile_{edge}_time") for edge in ("start", "stop"))
        if plane.name == SESSION and isinstance(start, int) and isinstance(stop, int):
            return start, stop
    return None


def _calls(host: Plane, prefixes: tuple[str, ...]) -> bool:
    """Whether the host called any function whose name starts so."""
    codes = np.flatnonzero([name.startswith(prefixes) for name in host.names.categories])
    return bool(np.isin(host.names.codes, codes).any())
