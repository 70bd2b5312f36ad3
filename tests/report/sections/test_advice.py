"""The words of every finding: what is so, with its figures, and one thing to try."""

import inspect
import json
from pathlib import Path

import pytest

from tracekit.analysis import advice
from tracekit.analysis.advice import Advice, Finding
from tracekit.analysis.program import Program
from tracekit.report.sections.advice import _ACTIONS, _SENTENCES, section
from tracekit.vocabulary.frameworks import Framework, Practice

DOCS = Path(__file__).parents[3] / "docs"
FINDINGS = {
    "exposed_collectives": {"device": "gpu:1", "most": 0.4},
    "late_peer": {"device": "gpu:3", "last": 14, "n": 16},
    "waiting": {"longest": 3, "n": 60, "device": "gpu:3", "category": "all-reduce"},
    "slow_link": {"devices": "gpu:2, gpu:3", "category": "all-reduce", "n": 40, "ratio": 0.4},
    "slower_steps": {
        "name": "train",
        "steps": 30,
        "first_ps": 100 * 10**9,
        "last_ps": 120 * 10**9,
        "part": "compute",
        "device": "gpu:2",
        "grown_ps": 20 * 10**9,
        "same_events": True,
    },
    "exposed_copies": {"direction": "H2D", "by_direction_ps": {"H2D": 5}},
    "copies_in_compute_lane": {"ratio": 0.75},
    "unified_memory": {"moves": 12_288, "name": "void add<float>(int, float *, float *)"},
    "pageable_copies": {"ratio": 0.5},
    **{rule: {"gaps": 12} for rule, _ in advice.IDLE.values()},
    "uneven_work": {"gaps": 12, "busiest": ["gpu:3"], "ratio": 2.03},
    "busy_machine": {"cores": 2, "other_cores": 0.98, "stolen_cores": 0.0},
    "contention": {"phase": "both", "overlap_ratio": 0.98, "stretch": 1.9, "device": "cpu:1", "kind": "compute"},
    "took_turns": {"devices": 2, "ratio_min": 0.03},
}


# What only one framework has, and what only JAX has that another runs through XLA.
OWN_WORDS = {
    Framework.JAX: (
        "jax",
        "one jit",
        "jitted",
        "lax.",
        "donate_argnums",
        "copy_to_host_async",
        "PGLE",
        "block_until_ready",
        "Grain",
    ),
    Framework.PYTORCH: (
        "torch",
        "TORCH",
        ".item()",
        "non_blocking",
        "async_op",
        "DDP",
        "FSDP",
        "clone()",
        "prefetch_f",
    ),
    Framework.TENSORFLOW: ("tf.function", "tf.distribute", "AUTOTUNE", "Keras", ".numpy()"),
    Framework.MXNET: ("hybridize", "asnumpy", "as_in_context", "gluon", "mx.", "NaiveEngine"),
}
# Each rule with other evidence and what the program does already.
CASES = [
    *((rule, evidence, ()) for rule, evidence in FINDINGS.items()),
    *(
        ("host_bound", {"gaps": 2, "host": host, "ratio": 0.5}, ())
        for host in ("after_wait", "launching", "copying", "allocating", "working")
    ),
    *(
        ("host_bound", {"gaps": 2, "host": host, "ratio": 0.5, "unrecorded": 0.9}, ())
        for host in ("after_wait", "working")
    ),
    ("host_bound", {"gaps": 2, "host": "working", "ratio": 0.5, "each_launch": True}, ()),
    *(("waiting", {"longest": 3, "n": n} | more, ()) for n in (5, 60) for more in ({}, {"device": "gpu:3"})),
    ("waiting", {"longest": 3, "n": 60, "category": "send-recv"}, ()),
    *(
        ("waiting", {"longest": 3, "n": 60, "category": category, "busiest": names, "ratio": 1.61}, ())
        for category in ("send-recv", "all-reduce")
        for names in (["gpu:3"], ["gpu:3", "gpu:1", "gpu:2"])
    ),
    ("uneven_work", {"gaps": 12, "busiest": ["gpu:3", "gpu:1", "gpu:2"], "ratio": 1.61}, ()),
    *(
        ("slower_steps", FINDINGS["slower_steps"] | {"part": part, "same_events": same}, ())
        for part in ("compute", "memory", "idle", "collective")
        for same in (True, False)
    ),
    *(("exposed_copies", {"direction": way, "by_direction_ps": {way: 5}}, ()) for way in ("D2H", "D2D", "P2P")),
    ("exposed_copies", {"direction": "H2D", "by_direction_ps": {"H2D": 5}, "host_memory": "pinned"}, ()),
    ("exposed_copies", {"direction": "H2D", "by_direction_ps": {"H2D": 5}, "in_program": 1.0}, ()),
    ("copies_in_compute_lane", {"ratio": 0.75, "in_program": 1.0}, ()),
    *(("host_bound", {"gaps": 2, "host": "launching", "ratio": 0.5}, (practice,)) for practice in Practice),
    *(("launch_latency", {"gaps": 2}, (practice,)) for practice in Practice),
    ("launch_latency", {"gaps": 2, "in_loop": 0.9}, ()),
    ("launch_latency", {"gaps": 2, "graphs_off": "--xla_gpu_enable_command_buffer="}, ()),
    ("exposed_copies", {"direction": "D2D", "by_direction_ps": {"D2D": 5}, "in_loop": 0.9}, ()),
    *(("input_bound", {"gaps": 2}, (practice,)) for practice in Practice),
    *(("took_turns", FINDINGS["took_turns"] | {"ahead": ahead}, ()) for ahead in (0.0, 0.1, 0.9)),
    ("took_turns", FINDINGS["took_turns"] | {"devices": 4, "groups": ["gpu:0, gpu:1", "gpu:2, gpu:3"]}, ()),
    *(
        ("exposed_collectives", FINDINGS["exposed_collectives"] | {"operation": operation}, (practice,))
        for operation in ("all-reduce", "all-gather")
        for practice in Practice
    ),
]


