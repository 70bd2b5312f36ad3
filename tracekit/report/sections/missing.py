"""What a trace lacks, one sentence each, and what would have recorded it."""

from tracekit.devices import type_of
from tracekit.readers import formats
from tracekit.readers.formats import Recording
from tracekit.trace import Trace

# Where the devices are there, and only their work is not.
_NO_WORK = "start the profile before the work, and end it when the results are there"


def device_work(trace: Trace) -> str | None:
    """The sentence that says that no device worked in `trace`, and why; None where one did."""
    events = trace.events
    if len(events):
        if (events["end_ps"] > events["start_ps"]).any():
            return None
        return "All device events have zero length: the trace says that they ran, but not for how long."
    if not (len(trace.spans) or len(trace.launches) or len(trace.devices)):
        what = "The trace holds neither device work nor named host spans"
    elif len(trace.devices):
        return f"The trace names devices, but holds no work of theirs; for the next one, {_NO_WORK}."
    else:
        what = "The trace holds no device work, only host threads"
    advice = _recording(trace).device_work
    return f"{what}; for the next one, {advice}." if advice else f"{what}."


def sentences(trace: Trace) -> tuple[str, ...]:
    """What `trace` lacks of what its format could hold, the worst first; empty if nothing worth a word is missing."""
    events, recording = trace.events, _recording(trace)
    found = [device_work(trace)]
    if len(events) and not len(trace.spans):
        found.append(_with("No host spans: phases and steps are not known", recording.spans))
    on_gpu = any(type_of(str(name)) == "gpu" for name in events["device"].unique())
    if on_gpu and not len(trace.launches) and recording.launches:
        found.append(_with("No launches: no event leads to the host call that started it", recording.launches))
    if on_gpu and not events["hlo_op"].notna().any():
        found.append(recording.hlo_ops)
    return tuple(one for one in found if one)


def _with(what: str, advice: str | None) -> str:
    return f"{what}; for the next trace, {advice}." if advice else f"{what}."


def _recording(trace: Trace) -> Recording:
    """How to record what the trace's format could hold."""
    known = formats.named(trace.format)
    return known.recording if known else Recording()
