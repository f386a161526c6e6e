"""Accuracy benchmark: ptq's defaults compared with ONNX Runtime's quantizer at its best, on the same samples.

    python benchmarks/accuracy.py [FOLDER] [--tasks NAME ...] [--limit N] [--ablation | --ours | --kept N ...]
                                  [--no-histograms] [--json FILE]

FOLDER has one sub-folder per task:

    FOLDER/TASK/model.onnx   the float model
    FOLDER/TASK/calib.npz    samples for calibration: arrays by input name, leading axis = samples
    FOLDER/TASK/eval.npz     samples for evaluation, optionally with ``labels``; -1 = unlabelled, a row may list
                             several acceptable classes

If the inputs have no axis of samples, ``calib`` and ``eval`` are folders of .npz files, one sample per file.
The sample network of this repository always runs. The output is one Markdown table per task:

* top-1 accuracy, and its loss against float with the paired 95 % interval;
* agreement with float, and SQNR of the outputs, with their 95 % intervals;
* SQNR of the scores, if the output is their Softmax: a few undecided samples make nearly all of its error;
* speed as a multiple of float's (CPU time of one thread, batch 1, interleaved);
* CPU time of the quantization as a multiple of one float pass over the calibration samples.

``--kept 0 64`` runs only ptq: on the samples, and from statistics that keep so many of them.

A second table has the figures of other tools, measured once (accuracy_peers.json). ``--json`` keeps the figures for
the page docs/accuracy.md (accuracy_tables.py). Those of a processor without VNNI have a table of their own.

``--ablation`` switches off each technique of ptq's defaults in turn (benchmarks/ablation.py). ``--ours`` runs only
ptq. ONNX Runtime's histogram calibrators keep every activation of every sample in memory; ``--no-histograms`` leaves
them out.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ablation
import numpy as np
import onnx
import onnx.version_converter
from accuracy_tables import ABLATION, WITHOUT_VNNI, format_peers, format_result
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process
from result_files import describe_code, write_result

import ptq
from ptq.data import Preprocess, Sample, Samples, open_samples
from ptq.data.splits import has_free_batch, list_input_specs
from ptq.evaluation.evaluate import evaluate_engines
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.runs.engines import make_session_engine
from ptq.model.graph import Graph
from ptq.model.node import QUANTIZERS, Value, get_name
from ptq.model.session.exact_sums import has_exact_int8_sums
from ptq.model.session.session import Session

HERE = Path(__file__).parent
SAMPLE = HERE.parent / "sample_data"
BATCH = 8
PER_CHANNEL_OPSET = 13
ROUNDS = 60
Quantizer = Callable[[Path], None]


@dataclass(frozen=True)
class Task:
    """A model with samples.

    Attributes:
        name: Name of the task.
        model: Path of the float model.
        calibration: Calibration data as ptq takes it.
        evaluation: Evaluation data as ptq takes it.
    """

    name: str
    model: Path
    calibration: Path
    evaluation: Path

    def open(self, which: Path, limit: int | None = None) -> Samples:
        """Open data as samples of the task's model."""
        specs = list_input_specs(Graph.load(self.model))
        return open_samples(str(which), specs, limit=limit)


class FeedReader(CalibrationDataReader):  # type: ignore[misc]
    """Samples in the form that ONNX Runtime's calibrators read."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._feeds = iter([sample.feed for sample in samples])

    def get_next(self) -> dict[str, Any] | None:
        """Return the next feed; None at the end."""
        return next(self._feeds, None)


def sample_task(folder: Path) -> Task:
    """Return the task of this repository's network; write its images as arrays into a folder."""
    task = Task(
        "sample_data", SAMPLE / "fashion_mobilenet.onnx", folder / "c.npz", folder / "e.npz"
    )
    specs, normalized = (
        list_input_specs(Graph.load(task.model)),
        Preprocess(mean=(0.286,), std=(0.353,)),
    )
    for name, path in (("calibration", task.calibration), ("evaluation", task.evaluation)):
        samples = list(open_samples(str(SAMPLE / "images" / name), specs, normalized))
        arrays = {key: np.concatenate([s.feed[key] for s in samples]) for key in samples[0].feed}
        np.savez(path, **arrays, labels=np.array([s.labels[0] for s in samples]))
    return task