def advice_of(rule: str, backend: str = "gpu", xla: bool = True) -> Advice:
    return Advice((Finding(rule, 3 * 10**9, 0.25, FINDINGS[rule]),), backend, xla)


def remedy(rule, framework="", *does, backend="gpu", xla=None, **evidence) -> str:
    """What to try in a program of a framework that does some things already."""
    xla = framework == Framework.JAX if xla is None else xla
    what_runs = Program(framework, "a test", dict.fromkeys(does, "a test"))
    finding = Finding(rule, 3 * 10**9, 0.25, FINDINGS[rule] | evidence)
    return section(Advice((finding,), backend, xla, what_runs), 2).findings[0].action


@pytest.mark.parametrize("framework", ["", *Framework])
def test_no_framework_is_advised_in_the_words_of_another(framework):
    strange = [word for other, words in OWN_WORDS.items() if other != framework for word in words]
    for rule, evidence, does in CASES:
        for backend in ("gpu", "tpu", "cpu", ""):
            for xla in (True, False) if framework != Framework.JAX else (True,):
                if rule == "exposed_copies" and not xla:
                    evidence = {key: value for key, value in evidence.items() if key != "in_program"}
                action = remedy(rule, framework, *does, backend=backend, xla=xla, **evidence)
                assert [word for word in strange if word in action] == [], (rule, action)
                assert "CUDA" not in action or backend == "gpu" or Practice.GRAPHS in does, (rule, action)


