"""The ranks of a job of torch.distributed: what this process is among them, and the run that all capture into."""

import os
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from tracekit.capture import processes

_KEY, _MACHINES, _BEGUN = "tracekit/run", "tracekit/machine/", "tracekit/begun/"
_AGREE_S = 20  # rank 0 says the name of its run as soon as the process group is there
_BEGIN_S = 5  # between the first rank to come to a step and the last


def launch_name() -> str | None:
    """What the ranks that one launcher on this machine has started have in common, as a name; None without one."""
    if rank() is None or processes.is_started():
        return None
    launcher = os.getppid()
    try:
        begun_s = Path(f"/proc/{launcher}").stat().st_mtime
    except OSError:
        begun_s = 0.0
    return f"{time.strftime('%Y_%m_%d_%H_%M_%S', time.localtime(begun_s))}-{launcher:06x}"


def rank() -> int | None:
    """The number of this process among those of its job, as torchrun and what is like it say it."""
    number, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return int(number) if number.isdigit() and size.isdigit() and int(size) > 1 else None


def set_ranks() -> None:
    """Tell torch.distributed, as torchrun does, which of those this process is that `tracekit capture` started."""
    if (place := processes.started_as()) is None or rank() is not None:
        return
    index, count, address = place
    host, _, port = address.rpartition(":")
    ranks = {"RANK": index, "LOCAL_RANK": index, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    os.environ.update({name: str(number) for name, number in ranks.items()}, MASTER_ADDR=host, MASTER_PORT=port)


def described() -> dict[str, Any]:
    """What the job of this process is, as the profiler writes it: its rank and size, backend and groups; nothing
    before the ranks have met, and after they have parted."""
    import torch.distributed as distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return {}
    job: dict[str, Any] = {
        "backend": distributed.get_backend(),
        "rank": distributed.get_rank(),
        "world_size": distributed.get_world_size(),
    }
    with suppress(Exception):  # private, and newer than the rest
        groups = distributed.distributed_c10d._get_all_pg_configs()
        job |= {"pg_count": len(groups), "pg_config": groups}
    return job


def agreed(name: str, number: int, size: int) -> tuple[str, dict[str, str]] | None:
    """The name of the run that all ranks capture into, that of rank 0, and in rank 0 the machine of each rank by the
    name that its file gives its host; None where nobody captures rank 0."""
    import torch.distributed as distributed

    store: Any = distributed.distributed_c10d._get_default_store()
    store.set(f"{_MACHINES}{number}", f"rank{number} {processes.machine()}")
    if number == 0:
        store.set(_KEY, name)
    try:
        store.wait([_KEY], timedelta(seconds=_AGREE_S))
    except Exception:  # of torch, without a class of its own
        return None
    machines: dict[str, str] = {}
    if number == 0:
        keys = [f"{_MACHINES}{each}" for each in range(size)]
        with suppress(Exception):  # one that nobody captures
            store.wait(keys, timedelta(seconds=_AGREE_S))
            machines = dict(store.get(key).decode().split() for key in keys)
    return store.get(_KEY).decode(), machines


def say_begun() -> None:
    """Tell the other ranks that the profile of this one runs."""
    import torch.distributed as distributed

    store: Any = distributed.distributed_c10d._get_default_store()
    store.set(f"{_BEGUN}{distributed.get_rank()}", "")


def wait_for_begun() -> None:
    """Wait until all ranks have said it; raises what torch raises where one does not in time."""
    import torch.distributed as distributed

    store: Any = distributed.distributed_c10d._get_default_store()
    store.wait([f"{_BEGUN}{each}" for each in range(distributed.get_world_size())], timedelta(seconds=_BEGIN_S))
