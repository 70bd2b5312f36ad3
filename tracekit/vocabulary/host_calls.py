"""The host's calls and spans: which launch, wait, compile, load data or meet other threads.

Names are those of the APIs of CUDA and HIP, of XLA and its clients, of JAX, PyTorch and TensorFlow, and of frames of
Python.
"""

import re
from enum import StrEnum
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import by_label, labels

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]


class SyncCall(StrEnum):
    """A synchronising call, by what it waits for; STREAM_WAIT makes a stream wait for an event, not the thread."""

    STREAM_WAIT = "stream wait"
    STREAM = "stream"
    EVENT = "event"
    DEVICE = "device"
    FUTURE = "future"
    OTHER = "other"


class Activity(StrEnum):
    """What a span's name proves of the thread that it stands on."""

    MEETING = "meeting the threads of other devices"
    LOWERING = "lowering a program, to compile it next"
    COMPILING = "compiling a program"
    INSTALLING = "bringing a program to a device"
    LOADING = "loading data"


RENDEZVOUS, WAIT = "Rendezvous", "Wait: "
"""Where XLA's participants meet, and how the events begin in which they wait there for each other."""
THUNKS_WAIT = "ThunkExecutor::Execute (wait for completion)"
"""Where XLA's CPU client waits for what a program started."""
END = "end: "
"""How the event begins at which the work of an op of XLA's CPU client ends; the op's name follows."""
POOL = "ThreadpoolListener::"
POOL_RECORD, POOL_START, POOL_STOP = f"{POOL}Record", f"{POOL}StartRegion", f"{POOL}StopRegion"
"""Where work is put into a pool of XLA's threads, and where a thread of it begins and ends that work."""
TPU_EXECUTE, TPU_ENQUEUE = "tpu::System::Execute", "DoEnqueueProgram"
"""The calls of the TPU runtime that ask for a program and put it into a core's queue."""
TPU_ISSUE = f"{TPU_EXECUTE}=>IssueSequencedEvent"
"""What leads from the one to the other."""
MXNET_ERRANDS = frozenset({"DeleteVariable", "DeleteOperator", "WaitForVar", "SetupExec"})
"""What MXNet's engine does for itself: it frees memory, waits, or prepares an operator."""
TPU_LAUNCHES = (TPU_EXECUTE, TPU_ENQUEUE, "EnqueueProgram")
"""How all calls begin that run a program on a TPU."""