@pytest.mark.parametrize("rule", FINDINGS)
@pytest.mark.parametrize("framework", ["", *Framework])
@pytest.mark.parametrize("xla", [True, False])
def test_every_finding_says_what_is_so_and_one_thing_to_try(rule, framework, xla):
    of_rule = Advice((Finding(rule, 3 * 10**9, 0.25, FINDINGS[rule]),), "gpu", xla, Program(framework))
    (finding,) = section(of_rule, 2).findings
    assert (finding.rule, finding.cost_ps, finding.share) == (rule, 3 * 10**9, 0.25)
    assert any(letter.isdigit() for letter in finding.sentence)
    assert finding.sentence.endswith(".")
    assert finding.action.endswith(".")
    assert len(finding.sentence) + len(finding.action) < 280


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        ("ranks", "trace all ranks first, which tells whether they wait for a late one; if not, "),
        ("clocks", "let all ranks share a few collectives first (barriers), which aligns their clocks and tells "),
        ("matches", "find out first which rows are one collective, which tells whether they wait for a late one"),
    ],
)
def test_where_waiting_is_not_known_the_remedy_tells_what_would_show_it(cause, remedy):
    evidence = {**FINDINGS["exposed_collectives"], "unknown_waiting": True, "cause": cause}
    (finding,) = section(Advice((Finding("exposed_collectives", 1, 0.2, evidence),), "gpu", False), 2).findings
    assert "how much of that is waiting is not known" in finding.sentence
    assert finding.action.startswith(remedy)


@pytest.mark.parametrize(
    ("times", "words", "remedy"),
    [
        ({"H2D": 60, "D2H": 59}, "Copies (H2D and D2H) were exposed", "keep on the device what goes to the host"),
        ({"D2H": 40, "P2P": 30}, "Copies (D2H and P2P) were exposed", "start copies earlier"),
        ({}, "Copies were exposed", "start copies earlier"),
    ],
)
def test_copies_in_several_directions_name_them_and_have_a_remedy_for_all(times, words, remedy):
    evidence = {"direction": None, "by_direction_ps": times}
    (finding,) = section(Advice((Finding("exposed_copies", 1, 0.2, evidence),), "tpu", True), 2).findings
    assert finding.sentence.startswith(words)
    assert finding.action.startswith(remedy)


def test_copies_of_a_cpu_device_alone_are_not_started_earlier_but_avoided():
    evidence = {"direction": None, "by_direction_ps": {}}
    remedies = [
        section(Advice((Finding("exposed_copies", 1, 0.2, evidence),), backend, False), 1).findings[0].action
        for backend in ("cpu", "gpu")
    ]
    assert remedies == [
        "avoid these copies: work in place, or on views.",
        "start copies earlier than their results are needed.",
    ]


def test_the_time_of_one_device_is_no_sum():
    sentences = [section(advice_of(rule), 1).findings[0].sentence for rule in ("host_bound", "exposed_collectives")]
    assert sentences == [
        "Late launches by the host kept the device idle for 25.0 % of its time (3.00 ms), in 12 gaps.",
        "Collectives were exposed (not overlapped with compute) for 25.0 % of the device's time (3.00 ms).",
    ]


@pytest.mark.parametrize(
    ("host", "framework", "what", "remedy"),
    [
        ("after_wait", "", "after it had waited for the device", "where the next work does not need the results, wait"),
        (
            "after_wait",
            "PyTorch",
            "after it had waited for the device",
            "where the next work does not need the results, wait for them later (.item(), .cpu()), and launch it",
        ),
        ("launching", "", "from one launch to the next", "launch more with each call: larger kernels or CUDA graphs"),
        (
            "launching",
            "PyTorch",
            "from one launch to the next",
            "launch more with each call (CUDA graphs, torch.compile).",
        ),
        ("launching", "JAX", "from one launch to the next", "give each call more to do: one jit for the whole step"),
        ("launching", "TensorFlow", "from one launch to the next", "launch more with each call: tf.function(jit_comp"),
        ("launching", "MXNet", "from one launch to the next", "launch more with each call: hybridize(static_alloc"),
        (
            "working",
            "PyTorch",
            "while the host neither launched nor waited",
            "do what it does then (Python, data, logging) in other threads",
        ),
        (
            "working",
            "JAX",
            "while the host neither launched nor waited",
            "do what it does then (Python, data, logging) in other threads",
        ),
    ],
)
def test_the_remedy_for_late_launches_fits_what_the_host_did_instead(host, framework, what, remedy):
    late = Finding("host_bound", 3 * 10**9, 0.25, {"gaps": 12, "host": host, "ratio": 0.8})
    (finding,) = section(Advice((late,), "gpu", framework == "JAX", Program(framework)), 1).findings
    assert finding.sentence.endswith(f", in 12 gaps, 80.0 % of it {what}.")
    assert finding.action.startswith(remedy)
    assert len(finding.sentence) + len(finding.action) < 280


