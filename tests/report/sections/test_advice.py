"""The words of every finding: what is so, with its figures, and one thing to try."""

import inspect
import json
from pathlib import Path

import pytest

from tracekit.analysis import advice
from tracekit.analysis.advice import Advice, Finding
from tracekit.report.sections.advice import _ACTIONS, _SENTENCES, section

DOCS = Path(__file__).parents[3] / "docs"
FINDINGS = {
    "exposed_collectives": {"device": "gpu:1", "most": 0.4},
    "late_peer": {"device": "gpu:3", "last": 14, "n": 16},
    "exposed_copies": {"direction": "H2D", "by_direction_ps": {"H2D": 5}},
    "copies_in_compute_lane": {"ratio": 0.75},
    "pageable_copies": {"ratio": 0.5},
    **{rule: {"gaps": 12} for rule, _ in advice.IDLE.values()},
    "contention": {"phase": "both", "overlap_ratio": 0.98, "stretch": 1.9, "device": "cpu:1", "kind": "compute"},
    "took_turns": {"devices": 2, "ratio_min": 0.03},
}


def advice_of(rule: str, backend: str = "gpu", xla: bool = True) -> Advice:
    return Advice((Finding(rule, 3 * 10**9, 0.25, FINDINGS[rule]),), backend, xla)


@pytest.mark.parametrize("rule", FINDINGS)
@pytest.mark.parametrize("xla", [True, False])
def test_every_finding_says_what_is_so_and_one_thing_to_try(rule, xla):
    (finding,) = section(advice_of(rule, xla=xla), 2).findings
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


def test_the_time_of_one_device_is_no_sum():
    sentences = [section(advice_of(rule), 1).findings[0].sentence for rule in ("host_bound", "exposed_collectives")]
    assert sentences == [
        "Late launches by the host kept the device idle for 25.0 % of its time (3.00 ms), in 12 gaps.",
        "Collectives were exposed (not overlapped with compute) for 25.0 % of the device's time (3.00 ms).",
    ]


@pytest.mark.parametrize(
    ("host", "xla", "what", "remedy"),
    [
        ("after_wait", False, "after it had waited for the device", "do not wait for results inside the loop"),
        ("launching", False, "from one launch to the next", "launch more with each call (CUDA graphs, torch.compile)."),
        ("launching", True, "from one launch to the next", "give each call more to do: one jit for the whole step"),
        ("working", False, "in other work of its own", "do that work (Python, data, logging) in other threads"),
        ("working", True, "in other work of its own", "do that work (Python, data, logging) in other threads"),
    ],
)
def test_the_remedy_for_late_launches_fits_what_the_host_did_instead(host, xla, what, remedy):
    late = Finding("host_bound", 3 * 10**9, 0.25, {"gaps": 12, "host": host, "ratio": 0.8})
    (finding,) = section(Advice((late,), "gpu", xla), 1).findings
    assert finding.sentence.endswith(f", in 12 gaps, 80.0 % of it {what}.")
    assert finding.action.startswith(remedy)
    assert ("graphs" in finding.action) == (host == "launching" and not xla)
    assert len(finding.sentence) + len(finding.action) < 280


def test_devices_that_never_overlap_are_told_so():
    never = Finding("took_turns", 1, 0.1, {"devices": 3, "ratio_min": 0.0})
    (finding,) = section(Advice((never,), "gpu", True), 3).findings
    assert finding.sentence == "3 devices were serialized: no two were ever busy at the same time."


def test_contention_says_what_slowed_down_in_the_words_of_the_verdict():
    slow = FINDINGS["contention"] | {"kind": "memory"}
    (finding,) = section(Advice((Finding("contention", 1, None, slow),), "gpu", True), 2).findings
    assert finding.sentence == (
        "In both, copies on cpu:1 took 1.90x as long as alone, while devices overlapped 98.0 %."
    )
    assert finding.action.startswith("give each fewer threads")


def test_a_finding_knows_the_device_or_the_phase_that_it_is_about():
    where = {rule: section(advice_of(rule), 2).findings[0].where for rule in FINDINGS}
    assert {rule: place for rule, place in where.items() if place} == {
        "exposed_collectives": "gpu:1",
        "late_peer": "gpu:3",
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


def test_without_findings_the_section_says_so():
    assert section(Advice((), "gpu", True), 2).lacking.startswith("No cost")


def test_the_docs_list_every_rule():
    page = (DOCS / "concepts.md").read_text("utf-8")
    assert [rule for rule in FINDINGS if f"`{rule}`" not in page] == []