_WAITS_ON_DEVICE = re.compile(
    r"((event|stream|notify|notifier|queue)[_ ]?)*(wait|record|notify|sync(hroni[sz]e)?)([_ ]?(on|event|value))*",
    re.IGNORECASE,
)
_ASKS_FOR_COLLECTIVE = re.compile(r"_?c10d\w*::|record_param_comms$")
_OF_HOST = re.compile(r"(gloo|mpi|ucc):\w")
# What adds nodes to a graph or changes them (`cuGraphAddMemcpyNode`) runs nothing; the graph's launch does.
_LAUNCH = re.compile(r"(?!(?:cuda|cu|hip)Graph(?!Launch)).*(launch|memcpy|memset)", re.IGNORECASE | re.DOTALL)
# xla/backends/gpu/runtime/while_thunk.cc: `[iter=3]`.
_LOOP_TURN = re.compile(r"\[iter=\d+\]")
# A pool's threads may launch what the calling thread dispatched: it is JAX's and PjRt's call that tells the program.
_PROGRAM = re.compile(r"PjitFunction\(|PJRT_LoadedExecutable_Execute$")
# JAX's and PjRt's copies of results into pageable memory of the host, which they get and fill themselves (ArrayImpl in
# jaxlib/py_array.cc, xla/pjrt/common_pjrt_client.cc).
_TO_HOST = "ArrayImpl\\.copy_to_host_async|D2H Copy From Staging Buffer"
# Calls of CUDA, HIP and their drivers, of PjRt's C interface and clients, of jaxlib's arrays (PythonRefManager lets go
# of theirs), and of the TPU's runtime.
_RUNTIME = re.compile(
    r"(cuda|cu|hip)[A-Z]\w*|PJRT_\w+|\w*PjRt\w*(Client|Buffer)::\w+|tpu::System::\w+|DoEnqueueProgram"
    rf"|ArrayImpl\.\w+|PythonRefManager::\w+|{_TO_HOST}"
)
_COPIES_TO_HOST = re.compile(_TO_HOST)
_JITTED = re.compile(r"PjitFunction\((.*)\)")
# `CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice`, `[1] CommonPjRtLoadedExecutable::Execute (jit_f)`; in older
# versions `PjRtCpuExecutable::ExecuteHelper` and `TfrtCpuExecutable::ExecuteHelper`.
_EXECUTION = re.compile(r"(\[\d+\] )?\w+Executable::Execute(Helper\w*|Sharded|Portable)?( \(.*\))?")
# `all reduce RendezvousKey{…}` (xla/backends/cpu/collectives/in_process_communicator.cc).
_KEY = re.compile(r"([a-z ]+) RendezvousKey\b")
_EVENT_RECORD = re.compile(r"(?:cuda|cu|hip)EventRecord(?:WithFlags)?(?![A-Za-z])")
_SYNCHRONOUS_COPY = re.compile(r"(?:cuda|cu|hip)Memcpy(?!\w*Async)")
_ASYNCHRONOUS_COPY = re.compile(r"(?:cuda|cu|hip)Memcpy\w*Async")
# hipLaunchKernel, hipExtModuleLaunchKernel, hipDrvLaunchKernelEx, hipLaunchByPtr, hipGraphLaunch.
_HIP_LAUNCH = re.compile(r"hip\w*Launch(?!HostFunc)")
_KERNEL_LAUNCH = re.compile(r"(?:cuda|cu|hip)Launch(?:Cooperative)?Kernel")
_MEMSET = re.compile(r"(?:cuda|cu|hip)Memset")
_CAPTURE = re.compile(r"(?:cu|cuda|hip)Stream(Begin|End)Capture")
_OF_RECORDING = re.compile(r"(?:cu|cuda|hip)(?:Graph(?:Create|Add)|(?:ThreadExchange)?Stream\w*Captur)")
_GRAPH_BUILDING = re.compile(r"(?:cu|cuda|hip)Graph(Create|Add|Instantiate|Launch|Exec|Destroy)")
# cudaMalloc, cudaMallocHost, cudaHostAlloc, cudaHostRegister, cuMemAlloc_v2, cuMemHostAlloc, hipHostMalloc, hipMalloc.
_ALLOCATION = re.compile(r"(cuda|cu|hip)(Ext)?(Malloc|HostM?[Aa]lloc|(Mem)?HostRegister|Mem(Host)?Alloc)")
# cudaFree, cudaFreeAsync, cudaFreeHost, cuMemFree_v2, cuMemFreeHost, hipHostFree, cudaHostUnregister: most wait for the
# device, too.
_RELEASE = re.compile(r"(cuda|cu|hip)((Host|Mem)?Free|(Mem)?HostUnregister)")
# In public profiles cuModuleLoadData (58 ms, where others of its program took 0.2 ms) and cudaProfilerStop returned
# after the kernel that ran then.
_WAITS_FOR_DEVICE = re.compile(
    r"cu(da)?ProfilerStop|(cu|cuda|hip)(Module|Library)(Load|Unload)|(cuda|hip)DeviceReset|cuCtxDestroy"
    r"|cuDevicePrimaryCtxRe(set|lease)"
)
_PINNED = re.compile(r"(cuda|cu|hip)(MallocHost|HostM?[Aa]lloc|(Mem)?HostRegister|MemHostAlloc|MemAllocHost)")
_HOST_FUNCTION = re.compile(r"(cuda|cu|hip)(LaunchHostFunc|StreamAddCallback)(?![A-Za-z])")
_GRAPH = re.compile(r"(cu|cuda|hip)GraphLaunch", re.IGNORECASE)
# cudaStreamSynchronize, cuCtxSynchronize_v2, hipEventSynchronize, cudaStreamWaitEvent_ptsz; CUPTI's records on a stream
# are called alike, and the host's calls in nsys and Kineto.
_SYNC = re.compile(
    r"(?:cuda|cu|hip)(?:(?P<wait>StreamWaitEvent)|(?P<of>Stream|Event|Device|Ctx|Context|Thread)Synchronize)(?![A-Za-z])"
)
# Whether work is done, asked without waiting; and what stands beside it and says nothing of the host.
_QUERY = re.compile(r"(?:cuda|cu|hip)(?:Event|Stream)Query(?![A-Za-z])")
_ASIDE = re.compile(r"(?:cuda|hip)(?:[GS]etDevice|(?:Get|Peek(?:At)?)LastError)(?![A-Za-z])")
_SYNC_OF = {"Stream": SyncCall.STREAM, "Event": SyncCall.EVENT}
# PjRt: xla/pjrt/pjrt_future.h (`CommonPjRtBuffer::Await`).
_FUTURE = re.compile(r"\w+::Await")
# XLA's streams, and XLA's word for a record of CUPTI that it does not know.
_OTHER = re.compile(r"\w+::BlockHostUntilReady|unknown synchroni.*", re.DOTALL)
# Threads wait in more calls than those that tell for what: Python's blocking ones, and what programs call waiting.
# `cudaStreamWaitEvent` and `cuStreamWaitValue` tell a stream to wait, and return at once.
# JAX: `$api.py:3165 try_to_block` is what block_until_ready calls (jax/_src/api.py); `np.asarray(jax.Array)` waits for
# an array and its copy to the host (ArrayImpl._value in jax/_src/array.py).
# PjRt: `BlockHostUntilDone` and `BlockHostUntilDoneWithHostCallback` (xla/pjrt/gpu/tfrt); `Acquire semaphore`, which
# admits so many programs to a device at a time (max_inflight_computations_semaphore in xla/pjrt).
# Frames of Python: JAX writes `$threading.py:323 wait` and `$<built-in method acquire`, Kineto
# `threading.py(323): wait` and `<built-in method acquire of _thread.lock object at 0x7f>`.
# A future's `result` is concurrent.futures', of another thread or process (Lib/concurrent/futures/_base.py).
# A string and a path are joined too: only threads and processes that are joined are waited for.
_BLOCKING = "acquire|poll|select|sleep"
_WAITING = re.compile(
    r"(?i)^(?!.*stream_?wait)(.*synchroni[sz]e|.*\bwait\b|.*await|.*block_?until_?ready|.*\btry_to_block\b|.*rendezvous"
    rf"|.*blockhostuntil|np\.asarray\(jax\.Array\)$|acquire semaphore$|\$.*\b({_BLOCKING})$"
    rf"|.*\.py\(\d+\): ({_BLOCKING})$|.*\b(threading|process|pool)\.py(:\d+|\(\d+\):) join$"
    rf"|.*\bqueues?\.py(:\d+|\(\d+\):) (get|join)$|.*\b_base\.py(:\d+|\(\d+\):) result$"
    rf"|<built-in (method|function) ({_BLOCKING}|recv|accept)\b"
    r"|<built-in method get of _queue)"
)
# PyTorch's ops that bring a result to the host, and wait for it (`_local_scalar_dense_cuda` in
# aten/src/ATen/native/cuda/CUDAScalar.cu, `copy_kernel_cuda` in native/cuda/Copy.cu, `nonzero_cuda_out_impl` in
# native/cuda/Nonzero.cu), and Python's methods around them; some of them do only if they must.
_READING = re.compile(
    r"aten::(item|_local_scalar_dense|is_nonzero|nonzero|to|_to_copy|copy_)$"
    r"|<built-in method (item|tolist|cpu|numpy|nonzero|to|copy_) of Tensor\b"
)
# A framework's operator, by its namespace: `aten::item`, `c10d::allreduce_`. Methods of C++ classes have capitals, and
# what the engine of autograd calls (`autograd::engine::evaluate_function: AddBackward0`) holds the operators.
_OPERATOR = re.compile(r"(?!autograd::)[a-z_]\w*::[a-z_][\w.]*")
# What PyTorch's emit_nvtx adds to the name of an operator, different for every call (torch/autograd/profiler.py).
_OF_CALL = re.compile(r", (?:op_id|seq|sizes|input_op_ids) = .*", re.DOTALL)
# A frame of Python in the words of XLA's tracer; `$builtins len` and `$<unknown> get` have no line.
_FRAME = re.compile(r"\$(?P<file>\S*\.py):(?P<line>\d+) .")
# Files of JAX that stand between a program and a wait (jax/_src); of paths that tracer writes the last part only.
_OF_JAX = re.compile(r"\$(api|array|core|dispatch|pjit|profiler|pxla|traceback_util|tree_util)\.py:")
# Where XLA gets memory of a device, the runtime's call included (GpuExecutable::GenerateBufferAllocations in
# xla/service/gpu/gpu_executable.cc, xla/stream_executor), and where the TPU client moves buffers together (libtpu).
_ALLOCATING = re.compile(r"Build buffer allocations$|\w*Allocator::Alloc\w*|(\w+::)+DefragmentMemory$")
# A step's annotation: PyTorch's (torch/profiler/profiler.py; its own tools let a blank stand before the number), after
# its domain where NVTX has one, and that of JAX and TensorFlow, whose stats are part of its name.
_DIGITS_OF_INT64 = 19
_STEP = re.compile(r"(?:^|:)ProfilerStep ?#(\d+)\Z|#(?:[^#]*,)?step_num=(\d+)(?:,[^#]*)?#\Z")
# The first pattern that is found in a name decides.
_ACTIVITIES: tuple[tuple[Activity, re.Pattern[str]], ...] = tuple(
    (activity, re.compile(pattern))
    for activity, pattern in (
        # XLA's participants wait for each other: xla/service/rendezvous.h, xla/backends/cpu/collectives.
        (
            Activity.MEETING,
            r"^(InvokeRendezvous|Rendezvous\b|RendezvousSingle|Wait: pending_threads|Wait for rendezvous)",
        ),
        # What compilers call their own work. A program of the user may well be called `compile`, so nothing else is
        # believed. JAX: jax/_src/compiler.py (backend_compile, today backend_compile_and_load), and pxla.py, which
        # lowers what is compiled next unless it was before. `TSL:` is the domain of XLA's ranges in nsys.
        (Activity.COMPILING, r"^(TSL:)?backend_compile\w*(?!\w)"),
        (Activity.LOWERING, r"^(TSL:)?lower_sharding_computation(?!\w)"),
        # Clients of PjRt and of XLA, XLA's compilers with their passes and autotuner, which nsys has in ranges of their
        # own, alone where it began to record inside a compilation; TensorFlow's (XlaCompilationCache).
        (
            Activity.COMPILING,
            r"^(TSL:)?(\w*Client::Compile|\w+Compiler::(Compile|RunBackend|RunHloPasses)|Compile\w*Executable\b"
            r"|XlaCompil(e(?!d)|ation)|XlaAutotuner|XlaPass(Pipeline)?:)",
        ),
        # Before each run the TPU runtime looks whether the program is on the device, for microseconds; where it is not,
        # that takes as long as compiling, but no compiler runs.
        (Activity.INSTALLING, r"^LoadProgram"),
        # PyTorch: all that torch/_dynamo/utils.py times (dynamo_timed) is done once for what it compiles.
        (Activity.COMPILING, r" \(dynamo_timed\)$|^entire_frame_compile$"),
        # PyTorch: torch/utils/data/dataloader.py (_profile_name), torch/utils/data/datapipes/_hook_iterator.py.
        (Activity.LOADING, r"^enumerate\(Data(Loader|Pipe)\)#"),
        # Lightning's loops: profiler actions `[_TrainingEpochLoop].train_dataloader_next`.
        (Activity.LOADING, r"dataloader_next$"),
        # tf.data: https://www.tensorflow.org/guide/data_performance_analysis, and xprof's host event types.
        (Activity.LOADING, r"^Iterator::|^(MultiDevice)?IteratorGetNext\w*::|:(MultiDevice)?IteratorGetNext\w*$"),
        # TPU infeed: xla/tsl/profiler/utils/tf_op_utils.h (IsInfeedEnqueueOp).
        (Activity.LOADING, r"(^|:)InfeedEnqueue"),
        # What people call it: TraceAnnotation("data_load"), record_function("## load_batch ##"), `get_batch` and
        # `batch-generator` (timers and functions of Megatron-LM's pretrain_gpt.py), MaxText's `load_next_batch`.
        (
            Activity.LOADING,
            r"(?i)^\W*(\w+[ /.:])?(data[ _-]?load(er|ing)?|((get|load|fetch|read)[ _-]?)?next[ _-]?batch"
            r"|(next|load|fetch|read|get)[ _-]?(batch|data)|batch[ _-]generator)\W*$",
        ),
        # Python's own frames in JAX's profile: `$dataloader.py:733 __next__`, and in PyTorch's:
        # `torch/utils/data/dataloader.py(733): __next__`.
        (Activity.LOADING, r"(?i)^\$\w*data_?(loader|set|iterator)\w*\.py:\d+ __next__$"),
        (Activity.LOADING, r"(?i)^(.*/)?\w*data_?(loader|set|iterator)\w*\.py\(\d+\): __next__$"),
    )
)
# Names that an XSpace holds beside the user's annotations, and nothing in the file tells from them: Python's frames
# (`$api.py:3154 block_until_ready`), calls of C++ (`Class::Method`), of CUDA and HIP, and what jaxlib calls its work
# (py_values.cc, pjit.cc, py_array.cc, xla/pjrt/common_pjrt_client.cc, xla/service/gpu/gpu_executable.cc).
_RUNTIME_SPAN = re.compile(
    r"\$|.*::|Pjit|cpp_pjit|PJRT_|ExecuteReplicated|np\.asarray\(jax\.Array\)$|ArrayImpl\.|.*:XLA [GTC]PU module$"
    r"|(cuda|cu|hip)[A-Z]|batched_copy_array_to_devices|BatchedCopyToDevice|DevicePut|(Do)?Enqueue\w*Program|PythonRefManager"
    r"|(shard_args|ParseArguments|CopyToMemorySpace\w*|Allocate\w*Buffers?\w*|Handle (in|out)puts?( .*)?"
    r"|Wait for [\w ]+|trace_to_jaxpr\w*|Build buffer allocations|MakeOutputBuffers|RecordUsage|CreateCallbackStream"
    r"|ThenExecuteCallback(:\w+)?|[HD]2[HD] (Dispatch|Copy From Staging Buffer)|Memcpy[HDP]2[HDP]|Memset"
    r"|Resolve constant globals|Memory(A|Dea)llocation|\w*Acquire( \[.*\])?|Acquire semaphore|<UNKNOWN>)$",
    re.DOTALL,
)
# Threads of TSL's pools (tsl/platform/threadpool.h), of PjRt's clients, of libtpu, and what has no thread's name.
_RUNTIME_THREAD = re.compile(
    r"tf_|py_xla_|pjrt[-_]|tfrt-|\w+-default-SDomain|EventFDAsyncWorker|collective_ops|Host Threads\b"
)
# A name that a pattern fits holds one of these; files with a name per call have ten thousands of names.
_HINTS = (
    *("rendezvous", "pending", "compil", "lower_", "dynamo", "next", "load", "iterator", "infeed", "batch", "data"),
    *("xlaautotuner", "xlapass"),
)


