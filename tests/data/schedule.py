"""The jobs that the generated traces show, as tables in whole microseconds, and their figures by counting microseconds.

Nothing here knows tracekit: what a trace is to show is added up from the tables, one microsecond at a time.
"""

from dataclasses import dataclass, replace

MIB = 1 << 20
STEPS = 3
STEP_US = 1_000
FIRST_STEP_US = 100


@dataclass(frozen=True)
class Work:
    """One piece of device work in [start, end), which a call of the host in [called, called + call_us) launched."""

    device: int
    stream: int
    kind: str  # compute, collective, memcpy, memset
    op: str  # its HLO op
    start: int
    end: int
    called: int = 0
    bytes: int = 0
    direction: str = ""
    step: int = 0


CALL_US = 3
# Streams as a GPU numbers them, and the bytes that each collective moves.
COMPUTE, HOST_TO_DEVICE, PEER, DEVICE_TO_HOST, COMMUNICATION = 13, 14, 15, 16, 20
REDUCED_BYTES, GATHERED_BYTES = 4 * MIB, 2 * MIB
# When a step's host calls to wait for the device, and until when it waits; then it loads the next batch.
WAIT = (62, 735)
LOADING = (745, 995)
ANNOTATED_US = 740


def gpu_step(device: int, step: int) -> list[Work]:
    """A training step on one of two GPUs: the second computes 20 us later, the first is 10 us late to the gather."""
    late, gather = 20 * device, 600 + 10 * (1 - device)
    works = [
        Work(device, HOST_TO_DEVICE, "memcpy", "copy.1", 10, 60, bytes=MIB, direction="H2D"),
        Work(device, COMPUTE, "memset", "memset.2", 62, 64, bytes=4096),
        Work(device, COMPUTE, "compute", "dot.3", 70 + late, 270 + late),
        Work(device, COMPUTE, "compute", "fusion.4", 270 + late, 330 + late),
        Work(device, COMMUNICATION, "collective", "all-reduce-start.5", 300 + late, 520, bytes=REDUCED_BYTES),
        Work(device, COMPUTE, "compute", "dot.6", 340 + late, 500 + late),
        Work(device, HOST_TO_DEVICE, "memcpy", "copy.7", 400, 440, bytes=MIB, direction="H2D"),
        Work(device, COMPUTE, "compute", "fusion.8", 530, 600),
        Work(device, COMMUNICATION, "collective", "all-gather-start.9", gather, 680, bytes=GATHERED_BYTES),
        Work(device, COMPUTE, "memcpy", "copy.10", 690, 694, bytes=MIB, direction="D2D"),
        Work(device, DEVICE_TO_HOST, "memcpy", "copy.11", 730, 733, bytes=4, direction="D2H"),
    ]
    if device == 0:
        works.append(Work(0, PEER, "memcpy", "copy.12", 700, 720, bytes=4 * MIB, direction="P2P"))
    return [replace(work, called=2 + 5 * at) for at, work in enumerate(works)]


def gpu_job() -> list[Work]:
    """Three training steps on two GPUs, in microseconds from the start of the profile."""
    return [_shift(work, step) for step in range(STEPS) for device in (0, 1) for work in gpu_step(device, step)]


# A program on a TPU, whose ops follow each other but for what is in flight beside them.
TPU_US = 820
# Read and written once, as f32, with one addition each; a TPU v6e moves 1638 GB a second.
ADDED = 64 * MIB
OFFLOADED_BYTES = 8 * MIB


def tpu_step(chip: int, step: int) -> list[Work]:
    """One execution of a program on one of two chips; the second is 5 us late to the all-reduce."""
    late = 5 * chip
    return [
        Work(chip, 0, "compute", "broadcast_add_fusion.1", 0, 400),
        Work(chip, 1, "memcpy", "copy-start.3", 400, 740, bytes=OFFLOADED_BYTES, direction="D2H"),
        Work(chip, 0, "compute", "fusion.5", 405, 500 + late),
        Work(chip, 0, "collective", "all-reduce.6", 500 + late, 600, bytes=REDUCED_BYTES),
        Work(chip, 0, "compute", "fusion.7", 600, 700),
        Work(chip, 1, "collective", "all-gather-start.8", 740, 815, bytes=GATHERED_BYTES),
        Work(chip, 0, "compute", "fusion.9", 741, 800),
    ]


