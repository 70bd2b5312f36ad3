"""What to try: each finding in words, and the one next thing that its cause suggests.

What to try is in the words of the framework that the program is written in, and not what the program does already
(analysis.program); where the framework is not known, in words that hold for all. It is what their makers say:
https://docs.jax.dev/en/latest/gpu_performance_tips.html (the latency-hiding scheduler, profile-guided latencies),
https://docs.jax.dev/en/latest/buffer_donation.html, https://docs.jax.dev/en/latest/async_dispatch.html,
https://docs.jax.dev/en/latest/201/memory-spaces.html (host offloading),
https://docs.jax.dev/en/latest/persistent_compilation_cache.html,
https://github.com/openxla/xla/blob/main/xla/debug_options_flags.cc (what is in CUDA graphs by default),
https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html,
https://docs.pytorch.org/docs/stable/generated/torch.compile.html (mode="reduce-overhead"),
https://docs.pytorch.org/tutorials/intermediate/FSDP_tutorial.html (FSDP2, FSDP1 is deprecated),
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html (bucket_cap_mb),
https://www.tensorflow.org/guide/data_performance,
https://www.tensorflow.org/api_docs/python/tf/distribute/experimental/CommunicationOptions,
https://mxnet.apache.org/versions/1.9.1/api/python/docs/tutorials/performance/backend/profiler.html,
https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#pinned-memory.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tracekit.analysis import advice
from tracekit.report.section import WORK, Recommendation, Section, gain_words, straggler_words
from tracekit.report.sections import machine
from tracekit.report.sections.steady import step_numbers
from tracekit.timeline.instances import Unseen
from tracekit.units import device_time, factor, percent, quantity, short, time
from tracekit.vocabulary.collectives import FROM_ONE_TO_ONE
from tracekit.vocabulary.frameworks import Framework, Practice
from tracekit.vocabulary.host_calls import copies_asynchronously, frees_memory, pins_memory

# What holds for every framework, and for one of which nothing is known, stands under "".
_AHEAD = {
    "": "copy the next batch while this one computes: asynchronously, and from pinned host memory",
    Framework.JAX: "copy the next batch while this one computes: jax.device_put ahead of use, two batches in flight",
    Framework.PYTORCH: "copy from pinned memory, ahead of use (pin_memory=True, non_blocking=True)",
    Framework.TENSORFLOW: (
        "copy the next batch while this one computes: end the tf.data pipeline with prefetch(tf.data.AUTOTUNE)"
    ),
    Framework.MXNET: (
        "copy the next batch while this one computes: as_in_context ahead of its use, DataLoader(pin_memory=True)"
    ),
}
_AHEAD_FROM_PINNED = {
    "": "the memory is pinned already: start these copies earlier, asynchronously, on a stream of their own",
    Framework.JAX: _AHEAD[Framework.JAX],
    Framework.PYTORCH: (
        "the memory is pinned already: copy the next batch while this one computes (non_blocking=True, in a "
        "torch.cuda.Stream of its own)"
    ),
    Framework.TENSORFLOW: _AHEAD[Framework.TENSORFLOW],
}
_RESULTS = {
    "": "fetch results less often or later, asynchronously, into pinned host memory",
    Framework.JAX: "fetch results less often or later: copy_to_host_async, and read them a step after",
    Framework.PYTORCH: "fetch results less often or later, into pinned memory (.item() and .cpu() wait)",
    Framework.TENSORFLOW: "fetch results less often or later: .numpy() and metrics of every step wait for them",
    Framework.MXNET: "fetch results less often or later: .asnumpy() and .asscalar() wait for them",
}
_RESULTS_TO_PINNED = {
    **_RESULTS,
    "": "the memory is pinned already: fetch results less often or later, on a stream of their own",
    Framework.PYTORCH: (
        "the memory is pinned already: fetch results less often or later (.item() and .cpu() wait), in a "
        "torch.cuda.Stream of their own"
    ),
}
_WITHIN = {
    "": "avoid copies within a device: work in place, or on views",
    Framework.JAX: "donate the arguments that a call replaces (donate_argnums), which saves copies within a device",
    Framework.PYTORCH: "avoid copies within a device: views and in-place operations, not clone() and contiguous()",
}
# XLA gives what a loop carries one buffer; of two turns in one, the second writes into that of the first.
_IN_LOOP = {
    "": "XLA copies what a loop carries, in every turn: unroll it by two, which can save that",
    Framework.JAX: (
        "XLA copies what a loop carries, in every turn: unroll it by two, which can save that (lax.fori_loop(..., "
        "unroll=2), lax.scan(..., unroll=2)); donated arguments cannot"
    ),
}
_INPUT = {
    "": "load the next batches in other threads or processes, and copy them ahead of their use",
    Framework.JAX: (
        "load the next batches in other threads or processes (Grain, tf.data), and jax.device_put them ahead of use"
    ),
    Framework.PYTORCH: "load the next batches in other processes: DataLoader(num_workers=..., pin_memory=True)",
    Framework.TENSORFLOW: (
        "load ahead, in parallel: map(..., num_parallel_calls=tf.data.AUTOTUNE) and prefetch(tf.data.AUTOTUNE)"
    ),
    Framework.MXNET: "load the next batches in other processes: gluon.data.DataLoader(num_workers=...)",
}
_COMPILED = {
    "": "compile before what is profiled; a longer run hides it",
    Framework.JAX: "keep what was compiled for the next run (jax_compilation_cache_dir); a longer run hides it",
}
_COMPILE = {
    "": "keep shapes the same from call to call, and compile before the loop",
    Framework.JAX: (
        "keep shapes and static arguments the same from call to call, compile before the loop, and keep what was "
        "compiled for the next run (jax_compilation_cache_dir)"
    ),
    Framework.PYTORCH: (
        "keep shapes the same from call to call, or compile for all (dynamic=True); TORCH_LOGS=recompiles tells what "
        "changed"
    ),
    Framework.TENSORFLOW: (
        "keep shapes and Python arguments the same from call to call (tf.function(reduce_retracing=True)), and trace "
        "before the loop"
    ),
}
_PAGEABLE = {
    "": "copy from and to pinned host memory (cudaHostAlloc, cudaHostRegister)",
    Framework.JAX: 'keep what goes to the device in pinned host memory (a sharding of memory_kind="pinned_host")',
    Framework.PYTORCH: "copy from and to pinned host memory (DataLoader(pin_memory=True), tensor.pin_memory())",
    Framework.TENSORFLOW: "let tf.data feed the devices (prefetch), instead of arrays of NumPy",
    Framework.MXNET: "copy from and to pinned host memory (DataLoader(pin_memory=True), mx.cpu_pinned())",
}
_UNIFIED = {
    "": "move it ahead of them (cudaMemPrefetchAsync), or allocate it on the device",
    Framework.JAX: "use no more than the device has: TF_FORCE_UNIFIED_MEMORY swaps the rest",
}
_OWN_STREAM = {
    "": "issue copies on a stream of their own",
    Framework.PYTORCH: "issue copies on a stream of their own (torch.cuda.stream, non_blocking=True)",
    Framework.JAX: "start these copies ahead of the step that needs them, while the one before computes",
}
_PIPELINE = "pipeline micro-batches"
# Where less of the work of devices that took turns was launched ahead of its turn, the host waited before it launched;
# where more was, no wait of the host held it up.
_IN_TURN, _AHEAD_OF_TURN = 0.02, 0.5
_START_ALL = {
    "": "start the work of all devices before waiting for any of it",
    Framework.JAX: (
        "start the work of all devices before waiting for any of it: no block_until_ready or np.asarray in between"
    ),
    Framework.PYTORCH: "start the work of all devices before waiting for any of it: no .item() or .cpu() in between",
    Framework.MXNET: (
        "start the work of all devices before waiting for any of it: no .asnumpy() in between, and not in MXNet's "
        "NaiveEngine"
    ),
}
# Copies into the host's memory that take the host's own time. Into pinned memory the device writes by itself: on an
# H100 (jax 0.11) 50 copies of 64 MB took 60 ms so, and 2.3 s into pageable memory.
_TO_HOST = {
    "": "copy results into pinned host memory, which the device fills by itself, or fetch fewer of them",
    Framework.JAX: (
        "copy results into pinned host memory, which the device fills by itself: "
        'jax.device_put(x, x.sharding.with_memory_kind("pinned_host"))'
    ),
}
# What waits for results, in the words of each framework.
_WAITS = {
    "": "",
    Framework.JAX: " (block_until_ready, np.asarray, float)",
    Framework.PYTORCH: " (.item(), .cpu())",
    Framework.TENSORFLOW: " (.numpy())",
    Framework.MXNET: " (.asnumpy(), .asscalar(), waitall())",
}


def _in_words_of(words: Mapping[str, str], result: advice.Advice) -> str:
    """What to try, in the words of the framework, or else those that hold for all."""
    return words.get(result.program.framework, words[""])


def _does(result: advice.Advice, practice: Practice) -> bool:
    return practice in result.program.does


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
        result=f"{quantity(len(recommendations), 'piece')} of advice, that on the largest loss first.",
        lacking="" if recommendations else unknown or "No cost with a known remedy is above its threshold.",
    )


def _recommendation(finding: advice.Finding, result: advice.Advice, devices: int) -> Recommendation:
    gain = finding.evidence.get("gain_ratio")
    hardly = "" if gain is None else f"; without them, steps would take {percent(gain)} less"
    return Recommendation(
        rule=finding.rule,
        sentence=f"{_SENTENCES[finding.rule](finding, devices)}{hardly}.",
        action=f"{_ACTIONS[finding.rule](finding.evidence, result)}.",
        cost_ps=finding.cost_ps,
        share=finding.share,
        where=next((finding.evidence[it] for it in ("device", "host", "phase") if finding.evidence.get(it)), None),
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


def _around(finding: advice.Finding, devices: int) -> str:
    """Compiling outside the steady steps."""
    steps = finding.evidence["again"]
    where = f"again in {step_numbers(steps)}" if steps else "outside the steady steps"
    whose = "the device" if devices == 1 else "devices"
    length = f"{percent(finding.share)} of the whole trace ({device_time(finding.cost_ps, devices)})"
    return f"Compiling on the host kept {whose} idle for {length}, {where}"


_LATE_LAUNCHES = _idle("Late launches by the host")
# Characters of a name, and of several, in a sentence.
_NAME, _NAMES = 40, 60
# What the host did instead, as analysis.late_launches tells it apart.
_HOST = {
    "after_wait": "after it had waited for the device",
    "launching": "from one launch to the next",
    "copying": "while the host copied results into its memory",
    "allocating": "while the host allocated or freed memory",
    "working": "while the host neither launched nor waited",
}
# Where the trace does not tell that.
_FIND_OUT = "find out what the host does in these gaps, most of which is not recorded"


def _late_launches(finding: advice.Finding, devices: int) -> str:
    host = finding.evidence.get("host")
    sentence = _LATE_LAUNCHES(finding, devices)
    if not host:
        return sentence
    call, operation = finding.evidence.get("call"), finding.evidence.get("operation")
    under = f" under {short(operation, _NAME)}" if operation else ""
    where = f" (mostly in {short(call, _NAME)}{under})" if call else ""
    return f"{sentence}, {percent(finding.evidence['ratio'])} of it {_HOST[host]}{where}"


def _launch_earlier(evidence: Mapping[str, Any], result: advice.Advice) -> str:
    """What helps against late launches, by what the host did instead; both where that is not told."""
    match evidence.get("host"):
        case "after_wait":
            waits = _in_words_of(_WAITS, result)
            later = (
                f"where the next work does not need the results, wait for them later{waits}, and launch it meanwhile"
            )
            call = evidence.get("call", "")
            blocks = f"; {call} blocks on pageable memory: {_in_words_of(_PAGEABLE, result)}"
            first = f"{_FIND_OUT}; " if "unrecorded" in evidence else ""
            return f"{first}{later}{blocks if copies_asynchronously(call) else ''}"
        case "copying":
            return _in_words_of(_TO_HOST, result)
        case "allocating" if frees_memory(evidence.get("call", "")):
            return (
                "free no memory in what is timed, which also waits for the device: use the same buffers again, or an "
                "allocator that keeps them"
            )
        case "allocating":
            memory = "pinned memory" if pins_memory(evidence.get("call", "")) else "memory"
            return (
                f"let it allocate before what is timed: allocators keep {memory} after its first use, so warm up, and "
                "use buffers of the same sizes again"
            )
        case "working":
            fewer = "would help, too: a gap follows most of them" if evidence.get("each_launch") else "would not help"
            what = (
                f"{_FIND_OUT}: Python, data or logging could run"
                if "unrecorded" in evidence
                else "do what it does then (Python, data, logging)"
            )
            return f"{what} in other threads, or a step ahead; fewer or larger launches {fewer}"
    more = _larger_launches(result)
    return more if evidence.get("host") else f"{more}, and wait for results only where they are needed"


def _larger_launches(result: advice.Advice) -> str:
    """How each call of the host can launch more than it does."""
    framework = result.program.framework
    if _does(result, Practice.ONE_PROGRAM) and result.xla:
        several = (
            " or lax.scan over several steps" if framework == Framework.JAX else " or several steps in one program"
        )
        return f"give each call more to do (a step is one program already): a larger batch,{several}"
    if framework == Framework.JAX:
        return "give each call more to do: one jit for the whole step, a larger batch, or lax.scan over steps"
    if result.xla:
        return "give each call more to do: one compiled program for the whole step, or a larger batch"
    if _does(result, Practice.GRAPHS):
        return "launch more with each call: more of the step in each CUDA graph, or a larger batch"
    match framework:
        case Framework.PYTORCH if result.backend != "gpu":
            return "launch more with each call: torch.compile, or a larger batch"
        case Framework.PYTORCH if _does(result, Practice.COMPILE):
            return 'launch more with each call: CUDA graphs (torch.compile(mode="reduce-overhead")), or a larger batch'
        case Framework.PYTORCH:
            return "launch more with each call (CUDA graphs, torch.compile)"
        case Framework.TENSORFLOW:
            return "launch more with each call: tf.function(jit_compile=True), or Keras' steps_per_execution"
        case Framework.MXNET:
            return "launch more with each call: hybridize(static_alloc=True, static_shape=True)"
    graphs = " or CUDA graphs" if result.backend == "gpu" else ""
    return f"launch more with each call: larger kernels{graphs}, or a larger batch"


def _start_faster(evidence: Mapping[str, Any], result: advice.Advice) -> str:
    """What helps where devices are idle while a launch is under way: fewer of them."""
    if result.backend != "gpu":
        return "launch fewer and larger programs"
    in_loop = result.xla and evidence.get("in_loop", 0) > 0.5
    if _does(result, Practice.GRAPHS) and not in_loop:
        return "launch fewer and larger graphs: they are what the devices wait for"
    if result.xla and "graphs_off" in evidence:
        return (
            "launch fewer and larger programs, and many kernels at once: "
            f"XLA_FLAGS={evidence['graphs_off']} turned XLA's CUDA graphs off"
        )
    if in_loop:
        return "unroll the loop in which these launches are: the host launches each of its turns"
    if result.xla:  # what can be in a graph is by default
        return "launch fewer and larger programs"
    if result.program.framework == Framework.PYTORCH:
        return 'launch fewer and larger kernels, or many at once as a CUDA graph: torch.compile(mode="reduce-overhead")'
    return "launch fewer and larger kernels, or many at once as a CUDA graph"


def _took_turns(finding: advice.Finding, devices: int) -> str:
    busy, ratio, phase = finding.evidence["devices"], finding.evidence["ratio_min"], finding.evidence.get("phase")
    groups = finding.evidence.get("groups")
    at_once = f"two at once for at most {percent(ratio)} of their time" if ratio else "never two at once"
    who = f"{len(groups)} groups of devices" if groups else f"{busy} devices"
    who = f"In {phase}, {who}" if phase else who
    of_groups = f"; {short('; '.join(groups), _NAMES)}" if groups else ""
    return f"{who} were serialized ({at_once}{of_groups}), which cost {_of_time(finding, devices)}"


def _link_words(evidence: Mapping[str, Any]) -> str:
    """That a straggler's collectives with some devices are slower than those of other groups."""
    link = evidence.get("slow_link")
    return f"; those of {link['devices']} move {percent(link['ratio'])} of what other groups do" if link else ""


