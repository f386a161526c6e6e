"""docs/tasks.md names every task, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from ptq_cli.options import shared as options

from ptq.evaluation.tasks.task import TaskName

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tasks.md"


def test_the_page_has_a_row_for_each_task() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(get_args(TaskName))


def test_the_command_line_knows_the_same_tasks() -> None:
    assert get_args(options.TaskName) == get_args(TaskName)
