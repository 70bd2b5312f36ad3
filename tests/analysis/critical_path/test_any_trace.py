"""Any trace, however odd: the loops against the same rules written down as a recursion, and what must always hold."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph_traces import graph_of, runs_of, trace
from tracekit import jit
from tracekit.analysis.critical_path import graph
from tracekit.analysis.critical_path.dependencies import find_predecessors
from tracekit.analysis.critical_path.graph import CALL, WORK
from tracekit.analysis.critical_path.longest_path import Part, find_paths
from tracekit.analysis.critical_path.replay import Without, plan, replay
from tracekit.timeline.rows import rows

TIMES = st.integers(0, 60)
KINDS = ("compute", "collective", "memcpy", "memset")
WHAT = [
    Without(),
    Without((Part.COLLECTIVE,)),
    Without((Part.COLLECTIVE,), unsynchronised=True),
    Without((Part.MEMCPY,)),
    Without((CALL, WORK), prompt=True),
    Without(op=1),
]


@pytest.fixture(scope="module", autouse=True)
def _one_row_tells_the_latency():
    """So that small traces have some."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "LATENCY_FROM_ROWS", 1)
        yield


@st.composite
def spans(draw, most=20):
    start = draw(TIMES)
    return start, start + draw(st.integers(0, most))


@st.composite
def traces(draw):
    """A trace whose rows, calls, spans, waits and collectives have nothing to do with each other, and two windows."""
    events, member = [], []
    for _ in range(draw(st.integers(1, 10))):
        device, lane = draw(st.sampled_from(["gpu:0", "gpu:1", "tpu:0", "cpu:?"])), draw(st.sampled_from("ab"))
        start, end = draw(spans())
        more = {
            "correlation_id": draw(st.integers(0, 6) | st.none()),
            "wait_ps": draw(st.integers(0, end - start) | st.none()),
            "name": draw(st.sampled_from("xyz")),
            "op": draw(st.integers(0, 3) | st.none()),
            "run_id": 0,
        }
        kind = draw(st.sampled_from(KINDS))
        events.append((device, lane, kind, start, end, more))
        member.append(draw(st.integers(-1, 2)) if kind == "collective" and device != "cpu:?" else -1)
    launches = [(draw(st.sampled_from("tu")), *draw(spans()), k) for k in range(draw(st.integers(0, 6)))]
    python = [(draw(st.sampled_from("tu")), *draw(spans()), draw(st.sampled_from(["work", "wait"]))) for _ in range(3)]
    syncs = []
    for _ in range(draw(st.integers(0, 3))):
        lane = draw(st.sampled_from([(None, None), ("gpu:0", "a"), ("gpu:1", "b")]))
        on = draw(st.sampled_from([("gpu:0", "b"), ("gpu:1", None), ("tpu:0", None)]))
        syncs.append((draw(st.sampled_from("tu")), *draw(spans()), *lane, *on, draw(TIMES | st.none())))
    operands = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=3, unique=True))
    random_trace = trace(events, launches, python, syncs, operands, ops=4)
    cuts = sorted(draw(st.lists(TIMES, min_size=3, max_size=4, unique=True)))
    return random_trace, np.array(member)[rows(random_trace.events).at], cuts


def graph_and_cuts(case):
    random_trace, member, cuts = case
    numbers = {instance: at for at, instance in enumerate(sorted(set(member[member >= 0].tolist())))}
    dag = graph_of(random_trace, [numbers.get(instance, -1) for instance in member.tolist()])
    op = np.full(len(dag.start), -1, np.int32)
    op[dag.first[3] : dag.first[4]] = rows(random_trace.events).codes("name")
    return dag, cuts, op


