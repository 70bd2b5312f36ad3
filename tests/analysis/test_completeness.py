"""What is missing from a trace is said first, and nothing is told that rests on it."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from rich.console import Console

from tests import traces
from tests.collective_frames import row, table
from tests.fleet_traces import Fleet, fleet
from tests.simulator.clocks import WHOLE, Recorder
from tests.simulator.random_jobs import random_job
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS
from tests.traces import needs_real
from tracekit.analysis.collectives import collectives
from tracekit.analysis.completeness import Completeness, completeness
from tracekit.analysis.explain import Explanation, explain
from tracekit.columns import frame
from tracekit.readers import read
from tracekit.report.build import analyse
from tracekit.report.figures.figure import draw
from tracekit.report.figures.selection import select
from tracekit.report.html.page import page
from tracekit.report.load import load
from tracekit.report.markdown import markdown
from tracekit.report.terminal.printout import show
from tracekit.report.trace_contents import contents
from tracekit.timeline.timeline import Timeline, timeline_of
from tracekit.trace import HOST_COLUMNS, LAUNCH_COLUMNS, LOSS_COLUMNS, SPAN_COLUMNS, Trace

US = 10**6


def reduces(*ranks: int, names: str | None = "0,1,2", n: int = 3) -> list[dict]:
    """All-reduces of some ranks, each on a host of its own, rank k coming k us late."""
    return [
        row(
            f"rank{rank}/gpu:0", at * 100 * US + rank * US, at * 100 * US + 50 * US, host=f"rank{rank}",
            ranks=names, group="0", sequence=at, correlation_id=10 * at + rank,
        )
        for at in range(n)
        for rank in ranks
    ]  # fmt: skip


def look(rows: list[dict], world_size: int | None = None, **more) -> Completeness:
    hosts = sorted({each["host"] for each in rows})
    sizes = pd.array([world_size] * len(hosts), "Int64")
    of_hosts = frame(HOST_COLUMNS, {"host": hosts, "source": hosts, "world_size": sizes})
    return completeness(timeline_of(Trace(events=table(*rows), hosts=of_hosts, **more)))


@pytest.mark.parametrize(
    ("what", "lost", "total", "withheld"),
    [
        ("files", 1, 8, ["rows", "waiting"]),
        ("planes", 1, None, ["rows", "waiting"]),
        ("lines", 1, 30, ["rows"]),
        ("events", 1, 1000, []),
        ("events", 20, 1000, ["rows"]),
        ("events", 80, 1000, ["rows", "shares"]),
        ("bytes", 4, 9_000, []),
        ("programs", 1, 2, []),
        ("details", 1, None, []),
    ],
)
def test_what_is_damaged_is_told_and_what_rests_on_it_is_withheld(what, lost, total, withheld):
    data = {"host": [""], "what": [what], "lost": [lost], "total": [total], "evidence": ["why"]}
    losses = frame(LOSS_COLUMNS, {name: pd.Series(data[name], dtype=object) for name in data})
    result = look(reduces(0, 1, 2), 3, losses=losses)
    assert not result.is_complete
    assert [part for part in ("rows", "shares", "waiting") if getattr(result, part)] == sorted(withheld)
    assert all("could not be read (why)." in getattr(result, part) for part in withheld)


def test_a_trace_with_all_ranks_is_complete():
    assert look(reduces(0, 1, 2), 3).is_complete
    assert look(reduces(0, 1, names=None), 2).is_complete
    assert look([row("gpu:0", 0, 9, ranks="0")]).is_complete


def test_a_rank_that_its_collectives_name_and_no_file_holds_is_missing():
    result = look(reduces(0, 2), 3)
    (group,) = result.groups.to_dict("records")
    assert group == {
        "group": "0", "ranks": 3, "names": "0,1,2", "devices": 2, "absent": "1", "collectives": 3,
        "device_time_ps": (3 * 50 + 3 * 48) * US,
    }  # fmt: skip
    assert result.waiting.startswith(
        "3 collectives (0) are of 3 ranks (0, 1, 2), of which the trace holds 2: rank 1 is missing."
    )
    assert result.rows == ""


def test_hosts_whose_names_count_no_ranks_do_not_tell_which_rank_is_missing():
    for name, absent in (("rank", "1"), ("process", None), ("host", None)):
        rows = [
            each | {"host": f"{name}{rank}", "device": f"{name}{rank}/gpu:0"}
            for rank in (0, 2)
            for each in reduces(rank)
        ]
        (group,) = look(rows).groups.astype(object).where(lambda table: table.notna(), None).to_dict("records")
        assert (group["ranks"], group["devices"], group["absent"]) == (3, 2, absent)


@pytest.mark.parametrize(("ranks", "absent", "said"), [
    (range(300), "1, 3-299", "ranks 1, 3-299 are missing. How"),
    (range(0, 300, 2), ", ".join(map(str, range(4, 300, 2))), "the trace holds 2. How"),
])  # fmt: skip
def test_many_missing_ranks_are_ranges_and_in_no_sentence_where_these_are_many(ranks, absent, said):
    names = ",".join(map(str, ranks))
    rows = [
        each | {"host": f"rank{rank}", "device": f"rank{rank}/gpu:0", "ranks": names}
        for rank in (0, 2)
        for each in reduces(rank)
    ]
    found = look(rows)
    assert found.groups["absent"].tolist() == [absent]
    assert said in found.waiting


def test_where_collectives_name_no_ranks_those_of_the_job_must_be_there():
    (group,) = look(reduces(0, 2, names=None), 6).groups.to_dict("records")
    assert (group["ranks"], group["devices"], group["absent"]) == (6, 2, "1, 3-5")


@pytest.mark.parametrize(
    ("names", "text"),
    [("{{0,2},{1,3}}", "are of 2 ranks each, in 2 groups ({{0, 2}, {1, 3}}): of these 4 ranks the trace holds 2"),
     ("{{0,1,2},{3}}", "are of 1 to 3 ranks each, in 2 groups ({{0, 1, 2}, {3}}): of these 4 ranks the trace holds 2"),
     ("{{0,1,2,3}}", "are of 4 ranks ({{0, 1, 2, 3}}), of which the trace holds 2")],
)  # fmt: skip
def test_groups_side_by_side_are_not_told_as_one(names, text):
    assert text in look(reduces(0, 1, names=names)).waiting


def test_groups_that_are_whole_tell_their_waiting_beside_one_that_is_not():
    whole = [each | {"ranks": "0,1", "group": "1", "start_ps": each["start_ps"] + 1000 * US,
                     "end_ps": each["end_ps"] + 1000 * US} for each in reduces(0, 1)]  # fmt: skip
    rows = [*reduces(0, 1), *whole]
    why = explain(table(*rows))
    assert why.completeness.groups["group"].tolist() == ["0"]
    assert why.collectives.alone == ""
    assert why.collectives.total["shared"].tolist() == [3]
    assert why.collectives.total["waiting_ps"].tolist() == [3 * US]
    by_group = why.collectives.table.groupby("group")["wait_ps"].sum(min_count=1)
    assert by_group.isna().to_dict() == {"0": True, "1": False}


def test_of_several_groups_that_lack_ranks_the_collectives_and_the_missing_rank_are_told_together():
    rows = [
        each | {"group": name, "start_ps": each["start_ps"] + shift, "end_ps": each["end_ps"] + shift}
        for name, shift in (("0", 0), ("1", 1000 * US))
        for each in reduces(0, 2)
    ]
    assert look(rows).waiting.startswith(
        "6 collectives in 2 groups are of more ranks than the trace holds: rank 1 is missing."
    )


def test_a_collective_on_one_device_is_no_proof_that_there_are_other_ranks():
    assert look(reduces(0, names=None)).is_complete


def test_rows_that_could_not_be_matched_do_not_make_a_rank_missing():
    rows = reduces(0, 1, names="0,1")
    rows[-1]["sequence"] = 17
    assert look(rows, 2).is_complete


# JAX's JSON tells no ranks of a collective, nor how many the job had.
@pytest.mark.parametrize("trace_format", [name for name in FORMATS if name != "jax-json"])
def test_without_one_rank_nothing_rests_on_it(tmp_path, trace_format):
    truth = Truth(random_job(3))
    assert explain(FORMATS[trace_format](truth, tmp_path / "whole", WHOLE)).completeness.is_complete
    missing = Recorder(missing=frozenset({0}))
    why = explain(FORMATS[trace_format](truth, tmp_path / "missing", missing))
    (group,) = why.completeness.groups.to_dict("records")
    assert (group["ranks"], group["devices"]) == (truth.job.ranks, truth.job.ranks - 1)
    assert (group["absent"] == "0") == (trace_format == "kineto")
    assert_nothing_of_waiting(why)


def test_what_would_save_more_than_the_other_ranks_allow_has_no_what_if(tmp_path):
    truth = Truth(random_job(4))
    for missing in (frozenset(), frozenset(range(1, truth.job.ranks))):
        trace = FORMATS["kineto"](truth, tmp_path / str(len(missing)), Recorder(missing=missing))
        asked = explain(trace).critical_path.what_if
        told = asked.dropna(subset="ratio")
        assert len(told) == len(asked) if not missing else (told["ratio"] >= 0.97).all() and len(told) < len(asked)


@pytest.mark.parametrize(
    ("sizes", "absent"),
    [((2, 2), []), ((2, 4), ["b"]), ((None, None), [])],
)
def test_a_group_that_counts_more_ranks_than_are_there_is_not_whole_and_others_are(sizes, absent):
    rows = [
        each | {"group": name, "group_size": size, "start_ps": each["start_ps"] + shift * US,
                "end_ps": each["end_ps"] + shift * US}
        for name, size, shift in zip("ab", sizes, (0, 1000), strict=True) for each in reduces(0, 1, names=None)
    ]  # fmt: skip
    why = explain(table(*rows))
    assert why.completeness.groups["group"].tolist() == absent
    waits = why.collectives.table.groupby("group")["wait_ps"].sum(min_count=1)
    assert waits[waits.isna()].index.tolist() == absent


@pytest.mark.parametrize(("sources", "ranks"), [(("rank0.sqlite", "rank2.sqlite"), 3), (("rank0", "other"), None)])
def test_files_that_are_numbered_as_ranks_tell_that_one_between_them_is_missing(sources, ranks):
    hosts = frame(HOST_COLUMNS, {"host": ["a", "b"], "source": [f"/of/{name}" for name in sources]})
    rows = [each | {"host": host} for each, host in zip(reduces(0, 1, names=None, n=1), "ab", strict=True)]
    result = completeness(timeline_of(Trace(events=table(*rows), hosts=hosts)))
    assert [*result.groups["ranks"]] == ([ranks] if ranks else [])


def assert_nothing_of_waiting(why: Explanation) -> None:
    """That no figure stands for waiting, transfer or steps without collectives."""
    assert why.collectives.alone == why.completeness.waiting
    table, path = why.collectives.table, why.critical_path
    for column in ("wait_ps", "transfer_ps", "skew_ps", "last", "last_start_ps", "exposed_wait_ps"):
        assert table[column].isna().all()
    assert why.collectives.by_device[["cost_ps", "waiting_ps", "transfer_ps"]].isna().all(axis=None)
    assert not why.collectives.by_device["straggler"].any()
    assert why.collectives.total["wait_ratio"].isna().all()
    assert why.offenders.table["last"].isna().all()
    assert "collective transfer" not in set(path.total["part"])
    of_collectives = path.what_if[path.what_if["what"].isin(["collectives", "collective_transfers"])]
    assert len(of_collectives) == 2
    assert of_collectives["predicted_ps"].isna().all()


def launched(answered: range, calls: range, names=("cudaLaunchKernel",)) -> Completeness:
    """Kernels for some of the calls, one every 10 us."""
    rows = [row("gpu:0", at * 10 * US + 5 * US, at * 10 * US + 9 * US, kind="compute", correlation_id=at)
            for at in answered]  # fmt: skip
    launches = frame(LAUNCH_COLUMNS, {
        "host": ["h"] * len(calls), "thread": ["t"] * len(calls),
        "name": [names[at] if at < len(names) else "cudaLaunchKernel" for at in range(len(calls))],
        "start_ps": [at * 10 * US for at in calls], "end_ps": [at * 10 * US + US for at in calls],
        "correlation_id": pd.array(list(calls), "Int64"),
    })  # fmt: skip
    return look(rows, launches=launches)


def test_launches_without_rows_are_missing_but_for_those_at_the_end():
    assert launched(range(1, 101), range(1, 301)).is_complete
    (loss,) = launched(range(51, 101), range(1, 101)).losses.to_dict("records")
    assert (loss["what"], loss["lost"], loss["total"]) == ("launched work", 50, 100)
    assert launched(range(1, 101, 1), range(1, 101)).is_complete
    # A twentieth of them is what the profile's edges cut.
    assert launched(range(26, 501), range(1, 501)).is_complete
    assert launched(range(27, 501), range(1, 501)).losses["lost"].tolist() == [26]


def test_launches_that_a_stream_captures_did_not_run():
    names = ("cudaStreamBeginCapture", *["cudaLaunchKernel"] * 40, "cudaStreamEndCapture_v10000")
    assert launched(range(43, 101), range(1, 101), names).is_complete
    assert not launched(range(43, 101), range(1, 101), names[1:]).is_complete


def test_launches_that_xla_builds_a_graph_of_did_not_run():
    graph = ("cuGraphCreate (CudaGraph:1)", *["Memset"] * 40, "cuGraphAddChildGraphNode (CudaGraph:2)")
    assert launched(range(43, 101), range(1, 101), graph).is_complete
    assert not launched(range(43, 101), range(1, 101), graph[1:]).is_complete
    nodes = ["cuGraphAddMemcpyNode (CudaGraph:3)"] * 40
    assert launched(range(41, 101), range(1, 101), nodes).is_complete


def test_replicas_are_counted_by_the_names_that_were_recorded_which_are_perhaps_not_all():
    losses = {"host": ["h"], "what": ["replicas"], "lost": [5], "total": [7], "evidence": ["names replica_6"]}
    report = analyse(Trace(events=table(row("gpu:0", 0, 100)), losses=frame(LOSS_COLUMNS, losses), source="x"))
    assert report.missing.sentences[0].startswith(
        "h: at least 5 replicas of the program, of 7 or more, have no kernels (names replica_6): "
    )
    assert report.explanation.completeness.rows.startswith("At least 5 replicas that the host ran, of 7 or more,")


LOSSES = {"host": ["h"], "what": ["records"], "lost": [5], "total": [100], "evidence": ["the profiler's words"]}


@pytest.mark.parametrize(("lost", "is_withheld"), [(5, True), (None, False)])
def test_what_rests_on_lost_rows_is_withheld_where_they_are_many(lost, is_withheld):
    losses = frame(LOSS_COLUMNS, {**LOSSES, "lost": pd.array([lost], "Int64"), "total": pd.array([100], "Int64")})
    rows = [row("gpu:0", at * 10, at * 10 + 4, kind="compute", correlation_id=at) for at in range(9)]
    why = explain(replace(Trace(events=table(*rows)), losses=losses))
    assert bool(why.completeness.rows) is is_withheld
    for name in ("critical_path", "idle", "launches", "offenders"):
        assert (getattr(why, name).lacking == why.completeness.rows) is (is_withheld or not getattr(why, name).lacking)
    assert (len(why.idle.gaps) == 0) is is_withheld
    assert (len(why.critical_path.total) == 0) is is_withheld


@needs_real
@pytest.mark.parametrize(
    ("name", "absent"),
    [("kineto/hta-nccl_data-A100", "1"), ("kineto/hta_rank0_queue", "1-15"),
     ("xplane/tpu-v6e-4chip", None), ("kineto/hta-df_index_resolver", "0")],
)  # fmt: skip
def test_one_host_of_a_job_has_ranks_missing(name, absent):
    result = completeness(traces.timeline(name))
    assert [None if pd.isna(each) else each for each in result.groups["absent"]] == [absent]
    assert result.rows == ""


@needs_real
@pytest.mark.parametrize(
    "name",
    ["kineto/dlrm-8xV100", "kineto/hta_mi250_minitoy", "kineto/tl_sglang_capture_bs32_rank0",
     "kineto/tl_sglang_decode_graph", "kineto/hta_cuda_event_sync_multi_stream",
     "xplane/jax-8xMI300X", "xplane/jax-MI300X-gemm", "xplane/xla-2xGTX1080Ti", "nsys/mfu_2gpu_before-2xH100",
     "nsys/pipit_saxpy_mpi_cuda", "chrome/jax-tpu-2chip-vllm"],
)  # fmt: skip
def test_a_whole_trace_is_not_called_incomplete(name):
    assert completeness(traces.timeline(name)).is_complete


@needs_real
@pytest.mark.parametrize(
    ("name", "what"),
    [("kineto/hta-sampled_rank-0", "operations"), ("kineto/hta_sampled_rank-1", "operations"),
     ("xplane/tf-8xV100", "replicas")],
)  # fmt: skip
def test_a_sample_and_an_execution_without_kernels_have_no_critical_path(name, what):
    why = explain(traces.timeline(name))
    assert why.completeness.losses["what"].tolist() == [what]
    assert why.completeness.rows
    for part in (why.critical_path, why.idle, why.launches, why.offenders):
        assert part.lacking == why.completeness.rows
    assert len(why.critical_path.total) == len(why.idle.gaps) == 0


@pytest.mark.parametrize(("every", "is_whole"), [(1, True), (50, False)])
def test_a_file_with_few_of_the_numbers_of_its_operations_is_a_sample(tmp_path, every, is_whole):
    ops = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": at, "dur": 1,
         "args": {"Ev Idx": at * every}} for at in range(300)
    ]  # fmt: skip
    kernel = {"ph": "X", "cat": "kernel", "name": "add", "pid": 0, "tid": 7, "ts": 5, "dur": 3,
              "args": {"device": 0, "stream": 7, "correlation": 1}}  # fmt: skip
    path = tmp_path / "rank0.pt.trace.json"
    document = {"schemaVersion": 1, "WARNING": ["Dropped 3 activity records"], "traceEvents": [*ops, kernel]}
    path.write_text(json.dumps(document))
    losses = read(path).losses
    assert losses["what"].tolist() == ["records", *([] if is_whole else ["operations"])]
    assert losses["lost"].tolist() == [3, *([] if is_whole else [299 * every + 1 - 300])]


def test_what_is_missing_stands_first_on_every_face(tmp_path):
    hosts = frame(HOST_COLUMNS, {"host": ["rank0", "rank2"], "source": ["a", "b"]})
    report = analyse(Trace(events=table(*reduces(0, 2)), hosts=hosts, source="x"))
    sentence = report.missing.sentences[0]
    assert sentence.startswith(
        "3 collectives (0) are of 3 ranks (0, 1, 2), of which the trace holds 2: rank 1 is missing"
    )
    console = Console(width=1000, file=io.StringIO())
    show(report, console)
    assert console.file.getvalue().splitlines()[0] == f"What is missing: {report.missing.result}"
    show(report, console, full=True)
    assert sentence in console.file.getvalue()
    text = markdown(report)
    assert text.index(sentence) < text.index("* **")
    html = page(report, None)
    assert html.index('id="completeness"') < html.index('id="verdict"')
    assert report.summary()["completeness"]["groups"][0]["absent"] == "1"
    whole = analyse(Trace(events=table(*reduces(0, 1, 2)), source="x"))
    assert whole.missing is None
    assert whole.summary()["completeness"]["complete"] is True
    assert 'id="completeness"' not in page(whole, None)
    assert "missing" not in markdown(whole)


@pytest.mark.parametrize("lost", [(), (7,)])
def test_a_notebook_shows_completeness_only_where_something_is_missing(lost):
    losses = {"host": ["h"], "what": ["records"], "lost": pd.array([7], "Int64")} if lost else {}
    why = explain(replace(Trace(events=table(row("gpu:0", 0, 100))), losses=frame(LOSS_COLUMNS, losses)))
    assert ("completeness: what records, lost 7" in why._repr_html_()) == bool(lost)
    assert ("completeness" in why._repr_html_()) == ("completeness" in repr(why)) == bool(lost)


def recorded(lost: int, of: int = 100, phases: bool = False) -> Trace:
    """Three kernels on two devices, of which a profiler lost some."""
    rows = [
        row(f"gpu:{at}", 10 * at, 40 + 10 * at, None, kind=kind)
        for at, kind in ((0, "compute"), (1, "compute"), (0, "collective"))
    ]
    losses = frame(LOSS_COLUMNS, {
        "host": ["h"], "what": ["operations"], "lost": pd.array([lost], "Int64"), "total": pd.array([of], "Int64"),
        "evidence": ["gaps"],
    })  # fmt: skip
    spans = frame(SPAN_COLUMNS, {
        "host": ["h"] * 3, "thread": ["t"] * 3, "name": ["a", "b", "both"], "start_ps": [0, 100, 200],
        "end_ps": [50, 150, 260], "tracekit": ["phase"] * 3, "alone": [None, None, "a;b"],
    })  # fmt: skip
    return Trace(events=table(*rows), losses=losses, source="x", **({"spans": spans} if phases else {}))


def figures_in(value, path="") -> dict[str, float]:
    """The ratios, by their place, in what a summary.json says."""
    if isinstance(value, dict):
        return {
            place: number for key, part in value.items() for place, number in figures_in(part, f"{path}.{key}").items()
        }
    if isinstance(value, list):
        return {place: number for part in value for place, number in figures_in(part, path).items()}
    return {path: value} if isinstance(value, float) or (path.endswith("busy_ps") and value is not None) else {}


@pytest.mark.parametrize("phases", [False, True])
def test_of_a_sample_no_face_shows_a_share_of_time(phases):
    trace = recorded(60, phases=phases)
    report = analyse(trace)
    assert figures_in(analyse(recorded(0, phases=phases)).summary())
    assert figures_in(report.summary()) == {}
    assert [device["device"] for device in report.summary()["devices"]] == ["gpu:0", "gpu:1"]
    reason = "The trace is a sample: it holds 40.0 % of the 100 operations that its numbers count."
    assert report.whole.lacking == report.summary()["completeness"]["shares"] == reason
    console = Console(width=1000, file=io.StringIO())
    show(report, console, full=True, timeline=timeline_of(trace))
    for text in (console.file.getvalue(), markdown(report), report._repr_html_()):
        shares = [line for line in text.splitlines() if " %" in line and "40.0 % of the" not in line]
        assert [line for line in shares if "is 100 % busy" not in line] == []
        assert text.count(reason) == 1
    html = page(report, timeline_of(trace))
    assert '"partial":true' in html
    assert re.findall(r"[0-9.]+ %", html.partition('id="timeline-header"')[0].replace("40.0 % of the", "")) == []
    assert contents(trace).kinds_known_by == {}
    assert {device.window_ps for device in contents(trace).devices} == {None}


def test_a_report_of_a_sample_is_saved_and_loaded(tmp_path):
    report = analyse(recorded(60, phases=True))
    assert load(report.save(tmp_path)) == report


def test_few_losses_leave_shares_of_what_was_recorded_but_no_reasons():
    report = analyse(recorded(2))
    assert report.explanation.completeness.shares == ""
    assert report.explanation.critical_path.lacking == report.explanation.completeness.rows != ""
    assert report.headline.startswith("Of what this incomplete trace holds: ")
    assert figures_in(report.summary())


@pytest.mark.parametrize("chart", ["gantt", "overlap", "partition", "concurrency"])
def test_figures_of_a_sample_give_no_shares(chart):
    texts = [text.get_text() for text in draw(select(recorded(60)), chart).figure.findobj(Text)]
    assert not any(re.search(r"\d %( busy| both|$)", text) for text in texts)
    assert any("sample" in text or "too little of what ran" in text for text in texts)


def of_a_fleet(ranks: int, missing: int) -> tuple[Fleet, Timeline]:
    """A fleet, and what is recorded of it without the last ranks."""
    made = fleet(ranks, np.arange(ranks * 9).reshape(ranks, 9) % 97 + 1000)
    there = ~made.trace.events["device"].isin(made.names[ranks - missing :])
    hosts = list(dict.fromkeys(name.split("/")[0] for name in made.names))
    sizes = frame(HOST_COLUMNS, {"host": hosts, "world_size": [ranks] * len(hosts)})
    return made, timeline_of(replace(made.trace, events=made.trace.events[there].reset_index(drop=True), hosts=sizes))


def test_waiting_is_a_lower_bound_where_a_few_of_many_ranks_are_missing():
    made, timeline = of_a_fleet(ranks=40, missing=1)
    found = completeness(timeline)
    ready = made.ready[:39]
    assert found.waiting == ""
    assert "of which the trace holds 39. Waiting is a lower bound" in found.bounds
    result = collectives(timeline, found.waiting)
    assert result.table["wait_ps"].tolist() == (ready.max(axis=0) - ready).sum(axis=0).tolist()
    late = ready == ready.max(axis=0)
    last = [made.names[int(late[:, step].argmax())] if late[:, step].sum() == 1 else None for step in range(9)]
    assert result.table["last"].astype(object).where(result.table["last"].notna(), None).tolist() == last


def test_nothing_is_told_of_waiting_where_a_twentieth_of_the_ranks_is_missing():
    _, timeline = of_a_fleet(ranks=40, missing=2)
    found = completeness(timeline)
    assert ("How long they waited" in found.waiting, found.bounds) == (True, "")
    assert collectives(timeline, found.waiting).table["wait_ps"].isna().all()


def test_causes_of_idle_time_are_told_where_the_files_of_a_few_of_many_hosts_are_broken():
    _, timeline = of_a_fleet(ranks=40, missing=1)
    few, many = (
        replace(timeline.trace, losses=frame(LOSS_COLUMNS, {"what": ["files"], "lost": [lost], "total": [40]}))
        for lost in (1, 2)
    )
    assert completeness(timeline_of(few)).rows == ""
    assert "2 of 40 files" in completeness(timeline_of(many)).rows


def met(steps, devices=4, *, without=lambda device, step: False, ranks=None):
    """All-reduces of some ranks, one a step, but for the rows of devices in steps that were not recorded."""
    return [
        row(
            f"rank{device}/gpu:0",
            100 * step + device,
            100 * step + 50,
            host=f"rank{device}",
            group="dp",
            sequence=step,
            ranks=",".join(map(str, range(ranks or devices))),
        )
        for step in range(steps)
        for device in range(devices)
        if not without(device, step)
    ]


@pytest.mark.parametrize(
    ("without", "told"),
    [
        (lambda device, step: device == 3 and step < 6, [("rank3", 6, 20, "rank3/gpu:0, before its first row")]),
        (lambda device, step: device == 1 and step > 16, [("rank1", 3, 20, "rank1/gpu:0, after its last")]),
        (
            lambda device, step: device == 1 and not 1 < step < 18,
            [("rank1", 4, 20, "rank1/gpu:0, before its first row and after its last")],
        ),
        (lambda device, step: device == 3 and step < 2, []),  # the edge of its profile
        (lambda device, step: device == 3 and step % 2 == 1, []),  # rows are lost, but it was recorded
    ],
)
def test_a_rank_that_was_recorded_for_a_part_of_the_time_is_told(without, told):
    found = completeness(timeline_of(table(*met(20, without=without))))
    columns = ["host", "lost", "total", "evidence"]
    assert [tuple(each) for each in found.losses[columns].to_numpy().tolist()] == told
    assert found.losses["what"].tolist() == ["collectives"] * len(told)
    assert (found.rows, found.shares) == ("", "")
    assert found.is_complete == (not told)


def test_a_rank_that_is_not_there_at_all_was_not_recorded_for_a_part():
    found = completeness(timeline_of(table(*met(20, devices=3, ranks=4))))
    assert not len(found.losses)
    assert found.groups["absent"].tolist() == ["3"]


def test_a_rank_that_was_recorded_late_is_told_first_in_the_report():
    report = analyse(timeline_of(table(*met(20, without=lambda device, step: device == 3 and step < 6))))
    (told,) = [each for each in report.sections if each.key == "completeness"]
    assert told.sentences == (
        "rank3: 6 of 20 collectives have no row of a device that takes part (rank3/gpu:0, before its first row): it "
        "was not recorded then. It was not idle, and whom the others waited for is not known.",
    )