def test_where_a_gap_follows_most_launches_fewer_of_them_help():
    evidence = {"gaps": 3, "host": "working", "ratio": 0.8}
    assert remedy("host_bound", "", **evidence).endswith("; fewer or larger launches would not help.")
    told = remedy("host_bound", "", **evidence, each_launch=True)
    assert told.endswith("; fewer or larger launches would help, too: a gap follows most of them.")


@pytest.mark.parametrize(
    ("host", "then"),
    [
        (
            "after_wait",
            "; where the next work does not need the results, wait for them later, and launch it meanwhile.",
        ),
        (
            "working",
            ": Python, data or logging could run in other threads, or a step ahead; fewer or larger launches would not "
            "help.",
        ),
        ("launching", None),
    ],
)
def test_where_most_of_the_gaps_is_not_recorded_it_is_to_be_found_out_first(host, then):
    told = remedy("host_bound", "", gaps=3, host=host, ratio=0.8, unrecorded=0.9)
    find_out = "find out what the host does in these gaps, most of which is not recorded"
    assert told == f"{find_out}{then}" if then else find_out not in told


def test_late_launches_after_a_wait_name_the_call_and_where_it_stands():
    evidence = {
        "gaps": 3,
        "host": "after_wait",
        "ratio": 0.8,
        "call": "cudaStreamSynchronize",
        "operation": "aten::item",
    }
    (finding,) = section(Advice((Finding("host_bound", 10**9, 0.2, evidence),), "gpu", False), 1).findings
    assert "waited for the device (mostly in cudaStreamSynchronize under aten::item)." in finding.sentence
    evidence.pop("operation")
    (finding,) = section(Advice((Finding("host_bound", 10**9, 0.2, evidence),), "gpu", False), 1).findings
    assert "waited for the device (mostly in cudaStreamSynchronize)." in finding.sentence


def test_an_asynchronous_copy_that_blocked_is_told_to_go_through_pinned_memory():
    waited = {"gaps": 3, "host": "after_wait", "ratio": 0.8}
    told = remedy("host_bound", "PyTorch", **waited, call="cudaMemcpyAsync")
    assert told.endswith(
        "; cudaMemcpyAsync blocks on pageable memory: copy from and to pinned host memory (DataLoader("
        "pin_memory=True), tensor.pin_memory())."
    )
    for call in ("cudaMemcpy", "cudaStreamSynchronize"):
        assert "pageable" not in remedy("host_bound", "PyTorch", **waited, call=call)


@pytest.mark.parametrize(
    ("host", "call", "framework", "sentence", "action"),
    [
        (
            "copying",
            "ArrayImpl.copy_to_host_async",
            "JAX",
            "while the host copied results into its memory (mostly in ArrayImpl.copy_to_host_async).",
            "copy results into pinned host memory, which the device fills by itself: jax.device_put(x, "
            'x.sharding.with_memory_kind("pinned_host")).',
        ),
        (
            "allocating",
            "cuMemHostAlloc",
            "JAX",
            "while the host allocated or freed memory (mostly in cuMemHostAlloc).",
            "let it allocate before what is timed: allocators keep pinned memory after its first use, so warm up, and "
            "use buffers of the same sizes again.",
        ),
        (
            "allocating",
            "cudaFree",
            "",
            "while the host allocated or freed memory (mostly in cudaFree).",
            "free no memory in what is timed, which also waits for the device: use the same buffers again, or an "
            "allocator that keeps them.",
        ),
        (
            "allocating",
            "cudaMalloc",
            "PyTorch",
            "while the host allocated or freed memory (mostly in cudaMalloc).",
            "let it allocate before what is timed: allocators keep memory after its first use, so warm up, and use "
            "buffers of the same sizes again.",
        ),
    ],
)
def test_a_call_that_took_the_hosts_own_time_is_named_and_has_a_remedy_of_its_own(
    host, call, framework, sentence, action
):
    late = Finding("host_bound", 3 * 10**9, 0.25, {"gaps": 12, "host": host, "ratio": 0.8, "call": call})
    (finding,) = section(Advice((late,), "gpu", framework == "JAX", Program(framework)), 1).findings
    assert finding.sentence.endswith(f", in 12 gaps, 80.0 % of it {sentence}")
    assert finding.action == action


