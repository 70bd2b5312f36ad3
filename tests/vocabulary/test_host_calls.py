"""Which of the host's calls wait, compile, load data or meet, by their names."""

import numpy as np
import pandas as pd
import pytest

from tracekit.vocabulary.host_calls import (
    Activity,
    SyncCall,
    activity_of,
    allocates,
    asks_if_done,
    calls_program,
    calls_runtime,
    copies_synchronously,
    copies_to_host,
    executes,
    frees_memory,
    gets_memory,
    jitted_function,
    launches,
    launches_graph,
    pins_memory,
    reads_back,
    recorded_into_graph,
    records_event,
    rendezvous_collective,
    says_waiting,
    serves_cpu_ops,
    stands_aside,
    step_number,
    sync_call,
    tells_of_recording,
)

SYNC_CALLS = {
    "cudaStreamSynchronize": SyncCall.STREAM,
    "cudaStreamSynchronize_v3020": SyncCall.STREAM,
    "cuStreamSynchronize_ptsz": SyncCall.STREAM,
    "hipStreamSynchronize": SyncCall.STREAM,
    "cudaEventSynchronize": SyncCall.EVENT,
    "hipEventSynchronize": SyncCall.EVENT,
    "cudaDeviceSynchronize": SyncCall.DEVICE,
    "hipDeviceSynchronize": SyncCall.DEVICE,
    "cuCtxSynchronize": SyncCall.DEVICE,
    "cuContextSynchronize": SyncCall.DEVICE,
    "cudaThreadSynchronize": SyncCall.DEVICE,
    "cudaStreamWaitEvent": SyncCall.STREAM_WAIT,
    "cuStreamWaitEvent_ptsz": SyncCall.STREAM_WAIT,
    "CommonPjRtBuffer::Await": SyncCall.FUTURE,
    "PjRtStreamExecutorBuffer::BlockHostUntilReady": SyncCall.OTHER,
}
NO_SYNC_CALLS = [
    *("cudaEventRecord", "cudaEventQuery", "cudaStreamQuery", "cuStreamWaitValue32", "cudaLaunchKernel", "cudaMalloc"),
    *("my_cudaStreamSynchronize_wrapper", "cudaStreamSynchronizeAll", "Synchronize", "await", ""),
]
# Whoever calls these waits, for what only their name does not tell.
WAITING = [
    *("block_until_ready", "jax.block_until_ready", "torch.cuda.synchronize", "KVStore wait", "Rendezvous: all-reduce"),
    *("InvokeRendezvous", "Wait: pending_threads=1/2", "$threading.py:323 wait", "$<built-in method acquire"),
    *("$select.py poll", "$queue.py:171 get", "$api.py:3165 try_to_block", "np.asarray(jax.Array)"),
    *("Acquire semaphore", "BlockHostUntilDone", "BlockHostUntilDoneWithHostCallback", "$<built-in method sleep"),
    *(
        "threading.py(295): wait",
        "queue.py(154): get",
        "$_base.py:428 result",
        "concurrent/futures/_base.py(428): result",
        "selectors.py(452): select",
        "multiprocessing/queues.py(98): get",
    ),
    *(
        "$threading.py:1060 join",
        "threading.py(1060): join",
        "<built-in method get of _queue.SimpleQueue object at 0x7f>",
    ),
    *("<built-in method acquire of _thread.lock object at 0x7f>", "<built-in function sleep>"),
]


def test_the_record_of_an_unknown_synchronisation_is_one():
    assert sync_call("unknown synchronization") is SyncCall.OTHER


@pytest.mark.parametrize(("name", "call"), SYNC_CALLS.items())
def test_synchronising_calls_tell_what_they_wait_for(name, call):
    assert sync_call(name) == call
    assert says_waiting(name) == (call is not SyncCall.STREAM_WAIT)


@pytest.mark.parametrize("name", NO_SYNC_CALLS)
def test_other_calls_synchronise_nothing(name):
    assert sync_call(name) is None


@pytest.mark.parametrize("name", WAITING)
def test_more_calls_say_that_their_thread_waits(name):
    assert says_waiting(name)
    assert sync_call(name) is None


@pytest.mark.parametrize(
    "name",
    [
        *("cudaStreamWaitEvent", "cuStreamWaitValue32", "waiter", "get", "$dict get", "matmul"),
        *(
            "model.py(12): get",
            "nn.py(7): joined",
            "<built-in method acquired of x>",
            "np.asarray",
            "$<built-in join_paths",
        ),
        *("$posixpath.py:71 join", "posixpath.py(71): join", "<built-in method join of str object at 0x7f>"),
        *("Build buffer allocations", "TfrtTpuClient::DefragmentMemory", "PjitFunction(wait_less)"),
    ],
)
def test_telling_a_stream_to_wait_is_no_waiting(name):
    assert not says_waiting(name)


