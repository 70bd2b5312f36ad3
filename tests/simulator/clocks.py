"""How a job was recorded: with which clocks, and of which ranks."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.simulator.job import DEVICE_SORTS, Row
from tests.simulator.simulate import Recording

US, MS = 1000, 1_000_000


@dataclass(frozen=True)
class Clock:
    """A rank's clock: `offset_ns` at 0 and `drift_ppm` from then on; its device's rows are `device_ns` late."""

    offset_ns: int = 0
    drift_ppm: float = 0.0
    device_ns: int = 0

    def times(self, recording: Recording, row: Row) -> tuple[int, int]:
        """Begin and end of a row as the clock shows them, in ns."""
        late = self.offset_ns + (self.device_ns if row.sort in DEVICE_SORTS else 0)
        start, end = (time + round(time * self.drift_ppm / 1e6) + late for time in recording.times(row))
        return start, end


@dataclass(frozen=True)
class Recorder:
    """The clocks of the ranks, exact where none is given, and the ranks of which nothing is recorded.

    `apart`: each rank is on a host of its own, and has a file of its own in every format.
    """

    clocks: Mapping[int, Clock] = field(default_factory=dict)
    missing: frozenset[int] = frozenset()
    apart: bool = False

    def times(self, recording: Recording, row: Row) -> tuple[int, int]:
        """Begin and end of a row as its rank's clock shows them, in ns."""
        return self.clocks.get(row.rank, EXACT).times(recording, row)


EXACT = Clock()
WHOLE = Recorder()
# How jobs are recorded: as they are; each rank on a host with a clock of its own; devices whose clocks are not the
# host's; without one of several ranks.
WORLDS = ("exact", "hosts", "devices", "missing")


def recorder(world: str, seed: int, ranks: int) -> Recorder:
    """How the job of a seed is recorded in one of WORLDS."""
    draw = random.Random(f"{world} {seed}")
    if world == "hosts":
        clocks = {rank: Clock(draw.randint(-20 * MS, 20 * MS), draw.uniform(-50, 50)) for rank in range(1, ranks)}
        return Recorder(clocks, apart=True)
    if world == "devices":
        reach = draw.choice([200 * US, 300 * MS])
        return Recorder({rank: Clock(device_ns=draw.randint(-reach, reach)) for rank in range(ranks)})
    if world == "missing" and ranks > 1:
        return Recorder(missing=frozenset({draw.randrange(ranks)}))
    return WHOLE
