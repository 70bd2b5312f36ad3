"""What the workloads for PyTorch share: their devices, the ranks of a job, and one sentence where memory runs out."""

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

# Products of float32 are rounded on a GPU as XLA rounds them by default, or they take eight times as long (an H100).
torch.backends.cuda.matmul.allow_tf32 = True

TWO_RANKS = "tracekit capture --processes 2 SCRIPT, or torchrun --nproc-per-node 2"


def positive(text: str) -> int:
    """The number that an option gives, 1 or more."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def join() -> int:
    """Join the other ranks of the job, by NCCL on GPUs and gloo on CPU; how many there are, 1 without a job."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return 1
    if gpus():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % gpus())
    dist.init_process_group("nccl" if gpus() else "gloo")
    return int(dist.get_world_size())


def rank() -> int:
    """The number of this process in its job."""
    return int(dist.get_rank()) if dist.is_initialized() else 0


def barrier() -> None:
    """Wait until all ranks are here, by the store of the job: `dist.barrier` is a collective, in which the device of a
    rank that waits is busy."""
    if not dist.is_initialized():
        return
    store = dist.PrefixStore("workload", dist.distributed_c10d._get_default_store())
    arrived, size = store.add("arrived", 1), dist.get_world_size()
    number = (arrived - 1) // size
    if arrived == (number + 1) * size:
        store.set(f"passed {number}", "")
    store.wait([f"passed {number}"])


def gpus() -> int:
    """How many GPUs this process sees."""
    return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0


def wait() -> None:
    """Wait until all GPUs have done their work."""
    for at in range(gpus()):
        torch.cuda.synchronize(at)


def run(main: Callable[[], None]) -> None:
    """Run a workload; leave its job, and say in one sentence where the memory was too small."""
    short: str | None = None
    try:
        main()
        if dist.is_initialized():
            dist.destroy_process_group()
    except RuntimeError as error:  # of which that of a GPU, torch.cuda.OutOfMemoryError, is one
        if not is_out_of_memory(error):
            raise
        short = str(error).splitlines()[0]
    if short is not None:  # outside of the block, where nothing holds the tensors any more
        sys.exit(f"The memory is too small for this size: give a smaller one, --help tells the option ({short}).")


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether an error of PyTorch says that memory ran out, of a GPU or of the host."""
    kind: Any = torch.cuda.OutOfMemoryError
    return isinstance(error, kind) or "not enough memory" in str(error) or "can't allocate memory" in str(error)
