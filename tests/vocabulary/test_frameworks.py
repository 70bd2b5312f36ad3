"""Names that prove a framework, and what a program does; names that prove neither."""

import pytest

from tracekit.vocabulary.frameworks import Framework, Practice, Source, framework_of, practices

FRAMEWORKS = [
    (Source.MODULE, "jit_train_step", Framework.JAX),
    (Source.MODULE, "pmap_update", Framework.JAX),
    (Source.MODULE, "SyncTensorsGraph.4321", Framework.PYTORCH),
    (Source.MODULE, "a_inference_train_step_42__XlaMustCompile_true_config_proto_1", Framework.TENSORFLOW),
    (Source.MODULE, "cluster_0__XlaCompiledKernel_true", Framework.TENSORFLOW),
    (Source.MODULE, "reactant_fn", None),
    (Source.MODULE, "jitter", None),
    (Source.OPERATION, "jit(train)/jvp()/dot_general", Framework.JAX),
    (Source.OPERATION, "aten::addmm", Framework.PYTORCH),
    (Source.OPERATION, "saxpy", None),
    (Source.SPAN, "PjitFunction(train)", Framework.JAX),
    (Source.SPAN, "TSL:backend_compile_and_load", Framework.JAX),
    (Source.SPAN, "FSDP::pre_forward (blocks.2), op_id = 3", Framework.PYTORCH),
    (Source.SPAN, "aten::empty, op_id = 990850", Framework.PYTORCH),
    (Source.SPAN, "ExecutorState::Process", Framework.TENSORFLOW),
    (Source.SPAN, "EagerLocalExecute: MatMul", Framework.TENSORFLOW),
    (Source.SPAN, "MXNDArrayWaitAll", Framework.MXNET),
    (Source.SPAN, "Iterator::Model::Prefetch", None),  # tf.data feeds JAX too
    (Source.SPAN, "PjRtStreamExecutorLoadedExecutable::Execute", None),  # XLA's runtime, whoever uses it
    (Source.KERNEL, "void at::native::vectorized_elementwise_kernel<4>()", Framework.PYTORCH),
    (Source.KERNEL, "triton_poi_fused_add_0", Framework.PYTORCH),
    (Source.KERNEL, "triton_softmax_13", None),  # XLA's
    (Source.KERNEL, "void tensorflow::functor::FillPhiloxRandomKernelLaunch<float>()", Framework.TENSORFLOW),
    (Source.KERNEL, "void mxnet::op::mxnet_op::mxnet_generic_kernel<float>()", Framework.MXNET),
    (Source.KERNEL, "saxpy(int, float, float*, float*)", None),
    (Source.KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", None),
]


@pytest.mark.parametrize(("source", "name", "framework"), FRAMEWORKS)
def test_a_name_proves_the_framework_that_alone_has_it(source, name, framework):
    assert framework_of(source, name) == framework


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        (Source.SPAN, "DistributedDataParallel.forward", [Practice.DDP]),
        (Source.SPAN, "FSDP::post_forward (blocks.3)", [Practice.FSDP]),
        (Source.SPAN, "Torch-Compiled Region: 0/0", [Practice.COMPILE]),
        (Source.KERNEL, "triton_red_fused_mean_1", [Practice.COMPILE]),
        (Source.SPAN, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", [Practice.LOADER_PROCESSES]),
        (Source.SPAN, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", []),
        (Source.SPAN, "Iterator::Root::Prefetch", [Practice.PREFETCH]),
        (Source.SPAN, "Iterator::Root::ParallelMapV2", []),
        (Source.KERNEL, "triton_softmax_13", []),
        (Source.MODULE, "jit_train", []),
    ],
)
def test_a_name_proves_what_the_program_does(source, name, expected):
    assert practices(source, name) == expected
