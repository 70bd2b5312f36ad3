"""A run that begins: its name, and what is known of it before its program runs, the git commit too."""

import json
import os
import secrets
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from tracekit import cores

# git takes some ms, and in a large tree longer: it looks at every file. A capture waits no longer than this for all.
_LIMIT_S = 0.1
FACTS = "capture.json"
# A hook of git sets these for its own repository.
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


def new_run(command: Sequence[str], directory: Path) -> tuple[str, dict[str, Any]]:
    """The name of a run that begins now, which no other has, and what capture.json begins with; the program lies in
    `directory`."""
    started = datetime.now().astimezone()
    about = {
        "schema": 1,
        "command": [*command],
        "started": started.isoformat(timespec="milliseconds"),
        "usable_cores": cores.usable(),
        "commit": commit(directory),
    }
    # Run names of jax last one second: two captures in one second would share a directory.
    return f"{started:%Y_%m_%d_%H_%M_%S}-{secrets.token_hex(3)}", about


def publish(written: Path, run: Path, facts: Mapping[str, Any]) -> None:
    """Move the finished trace in the directory `written` to `run`, with these `facts` as its capture.json."""
    (written / FACTS).write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
    run.parent.mkdir(parents=True, exist_ok=True)
    os.replace(written, run)


def commit(directory: Path) -> str | None:
    """The short hash of the git commit that is checked out around `directory`.

    It ends in "-dirty" where a tracked file is not as committed, and in "-unknown" where git did not say so in time.
    None outside of a repository, without git, and where git cannot tell. Nothing is written or fetched. git has ended
    when this returns: a program may wait for any child of its process.
    """
    end = time.monotonic() + _LIMIT_S
    found = _git(directory, end, "rev-parse", "--short", "HEAD")
    if not found:
        return None
    changed = _git(directory, end, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")
    return f"{found}-unknown" if changed is None else f"{found}-dirty" if changed else found


def _git(directory: Path, end: float, *words: str) -> str | None:
    """What git prints, None where it fails or is not done at `end`."""
    given = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *words],
            cwd=directory, env=given | quiet, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=max(end - time.monotonic(), 0),
        )  # fmt: skip
        return done.stdout.strip() if done.returncode == 0 else None
    return None
