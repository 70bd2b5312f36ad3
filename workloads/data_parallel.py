"""Data-parallel SGD written in three ways: `shard_map`, `pmap`, and by hand, device by device.

Each device has its own copy of the parameters and its part of the batch; the mean of all gradients updates every copy.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from fashion_mnist import Batch
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from lenet import Params, descend, loss

AXIS = "batch"


class Form(NamedTuple):
    """One way to write it. What `replicate`, `split` and `step` return is its own affair: `copies` reads it."""

    replicate: Callable[[Params], Any]  # the parameters on every device
    split: Callable[[Batch], tuple[Any, Any]]  # images and labels, a part on each device
    step: Callable[[Any, Any, Any], Any]  # what these give, to the parameters after one step of SGD
    copies: Callable[[Any], list[Params]]  # the parameters of each device, as numpy arrays


def mean_gradients(params: Params, images: jax.Array, labels: jax.Array) -> Params:
    """On each device: gradients of its part of the batch, averaged over the devices, whose parts are of one size."""
    averaged: Params = jax.lax.pmean(jax.grad(loss)(params, images, labels), AXIS)
    return averaged


# --- shard_map: arrays that span a mesh


def mesh_of(devices: Sequence[Any]) -> Mesh:
    """These devices along one axis."""
    return jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=devices)


def on_mesh(function: Callable[..., Any], mesh: Mesh) -> Callable[..., Any]:
    """Compile `function(params, images, labels)` for replicated parameters, a split batch and a replicated result."""
    # out_specs without an axis: shard_map refuses to trace a result that could differ between devices.
    specs = (PartitionSpec(), PartitionSpec(AXIS), PartitionSpec(AXIS))
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=PartitionSpec()))


def gradients(params: Params, images: jax.Array, labels: jax.Array) -> Params:
    """`mean_gradients` in shard_map."""
    # Without the cast, shard_map sums the gradients of replicated parameters itself, and the all-reduce stands nowhere.
    return mean_gradients(jax.lax.pcast(params, AXIS, to="varying"), images, labels)


def sgd(params: Params, images: jax.Array, labels: jax.Array) -> Params:
    """One step in shard_map."""
    return descend(params, gradients(params, images, labels))


def place(batch: Batch, mesh: Mesh) -> tuple[jax.Array, jax.Array]:
    """Copy a batch to the devices, split over them."""
    images, labels = jax.device_put(batch, NamedSharding(mesh, PartitionSpec(AXIS)))
    return images, labels


def replicate(params: Params, mesh: Mesh) -> Params:
    """Copy the parameters to every device."""
    copies: Params = jax.device_put(params, NamedSharding(mesh, PartitionSpec()))
    return copies


def _shards(params: Any, devices: int) -> list[Any]:
    """What each device holds of arrays that span all."""

    def of(device: int) -> Any:
        return jax.tree.map(lambda leaf: np.asarray(leaf.addressable_shards[device].data), params)

    return [of(device) for device in range(devices)]


def shard_map_form(devices: Sequence[Any]) -> Form:
    """One program over a mesh, in which each device sees its part; JAX's own way today."""
    mesh = mesh_of(devices)
    return Form(
        replicate=lambda params: replicate(params, mesh),
        split=lambda batch: place(batch, mesh),
        step=on_mesh(sgd, mesh),
        copies=lambda params: _shards(params, len(devices)),
    )


# --- pmap: the classic, with an axis of devices that everyone writes out


def pmap_form(devices: Sequence[Any]) -> Form:
    """One program for a leading axis of devices, which copies and batch are given by hand; AttributeError without
    `jax.pmap`."""
    count, split = len(devices), NamedSharding(mesh_of(devices), PartitionSpec(AXIS))

    def step(params: Params, images: jax.Array, labels: jax.Array) -> Params:
        return descend(params, mean_gradients(params, images, labels))

    def copied(leaf: jax.Array) -> Any:
        return jax.device_put(np.stack([np.asarray(leaf)] * count), split)

    return Form(
        replicate=lambda params: jax.tree.map(copied, params),
        split=lambda batch: jax.device_put((_stacked(batch[0], count), _stacked(batch[1], count)), split),
        step=jax.pmap(step, axis_name=AXIS, devices=devices),
        copies=lambda params: [jax.tree.map(lambda leaf: leaf[0], own) for own in _shards(params, count)],
    )


