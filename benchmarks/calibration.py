"""Calibration benchmark: processor time as a multiple of one float pass over the same samples.

    python benchmarks/calibration.py [MODEL DATA] [--samples 128] [--runs 5] [--threads 1]

All rows run in one process on the same samples, interleaved, batch 1. The result is the median of the runs.
ptq's time excludes the loading of the model. ONNX Runtime's calibrators are timed as their users call them:
``create_calibrator``, ``collect_data``, ``compute_data``.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import onnx
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, create_calibrator
from rich.console import Console
from rich.table import Table

from ptq.calibration.calibration import list_tensors_to_collect
from ptq.calibration.collect import BatchBuffers, count_values, start_statistics
from ptq.core.run_options import DEFAULT_RUN
from ptq.data import Sample, open_samples
from ptq.data.splits import list_input_specs
from ptq.kernels.thread_pool import limit_threads
from ptq.model.graph import Graph
from ptq.model.session.exposed_session import open_session_with_outputs
from ptq.model.session.session import Session
from ptq.rewrite.prepare.prepare import prepare

SAMPLE = Path(__file__).parent.parent / "sample_data"


class FeedReader(CalibrationDataReader):  # type: ignore[misc]
    """Samples in the form that ONNX Runtime's calibrators read."""

    def __init__(self, samples: list[Sample]) -> None:
        self._feeds = iter([sample.feed for sample in samples])

    def get_next(self) -> dict[str, object] | None:
        """Return the next feed; None at the end."""
        return next(self._feeds, None)


def time_call(work: Callable[[], object], threads: int) -> float:
    """Return the processor time of one call on so many threads, of all of them."""
    start = time.process_time()
    with limit_threads(threads):
        work()
    return time.process_time() - start


def run_groups(buffers: BatchBuffers, samples: list[Sample]) -> None:
    """Run the model on all samples and return its tensors, without counting them."""
    for start in range(0, len(samples), buffers.batch):
        buffers.run(samples[start : start + buffers.batch])


def ort_calibrator(
    path: Path, samples: list[Sample], method: CalibrationMethod
) -> Callable[[], object]:
    """Return a call that runs one of ONNX Runtime's calibrators over the samples."""

    def run() -> object:
        with tempfile.TemporaryDirectory() as folder:
            calibrator = create_calibrator(
                str(path),
                augmented_model_path=f"{folder}/augmented.onnx",
                calibrate_method=method,
            )
            calibrator.collect_data(FeedReader(samples))
            return calibrator.compute_data()

    return run


def main() -> None:
    """Measure all rows and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", nargs="?", default=SAMPLE / "fashion_mobilenet.onnx", type=Path)
    parser.add_argument("data", nargs="?", default=str(SAMPLE / "images" / "calibration"))
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--without-peers", action="store_true", help="ptq alone")
    parser.add_argument("--ratio", action="store_true", help="print the ratio of ptq alone")
    options = parser.parse_args()

    graph = prepare(Graph.load(options.model)).graph
    samples = list(open_samples(options.data, list_input_specs(graph), limit=options.samples))
    observed = list_tensors_to_collect(graph)
    plain = Session(graph, threads=options.threads)
    session = open_session_with_outputs(graph, observed, threads=options.threads)

    buffers = BatchBuffers(session, observed.names, DEFAULT_RUN.calibration_batch)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "prepared.onnx"
        onnx.save(graph.to_proto(), path)
        rows: dict[str, Callable[[], object]] = {
            "float pass": lambda: [plain.run(sample.feed) for sample in samples],
            "float pass, all tensors returned": lambda: run_groups(buffers, samples),
            "ptq calibrate": lambda: count_values(
                session,
                samples,
                observed,
                start_statistics(observed),
                DEFAULT_RUN.calibration_batch,
            ),
        }
        if not (options.without_peers or options.ratio):
            for method in (
                CalibrationMethod.MinMax,
                CalibrationMethod.Entropy,
                CalibrationMethod.Percentile,
            ):
                rows[f"ONNX Runtime {method.name}"] = ort_calibrator(path, samples, method)
        taken: dict[str, list[float]] = {name: [] for name in rows}
        for name in rows:
            rows[name]()  # the first run pays for what later ones find warm
            if name == "ptq calibrate":
                break
        for _ in range(options.runs):
            for name, work in rows.items():
                taken[name].append(time_call(work, options.threads))

    if options.ratio:
        pairs = zip(taken["ptq calibrate"], taken["float pass"], strict=True)
        print(statistics.median(ours / plain for ours, plain in pairs))
        return
    table = Table(
        title=f"{options.model.name}: {len(samples)} samples, {len(observed.names)} tensors"
    )
    table.add_column("work")
    table.add_column("× float pass", justify="right")
    table.add_column("lowest–highest", justify="right")
    base = statistics.median(taken["float pass"])
    for name, times in taken.items():
        ratios = [t / base for t in times]
        spread = f"{min(ratios):.2f}–{max(ratios):.2f}"
        table.add_row(name, f"{statistics.median(ratios):.2f}", spread)
    Console().print(table)


if __name__ == "__main__":
    main()
