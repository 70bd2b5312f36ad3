"""The workload whose computation follows its data: the same losses on one and on eight devices."""

import importlib.util
import re
from pathlib import Path

import pytest

# Looked for and not imported, which takes longer than collecting all tests of a directory.
if not all(map(importlib.util.find_spec, ("equinox", "optax"))):
    pytest.skip("needs equinox and optax (extra workloads)", allow_module_level=True)

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "workloads" / "autoparallel.py"


def test_eight_devices_give_the_losses_of_one_with_donated_buffers(python):
    process = python(SCRIPT, "--steps", "2", "--batch", "256", "--donate")
    assert process.returncode == 0, process.stderr
    assert re.search(r"^1 device: [\d.]+ m?s\n8 devices: [\d.]+ m?s$", process.stdout, re.MULTILINE)
    losses = re.search(r"last step: ([\d.]+) on 1 device, ([\d.]+) on 8 devices", process.stdout)
    on_one, on_eight = map(float, losses.groups())
    assert on_one == pytest.approx(on_eight, rel=1e-4)  # float32 sums in another order
    assert "batch (256, 64): NamedSharding(mesh=Mesh('batch': 8" in process.stdout


def test_the_users_own_number_of_devices_holds_and_the_batch_is_split_evenly_without_donation(python):
    process = python(SCRIPT, "--steps", "1", "--batch", "100", XLA_FLAGS="--xla_force_host_platform_device_count=3")
    assert process.returncode == 0, process.stderr
    assert "batch 99 instead of 100" in process.stdout
    assert re.search(r"^3 devices: [\d.]+ m?s$", process.stdout, re.MULTILINE)


def test_one_device_shows_what_it_can_and_says_what_it_lacks(python):
    process = python(SCRIPT, "--steps", "1", "--batch", "256", "--donate", JAX_NUM_CPU_DEVICES="1")
    assert (process.returncode, process.stderr) == (0, "")
    assert "needs two devices or more, and there is one" in process.stdout


def test_a_donated_state_is_gone_and_losses_that_differ_are_refused(python, tmp_path):
    (tmp_path / "driver.py").write_text(f"""
import importlib.util, sys, jax, numpy as np, equinox as eqx, optax
jax.config.update("jax_num_cpu_devices", 2)
spec = importlib.util.spec_from_file_location("autoparallel", {str(SCRIPT)!r})
auto = importlib.util.module_from_spec(spec)
spec.loader.exec_module(auto)
batch = tuple(map(jax.numpy.asarray, auto.synthetic(np.random.default_rng(0), 8)))
for donate in (False, True):
    adam = optax.adam(1e-3)
    model = eqx.nn.MLP(64, 1, 256, 3, key=jax.random.key(0))
    state = model, adam.init(eqx.filter(model, eqx.is_array))
    auto.make_step(adam, donate)(batch, state)
    assert model.layers[1].weight.is_deleted() == donate
    assert not batch[0].is_deleted()
auto.LOSS_RTOL_CPU = -1.0
sys.argv = ["autoparallel.py", "--steps", "1", "--batch", "64"]
auto.main()
""")
    process = python(tmp_path / "driver.py")
    assert process.returncode == 1
    assert process.stderr.endswith("the sharded step computes something else.\n")
    assert "Traceback" not in process.stderr
