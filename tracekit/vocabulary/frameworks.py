"""Which framework a program is written in, and what it does already, by what each framework calls things.

The patterns were held against traces of each framework; sources of names that stand in none of them are given.
"""

import re
from collections.abc import Sequence
from enum import StrEnum


class Framework(StrEnum):
    """The frameworks in whose words advice can be given."""

    JAX = "JAX"
    PYTORCH = "PyTorch"
    TENSORFLOW = "TensorFlow"
    MXNET = "MXNet"


class Practice(StrEnum):
    """What a program may do already, so that it is not told to."""

    ONE_PROGRAM = "one program a step"
    GRAPHS = "CUDA graphs"
    OVERLAP = "overlapped collectives"
    DDP = "DistributedDataParallel"
    FSDP = "fully sharded data parallel"
    COMPILE = "torch.compile"
    LOADER_PROCESSES = "loader processes"
    PREFETCH = "prefetched input"


class Source(StrEnum):
    """Where in a trace a name stands, in the order of trust."""

    MODULE = "program"
    OPERATION = "operation"
    SPAN = "host event"
    KERNEL = "kernel"


# The formats of profilers that only one framework has.
FORMATS = {"kineto": Framework.PYTORCH, "mxnet": Framework.MXNET}

_FRAMEWORKS: dict[Source, dict[Framework, re.Pattern[str]]] = {
    # jax.jit and jax.pmap name the modules (`jit_train`), PyTorch/XLA its graphs (`SyncTensorsGraph.123`), TensorFlow
    # its functions and clusters (`a_inference_step_42__XlaMustCompile_true`, `cluster_0__XlaCompiledKernel_true`).
    Source.MODULE: {
        Framework.JAX: re.compile(r"(jit|pmap)_"),
        Framework.PYTORCH: re.compile(r"SyncTensorsGraph\b|IrToHlo\b"),
        Framework.TENSORFLOW: re.compile(r"(a|_)_inference_|cluster_\d|.*__Xla(MustCompile|CompiledKernel)"),
    },
    Source.OPERATION: {
        Framework.JAX: re.compile(r"(jit|pmap)\("),
        Framework.PYTORCH: re.compile(r"(aten|c10d|fbgemm)::"),
    },
    # tf.data feeds JAX programs too, so its iterators tell nothing.
    Source.SPAN: {
        Framework.JAX: re.compile(r"PjitFunction\(|(TSL:)?backend_compile"),
        Framework.PYTORCH: re.compile(
            r"(aten|FSDP|c10d)::|DistributedDataParallel\.forward|ProfilerStep ?#|Optimizer\.(step|zero_grad)#"
        ),
        Framework.TENSORFLOW: re.compile(
            r"ExecutorState::Process|Eager(Local|Kernel)?Execute\b|FunctionRun\b|KernelAndDevice|SessionRun\b"
        ),
        Framework.MXNET: re.compile(r"MX(NDArray|Imperative|Autograd)[A-Z]"),
    },
    # Of namespaces in the signatures of kernels, Inductor's names (torch/_inductor/codegen/triton.py).
    Source.KERNEL: {
        Framework.PYTORCH: re.compile(r".*\bat::(native|cuda)::|triton_(poi|red|per|tem|for)_fused_"),
        Framework.TENSORFLOW: re.compile(r".*\btensorflow::"),
        Framework.MXNET: re.compile(r".*\b(mxnet|mshadow)::"),
    },
}
# Spans of the wrappers (torch/nn/parallel/distributed.py, torch/distributed/fsdp), of compiled regions, of the loader
# whose processes load (torch/utils/data/dataloader.py), and of tf.data's prefetching; Inductor's kernels.
_PRACTICES: dict[Source, dict[Practice, re.Pattern[str]]] = {
    Source.SPAN: {
        Practice.DDP: re.compile(r"(.*\b)?DistributedDataParallel\.forward"),
        Practice.FSDP: re.compile(r"FSDP::|FullyShardedDataParallel\.forward"),
        Practice.COMPILE: re.compile(r"Torch-Compiled Region|CompiledFunction\b"),
        Practice.LOADER_PROCESSES: re.compile(r"enumerate\(DataLoader\)#_MultiProcessing"),
        Practice.PREFETCH: re.compile(r"Iterator::(.*::)?Prefetch\b"),
    },
    Source.KERNEL: {Practice.COMPILE: re.compile(r"triton_(poi|red|per|tem|for)_fused_")},
}


def framework_of(source: Source, name: str) -> Framework | None:
    """The framework that a name of this source is proof of; None where it is of none."""
    patterns = _FRAMEWORKS.get(source, {})
    return next((framework for framework, pattern in patterns.items() if pattern.match(name)), None)


def practices(source: Source, name: str) -> Sequence[Practice]:
    """What a name of this source proves that the program does."""
    return [practice for practice, pattern in _PRACTICES.get(source, {}).items() if pattern.match(name)]
