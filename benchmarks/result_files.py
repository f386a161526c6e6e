"""Files of results: figures by name, each with the code that it was measured with.

A file is JSON with one key, ``tasks``. An entry says in ``measured`` when and with which commit it was measured. An
entry is written anew when its benchmark is run again with ``--json``; the others stay as they are.
"""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime

HERE = Path(__file__).parent
ACCURACY, MINILM, HELD_OUT, UNSEEN = (
    HERE / f"{name}_results.json" for name in ("accuracy", "minilm", "held_out", "unseen")
)
Result = Mapping[str, Any]
"""One entry: ``measured``, and what its benchmark writes. What was not measured is None."""


def describe_code() -> str:
    """Today, the commit that is measured, and the version of ONNX Runtime."""
    today = datetime.date.today().isoformat()
    return f"{today}, commit {read_commit()}, onnxruntime {onnxruntime.__version__}"


def read_commit() -> str:
    """The commit of this code, with ``-dirty`` behind it if files were changed since."""
    asked = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def read_results(path: Path) -> dict[str, Result]:
    """The results of a file by name, in the order of the file."""
    found: dict[str, Result] = json.loads(path.read_text(encoding="utf-8"))["tasks"]
    return found


def write_result(path: Path, name: str, result: Result, measured: str) -> None:
    """Put a result into a file of results, which is made if it does not exist."""
    data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tasks": {}}
    data["tasks"][name] = {"measured": measured, **result}
    tasks = ",\n".join(
        f"  {_to_json(task)}: {_format_task(held)}" for task, held in data["tasks"].items()
    )
    path.write_text(f'{{"tasks": {{\n{tasks}\n}}}}\n', encoding="utf-8")


def _format_task(held: Result) -> str:
    """JSON of a task, one line for each row, so that a change of one figure is a change of one line."""
    head = ", ".join(f"{_to_json(k)}: {_to_json(v)}" for k, v in held.items() if k != "rows")
    if "rows" not in held:
        return f"{{{head}}}"
    rows = ",\n".join(f"    {_to_json(row)}" for row in held["rows"])
    return f'{{{head}, "rows": [\n{rows}\n  ]}}'


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
