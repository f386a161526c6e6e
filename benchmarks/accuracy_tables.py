"""The tables of docs/accuracy.md that compare tools and techniques, from the results of benchmarks/accuracy.py.

    python benchmarks/accuracy.py FOLDER --json benchmarks/accuracy_results.json
    python benchmarks/accuracy_tables.py docs/accuracy.md

Each table stands between two marks, and what stands there is replaced. The figures of other tools were measured once
(accuracy_peers.json). Then run accuracy_summary.py, which reads these tables.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "accuracy_results.json"
PEERS = HERE / "accuracy_peers.json"
ABLATION = ", ablation"
"""Behind the name of a task: its techniques switched off in turn."""
_TABLE = re.compile(r"(<!-- table: (.+?) -->\n).*?(<!-- end of table -->)", re.DOTALL)

Result = Mapping[str, Any]
"""One task: when and with which code it was ``measured``, ``calibrated`` and ``evaluated`` samples, ``float_top1`` in
percent or None, and ``rows``. A row has the ``name`` of a tool or setting and either ``failed``, a text, or figures:
``top1`` in percent, ``lost`` points, ``agrees`` in percent, ``sqnr`` and ``scores`` in decibels, ``speed`` and
``passes``. A figure with an interval is a list of the value and two ends. What was not measured is None."""


def replace_tables(page: str, results: Mapping[str, Result]) -> str:
    """The page with each table made anew from the results, by name of the task.

    Raises:
        KeyError: No result has the name that a mark gives.
    """

    def fill(mark: re.Match[str]) -> str:
        name = mark[2]
        text = format_result(results[name])
        peers = "" if name.endswith(ABLATION) else format_peers(name)
        return f"{mark[1]}\n{text}\n{peers}{mark[3]}"

    return _TABLE.sub(fill, page)


def format_result(result: Result) -> str:
    """The number of samples of a task, and its table, as Markdown."""
    scored = any(row.get("scores") for row in result["rows"])
    top1 = result["float_top1"]
    top = "" if top1 is None else f"; float top-1 {top1:.2f} %"
    lines = [
        f"{result['calibrated']} samples for calibration, {result['evaluated']} for evaluation{top}. Figures of",
        f"{result['measured']}.",
        "",
        f"| | top-1 % | loses, points | agrees % | SQNR dB |{' of scores |' if scored else ''}"
        " × float speed | × float pass |",
        f"|---|---|---|---|---|{'---|' if scored else ''}---|---|",
    ]
    for row in result["rows"]:
        if "failed" in row:
            lines.append(f"| {row['name']} | {row['failed']} | | | | | |")
            continue
        cells = [
            row["name"],
            "" if row["top1"] is None else f"{row['top1']:.2f}",
            _format_figure(row["lost"], "+.2f", "+.2f"),
            _format_figure(row["agrees"], ".2f", ".1f"),
            _format_figure(row["sqnr"], ".2f", ".1f"),
            *([_format_figure(row["scores"], ".2f", ".1f")] if scored else []),
            f"{row['speed']:.2f}",
            f"{row['passes']:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _format_figure(figure: Sequence[float] | None, value: str, ends: str) -> str:
    """A figure with its interval, or alone, or nothing."""
    if figure is None:
        return ""
    first, *interval = figure
    text = format(first, value)
    return f"{text} ({' … '.join(format(end, ends) for end in interval)})" if interval else text


def format_peers(task: str) -> str:
    """The figures of other tools on a task, as Markdown; empty without any."""
    data = json.loads(PEERS.read_text(encoding="utf-8"))
    lines: list[str] = []
    for name, held in data["tasks"].items():
        if name.partition(" ")[0] != task or not held["rows"]:
            continue
        lines += [
            f"Other tools, evaluated on {held['evaluated']} samples ({data['measured']}):",
            "",
            "| | loses, points | agrees % | SQNR dB | × float speed | × float pass |",
            "|---|---|---|---|---|---|",
        ]
        for row in held["rows"]:
            cells = (row[key] for key in ("lost", "agrees", "sqnr", "speed", "passes"))
            text = " | ".join("" if cell is None else str(cell) for cell in cells)
            lines.append(f"| {row['peer']} | {text} |")
        lines.append("")
    return "\n".join([*lines, ""]) if lines else ""


def read_results() -> dict[str, Result]:
    """The committed results, by name of the task."""
    found: dict[str, Result] = json.loads(RESULTS.read_text(encoding="utf-8"))["tasks"]
    return found


def write_result(path: Path, name: str, result: Result, measured: str) -> None:
    """Put a result into a file of results, which is made if it does not exist."""
    data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tasks": {}}
    data["tasks"][name] = {"measured": measured, **result}
    tasks = ",\n".join(
        f"  {json.dumps(task)}: {_format_task(held)}" for task, held in data["tasks"].items()
    )
    path.write_text(f'{{"tasks": {{\n{tasks}\n}}}}\n', encoding="utf-8")


def _format_task(held: Result) -> str:
    """JSON of a task, one line for each row, so that a change of one figure is a change of one line."""
    head = ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in held.items() if k != "rows")
    rows = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in held["rows"])
    return f'{{{head}, "rows": [\n{rows}\n  ]}}'


def main() -> None:
    """Replace the tables of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page
    page.write_text(
        replace_tables(page.read_text(encoding="utf-8"), read_results()), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