def find_tasks(folder: Path | None, wanted: Sequence[str], spare: Path) -> list[Task]:
    """List the sample network's task, then those of the folder; the sample arrays go into a spare folder."""
    found = [sample_task(spare)]
    for place in sorted(folder.iterdir()) if folder is not None else []:
        if (place / "model.onnx").exists():
            one = place / "calib.npz", place / "eval.npz"
            many = place / "calib", place / "eval"
            samples = one if one[0].exists() else many
            found.append(Task(place.name, place / "model.onnx", *samples))
    return [task for task in found if not wanted or task.name in wanted]


def quantize_task(task: Task, *, from_samples: bool = True, **options: Any) -> ptq.Result:
    """Quantize the task's model; evaluate on one sample only, because the report is not timed."""
    one = list(task.open(task.evaluation).first(1))
    return ptq.quantize(
        task.model,
        str(task.calibration) if from_samples else None,
        eval_data=lambda: ((s.feed, s.labels) for s in one),
        threads=1,
        force=True,
        **options,
    )


def ptq_quantizer(task: Task, **options: Any) -> Quantizer:
    """Return a quantizer that uses ptq."""
    return lambda path: quantize_task(task, **options).save(path)


def statistics_quantizer(task: Task, kept: int) -> Quantizer:
    """Return a quantizer that uses ptq's statistics of the samples, which keep so many of them."""

    def make(path: Path) -> None:
        stats = path.with_suffix(".stats.npz")
        calibration = str(task.calibration)
        ptq.calibrate(task.model, calibration, threads=1, keep_samples=kept).save(stats)
        quantize_task(task, from_samples=False, stats=stats).save(path)

    return make


def ablation_quantizers(task: Task) -> dict[str, Quantizer]:
    """Return ptq quantizers with one technique off each, and the bounds with half of the model in float."""

    def inside(way: Callable[[], AbstractContextManager[None]]) -> Quantizer:
        def make(path: Path) -> None:
            with way():
                quantize_task(task).save(path)

        return make

    rows = {name: ptq_quantizer(task, **options) for name, options in ablation.OPTIONS.items()}
    rows[ablation.NO_COMPENSATION] = inside(ablation.disable_compensation)
    rows[ablation.WEIGHTS_BY_MSE] = inside(ablation.use_mse_weight_ranges)
    rows[ablation.ROUNDED_OUTPUTS] = inside(ablation.disable_float_outputs)
    for name, bound in ablation.BOUNDS.items():
        rows[name] = bound_quantizer(task, bound)
    return rows


def bound_quantizer(task: Task, bound: Callable[[Path, ptq.Result, Path], None]) -> Quantizer:
    """Return a quantizer for a bound, without error compensation, which would worsen it."""

    def make(path: Path) -> None:
        with ablation.disable_compensation():
            bound(task.model, quantize_task(task), path)

    return make


def raise_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """Raise the model to an opset with per-channel scales."""
    version = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    return (
        model
        if version >= PER_CHANNEL_OPSET
        else onnx.version_converter.convert_version(model, PER_CHANNEL_OPSET)
    )


def ort_quantizer(task: Task, method: CalibrationMethod | None) -> Quantizer:
    """Return a quantizer that uses ONNX Runtime: its default if the method is None, else its best settings."""

    def make(path: Path) -> None:
        feeds = FeedReader(list(task.open(task.calibration)))
        if method is None:
            quantize_static(str(task.model), str(path), feeds)
            return
        prepared = path.with_suffix(".prepared.onnx")
        onnx.save(raise_opset(onnx.load(task.model)), prepared)
        try:
            quant_pre_process(str(prepared), str(prepared))
        except (
            Exception
        ):  # what it raises where it cannot follow shapes as symbols, and says to do then
            quant_pre_process(str(prepared), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(path),
            feeds,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=method,
        )

    return make


