"""Replays the steps: what each would take if everything began as soon as what it waits for had ended."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.analysis.critical_path.graph import WORK, Graph
from tracekit.analysis.critical_path.plan import Plan
from tracekit.jit import loop

Column = NDArray[np.int64]

# So many times are held at once, 8 bytes each: columns of a step's nodes beside each other are replayed together.
_ROOM = 5_000_000
# No node has this op; -1 is that of nodes without one.
_NO_OP = -2


@dataclass(frozen=True)
class Without:
    """What takes no time in a replay: the nodes of some `kinds`, or the rows of one `op` (a number in `op_of`).

    `unsynchronised`: members of a collective do not wait for each other either. `prompt`: launches have no latency, and
    the host does nothing between its calls.
    """

    kinds: tuple[int, ...] = ()
    op: int = -1
    unsynchronised: bool = False
    prompt: bool = False


def replay(graph: Graph, steps: Plan, scenarios: Sequence[Without], op_of: NDArray[np.int32]) -> Column:
    """The length of each step if every node began as soon as all that it waits for had ended, shape (m, v), in ps.

    One column for each of the v entries of `scenarios`. `op_of` (N,): the number of each node's op, -1 for none.
    """
    if not scenarios:
        return np.zeros((len(steps.start), 0), np.int64)
    largest = int(np.diff(steps.first).max(initial=1))
    # As masks, all bits or none: a time that counts in an entry is `time & mask`.
    works = np.array([[0 if kind in scenario.kinds else -1 for scenario in scenarios] for kind in range(WORK + 1)])
    joint = np.array([0 if scenario.unsynchronised else -1 for scenario in scenarios])
    ops = np.array([scenario.op if scenario.op >= 0 else _NO_OP for scenario in scenarios])
    host = np.array([0 if scenario.prompt else -1 for scenario in scenarios])
    lengths: Column = loop(replay_steps, len(steps.node))(
        largest, steps.first, steps.predecessor, steps.lag_ps, steps.launch, steps.delay_ps, steps.length_ps,
        steps.edge_first, steps.edge, steps.node, graph.kind, graph.instance, len(graph.gate), op_of, works, ops,
        joint, host, min(max(_ROOM // largest, 1), len(scenarios)),
    )  # fmt: skip
    return lengths


def replay_steps(
    largest: int, first: Column, predecessor: NDArray[np.int32], lag: Column,
    launch: NDArray[np.int32], delay: Column, length: Column, edge_first: NDArray[np.int32], edge: NDArray[np.int32],
    node: NDArray[np.int32], kind: NDArray[np.int8], instance: NDArray[np.int32], instances: int, op: NDArray[np.int32],
    works: Column, ops: Column, joint: Column, host: Column, columns: int,
) -> Column:  # fmt: skip
    """See `replay`; times count from the step's begin, and so many `columns` are replayed at once.

    The end of a collective's member is its transfer behind the last start of the members: `end_of` holds the transfer,
    `last_start` the last start, which is complete before anything that waits for a member is looked at.
    """
    lengths = np.zeros((len(first) - 1, len(ops)), np.int64)
    end_of = np.zeros((largest, columns), np.int64)
    last_start, longest = np.zeros((instances, columns), np.int64), np.zeros((instances, columns), np.int64)
    ready, step_length = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    turn, turn_of = 0, np.zeros(instances, np.int64)
    for low in range(0, len(ops), columns):
        count = min(columns, len(ops) - low)
        # Of the columns low to low + many; the loops over them are innermost, so that each node is read once.
        works_, ops_, joint_, host_ = works[:, low:].copy(), ops[low:], joint[low:], host[low:]
        for step in range(len(first) - 1):
            base, turn = first[step], turn + 1
            step_length[:] = 0
            for p in range(base, first[step + 1]):
                gap, x = lag[p], predecessor[p]
                for v in range(count):
                    ready[v] = gap & host_[v] if gap > 0 else gap
                if x >= 0:
                    m = instance[node[base + x]]
                    for v in range(count):
                        ready[v] = max(ready[v] + end_of[x, v] + (last_start[m, v] & joint_[v] if m >= 0 else 0), 0)
                for q in range(edge_first[p], edge_first[p + 1]):
                    x = edge[q]
                    m = instance[node[base + x]]
                    for v in range(count):
                        ready[v] = max(ready[v], end_of[x, v] + (last_start[m, v] & joint_[v] if m >= 0 else 0))
                x = launch[p]
                if x >= 0:
                    k, call_length, delay_of_launch = kind[node[base + x]], length[base + x], delay[p]
                    for v in range(count):
                        ready[v] = max(
                            ready[v], end_of[x, v] - (call_length & works_[k, v]) + (delay_of_launch & host_[v])
                        )
                i = node[p]
                k, own_length, m = kind[i], length[p], instance[i]
                if m < 0:
                    for v in range(count):
                        end = ready[v] + (0 if op[i] == ops_[v] else own_length & works_[k, v])
                        end_of[p - base, v] = end
                        step_length[v] = max(step_length[v], end)
                    continue
                if turn_of[m] != turn:
                    turn_of[m] = turn
                    for v in range(count):
                        last_start[m, v], longest[m, v] = ready[v], 0
                for v in range(count):
                    transfer = 0 if op[i] == ops_[v] else own_length & works_[k, v]
                    last_start[m, v] = max(last_start[m, v], ready[v])
                    longest[m, v] = max(longest[m, v], transfer)
                    end_of[p - base, v] = transfer + (ready[v] & ~joint_[v])
                    end = last_start[m, v] + longest[m, v] if joint_[v] else ready[v] + transfer
                    step_length[v] = max(step_length[v], end)
            for v in range(count):
                lengths[step, low + v] = step_length[v]
    return lengths