LAUNCHING = {"gaps": 12, "host": "launching", "ratio": 0.8}


def test_a_step_that_is_one_program_already_is_not_told_to_be_one():
    assert "one jit" in remedy("host_bound", "JAX", **LAUNCHING)
    one = remedy("host_bound", "JAX", Practice.ONE_PROGRAM, **LAUNCHING)
    assert one.startswith("give each call more to do (a step is one program already): a larger batch, or lax.scan")


def test_a_program_of_graphs_is_not_told_to_use_graphs():
    assert "CUDA graphs, torch.compile" in remedy("host_bound", "PyTorch", **LAUNCHING)
    assert "more of the step in each CUDA graph" in remedy("host_bound", "PyTorch", Practice.GRAPHS, **LAUNCHING)
    assert remedy("launch_latency", "JAX", Practice.GRAPHS).startswith("launch fewer and larger graphs")
    assert remedy("launch_latency", "JAX", backend="tpu") == "launch fewer and larger programs."


def test_xla_is_told_of_graphs_only_where_they_are_turned_off_or_a_loop_is_in_none():
    """By default all that can be in a graph is, but loops; a list of less would take some of it out."""
    assert remedy("launch_latency", "JAX") == "launch fewer and larger programs."
    turned_off = remedy("launch_latency", "JAX", graphs_off="--xla_gpu_enable_command_buffer=", in_loop=0.1)
    assert turned_off.endswith("XLA_FLAGS=--xla_gpu_enable_command_buffer= turned XLA's CUDA graphs off.")
    for does in ((), (Practice.GRAPHS,)):
        loops = remedy("launch_latency", "JAX", *does, in_loop=0.9)
        assert loops.endswith("unroll the loop in which these launches are: the host launches each of its turns.")
    assert remedy("launch_latency", "JAX", backend="tpu", in_loop=0.9) == "launch fewer and larger programs."


def test_copies_in_a_loop_are_not_told_to_be_saved_by_donation():
    within = {"direction": "D2D", "by_direction_ps": {"D2D": 5}, "in_program": 1.0}
    assert "donate_argnums" in remedy("exposed_copies", "JAX", **within, in_loop=0.4)
    in_loop = remedy("exposed_copies", "JAX", **within, in_loop=0.9)
    assert "unroll=2" in in_loop
    assert "donate_argnums" not in in_loop


def test_a_compiled_model_is_told_of_graphs_and_not_to_be_compiled():
    action = remedy("host_bound", "PyTorch", Practice.COMPILE, **LAUNCHING)
    assert action.startswith('launch more with each call: CUDA graphs (torch.compile(mode="reduce-overhead"))')


@pytest.mark.parametrize("framework", ["", "PyTorch"])
@pytest.mark.parametrize("direction", ["H2D", "D2H"])
def test_copies_through_pinned_memory_are_not_told_to_be(framework, direction):
    assert "pinned" in remedy("exposed_copies", framework, direction=direction)
    assert "pinned already" in remedy("exposed_copies", framework, direction=direction, host_memory="pinned")
    assert "pinned already" not in remedy("exposed_copies", framework, direction=direction, host_memory="pageable")


def test_offloading_inside_the_program_is_no_device_put():
    both = {"direction": None, "by_direction_ps": {"H2D": 5, "D2H": 5}}
    assert "device_put" in remedy("exposed_copies", "JAX")
    for evidence in ({"in_program": 1.0}, {"in_program": 0.9, **both}):
        action = remedy("exposed_copies", "JAX", backend="tpu", **evidence)
        assert action.startswith("the program itself offloads to the host: keep more of it on the device")
    assert "device_put" in remedy("exposed_copies", "JAX", in_program=0.2)
    assert "offloads" not in remedy("exposed_copies", "JAX", backend="tpu", **both)


