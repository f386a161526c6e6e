"""The page docs/data.md is a program: each code block runs, if the package that it needs is installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "data.md"
BLOCKS = re.findall(r"```python ?(\w*)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("package", sorted({package for package, _ in BLOCKS}))
def test_the_code_blocks_of_the_data_page_hold(package: str, tmp_path: Path) -> None:
    if package:
        pytest.importorskip(package, reason=f"{package} is not installed")
    chosen = [block for needed, block in BLOCKS if needed in ("", package)]
    assert len(chosen) >= 5
    program = tmp_path / "data.py"
    program.write_text("\n".join(chosen), encoding="utf-8")
    # in a process of its own: nothing is imported but what the page imports
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
