"""Frontiers of networks, estimated against measured: docs/frontier.md has its plots and tables.

    python benchmarks/frontier.py NAME=MODEL.onnx=DATA [NAME=MODEL.onnx=DATA …] [--tables FOLDER] [--json FILE]
    python benchmarks/frontier.py --plots docs/frontier --page docs/frontier.md

DATA is anything that `ptq frontier --data` takes; images of sample_data need --mean 0.2860 --std 0.3530. Each
network is tuned first (`ptq.tune`), on one thread, unless its sizes vary. All points are measured. ``--tables`` keeps
the tables of times: a later run, or one of this network in pieces, does not time the kernels again.

``--processor-time`` measures the time of the processor instead of that of the clock, for a machine that other work
shares.

``--json`` puts each network into a file of results. ``--page`` makes the tables of the page from it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

from markdown_tables import make_table
from result_files import HERE, Result, describe_code, read_results, write_result

import ptq
from ptq.api import kernel_times
from ptq.evaluation import speed
from ptq.evaluation.exports.frontier_svg import render_svg

FRONTIER = HERE / "frontier_results.json"
ERROR_DB, TIME = 1.5, 0.15
"""How far a good estimate may be from the measurement."""
HEADER = (
    "point", "float nodes", "speed, estimated", "measured", "SQNR dB, estimated", "measured",
)  # fmt: skip
SUMMARY = ("", "points", "error within 1.5 dB", "time within 15 %", "speed, first … last point")
_TABLE = re.compile(r"(<!-- frontier: (.+?) -->\n).*?(<!-- end of frontier -->)", re.DOTALL)


def main() -> None:
    """Measure each network, print its table as Markdown, and keep it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", metavar="NAME=MODEL=DATA")
    parser.add_argument("--plots", type=Path)
    parser.add_argument("--tables", type=Path, metavar="FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE")
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--mean", type=float)
    parser.add_argument("--std", type=float)
    options = parser.parse_args()
    if options.processor_time:
        for module in (speed, kernel_times):
            vars(module)["perf_counter"] = process_time
    preprocess = None
    if options.mean is not None:
        preprocess = ptq.Preprocess(mean=(options.mean,), std=(options.std,))
    code = describe_code() + (", processor time" if options.processor_time else "")
    for network in options.networks:
        name, model, data = network.split("=", 2)
        table = read_table(name, model, options.tables)
        curve = ptq.frontier(
            model, data, preprocess=preprocess, cost_table=table, measure_all=True, threads=1
        )
        if options.plots:
            options.plots.mkdir(parents=True, exist_ok=True)
            (options.plots / f"{name}.svg").write_text(render_svg(curve.report), encoding="utf-8")
        result = {"rows": [list_figures(point) for point in curve.report.points]}
        print(f"\n{name}\n", format_table(result), sep="\n", flush=True)
        if options.json is not None:
            write_result(options.json, name, result, code)
    if options.page is not None:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(
            replace_tables(page, read_results(options.json or FRONTIER)), encoding="utf-8"
        )


def read_table(name: str, model: str, folder: Path | None) -> Any:
    """The table of times of a network: the kept one, else a new one; None for the shipped one if sizes vary."""
    kept = None if folder is None else folder / f"{name}.json"
    if kept is not None and kept.exists():
        return kept
    try:
        tuned = ptq.tune(model, threads=1)
    except ptq.UsageError as error:
        print(f"{name}: {error}")
        return None
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        tuned.save(kept)
    return tuned.table


def list_figures(point: ptq.FrontierPoint) -> list[float | bool]:
    """Float nodes, whether the rule chose it, speed and SQNR: each estimated and measured."""
    assert point.measured_speed is not None
    assert point.measured_sqnr_db is not None
    figures = point.speed, point.measured_speed, point.sqnr_db, point.measured_sqnr_db
    return [len(point.floats), point.chosen, *(round(figure, 3) for figure in figures)]


def count_good(rows: Sequence[Sequence[float]]) -> tuple[int, int]:
    """Points whose error, and whose time, is well estimated."""
    errors = sum(abs(row[4] - row[5]) <= ERROR_DB for row in rows)
    return errors, sum(abs(row[3] / row[2] - 1) <= TIME for row in rows)


def format_table(result: Result) -> str:
    """All points of a network, and how many estimates are good."""
    rows = result["rows"]
    cells = (
        [f"{number}{' (chosen)' if row[1] else ''}", f"{row[0]}", f"{row[2]:.2f}", f"{row[3]:.2f}",
         f"{row[4]:.1f}", f"{row[5]:.1f}"]
        for number, row in enumerate(rows)
    )  # fmt: skip
    errors, times = count_good(rows)
    return "\n".join(
        [*make_table(HEADER, cells), "",
         f"Of {len(rows)} points: error within {ERROR_DB} dB at {errors}, time within {100 * TIME:.0f} % at {times}."]
    )  # fmt: skip


def format_summary(results: dict[str, Result]) -> str:
    """How many estimates of each network are good, and what each was measured with."""

    def list_cells() -> Iterator[list[str]]:
        for name, result in results.items():
            rows = result["rows"]
            errors, times = count_good(rows)
            speeds = f"{rows[0][3]:.2f} … {rows[-1][3]:.2f}"
            yield [name, f"{len(rows)}", f"{errors}", f"{times}", speeds, str(result["measured"])]

    return "\n".join(make_table([*SUMMARY, "measured"], list_cells()))


def replace_tables(page: str, results: dict[str, Result]) -> str:
    """The page with each table made anew: that of a network by its name, ``all`` for the summary."""

    def make(found: re.Match[str]) -> str:
        name = found[2]
        body = format_summary(results) if name == "all" else format_table(results[name])
        return f"{found[1]}\n{body}\n\n{found[3]}"

    return _TABLE.sub(make, page)


if __name__ == "__main__":
    main()
