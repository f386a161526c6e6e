"""Frontiers of networks, estimated against measured: docs/frontier.md has its plots and table.

python benchmarks/frontier.py NAME=MODEL.onnx=DATA [NAME=MODEL.onnx=DATA …] --plots docs/frontier

DATA is anything that `ptq frontier --data` takes; images of sample_data need --mean 0.2860 --std 0.3530. Each
network is tuned first (`ptq.tune`), on one thread. All points are measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import ptq
from ptq.evaluation.exports.frontier_svg import render_svg

ERROR_DB, TIME = 1.5, 0.15
"""How far a good estimate may be from the measurement."""


def main() -> None:
    """Measure each network, write its plot, and print its table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+", metavar="NAME=MODEL=DATA")
    parser.add_argument("--plots", type=Path, required=True)
    parser.add_argument("--mean", type=float)
    parser.add_argument("--std", type=float)
    options = parser.parse_args()
    options.plots.mkdir(parents=True, exist_ok=True)
    preprocess = None
    if options.mean is not None:
        preprocess = ptq.Preprocess(mean=(options.mean,), std=(options.std,))
    for network in options.networks:
        name, model, data = network.split("=", 2)
        table = ptq.tune(model, threads=1).table
        curve = ptq.frontier(
            model, data, preprocess=preprocess, cost_table=table, measure_all=True, threads=1
        )
        (options.plots / f"{name}.svg").write_text(render_svg(curve.report), encoding="utf-8")
        print_table(name, curve.report.points)


def print_table(name: str, points: tuple[ptq.FrontierPoint, ...]) -> None:
    """Print estimated and measured figures of all points, and how many estimates are good."""
    print(
        f"\n{name}\n\n| point | float nodes | speed, estimated | measured | SQNR dB, estimated | measured |"
    )
    print("|---|---|---|---|---|---|")
    good_error = good_time = 0
    for point in points:
        assert point.measured_speed is not None
        assert point.measured_sqnr_db is not None
        good_error += abs(point.sqnr_db - point.measured_sqnr_db) <= ERROR_DB
        good_time += abs(point.measured_speed / point.speed - 1) <= TIME
        print(
            f"| {point.number}{' (chosen)' if point.chosen else ''} | {len(point.floats)} | {point.speed:.2f} | "
            f"{point.measured_speed:.2f} | {point.sqnr_db:.1f} | {point.measured_sqnr_db:.1f} |"
        )
    print(
        f"\nof {len(points)} points: error within {ERROR_DB} dB at {good_error}, time within {100 * TIME:.0f} % at "
        f"{good_time}",
        flush=True,
    )


if __name__ == "__main__":
    main()
