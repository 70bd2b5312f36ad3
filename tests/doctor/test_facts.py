"""Facts of a machine, gathered from files that stand in for its own."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doctor.machines import CPU
from tracekit.doctor import facts
from tracekit.doctor.facts import Nvidia, Outcome


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_driver_says_its_version_its_gpus_and_who_may_profile(tmp_path):
    place = tmp_path / "proc" / "driver" / "nvidia"
    (place / "gpus" / "0000:01:00.0").mkdir(parents=True)
    (place / "gpus" / "0000:02:00.0").mkdir()
    (place / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.51.03  Release Build  (root@host)\nGCC version:\n"
    )
    (place / "params").write_text('EnableMSI: 1\nRmProfilingAdminOnly: 1\nTemporaryFilePath: ""\n')
    assert facts.nvidia(tmp_path) == Nvidia(2, "575.51.03", True)
    (place / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44\n")
    (place / "params").write_text("RmProfilingAdminOnly: 0\n")
    assert facts.nvidia(tmp_path) == Nvidia(2, "470.256.02", False)


def test_a_machine_without_a_driver_has_no_gpus_and_a_container_shows_them_as_devices(tmp_path):
    assert facts.nvidia(tmp_path) == Nvidia(0, None, None)
    write(tmp_path, dev__nvidia0="", dev__nvidiactl="")
    assert facts.nvidia(tmp_path).gpus == 1


@pytest.mark.parametrize(
    ("capabilities", "granted"),
    [("0000000000000000", False), ("0000000000200000", True), ("0000004000000000", True), ("00000000a80425fb", False)],
    ids=["none", "CAP_SYS_ADMIN", "CAP_PERFMON", "a container's own"],
)
def test_who_may_read_counters_follows_from_the_capabilities(capabilities, granted):
    assert facts.may_administer(f"Name:\tpython\nCapEff:\t{capabilities}\n") is granted


def test_other_profilers_and_accelerators_are_found(tmp_path):
    write(
        tmp_path,
        proc__12__comm="nv-hostengine\n",
        proc__13__comm="bash\n",
        dev__kfd="",
        dev__accel0="",
        dev__accel1="",
        sys__class__kfd__kfd__topology__nodes__1__gpu_id="1234\n",
        **{"run__.containerenv": ""},
    )
    machine = facts.gather(tmp_path / "traces", tmp_path)
    assert (machine.profilers, machine.amd, machine.tpu, machine.in_container) == (("nv-hostengine",), 1, 2, True)


def test_the_node_of_the_cpu_is_no_amd_gpu(tmp_path):
    nodes = "sys__class__kfd__kfd__topology__nodes"
    write(tmp_path, dev__kfd="", **{f"{nodes}__0__gpu_id": "0\n", f"{nodes}__1__gpu_id": "1234\n"})
    assert facts.gather(tmp_path, tmp_path).amd == 1


def test_a_place_for_traces_is_judged_by_what_is_there_already(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place, writable, free = facts.gather(Path("a/b/traces")).traces
    assert (place, writable) == ("a/b/traces", os.access(tmp_path, os.W_OK))
    assert free > 0
    (tmp_path / "file").write_text("")
    assert facts.gather(tmp_path / "file" / "traces").traces[1] is False


def test_versions_of_this_python_are_found():
    versions = facts.package_versions()
    assert {"tracekit-jax", "jax", "jaxlib", "pandas", "tensorboard-plugin-profile"} <= versions.keys()


@pytest.mark.parametrize(
    ("directory", "tags", "is_found"),
    [
        ("tracekit-2.0.dist-info", "Name: tracekit\nVersion: 2.0\nSummary: An oscilloscope tool\n", True),
        ("TraceKit-2.0.dist-info", "Name: TraceKit\nVersion: 2.0\n", True),
        ("tracekit_jax-2.0.dist-info", "Name: tracekit-jax\nVersion: 2.0\nSummary: This one\n", False),
        ("broken-2.0.dist-info", "", False),
    ],
    ids=["another project", "in other letters", "this one", "broken"],
)
def test_another_project_called_tracekit_is_found(tmp_path, monkeypatch, directory, tags, is_found):
    write(tmp_path, **{f"{directory}__METADATA": f"Metadata-Version: 2.1\n{tags}" if tags else ""})
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    summary = "An oscilloscope tool" if "Summary" in tags else ""
    assert facts.namesake() == (("2.0", summary) if is_found else None)


def test_a_process_that_hangs_is_stopped_at_its_time_limit_with_all_that_it_started():
    begun = time.monotonic()
    # The grandchild holds the output open, and none of them heeds SIGTERM.
    hung = "trap '' TERM INT; echo begun; sleep 600 & echo $!; wait"
    outcome = facts.run(["sh", "-c", hung], limit_s=0.5)
    assert time.monotonic() - begun < 10
    assert outcome.code is None
    first, number = outcome.out.split()
    assert first == "begun"
    deadline = time.monotonic() + 5
    while _runs(number) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(number)


def _runs(process: str) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rpartition(")")[2].split()[0] not in "ZX"


def test_a_process_that_crashes_is_reported_with_its_signal():
    outcome = facts.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"])
    assert outcome.code == -11


def test_nothing_is_captured_where_jax_gives_no_devices(monkeypatch):
    monkeypatch.setattr(facts, "_DEVICES", "raise SystemExit('driver is broken')")
    monkeypatch.setattr(facts, "_VIEWER", "")
    machine = facts.probe(replace(CPU, capture=None, read=Outcome()))
    assert (machine.devices, machine.capture, machine.read) == (Outcome(1, "", "driver is broken\n"), None, Outcome())