def select_quantizers(task: Task, asked: argparse.Namespace) -> dict[str, Quantizer]:
    """Return the quantizers to compare, by name."""
    rows = {"ptq": ptq_quantizer(task)}
    if asked.ablation:
        return rows | ablation_quantizers(task)
    if asked.kept:
        return rows | {
            f"ptq, statistics, {n} kept": statistics_quantizer(task, n) for n in asked.kept
        }
    if asked.ours:
        return rows
    methods = [CalibrationMethod.MinMax]
    if not asked.no_histograms:
        methods += [CalibrationMethod.Entropy, CalibrationMethod.Percentile]
    rows |= {f"ONNX Runtime, {method.name}": ort_quantizer(task, method) for method in methods}
    return rows | {"ONNX Runtime, its default": ort_quantizer(task, None)}


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the processor seconds that a call takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure_speedups(
    float_model: Session, others: Mapping[str, Session], feed: Any
) -> dict[str, float]:
    """Return how many times faster than float each session is: medians of interleaved runs."""
    everyone = {"float": float_model, **others}
    taken: dict[str, list[float]] = {name: [] for name in everyone}
    repeat = max(1, round(0.005 / max(cpu_seconds(lambda: float_model.run(feed)), 1e-5)))
    for _ in range(ROUNDS):
        for name, session in everyone.items():
            taken[name].append(cpu_seconds(lambda s=session: [s.run(feed) for _ in range(repeat)]))
    base = statistics.median(taken["float"])
    return {name: base / statistics.median(taken[name]) for name in others}


def benchmark_task(task: Task, rows: Mapping[str, Quantizer], limit: int | None) -> dict[str, Any]:
    """Quantize, evaluate and time; return the task's figures."""
    graph = Graph.load(task.model)
    before = Session(graph, threads=1)
    samples = task.open(task.evaluation, limit)
    calibration = list(task.open(task.calibration))
    passed = min(cpu_seconds(lambda: [before.run(s.feed) for s in calibration]) for _ in range(3))
    sessions, made, spent, failed = {}, {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, make) in enumerate(rows.items()):
            path = Path(folder) / f"{number}.onnx"
            try:
                with contextlib.redirect_stdout(sys.stderr):  # its calibrators print
                    spent[name] = cpu_seconds(lambda m=make, p=path: m(p)) / passed
                made[name] = Graph.load(path)
                sessions[name] = open_session(name, made[name])
            except Exception as error:  # a peer may fail in any way; the table says so
                failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
    found = evaluate_engines(
        make_session_engine(before),
        {name: make_session_engine(session) for name, session in sessions.items()},
        samples,
        [get_name(v) for v in graph.outputs],
        batch=BATCH if has_free_batch(graph) else 1,
    )
    faster = measure_speedups(before, sessions, next(iter(samples)).feed)
    graphs = {"": graph} | {name: made[name] for name in sessions}
    clear = logits_sqnr(graphs, [get_name(v) for v in graph.outputs].index(found.head), samples)
    return list_figures(found, spent, faster, failed, len(calibration), clear)


def open_session(name: str, graph: Graph) -> Session:
    """Open a session, without optimizations for bounds: they would quantize the float weights."""
    return Session(graph, threads=1, optimize="none" if name in ablation.BOUNDS else "all")


