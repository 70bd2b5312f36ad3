"""What is true of a job, by its simulation alone: steps, collectives, idle time, critical path and what-ifs.

**Steps.** A step ends when its last host has come to the end of its annotation and its work on the devices, copies
aside, is done; there the next begins. The first begins at 0.

**Critical path** of a window [start, end), of one step or of several: back from what ended last in it, through what
each activity waited for last, to the start. A collective's transfer is on it from when its last member had begun, and
then that member. The paths of the steps do not add up to the one through them all: where the host runs ahead, each step
ends with a device, though all of them may have waited for the host.

**What-if** of a window: the job is simulated again, in which something takes no time from the window's start on (see
`Removal`); all before is as it was. The window then ends when its last step has ended, and the ratio is its length over
the measured one. Without the host its work, its calls, the latency of launches and the waking from waits take no time;
the gaps between queued work are the device's own and stay. Without collectives nobody waits for a peer either.

**Idle** time of a device is that between its first and its last work in which none of its streams has any. Its causes
are the pieces of the path that led to the work that ended it.
"""

from dataclasses import dataclass

from tests.simulator.job import DEVICE_PARTS, Job, Part, Sort
from tests.simulator.simulate import Recording, Removal, simulate

Window = tuple[int, int]

HOST = frozenset({Part.WORK, Part.CALL, Part.LATENCY, Part.WAKE})
# By the names that tracekit gives them.
REMOVED = {
    "collective_transfers": (frozenset({Part.TRANSFER}), False),
    "collectives": (frozenset({Part.TRANSFER}), True),
    "copies": (frozenset({Part.MEMCPY}), False),
    "host": (HOST, False),
}


@dataclass(frozen=True)
class Piece:
    """A stretch [start, end) of a path: an activity itself, or the lag before it began (`is_lag`)."""

    part: Part
    start: int
    end: int
    activity: int
    is_lag: bool


@dataclass(frozen=True)
class Collective:
    """The members of a collective by rank, in ns: how long each waited for the last, who that was, and the transfer."""

    waiting: dict[int, int]
    last_rank: int
    transfer: int


@dataclass(frozen=True)
class Idle:
    """An idle stretch of a rank's device, and the pieces of the path that led to the work that ended it."""

    rank: int
    start: int
    end: int
    pieces: list[Piece]


class Truth:
    """A job that was simulated; `recording` is when everything happened."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.recording = simulate(job)

    def steps(self) -> list[Window]:
        """The window of each step."""
        ends = step_ends(self.job, self.recording)
        return list(zip([0, *ends], ends, strict=False))

    def path(self, window: Window) -> list[Piece]:
        """The critical path of a window, the last piece first; the pieces sum to the window."""
        start, end = window
        return self._back(self._ends_last(end), start, end)

    def composition(self, window: Window) -> dict[Part, int]:
        """How much of the critical path is what."""
        parts = dict.fromkeys(Part, 0)
        for piece in self.path(window):
            parts[piece.part] += piece.end - piece.start
        return parts

    def what_if(self, window: Window, what: str, name: str | None = None) -> float:
        """How long the window would be without `what`, over how long it is; `name` is that of an "op".

        The window ends with a step, or else with the last work of all devices.
        """
        start, end = window
        if name is not None and all(activity.name != name for activity in self.job.activities):
            raise ValueError(f"nothing in the job is called {name!r}")
        parts, apart = REMOVED[what] if name is None else (frozenset(), False)
        again = simulate(self.job, Removal(parts, name, apart, start))
        ends = step_ends(self.job, self.recording)
        if end in ends:
            return (step_ends(self.job, again)[ends.index(end)] - start) / (end - start)
        return (self._devices_end(again) - start) / (end - start)

    def devices(self) -> Window:
        """From the first start to the last end of all devices."""
        items = [number for number, activity in enumerate(self.job.activities) if activity.part in DEVICE_PARTS]
        return min(self.recording.start[number] for number in items), self._devices_end(self.recording)

    def _devices_end(self, recording: Recording) -> int:
        """When the last work of all devices has ended."""
        return max(
            end
            for end, activity in zip(recording.end, self.job.activities, strict=True)
            if activity.part in DEVICE_PARTS
        )

    def collectives(self) -> list[Collective]:
        """All of them, in the order in which their transfers began."""
        recording = self.recording
        found: dict[int, dict[int, int]] = {}
        length: dict[int, int] = {}
        for number, activity in enumerate(self.job.activities):
            if activity.collective >= 0:
                gate = recording.gate[activity.collective]
                found.setdefault(activity.collective, {})[activity.rank] = gate - recording.start[number]
                length[activity.collective] = recording.end[number] - gate
        return [
            Collective(found[number], self.job.activities[recording.last_member[number]].rank, length[number])
            for number in sorted(found, key=lambda number: recording.gate[number])
        ]

    def idle(self, rank: int) -> list[Idle]:
        """The idle stretches of a rank's device, in order."""
        recording = self.recording
        items = sorted(
            (recording.start[number], recording.end[number], number)
            for number, activity in enumerate(self.job.activities)
            if activity.rank == rank and activity.part in DEVICE_PARTS
        )
        stretches, reach = [], items[0][1] if items else 0
        for start, end, number in items:
            if start > reach:
                stretches.append(Idle(rank, reach, start, self._back_from_start(number, reach, start)))
            reach = max(reach, end)
        return stretches

    def _ends_last(self, end: int) -> int:
        """The activity that ends at `end`, before others one of a device."""
        ending = [number for number, moment in enumerate(self.recording.end) if moment == end]
        return min(ending, key=lambda number: (self.job.activities[number].part not in DEVICE_PARTS, number))

    def _back(self, number: int, start: int, end: int) -> list[Piece]:
        """The path to the end of an activity, which is `end`, back to `start`."""
        recording, activities = self.recording, self.job.activities
        pieces: list[Piece] = []
        while end > start:
            begin, last, collective = recording.start[number], number, activities[number].collective
            if collective >= 0:
                begin, last = recording.gate[collective], recording.last_member[collective]
            if max(begin, start) < end:
                pieces.append(Piece(activities[number].part, max(begin, start), end, number, False))
            end = max(begin, start)
            lag = self._lag(last, start, end)
            if lag is None:
                break
            pieces += [lag] if lag.start < end else []
            number, end = self._awaited(last), lag.start
        return pieces

    def _back_from_start(self, number: int, start: int, end: int) -> list[Piece]:
        """The path to the start of an activity, which is `end`, back to `start`."""
        lag = self._lag(number, start, end)
        if lag is None:
            return []
        return ([lag] if lag.start < end else []) + self._back(self._awaited(number), start, lag.start)

    def _awaited(self, number: int) -> int:
        """What an activity waited for last."""
        return self.job.activities[number].waits[self.recording.cause[number]].after

    def _lag(self, number: int, start: int, end: int) -> Piece | None:
        """What lay between the begin of an activity, which is `end`, and the end of what it waited for last."""
        if self.recording.cause[number] < 0:
            return None
        wait = self.job.activities[number].waits[self.recording.cause[number]]
        return Piece(wait.part, min(max(self.recording.end[wait.after], start), end), end, number, True)


def step_ends(job: Job, recording: Recording) -> list[int]:
    """When each step has ended on all hosts and, copies aside, on all devices."""
    ends = [0] * job.steps
    for row in job.rows:
        if row.sort in (Sort.STEP, Sort.KERNEL, Sort.MEMSET):
            ends[row.step] = max(ends[row.step], recording.end[row.last])
    for step in range(1, job.steps):
        ends[step] = max(ends[step], ends[step - 1])
    return ends
