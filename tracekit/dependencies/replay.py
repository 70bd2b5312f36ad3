"""Replays the steps: what each would take if everything began as soon as what it waits for had ended."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.dependencies.graph import WORK, Graph
from tracekit.dependencies.plan import Plan
from tracekit.jit import loop

Column = NDArray[np.int64]


@dataclass(frozen=True)
class Without:
    """What takes no time in a replay: the nodes of some `kinds`, or the rows of one `op` (a number in `op_of`).

    `apart`: members of a collective do not wait for each other either. `prompt`: launches have no latency, and the host
    does nothing between its calls.
    """

    kinds: tuple[int, ...] = ()
    op: int = -1
    apart: bool = False
    prompt: bool = False


def replay(graph: Graph, steps: Plan, what: Sequence[Without], op_of: NDArray[np.int32]) -> Column:
    """The length of each step if every node began as soon as all that it waits for had ended, shape (m, v), in ps.

    One column for each of the v entries of `what`. `op_of` (N,): the number of each node's op, -1 for none.
    """
    if not what:
        return np.zeros((len(steps.start), 0), np.int64)
    kinds = np.array([[kind in one.kinds for kind in range(WORK + 1)] for one in what])
    found: Column = loop(replayed, len(steps.node))(
        int(np.diff(steps.first).max(initial=1)), steps.first, steps.before, steps.lag_ps, steps.launch,
        steps.delay_ps, steps.length_ps, steps.edge_first, steps.edge, graph.kind[steps.node],
        graph.instance[steps.node], len(graph.gate), op_of[steps.node], kinds,
        np.array([one.op for one in what], np.int64), np.array([one.apart for one in what]),
        np.array([one.prompt for one in what]),
    )  # fmt: skip
    return found


def replayed(
    largest: int, first: Column, before: NDArray[np.int32], lag: Column,
    launch: NDArray[np.int32], delay: Column, length: Column, edge_first: NDArray[np.int32], edge: NDArray[np.int32],
    kind: NDArray[np.int8], instance: NDArray[np.int32], instances: int, op: NDArray[np.int32],
    kinds: NDArray[np.bool_], ops: Column, apart: NDArray[np.bool_], prompt: NDArray[np.bool_],
) -> Column:  # fmt: skip
    """See `replay`; times count from the step's begin.

    The end of a collective's member is its transfer behind the last start of the members: `done` holds the transfer,
    `met` the last start, which is complete before anything that waits for a member is looked at.
    """
    many = len(ops)
    lengths = np.zeros((len(first) - 1, many), np.int64)
    done = np.zeros(largest, np.int64)
    met, longest = np.zeros(instances, np.int64), np.zeros(instances, np.int64)
    run_of = np.full(instances, -1, np.int64)
    for step in range(len(first) - 1):
        base = first[step]
        for v in range(many):
            together, host = not apart[v], not prompt[v]
            length_of_all = 0
            for p in range(base, first[step + 1]):
                gap, x = lag[p], before[p]
                if gap > 0 and not host:
                    gap = 0
                ready = gap
                if x >= 0:
                    m = instance[base + x]
                    ready = max(done[x] + gap + (met[m] if m >= 0 and together else 0), 0)
                for q in range(edge_first[p], edge_first[p + 1]):
                    m = instance[base + edge[q]]
                    ready = max(ready, done[edge[q]] + (met[m] if m >= 0 and together else 0))
                x = launch[p]
                if x >= 0:
                    begun = done[x] - (0 if kinds[v, kind[base + x]] else length[base + x])
                    ready = max(ready, begun + delay[p] if host else begun)
                own = 0 if kinds[v, kind[p]] or (op[p] >= 0 and op[p] == ops[v]) else length[p]
                m = instance[p]
                if m >= 0 and together:
                    if run_of[m] != step * many + v:
                        run_of[m], met[m], longest[m] = step * many + v, ready, own
                    met[m], longest[m] = max(met[m], ready), max(longest[m], own)
                    done[p - base] = own
                    length_of_all = max(length_of_all, met[m] + longest[m])
                else:
                    done[p - base] = ready + own
                    length_of_all = max(length_of_all, ready + own)
            lengths[step, v] = length_of_all
    return lengths
