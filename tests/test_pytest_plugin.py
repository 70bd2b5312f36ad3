"""The pytest plugin in a repository that knows nothing of tracekit: what passes, fails, is skipped, and is kept."""

import re
import subprocess
import sys

import pytest

from tests.programs import environment
from tracekit import pytest_plugin

TESTS = """
import jax, jax.numpy as jnp, pytest

@jax.jit
def work(x):
    for _ in range(10):
        x = jnp.tanh(x @ x)
    return x

def both(a, b, twice=False):
    return work(a), work(b)

calls = []

@pytest.fixture
def arrays():
    return [jax.device_put(jnp.full((100, 100), 0.01), device) for device in jax.devices()[:2]]

def test_passes(tracekit_capture, arrays):
    report = tracekit_capture(lambda *args: calls.append(args) or both(*args), *arrays, devices=2, repeats=3, warmup=2)
    assert len(calls) == 5
    assert report.devices == ["cpu:0", "cpu:1"]
    assert len(report.explanation.steps.table) == 3
    assert report.measure("idle", phase="whole").value < 1

def test_cannot_tell(tracekit_capture, arrays):
    report = tracekit_capture(both, *arrays, devices=2, repeats=1)
    assert report.overlap("collective", "compute") > 0.5

def test_expects_that(tracekit_capture, arrays):
    from tracekit import NotMeasurable
    with pytest.raises(NotMeasurable):
        tracekit_capture(both, *arrays, repeats=1).measure("exposed-collective")

def test_fails(tracekit_capture, arrays):
    report = tracekit_capture(both, *arrays, devices=2, repeats=1, twice=True)
    assert report.measure("idle").value < 0

def test_works_on_one_device(tracekit_capture, arrays):
    tracekit_capture(work, arrays[0], devices=2, repeats=1)

def test_asks_for_more_than_there_are(tracekit_capture, arrays):
    tracekit_capture(work, arrays[0], devices=3)

def test_raises(tracekit_capture):
    def wrong():
        raise ValueError("mine")
    with pytest.raises(ValueError, match="mine"):
        tracekit_capture(wrong, warmup=0)
    assert tracekit_capture(lambda: jnp.ones(3) + 1, repeats=1).devices
"""


def run(directory, *words, **variables):
    command = [sys.executable, "-m", "pytest", "-p", "tracekit.pytest_plugin", "-p", "no:cacheprovider", *words]
    env = environment(JAX_PLATFORMS="cpu", COLUMNS="150", **variables)
    return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository whose tests were run once, and what that printed."""
    directory = tmp_path_factory.mktemp("repository")
    (directory / "pytest.ini").write_text("[pytest]\ntracekit_devices = 2\ntracekit_artifacts = kept\n")
    (directory / "test_overlap.py").write_text(TESTS)
    return directory, run(directory, "-rA", "-q").stdout


def test_each_test_has_the_outcome_that_its_trace_gives_it(repository):
    by_test = {name: word for word, name in re.findall(r"^(PASSED|FAILED) \S+::(\w+)", repository[1], re.MULTILINE)}
    assert by_test == {
        "test_passes": "PASSED",
        "test_expects_that": "PASSED",
        "test_fails": "FAILED",
        "test_works_on_one_device": "FAILED",
        "test_asks_for_more_than_there_are": "FAILED",
        "test_raises": "PASSED",
    }, repository[1]


def test_what_cannot_be_told_is_a_skip_at_the_test_with_the_reason(repository):
    (line,) = re.findall(r"^SKIPPED .*", repository[1], re.MULTILINE)
    place = f"test_overlap.py:{TESTS[: TESTS.index('def test_cannot_tell')].count(chr(10)) + 1}"
    reason = "No collectives ran in the whole trace, or the trace does not record them."
    assert line == f"SKIPPED [1] {place}: not measurable: {reason}"


def test_the_report_of_a_failed_test_is_kept_and_named(repository):
    directory, output = repository
    kept = {path.name for path in (directory / "kept").iterdir()}
    assert kept == {"test_overlap.py-test_fails", "test_overlap.py-test_works_on_one_device"}
    assert f"Report: {directory}/kept/test_overlap.py-test_fails/report/report.html" in output
    assert (directory / "kept/test_overlap.py-test_fails/report/report.html").is_file()
    assert list((directory / "kept/test_overlap.py-test_fails/trace").rglob("*.xplane.pb"))


def test_each_test_keeps_its_artefacts_in_a_folder_of_its_own():
    tests = ["a.py::test_x", *(f"a.py::test_x[{name}]" for name in ("1-2", "a+b", "a b", "a/b", "a-b", "q" * 300))]
    names = [pytest_plugin._folder_name(test) for test in tests]
    assert names[:2] == ["a.py-test_x", "a.py-test_x-1-2"]
    assert len({*names}) == len(names)
    assert all(re.fullmatch(r"[\w.-]{1,200}", name) for name in names)


def test_too_few_devices_say_what_to_set(repository):
    assert (
        "The test needs 3 CPU devices, and jax has started with 2. Set tracekit_devices = 3 in the configuration of "
        "pytest, or JAX_NUM_CPU_DEVICES=3 in the environment."
    ) in repository[1]
    assert "Of the 2 devices that the test asks for, only cpu:0 worked." in repository[1]


def test_the_first_capture_starts_jax_with_the_devices_it_asks_for_unless_something_says_how_many(tmp_path):
    (tmp_path / "test_two.py").write_text(
        "import jax, jax.numpy as jnp\n"
        "def both():\n    return [jax.device_put(jnp.ones(9), device) + 1 for device in jax.devices()]\n"
        "def test_two(tracekit_capture):\n"
        "    assert tracekit_capture(both, devices=2, repeats=1).devices == ['cpu:0', 'cpu:1']\n"
    )
    assert "1 passed" in (plain := run(tmp_path, "-q")).stdout, plain.stdout
    stated = run(tmp_path, "-q", JAX_NUM_CPU_DEVICES="1").stdout
    assert "jax has started with 1. Set tracekit_devices = 2" in stated


def test_a_suite_that_asks_for_nothing_imports_nothing(tmp_path):
    (tmp_path / "test_plain.py").write_text(
        "import sys\ndef test_plain():\n    assert not {'jax', 'numpy', 'pandas', 'matplotlib'} & {*sys.modules}\n"
    )
    result = run(tmp_path, "-q", "-W", "error", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")  # others import jax
    assert "1 passed" in result.stdout, result.stdout


def test_what_is_no_number_of_devices_is_refused(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\ntracekit_devices = two\n")
    assert "tracekit_devices = 'two' is no number of devices: give 2, for example." in run(tmp_path).stderr


def test_a_capture_inside_another_one_is_one_sentence(tmp_path):
    (tmp_path / "test_inside.py").write_text(
        "import jax.numpy as jnp\n"
        "def test_inside(tracekit_capture):\n"
        "    tracekit_capture(lambda: tracekit_capture(lambda: jnp.ones(3) + 1), warmup=0)\n"
    )
    output = run(tmp_path, "-q").stdout
    assert "CaptureError: the trace of <lambda> could not be written: the profiler left no *.xplane.pb" in output, (
        output
    )
