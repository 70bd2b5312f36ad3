"""What to try: each finding in words, and the one next thing that its cause suggests.

What to try is what the makers of the runtimes say:
https://docs.jax.dev/en/latest/gpu_performance_tips.html (the latency-hiding scheduler),
https://docs.jax.dev/en/latest/buffer_donation.html, https://docs.jax.dev/en/latest/async_dispatch.html,
https://docs.nvidia.com/jax-toolbox/performance-profiling/gpu-performance (command buffers),
https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#pinned-memory.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tracekit.analysis.advice import Advice, Finding
from tracekit.report.section import Section
from tracekit.units import factor, percent, time

_WAY = {
    "H2D": "copy the next batch while this one computes: jax.device_put ahead of its use, two batches in flight",
    "D2H": "fetch results less often or later: copy_to_host_async, and read them a step after",
    "P2P": "shard the data so that devices need less of each other's, or start these copies earlier",
    "D2D": "donate the arguments that a call replaces (donate_argnums), which saves copies within a device",
}
_NOT_XLA_WAY = {
    "H2D": "copy from pinned memory, ahead of use (pin_memory=True, non_blocking=True)",
    "D2H": "fetch results less often or later, into pinned memory",
}


def section(result: Advice) -> Section:
    """The findings, the costliest first."""
    return Section(
        "findings",
        "What to try",
        said=[line(one, result) for one in result.findings],
        data=[
            {
                "rule": one.rule,
                "said": said(one),
                "next": next_step(one, result),
                "cost_ps": one.cost_ps,
                "share": one.share,
                "evidence": dict(one.evidence),
            }
            for one in result.findings
        ],
        lacking="" if result.findings else "No finding: no cost with a known remedy passes its threshold.",
    )


def line(finding: Finding, result: Advice) -> str:
    """A finding in one line: what is so, and what to try."""
    return f"{said(finding)}. Try: {next_step(finding, result)}."


def said(finding: Finding) -> str:
    """What a finding says, with its figures."""
    return _SAID[finding.rule](finding, finding.evidence)


def next_step(finding: Finding, result: Advice) -> str:
    """The one next thing to try."""
    return _NEXT[finding.rule](finding.evidence, result)


def _of_time(finding: Finding) -> str:
    return f"{percent(finding.share)} of the devices' time ({time(finding.cost_ps or 0)})"


def _waited(what: str) -> Callable[[Finding, Mapping[str, Any]], str]:
    return lambda finding, told: f"Devices waited {what} for {_of_time(finding)}, in {told['gaps']} gaps"


_SAID: Mapping[str, Callable[[Finding, Mapping[str, Any]], str]] = {
    "exposed_collectives": lambda finding, told: (
        f"Collectives ran with nothing computing beside them for {_of_time(finding)}, most on {told['device']} "
        f"({percent(told['most'])})"
    ),
    "late_peer": lambda finding, told: (
        f"{told['device']} came last to {told['last']} of {told['n']} collectives, and the others waited for it for "
        f"{_of_time(finding)}"
    ),
    "exposed_copies": lambda finding, told: (
        f"Copies{', most of them ' + told['direction'] + ',' if told['direction'] else ''} ran with nothing beside "
        f"them for {_of_time(finding)}"
    ),
    "copies_in_compute_lane": lambda finding, told: (
        f"{percent(told['ratio'])} of the copies' time was on streams that also run kernels, where neither hides the "
        "other"
    ),
    "pageable_copies": lambda finding, told: (
        f"{percent(told['ratio'])} of the copies' time went through pageable host memory, which is staged and blocks "
        "the host"
    ),
    "host_bound": _waited("for the host to launch work"),
    "input_bound": _waited("while the host fetched input"),
    "compiling": _waited("while the host compiled"),
    "launch_latency": _waited("between a launch and its start"),
    "waits_for_copies": _waited("for a copy that they needed"),
    "contention": lambda finding, told: (
        f"In {told['phase']}, devices overlapped {percent(told['overlap_ratio'])}, and {told['kind']} on "
        f"{told['device']} took {factor(told['stretch'])} as long as alone"
    ),
    "took_turns": lambda finding, told: (
        f"{told['devices']} devices worked, and no two at once for more than {percent(told['ratio_min'])} of the "
        "shorter one's busy time"
    ),
}


def _hide_collectives(told: Mapping[str, Any], result: Advice) -> str:
    if result.xla and result.backend == "gpu":
        return "let XLA move compute behind them, XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true"
    if result.xla:
        return "give each device more to compute per collective (a larger batch per device), so that some can hide it"
    return "start them earlier and wait for them later (async_op=True, smaller gradient buckets)"


def _copy_apart(told: Mapping[str, Any], result: Advice) -> str:
    way = told["direction"]
    known = _WAY if result.xla else _WAY | _NOT_XLA_WAY
    return known.get(way, "start copies earlier than their results are needed")


_NEXT: Mapping[str, Callable[[Mapping[str, Any], Advice], str]] = {
    "exposed_collectives": _hide_collectives,
    "late_peer": lambda told, result: (
        f"see what {told['device']} does before them that the others do not: more work, a slower input, a slower clock"
    ),
    "exposed_copies": _copy_apart,
    "copies_in_compute_lane": lambda told, result: (
        "take the copies out of the jitted step, so that they get a stream of their own"
        if result.xla
        else "issue copies on a stream of their own"
    ),
    "pageable_copies": lambda told, result: "copy from and to pinned host memory",
    "host_bound": lambda told, result: (
        "give each call more to do: one jit for the whole step, a larger batch, or lax.scan over steps; donate "
        "arguments, and do not wait for results inside the loop"
        if result.xla
        else "launch more with each call (CUDA graphs, torch.compile), and do not wait for results inside the loop"
    ),
    "input_bound": lambda told, result: (
        "load the next batches in other threads or processes, and copy them ahead of their use"
    ),
    "compiling": lambda told, result: (
        "keep shapes and static arguments the same from call to call, and compile before the loop"
    ),
    "launch_latency": lambda told, result: "launch fewer and larger programs, or many at once as a CUDA graph",
    "waits_for_copies": lambda told, result: "start those copies earlier, while the device still computes",
    "contention": lambda told, result: (
        "they share cores, memory bandwidth or a link: give each fewer threads, or place them apart"
    ),
    "took_turns": lambda told, result: "start the work of all devices before waiting for any of it",
}
