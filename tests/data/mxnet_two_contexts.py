"""What the files mxnet_two_contexts_*.json.gz are profiles of: MXNet 1.9.1 on a CPU, with the engine of that name."""

import sys

import mxnet as mx
from mxnet import autograd, gluon, nd, profiler

profiler.set_config(
    profile_imperative=True, profile_symbolic=True, profile_memory=True, profile_api=False, filename=sys.argv[1]
)
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(32, activation="relu"), gluon.nn.Dense(4))
net.initialize()
net.hybridize(static_alloc=True, static_shape=True)
first, second = nd.ones((256, 256)), nd.ones((256, 256), ctx=mx.cpu(1))
for _ in range(2):
    with autograd.record():
        net(first).wait_to_read()
store = mx.kv.create("local")
store.init(3, nd.zeros((64, 64)))
parts = [nd.ones((64, 64), ctx=mx.cpu(number)) for number in range(2)]
nd.waitall()

domain = profiler.Domain("training")
task, event, frame = profiler.Task(domain, "products"), profiler.Event("copies"), profiler.Frame(domain, "step")
profiler.set_state("run")
task.start()
products = [nd.dot(first, first), nd.dot(second, second), nd.dot(first, first)]
nd.waitall()
task.stop()
event.start()
moved = products[0].as_in_context(mx.cpu(1))
nd.waitall()
event.stop()
frame.start()
store.push(3, parts)
with autograd.record():
    net(first)
nd.waitall()
frame.stop()
del moved
nd.waitall()
profiler.set_state("stop")
profiler.dump()