@pytest.mark.parametrize(
    ("name", "is_allocation"),
    [
        ("Build buffer allocations", True),
        ("DeviceMemAllocator::Alloc", True),
        ("TfrtTpuClient::DefragmentMemory", True),
        ("tpu::System::DefragmentMemory", True),
        ("GpuExecutable::ExecuteThunks", False),
        ("allocate", False),
    ],
)
def test_runtimes_say_when_they_allocate_memory(name, is_allocation):
    assert allocates(name) == is_allocation


@pytest.mark.parametrize(
    ("name", "gets", "pins", "frees"),
    [
        ("cuMemHostAlloc", True, True, False),
        ("cudaHostAlloc", True, True, False),
        ("cudaMallocHost_v3020", True, True, False),
        ("hipHostMalloc", True, True, False),
        ("cuMemHostRegister_v2", True, True, False),
        ("cudaMalloc", True, False, False),
        ("cuMemAlloc_v2", True, False, False),
        ("cuMemFreeHost", False, False, True),
        ("cudaFree_v3020", False, False, True),
        ("cudaFreeAsync", False, False, True),
        ("hipHostFree", False, False, True),
        ("cuMemHostUnregister", False, False, True),
        ("cudaLaunchKernel", False, False, False),
        ("cudaMemcpy", False, False, False),
    ],
)
def test_calls_get_memory_free_it_and_some_pin_it(name, gets, pins, frees):
    assert (gets_memory(name), pins_memory(name), frees_memory(name)) == (gets, pins, frees)


@pytest.mark.parametrize(
    ("name", "is_call", "copies"),
    [
        ("ArrayImpl.copy_to_host_async", True, True),
        ("D2H Copy From Staging Buffer", True, True),
        ("PythonRefManager::CollectGarbage", True, False),
        ("CommonPjRtBuffer::ToLiteral", True, False),
        ("D2H Dispatch", False, False),
        ("copy_to_host_async", False, False),
    ],
)
def test_calls_of_jaxlibs_arrays_are_those_of_a_runtime_and_some_copy_to_the_host(name, is_call, copies):
    assert (calls_runtime(name), copies_to_host(name)) == (is_call, copies)


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("aten::item", True),
        ("aten::_local_scalar_dense", True),
        ("aten::copy_", True),
        ("<built-in method tolist of Tensor object at 0x7f>", True),
        ("aten::items", False),
        ("aten::to_sparse", False),
        ("<built-in method item of dict object at 0x7f>", False),
    ],
)
def test_ops_say_that_they_may_bring_a_result_to_the_host(name, reads):
    assert reads_back(name) == reads


@pytest.mark.parametrize(
    "name", ["InvokeRendezvous", "Rendezvous", "Wait: pending_threads=1/2", "Wait for rendezvous callback"]
)
def test_threads_that_meet_wait(name):
    assert activity_of(name) is Activity.MEETING
    assert says_waiting(name)


@pytest.mark.parametrize(
    ("name", "is_launch", "graph"),
    [
        ("cudaLaunchKernel", True, False),
        ("cuLaunchKernelEx", True, False),
        ("hipMemcpyAsync", True, False),
        ("cuMemsetD32Async", True, False),
        ("cudaGraphLaunch", True, True),
        ("hipGraphLaunch", True, True),
        ("cudaStreamSynchronize", False, False),
        ("cudaMalloc", False, False),
        ("cuGraphAddMemcpyNode (CudaGraph:95)", False, False),
        ("cudaGraphExecMemsetNodeSetParams", False, False),
        ("MemcpyH2D", True, False),
    ],
)
def test_launches_ask_a_device_for_work(name, is_launch, graph):
    assert (launches(name), launches_graph(name)) == (is_launch, graph)


