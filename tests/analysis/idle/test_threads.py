"""What the names of spans prove of the threads that they stand on."""

import pytest

from tests.launch_frames import host_spans
from tracekit.analysis.idle.threads import Activity, activity_of, activity_times, dispatchers


@pytest.mark.parametrize(
    ("name", "doing"),
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
        ("train/next_batch", Activity.LOADING),
        ("$dataloader.py:733 __next__", Activity.LOADING),
        ("backend_compile", Activity.COMPILING),
        ("backend_compile_and_load", Activity.COMPILING),
        ("PjRtCpuClient::Compile", Activity.COMPILING),
        ("TfrtGpuClient::CompileAndLoad", Activity.COMPILING),
        ("lower_sharding_computation", Activity.COMPILING),
        ("_compile.compile_inner (dynamo_timed)", Activity.COMPILING),
        ("LoadProgram", Activity.COMPILING),
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
        ("PjitFunction(compile)", None),
        ("Torch-Compiled Region", None),
    ],
)
def test_a_name_proves_what_its_writer_meant(name, doing):
    assert activity_of(name) == doing


def test_spans_are_merged_by_thread_and_by_what_they_prove():
    spans = host_spans(
        ("Iterator::Map", 0, 5),
        ("load_batch", 3, 9),
        ("backend_compile", 4, 6),
        ("Iterator::Map", 1, 2, "pool"),
        ("step", 0, 99),
    )
    found = {
        thread: {one: held.tolist() for one, held in kinds.items()} for thread, kinds in activity_times(spans).items()
    }
    assert found == {
        ("h", "main"): {Activity.LOADING: [[0, 9]], Activity.COMPILING: [[4, 6]]},
        ("h", "pool"): {Activity.LOADING: [[1, 2]]},
    }
    assert activity_times(host_spans()) == {}


def test_the_dispatcher_of_a_host_is_the_only_thread_that_calls_jitted_functions():
    one = host_spans(("PjitFunction(f)", 0, 1, "python"), ("PJRT_LoadedExecutable_Execute", 0, 1, "python"))
    assert dispatchers(one) == {"h": "python"}
    assert dispatchers(host_spans(("PjitFunction(f)", 0, 1), ("PjitFunction(g)", 0, 1, "other"))) == {}
    assert dispatchers(host_spans(("matmul", 0, 1))) == {}
