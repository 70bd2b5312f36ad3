"""Machines that are not here, each described by its facts."""

import json
from dataclasses import replace

from tracekit.doctor.facts import Facts, Nvidia, Outcome

VERSIONS = {
    "tracekit-jax": "0.1.0",
    "jax": "0.10.2",
    "jaxlib": "0.10.2",
    "tensorboard": "2.21.0",
    "tensorboard-plugin-profile": "2.24.2",
    "xprof": "2.24.2",
    "numba": "0.68.1",
    "numpy": "2.4.6",
    "pandas": "3.1.1",
    "pyarrow": "26.0.1",
    "msgspec": "0.22.0",
    "fsspec": "2026.9.0",
    "protobuf": "7.36.2",
}
CUDA = {"jax-cuda12-plugin": "0.10.2", "jax-cuda12-pjrt": "0.10.2", "nvidia-cuda-cupti-cu12": "12.9.79"}


def devices(*kinds: tuple[str, str]) -> Outcome:
    return Outcome(0, json.dumps({"devices": [{"platform": platform, "kind": kind} for platform, kind in kinds]}))


def read(**rows: int) -> Outcome:
    devices = [{"device": name.replace("_", ":"), "rows": {"compute": count}} for name, count in rows.items()]
    return Outcome(0, json.dumps({"devices": devices}))


CPU = Facts(
    python="3.11.7",
    packages=VERSIONS,
    cores=(2, 2, None),
    devices=devices(("cpu", "cpu")),
    viewer=Outcome(0),
    capture=Outcome(0),
    read=read(cpu_0=3),
    perfetto_ui="/usr/share/perfetto-ui",
)
GPU = replace(
    CPU,
    packages=VERSIONS | CUDA,
    nvidia=Nvidia(2, "575.51.03", False),
    devices=devices(("gpu", "NVIDIA H100"), ("gpu", "NVIDIA H100")),
    capture=Outcome(0, "/opt/nvidia/cuda_cupti/lib/libcupti.so.12\n"),
    read=read(gpu_0=4, gpu_1=4),
)