@pytest.mark.parametrize(
    ("name", "is_synchronous"),
    [
        ("cudaMemcpy", True),
        ("cudaMemcpy2D_v3020", True),
        ("cuMemcpyDtoH_v2", True),
        ("hipMemcpyWithStream", True),
        ("cudaMemcpyAsync", False),
        ("cuMemcpyDtoHAsync_v2", False),
        ("cudaMemset", False),
    ],
)
def test_copies_are_synchronous_unless_they_say_otherwise(name, is_synchronous):
    assert copies_synchronously(name) == is_synchronous


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", Activity.LOADING),
        ("enumerate(DataPipe)#MapperIterDataPipe", Activity.LOADING),
        ("[pl][profile][_TrainingEpochLoop].train_dataloader_next", Activity.LOADING),
        ("Iterator::Prefetch::Generator", Activity.LOADING),
        ("IteratorGetNextAsOptionalOp::DoCompute", Activity.LOADING),
        ("IteratorGetNextAsOptional_4:IteratorGetNextAsOptional", Activity.LOADING),
        ("MultiDeviceIteratorGetNextFromShard:MultiDeviceIteratorGetNextFromShard", Activity.LOADING),
        ("input_pipeline_task0/while/body/_1/InfeedQueue/enqueue/1:InfeedEnqueueTuple", Activity.LOADING),
        ("## data_load ##", Activity.LOADING),
        ("data loading", Activity.LOADING),
        ("load_batch", Activity.LOADING),
        ("get_batch", Activity.LOADING),
        ("load_next_batch", Activity.LOADING),
        ("batch-generator", Activity.LOADING),
        ("torch/utils/data/dataloader.py(733): __next__", Activity.LOADING),
        ("train/next_batch", Activity.LOADING),
        ("$dataloader.py:733 __next__", Activity.LOADING),
        ("backend_compile", Activity.COMPILING),
        ("backend_compile_and_load", Activity.COMPILING),
        ("PjRtCpuClient::Compile", Activity.COMPILING),
        ("TfrtGpuClient::CompileAndLoad", Activity.COMPILING),
        ("lower_sharding_computation", Activity.LOWERING),
        ("_compile.compile_inner (dynamo_timed)", Activity.COMPILING),
        ("LoadProgram", Activity.INSTALLING),
        ("LoadProgramCacheMiss", Activity.INSTALLING),
        ("entire_frame_compile", Activity.COMPILING),
        ("create_aot_dispatcher_function (dynamo_timed)", Activity.COMPILING),
        ("TSL:backend_compile", Activity.COMPILING),
        ("TSL:XlaCompile:#module=jit_f#", Activity.COMPILING),
        ("XlaCompile:#module=jit_f#", Activity.COMPILING),
        ("XlaCompilationCache::Compile", Activity.COMPILING),
        ("TSL:XlaAutotunerMeasurement:#hlo_op=gemm_fusion_dot.572#", Activity.COMPILING),
        ("XlaPassPipeline:#name=fusion,module=jit_f,program_id=40#", Activity.COMPILING),
        ("LocalClient::Compile", Activity.COMPILING),
        ("NVPTXCompiler::RunBackend", Activity.COMPILING),
        ("GpuCompiler::RunHloPasses(jit_f)", Activity.COMPILING),
        ("CpuCompiler::Compile", Activity.COMPILING),
        ("CompileToLocalExecutable", Activity.COMPILING),
        ("Rendezvous: all-reduce", Activity.MEETING),
        ("Wait: pending_threads=1/2", Activity.MEETING),
        ("Wait for rendezvous callback", Activity.MEETING),
        # A tensor passed on, kernels, frames and steps load no data.
        ("_send_IteratorGetNextAsOptional_6/_51_0:_Send", None),
        ("IteratorGetNextAsOptional_4/_40:_Send", None),
        ("cond_4/IteratorGetNextAsOptional_4/_53:Switch", None),
        ("## copy_batch_to_gpu ##", None),
        ("download_batch_norm", None),
        ("batch_norm", None),
        ("next", None),
        ("$builtins next", None),
        ("CompiledFunction", None),
        ("XlaCompiledCpuFunction::Run", None),
        ("compile", None),
        ("compile_step", None),
        ("lower_sharding_computation_of_mine", None),
        ("PjitFunction(compile)", None),
        ("Torch-Compiled Region", None),
    ],
)
def test_a_name_proves_what_its_writer_meant(name, what):
    assert activity_of(name) == what


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ProfilerStep#12", 12),
        ("ProfilerStep #12", 12),
        ("PyTorch:ProfilerStep#12", 12),
        ("train#step_num=3#", 3),
        ("train#epoch=1,step_num=4,loss=2#", 4),
        ("TSL:train#step_num=3#", 3),
        ("MyProfilerStep#12", None),
        ("ProfilerStep#12 of 20", None),
        ("ProfilerStep", None),
        ("step 5", None),
        ("my_step_num=6", None),
    ],
)
def test_steps_have_their_number_in_the_documented_forms_only(name, number):
    assert step_number(name) == number


@pytest.mark.parametrize(
    ("name", "is_program", "function", "is_execution"),
    [
        ("PjitFunction(f)", True, "f", False),
        ("PjitFunction(<lambda>(x))", True, "<lambda>(x)", False),
        ("PjitFunction(cut off", True, None, False),
        ("PJRT_LoadedExecutable_Execute", True, None, False),
        ("PJRT_LoadedExecutable_Execute_linked", False, None, False),
        ("CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice", False, None, True),
        ("[1] CommonPjRtLoadedExecutable::Execute (jit_f)", False, None, True),
        ("TfrtCpuExecutable::ExecuteHelper", False, None, True),
        ("ThunkExecutor::Execute", False, None, False),
    ],
)
def test_jax_calls_functions_and_pjrt_executes_programs(name, is_program, function, is_execution):
    assert (calls_program(name), jitted_function(name), executes(name)) == (is_program, function, is_execution)