# What a device does longer, by the part of a step that grew.
_GREW = {"compute": "computes", "memory": "copies", "idle": "is idle", "collective": "is in collectives"}


def _slower(finding: advice.Finding, devices: int) -> str:
    evidence = finding.evidence
    device, part = evidence.get("device"), evidence["part"]
    lengths = f"from {time(evidence['first_ps'])} to {time(evidence['last_ps'])}"
    grown = f"{_GREW[part]} {'' if device else 'up to '}{time(evidence['grown_ps'])} longer"
    same = " in as many events" if evidence["same_events"] and part == "compute" else ""
    return (
        f"Steps of {short(evidence['name'], _NAME)} got slower, {lengths}: {device or 'each device'} {grown}{same}, "
        f"which cost {_of_time(finding, devices)}"
    )


# What each rule found on so many devices.
_SENTENCES: Mapping[str, Callable[[advice.Finding, int], str]] = {
    "exposed_collectives": lambda finding, devices: (
        f"Collectives were exposed (not overlapped with compute) for {_of_time(finding, devices)}"
        + (f", most on {finding.evidence['device']} ({percent(finding.evidence['most'])})" if devices > 1 else "")
        + ("; how much of that is waiting is not known" if finding.evidence.get("unknown_waiting") else "")
    ),
    "late_peer": lambda finding, devices: (
        f"{straggler_words(finding.evidence)}: waiting for {'them' if 'host' in finding.evidence else 'it'} cost "
        f"{_of_time(finding, devices)}{_link_words(finding.evidence) or gain_words(finding.evidence)}"
    ),
    "waiting": lambda finding, devices: (
        f"Waiting for others in collectives was exposed for {_of_time(finding, devices)}, half of it in "
        f"{quantity(finding.evidence['longest'], 'wait')} of {finding.evidence['n']:,}"
        + (f", most for {finding.evidence['device']}" if "device" in finding.evidence else "")
        + _busiest(finding.evidence)
    ),
    "slow_link": lambda finding, devices: (
        f"A slow link: {finding.evidence['n']} {finding.evidence['category'] or 'collective'}s of "
        f"{finding.evidence['devices']} move {percent(finding.evidence['ratio'])} of what other groups do, which cost "
        f"{_of_time(finding, devices)}"
    ),
    "slower_steps": _slower,
    "exposed_copies": lambda finding, devices: (
        f"Copies{_directions(finding.evidence)} were exposed for {_of_time(finding, devices)}"
    ),
    "copies_in_compute_lane": lambda finding, devices: (
        f"{percent(finding.evidence['ratio'])} of the exposed copy time was on the streams that run the kernels, where "
        "neither can hide the other"
    ),
    "pageable_copies": lambda finding, devices: (
        f"{percent(finding.evidence['ratio'])} of the exposed copy time used pageable host memory, which is staged and "
        "blocks the host"
    ),
    "unified_memory": lambda finding, devices: (
        f"Kernels during which unified memory was moved ({quantity(finding.evidence['moves'], 'time')}) took "
        f"{_of_time(finding, devices)}, most of it {short(finding.evidence['name'], _NAME)}"
    ),
    "host_bound": _late_launches,
    "input_bound": _idle("Waiting for input on the host"),
    "compiling": lambda finding, devices: (
        _around(finding, devices) if "again" in finding.evidence else _idle("Compiling on the host")(finding, devices)
    ),
    "launch_latency": _idle("Launch latency"),
    "waits_for_copies": _idle("Copies that had to end first"),
    "uneven_work": lambda finding, devices: (
        f"{_idle('Waiting for other devices')(finding, devices)}{_busiest(finding.evidence)}"
    ),
    "busy_machine": lambda finding, devices: (
        f"{machine.taken(finding.evidence)} in {finding.evidence.get('phase', 'the capture')}, and left too few for "
        "the devices"
    ),
    "contention": lambda finding, devices: (
        f"In {finding.evidence['phase']}, {WORK[finding.evidence['kind']]}"
        f"{' and memsets' if finding.evidence.get('memsets') else ''} on {finding.evidence['device']} took "
        f"{factor(finding.evidence['stretch'])} as long as alone, while devices overlapped "
        f"{percent(finding.evidence['overlap_ratio'])}"
    ),
    "took_turns": _took_turns,
}


