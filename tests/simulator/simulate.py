"""When everything in a job happens: a discrete-event simulation."""

import heapq
from dataclasses import dataclass
from itertools import count

from tests.simulator.job import DEVICE_SORTS, Job, Part, Row


@dataclass(frozen=True)
class Removal:
    """What takes no time from the moment `since_ns` on: activities and lags of some `parts`, or the items of a `name`.

    What has begun by then ends then at the latest; all before is as it was. `apart`: the members of a collective do not
    wait for each other either.
    """

    parts: frozenset[Part] = frozenset()
    name: str | None = None
    apart: bool = False
    since_ns: int = 0

    def length(self, start: int, length_ns: int, part: Part, name: str = "") -> int:
        """What is left of a time that begins at `start`."""
        if part in self.parts or (self.name is not None and name == self.name):
            return min(length_ns, max(self.since_ns - start, 0))
        return length_ns


NOTHING = Removal()


@dataclass(frozen=True)
class Recording:
    """When each of the n activities of a job happened, in ns.

    `arrival`: when what is first in its `waits` had ended, which for a host is when the thread came to it; `cause`: the
    place in its `waits` of what it waited for last, -1 for none. `gate`, `last_member`: of each collective, when its
    transfer began, and the activity that came last.
    """

    start: list[int]
    end: list[int]
    arrival: list[int]
    cause: list[int]
    gate: dict[int, int]
    last_member: dict[int, int]

    def times(self, row: Row) -> tuple[int, int]:
        """Begin and end of a row."""
        begins = self.start if row.sort in DEVICE_SORTS else self.arrival
        return begins[row.first], self.end[row.last]


def simulate(job: Job, removal: Removal = NOTHING) -> Recording:
    """Run the job: events in the order of time, each the end of an activity."""
    activities = job.activities
    waiting = [len(activity.waits) for activity in activities]
    followers: list[list[tuple[int, int]]] = [[] for _ in activities]
    absent: dict[int, int] = {}
    for number, activity in enumerate(activities):
        for place, wait in enumerate(activity.waits):
            followers[wait.after].append((number, place))
        if activity.collective >= 0:
            absent[activity.collective] = absent.get(activity.collective, 0) + 1
    n = len(activities)
    start, end, arrival, cause = [0] * n, [-1] * n, [0] * n, [-1] * n
    gate: dict[int, int] = {}
    last_member: dict[int, int] = {}
    members: dict[int, list[int]] = {}
    order = count()
    # Time, order of equal times, activity, whether it begins or ends.
    events: list[tuple[int, int, int, bool]] = []
    for number in range(n):
        if not waiting[number]:
            heapq.heappush(events, (0, next(order), number, True))
    while events:
        now, _, number, begins = heapq.heappop(events)
        activity = activities[number]
        if begins:
            start[number] = now
            instance = activity.collective
            if instance < 0:
                length = removal.length(now, activity.length_ns, activity.part, activity.name)
                heapq.heappush(events, (now + length, next(order), number, False))
                continue
            members.setdefault(instance, []).append(number)
            if removal.apart:
                heapq.heappush(events, (max(now, removal.since_ns), next(order), number, False))
            absent[instance] -= 1
            if not absent[instance]:
                gate[instance], last_member[instance] = now, number
                for member in members[instance]:
                    length = removal.length(now, activities[member].length_ns, Part.TRANSFER, activity.name)
                    heapq.heappush(events, (now + length, next(order), member, False))
            continue
        if end[number] >= 0:
            continue
        end[number] = now
        for follower, place in followers[number]:
            wait = activities[follower].waits[place]
            ready = now + removal.length(now, wait.lag_ns, wait.part)
            if place == 0:
                arrival[follower] = ready
            if ready > start[follower] or cause[follower] < 0:
                start[follower], cause[follower] = ready, place
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(events, (start[follower], next(order), follower, True))
    if min(end, default=0) < 0:
        raise AssertionError("the job does not end: something in it waits for what comes later")
    return Recording(start, end, arrival, cause, gate, last_member)
