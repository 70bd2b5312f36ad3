"""The pytest plugin: the fixture `tracekit_capture`, skips for what a trace cannot tell, and reports of failed tests.

It is loaded into every run of pytest where tracekit is installed: it imports nothing heavy, and does nothing for tests
that do not ask for it.
"""

import os
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tracekit.errors import NotMeasurable

if TYPE_CHECKING:
    from tracekit.report.model import Report

_LONGEST = 200  # bytes of the name of a folder, of 255 that a file system takes, beside a number
_DEVICES, _ARTIFACTS = "tracekit_devices", "tracekit_artifacts"
_IN_FLAGS = "xla_force_host_platform_device_count"
_CAPTURES: "pytest.StashKey[list[Path]]" = pytest.StashKey()
_REASON: "pytest.StashKey[str]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin in pytest's configuration file."""
    parser.addini(_DEVICES, "Virtual CPU devices for tracekit_capture, set before jax starts.", default="")
    parser.addini(_ARTIFACTS, "Where traces and reports of failed tests are kept [default: a temporary directory].")


def pytest_configure(config: pytest.Config) -> None:
    """Set the number of CPU devices, where one is configured and neither jax nor the environment has one yet."""
    devices = str(config.getini(_DEVICES))
    if not devices:
        return
    if not devices.isdecimal() or int(devices) < 1:
        raise pytest.UsageError(f"{_DEVICES} = {devices!r} is no number of devices: give 2, for example.")
    if "jax" in sys.modules:
        _start_with(int(devices))
    elif _IN_FLAGS not in os.environ.get("XLA_FLAGS", ""):
        os.environ.setdefault("JAX_NUM_CPU_DEVICES", devices)


def _start_with(devices: int) -> None:
    """Let jax, which is imported, start with so many CPU devices, if it has not started and nothing else says how
    many."""
    config = sys.modules["jax"].config
    if not _has_devices() and config.jax_num_cpu_devices < 0 and _IN_FLAGS not in os.environ.get("XLA_FLAGS", ""):
        config.update("jax_num_cpu_devices", devices)


def _has_devices() -> bool:
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(bridge.backends_are_initialized())


@pytest.fixture
def tracekit_capture(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Callable[..., Report]":
    """A function that captures calls of another one under the JAX profiler, and gives their Report.

    `tracekit_capture(function, *args, devices=1, repeats=5, warmup=1, **keywords)` calls `function(*args, **keywords)`
    first `warmup` times, then `repeats` times in the profile, each of which is a step. `devices` is on how many the
    function has to work: the test fails where fewer did, and is skipped on an accelerator that has fewer. When a test
    fails, traces and reports are kept.
    """

    def capture(
        function: Callable[..., Any], *args: Any, devices: int = 1, repeats: int = 5, warmup: int = 1, **keywords: Any
    ) -> "Report":
        from tracekit.capture.calls import capture_calls
        from tracekit.report.build import analyse

        _need(devices)
        out = tmp_path_factory.mktemp("tracekit") / "trace"
        path = capture_calls(function, args, keywords, out=out, repeats=repeats, warmup=warmup)
        request.node.stash.setdefault(_CAPTURES, []).append(path)
        report = analyse(path)
        if len(report.devices) < devices:
            worked = ", ".join(report.devices) or "no device"
            pytest.fail(f"Of the {devices} devices that the test asks for, only {worked} worked.", pytrace=False)
        return report

    return capture


def _need(devices: int) -> None:
    """Fail where jax has fewer devices than so many, and could have more; NotMeasurable where it could not."""
    import jax

    if devices > 1:  # one is what jax starts with by itself
        _start_with(devices)
    there, backend = jax.local_device_count(), jax.default_backend()
    if there >= devices:
        return
    if backend != "cpu":
        raise NotMeasurable(f"The test needs {devices} devices; this machine has {there} of {backend}.")
    pytest.fail(
        f"The test needs {devices} CPU devices, and jax has started with {there}. Set {_DEVICES} = {devices} in the "
        f"configuration of pytest, or JAX_NUM_CPU_DEVICES={devices} in the environment.",
        pytrace=False,
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skip a test that asks for what its trace cannot tell."""
    try:
        return (yield)
    except NotMeasurable as reason:
        item.stash[_REASON] = f"not measurable: {reason}"
        pytest.skip(item.stash[_REASON])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name the test where it is skipped, and keep what was captured where it failed."""
    result = yield
    if call.when == "call" and result.skipped and (reason := item.stash.get(_REASON, "")):
        path, line, _ = item.reportinfo()
        result.longrepr = (os.fspath(path), (line or 0) + 1, f"Skipped: {reason}")
    if call.when == "call" and result.failed and (captures := item.stash.get(_CAPTURES, [])):
        result.sections.append(("tracekit", "\n".join(_kept(item, captures))))
    return result


def _kept(item: pytest.Item, captures: list[Path]) -> list[str]:
    """Write the reports of a failed test, beside the traces or where artefacts are kept; the lines that say where."""
    from tracekit.errors import TracekitError
    from tracekit.report.report import report

    artifacts, lines = str(item.config.getini(_ARTIFACTS) or ""), []
    for number, trace in enumerate(captures, 1):
        folder = trace.parent
        if artifacts:
            name = _folder_name(item.nodeid)
            folder = item.config.rootpath / artifacts / (name if len(captures) == 1 else f"{name}-{number}")
        try:
            if folder != trace.parent:
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(trace, folder / "trace")
            result = report(folder / "trace", folder / "report")
            lines += [result.headline, f"Report: {folder / 'report' / 'report.html'}", f"Trace: {folder / 'trace'}"]
        except (TracekitError, OSError) as error:  # the test has failed of its own, which must be seen
            lines.append(f"The report of {trace} was not kept: {error}")
    return lines


def _folder_name(test: str) -> str:
    """What the folder of a test's artefacts is called: its id with `-` for what names of files may lack, and a number
    where parameters have such letters, which stands for them, or where it would be too long for a name."""
    name = re.sub(r"[^\w.-]+", "-", test).strip("-")
    parameters = test.partition("[")[2].removesuffix("]")
    if re.search(r"[^\w.-]", parameters) or len(name.encode("utf-8", "surrogatepass")) > _LONGEST:
        beginning = name.encode("utf-8", "ignore")[: _LONGEST - 9].decode("utf-8", "ignore")
        name = f"{beginning}-{zlib.crc32(test.encode('utf-8', 'surrogatepass')):08x}"
    return name
