"""Speed and accuracy of a `.tflite` file of ptq beside the file that ai-edge-quantizer makes of the same network.

    pip install onnx-ptq[litert] ai-edge-quantizer==0.10.0
    python benchmarks/tflite_speed.py MODEL.onnx OURS.tflite --data SAMPLES.npz [--samples 64] [--runs 200]

OURS.tflite is what ``ptq quantize MODEL.onnx --target litert -o OURS.tflite`` wrote. ai-edge-quantizer reads a float
`.tflite` file: the same network, written by ptq's own writer, so that both files have the same operators around the
quantizers. Its recipe is ``static_wi8_ai8``: int8 weights by channel, int8 activations, ranges of the first samples.

All files run in LiteRT's default kernels on one thread. Runs alternate between them. Times are the least one and the
median; SQNR and agreement are against ONNX Runtime's float, on the last samples of the file.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.executor.tflite_export import encode_tflite
from ptq.model.session.session import Session
from ptq.model.tflite.interpreter import LitertModel
from ptq.rewrite.prepare.prepare import open_and_prepare
from ptq.rewrite.tflite.write import TfliteOptions

_WARM_UP = 10
Feed = Mapping[str, NDArray[Any]]


def quantize_with_ai_edge(float_file: bytes, feeds: list[Feed]) -> bytes:
    """The file of ai-edge-quantizer, calibrated on the feeds in the axes of the float file."""
    from ai_edge_quantizer import quantizer, recipe

    job = quantizer.Quantizer(float_file)
    job.load_quantization_recipe(recipe.static_wi8_ai8())
    ranges = job.calibrate({"serving_default": feeds}, num_threads=1)
    return bytes(job.quantize(ranges).quantized_model)


def measure_times(
    models: Mapping[str, LitertModel], feed: Feed, runs: int
) -> dict[str, list[float]]:
    """Seconds of each run; the models run in turns."""
    taken: dict[str, list[float]] = {name: [] for name in models}
    for number in range(_WARM_UP + runs):
        for name, model in models.items():
            start = perf_counter()
            model.run(feed)
            if number >= _WARM_UP:
                taken[name].append(perf_counter() - start)
    return taken


def measure_accuracy(
    model: LitertModel, feeds: list[Feed], expected: NDArray[Any]
) -> tuple[float, float]:
    """SQNR in dB of the first output, and the share of samples with float's best class."""
    found = np.concatenate([model.run(feed)[model.outputs[0]] for feed in feeds])
    noise = float(np.square(expected - found).sum())
    agreement = float(np.mean(expected.argmax(-1) == found.argmax(-1)))
    return 10 * float(np.log10(np.square(expected).sum() / noise)), agreement


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("ours", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    graph = open_and_prepare(options.model)[1].graph
    names = [value.name or "" for value in graph.inputs]
    with np.load(options.data) as stored:
        rows = {name: stored[name] for name in names}
    count = len(rows[names[0]])
    feeds: list[Feed] = [{n: a[at : at + 1] for n, a in rows.items()} for at in range(count)]
    calibration, evaluation = feeds[: options.samples], feeds[-options.samples :]

    file = encode_tflite(graph, TfliteOptions(static_batch=1))
    stored_feeds = [
        {n: np.ascontiguousarray(a.transpose(file.orders[n])) for n, a in feed.items()}
        for feed in calibration
    ]
    theirs = quantize_with_ai_edge(file.content, stored_feeds)
    contents = {
        "float": file.content,
        "ai-edge-quantizer": theirs,
        "ptq": options.ours.read_bytes(),
    }
    models = {name: LitertModel(content, threads=1) for name, content in contents.items()}
    taken = measure_times(models, evaluation[0], options.runs)
    session = Session(open_and_prepare(options.model)[0], threads=1)
    expected = np.concatenate([session.run(feed)[0] for feed in evaluation])
    print(f"{'file':20}{'MB':>7}{'least ms':>10}{'median ms':>11}{'dB':>7}{'agrees':>9}")
    for name, times in taken.items():
        sqnr, agreement = measure_accuracy(models[name], evaluation, expected)
        print(
            f"{name:20}{len(contents[name]) / 1e6:7.2f}{min(times) * 1e3:10.3f}"
            f"{statistics.median(times) * 1e3:11.3f}{sqnr:7.1f}{agreement:9.1%}"
        )


if __name__ == "__main__":
    main()