def launches(name: str) -> bool:
    """Whether a call of this name asks a device for work, by kernel, graph, copy or memset."""
    return bool(_LAUNCH.match(name))


def launches_host_function(name: str) -> bool:
    """Whether a call of this name puts a function of the host on a stream, of which no device has a row."""
    return bool(_HOST_FUNCTION.match(name))


def launches_a_kernel(name: str) -> bool:
    """Whether a call of this name starts a kernel, and no graph: `cudaLaunchKernel_v7000`, `cuLaunchKernelEx`."""
    return bool(_KERNEL_LAUNCH.match(name))


def hip_launches(name: str) -> bool:
    """Whether a call of HIP of this name starts a kernel, or a graph, which mostly holds some."""
    return bool(_HIP_LAUNCH.match(name))


def sets_memory(name: str) -> bool:
    """Whether a call of this name asks for a memset."""
    return bool(_MEMSET.match(name))


def copies_memory(name: str) -> bool:
    """Whether a call of this name asks for a copy: `cudaMemcpyAsync`, `cuMemcpyDtoH_v2`."""
    return copies_synchronously(name) or copies_asynchronously(name)


def begins_capture(name: str) -> bool:
    """Whether what a stream is given after a call of this name goes into a graph, and starts nothing."""
    match = _CAPTURE.match(name)
    return bool(match and match[1] == "Begin")


