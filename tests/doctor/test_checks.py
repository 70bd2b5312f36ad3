"""What the doctor says of machines that are not here, each described by its facts."""

from dataclasses import replace

import pytest

from tests.doctor.machines import CPU, CUDA, GPU, VERSIONS, devices, read
from tracekit.doctor.checks import Check, check, version
from tracekit.doctor.doctor import Diagnosis
from tracekit.doctor.facts import Facts, Nvidia, Outcome


def answer_to(facts: Facts, name: str) -> Check:
    (answer,) = [answer for answer in check(facts) if answer.name == name]
    return answer


def works(facts: Facts) -> bool:
    return Diagnosis(tuple(check(facts))).works


def bad(facts: Facts) -> dict[str, str]:
    return {answer.name: answer.state for answer in check(facts) if answer.state != "ok"}


@pytest.mark.parametrize("facts", [CPU, GPU], ids=["cpu", "gpu"])
def test_a_machine_that_lacks_nothing_passes_every_check(facts):
    assert bad(facts) == {}
    assert works(facts)


def test_every_check_that_is_not_ok_says_how_to_fix_it():
    broken = Facts(python="3.10.1", packages={}, nvidia=Nvidia(1), traces=("traces", False, 0), cores=(8, 1, 0.5))
    answers = [answer for answer in check(broken) if answer.state != "ok"]
    assert len(answers) >= 5
    assert [answer for answer in answers if not answer.remedy] == []
    assert not works(broken)


def test_libcupti_that_was_not_loaded_is_missing_with_the_wheel_that_has_it():
    facts = replace(
        GPU, capture=Outcome(0, ""), read=read(cpu_0=3), packages=VERSIONS | {"jax-cuda12-plugin": "0.10.2"}
    )
    answer = answer_to(facts, "CUPTI")
    assert (answer.state, answer.finding) == (
        "missing",
        "libcupti was not loaded; nvidia-cuda-cupti-cu12 is not installed",
    )
    assert answer.remedy == 'pip install -U "jax[cuda12]", or pip install nvidia-cuda-cupti-cu12'
    assert not works(facts)
    newer = replace(facts, packages=VERSIONS | {"jax-cuda13-plugin": "0.10.2", "nvidia-cuda-cupti": "13.0.85"})
    assert answer_to(newer, "CUPTI").finding == "libcupti was not loaded; nvidia-cuda-cupti is installed"
    hidden = replace(newer, variables={"LD_LIBRARY_PATH": "/usr/local/cuda-11/lib64"})
    assert answer_to(hidden, "CUPTI").finding.endswith("(LD_LIBRARY_PATH is set, and may hide it)")


def test_a_driver_that_does_not_say_is_not_taken_to_allow_anything():
    finding = answer_to(replace(GPU, nvidia=Nvidia(2, None, None)), "permission").finding
    assert finding == "the driver does not say who may read GPU counters; tracing needs no permission"
    assert answer_to(GPU, "permission").finding == "this user may read GPU counters; tracing needs less"


def test_restricted_counters_are_no_fault_where_rows_came():
    facts = replace(GPU, nvidia=Nvidia(2, "575.51.03", True))
    assert (
        answer_to(facts, "permission").finding
        == "only administrators may read GPU counters; tracing does not need them, and works"
    )
    assert bad(facts) == {}


@pytest.mark.parametrize(
    ("in_container", "remedy"), [(True, "--cap-add=SYS_ADMIN"), (False, "NVreg_RestrictProfilingToAdminUsers=0")]
)
def test_restricted_counters_are_suspected_where_no_row_came(in_container, remedy):
    facts = replace(GPU, nvidia=Nvidia(2, "575.51.03", True), in_container=in_container, read=read(cpu_0=3))
    assert remedy in answer_to(facts, "permission").remedy
    assert answer_to(facts, "capture") == Check(
        "capture",
        "missing",
        "a test program was captured, but the trace has no events of gpu",
        "get permission, see above",
    )
    assert answer_to(replace(facts, may_administer=True), "permission").state == "ok"