def ends_of_steps(dag, cuts, op, what):
    """When each step between two cuts ends in the replay, each node's end asked for recursively."""
    s, e = cuts[0], cuts[-1]
    nodes = [
        i
        for i in range(len(dag.start))
        if dag.clock[i] >= 0 and dag.start[i] < e and (dag.end[i] > s or dag.start[i] >= s)
    ]
    begins = {}

    def ready(i, what, begin, end):
        """When node `i` was held up by nothing more, by the begins and ends of the others."""
        bounds = [0]
        lag = 0 if what.prompt and dag.lag_ps[i] > 0 else int(dag.lag_ps[i])
        if dag.predecessor[i] in nodes:
            bounds.append(end(dag.predecessor[i]) + lag)
        else:
            bounds.append(min(lag, int(dag.start[i]) - s))
        bounds += [end(x) for x in dag.extra_from[dag.extra_to == i] if x in nodes]
        if dag.launch[i] in nodes:
            since = int(dag.start[i]) - max(int(dag.start[dag.launch[i]]), s)
            latency = 0 if what.prompt else min(int(dag.latency_ps[dag.device[i]]), since)
            bounds.append(begin(dag.launch[i]) + latency)
        return max(bounds)

    def begin_of(i):
        if i not in begins:
            begins[i] = 0
            if dag.start[i] >= s:
                measured = ready(i, Without(), lambda x: max(int(dag.start[x]) - s, 0), lambda x: int(dag.end[x]) - s)
                slack = 0 if what.prompt and dag.kind[i] >= CALL else int(dag.start[i]) - s - measured
                begins[i] = ready(i, what, begin_of, end_of) + slack
        return begins[i]

    def end_of(i):
        low, high = max(int(dag.start[i]), s), min(int(dag.end[i]), e)
        if dag.instance[i] >= 0:
            low = min(max(low, int(dag.gate[dag.instance[i]])), high)
        own = 0 if dag.kind[i] in what.kinds or (op[i] >= 0 and op[i] == what.op) else high - low
        if dag.instance[i] >= 0 and not what.unsynchronised:
            return max(begin_of(x) for x in nodes if dag.instance[x] == dag.instance[i]) + own
        return begin_of(i) + own

    return [max((end_of(i) for i in nodes if min(dag.end[i], e) <= cut), default=0) for cut in cuts[1:]]


@settings(max_examples=50)
@given(traces())
def test_the_replay_is_that_of_a_recursion_over_the_graph(case):
    dag, cuts, op = graph_and_cuts(case)
    lengths_ps = replay(dag, plan(dag, runs_of(dag, cuts)), WHAT, op)
    assert lengths_ps.cumsum(axis=0).T.tolist() == [ends_of_steps(dag, cuts, op, what) for what in WHAT]


LAST_MEMBER = {
    "a wait returns just then": (
        [
            ("gpu:0", "a", "compute", 0, 0, {"correlation_id": 0}),
            ("gpu:1", "a", "collective", 0, 2),
            ("gpu:0", "a", "collective", 1, 2),
        ],
        {"launches": [("t", 0, 0, 0), ("t", 1, 2, 3)], "syncs": [("t", 0, 1, None, None, "gpu:1", None, 1)]},
    ),
    "a wait returns before": (
        [
            ("gpu:0", "a", "collective", 0, 12),
            ("gpu:1", "a", "collective", 8, 14),
            ("gpu:0", "a", "compute", 13, 20),
        ],
        {"syncs": [("t", 0, 5, None, None, "gpu:0", None, 5)]},
    ),
    "the next kernel has begun": (
        [
            ("gpu:0", "a", "collective", 0, 10),
            ("gpu:1", "a", "collective", 8, 12),
            ("gpu:0", "a", "compute", 7, 20),
        ],
        {},
    ),
    "what reads a pair that held up nothing begins": (
        [
            ("gpu:0", "a", "collective", 0, 20, {"wait_ps": 0, "op": 0, "run_id": 0}),
            ("gpu:0", "a", "compute", 1, 18),
            ("gpu:1", "a", "collective", 8, 20),
            ("gpu:0", "b", "compute", 9, 20, {"op": 1, "run_id": 0}),
        ],
        {"operands": [(1, 0)], "ops": 2},
    ),
}