def tpu_job() -> list[Work]:
    """Three executions on two chips, in microseconds from the start of the profile."""
    return [_shift(work, step) for step in range(STEPS) for chip in (0, 1) for work in tpu_step(chip, step)]


def rocm_step(device: int, step: int) -> list[Work]:
    """A step on one of two AMD GPUs, whose copies are kernels."""
    late = 5 * device
    works = [
        Work(device, 17, "memcpy", "", 10, 30, direction="H2D"),
        Work(device, 16, "compute", "wrapped_broadcast", 40, 100),
        Work(device, 16, "compute", "dot.3", 110 + late, 300 + late),
        Work(device, 16, "memcpy", "copy.1", 310 + late, 315 + late, direction="D2D"),
        Work(device, 18, "collective", "all-reduce-start.5", 320 + late, 400, bytes=REDUCED_BYTES),
        Work(device, 16, "compute", "fusion.4", 330, 350),
        Work(device, 17, "memcpy", "", 410, 412, direction="D2D or P2P"),
    ]
    return [replace(work, called=2 + 5 * at) for at, work in enumerate(works)]


def rocm_job() -> list[Work]:
    """Three steps on two AMD GPUs and one copy to a third, in microseconds from the start of the profile."""
    job = [_shift(work, step) for step in range(STEPS) for device in (0, 1) for work in rocm_step(device, step)]
    return [*job, Work(2, 17, "memcpy", "", 50, 60, called=40, direction="H2D")]


def base(step: int) -> int:
    """When a step begins."""
    return FIRST_STEP_US + step * STEP_US


def _shift(work: Work, step: int) -> Work:
    by = base(step)
    return replace(work, start=work.start + by, end=work.end + by, called=work.called + by, step=step)


def microseconds(works: list[Work]) -> set[int]:
    """The microseconds in which any of the work runs."""
    return {time for work in works for time in range(work.start, work.end)}


def figures(job: list[Work], prefix: str) -> dict[str, dict[str, float] | int]:
    """Counts and microseconds of each device and of each two, by the keys of ../shared/traces/expected.json."""
    figures_by_key: dict[str, dict[str, float] | int] = {}
    numbers = sorted({work.device for work in job})
    busy = {}
    for number in numbers:
        mine = [work for work in job if work.device == number]
        compute, collective, memory = (
            [work for work in mine if work.kind in kinds]
            for kinds in (("compute",), ("collective",), ("memcpy", "memset"))
        )
        sets = {"compute": microseconds(compute), "collective": microseconds(collective), "mem": microseconds(memory)}
        for way in ("H2D", "D2H", "D2D"):
            if times := microseconds([work for work in mine if work.direction == way]):
                sets[way] = times
        busy[number] = microseconds(mine)
        figures_by_key[f"{prefix}{number}"] = {
            "n_compute": len(compute),
            "n_collective": len(collective),
            "n_mem": len(memory),
            "span": max(work.end for work in mine) - min(work.start for work in mine),
            "busy": len(busy[number]),
            **{name: len(times) for name, times in sets.items()},
            "compute&collective": len(sets["compute"] & sets["collective"]),
            "compute&mem": len(sets["compute"] & sets["mem"]),
            "collective&mem": len(sets["collective"] & sets["mem"]),
        }
        if collective:
            hidden = len(sets["compute"] & sets["collective"])
            figures_by_key[f"{prefix}{number}"] |= {"overlap_ratio": round(hidden / len(sets["collective"]), 5)}
    for a, b in ((a, b) for a in numbers for b in numbers if a < b):
        figures_by_key[f"busy {prefix}{a} & {prefix}{b}"] = len(busy[a] & busy[b])
    return figures_by_key
