"""What an Nsight Systems export says of the machine: host, clock, processes, threads, GPUs and the profiler's warnings.

Ids of processes and threads are serialized, as sqlite_export.py says.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.devices import MOST_NUMBER, unknown
from tracekit.readers.losses import Lost
from tracekit.readers.nsys.sqlite_export import ID_MASK, MISSING, TID_BITS, Export, rows, strings
from tracekit.units import YEAR_2000_NS
from tracekit.vocabulary.losses import Loss

_YEAR_2100_NS = 4_102_444_800 * 10**9
_LARGEST = 2**53  # of a size or a bandwidth in bytes or kB, past that of any machine
_KILO = 1000
_NO_HOST = ("", "UNKNOWN", "localhost")
_EXPORT_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")
# Severities of ENUM_DIAGNOSTIC_SEVERITY_LEVEL, and what a warning must speak of to bear on what is read here.
_SEVERE = {2: "warning", 3: "error"}
_RELEVANT = re.compile(r"CUDA|CUPTI|NVTX|dropped|lost|buffer", re.IGNORECASE)
_NOT_RELEVANT = re.compile(r"^No \w+ events collected")
_MOST_NAMED = 8
# The first Nsight Systems of a generation of CUDA: https://docs.nvidia.com/cuda/archive/13.0.0/cuda-toolkit-release-notes
_FIRST_FOR_CUDA = {13: (2025, 3)}


@dataclass(frozen=True)
class Gpu:
    """A GPU that work ran on: its name in the trace, model, memory and its bandwidth, where the export has them.

    It `is_guess` where the export tells which GPU other numbers of processes stand for, but not this one.
    """

    name: str
    model: str | None
    memory_bandwidth_bytes_per_s: int | None
    memory_bytes: int | None
    is_guess: bool


def process_of(serialized: NDArray[np.int64]) -> NDArray[np.int64]:
    """The process (with hardware and VM) of each serialized process or thread id; MISSING of what is none."""
    return np.where(serialized <= 0, MISSING, serialized >> TID_BITS)


def pid(process: int) -> int:
    """The operating system's number of a process that `process_of` gave."""
    return process & ID_MASK


def processes(ids: Sequence[int]) -> list[str | None]:
    """A label for each process that `process_of` gave: the operating system's number, where that tells it apart from
    the others; None of MISSING."""
    pids = Counter(pid(process) for process in set(ids) - {MISSING})
    return [None if one == MISSING else str(pid(one) if pids[pid(one)] == 1 else one) for one in ids]


def host(export: Export) -> str:
    """The name of the machine that was profiled, else the file's stem."""
    names = [value for name, value in rows(export, "TARGET_INFO_SYSTEM_ENV", "name", "value") if name == "Hostname"]
    names += [
        value for name, value in rows(export, "META_DATA_CAPTURE", "name", "value") if name == "DEVICE_DISPLAY_NAME"
    ]
    return next((str(name) for name in names if name is not None and name not in _NO_HOST), export.path.stem)