# What tells whether collectives wait, by why it is not known.
_FIRST: Mapping[str, str] = {
    Unseen.PART: "see the report of the whole trace first, which",
    Unseen.RANKS: "trace all ranks first, which",
    Unseen.CLOCKS: "let all ranks share a few collectives first (barriers), which aligns their clocks and",
    Unseen.MATCHES: "find out first which rows are one collective, which",
}


def _hide_collectives(evidence: Mapping[str, Any], result: advice.Advice) -> str:
    if not evidence.get("unknown_waiting"):
        return _overlap(result, evidence.get("operation"))
    first = _FIRST.get(evidence.get("cause", Unseen.RANKS), _FIRST[Unseen.RANKS])
    return f"{first} tells whether they wait for a late one; if not, {_overlap(result, evidence.get('operation'))}"


def _overlap(result: advice.Advice, operation: str | None = None) -> str:
    """How collectives can be hidden, of which those of this `operation` are exposed most."""
    larger = "give each device more to compute per collective (a larger batch per device), so that some can hide it"
    if result.xla and result.backend == "gpu":
        if not _does(result, Practice.OVERLAP):
            return "let XLA overlap them with compute: XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true"
        if result.program.framework == Framework.JAX:
            return "XLA overlaps some already: let it use measured times (JAX_ENABLE_PGLE=true), or a larger batch"
    if result.xla:
        return larger
    match result.program.framework:
        case Framework.PYTORCH:
            if _does(result, Practice.FSDP) and operation in ("all-gather", "reduce-scatter"):
                return (
                    "gather parameters earlier: set_modules_to_forward_prefetch and set_modules_to_backward_prefetch "
                    "(FSDP2), or a larger batch"
                )
            if _does(result, Practice.DDP) and operation == "all-reduce":
                return (
                    "DDP overlaps gradients with backward already: try another bucket_cap_mb, no_sync() while gradients"
                    " accumulate, or a larger batch"
                )
            return "start them earlier and wait for them later (async_op=True), beside independent compute"
        case Framework.TENSORFLOW:
            return (
                "a larger batch per replica, or gradients in packs: "
                "tf.distribute.experimental.CommunicationOptions(bytes_per_pack=...)"
            )
    return "start them earlier and wait for them later, on a stream of their own, or give each device more to compute"


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
    direction = evidence["direction"]
    both_ways = not direction and {"H2D", "D2H"} <= {*_much_copied(evidence)}
    if "hideable" in evidence and direction in ("H2D", "D2H"):
        return _copy_less(evidence)
    if result.xla and evidence.get("in_program", 0) > 0.5 and (both_ways or direction in ("H2D", "D2H")):
        how = ' (fewer arrays of memory_kind="pinned_host", fewer names in the checkpoint policy)'
        return (
            "the program itself offloads to the host: keep more of it on the device"
            f"{how if result.program.framework == Framework.JAX else ''}, or give it more to compute meanwhile"
        )
    if both_ways and "hideable" in evidence:
        return _copy_less(evidence)
    if both_ways:
        return "keep on the device what goes to the host and comes back (offloading), or start both copies earlier"
    if direction == "D2D" and result.xla and result.backend == "tpu":
        return (
            "XLA moves these between memories of the device: a larger batch gives it more compute to hide them behind"
        )
    pinned = evidence.get("host_memory") == "pinned"
    match direction:
        case "H2D":
            return _in_words_of(_AHEAD_FROM_PINNED if pinned else _AHEAD, result)
        case "D2H":
            return _in_words_of(_RESULTS_TO_PINNED if pinned else _RESULTS, result)
        case "P2P":
            return "shard the data so that devices need less of each other's, or start these copies earlier"
        case "D2D" if result.xla and evidence.get("in_loop", 0) > 0.5:
            return _in_words_of(_IN_LOOP, result)
        case "D2D":
            return _in_words_of(_WITHIN, result)
    if result.backend == "cpu":  # its copies take the cores and the memory that would compute meanwhile
        return "avoid these copies: work in place, or on views"
    return "start copies earlier than their results are needed"


