"""Decisions of independent networks: ptq's defaults compared with ONNX Runtime's quantizer.

    python benchmarks/unseen.py FOLDER [--tasks NAME ...] [--ours] [--json FILE]

No choice in ptq was made on these networks. accuracy.py documents the layout of FOLDER; wheels.py makes one from
networks in PyPI packages. Each task has one row per tool:

* the share of samples with float's decision; if a sample has many decisions, the share that both models make;
* SQNR of each output;
* float's processor time over that of the quantized model, one sample at a time on one thread.

A decision is the text of a recognizer, the boxes or pixels above a detector's threshold, or a sequence of tags. For
all remaining networks it is the best class of the largest output. ``--json`` keeps the figures for the page
docs/accuracy.md (accuracy_tables.py).
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from accuracy import Quantizer, Task, find_tasks, measure_speedups, ort_quantizer, ptq_quantizer
from network_tables import format_decibels
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationMethod
from result_files import describe_code, write_result

from ptq.model.graph import Graph
from ptq.model.session.session import Session

Array = NDArray[Any]
Outputs = Sequence[Array]
Decide = Callable[[Outputs], Array]
SCORE, PIXEL, SPOKEN = 0.2, 0.3, 0.5


def decode_text(classes: Array) -> Array:
    """Return a recognizer's text: the best classes in time without repeats and blanks."""
    before = np.concatenate([[0], classes[:-1]])
    return classes[(classes != 0) & (classes != before)]


def best_class(outputs: Outputs) -> Array:
    """Return the best class of the largest output."""
    return np.asarray([max(outputs, key=np.size).argmax()])


PER_SAMPLE: Mapping[str, Decide] = {
    "ocr_recognition": lambda y: decode_text(y[0][0].argmax(-1)),
    "captcha_recognition": lambda y: decode_text(y[0][:, 0].argmax(-1)),
    "table_structure": lambda y: y[1].argmax(-1)[0],
    "voice_activity": lambda y: y[0] > SPOKEN,
    "face_onet": lambda y: np.asarray([y[2].argmax()]),
}
"""Functions with one decision per sample, by the first letters of a task's name."""
DETECTIONS: Mapping[str, Decide] = {
    "ocr_detection": lambda y: y[0] > PIXEL,
    "note_transcription": lambda y: y[0] > PIXEL,
    "nude_detection": lambda y: y[0][0, 4:] > SCORE,
    "captcha_detection": lambda y: y[0][0, :, 4:5] * y[0][0, :, 5:] > SCORE,
    "captcha_boxes": lambda y: y[0][0, :, 4:5] * y[0][0, :, 5:] > SCORE,
    "page_layout": lambda y: np.concatenate(y[:4], 1) > SCORE,
}
"""Functions with a set of detections: the decision is the share that both find of what either finds."""
PER_ELEMENT: Mapping[str, Decide] = {"face_pnet": lambda y: y[1].argmax(-1)}
"""Functions with one decision per element."""


def decision_agreement(name: str, float_: Outputs, other: Outputs) -> float:
    """Return the agreement on one sample, 0 to 1."""
    for table in (DETECTIONS, PER_ELEMENT, PER_SAMPLE):
        for decide in (table[start] for start in table if name.startswith(start)):
            one, two = decide(float_), decide(other)
            if table is PER_SAMPLE:
                return float(np.array_equal(one, two))
            if table is PER_ELEMENT:
                return float((one == two).mean())
            either = (one | two).sum()
            return float((one & two).sum() / either) if either else 1.0
    return float(np.array_equal(best_class(float_), best_class(other)))


def benchmark_task(task: Task, makers: Mapping[str, Quantizer]) -> dict[str, Any]:
    """Quantize and measure; return the figures of the task, as network_tables.py reads them."""
    float_, sessions = Session(Graph.load(task.model), threads=1), dict[str, Session]()
    failed = dict[str, str]()
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, make) in enumerate(makers.items()):
            path = Path(folder) / f"{number}.onnx"
            try:
                with contextlib.redirect_stdout(sys.stderr):
                    make(path)
                sessions[name] = Session(Graph.load(path), threads=1)
            except Exception as error:  # a peer may fail in any way; the table says so
                failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
    samples = list(task.open(task.evaluation))
    same: dict[str, list[float]] = {name: [] for name in sessions}
    powers: dict[str, list[Array]] = {name: [] for name in sessions}
    for sample in samples:
        expected = [np.asarray(y) for y in float_.run(sample.feed)]
        for name, session in sessions.items():
            found = [np.asarray(y) for y in session.run(sample.feed)]
            if [y.shape for y in found] != [
                y.shape for y in expected
            ]:  # what a model decides may set its length
                same[name].append(0.0)
                continue
            same[name].append(decision_agreement(task.name, expected, found))
            pairs = zip(expected, found, strict=True)
            sums = [
                (np.square(e, dtype="f8").sum(), np.square(e - f, dtype="f8").sum())
                for e, f in pairs
            ]
            powers[name].append(np.asarray(sums))
    faster = measure_speedups(float_, sessions, samples[0].feed)
    rows: list[dict[str, Any]] = []
    for name in sessions:
        signal, noise = np.sum(powers[name], 0).T if powers[name] else np.zeros((2, len(expected)))
        with np.errstate(divide="ignore", invalid="ignore"):
            decibels = 10 * np.log10(signal / noise)
        rows.append(
            {
                "name": name,
                "decides": round(100 * float(np.mean(same[name])), 1),
                "sqnr": [round(float(value), 1) for value in decibels],
                "speed": round(faster[name], 2),
            }
        )
    return {
        "calibrated": len(list(task.open(task.calibration))),
        "evaluated": len(samples),
        "rows": rows + [{"name": name, "failed": why} for name, why in failed.items()],
    }


def format_rows(task: str, found: Mapping[str, Any]) -> list[str]:
    """Lines of a table."""
    return [
        f"| {task} | {row['name']} | {row['failed']} | | |"
        if "failed" in row
        else f"| {task} | {row['name']} | {row['decides']:.1f} | {format_decibels(row['sqnr'])} "
        f"| {row['speed']:.2f} |"
        for row in found["rows"]
    ]


def main() -> None:
    """Measure all tasks and print their tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--ours", action="store_true", help="ptq alone")
    parser.add_argument("--json", type=Path, help="put the figures into this file of results")
    options, code = parser.parse_args(), describe_code()
    if options.ours and options.json is not None:
        parser.error("--json needs the rows of ONNX Runtime; leave --ours out")
    print("| | | decides % | SQNR dB | × float speed |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as spare:
        for task in find_tasks(options.folder, options.tasks, Path(spare)):
            makers = {"ptq": ptq_quantizer(task)}
            if not options.ours:
                for method in (
                    CalibrationMethod.MinMax,
                    CalibrationMethod.Entropy,
                    CalibrationMethod.Percentile,
                ):
                    makers[f"ONNX Runtime, {method.name}"] = ort_quantizer(task, method)
            found = benchmark_task(task, makers)
            print(*format_rows(task.name, found), sep="\n", flush=True)
            if options.json is not None:
                write_result(options.json, task.name, found, code)


if __name__ == "__main__":
    main()
