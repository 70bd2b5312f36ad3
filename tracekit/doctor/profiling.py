"""Whether device profiling works here: what jax sees, what traces it, who may, and whether a capture has rows of it."""

from tracekit.doctor.check import Check, counted, failed, version
from tracekit.doctor.facts import Facts, Ran

# The platforms of jax's devices by what carries them.
_NVIDIA, _AMD, _TPU = {"gpu", "cuda"}, {"gpu", "rocm"}, {"tpu"}
_NEXT = "see what stderr says of: tracekit capture YOUR_SCRIPT.py"


def devices(facts: Facts) -> Check:
    """What jax sees, and whether it sees the accelerators that are here."""
    asked = facts.devices or Ran()
    if asked.code != 0:
        return Check("devices", "missing", failed("jax", asked), "run: python -c 'import jax; print(jax.devices())'")
    kinds = [f"{device['platform']} ({device['kind']})" for device in facts.seen()]
    said = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    unseen = _unseen(facts)
    if not unseen:
        return Check("devices", "ok", said)
    what, mend = unseen
    if chosen := facts.variables.get("JAX_PLATFORMS"):
        said += f"; JAX_PLATFORMS={chosen} leaves out {what}"
        return Check("devices", "warning", said, "unset JAX_PLATFORMS", needed=False)
    return Check("devices", "warning", f"{said}; jax does not see {what} of this machine", mend, needed=False)


def _unseen(facts: Facts) -> tuple[str, str] | None:
    """The accelerators that are here and that jax does not see, and what installs what is lacking."""
    seen = facts.platforms()
    if facts.nvidia.gpus and not seen & _NVIDIA:
        # CUDA 13 needs a driver of 580 or newer (https://docs.jax.dev/en/latest/installation.html).
        cuda = "cuda13" if version(facts.nvidia.driver or "")[:1] >= (580,) else "cuda12"
        return f"the {counted(facts.nvidia.gpus, 'NVIDIA GPU')}", f'pip install -U "jax[{cuda}]"'
    if facts.amd and not seen & _AMD:
        return f"the {counted(facts.amd, 'AMD GPU')}", 'pip install -U "jax[rocm7-local]"'
    if facts.tpu and not seen & _TPU:
        return f"the {counted(facts.tpu, 'TPU chip')}", 'pip install -U "jax[tpu]"'
    return None


def cupti(facts: Facts) -> Check | None:
    """Whether CUPTI, by which XLA traces NVIDIA GPUs, was loaded in the captured process."""
    if not (facts.nvidia.gpus and facts.platforms() & _NVIDIA and facts.capture is not None):
        return None
    if found := [path for path in facts.loaded() if "libcupti" in path]:
        return Check("CUPTI", "ok", found[0])
    # It is loaded by name when a profile begins; pip's wheel carries it beside CUDA.
    cuda = next((name[8:10] for name in facts.packages if name.startswith("jax-cuda")), "12")
    package = "nvidia-cuda-cupti" if cuda == "13" else f"nvidia-cuda-cupti-cu{cuda}"
    said = f"libcupti was not loaded; {package} is {'' if package in facts.packages else 'not '}installed"
    where = " (LD_LIBRARY_PATH is set, and may hide it)" if "LD_LIBRARY_PATH" in facts.variables else ""
    return Check("CUPTI", "missing", said + where, f'pip install -U "jax[cuda{cuda}]", or pip install {package}')


def permission(facts: Facts) -> Check | None:
    """Whether the driver lets this user trace.

    Since CUDA 10.2 tracing needs no permission, only counters do (https://docs.nvidia.com/cupti/r_limitations.html,
    https://developer.nvidia.com/ERR_NVGPUCTRPERM), and tracekit's captures read no counters.
    """
    if not facts.nvidia.gpus:
        return None
    if facts.nvidia.admin_only is None and not facts.may_administer:
        said = "the driver does not say who may read GPU counters; tracing needs no permission"
        return Check("permission", "ok", said, needed=False)
    if not facts.nvidia.admin_only or facts.may_administer:
        return Check("permission", "ok", "this user may read GPU counters, and tracing needs less", needed=False)
    if _traced(facts, "gpu"):
        return Check(
            "permission", "ok", "GPU counters are for administrators; tracing needs none, and works", needed=False
        )
    said = "the driver keeps GPU counters for administrators; tracing should work all the same"
    mend = (
        "start the container with --cap-add=SYS_ADMIN"
        if facts.in_container
        else "as root: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > "
        "/etc/modprobe.d/nvidia-profiling.conf, then reboot"
    )
    return Check("permission", "warning", said, f"if no GPU rows come: {mend}", needed=False)