def _copy_less(evidence: Mapping[str, Any]) -> str:
    """What helps where there is too little compute for copies to hide behind."""
    return (
        f"copy less: there is compute to hide at most {percent(evidence['hideable'])} of that (keep data on the "
        "device, a smaller type, only what changed; else more compute for each byte, or a faster link)"
    )


def _separate(evidence: Mapping[str, Any], result: advice.Advice) -> str:
    """How copies get a stream of their own."""
    if result.xla and evidence.get("in_program", 0) > 0.5:
        step = "jitted step" if result.program.framework == Framework.JAX else "compiled program"
        return f"take the copies out of the {step}, so that they get a stream of their own"
    return _in_words_of(_OWN_STREAM, result)


def _take_no_turns(evidence: Mapping[str, Any], result: advice.Advice) -> str:
    """What helps where devices worked one after the other: by the host's choice, or since each needs what another
    made."""
    ahead = evidence.get("ahead", _IN_TURN)
    if ahead < _IN_TURN:
        return _in_words_of(_START_ALL, result)
    if ahead < _AHEAD_OF_TURN:
        return f"{_START_ALL['']}; if one needs another's result, {_PIPELINE}"
    return f"if one needs another's result (their work was launched ahead of its turn), {_PIPELINE}"


def _load_ahead(evidence: Mapping[str, Any], result: advice.Advice) -> str:
    if result.program.framework == Framework.PYTORCH and _does(result, Practice.LOADER_PROCESSES):
        return "the DataLoader has processes already: give it more (num_workers), or a larger prefetch_factor"
    if result.program.framework == Framework.TENSORFLOW and _does(result, Practice.PREFETCH):
        return (
            "the input is prefetched already: make it faster (num_parallel_calls=tf.data.AUTOTUNE, interleave, cache)"
        )
    return _in_words_of(_INPUT, result)


