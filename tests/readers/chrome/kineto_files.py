"""Small files of Kineto for tests, written event by event."""

import json

from tracekit.readers import chrome
from tracekit.readers.chrome import kineto


def read(path):
    return kineto.read(chrome.load(path), path)


def trace_of(tmp_path, *events, name="t.json", **head):
    """The trace of a file with these events and top-level keys."""
    path = tmp_path / name
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], **head, "traceEvents": list(events)}))
    return read(path)


def event(cat, name, ts=0, dur=1, pid=0, tid=7, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def kernel(name, ts=0, dur=1, **args):
    return event("kernel", name, ts, dur, **{"device": 0, "stream": 7, **args})


def rows(frame, *columns):
    table = frame[list(columns)].astype(object)
    return table.where(table.notna(), None).values.tolist()
