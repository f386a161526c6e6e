"""The page docs/data.md is a program: each code block runs, if the package that it needs is installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "data.md"
BLOCKS = re.findall(r"```python ?(\w*)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("package", sorted({package for package, _ in BLOCKS}))
def test_the_code_blocks_of_the_data_page_hold(package: str) -> None:
    if package:
        pytest.importorskip(package, reason=f"{package} is not installed")
    chosen = [block for needed, block in BLOCKS if needed in ("", package)]
    assert len(chosen) >= 5
    session: dict[str, object] = {}
    for block in chosen:
        exec(compile(block, str(PAGE), "exec"), session)