def test_another_profiler_is_the_first_suspect_and_what_xla_says_is_quoted():
    facts = replace(
        GPU,
        profilers=("nv-hostengine",),
        variables={"CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so"},
        capture=Outcome(
            0, "/opt/libcupti.so.12\n", "E0 cupti_tracer.cc:1] failed with CUPTI_ERROR_MULTIPLE_SUBSCRIBERS\nbye"
        ),
        read=read(cpu_0=1),
    )
    assert answer_to(facts, "capture").remedy == (
        "stop nv-hostengine: CUPTI serves one profiler at a time; unset CUDA_INJECTION64_PATH, with which another "
        "profiler holds CUPTI; XLA says: E0 cupti_tracer.cc:1] failed with CUPTI_ERROR_MULTIPLE_SUBSCRIBERS"
    )


def test_one_silent_device_of_several_is_a_warning():
    answer = answer_to(replace(GPU, read=read(gpu_0=4)), "capture")
    assert (answer.state, answer.finding) == (
        "warning",
        "a test program was captured and read back: 4 events on 1 device, none on 1 more",
    )


@pytest.mark.parametrize(
    ("driver", "remedy"), [("580.65.06", 'pip install -U "jax[cuda13]"'), ("535.1", 'pip install -U "jax[cuda12]"')]
)
def test_gpus_that_jax_does_not_see_are_reported_with_the_wheel_for_their_driver(driver, remedy):
    facts = replace(CPU, nvidia=Nvidia(8, driver, False))
    answer = answer_to(facts, "devices")
    assert (answer.state, answer.remedy) == ("warning", remedy)
    assert answer.finding == "1 cpu; jax does not see the 8 NVIDIA GPUs of this machine"
    chosen = answer_to(replace(facts, variables={"JAX_PLATFORMS": "cpu"}), "devices")
    assert (chosen.finding, chosen.remedy) == (
        "1 cpu; JAX_PLATFORMS=cpu excludes the 8 NVIDIA GPUs",
        "unset JAX_PLATFORMS",
    )


def test_amd_gpus_and_tpus_have_their_own_wheels_and_tracers():
    assert answer_to(replace(CPU, amd=8), "devices").remedy == 'pip install -U "jax[rocm7-local]"'
    assert answer_to(replace(CPU, tpu=4), "devices").remedy == 'pip install -U "jax[tpu]"'
    amd = replace(CPU, amd=1, devices=devices(("gpu", "AMD MI300X")), read=read(gpu_0=2), capture=Outcome(0, ""))
    assert answer_to(amd, "ROCm tracer").state == "missing"
    traced = replace(amd, capture=Outcome(0, "/opt/rocm/lib/librocprofiler-sdk.so.1\n"))
    assert answer_to(traced, "ROCm tracer").finding == "/opt/rocm/lib/librocprofiler-sdk.so.1"
    tpu = replace(CPU, devices=devices(("tpu", "TPU v6e")), read=read(tpu_0=2))
    assert answer_to(tpu, "libtpu").state == "warning"
    assert answer_to(replace(tpu, packages=VERSIONS | {"libtpu": "0.0.30"}), "libtpu").finding == "0.0.30"


@pytest.mark.parametrize(
    ("outcome", "finding"),
    [
        (Outcome(None), "jax did not answer in time"),
        (
            Outcome(-11, "", "Fatal Python error: Segmentation fault"),
            "jax ended by signal 11: Fatal Python error: Segmentation fault",
        ),
        (Outcome(1, "", "Traceback\nImportError: no jaxlib\n"), "jax failed (exit code 1): ImportError: no jaxlib"),
    ],
    ids=["hung", "crashed", "failed"],
)
def test_a_driver_that_hangs_or_crashes_is_reported_and_the_rest_goes_on(outcome, finding):
    facts = replace(CPU, devices=outcome, capture=None, read=Outcome())
    assert (answer_to(facts, "devices").state, answer_to(facts, "devices").finding) == ("missing", finding)
    assert bad(facts) == {"devices": "missing"}
    assert not works(facts)


def test_a_plugin_of_another_version_than_jaxlib_is_missing():
    facts = replace(GPU, packages=VERSIONS | CUDA | {"jax-cuda12-plugin": "0.10.3", "jax-cuda12-pjrt": "0.10.3"})
    answer = answer_to(facts, "plugins")
    assert answer.finding == (
        "jaxlib 0.10.2 needs plugins of its own version, and has jax-cuda12-pjrt 0.10.3, jax-cuda12-plugin 0.10.3"
    )
    assert answer.remedy == 'pip install "jax-cuda12-pjrt==0.10.2" "jax-cuda12-plugin==0.10.2"'