def test_copies_of_a_program_leave_it_and_others_get_a_stream():
    assert "out of the jitted step" in remedy("copies_in_compute_lane", "JAX", in_program=0.8)
    assert "out of the compiled program" in remedy("copies_in_compute_lane", "", xla=True, in_program=0.8)
    assert "out of" not in remedy("copies_in_compute_lane", "JAX")
    assert "torch.cuda.stream" in remedy("copies_in_compute_lane", "PyTorch")


def test_the_scheduler_is_not_named_where_it_hides_collectives_already():
    assert "latency_hiding_scheduler" in remedy("exposed_collectives", "JAX")
    assert "latency_hiding_scheduler" not in remedy("exposed_collectives", "JAX", Practice.OVERLAP)


@pytest.mark.parametrize(
    ("practice", "operation", "words"),
    [
        (Practice.DDP, "all-reduce", "bucket_cap_mb"),
        (Practice.DDP, "all-to-all", "async_op=True"),
        (Practice.FSDP, "all-gather", "set_modules_to_forward_prefetch"),
        (Practice.FSDP, "all-reduce", "async_op=True"),
        (Practice.COMPILE, "all-reduce", "async_op=True"),
    ],
)
def test_wrappers_that_overlap_already_are_told_their_own_options(practice, operation, words):
    assert words in remedy("exposed_collectives", "PyTorch", practice, operation=operation)


def test_a_loader_with_processes_is_not_told_to_have_some():
    assert "other processes" in remedy("input_bound", "PyTorch")
    assert "has processes already" in remedy("input_bound", "PyTorch", Practice.LOADER_PROCESSES)
    assert "prefetch(" in remedy("input_bound", "TensorFlow")
    assert "prefetched already" in remedy("input_bound", "TensorFlow", Practice.PREFETCH)


def test_only_cpu_devices_share_cores():
    assert remedy("contention", backend="cpu").startswith("give each fewer threads")
    assert remedy("contention", backend="gpu").startswith("place them apart")


def test_devices_that_never_overlap_are_told_so():
    never = Finding("took_turns", 1, 0.1, {"devices": 3, "ratio_min": 0.0})
    (finding,) = section(Advice((never,), "gpu", True), 3).findings
    assert finding.sentence == (
        "3 devices were serialized (never two at once), which cost 10.0 % of the devices' time (1 ps summed over 3 "
        "devices)."
    )


def test_what_helps_against_turns_depends_on_whether_their_work_was_launched_ahead():
    start_all, pipeline = "start the work of all devices before waiting", "pipeline micro-batches"
    for ahead, words in ((0.0, [start_all]), (0.1, [start_all, pipeline]), (0.9, [pipeline])):
        action = remedy("took_turns", "JAX", ahead=ahead)
        assert [text for text in (start_all, pipeline) if text in action] == words
    assert all(text in remedy("took_turns") for text in (start_all, pipeline))


def test_contention_says_what_slowed_down_in_the_words_of_the_verdict():
    slow = FINDINGS["contention"] | {"kind": "memory"}
    (finding,) = section(Advice((Finding("contention", 1, None, slow),), "gpu", True), 2).findings
    assert finding.sentence == (
        "In both, copies on cpu:1 took 1.90x as long as alone, while devices overlapped 98.0 %."
    )


def test_a_finding_knows_the_device_or_the_phase_that_it_is_about():
    where = {rule: section(advice_of(rule), 2).findings[0].where for rule in FINDINGS}
    assert {rule: place for rule, place in where.items() if place} == {
        "exposed_collectives": "gpu:1",
        "late_peer": "gpu:3",
        "waiting": "gpu:3",
        "slower_steps": "gpu:2",
        "contention": "cpu:1",
    }


def test_every_rule_has_words_and_no_words_lack_a_rule():
    source = inspect.getsource(advice)
    assert set(FINDINGS) == set(_SENTENCES) == set(_ACTIONS)
    assert all(f'"{rule}"' in source for rule in FINDINGS)


