"""Accuracy, time and placement of networks in the runtimes that they are quantized for.

    pip install "onnx-ptq[openvino,qnn,litert]" nncf==3.4.0 apache-tvm tract
    python benchmarks/targets.py openvino MODEL.onnx CALIBRATION.npz EVALUATION.npz [--samples 128] [--results FILE]

The first word says what is measured: ``openvino`` (beside NNCF's file of the same network), ``qnn`` and ``qnn-a16``
(in Qualcomm's emulator), ``portable`` (in OpenVINO, TVM and tract beside ONNX Runtime), ``litert`` (integers that
differ between LiteRT and the executor). The batch is fixed to 1, and everything has one thread. SQNR is that of the
first output against ONNX Runtime's float, over all evaluation samples that are run. ``than_ort`` is the difference in
dB from ONNX Runtime with its paired 95 % interval. Times are the least one and the median. The files run in turns, in
both orders: what runs after a larger one finds less in the caches. Each row is one line of JSON, with the commit and
the versions.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from other_readers import open_in_tract, open_in_tvm
from result_files import read_commit

import ptq
from ptq.core.decibels import to_sqnr_db
from ptq.evaluation.intervals import bootstrap_sums, compute_percentile_interval
from ptq.executor.runtimes.registry import open_in_runtime
from ptq.executor.runtimes.runtime import summarize_placement
from ptq.model.graph import Graph
from ptq.model.session.session import Session

_WARM_UP, _RUNS = 20, 200
_MOST_SECONDS = 60.0
"""Time for the runs of one network; slow networks have fewer."""
Feed = dict[str, NDArray[Any]]
Runner = Callable[[Feed], NDArray[Any]]
Row = dict[str, Any]


def read_feeds(path: Path, names: Sequence[str], count: int) -> list[Feed]:
    """The first samples of a file, each with a batch of one."""
    with np.load(path) as stored:
        rows = {name: stored[name] for name in names}
    return [
        {n: a[at : at + 1] for n, a in rows.items()}
        for at in range(min(count, len(rows[names[0]])))
    ]


def find_noise(
    found: Sequence[NDArray[Any]], wanted: Sequence[NDArray[Any]]
) -> NDArray[np.float64]:
    """The energy of the error of each sample."""
    pairs = zip(wanted, found, strict=True)
    return np.array([float(((w - f).astype(np.float64) ** 2).sum()) for w, f in pairs])


def compare_noise(one: NDArray[np.float64], other: NDArray[np.float64]) -> Row:
    """By how many dB the SQNR of the first is higher, with its paired 95 % interval over samples."""
    draws = bootstrap_sums(np.stack([one, other], axis=1))
    ends = compute_percentile_interval(10 * np.log10(draws[:, 1] / draws[:, 0]))
    difference = float(10 * np.log10(other.sum() / one.sum()))
    return {"than_ort": [round(value, 2) for value in (difference, *ends)]}


def measure_accuracy(found: Sequence[NDArray[Any]], wanted: Sequence[NDArray[Any]]) -> Row:
    """SQNR in dB and the share of samples with float's best class."""
    signal = sum(float((w.astype(np.float64) ** 2).sum()) for w in wanted)
    noise = float(find_noise(found, wanted).sum())
    same = [np.argmax(w) == np.argmax(f) for w, f in zip(wanted, found, strict=True)]
    return {
        "sqnr": round(float(to_sqnr_db(signal, noise)), 2),
        "agrees": round(100 * float(np.mean(same)), 2),
    }


def measure_times(runners: Mapping[str, Runner], feed: Feed) -> dict[str, Row]:
    """Least and median milliseconds of each runner; they run in turns, every second time in the opposite order."""
    taken: dict[str, list[float]] = {name: [] for name in runners}
    started = perf_counter()
    for number in range(_WARM_UP + _RUNS):
        for name, run in list(runners.items())[:: -1 if number % 2 else 1]:
            start = perf_counter()
            run(feed)
            if number >= _WARM_UP:
                taken[name].append(1e3 * (perf_counter() - start))
        if number > _WARM_UP + 20 and perf_counter() - started > _MOST_SECONDS:
            break
    return {
        name: {"least_ms": round(min(times), 4), "median_ms": round(statistics.median(times), 4)}
        for name, times in taken.items()
    }


def open_runner(runtime: str, model: onnx.ModelProto, outputs: Sequence[str]) -> tuple[Runner, Any]:
    """A function that runs a model and returns its first output, and the model in the runtime."""
    graph = Graph.from_proto(model)
    inside = (
        Session(graph, threads=1)
        if runtime == "ort"
        else open_in_runtime(runtime, graph, threads=1)
    )
    return lambda feed: np.asarray(inside.run(feed, [outputs[0]])[0]), inside


def quantize_with_nncf(model: onnx.ModelProto, feeds: Sequence[Feed], *, transformer: bool) -> Any:
    """OpenVINO's model that NNCF quantizes with its mixed preset; biases are corrected as it does by default."""
    import nncf
    import openvino

    core = openvino.Core()
    return nncf.quantize(
        core.read_model(model.SerializeToString()),
        nncf.Dataset(list(feeds)),
        preset=nncf.QuantizationPreset.MIXED,
        subset_size=len(feeds),
        model_type=nncf.ModelType.TRANSFORMER if transformer else None,
    )


