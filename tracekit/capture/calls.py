"""Capture the calls of a function in this process: what tests and notebooks have at hand instead of a script."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tracekit.capture.jax_session import JaxSession
from tracekit.capture.new_run import new_run
from tracekit.capture.session import Plan
from tracekit.errors import CaptureError


def capture_calls(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    keywords: Mapping[str, Any] | None = None,
    *,
    out: Path,
    repeats: int = 5,
    warmup: int = 1,
) -> Path:
    """Profile `repeats` calls of `function` as steps, after `warmup` calls without a profile; gives `out`, where the
    trace is then.

    Each call ends when all that it returned is ready. Raises CaptureError where the profile does not start, as inside
    another one, or its trace cannot be written.
    """
    import jax

    if repeats < 1 or warmup < 0:
        raise CaptureError(f"at least 1 call is captured after 0 or more, not {repeats} after {warmup}.")
    keywords = keywords or {}
    for _ in range(warmup):
        jax.block_until_ready(function(*args, **keywords))
    jax.devices()  # the profile begins at once where jax has its devices, which without warm-up it may not have
    name = getattr(function, "__name__", type(function).__name__)
    run, about = new_run(["tracekit_capture", name], Path.cwd())
    profile = JaxSession(Plan(out.absolute(), run, about))
    with profile.hooked():
        if profile.facts is None:
            raise CaptureError(f"nothing was captured: {profile.problem}")
        try:
            for number in range(repeats):
                with jax.profiler.StepTraceAnnotation(name, step_num=number):
                    jax.block_until_ready(function(*args, **keywords))
            profile.wait_for_work()
        finally:
            try:
                profile.stop(exit_code=0)
            except OSError as error:  # such as inside another capture, which keeps this one's profiler away
                raise CaptureError(f"the trace of {name} could not be written: {error}.") from None
    return out