def tells_of_recording(name: str) -> bool:
    """Whether a call of this name is one of those by which graphs are recorded, or asks whether one is: where any is in
    a file, so are the others."""
    return bool(_OF_RECORDING.match(name))


def copies_synchronously(name: str) -> bool:
    """Whether a call of this name asks for a copy and is none of the asynchronous ones: `cudaMemcpy`,
    `cuMemcpyDtoH_v2`, and `hipMemcpyWithStream`, which waits, too.
    """
    return bool(_SYNCHRONOUS_COPY.match(name))


def copies_asynchronously(name: str) -> bool:
    """Whether a call of this name asks for a copy without waiting for it, unless the memory of the host is pageable."""
    return bool(_ASYNCHRONOUS_COPY.match(name))


def copies_to_host(name: str) -> bool:
    """Whether a span of this name is the host's own work of copying a result into its memory, as JAX and PjRt do it."""
    return bool(_COPIES_TO_HOST.fullmatch(name))


def gets_memory(name: str) -> bool:
    """Whether a call of this name asks a device's runtime for memory, of a device or pinned on the host."""
    return bool(_ALLOCATION.match(name))


def frees_memory(name: str) -> bool:
    """Whether a call of this name gives such memory back to the runtime."""
    return bool(_RELEASE.match(name))


