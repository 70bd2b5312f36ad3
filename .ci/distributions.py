"""Build the wheel and the sdist, and check both: .ci/run and `make release` do it with this one program.

Usage: python .ci/distributions.py [--release] DIRECTORY, in an environment with the dependency group dev. The two files
are left in DIRECTORY; nothing is uploaded. With --release every file must be committed, and what to do next is printed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.metadata import Metadata

ROOT = Path(__file__).resolve().parents[1]
NAME = "tracekit-jax"
COMMANDS = """\
[console_scripts]
tracekit = tracekit.cli:main

[pytest11]
tracekit.pytest_plugin = tracekit.pytest_plugin"""
# Committed, and of no use without git or the code host.
LEFT_OUT = re.compile(r"\.gitignore|\.github/.*")
# What a build adds to the files of an sdist.
GENERATED = re.compile(r"PKG-INFO|setup\.cfg|tracekit_jax\.egg-info/.*")

# A program of a user's, and what mypy is to say of it in strict mode.
TYPED = """\
from pathlib import Path

import tracekit

trace: tracekit.Trace = tracekit.read(Path("trace"))
report: tracekit.Report = tracekit.analyse(trace, phases=["step"])
report.save("saved")
again: tracekit.Report = tracekit.load(Path("saved"))
with tracekit.phase("both", alone=["a", "b"]):
    pass
works: bool = tracekit.doctor().works
"""
WRONG = """\
import tracekit

tracekit.read(1)
tracekit.raed("trace")
length: int = tracekit.read("trace").source
"""
ERRORS = ["[arg-type]", "[attr-defined]", "[assignment]"]


class WrongDistributionError(Exception):
    """A wheel or an sdist that must not be given to anybody."""


def main() -> None:
    """Build, check, and say what was checked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--release", action="store_true", help="refuse what is not committed, and say what comes next")
    options = parser.parse_args()
    try:
        if options.release and (changed := git("status", "--porcelain")):
            raise WrongDistributionError(
                f"commit or remove these first; a release is made of what is committed:\n{changed}"
            )
        with TemporaryDirectory(prefix="tracekit-release-", dir=os.environ.get("TMPDIR", "/var/tmp")) as scratch:
            wheel, sdist = build(Path(scratch), options.directory.resolve())
            check_metadata(wheel)
            check_wheel(wheel)
            check_sdist(sdist)
            python = install(wheel, Path(scratch) / "fresh")
            check_main_job(python, Path(scratch))
            check_types(python, Path(scratch))
    except (WrongDistributionError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"{Path(__file__).name}: {error}") from None
    if options.release:
        print(next_steps(wheel, sdist))


def say(sentence: str) -> None:
    """Say what is being done, or was found right."""
    print(f"== {sentence}", flush=True)


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """What a program prints; its stderr is shown. Raises CalledProcessError where it fails."""
    # It is the wheel that is tested, not what PYTHONPATH leads to.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    return subprocess.run(command, cwd=cwd, env=env, check=True, text=True, stdout=subprocess.PIPE).stdout


def git(*words: str) -> str:
    """What git prints of this repository, whoever owns its files."""
    return run("git", "-c", f"safe.directory={ROOT}", *words).strip()


def files() -> list[str]:
    """The files that git knows, as they are here."""
    return sorted(name for name in git("ls-files", "-z").split("\0") if (ROOT / name).is_file())


def version() -> str:
    """The version that the code says of itself."""
    (number,) = re.findall(r'^__version__ = "([^"]+)"', (ROOT / "tracekit" / "version.py").read_text("utf-8"), re.M)
    return str(number)


def build(scratch: Path, directory: Path) -> tuple[Path, Path]:
    """Build an sdist of the committed files and a wheel of the sdist; a wheel of the files themselves must equal it."""
    tree = scratch / "tree"
    for name in files():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    command = [sys.executable, "-m", "build", "--outdir"]
    epoch = git("log", "-1", "--format=%ct")
    say(f"Building {NAME} {version()}: an sdist, a wheel from it, and a wheel without it ...")
    for target, options in ((scratch / "built", ()), (scratch / "direct", ("--wheel",))):
        run(*command, target, *options, tree, SOURCE_DATE_EPOCH=epoch)
    (sdist,) = (scratch / "built").glob("*.tar.gz")
    (wheel,) = (scratch / "built").glob("*.whl")
    (direct,) = (scratch / "direct").glob("*.whl")
    with zipfile.ZipFile(wheel) as from_sdist, zipfile.ZipFile(direct) as from_files:
        if differing := _differing(_contents(from_sdist), _contents(from_files)):
            raise WrongDistributionError(f"the wheels of sdist and tree differ in {', '.join(differing)}")
    say("The wheel from the sdist equals the one from the files.")
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("tracekit_jax-*"):
        old.unlink()
    return Path(shutil.copy2(wheel, directory)), Path(shutil.copy2(sdist, directory))


def _contents(archive: zipfile.ZipFile) -> dict[str, bytes]:
    return {name: archive.read(name) for name in archive.namelist()}


def _differing(expected: Mapping[str, object], actual: Mapping[str, object]) -> list[str]:
    return sorted(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))