def _stacked(part: Any, count: int) -> Any:
    """(n, ...) to (count, n / count, ...)."""
    return part.reshape(count, -1, *part.shape[1:])


# --- by hand: a program for each device, and copies between them


def get_params(params: Params, device: Any) -> Params:
    """A copy of the parameters on one device."""
    copy: Params = jax.device_put(params, device)
    return copy


def split_batch(batch: Batch, devices: Sequence[Any]) -> tuple[list[jax.Array], list[jax.Array]]:
    """Images and labels, each as one array a device."""
    images, labels = (
        [jax.device_put(part, device) for part, device in zip(np.split(of, len(devices)), devices, strict=True)]
        for of in batch
    )
    return images, labels


@jax.jit
def add(a: Any, b: Any) -> Any:
    """The sum of two trees."""
    return jax.tree.map(lambda x, y: x + y, a, b)


def allreduce(data: Sequence[Any], devices: Sequence[Any]) -> list[Any]:
    """Sum what each device holds on the first, and copy the sum to the others: nothing else than a gather and a
    broadcast, over one device's link."""
    total = data[0]
    for value in data[1:]:
        total = add(total, jax.device_put(value, devices[0]))
    return [total, *(jax.device_put(total, device) for device in devices[1:])]


def form_by_hand(devices: Sequence[Any]) -> Form:
    """As the classic tutorials write it: a list of copies, a list of parts, a loop over the devices.

    Dispatch does not wait, so that the devices compute at once though one thread feeds them.
    """
    own_gradients = jax.jit(jax.grad(loss))  # runs where its arguments are

    @jax.jit
    def update(params: Params, total: Params) -> Params:
        return descend(params, jax.tree.map(lambda gradient: gradient / len(devices), total))

    def step(copies: list[Params], images: list[jax.Array], labels: list[jax.Array]) -> list[Params]:
        each = [own_gradients(*own) for own in zip(copies, images, labels, strict=True)]
        return [update(params, total) for params, total in zip(copies, allreduce(each, devices), strict=True)]

    return Form(
        replicate=lambda params: [get_params(params, device) for device in devices],
        split=lambda batch: split_batch(batch, devices),
        step=step,
        copies=lambda copies: [jax.tree.map(np.asarray, params) for params in copies],
    )


# --- what an all-reduce is


def show_allreduce(devices: Sequence[Any]) -> None:
    """Print what each device holds before and after an all-reduce: by hand, by `psum` in shard_map, and in pmap."""

    def total(x: jax.Array) -> Any:
        return jax.lax.psum(x, AXIS)

    def show(title: str, values: Sequence[Any]) -> None:
        print(f"{title}:")
        for device, value in zip(devices, values, strict=True):
            print(f"  {device.platform}:{device.id} {np.asarray(value)}")

    mesh, spec, count = mesh_of(devices), PartitionSpec(AXIS), len(devices)
    values = np.arange(1, count + 1, dtype=np.float32)[:, None] * np.ones((1, 2), np.float32)
    data = [jax.device_put(value, device) for value, device in zip(np.split(values, count), devices, strict=True)]
    show("before the all-reduce", data)
    show("after it by hand", allreduce(data, devices))
    summed = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=spec, out_specs=PartitionSpec()))
    show("after psum in shard_map", _shards(summed(jax.device_put(values, NamedSharding(mesh, spec))), count))
    if hasattr(jax, "pmap"):
        show("after psum in pmap", jax.pmap(total, axis_name=AXIS, devices=devices)(_stacked(values, count)))