def test_the_key_of_a_rendezvous_tells_its_collective():
    assert rendezvous_collective("all reduce RendezvousKey{run_id=1}") == "all reduce"
    assert rendezvous_collective("Rendezvous of others") is None


def test_events_that_only_serve_the_ops_of_a_cpu_are_known():
    names = ["ThreadpoolListener::Record", "end: dot.4", "ThunkExecutor::Execute", "Rendezvous", "InvokeRendezvous"]
    assert all(map(serves_cpu_ops, [*names, "Wait: pending_threads=1/2"]))
    assert not any(map(serves_cpu_ops, ["dot.4", "end", "PjitFunction(f)", "wait"]))


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("cudaEventRecord_v3020", True),
        ("cuEventRecord", True),
        ("cudaEventRecordWithFlags_ptsz", True),
        ("hipEventRecord", True),
        ("cudaEventRecordAll", False),
        ("cudaEventQuery", False),
    ],
)
def test_calls_that_record_an_event_are_known_with_any_version(name, records):
    assert records_event(name) == records


@pytest.mark.parametrize(
    ("name", "asks", "is_aside"),
    [
        ("cudaEventQuery", True, False),
        ("cudaStreamQuery_v3020", True, False),
        ("cuEventQuery", True, False),
        ("hipStreamQuery", True, False),
        ("cudaEventQueryLater", False, False),
        ("cudaEventSynchronize", False, False),
        ("hipGetDevice", False, True),
        ("cudaSetDevice_v3020", False, True),
        ("hipPeekAtLastError", False, True),
        ("cudaGetDeviceProperties", False, False),
        ("cudaLaunchKernel", False, False),
    ],
)
def test_calls_that_only_ask_whether_work_is_done_and_those_beside_them_are_known(name, asks, is_aside):
    assert (asks_if_done(name), stands_aside(name)) == (asks, is_aside)


def recorded(*calls: tuple[str, int]) -> list[bool]:
    """Which of some calls, each a name and a thread, one a picosecond, were recorded into a graph."""
    names = pd.Categorical([name for name, _ in calls])
    thread = np.array([thread for _, thread in calls])
    return recorded_into_graph(names, np.arange(len(calls)), thread).tolist()


def test_what_a_stream_captures_is_recorded_whatever_the_thread():
    calls = ("cudaStreamBeginCapture", 0), ("Memset", 0), ("Memset", 1), ("cudaStreamEndCapture", 0), ("Memset", 0)
    assert recorded(*calls) == [True, True, True, False, False]


def test_the_end_of_a_capture_that_began_before_the_profile_ends_no_other():
    calls = ("cudaStreamEndCapture", 0), ("Memset", 0), ("cudaStreamBeginCapture", 0), ("Memset", 0)
    assert recorded(*calls) == [False, False, True, True]


@pytest.mark.parametrize(
    ("name", "tells"),
    [
        ("cudaStreamBeginCapture_v10000", True),
        ("cudaStreamIsCapturing_v10000", True),
        ("cudaThreadExchangeStreamCaptureMode_v10010", True),
        ("hipGraphCreate", True),
        ("cuGraphAddKernelNode", True),
        ("cudaGraphLaunch", False),
        ("cudaStreamSynchronize", False),
    ],
)
def test_calls_by_which_graphs_are_recorded_are_known(name, tells):
    assert tells_of_recording(name) == tells


def test_what_xla_builds_a_graph_of_is_recorded_on_its_thread_until_the_nodes_are_added():
    """As in a trace of an H100: cuBLAS's memsets and kernels between the two calls of cuda_command_buffer.cc."""
    calls = [
        *(("cuGraphCreate (CudaGraph:1)", 0), ("cuGraphCreate (CudaGraph:2)", 0), ("Memset", 0), ("Memset", 1)),
        *(("sm90_xmma_gemm", 0), ("cuGraphAddChildGraphNode (CudaGraph:3)", 0), ("Memset", 0)),
        *(("cuGraphCreate (CudaGraph:4)", 0), ("cuGraphLaunch (CudaGraph:3)", 0), ("Memset", 0)),
    ]
    assert [at for at, is_recorded in enumerate(recorded(*calls)) if is_recorded] == [0, 1, 2, 4, 7]
    assert recorded() == []
    assert recorded(("cudaGraphCreate", 0), ("cudaGraphDestroy", 0), ("Memset", 0)) == [True, False, False]
