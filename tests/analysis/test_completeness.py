"""What is missing from a trace is said first, and nothing is told that rests on it."""

from dataclasses import replace

import pandas as pd
import pytest

from tests import traces
from tests.collective_frames import row, table
from tests.simulator.clocks import WHOLE, Recorder
from tests.simulator.random_jobs import random_job
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS
from tests.traces import needs_real
from tracekit.analysis.completeness import Completeness, completeness
from tracekit.analysis.explain import Explanation, explain
from tracekit.columns import frame
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import HOST_COLUMNS, LAUNCH_COLUMNS, LOSS_COLUMNS, Trace

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


def test_where_collectives_name_no_ranks_those_of_the_job_must_be_there():
    (group,) = look(reduces(0, 2, names=None), 6).groups.to_dict("records")
    assert (group["ranks"], group["devices"], group["absent"]) == (6, 2, "1, 3-5")


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


def test_rows_that_could_not_be_matched_do_not_make_a_rank_missing():
    rows = reduces(0, 1, names="0,1")
    rows[-1]["sequence"] = 17
    assert look(rows, 2).is_complete


@pytest.mark.parametrize("trace_format", ["kineto"])
def test_without_one_rank_nothing_rests_on_it(tmp_path, trace_format):
    truth = Truth(random_job(3))
    assert explain(FORMATS[trace_format](truth, tmp_path / "whole", WHOLE)).completeness.is_complete
    missing = Recorder(missing=frozenset({0}))
    why = explain(FORMATS[trace_format](truth, tmp_path / "missing", missing))
    assert why.completeness.groups["absent"].tolist() == ["0"]
    assert_nothing_of_waiting(why)


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


def test_launches_that_a_stream_captures_did_not_run():
    names = ("cudaStreamBeginCapture", *["cudaLaunchKernel"] * 40, "cudaStreamEndCapture_v10000")
    assert launched(range(43, 101), range(1, 101), names).is_complete
    assert not launched(range(43, 101), range(1, 101), names[1:]).is_complete


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
    [("kineto/hta-nccl_data-A100.json.gz", "1"), ("kineto/hta_rank0_queue.json.gz", "1-15"),
     ("xplane/tpu-v6e-4chip", None), ("kineto/hta-df_index_resolver.json.gz", "0")],
)  # fmt: skip
def test_one_host_of_a_job_has_ranks_missing(name, absent):
    result = completeness(timeline_of(traces.REAL / name))
    assert [None if pd.isna(each) else each for each in result.groups["absent"]] == [absent]
    assert result.rows == ""


@needs_real
@pytest.mark.parametrize(
    "name",
    ["kineto/dlrm-8xV100", "kineto/hta_mi250_minitoy.json.gz", "kineto/tl_sglang_capture_bs32_rank0.json.gz",
     "kineto/tl_sglang_decode_graph.json.gz", "kineto/hta_cuda_event_sync_multi_stream.json.gz",
     "xplane/jax-8xMI300X", "xplane/jax-MI300X-gemm", "xplane/xla-2xGTX1080Ti", "nsys/mfu_2gpu_before-2xH100.sqlite",
     "nsys/pipit_saxpy_mpi_cuda.sqlite", "chrome/jax-tpu-2chip-vllm.trace.json.gz"],
)  # fmt: skip
def test_a_whole_trace_is_not_called_incomplete(name):
    assert completeness(timeline_of(traces.REAL / name)).is_complete
