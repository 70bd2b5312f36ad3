"""What to try: each finding in words, and the one next thing that its cause suggests.

What to try is what the makers of the runtimes say:
https://docs.jax.dev/en/latest/gpu_performance_tips.html (the latency-hiding scheduler),
https://docs.jax.dev/en/latest/buffer_donation.html, https://docs.jax.dev/en/latest/async_dispatch.html,
https://docs.nvidia.com/jax-toolbox/performance-profiling/gpu-performance (command buffers),
https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#pinned-memory.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tracekit.analysis import advice
from tracekit.report.section import WORK, Recommendation, Section
from tracekit.timeline.instances import Unseen
from tracekit.units import device_time, factor, percent, quantity

_BY_DIRECTION = {
    "H2D": "copy the next batch while this one computes: jax.device_put ahead of its use, two batches in flight",
    "D2H": "fetch results less often or later: copy_to_host_async, and read them a step after",
    "P2P": "shard the data so that devices need less of each other's, or start these copies earlier",
    "D2D": "donate the arguments that a call replaces (donate_argnums), which saves copies within a device",
}
_BY_DIRECTION_WITHOUT_XLA = {
    "H2D": "copy from pinned memory, ahead of use (pin_memory=True, non_blocking=True)",
    "D2H": "fetch results less often or later, into pinned memory",
}


def section(result: advice.Advice, devices: int, unknown: str = "") -> Section:
    """The findings on so many devices, the costliest first; `unknown`: why no cost is known, where that is so."""
    recommendations = tuple(_recommendation(finding, result, devices) for finding in result.findings)
    return Section(
        "findings",
        "What to try",
        findings=recommendations,
        data=[
            {
                "rule": finding.rule,
                "finding": recommendation.sentence,
                "remedy": recommendation.action,
                "cost_ps": finding.cost_ps,
                "share": finding.share,
                "evidence": dict(finding.evidence),
            }
            for finding, recommendation in zip(result.findings, recommendations, strict=True)
        ],
        lacking="" if recommendations else unknown or "No cost with a known remedy is above its threshold.",
    )


def _recommendation(finding: advice.Finding, result: advice.Advice, devices: int) -> Recommendation:
    return Recommendation(
        rule=finding.rule,
        sentence=f"{_SENTENCES[finding.rule](finding, devices)}.",
        action=f"{_ACTIONS[finding.rule](finding.evidence, result)}.",
        cost_ps=finding.cost_ps,
        share=finding.share,
        where=finding.evidence.get("device") or finding.evidence.get("phase"),
    )


def _of_time(finding: advice.Finding, devices: int) -> str:
    whose = "the device's" if devices == 1 else "the devices'"
    return f"{percent(finding.share)} of {whose} time ({device_time(finding.cost_ps, devices)})"


def _idle(cause: str) -> Callable[[advice.Finding, int], str]:
    return lambda finding, devices: (
        f"{cause} kept {'the device' if devices == 1 else 'devices'} idle for {percent(finding.share)} of "
        f"{'its' if devices == 1 else 'their'} time ({device_time(finding.cost_ps, devices)}), in "
        f"{quantity(finding.evidence['gaps'], 'gap')}"
    )


_LATE_LAUNCHES = _idle("Late launches by the host")
# What the host did instead, as analysis.late_launches tells it apart.
_HOST = {
    "after_wait": "after it had waited for the device",
    "launching": "from one launch to the next",
    "working": "in other work of its own",
}


def _late_launches(finding: advice.Finding, devices: int) -> str:
    host = finding.evidence.get("host")
    sentence = _LATE_LAUNCHES(finding, devices)
    return f"{sentence}, {percent(finding.evidence['ratio'])} of it {_HOST[host]}" if host else sentence


def _launch_earlier(evidence: Mapping[str, Any], result: advice.Advice) -> str:
    """What helps against late launches, by what the host did instead; both where that is not told."""
    match evidence.get("host"):
        case "after_wait":
            return (
                "do not wait for results inside the loop: fetch them a step later, so that the host launches the next "
                "step while devices compute"
            )
        case "working":
            return (
                "do that work (Python, data, logging) in other threads or processes, or a step ahead: fewer or larger "
                "launches would not help"
            )
    if result.xla:
        more = "give each call more to do: one jit for the whole step, a larger batch, or lax.scan over steps"
    else:
        more = "launch more with each call (CUDA graphs, torch.compile)"
    return more if evidence.get("host") else f"{more}, and do not wait for results inside the loop"


def _took_turns(finding: advice.Finding, devices: int) -> str:
    busy, ratio = finding.evidence["devices"], finding.evidence["ratio_min"]
    most = f" for more than {percent(ratio)} of the shorter busy time" if ratio else ""
    return f"{busy} devices were serialized: no two were {'' if ratio else 'ever '}busy at the same time{most}"


# What each rule found on so many devices.
_SENTENCES: Mapping[str, Callable[[advice.Finding, int], str]] = {
    "exposed_collectives": lambda finding, devices: (
        f"Collectives were exposed (not overlapped with compute) for {_of_time(finding, devices)}"
        + (f", most on {finding.evidence['device']} ({percent(finding.evidence['most'])})" if devices > 1 else "")
        + ("; how much of that is waiting is not known" if finding.evidence.get("unknown_waiting") else "")
    ),
    "late_peer": lambda finding, devices: (
        f"{finding.evidence['device']} was the straggler in {finding.evidence['last']} of {finding.evidence['n']} "
        f"collectives: waiting for it cost {_of_time(finding, devices)}"
    ),
    "exposed_copies": lambda finding, devices: (
        f"Copies{_directions(finding.evidence)} were exposed for {_of_time(finding, devices)}"
    ),
    "copies_in_compute_lane": lambda finding, devices: (
        f"{percent(finding.evidence['ratio'])} of the copy time was on streams that also run kernels, where neither "
        "can hide the other"
    ),
    "pageable_copies": lambda finding, devices: (
        f"{percent(finding.evidence['ratio'])} of the copy time used pageable host memory, which is staged and blocks "
        "the host"
    ),
    "host_bound": _late_launches,
    "input_bound": _idle("Waiting for input on the host"),
    "compiling": _idle("Compiling on the host"),
    "launch_latency": _idle("Launch latency"),
    "waits_for_copies": _idle("Copies that had to end first"),
    "contention": lambda finding, devices: (
        f"In {finding.evidence['phase']}, {WORK[finding.evidence['kind']]} on {finding.evidence['device']} took "
        f"{factor(finding.evidence['stretch'])} as long as alone, while devices overlapped "
        f"{percent(finding.evidence['overlap_ratio'])}"
    ),
    "took_turns": _took_turns,
}


# What tells whether collectives wait, by why it is not known.
_FIRST: Mapping[str, str] = {
    Unseen.RANKS: "trace all ranks first, which",
    Unseen.CLOCKS: "let all ranks share a few collectives first (barriers), which aligns their clocks and",
    Unseen.MATCHES: "find out first which rows are one collective, which",
}


def _hide_collectives(evidence: Mapping[str, Any], result: advice.Advice) -> str:
    if not evidence.get("unknown_waiting"):
        return _overlap(result)
    first = _FIRST.get(evidence.get("cause", Unseen.RANKS), _FIRST[Unseen.RANKS])
    return f"{first} tells whether they wait for a late one; if not, {_overlap(result)}"


def _overlap(result: advice.Advice) -> str:
    if result.xla and result.backend == "gpu":
        return "let XLA overlap them with compute: XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true"
    if result.xla:
        return "give each device more to compute per collective (a larger batch per device), so that some can hide it"
    return "start them earlier and wait for them later (async_op=True, smaller gradient buckets)"


def _much_copied(evidence: Mapping[str, Any]) -> list[str]:
    """The directions of a fifth of the exposed copies or more, the most first."""
    times = evidence["by_direction_ps"]
    return [way for way in sorted(times, key=lambda way: -times[way]) if 5 * times[way] >= sum(times.values()) > 0]


def _directions(evidence: Mapping[str, Any]) -> str:
    if evidence["direction"]:
        return f", mostly {evidence['direction']},"
    directions = _much_copied(evidence)
    return f" ({' and '.join(directions)})" if directions else ""


def _hide_copies(evidence: Mapping[str, Any], result: advice.Advice) -> str:
    by_direction = _BY_DIRECTION if result.xla else _BY_DIRECTION | _BY_DIRECTION_WITHOUT_XLA
    if not evidence["direction"] and {"H2D", "D2H"} <= {*_much_copied(evidence)}:
        return "keep on the device what goes to the host and comes back (offloading), or start both copies earlier"
    return by_direction.get(evidence["direction"], "start copies earlier than their results are needed")


_ACTIONS: Mapping[str, Callable[[Mapping[str, Any], advice.Advice], str]] = {
    "exposed_collectives": _hide_collectives,
    "late_peer": lambda evidence, result: (
        f"compare what {evidence['device']} does before them with the others: more work, a slower input, a lower clock"
    ),
    "exposed_copies": _hide_copies,
    "copies_in_compute_lane": lambda evidence, result: (
        "take the copies out of the jitted step, so that they get a stream of their own"
        if result.xla
        else "issue copies on a stream of their own"
    ),
    "pageable_copies": lambda evidence, result: "copy from and to pinned host memory",
    "host_bound": _launch_earlier,
    "input_bound": lambda evidence, result: (
        "load the next batches in other threads or processes, and copy them ahead of their use"
    ),
    "compiling": lambda evidence, result: (
        "keep shapes and static arguments the same from call to call, and compile before the loop"
    ),
    "launch_latency": lambda evidence, result: "launch fewer and larger programs, or many at once as a CUDA graph",
    "waits_for_copies": lambda evidence, result: "start those copies earlier, while the device still computes",
    "contention": lambda evidence, result: (
        "give each fewer threads, or place them apart: they share cores, memory bandwidth or a link"
    ),
    "took_turns": lambda evidence, result: "start the work of all devices before waiting for any of it",
}