def waits_for_device(name: str) -> bool:
    """Whether a call of this name waits for what its device does, though it is no synchronising one: it frees memory
    (but `cudaFreeAsync`), loads or unloads code, or ends a context or a profile."""
    return bool(_WAITS_FOR_DEVICE.match(name)) or (frees_memory(name) and "Async" not in name)


def pins_memory(name: str) -> bool:
    """Whether a call of this name asks a device's runtime for pinned memory of the host."""
    return bool(_PINNED.match(name))


def launches_graph(name: str) -> bool:
    """Whether a call of this name launches a CUDA graph."""
    return bool(_GRAPH.match(name))


def calls_program(name: str) -> bool:
    """Whether a call of this name is the program's own for a jitted function, on the thread that dispatches it."""
    return bool(_PROGRAM.match(name))


def jitted_function(name: str) -> str | None:
    """The function that JAX's call of this name runs, `f` of `PjitFunction(f)`; None of any other."""
    match = _JITTED.fullmatch(name)
    return match[1] if match else None


def executes(name: str) -> bool:
    """Whether a call of this name is that of PjRt which starts a compiled program."""
    return bool(_EXECUTION.fullmatch(name))


def turns_loop(name: str) -> bool:
    """Whether a span of this name is a turn of a loop that XLA runs on the host, launch by launch."""
    return bool(_LOOP_TURN.fullmatch(name))


