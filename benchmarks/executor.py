"""How fast the integer executor is, as a multiple of ONNX Runtime's float model on the same samples.

    python benchmarks/executor.py [MODEL DATA] [--runs 9] [--threads 2] [--arithmetic ort]

All rows run in one process with the same number of threads, interleaved; the median of the runs counts.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

SAMPLE = Path(__file__).parent.parent / "sample_data"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", nargs="?", default=SAMPLE / "fashion_mobilenet.onnx", type=Path)
    parser.add_argument("data", nargs="?", default=str(SAMPLE / "images" / "calibration"))
    parser.add_argument("--samples", type=int, default=16, help="for calibration")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--arithmetic", default="ort")
    options = parser.parse_args()
    os.environ["PTQ_THREADS"] = str(options.threads)

    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from ptq.api import quantize
    from ptq.data import open_samples
    from ptq.execute import Executor
    from ptq.feeding import input_specs
    from ptq.graph import Graph
    from ptq.session import Session

    graph = Graph.load(options.model)
    quantized = quantize(graph, options.data, samples=options.samples).graph
    samples = list(open_samples(options.data, input_specs(graph), limit=8))
    engines = {
        "ONNX Runtime, float": Session(graph, threads=options.threads).run,
        "ONNX Runtime, int8": Session(quantized, threads=options.threads).run,
        f"ptq integers, {options.arithmetic}": Executor(quantized, options.arithmetic).run,
    }
    table = Table(title=f"{options.model.name}, {options.threads} threads: time × float")
    table.add_column("engine")
    columns: dict[str, list[str]] = {name: [] for name in engines}
    for batch in (1, 8):
        table.add_column(f"batch {batch}", justify="right")
        feed = {
            name: np.concatenate([sample.feed[name] for sample in samples[:batch]])
            for name in samples[0].feed
        }
        taken: dict[str, list[float]] = {name: [] for name in engines}
        for run in range(options.runs + 2):
            for name, engine in engines.items():
                start = time.perf_counter()
                engine(feed)
                if run >= 2:  # kernels are prepared when they first run
                    taken[name].append(time.perf_counter() - start)
        base = statistics.median(taken["ONNX Runtime, float"])
        for name, times in taken.items():
            columns[name].append(f"{statistics.median(times) / base:.2f}")
    for name, cells in columns.items():
        table.add_row(name, *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