def test_the_scheduler_flag_is_for_xla_on_gpus_alone():
    flag = "xla_gpu_enable_latency_hiding_scheduler"
    names_flag = {
        (backend, xla): flag in section(advice_of("exposed_collectives", backend, xla), 2).findings[0].action
        for backend in ("gpu", "tpu")
        for xla in (True, False)
    }
    assert names_flag == {("gpu", True): True, ("gpu", False): False, ("tpu", True): False, ("tpu", False): False}


def test_the_section_holds_the_figures_as_plain_data():
    result = section(advice_of("late_peer"), 4)
    assert json.loads(json.dumps(result.data)) == [
        {
            "rule": "late_peer",
            "finding": (
                "gpu:3 was the straggler in 14 of 16 collectives: waiting for it cost 25.0 % of the devices' time "
                "(3.00 ms summed over 4 devices)."
            ),
            "remedy": "compare what gpu:3 does before them with the others: more work, a slower input, a lower clock.",
            "cost_ps": 3 * 10**9,
            "share": 0.25,
            "evidence": {"device": "gpu:3", "last": 14, "n": 16},
        }
    ]


@pytest.mark.parametrize(
    ("evidence", "finding", "remedy"),
    [
        (
            {"device": "gpu:3", "last": 14, "n": 16, "gain_ps": 10**9},
            "gpu:3 was the straggler in 14 of 16 collectives: waiting for it cost 25.0 % of the devices' time (3.00 ms "
            "summed over 4 devices); on time, it alone would save 1.00 ms, as others come nearly as late.",
            "compare what gpu:3 does",
        ),
        (
            {"host": "h2", "devices": 8, "last": 14, "n": 16, "gain_ps": 10**9},
            "The 8 devices of h2 were the stragglers in 14 of 16 collectives: waiting for them cost 25.0 % of the "
            "devices' time (3.00 ms summed over 4 devices); on time, they would save 1.00 ms.",
            "compare what the devices of h2 do before them with those of other hosts",
        ),
        (
            {"device": "gpu:3", "last": 14, "n": 16, "slow_link": {"devices": "gpu:2, gpu:3", "ratio": 0.4}},
            "gpu:3 was the straggler in 14 of 16 collectives: waiting for it cost 25.0 % of the devices' time (3.00 ms "
            "summed over 4 devices); those of gpu:2, gpu:3 move 40.0 % of what other groups do.",
            "look at the link between gpu:2, gpu:3 first",
        ),
    ],
)
def test_a_straggler_is_told_with_what_its_being_on_time_would_save(monkeypatch, evidence, finding, remedy):
    monkeypatch.setitem(FINDINGS, "late_peer", evidence)
    (told,) = section(advice_of("late_peer"), 4).data
    assert told["finding"] == finding
    assert told["remedy"].startswith(remedy)


@pytest.mark.parametrize("direction", ["H2D", "D2H"])
def test_copies_that_no_compute_could_hide_are_not_to_be_started_earlier(direction):
    told = remedy("exposed_copies", Framework.PYTORCH, direction=direction, hideable=0.03)
    assert told.startswith("copy less: there is compute to hide at most 3.0 % of that (")
    assert "Stream" in remedy("exposed_copies", Framework.PYTORCH, direction="H2D", host_memory="pinned")


def test_without_findings_the_section_says_so():
    assert section(Advice((), "gpu", True), 2).lacking.startswith("No cost")


def test_the_docs_list_every_rule():
    page = (DOCS / "advice.md").read_text("utf-8")
    assert [rule for rule in FINDINGS if f"`{rule}`" not in page] == []


def test_what_holds_nothing_up_says_what_steps_would_take_without_it():
    evidence = FINDINGS["exposed_copies"] | {"gain_ratio": 0.004}
    (finding,) = section(Advice((Finding("exposed_copies", 3 * 10**9, 0.25, evidence),), "gpu", True), 2).findings
    assert finding.sentence.endswith("(3.00 ms summed over 2 devices); without them, steps would take 0.4 % less.")
