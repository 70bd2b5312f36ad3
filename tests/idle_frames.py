"""Literal frames for tests of idle time: rows and the calls that launched them, in microseconds."""

import numpy as np

from tests.frames import with_instances
from tests.launch_frames import calls, host_spans, waits
from tracekit.analysis.idle import idle as analyse
from tracekit.timeline.timeline import timeline_of
from tracekit.timeline.unions import unions
from tracekit.trace import Trace

US = 1_000_000


def idle(events, launches=None, spans=None, syncs=None, instance=None, window=None):
    trace = Trace(
        events,
        launches=calls() if launches is None else launches,
        spans=host_spans() if spans is None else spans,
        syncs=waits() if syncs is None else syncs,
    )
    timeline = timeline_of(trace)
    if window is not None:  # rows stay whole: inside windows there would be none that reaches over their edges
        timeline.once("unions", lambda: unions(timeline.rows).inside(np.array([window], np.int64)))
    return analyse(timeline if instance is None else with_instances(timeline, np.array(instance)[timeline.rows.at]))


def row(device, start, end, id=None, **more):
    return {"device": device, "start": start * US, "end": end * US, "id": id, **more}


def call(id, start, end, *more):
    return (id, start * US, end * US, *more)


FIRST = row("gpu:0", 0, 100, 1)
CALLED = call(1, -9, -4)