def places_arguments(name: str) -> bool:
    """Whether a span of this name only brings the arguments of JAX's call to their devices."""
    return name == "shard_args"


def calls_runtime(name: str) -> bool:
    """Whether a name is that of a call of a device's runtime or driver, of PjRt's that starts a program, or of jaxlib's
    arrays."""
    return bool(_RUNTIME.fullmatch(name)) or executes(name)


def rendezvous_collective(key: str) -> str | None:
    """The collective, in words, in which the threads meet whose rendezvous has this key; None where it tells none."""
    match = _KEY.match(key)
    return match[1] if match else None


def serves_cpu_ops(name: str) -> bool:
    """Whether an event of this name only tells how XLA's CPU client runs its ops."""
    return name.startswith((POOL, END, "ThunkExecutor::", RENDEZVOUS, "InvokeRendezvous", WAIT))


def records_event(name: str) -> bool:
    """Whether a call of this name puts an event on a stream, for which another may wait."""
    return bool(_EVENT_RECORD.match(name))


def sync_call(name: str) -> SyncCall | None:
    """Which synchronising call a name is, of a host's call or of its record on a stream; None of any other."""
    if match := _SYNC.match(name):
        return SyncCall.STREAM_WAIT if match["wait"] else _SYNC_OF.get(match["of"], SyncCall.DEVICE)
    if _FUTURE.fullmatch(name):
        return SyncCall.FUTURE
    return SyncCall.OTHER if _OTHER.fullmatch(name) else None