def _keep_pace(evidence: Mapping[str, Any], result: advice.Advice) -> str:
    """What helps where steps get slower, by what grew in them."""
    match evidence["part"]:
        case "compute" if evidence["same_events"]:
            tool = " (nvidia-smi -q -d CLOCK,PERFORMANCE; rocm-smi)" if result.backend == "gpu" else ""
            what = "at what else takes the cores" if result.backend == "cpu" else f"at temperature and clocks{tool}"
            return f"look {what}, or at data that grows"
        case "compute":
            return "look at what grows from step to step: longer sequences, a cache, more programs"
        case "memory":
            return "look at what is copied: there is more of it, or the link slows down"
        case "idle":
            return "look at what the host does more and more of: lists, logs or caches that grow, garbage collection"
    return "see which device is late more and more, or whether the network slows down"


def _come_together(evidence: Mapping[str, Any], result: advice.Advice) -> str:
    """What helps where devices wait in collectives, and none is late so often that it is a straggler."""
    if "busiest" in evidence:
        it = "it" if len(evidence["busiest"]) == 1 else "each"
        if evidence.get("category") in FROM_ONE_TO_ONE:
            return f"give {it} less of the model, so that stages take equally long; more micro-batches fill a pipeline"
        return f"see what takes {it} longer: more work, as of uneven shards or batches, or a lower clock"
    if evidence.get("category") in FROM_ONE_TO_ONE:
        return "more micro-batches fill a pipeline better, and so do stages that take equally long"
    if few := 5 * evidence["longest"] < evidence["n"]:
        what = "it did" if "device" in evidence else "the last device did"
    else:
        what = "takes it longer" if "device" in evidence else "differs between devices"
    pauses = "checkpoints, evaluation, garbage collection, a late batch" if few else "work, input, clocks"
    return f"see what {what} before them: {pauses}"