def unix_ns(export: Export, time_ns: int) -> int | None:
    """The Unix time of an event's time, None if the export does not say.

    Events count from the start of the session, whose Unix time is `utcEpochNs` (in every version; `startTime` of
    ANALYSIS_DETAILS is on another clock: in exports of nsys 2022 to 2026 the events lie between 0 and the session's
    length). `nsys export --ts-normalize` counts from the Unix epoch, `--ts-shift` adds to either.
    """
    settings = _facts_of(export, _EXPORT_TABLES)
    shift = str(settings.get("EXPORT_PARAM_TIME_SHIFT") or 0)
    shifted = time_ns - (int(shift) if re.fullmatch(r"-?\d{1,18}", shift) else 0)
    if settings.get("EXPORT_PARAM_TIME_NORMALIZE") == "true" or shifted > YEAR_2000_NS:
        return shifted if abs(shifted) < 1 << 63 else None
    sessions = [start for (start,) in rows(export, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs")]
    start = sessions[0] if len(sessions) == 1 else None
    if isinstance(start, int) and YEAR_2000_NS < start < _YEAR_2100_NS and abs(start + shifted) < 1 << 63:
        return start + shifted
    if len(sessions) == 1:
        export.lost.append(Lost(Loss.DETAILS, 1, None, "TARGET_INFO_SESSION_START_TIME.utcEpochNs is no time"))
    return None


def session_ns(export: Export) -> tuple[float, float]:
    """When the session of an export began and ended, on the clock of its events; infinite where that is not said.

    `duration` in ANALYSIS_DETAILS counts from the time 0 of the events (see `unix_ns`).
    """
    lengths = [length for (length,) in rows(export, "ANALYSIS_DETAILS", "duration")]
    settings = _facts_of(export, _EXPORT_TABLES)
    shift = str(settings.get("EXPORT_PARAM_TIME_SHIFT") or 0)
    is_known = settings.get("EXPORT_PARAM_TIME_NORMALIZE") != "true" and re.fullmatch(r"-?\d{1,18}", shift)
    if not is_known or len(lengths) != 1 or not isinstance(lengths[0], int) or lengths[0] <= 0:
        return -math.inf, math.inf
    return float(shift), float(int(shift) + lengths[0])


def threads(export: Export, ids: Sequence[int]) -> list[str]:
    """A label for each serialized thread id: its name and number, `python3/145`."""
    thread_names = rows(export, "ThreadNames", "globalTid", "nameId")
    texts = strings(export, np.array([name_id for _, name_id in thread_names if isinstance(name_id, int)], np.int64))
    names = {tid: texts.get(name_id, "") for tid, name_id in thread_names if isinstance(name_id, int)}
    damaged = sum(
        not isinstance(name_id, int) or not isinstance(tid, int) or tid <= 0 or not pid(tid >> TID_BITS)
        for tid, name_id in thread_names
    )
    if damaged:
        export.lost.append(Lost(Loss.DETAILS, damaged, len(thread_names), "names of threads"))
    labels = []
    for tid in ids:
        number = tid & ID_MASK
        labels.append("thread ?" if tid == MISSING else f"{names[tid]}/{number}" if names.get(tid) else str(number))
    return labels


def warnings(export: Export) -> list[tuple[str, str]]:
    """What the profiler itself warned of, as far as it bears on CUDA or NVTX, each text with what it is."""
    return [
        (f"Profiler {_SEVERE[severity]}", str(text))
        for severity, text in rows(export, "DIAGNOSTIC_EVENT", "severity", "text")
        if isinstance(severity, int)
        and severity in _SEVERE
        and _RELEVANT.search(str(text))
        and not _NOT_RELEVANT.match(str(text))
    ]


def outdated(export: Export) -> list[str]:
    """The note on a profiler that is older than the generation of CUDA that the driver brought.

    A program of that generation may make calls that it does not know, and it has nothing of them: of one of JAX with
    200 products on an H100 with CUDA 13.0, Nsight Systems 2023.4 recorded 9 kernels, without a warning. Only the
    export's own version is told, which may be newer than the profiler's.
    """
    version = re.match(r"(\d{4})\.(\d{1,3})", str(_facts_of(export, _EXPORT_TABLES).get("EXPORT_PRODUCT_VERSION")))
    facts = _facts_of(export, ("TARGET_INFO_SYSTEM_ENV",))
    cuda = re.fullmatch(r"(\d{1,3})0(\d)0", str(facts.get("CudaDriverVersion")))  # 13020 is 13.2
    first = _FIRST_FOR_CUDA.get(int(cuda[1])) if cuda else None
    if not version or not cuda or first is None or (int(version[1]), int(version[2])) >= first:
        return []
    return [
        f"Nsight Systems {version[0]} is older than the driver's CUDA {cuda[1]}.{cuda[2]}: of a program built for "
        f"that, work may be missing without a word. To be sure, record it with {first[0]}.{first[1]} or newer."
    ]


def why_unrecorded(export: Export) -> str | None:
    """Why an export may hold no work of its GPUs though calls started some, and what to do; None where nothing tells.

    Of 34 public exports that were made under WSL 2 (drivers 536 to 576) and hold such calls, 32 have no work of a GPU.
    """
    kernel = _facts_of(export, ("TARGET_INFO_SYSTEM_ENV",)).get("SoftwareReleaseVersion")
    if "microsoft" not in str(kernel).lower():  # 5.15.153.1-microsoft-standard-WSL2
        return None
    return "under WSL 2 Nsight Systems mostly records none: profile on Linux itself, or on Windows"


def _facts_of(export: Export, tables: Sequence[str]) -> dict[object, object]:
    """The values of tables of names and values."""
    return {name: value for table in tables for name, value in rows(export, table, "name", "value")}


def gpus(export: Export, pairs: Sequence[tuple[int, int]]) -> tuple[list[Gpu], list[str]]:
    """The GPU behind each of the `pairs` (process, CUDA device number there), and notes.

    Every process counts its GPUs for itself (CUDA_VISIBLE_DEVICES may hide some), so equal numbers need not be one GPU:
    TARGET_INFO_CUDA_DEVICE tells, in nsys of 2021 TARGET_INFO_CUDA_GPU. Where the numbers are unambiguous they name the
    devices, else nsys's own numbers of the GPUs do. Two processes on one GPU are on one device.
    """
    identities, is_damaged = _identities(export)
    identity = [identities.get((pid(process), device), ("device", device)) for process, device in pairs]
    by_number: dict[int, set[tuple[object, ...]]] = {}
    for (_, device), gpu in zip(pairs, identity, strict=True):
        by_number.setdefault(device, set()).add(gpu)
    plain = all(len(each) == 1 for each in by_number.values()) and len(by_number) == len(set(identity))
    notes = []
    if plain:
        numbers = {gpu: device for (_, device), gpu in zip(pairs, identity, strict=True)}
    else:
        numbers = _gpu_numbers(set(identity))
        mappings = [
            f"device {device} of process {pid(process)} is gpu:{numbers[gpu]}"
            for (process, device), gpu in zip(pairs, identity, strict=True)
        ]
        rest = f" and {len(mappings) - _MOST_NAMED} more" if len(mappings) > _MOST_NAMED else ""
        notes.append(f"The processes number their GPUs differently: {', '.join(mappings[:_MOST_NAMED])}{rest}.")
    unsure = sorted({device for device, each in by_number.items() if ("device", device) in each and device != MISSING})
    if shared := [device for device in unsure if sum(number == device for _, number in pairs) > 1]:
        notes.append(
            f"Several processes worked on device {', '.join(map(str, shared))}: the export does not say whether it was "
            "the same GPU for each; it counts as one."
        )
    facts = _facts(export)
    gpus_of_pairs: list[Gpu] = []
    unfound = 0
    for (process, device), gpu in zip(pairs, identity, strict=True):
        key = next((key for key in (gpu[:2], (pid(process), device), device) if key in facts), None)
        unfound += key is None and device != MISSING
        known_facts = (None, None, None) if key is None else facts[key]
        name = unknown("gpu") if device == MISSING else f"gpu:{numbers[gpu]}"
        gpus_of_pairs.append(Gpu(name, *known_facts, is_guess=gpu[0] == "device" and (is_damaged or bool(identities))))
    if facts and unfound:
        export.lost.append(
            Lost(Loss.DETAILS, unfound, len(pairs), "models of GPUs that worked, of which others are told")
        )
    return gpus_of_pairs, notes


def _identities(export: Export) -> tuple[dict[tuple[object, object], tuple[object, ...]], bool]:
    """(pid, CUDA device number) -> what is the same for all processes on one GPU, or one part (MIG) of it; and whether
    some of them are damaged, which are counted."""
    identities: dict[tuple[object, object], tuple[object, ...]] = {}
    for process, device, bus in rows(export, "TARGET_INFO_CUDA_GPU", "pid", "deviceId", "pciBusId"):
        if process is not None and device is not None and bus:
            identities[process, device] = ("bus", bus)
    mappings = rows(export, "TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId", "uuid")
    without_uuid = {gpu for _, _, gpu, uuid in mappings if not uuid}
    damaged = 0
    for process, device, gpu, uuid in mappings:
        if isinstance(process, int) and isinstance(device, int) and isinstance(gpu, int) and 0 <= gpu < MOST_NUMBER:
            identities[process, device] = ("gpu", gpu, None if gpu in without_uuid else uuid)
        else:  # the numbers of GPUs may be null all together
            damaged += not isinstance(process, int) or not isinstance(device, int) or gpu is not None
    if damaged:
        evidence = "numbers of GPUs in TARGET_INFO_CUDA_DEVICE"
        export.lost.append(Lost(Loss.DETAILS, damaged, len(mappings), evidence))
    return identities, bool(damaged)


def _gpu_numbers(identities: set[tuple[object, ...]]) -> dict[tuple[object, ...], int]:
    """A number for each identity: nsys's own of the GPU if every one has its own, else its place in their order."""
    gpu_ids = {gpu: gpu[1] for gpu in identities if gpu[0] == "gpu" and isinstance(gpu[1], int)}
    if len(gpu_ids) == len(identities) == len(set(gpu_ids.values())):
        return {gpu: int(str(number)) for gpu, number in gpu_ids.items()}
    return {gpu: place for place, gpu in enumerate(sorted(identities, key=str))}


def _facts(export: Export) -> dict[object, tuple[str | None, int | None, int | None]]:
    """Model, memory bandwidth in bytes per second and memory in bytes, by identity, by (pid, device number) and by
    device number.

    The unit of `memoryBandwidth` is B/s, that of `globalMemoryBandwidth` kB/s (CUPTI's): one RTX 3080 has 760080000000
    in the one and 760080000 in the other.
    """
    facts_of: dict[object, tuple[str | None, int | None, int | None]] = {}
    damaged = 0
    for gpu, number, old_number, model, bandwidth, size in rows(
        export, "TARGET_INFO_GPU", "id", "cuDevice", "deviceId", "name", "memoryBandwidth", "totalMemory"
    ):
        damaged += _is_damaged(model, bandwidth, size)
        facts = (str(model) if model else None, _positive(bandwidth), _positive(size))
        facts_of["gpu", gpu] = facts
        device = next((value for value in (number, old_number, gpu) if value is not None), None)
        facts_of.setdefault(device, facts)
    for process, device, model, bandwidth, size in rows(
        export, "TARGET_INFO_CUDA_GPU", "pid", "deviceId", "name", "globalMemoryBandwidth", "globalMemorySize"
    ):
        damaged += _is_damaged(model, bandwidth, size)
        kilobytes_per_s = _positive(bandwidth)
        bytes_per_s = None if kilobytes_per_s is None else kilobytes_per_s * _KILO
        facts_of[process, device] = (str(model) if model else None, bytes_per_s, _positive(size))
    if damaged:
        export.lost.append(Lost(Loss.DETAILS, damaged, None, "models of GPUs, or their memory"))
    return facts_of


def _is_damaged(model: object, *sizes: object) -> bool:
    """Whether what is told of a GPU is no text, or no numbers; what is not told is null, or 0."""
    return not isinstance(model, str | None) or any(size not in (None, 0) and _positive(size) is None for size in sizes)


def _positive(value: object) -> int | None:
    """A number greater than 0; None of anything else."""
    return value if isinstance(value, int) and 0 < value < _LARGEST else None
