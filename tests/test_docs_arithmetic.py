"""The page docs/arithmetic.md is a program: its claims are the oracle, run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "arithmetic.md"


def test_every_code_block_of_the_arithmetic_page_holds() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 8
    session: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), session)