@pytest.mark.parametrize("case", LAST_MEMBER)
def test_nothing_waits_for_a_collective_that_went_on_before_its_last_member_began(case):
    events, more = LAST_MEMBER[case]
    odd_trace = trace(events, **more)
    kinds = np.array([0 if event[2] == "collective" else -1 for event in events])[rows(odd_trace.events).at]
    dag, cuts, op = graph_and_cuts((odd_trace, kinds, [0, 10, 30]))
    lengths_ps = replay(dag, plan(dag, runs_of(dag, cuts)), WHAT, op).cumsum(axis=0).T.tolist()
    assert lengths_ps == [ends_of_steps(dag, cuts, op, what) for what in WHAT]
    assert lengths_ps[0][1] == max(event[4] for event in events)


@settings(max_examples=50)
@given(traces())
def test_with_everything_the_replay_gives_the_measured_times_and_the_paths_fill_the_steps(case):
    dag, cuts, op = graph_and_cuts(case)
    runs = plan(dag, runs_of(dag, cuts))
    lengths_ps = replay(dag, runs, WHAT, op)
    path = find_paths(dag, runs, np.ones(len(cuts) - 1, bool))
    assert (path.parts >= 0).all()
    assert path.parts.sum(axis=1).tolist() == np.diff(cuts).tolist()
    assert (lengths_ps >= 0).all()
    assert (lengths_ps.cumsum(axis=0) <= lengths_ps[:, :1].cumsum(axis=0)).all()
    inside = (dag.clock >= 0) & (dag.start < cuts[-1])
    ends = np.minimum(dag.end[inside], cuts[-1]).tolist()
    ended = [max([cuts[0], *(end for end in ends if end <= cut)]) for cut in cuts[1:]]
    assert lengths_ps[:, 0].cumsum().tolist() == [end - cuts[0] for end in ended]
    # The pieces of each step cover it, one after the other, and none leaves its node.
    for step in range(len(cuts) - 1):
        mine = path.step == step
        since, until, node, part = (column[mine] for column in (path.start, path.end, path.node, path.part))
        assert [cuts[step + 1], *since[:-1].tolist()] == until.tolist()
        assert since[-1] == cuts[step]
        of_row = np.isin(part, [*range(CALL), Part.ALONE_COLLECTIVE])
        of_host = np.isin(part, [Part.HOST_LAUNCH, Part.HOST_WORK])
        lies_in = (dag.start[node] <= since) & (until <= dag.end[node])
        # What a thread did before its node, or after it.
        lies_beside = (until <= dag.start[node]) | (dag.end[node] <= since)
        assert (lies_in | ~of_row & (~of_host | lies_beside)).all()


@settings(max_examples=50)
@given(traces())
def test_nodes_stand_by_start_and_those_without_length_first(case):
    dag, _, _ = graph_and_cuts(case)
    assert sorted(dag.order.tolist()) == [*range(len(dag.start))]
    times = [(dag.start[i], dag.end[i] > dag.start[i]) for i in dag.order]
    assert times == sorted(times)


@settings(max_examples=40)
@given(traces())
def test_each_run_is_replayed_for_itself_and_so_is_its_path_found(case):
    dag, cuts, op = graph_and_cuts(case)
    windows = [*pairwise(cuts)]
    together = plan(dag, runs_of(dag, *windows))
    path = find_paths(dag, together, np.ones(len(windows), bool), op)
    lengths_ps, parts, of_op, pieces = replay(dag, together, WHAT, op), [], 0, []
    for number, window in enumerate(windows):
        alone = plan(dag, runs_of(dag, window))
        assert lengths_ps[number].tolist() == replay(dag, alone, WHAT, op)[0].tolist()
        of_window = find_paths(dag, alone, np.ones(1, bool), op)
        parts += of_window.parts.tolist()
        of_op = of_op + of_window.of_op
        pieces += zip(*(column.tolist() for column in list(vars(of_window).values())[3:]), strict=True)
    assert path.parts.tolist() == parts
    assert path.of_op.tolist() == of_op.tolist()
    assert [*zip(*(column.tolist() for column in list(vars(path).values())[3:]), strict=True)] == pieces


