"""All tables of docs/accuracy.md, from the committed results of their benchmarks.

    python benchmarks/accuracy.py FOLDER --json benchmarks/accuracy_results.json
    python benchmarks/per_tensor.py FOLDER --json benchmarks/accuracy_results.json
    python benchmarks/minilm.py FOLDER --measure --json benchmarks/minilm_results.json
    python benchmarks/held_out.py FOLDER --json benchmarks/held_out_results.json
    python benchmarks/unseen.py FOLDER --json benchmarks/unseen_results.json
    python benchmarks/accuracy_tables.py docs/accuracy.md

Each table stands between two marks, and what stands there is replaced. The figures of other tools were measured once
(accuracy_peers.json). Then run accuracy_summary.py, which reads these tables.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path

from markdown_tables import format_figure, make_table
from network_tables import (
    format_held_out,
    format_labelled,
    format_minilm,
    format_unseen,
    format_without_vnni,
)
from result_files import ACCURACY, HELD_OUT, MINILM, UNSEEN, Result, read_results

PEERS = Path(__file__).parent / "accuracy_peers.json"
ABLATION, PER_TENSOR, WITHOUT_VNNI = ", ablation", ", per-tensor", ", without VNNI"
"""Behind the name of a task: its techniques switched off in turn; per-tensor weights and LiteRT; no VNNI."""
COLUMNS = {
    "top1": "top-1 %",
    "lost": "loses, points",
    "agrees": "agrees %",
    "sqnr": "SQNR dB",
    "scores": "of scores",
    "speed": "× float speed",
    "passes": "× float pass",
}
"""Titles of figures. A column in which no row has a figure is left out."""
FORMS = {
    "top1": (".2f", ""),
    "lost": ("+.2f", "+.2f"),
    "agrees": (".2f", ".1f"),
    "sqnr": (".2f", ".1f"),
    "scores": (".2f", ".1f"),
    "speed": (".2f", ""),
    "passes": (".1f", ""),
}
"""How figures and the ends of their intervals are written."""
_TABLE = re.compile(r"(<!-- table: (.+?) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def replace_tables(page: str, tables: Mapping[str, str]) -> str:
    """The page with each table made anew, by the name in its mark.

    Raises:
        KeyError: No table has the name that a mark gives.
    """
    return _TABLE.sub(lambda mark: f"{mark[1]}\n{tables[mark[2]]}\n{mark[3]}", page)


def format_result(result: Result) -> str:
    """The number of samples of a task, and its table, as Markdown.

    Args:
        result: When and with which code it was ``measured``, ``calibrated`` and ``evaluated`` samples, ``float_top1``
            in percent or None, and ``rows``. A row has the ``name`` of a tool or setting and either ``failed``, a
            text, or the figures of `COLUMNS`. A figure with an interval is a list of the value and two ends. What was
            not measured is None.
    """
    shown = {
        key: title for key, title in COLUMNS.items() if any(row.get(key) for row in result["rows"])
    }
    top1 = result["float_top1"]
    top = "" if top1 is None else f"; float top-1 {top1:.2f} %"
    samples = f"{result['calibrated']} samples for calibration, {result['evaluated']} for evaluation{top}."
    rows = [
        [row["name"], row["failed"]]
        if "failed" in row
        else [row["name"], *(format_figure(row[key], *FORMS[key]) for key in shown)]
        for row in result["rows"]
    ]
    return "\n".join(
        [
            f"{samples} Figures of",
            f"{result['measured']}.",
            "",
            *make_table(("", *shown.values()), rows),
            "",
        ]
    )


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
    return "\n".join(lines)


def make_tables() -> dict[str, str]:
    """All tables of the page by name, from the committed results."""
    tables, without_vnni = dict[str, str](), dict[str, Result]()
    for name, result in read_results(ACCURACY).items():
        task, comma, kind = name.partition(", ")
        if comma + kind == WITHOUT_VNNI:
            without_vnni[task] = result
        else:
            peers = "" if kind else format_peers(task)
            tables[name] = "\n".join(filter(None, [format_result(result), peers]))
    held_out = read_results(HELD_OUT)
    return {
        **tables,
        WITHOUT_VNNI.removeprefix(", "): format_without_vnni(without_vnni),
        "minilm": format_minilm(read_results(MINILM)),
        "held out": format_held_out(held_out),
        "held out, labelled": format_labelled(held_out),
        "independent networks": format_unseen(read_results(UNSEEN)),
    }


def main() -> None:
    """Replace the tables of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page
    page.write_text(
        replace_tables(page.read_text(encoding="utf-8"), make_tables()), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
