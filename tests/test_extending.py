"""The examples of docs/extending.md, each applied to a copy of the package and run."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
LONGEST = 30  # lines of one example's block
SECTIONS = {
    section.partition("\n")[0]: re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    for section in PAGE.split("\n## ")[1:]
}


def _insert(path: Path, table: str, lines: str) -> None:
    """Put lines at the end of the table that is assigned to a name."""
    text = path.read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if table in (getattr(target, "id", None) for target in targets):
            value = node.value
            break
    else:
        raise AssertionError(f"{path.name} assigns nothing to {table}")
    if isinstance(value, ast.DictComp):  # the rows that it is made of
        value = value.generators[0].iter
    rows = text.splitlines(keepends=True)
    end = sum(len(row.encode()) for row in rows[: value.end_lineno - 1]) + value.end_col_offset - 1
    before, after = text.encode()[:end].decode(), text.encode()[end:].decode()
    comma = "" if before.rstrip().endswith((",", "(", "{")) else ","
    path.write_text(f"{before.rstrip()}{comma}\n{lines}{after}", encoding="utf-8")


def _import(path: Path, line: str) -> None:
    text = path.read_text(encoding="utf-8")
    first = "\nfrom ptq."
    path.write_text(text.replace(first, f"\n{line}{first.lstrip()}", 1), encoding="utf-8")


def test_the_page_shows_all_that_can_be_added():
    assert list(SECTIONS) == ["An operator", "An observer", "A target", "A rewrite"]


@pytest.mark.parametrize("section", SECTIONS)
def test_an_example_works_as_it_stands(section, tmp_path):
    shutil.copytree(ROOT / "ptq", tmp_path / "ptq", ignore=shutil.ignore_patterns("__pycache__"))
    check = ""
    for block in SECTIONS[section]:
        assert len(block.splitlines()) <= LONGEST
        where, _, lines = block.partition("\n")
        place, _, table = where.removeprefix("# ").partition(": ")
        path = tmp_path / place
        if place == "check":
            check = lines
        elif table:
            _insert(path, table, lines)
        elif path.exists():
            _import(path, lines)
        else:
            path.write_text(lines, encoding="utf-8")
    assert check
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", check],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
