"""Ranks: how the names of files, directories and hosts number the processes and machines of a job, and which variables
tell how many ranks it has."""

import re
from collections.abc import Collection

# A letter before it makes it another word (crank, multitask), unless it begins with a capital (traceRank0). Longer
# numbers are times, dates and ids of jobs. Writers set rank0, rank_0, rank-0, rank.0 and rank[0]; `-w-3` ends the names
# of TPU workers, and of a directory w3 nobody knows what it counts.
_PROCESS = r"(?<![a-z])(rank|worker|process|proc|task|\bw(?=-))[-_. \[]?(\d{1,6})(?!\d)"
_PROCESS_NAME = re.compile(_PROCESS)
# Machines have numbers too, but those of a job need not follow each other, and one may hold several ranks. Directories
# that `nsys export` makes of a report end in what they hold.
_EXPORT = r"(_pqtdir|_arwdir)?"
_PART_OF_RUN = re.compile(rf"{_PROCESS}\]?{_EXPORT}$|(?<![a-z])(host|node)[-_. \[]?\d{{1,6}}\]?{_EXPORT}$")
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# torchrun sets WORLD_SIZE for its workers (PyTorch, "torchrun (Elastic Launch)", Environment Variables); Open MPI,
# MPICH and MVAPICH theirs; Slurm that of a step (srun, OUTPUT ENVIRONMENT VARIABLES). SLURM_NTASKS is that of an
# allocation, not of the job.
_SIZES = "WORLD_SIZE|OMPI_COMM_WORLD_SIZE|PMI_SIZE|MV2_COMM_WORLD_SIZE|SLURM_STEP_NUM_TASKS"
_VARIABLE = re.compile(rf'(?:^|;)(?:{_SIZES})="?(\d{{1,7}})"?(?=;|$)')
# What XLA calls a GPU, and the thread that launches on it, for Nsight Systems.
_XLA_DEVICE = re.compile(r"Xla(?:Launcher)?:#global=(\d{1,9}),local=\d+,process=(\d{1,9})(?!\d)")
_NUMBERED = re.compile(r"(.*?)(\d{1,9})(\D*)", re.DOTALL)
_SPELT = {"w": "worker", "proc": "process"}


def process_number(name: str) -> tuple[str, int] | None:
    """Which process of a job a file, directory or host is called after: what is counted, as `rank`, and its number.

    None where the name does not say so.
    """
    match = _PROCESS_NAME.search(_words(name))
    return (_SPELT.get(match[1], match[1]), int(match[2])) if match else None


def is_part_of_run(directory: str) -> bool:
    """Whether a directory of this name holds the part that one process or machine has in a run: rank0, host-3."""
    return bool(_PART_OF_RUN.search(_words(directory)))


def world_sizes(environment: str) -> list[int]:
    """How many ranks the job has, by each variable that tells it, of an environment such as `A=1;WORLD_SIZE=8`."""
    return [int(size) for size in _VARIABLE.findall(environment)]


def xla_device(name: str) -> tuple[int, int] | None:
    """The number of the device and of its process in the job, of a thread or device that XLA named; else None."""
    match = _XLA_DEVICE.match(name)
    return (int(match[1]), int(match[2])) if match else None


def missing_machines(names: Collection[str], machines: int) -> list[str]:
    """The machines of a job of so many that are not among `names`, called as these are: host2 beside host0, host1 and
    host3.

    None where that is not sure: where more are missing than there are, names differ in more than one number, or their
    numbers do not follow each other from 0 or from 1 but for so many as are missing.
    """
    if machines > 2 * len(names):  # of a size that is damaged there are billions
        return []
    parts = [match.groups() for match in map(_NUMBERED.fullmatch, names) if match]
    numbers = {int(number) for _, number, _ in parts}
    if len(parts) < len(names) or len({(before, after) for before, _, after in parts}) != 1:
        return []
    possible = [first for first in (0, 1) if first <= min(numbers) and max(numbers) < first + machines]
    if len(numbers) < len(names) or len(possible) != 1:
        return []
    (before, _, after), texts = parts[0], [number for _, number, _ in parts]
    width = max(map(len, texts)) if any(text[0] == "0" != text for text in texts) else 0
    absent = sorted({*range(possible[0], possible[0] + machines)} - numbers)
    return [f"{before}{number:0{width}d}{after}" for number in absent]


def _words(name: str) -> str:
    return _CAPITAL.sub(" ", name).lower()
