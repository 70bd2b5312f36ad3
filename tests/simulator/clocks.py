"""The clocks that a job's rows are written with."""

from dataclasses import dataclass

from tests.simulator.job import DEVICE_SORTS, Row
from tests.simulator.simulate import Recording


@dataclass(frozen=True)
class Clock:
    """A rank's clock: `offset_ns` at 0 and `drift_ppm` from then on; its device's rows are `device_ns` late."""

    offset_ns: int = 0
    drift_ppm: float = 0.0
    device_ns: int = 0

    def times(self, recording: Recording, row: Row) -> tuple[int, int]:
        """Begin and end of a row as the clock shows them, in ns."""
        late = self.offset_ns + (self.device_ns if row.sort in DEVICE_SORTS else 0)
        start, end = recording.times(row)
        return (
            start + round(start * self.drift_ppm / 1e6) + late,
            end + round(end * self.drift_ppm / 1e6) + late,
        )


EXACT = Clock()
