"""The subset that runs with the lowest dependencies: its files exist, and together they reach every package."""

from __future__ import annotations

from pathlib import Path

import pytest
from compat_subset import COMPAT_FILES

TESTS = Path(__file__).parent
PACKAGES = sorted(path.name for path in (TESTS.parent / "ptq").iterdir() if path.is_dir())


def test_every_file_of_the_subset_exists() -> None:
    assert [name for name in COMPAT_FILES if not (TESTS / name).is_file()] == []


@pytest.mark.parametrize("package", [*(p for p in PACKAGES if not p.startswith("_")), "cli"])
def test_the_subset_reaches(package: str) -> None:
    assert [name for name in COMPAT_FILES if name.startswith(f"{package}/")]
