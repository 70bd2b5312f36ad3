"""What the names of spans prove of the threads that they stand on."""

import pytest

from tests.launch_frames import host_spans
from tracekit.analysis.idle.threads import Doing, dispatchers, doings, what


@pytest.mark.parametrize(
    ("name", "doing"),
    [
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", Doing.LOADING),
        ("enumerate(DataPipe)#MapperIterDataPipe", Doing.LOADING),
        ("[pl][profile][_TrainingEpochLoop].train_dataloader_next", Doing.LOADING),
        ("Iterator::Prefetch::Generator", Doing.LOADING),
        ("IteratorGetNextAsOptionalOp::DoCompute", Doing.LOADING),
        ("IteratorGetNextAsOptional_4:IteratorGetNextAsOptional", Doing.LOADING),
        ("MultiDeviceIteratorGetNextFromShard:MultiDeviceIteratorGetNextFromShard", Doing.LOADING),
        ("input_pipeline_task0/while/body/_1/InfeedQueue/enqueue/1:InfeedEnqueueTuple", Doing.LOADING),
        ("## data_load ##", Doing.LOADING),
        ("data loading", Doing.LOADING),
        ("load_batch", Doing.LOADING),
        ("train/next_batch", Doing.LOADING),
        ("$dataloader.py:733 __next__", Doing.LOADING),
        ("backend_compile", Doing.COMPILING),
        ("backend_compile_and_load", Doing.COMPILING),
        ("PjRtCpuClient::Compile", Doing.COMPILING),
        ("TfrtGpuClient::CompileAndLoad", Doing.COMPILING),
        ("lower_sharding_computation", Doing.COMPILING),
        ("_compile.compile_inner (dynamo_timed)", Doing.COMPILING),
        ("LoadProgram", Doing.COMPILING),
        ("Rendezvous: all-reduce", Doing.MEETING),
        ("Wait: pending_threads=1/2", Doing.MEETING),
        ("Wait for rendezvous callback", Doing.MEETING),
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
        ("PjitFunction(compile)", None),
        ("Torch-Compiled Region", None),
    ],
)
def test_a_name_proves_what_its_writer_meant(name, doing):
    assert what(name) == doing


def test_spans_are_merged_by_thread_and_by_what_they_prove():
    spans = host_spans(
        ("Iterator::Map", 0, 5),
        ("load_batch", 3, 9),
        ("backend_compile", 4, 6),
        ("Iterator::Map", 1, 2, "pool"),
        ("step", 0, 99),
    )
    found = {thread: {one: held.tolist() for one, held in kinds.items()} for thread, kinds in doings(spans).items()}
    assert found == {
        ("h", "main"): {Doing.LOADING: [[0, 9]], Doing.COMPILING: [[4, 6]]},
        ("h", "pool"): {Doing.LOADING: [[1, 2]]},
    }
    assert doings(host_spans()) == {}


def test_the_dispatcher_of_a_host_is_the_only_thread_that_calls_jitted_functions():
    one = host_spans(("PjitFunction(f)", 0, 1, "python"), ("PJRT_LoadedExecutable_Execute", 0, 1, "python"))
    assert dispatchers(one) == {"h": "python"}
    assert dispatchers(host_spans(("PjitFunction(f)", 0, 1), ("PjitFunction(g)", 0, 1, "other"))) == {}
    assert dispatchers(host_spans(("matmul", 0, 1))) == {}