def rocm(facts: Facts) -> Check | None:
    """Whether ROCm's tracer was loaded in the captured process."""
    if not (facts.amd and facts.platforms() & _AMD and facts.capture is not None):
        return None
    if found := [path for path in facts.loaded() if "librocprofiler" in path or "libroctracer" in path]:
        return Check("ROCm tracer", "ok", found[0])
    mend = (
        "install rocprofiler-sdk (apt install rocprofiler-sdk), and start again with /opt/rocm/lib in LD_LIBRARY_PATH"
    )
    return Check("ROCm tracer", "missing", "neither librocprofiler-sdk nor libroctracer was loaded", mend)


def tpu(facts: Facts) -> Check | None:
    """Whether libtpu, which traces TPUs, is there."""
    if not facts.platforms() & _TPU:
        return None
    if "libtpu" in facts.packages:
        return Check("libtpu", "ok", facts.packages["libtpu"])
    return Check("libtpu", "warning", "not installed by pip", 'pip install -U "jax[tpu]"', needed=False)


def probe(facts: Facts) -> Check | None:
    """Whether a tiny program could be captured and read back, with rows of every device."""
    if facts.capture is None:
        return None
    if facts.capture.code != 0:
        said = failed("the capture of a tiny program", facts.capture)
        return Check("capture", "missing", said, _NEXT)
    if facts.read is None or facts.read.code != 0:
        return Check(
            "capture", "missing", failed("reading the capture", facts.read or Ran()), "pip install -U tracekit"
        )
    rows = {name: count for name, count in (facts.rows() or {}).items() if not name.endswith(":?")}
    silent = [one for one in facts.platforms() if not _traced(facts, _prefix(one))]
    total = sum(rows.values())
    if silent:
        said = f"a tiny program was captured, but no row came from {', '.join(sorted(silent))}"
        return Check("capture", "missing", said, _no_rows(facts))
    fewer = len(facts.seen()) - len([name for name in rows if rows[name]])
    said = f"a tiny program was captured and read back: {total} rows on {counted(len(rows), 'device')}"
    if fewer > 0:
        return Check(
            "capture", "warning", f"{said}, none of {fewer} more", "tracekit capture your own program", needed=False
        )
    return Check("capture", "ok", said)


def _no_rows(facts: Facts) -> str:
    """The likely causes of a capture without device rows, the likeliest first."""
    causes = []
    if facts.profilers:
        # CUPTI serves one subscriber (https://docs.nvidia.com/cupti/r_limitations.html).
        causes.append(f"stop {', '.join(facts.profilers)}: CUPTI serves one profiler at a time")
    if "CUDA_INJECTION64_PATH" in facts.variables:
        causes.append("unset CUDA_INJECTION64_PATH, with which another profiler holds CUPTI")
    if facts.nvidia.admin_only and not facts.may_administer:
        causes.append("get permission, see above")
    said = [line.strip() for line in (facts.capture or Ran()).err.splitlines() if "upti" in line.lower()]
    if said:
        causes.append(f"XLA says: {said[-1]}")
    return "; ".join(causes) or _NEXT


def _prefix(platform: str) -> str:
    """What the devices of a platform are called in a trace."""
    return "gpu" if platform in _NVIDIA | _AMD else platform


def _traced(facts: Facts, prefix: str) -> bool:
    """Whether rows came from a device whose name begins so."""
    return any(
        name.rpartition("/")[2].startswith(f"{prefix}:") and count for name, count in (facts.rows() or {}).items()
    )