def compile_in_openvino(model: Any) -> Runner:
    """A function that runs a model of OpenVINO on one thread and returns its first output."""
    import openvino

    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = openvino.Core().compile_model(model, "CPU", settings)
    return lambda feed: np.array(compiled(feed)[0])


def fix_batch(model: onnx.ModelProto, feed: Feed) -> onnx.ModelProto:
    """The model with the shapes of a sample, as NNCF and the float model of the runtimes get them."""
    fixed = onnx.ModelProto.FromString(model.SerializeToString())
    for value in fixed.graph.input:
        for side, length in zip(
            value.type.tensor_type.shape.dim, feed[value.name].shape, strict=True
        ):
            side.dim_value = length
    del fixed.graph.value_info[:]
    for value in fixed.graph.output:
        value.type.tensor_type.ClearField("shape")
    return fixed


def measure(kind: str, options: argparse.Namespace) -> Row:
    """The row of one network."""
    model = onnx.load(options.model)
    names = [
        v.name for v in model.graph.input if v.name not in {i.name for i in model.graph.initializer}
    ]
    outputs = [v.name for v in model.graph.output]
    calibration = read_feeds(options.calibration, names, options.calibrate)
    evaluation = read_feeds(options.evaluation, names, options.samples)
    stacked = options.results.parent / f"{options.model.stem}.{kind}.npz"
    np.savez(stacked, **{n: np.concatenate([f[n] for f in calibration]) for n in names})
    fixed = fix_batch(model, evaluation[0])
    start = process_time()
    made = ptq.quantize(
        fixed, stacked, target=kind, static_batch=1, threads=1, effort=options.effort,
        form="tflite" if kind.startswith("litert") else "qdq", samples=len(calibration),
    )  # fmt: skip
    row: Row = {"quantizing_s": round(process_time() - start, 1)}
    row["float_nodes"] = sorted(
        f"{n}: {why}" for n, why in made.plan.floats.items() if "faster in float" in why
    )
    stacked.unlink()
    if kind.startswith("litert"):
        return row | {"litert": str(made.report.litert)}
    reference, _ = open_runner("ort", fixed, outputs)
    wanted = [reference(feed) for feed in evaluation]
    ours = made.model
    if kind == "openvino":
        runners = {
            "float": compile_in_openvino_of(fixed),
            # like the others: `RuntimeModel.run` checks and copies, which takes a few microseconds
            "ptq": compile_in_openvino_of(ours),
            "nncf": compile_in_openvino(
                quantize_with_nncf(fixed, calibration, transformer=options.transformer)
            ),
        }
        times = measure_times(runners, evaluation[0])
        for name, run in runners.items():
            row[name] = measure_accuracy([run(f) for f in evaluation], wanted) | times[name]
        row["placed"] = summarize_placement(open_runner("openvino", ours, outputs)[1].placement())
        return row
    if kind.startswith("qnn"):
        run, inside = open_runner("qnn", ours, outputs)
        row["qnn"] = measure_accuracy([run(f) for f in evaluation], wanted)
        return row | {"placed": summarize_placement(inside.placement())}
    noise: dict[str, NDArray[np.float64]] = {}
    for name, opened in (
        ("ort", open_runner("ort", ours, outputs)[0]),
        ("openvino", open_runner("openvino", ours, outputs)[0]),
        ("tract", open_in_tract(ours)),
        ("tvm", open_in_tvm(ours)),
    ):
        found = [opened(f) for f in evaluation]
        noise[name] = find_noise(found, wanted)
        row[name] = measure_accuracy(found, wanted) | compare_noise(noise[name], noise["ort"])
    return row


def compile_in_openvino_of(model: onnx.ModelProto) -> Runner:
    """A float ONNX model in OpenVINO."""
    import openvino

    return compile_in_openvino(openvino.Core().read_model(model.SerializeToString()))


def main() -> None:
    """Measure one network and append its row to the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "kind",
        choices=[
            "openvino",
            "qnn",
            "qnn-a16",
            "portable",
            "litert",
            "litert-xnnpack",
            "litert-a16",
        ],
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("calibration", type=Path)
    parser.add_argument("evaluation", type=Path)
    parser.add_argument("--calibrate", type=int, default=128, help="calibration samples")
    parser.add_argument("--samples", type=int, default=128, help="evaluation samples")
    parser.add_argument("--effort", default="default")
    parser.add_argument("--transformer", action="store_true", help="NNCF's model type")
    parser.add_argument("--results", type=Path, default=Path("targets.jsonl"))
    options = parser.parse_args()
    commit = read_commit()
    packages = ["onnxruntime", "openvino", "nncf", "onnxruntime-qnn", "ai-edge-litert"]
    row = {
        "kind": options.kind, "model": options.model.stem, "samples": options.samples,
        "effort": options.effort, "commit": commit,
        "versions": {name: version(name) for name in packages},
    } | measure(options.kind, options)  # fmt: skip
    line = json.dumps(row)
    print(line)
    with options.results.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


if __name__ == "__main__":
    main()
