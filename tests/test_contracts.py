"""The import contracts cover the whole package."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_package_has_a_contract_that_names_all_its_modules():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    covered = [container for contract in contracts if contract["exhaustive"] for container in contract["containers"]]
    packages = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "tracekit").rglob("__init__.py")}
    assert sorted(covered) == sorted(packages)