FEW_WORKS = st.lists(st.tuples(st.integers(0, 2), spans(), st.booleans()), max_size=12)
AT_ONCE = st.tuples(st.integers(0, 15), st.integers(0, 30)).map(lambda time: (time[0], sum(time)))


@settings(max_examples=100)
@given(FEW_WORKS | st.lists(st.tuples(st.just(0), AT_ONCE, st.just(False)), min_size=8, max_size=20), st.randoms())
def test_the_predecessor_in_a_queue_is_what_ended_last_before(works, random):
    works.sort(key=lambda work: work[:2])
    queue, start, end, aside = (
        np.array([work[0] for work in works], np.int64),
        np.array([work[1][0] for work in works], np.int64),
        np.array([work[1][1] for work in works], np.int64),
        np.array([work[2] for work in works], bool),
    )
    order = np.array(random.sample(range(len(works)), len(works)), np.int64)  # the works may stand in any
    stand = np.argsort(order)
    before, lead = find_predecessors(order, *(column[stand] for column in (queue, start, end, aside)))
    before, lead = np.where(before >= 0, stand[before], -1)[order], lead[order]
    for i in range(len(works)):
        ended = [j for j in range(i) if queue[j] == queue[i] and not aside[j] and end[j] <= start[i]]
        if lead[i]:
            assert end[before[i]] - lead[i] == start[i]
            assert 2 * lead[i] < min(end[i] - start[i], end[before[i]] - start[before[i]])
        elif ended:
            assert end[before[i]] == max(end[j] for j in ended)
            assert before[i] in ended
        else:
            assert before[i] == -1


def test_compiled_loops_find_the_same(monkeypatch):
    events = [
        (
            f"gpu:{k % 2}",
            "ab"[k // 2 % 2],
            KINDS[k % 4],
            10 * k,
            10 * k + 3 + k % 9,
            {"correlation_id": k, "wait_ps": k % 3},
        )
        for k in range(60)
    ]
    calls = [("tu"[k // 30], 10 * k - 8 + 8 * (k == 0), 10 * k - 2 + 8 * (k == 0), k) for k in range(60)]
    syncs = [("t", 150, 220, None, None, "gpu:0", None, 140), ("u", 300, 310, "gpu:0", "a", "gpu:0", "b", 300)]
    periodic_trace = trace(events, calls, [("t", 0, 500), ("u", 310, 400), ("t", 0, 190, "train", 0)], syncs)
    member = [k // 8 if k % 4 == 1 else -1 for k in rows(periodic_trace.events).at.tolist()]

    def everything():
        dag = graph_of(periodic_trace, member)
        assert len(dag.ended) == 1
        runs = plan(dag, runs_of(dag, (5, 90, 190), (200, 500)))
        op = np.zeros(len(dag.start), np.int32)
        path = find_paths(dag, runs, np.ones(3, bool))
        return [
            *(column for column in vars(dag).values() if isinstance(column, np.ndarray)),
            *runs,
            replay(dag, runs, WHAT, op),
            *vars(path).values(),
        ]

    plain = everything()
    monkeypatch.setattr(jit, "COMPILE_FROM_ROWS", 0)
    compiled = everything()
    assert len(plain) == len(compiled)
    for plain_column, compiled_column in zip(plain, compiled, strict=True):
        assert plain_column.dtype == compiled_column.dtype
        assert plain_column.tolist() == compiled_column.tolist()


def test_a_path_ends_where_a_collective_waited_for_one_that_waited_for_it():
    rows_of = [("tpu:0", "a", "collective", 21, 32, {}), ("tpu:0", "b", "collective", 9, 25, {})]
    dag, cuts, _ = graph_and_cuts((trace(rows_of, [], [], []), np.array([0, 0]), [8, 25]))
    path = find_paths(dag, plan(dag, runs_of(dag, cuts)), np.ones(1, bool))
    assert path.parts.sum(axis=1).tolist() == [17]
    assert path.parts[0, Part.COLLECTIVE] == 4
