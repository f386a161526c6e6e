"""The first lines of docs/accuracy.md, and its plot, from the tables below them.

python benchmarks/accuracy_summary.py docs/accuracy.md --plot docs/accuracy/speed.svg

Run it when `benchmarks/accuracy.py` has made the tables anew. The lines between the two marks are replaced. The plot
needs matplotlib; without --plot nothing but the lines is written. Settings without a measured speed are not drawn.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

START, END = "<!-- summary: benchmarks/accuracy_summary.py -->", "<!-- end of summary -->"
PTQ, ORT, OTHER = "ptq", "ONNX Runtime", "another tool"
PLOTTED = ("fmnist_mobilenet", "efficientnet_lite0")
_PEERS = Path(__file__).parent / "accuracy_peers.json"


@dataclass(frozen=True)
class Row:
    """One tool with one setting on one task; None for what was not measured.

    Attributes:
        task: Name of the task.
        name: The tool and its setting, as the page has it.
        agrees: Samples with float's best class, in percent.
        sqnr_db: SQNR of the outputs.
        speed: Float's processor time over that of the quantized model.
    """

    task: str
    name: str
    agrees: float | None
    sqnr_db: float | None
    speed: float | None

    @property
    def family(self) -> str:
        """ptq, ONNX Runtime's quantizer, or another tool."""
        return PTQ if self.name == PTQ else ORT if self.name.startswith(ORT) else OTHER


def read_rows(page: str) -> Iterator[Row]:
    """Rows of all tables that compare tools, in the order of the page."""
    compared = page.partition("\n## Compared with other tools")[2].partition("\n## ")[0]
    for section in compared.split("\n### ")[1:]:
        task = section.partition("\n")[0]
        header: list[str] = []
        for line in section.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not line.startswith("|"):
                header = []
            elif not header:
                header = cells
            elif not set(line) <= set("|-") and "SQNR dB" in header:
                values = dict(zip(header, cells, strict=True))
                yield Row(
                    task,
                    values[""],
                    _number(values["agrees %"]),
                    _number(values["SQNR dB"]),
                    _number(values["× float speed"]),
                )


def _number(cell: str) -> float | None:
    """The number at the start of a cell, without its interval."""
    found = re.match(r"-?\d+(?:\.\d+)?", cell)
    return float(found.group()) if found else None


def summarize(rows: list[Row]) -> str:
    """A table with one line for each task: ptq, and the best setting of others for each figure."""
    lines = [
        "| | agrees %, ptq | `quantize_static` | another tool | SQNR dB, ptq | `quantize_static` | another tool |",
        "|---|---|---|---|---|---|---|",
    ]
    for task in dict.fromkeys(row.task for row in rows):
        cells = [task]
        for figure in ("agrees", "sqnr_db"):
            for family in (PTQ, ORT, OTHER):
                values = [
                    value
                    for row in rows
                    if row.task == task
                    and row.family == family
                    and (value := getattr(row, figure)) is not None
                ]
                cells.append(f"{max(values):.2f}" if values else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def replace_summary(page: str) -> str:
    """The page with its first lines made anew."""
    before, _, rest = page.partition(START)
    after = rest.partition(END)[2]
    return f"{before}{START}\n\n{summarize(list(read_rows(page)))}\n\n{END}{after}"


def plot(rows: list[Row], path: Path) -> None:
    """Draw SQNR over speed, one picture for each task and one color for each tool."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "ptq", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    tools = {PTQ: PTQ, ORT: "ONNX Runtime quantize_static"}
    tools |= json.loads(_PEERS.read_text(encoding="utf-8"))["tools"]
    figure, planes = pyplot.subplots(1, len(PLOTTED), figsize=(9, 4.2), layout="constrained")
    for plane, task in zip(planes, PLOTTED, strict=True):
        for k, (prefix, tool) in enumerate(tools.items()):
            points = [
                (row.speed, row.sqnr_db)
                for row in rows
                if row.task == task
                and (row.name == PTQ if prefix == PTQ else row.name.startswith(prefix))
                and None not in (row.speed, row.sqnr_db)
            ]
            if not points:
                continue
            plane.scatter(
                [speed for speed, _ in points],
                [sqnr for _, sqnr in points],
                label=tool.partition(",")[0],
                color="black" if prefix == PTQ else f"C{k - 1}",
                marker="*" if prefix == PTQ else "o",
                s=140 if prefix == PTQ else 28,
                zorder=3,
            )
        plane.set(title=task, xlabel="speed relative to float", ylabel="SQNR, dB")
        plane.grid(color="#dddddd")
    handles, labels = planes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Replace the first lines of the page, and draw the plot if one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    options = parser.parse_args()
    page = options.page.read_text(encoding="utf-8")
    options.page.write_text(replace_summary(page), encoding="utf-8")
    if options.plot:
        plot(list(read_rows(page)), options.plot)


if __name__ == "__main__":
    main()