def logits_sqnr(
    graphs: Mapping[str, Graph], head: int, samples: Samples
) -> dict[str, tuple[float, tuple[float, float] | None]]:
    """Return the SQNR of the last Softmax's input, by name, with "" for the float model; empty without a Softmax."""
    engines = {}
    for name, graph in graphs.items():
        source = softmax_input(graph.outputs[head])
        if source is None:
            return {}
        exposed = graph.copy()
        exposed.add_outputs([source])
        session = open_session(name, exposed)
        engines[name] = lambda feed, session=session, source=source: session.run(feed, [source])
    found = evaluate_engines(engines.pop(""), engines, samples, ["scores"], batch=1)
    forms = {name: found.forms[name].outputs["scores"] for name in engines}
    return {name: (one.sqnr_db, one.sqnr_interval) for name, one in forms.items()}


def softmax_input(output: Value) -> str | None:
    """Return the input name of the Softmax that makes an output, through quantizers and data movement."""
    node = output.producer()
    while node is not None and node.inputs:
        first = node.inputs[0]
        if first is None:
            return None
        if node.op_type == "Softmax":
            return get_name(first)
        if node.op_type not in (*QUANTIZERS, "Identity", "Reshape"):
            return None
        node = first.producer()
    return None


def list_figures(
    found: Evaluation,
    spent: Mapping[str, float],
    faster: Mapping[str, float],
    failed: Mapping[str, str],
    calibrated: int,
    clear: Mapping[str, tuple[float, tuple[float, float] | None]],
) -> dict[str, Any]:
    """The figures of the task, as accuracy_tables.py reads them; None for a speed or time that was not taken."""
    float_accuracy = found.forms["float"].accuracy
    rows: list[dict[str, Any]] = []
    for name, form in found.forms.items():
        if name == "float":
            continue
        fidelity, accuracy, drop = form.outputs[found.head], form.accuracy, form.drop
        rows.append(
            {
                "name": name,
                "top1": None if accuracy is None else round(100 * accuracy.top1, 2),
                "lost": None if drop is None else _round(drop.points, (drop.lo, drop.hi), 1, 2),
                "agrees": _round(fidelity.agreement, fidelity.agreement_interval, 100, 1),
                "sqnr": _round(fidelity.sqnr_db, fidelity.sqnr_interval, 1, 1),
                "scores": _round(*clear[name], 1, 1) if clear else None,
                "speed": round(faster[name], 2) if name in faster else None,
                "passes": round(spent[name], 1) if name in spent else None,
            }
        )
    return {
        "calibrated": calibrated,
        "evaluated": found.samples,
        "float_top1": None if float_accuracy is None else round(100 * float_accuracy.top1, 2),
        "rows": rows + [{"name": name, "failed": reason} for name, reason in failed.items()],
    }


def _round(
    value: float | None, interval: tuple[float, float] | None, times: float, digits: int
) -> list[float] | None:
    """A figure with two decimals, and the ends of its interval with fewer."""
    if value is None:
        return None
    return [round(times * value, 2), *(round(times * end, digits) for end in interval or ())]


def main() -> None:
    """Measure all tasks and print their tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--tasks", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--limit", type=int, help="evaluate on that many samples, evenly spread")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--kept", type=int, nargs="*", default=[], metavar="N")
    parser.add_argument("--no-histograms", action="store_true")
    parser.add_argument("--json", type=Path, help="put the figures into this file of results")
    options, code = parser.parse_args(), describe_code()
    print(f"ptq {ptq.__version__}, onnx {onnx.__version__}", flush=True)
    with tempfile.TemporaryDirectory() as spare:
        for task in find_tasks(options.folder, options.tasks, Path(spare)):
            figures = benchmark_task(task, select_quantizers(task, options), options.limit)
            print(f"### {task.name}\n\n{format_result({'measured': code, **figures})}", flush=True)
            if not (options.ablation or options.ours or options.kept):
                print(format_peers(task.name), flush=True)
            if options.json:
                name = task.name + (ABLATION if options.ablation else "")
                name += "" if has_exact_int8_sums() else WITHOUT_VNNI
                write_result(options.json, name, figures, code)


if __name__ == "__main__":
    main()