def asks_if_done(name: str) -> bool:
    """Whether a call of this name only asks whether work is done, and returns at once."""
    return bool(_QUERY.match(name))


def stands_aside(name: str) -> bool:
    """Whether a call of this name neither starts work nor waits for any, and takes no time to speak of: it gets or sets
    the current device, or the last error."""
    return bool(_ASIDE.match(name))


def waits_on_device(name: str) -> bool:
    """Whether an entry in a stream of an accelerator only waits for an event or records one, as `event_wait`."""
    return bool(_WAITS_ON_DEVICE.fullmatch(name))


def asks_for_collective(name: str) -> bool:
    """Whether an operator of PyTorch only asks its backend for a collective, which another thread or a device runs."""
    return bool(_ASKS_FOR_COLLECTIVE.match(name))


def is_collective_of_host(name: str) -> bool:
    """Whether an annotation of PyTorch is a collective that its thread of the host runs itself: `gloo:all_reduce`."""
    return bool(_OF_HOST.match(name))


def says_waiting(name: str) -> bool:
    """Whether the name of a call or span says that its thread waits, be it for a device or for another thread."""
    return bool(_WAITING.match(name))


def reads_back(name: str) -> bool:
    """Whether an op or a method of this name may bring a result from a device to the host, which waits for it."""
    return bool(_READING.match(name))


def operator(name: str) -> str | None:
    """The operator of a framework that an event of this name is: `aten::copy_` of `aten::copy_, op_id = 7`; None of any
    other."""
    plain = of_any_call(name)
    return plain if _OPERATOR.fullmatch(plain) else None


def of_any_call(name: str) -> str:
    """A name without the numbers that PyTorch gives to every call of an operator."""
    return _OF_CALL.sub("", name)


def frame_line(name: str) -> str | None:
    """The line `train.py:12` of the frame of Python that a span of this name is; None of any other."""
    match = _FRAME.match(name)
    return f"{match['file']}:{match['line']}" if match else None


def frame_of_jax(name: str) -> bool:
    """Whether a span of this name is a frame of JAX, by which a program comes to a wait."""
    return bool(_OF_JAX.match(name))


def is_frame(name: str) -> bool:
    """Whether a span of this name is a frame of Python in the words of XLA's tracer."""
    return name.startswith("$")