def _busiest(evidence: Mapping[str, Any]) -> str:
    """The devices that compute longer than the others, as the end of a sentence."""
    names = evidence.get("busiest", [])
    if not names:
        return ""
    rest = names[1] if len(names) == 2 else quantity(len(names) - 1, "other")
    who = f"{names[0]} computes" if len(names) == 1 else f"{names[0]} and {rest} compute"
    return f"; {who} {factor(evidence['ratio'])} the time of the rest"


_LINK_TOOLS = "nvidia-smi topo -m and nvlink -s, NCCL_DEBUG=INFO"
_ACTIONS: Mapping[str, Callable[[Mapping[str, Any], advice.Advice], str]] = {
    "exposed_collectives": _hide_collectives,
    "late_peer": lambda evidence, result: (
        f"compare what the devices of {evidence['host']} do before them with those of other hosts: more work, a slower "
        "input, fewer cores, a lower clock"
        if "host" in evidence
        else f"look at the link between {evidence['slow_link']['devices']} first ({_LINK_TOOLS}): what is late may "
        "only have waited for its data"
        if "slow_link" in evidence
        else f"compare what {evidence['device']} does before them with the others: more work, a slower input, a lower "
        "clock"
    ),
    "waiting": _come_together,
    "slow_link": lambda evidence, result: f"look at how {evidence['devices']} are connected ({_LINK_TOOLS})",
    "slower_steps": _keep_pace,
    "exposed_copies": _hide_copies,
    "copies_in_compute_lane": _separate,
    "pageable_copies": lambda evidence, result: _in_words_of(_PAGEABLE, result),
    "unified_memory": lambda evidence, result: _in_words_of(_UNIFIED, result),
    "host_bound": _launch_earlier,
    "input_bound": _load_ahead,
    "compiling": lambda evidence, result: _in_words_of(_COMPILED if evidence.get("again") == [] else _COMPILE, result),
    "launch_latency": _start_faster,
    "waits_for_copies": lambda evidence, result: "start those copies earlier, while the device still computes",
    "uneven_work": lambda evidence, result: (
        f"give {'it' if len(evidence['busiest']) == 1 else 'each'} less of the work: even shards, batches or stages"
    ),
    "busy_machine": lambda evidence, result: "stop them, or use cores that are free, and capture again",
    "contention": lambda evidence, result: (
        "give each fewer threads, or place them apart: they share cores, memory bandwidth or a link"
        if result.backend == "cpu"
        else "place them apart, or run one after the other: they share memory bandwidth, a link or the host"
    ),
    "took_turns": _take_no_turns,
}
