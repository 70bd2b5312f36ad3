"""LeNet and its loss, on the images of Fashion-MNIST."""

import jax
import jax.numpy as jnp

LEARNING_RATE = 0.2

Params = dict[str, tuple[jax.Array, jax.Array]]


def init(key: jax.Array) -> Params:
    """Draw the weights (He, for relu) and zero biases: conv 3x3x20, conv 5x5x50, dense 800-128, dense 128-10."""
    shapes = {"conv1": (3, 3, 1, 20), "conv2": (5, 5, 20, 50), "dense1": (800, 128), "dense2": (128, 10)}
    draw = jax.nn.initializers.he_normal()
    keys = dict(zip(shapes, jax.random.split(key, len(shapes)), strict=True))
    return {name: (draw(keys[name], shape, jnp.float32), jnp.zeros(shape[-1])) for name, shape in shapes.items()}


def logits(params: Params, images: jax.Array) -> jax.Array:
    """LeNet: (n, 28, 28) bytes to (n, 10) logits."""
    x = images[..., None].astype(jnp.float32) / 255
    for name in ("conv1", "conv2"):
        weight, bias = params[name]
        x = jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + bias)
        x = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4  # average pooling
    x = x.reshape(len(x), -1)
    x = jax.nn.relu(x @ params["dense1"][0] + params["dense1"][1])
    return x @ params["dense2"][0] + params["dense2"][1]


def loss(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy of a batch."""
    log_p = jax.nn.log_softmax(logits(params, images))
    return -jnp.take_along_axis(log_p, labels[:, None].astype(jnp.int32), axis=1).mean()


def descend(params: Params, gradients: Params) -> Params:
    """One step of plain SGD."""
    updated: Params = jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, gradients)
    return updated


@jax.jit
def correct(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """How many images get their label."""
    hits: jax.Array = (logits(params, images).argmax(axis=1) == labels).sum()
    return hits
