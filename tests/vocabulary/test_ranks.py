"""How names number the processes and machines of a job."""

import pytest

from tracekit.vocabulary.ranks import is_part_of_run, missing_machines, process_number, world_sizes


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("rank3", ("rank", 3)),
        ("rank_3", ("rank", 3)),
        ("rank-07", ("rank", 7)),
        ("rank.3", ("rank", 3)),
        ("rank[3]", ("rank", 3)),
        ("RANK 3", ("rank", 3)),
        ("traceRank3.json", ("rank", 3)),
        ("tp0_rank3.1759276800001000000.pt.trace.json.gz", ("rank", 3)),
        ("worker5_step.1.pt.trace.json", ("worker", 5)),
        ("process_3", ("process", 3)),
        ("proc3", ("process", 3)),
        ("task-3", ("task", 3)),
        ("t1v-n-1a2b3c4d-w-3", ("worker", 3)),
        ("w-3", ("worker", 3)),
        # A directory of a sweep, a time, other words, and machines.
        ("w3", None),
        ("worker.1759276800001000000.pt.trace.json", None),
        ("crank3", None),
        ("multitask3", None),
        ("host-3", None),
        ("node3", None),
        ("rank", None),
    ],
)
def test_a_name_numbers_a_process_of_a_job(name, number):
    assert process_number(name) == number


@pytest.mark.parametrize(
    "name", ["rank3", "rank.3", "rank[3]", "run-rank-3", "process_3", "proc3", "Worker3", "host-3", "node_3", "tpu-w-3"]
)
def test_directories_of_processes_and_machines_are_parts_of_a_run(name):
    assert is_part_of_run(name)


@pytest.mark.parametrize(
    "name", ["step3", "iteration_3", "w3", "rank3-late", "ghost3", "task_20260101", "3", "hosts", "rank3/run"]
)
def test_other_directories_are_runs_of_their_own(name):
    assert not is_part_of_run(name)


@pytest.mark.parametrize(
    ("environment", "sizes"),
    [
        ("A=1;WORLD_SIZE=8;B=2", [8]),
        ('PMI_SIZE="4"', [4]),
        ("SLURM_NTASKS=64;SLURM_STEP_NUM_TASKS=16", [16]),
        ("LOCAL_WORLD_SIZE=8;WORLD_SIZE=8x", []),
    ],
)
def test_what_starts_a_job_tells_how_many_ranks_it_has(environment, sizes):
    assert world_sizes(environment) == sizes


@pytest.mark.parametrize(
    ("names", "machines", "absent"),
    [
        (["host0", "host1", "host3"], 4, ["host2"]),
        (["host000", "host002", "host003", "host005"], 6, ["host001", "host004"]),
        (["node1.a", "node2.a", "node4.a"], 4, ["node3.a"]),
        (["node8", "node9", "node10", *(f"node{n}" for n in range(1, 7))], 10, ["node7"]),
        # The first or the last, or machines of a cluster of more.
        (["host1", "host2", "host3"], 4, []),
        (["host7", "host12", "host40"], 4, []),
        (["host1", "host2", "peer3"], 4, []),
        (["a1-host0", "a2-host1", "a1-host3"], 4, []),
        (["host0", "host1", "login"], 4, []),
        (["host1", "host01", "host2"], 4, []),
        (["host0", "host1", "host3"], 7, []),
        (["host0", "host1", "host3"], 2**40, []),
    ],
)
def test_machines_that_are_missing_are_told_where_the_numbers_of_others_leave_no_choice(names, machines, absent):
    assert missing_machines(names, machines) == absent