def allocates(name: str) -> bool:
    """Whether a span of this name is the host's own work of allocating memory on a device, whatever others do."""
    return bool(_ALLOCATING.match(name))


def step_number(name: str) -> int | None:
    """The number of the step that an annotation of this name is: `ProfilerStep#3`, `train#step_num=3#`; else None."""
    match = _STEP.search(name) if "#" in name else None
    digits = (match[1] or match[2]) if match else ""
    return int(digits) if 0 < len(digits) < _DIGITS_OF_INT64 else None


def activity_of(name: str) -> Activity | None:
    """What a span of this name proves of its thread, None if nothing.

    A span that other threads run for the program, such as tf.data's prefetching, counts only for its own thread: it
    shows no wait of the thread that launches.
    """
    lowered = name.lower()
    return _activity_of(name) if any(hint in lowered for hint in _HINTS) else None


@lru_cache(2**17)  # four analyses ask for each name; with fewer places than a file has names none would be found again
def _activity_of(name: str) -> Activity | None:
    return next((what for what, pattern in _ACTIVITIES if pattern.search(name)), None)


def names_runtime(name: str) -> bool:
    """Whether XLA's host events of this name are those of Python, JAX or a runtime, and no annotation of the user's."""
    return bool(_RUNTIME_SPAN.match(name)) or activity_of(name) not in (None, Activity.LOADING)


def serves_runtime(thread: str) -> bool:
    """Whether a thread of this name is of XLA's pools, on which no user annotates anything."""
    return bool(_RUNTIME_THREAD.match(thread))


def records_graphs(names: pd.Categorical) -> bool:
    """Whether any of these calls captures a stream or makes a graph."""
    return any(_capture(name) or _building(name) for name in labels(names))


def recorded_into_graph(names: pd.Categorical, start: Column, thread: Column) -> Mask:
    """Which calls of one host, all (n,), were recorded into a graph and ran nothing.

    Those of any thread are while a stream captures: cudaStreamBeginCapture to cudaStreamEndCapture, and HIP's and the
    driver's of these names (https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html). And those of
    a thread are from where it creates a graph to where it adds the nodes: XLA captures what cuBLAS launches so, and its
    profile has the calls around that alone (xla/stream_executor/cuda/cuda_command_buffer.cc).
    """
    return _captured(start, by_label(names, _capture, 0)) | _built(start, thread, by_label(names, _building, 0))


def _capture(name: str) -> int:
    """1 where a call of this name begins to capture a stream, -1 where it ends that, 0 of any other."""
    match = _CAPTURE.match(name)
    return (1 if match[1] == "Begin" else -1) if match else 0


def _building(name: str) -> int:
    """1 where a call of this name creates a graph, -1 where it adds to it or runs it, 0 of any other."""
    match = _GRAPH_BUILDING.match(name)
    return (1 if match[1] == "Create" else -1) if match else 0


def _captured(start: Column, edge: Column) -> Mask:
    """Which calls (n,) were made while a stream was capturing; `edge` is as `_capture` gives it."""
    at = np.flatnonzero(edge)
    if not len(at):
        return np.zeros(len(start), bool)
    at = at[np.argsort(start[at], kind="stable")]
    depth = np.append(0, np.cumsum(edge[at]))
    depth -= np.minimum.accumulate(depth)  # what began before the profile ends nothing else
    inside: Mask = depth[np.searchsorted(start[at], start, side="right")] > 0
    return inside


def _built(start: Column, thread: Column, edge: Column) -> Mask:
    """Which calls (n,) stand on their thread behind one that creates a graph; `edge` is as `_building` gives it."""
    inside = np.zeros(len(start), bool)
    if (edge > 0).any():
        order = np.lexsort((start, thread))
        at = np.flatnonzero(edge[order])
        last = np.searchsorted(at, np.arange(len(order)), side="right") - 1
        before = order[at[last]]
        inside[order] = (last >= 0) & (thread[before] == thread[order]) & (edge[before] > 0)
    return inside