def check_metadata(wheel: Path) -> None:
    """Parse the metadata strictly, and compare what an index would show with this repository."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Metadata.from_email(archive.read(name), validate=True)
        home = name.rpartition("/")[0]
        commands = archive.read(f"{home}/entry_points.txt").decode()
        licence = archive.read(f"{home}/licenses/LICENSE")
    expected = {
        "name": NAME,
        "version": version(),
        "license": "Apache-2.0",
        "python": ">=3.11",
        "description": (ROOT / "README.md").read_text("utf-8"),
        "description type": "text/markdown",
        "commands": COMMANDS,
        "license text": (ROOT / "LICENSE").read_bytes(),
    }
    actual = {
        "name": metadata.name,
        "version": str(metadata.version),
        "license": metadata.license_expression,
        "python": str(metadata.requires_python),
        "description": metadata.description,
        "description type": str(metadata.description_content_type).partition(";")[0],
        "commands": commands.strip(),
        "license text": licence,
    }
    if wrong := _differing(expected, actual):
        raise WrongDistributionError(f"the wheel's {', '.join(wrong)} is not what the repository says")
    say("Its metadata are valid, and those of the repository.")


def check_wheel(wheel: Path) -> None:
    """Hold the wheel's files against the package's: none may be missing, none too much."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    if wrong := names ^ {name for name in files() if name.startswith("tracekit/")}:
        raise WrongDistributionError(f"the wheel has too much, or lacks: {', '.join(sorted(wrong))}")
    say(f"The wheel has the {len(names)} files of the package, and no others ({wheel.stat().st_size:,} bytes).")


def check_sdist(sdist: Path) -> None:
    """Hold the sdist's files against the committed ones: tests, docs and the license are there, caches are not."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    expected = {name for name in files() if not LEFT_OUT.fullmatch(name)}
    if wrong := expected ^ {name for name in names if not GENERATED.fullmatch(name)}:
        raise WrongDistributionError(f"the sdist has too much, or lacks: {', '.join(sorted(wrong))}")
    say(f"The sdist has the {len(expected)} files that are committed, and no others ({sdist.stat().st_size:,} bytes).")


def install(wheel: Path, place: Path) -> Path:
    """Install the wheel in a new virtual environment; its Python."""
    say("Installing the wheel in a new environment ...")
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel)
    return python


def check_main_job(python: Path, scratch: Path) -> None:
    """Capture and report with the installed wheel."""
    place = scratch / "job"
    place.mkdir()
    tracekit = python.with_name("tracekit")
    script = ROOT / "workloads" / "concurrent.py"
    run(tracekit, "capture", "--out", "trace", "--devices", "2", script, cwd=place, JAX_PLATFORMS="cpu")
    run(tracekit, "report", "--out", "report", "trace", cwd=place)
    module = run(python, "-c", "import tracekit; print(tracekit.__file__)", cwd=place).strip()
    if not Path(module).is_relative_to(python.parents[1]):
        raise WrongDistributionError(f"{module} was tested, which is not in the wheel")
    summary = json.loads((place / "report" / "summary.json").read_text("utf-8"))
    devices = [device["device"] for device in summary["devices"]]
    if (summary["schema"], devices) != (2, ["cpu:0", "cpu:1"]):
        raise WrongDistributionError(f"the report has schema {summary['schema']} and the devices {devices}")
    if not (place / "report" / "gantt.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n"):
        raise WrongDistributionError("the report's gantt.png is no PNG")
    say(f"The wheel captured and reported: summary.json has schema 2 and {', '.join(devices)}, gantt.png is a PNG.")


def check_types(python: Path, scratch: Path) -> None:
    """Let mypy look at a user's program in strict mode: the wheel's types are seen, and mistakes with them."""
    place = scratch / "typed"
    place.mkdir()
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-executable", str(python)]
    programs: tuple[tuple[str, str, list[str]], ...] = (("right.py", TYPED, []), ("wrong.py", WRONG, ERRORS))
    for name, text, errors in programs:
        (place / name).write_text(text, "utf-8")
        mypy = subprocess.run([*command, name], cwd=place, text=True, stdout=subprocess.PIPE)
        if re.findall(r"error:.*?(\[[\w-]+\])$", mypy.stdout, re.M) != errors:
            raise WrongDistributionError(f"mypy does not see the types of the wheel in {name}:\n{text}\n{mypy.stdout}")
    say("mypy in strict mode sees the wheel's types.")


def next_steps(wheel: Path, sdist: Path) -> str:
    """What is left to do by hand."""
    number = version()
    steps = [f"git tag --annotate v{number} --message 'tracekit {number}' && git push origin v{number}"]
    if not re.search(rf"^## {re.escape(number)}\b", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M):
        steps.insert(0, f"In CHANGELOG.md call the section Unreleased `{number} (<date>)`; commit it, and start again")
    if f"v{number}" in git("tag", "--list").split():
        steps.insert(0, f"v{number} is tagged already: raise tracekit/version.py, commit, and start again")
    steps.append(
        f"Upload {wheel.name} and {sdist.name} as files of that tag's release, with its section of CHANGELOG.md"
    )
    lines = [f"{at}. {step}." for at, step in enumerate(steps, 1)]
    return "\n".join(["", f"Built and checked, and nothing uploaded: {wheel.parent}/", "What to do next:", *lines])


if __name__ == "__main__":
    main()