@pytest.mark.parametrize(
    ("jax", "jaxlib", "state"),
    [
        ("0.10.2", "0.10.2", "ok"),
        ("0.12.3", "0.12.3", "ok"),
        ("0.10.3", "0.10.2", "ok"),
        ("0.9.0", "0.9.0", "missing"),
        ("0.10.2", "0.12.0", "missing"),
        ("0.13.0", "0.13.0", "warning"),
    ],
)
def test_jax_must_be_one_that_tracekit_knows_and_not_older_than_jaxlib(jax, jaxlib, state):
    assert answer_to(replace(CPU, packages=VERSIONS | {"jax": jax, "jaxlib": jaxlib}), "jax").state == state


def test_a_missing_package_is_named_with_what_to_type():
    answer = answer_to(
        replace(CPU, packages={name: have for name, have in VERSIONS.items() if name != "numba"}), "packages"
    )
    assert (answer.state, answer.finding, answer.remedy) == ("missing", "not installed: numba", "pip install -U numba")


@pytest.mark.parametrize(
    ("packages", "state"),
    [
        (VERSIONS, "is installed beside tracekit-jax"),
        (
            {name: have for name, have in VERSIONS.items() if name != "tracekit-jax"},
            "is installed instead of tracekit-jax",
        ),
    ],
    ids=["beside", "instead"],
)
def test_another_project_called_tracekit_is_reported(packages, state):
    answer = answer_to(replace(CPU, packages=packages, namesake=("2.0", "An oscilloscope tool")), "tracekit")
    assert answer.state == "warning"
    assert answer.finding.startswith(f"tracekit 2.0 (An oscilloscope tool) {state}: ")
    assert answer.remedy.startswith(
        "pip uninstall tracekit tracekit-jax, then install tracekit-jax from its repository"
    )
    assert bad(replace(CPU, packages=packages)) == {}


def test_without_a_viewer_captures_and_reports_work_all_the_same():
    facts = replace(
        CPU,
        viewer=Outcome(1, "", "ModuleNotFoundError: No module named 'tensorboard_plugin_profile'"),
        perfetto_ui=None,
    )
    assert bad(facts) == {"viewer": "missing", "Perfetto UI": "warning"}
    assert works(facts)


def test_an_old_tensorboard_beside_new_setuptools_is_a_known_bad_pair():
    old = VERSIONS | {"tensorboard": "2.20.0", "setuptools": "82.0.1"}
    assert answer_to(replace(CPU, packages=old), "TensorBoard").remedy == 'pip install -U "tensorboard>=2.21"'
    assert bad(replace(CPU, packages=old | {"setuptools": "80.9.0"})) == {}


@pytest.mark.parametrize(
    ("cores", "state", "finding"),
    [
        ((8, 8, None), "ok", "8 usable of 8"),
        ((8, 2, None), "ok", "2 usable of 8 (2 by affinity)"),
        ((8, 4, 1.5), "warning", "1.5 usable of 8 (4 by affinity, 1.5 by the cgroup)"),
    ],
)
def test_cores_are_counted_as_affinity_and_cgroup_leave_them(cores, state, finding):
    answer = answer_to(replace(CPU, cores=cores), "cores")
    assert (answer.state, answer.finding) == (state, finding)


def test_a_place_without_room_or_permission_is_reported():
    assert bad(replace(CPU, traces=("traces", False, 1 << 40))) == {"traces": "missing"}
    answer = answer_to(replace(CPU, traces=("traces", True, 5 * 10**8)), "traces")
    assert (answer.state, answer.finding) == ("warning", "traces/ can be written, but only 477 MiB free")


def test_a_capture_or_a_reading_that_fails_is_reported_with_its_last_line():
    facts = replace(CPU, capture=Outcome(3, "", "tracekit: nothing was captured: no backend"), read=Outcome())
    assert answer_to(facts, "capture").finding == (
        "the capture of a test program failed (exit code 3): tracekit: nothing was captured: no backend"
    )
    assert (
        answer_to(replace(CPU, read=Outcome(None)), "capture").finding
        == "reading the capture of a test program did not answer in time"
    )


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0.10.2", (0, 10, 2)), ("0.10.2.dev3+cuda", (0, 10, 2)), ("580.65.06", (580, 65, 6)), ("", ())],
)
def test_versions_are_compared_by_their_numbers(text, numbers):
    assert version(text) == numbers
