"""What a trace lacks, one sentence each, and what would have recorded it."""

from collections.abc import Mapping

from tracekit.devices import type_of
from tracekit.trace import Trace

# Format -> what to do so that the next trace has it. The other readers say it in a note of theirs.
_XLA = (
    "wait for the results inside the profile (jax.block_until_ready), and keep host_tracer_level at 1 or more: "
    "CPU devices are seen through host threads"
)
_DEVICE_WORK: Mapping[str, str] = {"xplane": _XLA, "jax-json": _XLA}
# Where the devices are there, and only their work is not.
_AWAY = "start the profile before the work, and end it when the results are there"
_SPANS: Mapping[str, str] = {
    "xplane": "keep host_tracer_level at 1 or more",
    "jax-json": "keep host_tracer_level at 1 or more",
    "kineto": "mark them with torch.profiler.record_function, and add ProfilerActivity.CPU to the activities",
    "nsys": "mark ranges with NVTX, and record them with --trace=cuda,nvtx",
    "mxnet": "record with profiler.set_config(profile_all=True)",
}
_LAUNCHES: Mapping[str, str] = {
    "kineto": "add ProfilerActivity.CPU to the activities",
    "nsys": "record with --trace=cuda",
}


def device_work(trace: Trace) -> str | None:
    """The sentence that says that no device worked in `trace`, and why; None where one did."""
    events = trace.events
    if len(events):
        if (events["end_ps"] > events["start_ps"]).any():
            return None
        return "All device rows have zero length: the trace says that they ran, but not for how long."
    if not (len(trace.spans) or len(trace.launches) or len(trace.devices)):
        what = "The trace holds neither device work nor named host spans"
    elif len(trace.devices):
        return f"The trace names devices, but holds no work of theirs; for the next one, {_AWAY}."
    else:
        what = "The trace holds no device work, only host threads"
    advice = _DEVICE_WORK.get(trace.format)
    return f"{what}; for the next one, {advice}." if advice else f"{what}."


def sentences(trace: Trace) -> tuple[str, ...]:
    """What `trace` lacks of what its format could hold, the worst first; empty if nothing worth a word is missing."""
    events = trace.events
    found = [device_work(trace)]
    if len(events) and not len(trace.spans):
        found.append(_with("No host spans: phases and steps cannot be told", _SPANS.get(trace.format)))
    on_gpu = any(type_of(str(name)) == "gpu" for name in events["device"].unique())
    if on_gpu and not len(trace.launches) and (advice := _LAUNCHES.get(trace.format)):
        found.append(_with("No launches: no row leads to the host call that started it", advice))
    if on_gpu and trace.format == "xplane" and not events["hlo_op"].notna().any():
        found.append(
            "No row names its HLO op: the program is no XLA program, or CUDA graphs hide its ops, "
            "which XLA_FLAGS=--xla_gpu_enable_command_buffer= turns off."
        )
    return tuple(one for one in found if one)


def _with(what: str, advice: str | None) -> str:
    return f"{what}; for the next trace, {advice}." if advice else f"{what}."
