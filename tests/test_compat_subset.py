"""The subset that runs with the lowest dependencies: its files reach every package, its versions are the declared."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from compat_subset import COMPAT_FILES
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

TESTS = Path(__file__).parent
PROJECT = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]
PACKAGES = sorted(path.name for path in (TESTS.parent / "ptq").iterdir() if path.is_dir())


def test_every_file_of_the_subset_exists() -> None:
    assert [name for name in COMPAT_FILES if not (TESTS / name).is_file()] == []


@pytest.mark.parametrize("package", [*(p for p in PACKAGES if not p.startswith("_")), "cli"])
def test_the_subset_reaches(package: str) -> None:
    assert [name for name in COMPAT_FILES if name.startswith(f"{package}/")]


def pins(name: str) -> dict[str, Version]:
    """Version of each package that a file of constraints pins for the Python that runs."""
    lines = (TESTS.parent / name).read_text().splitlines()
    found = [r for r in map(Requirement, lines) if r.marker is None or r.marker.evaluate()]
    return {canonicalize_name(r.name): Version(next(iter(r.specifier)).version) for r in found}


def lower_bounds(requirements: list[str]) -> dict[str, Version]:
    found = {}
    for requirement in map(Requirement, requirements):
        if requirement.name != PROJECT["name"]:
            (bound,) = requirement.specifier
            assert bound.operator == ">="
            found[canonicalize_name(requirement.name)] = Version(bound.version)
    return found


@pytest.mark.parametrize(
    ("extra", "constraints"),
    [
        *((extra, "lowest") for extra in (None, "test", "page", "pandas", "text")),
        *((extra, "lowest-remote") for extra in (None, "remote", "s3", "gcs", "azure", "hf")),
        *((extra, "lowest-remote") for extra in ("parquet", "dask")),
    ],
)
def test_a_lowest_environment_has_the_declared_lower_bounds(
    extra: str | None, constraints: str
) -> None:
    bounds = lower_bounds(
        PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    )
    pinned = pins(f"constraints-{constraints}.txt")
    assert bounds
    assert {name: pinned[name] for name in bounds} == bounds


@pytest.mark.parametrize(
    "extra",
    [
        None,
        *("test", "dev", "docs", "page", "pandas", "text", "data-test"),
        *("remote-test", "s3", "gcs", "azure", "hf", "dask", "ray", "parquet"),
    ],
)
def test_the_newest_environment_pins_every_dependency(extra: str | None) -> None:
    bounds = lower_bounds(
        PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    )
    assert bounds.keys() <= pins("constraints.txt").keys()
