"""Speed of the integer executor against ONNX Runtime, LiteRT's reference kernels and onnx's ReferenceEvaluator.

    python benchmarks/executor.py [MODEL DATA] [--runs 9] [--threads 2]

* Executor: its time for whole networks, as a multiple of ONNX Runtime's float model on the same samples.
* ReferenceEvaluator: its time as a multiple of the executor's, for the QDQ network and for the same convolutions
  with the same inputs.
* Bound: the time of the layers' products alone, in float32 by BLAS, without depthwise layers. An executor in numpy
  can be faster than ReferenceEvaluator by at most the quotient of the two rows.

All rows run in one process with the same number of threads, interleaved. The result is the median; the smallest and
largest ratio of neighbouring runs show its spread. CPU time is that of all threads, including those that spin.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SAMPLE = Path(__file__).parent.parent / "sample_data"
SLOW_RUNS = 3  # runs of what takes seconds
WARMUP_RUNS = 2  # kernels are prepared when they first run
PAUSE = 0.02  # seconds in which the threads of the engine before stop spinning

Times = dict[str, list[tuple[float, float]]]


def main() -> None:
    """Measure all rows and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", nargs="?", default=SAMPLE / "fashion_mobilenet.onnx", type=Path)
    parser.add_argument("data", nargs="?", default=str(SAMPLE / "images" / "calibration"))
    parser.add_argument("--samples", type=int, default=16, help="for calibration")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    os.environ["PTQ_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(options.threads)

    from layers import record_layers
    from reference_layers import build_evaluator, build_network_evaluator
    from rich.console import Console
    from rich.table import Table

    from ptq.api.quantize import quantize
    from ptq.data import open_samples
    from ptq.data.splits import list_input_specs
    from ptq.executor.executor import Executor
    from ptq.model.graph import Graph
    from ptq.model.session.session import Session

    console = Console(width=120)
    graph = Graph.load(options.model)
    quantized = {
        name: quantize(graph, options.data, samples=options.samples, target=name).graph
        for name in ("ort", "litert")
    }
    samples = list(open_samples(options.data, list_input_specs(graph), limit=8))
    feeds = {batch: _stack_feeds([sample.feed for sample in samples[:batch]]) for batch in (1, 8)}

    base = "ONNX Runtime, float"
    engines: dict[str, Callable[[Any], Any]] = {
        base: Session(graph, threads=options.threads).run,
        "ONNX Runtime, int8": Session(quantized["ort"], threads=options.threads).run,
        "integers, ort": Executor(quantized["ort"], "ort").run,
        "integers, litert": Executor(quantized["litert"], "litert").run,
    }
    table = Table("engine", title=f"{options.model.name}, threads: {options.threads}; time × float")
    rows: dict[str, list[str]] = {name: [] for name in engines}
    for batch, feed in feeds.items():
        for column in (f"batch {batch}", "least … greatest", "CPU"):
            table.add_column(column, justify="right")
        calls = {name: _bind_feed(engine, feed) for name, engine in engines.items()}
        times = measure(calls, options.runs)
        for name in engines:
            rows[name] += format_ratios(times[name], times[base])
    for name, cells in rows.items():
        table.add_row(name, *cells)
    console.print(table)

    table = Table("by", title="time × integers")
    for column in ("of", "time", "least … greatest", "CPU", "integers that differ"):
        table.add_column(column, justify="right")

    for batch, feed in feeds.items():
        try:
            network = build_network_evaluator(quantized["ort"], feed)
            calls = {"integers": _bind_feed(engines["integers, ort"], feed), REFERENCE: network}
            times = measure(calls, min(options.runs, SLOW_RUNS), warm=1)
        except Exception as error:  # it lacks many operators, and says so by any exception
            console.print(f"{REFERENCE} cannot run the network: {str(error).splitlines()[0]}")
            break
        cells = format_ratios(times[REFERENCE], times["integers"])
        table.add_row(f"{REFERENCE}, QDQ", f"the network, batch {batch}", *cells, "")

    def row(name: str, kept: list[Any], others: list[Callable[[], Any]], batch: int = 1) -> None:
        calls = {
            "integers": _run_layers(kept),
            name: lambda: [other() for other in others],
        }
        differing = sum(
            int((other().reshape(-1) != by.reshape(-1)).sum())
            for other, by in zip(others, (_as_onnx(layer, name) for layer in kept), strict=True)
        )
        times = measure(calls, min(options.runs, SLOW_RUNS) if batch > 1 else options.runs)
        cells = format_ratios(times[name], times["integers"])
        table.add_row(name, f"{len(kept)} layers, batch {batch}", *cells, str(differing))

    try:
        from litert_layers import build_interpreter
    except ImportError:
        console.print("LiteRT is left out: pip install ai-edge-litert==2.3.0")
    else:
        kept = record_layers(quantized["litert"], feeds[1], "litert")
        row(LITERT, kept, [build_interpreter(layer, options.threads) for layer in kept])
    for batch, feed in feeds.items():
        kept = [x for x in record_layers(quantized["ort"], feed, "ort") if x.site.op == "Conv"]
        row(f"{REFERENCE}, QLinearConv", kept, [build_evaluator(layer) for layer in kept], batch)
        products = [product for layer in kept if (product := layer.product) is not None]
        calls = {
            "integers": _run_layers(kept),
            PRODUCTS: lambda made=products: [product() for product in made],
        }
        times = measure(calls, options.runs)
        cells = format_ratios(times[PRODUCTS], times["integers"])
        table.add_row(PRODUCTS, f"{len(products)} of these, batch {batch}", *cells, "")
    console.print(table)


LITERT, REFERENCE = "LiteRT, BUILTIN_REF", "onnx ReferenceEvaluator"
PRODUCTS = "float32 products by BLAS alone"


def measure(calls: Mapping[str, Callable[[], Any]], runs: int, warm: int = WARMUP_RUNS) -> Times:
    """Measure wall-clock and CPU seconds of every call, interleaved."""
    times: Times = {name: [] for name in calls}
    for run in range(runs + warm):
        for name, call in calls.items():
            time.sleep(PAUSE)
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            taken = (time.perf_counter() - wall, time.process_time() - cpu)
            if run >= warm:
                times[name].append(taken)
    return times


def format_ratios(times: list[tuple[float, float]], base: list[tuple[float, float]]) -> list[str]:
    """Format the ratio of the medians, the range of the neighbours' ratios, and the ratio in CPU time."""
    wall, cpu = (
        statistics.median(t[i] for t in times) / statistics.median(t[i] for t in base)
        for i in (0, 1)
    )
    each = [t[0] / b[0] for t, b in zip(times, base, strict=True)]
    return [f"{wall:.2f}", f"{min(each):.2f} … {max(each):.2f}", f"{cpu:.2f}"]


def _stack_feeds(samples: list[Mapping[str, Any]]) -> dict[str, Any]:
    import numpy as np

    return {name: np.concatenate([sample[name] for sample in samples]) for name in samples[0]}


def _bind_feed(engine: Callable[[Any], Any], feed: Any) -> Callable[[], Any]:
    return lambda: engine(feed)


def _run_layers(kept: list[Any]) -> Callable[[], Any]:
    return lambda: [layer.run() for layer in kept]


def _as_onnx(layer: Any, name: str) -> Any:
    """Transpose a layer's output to the layout of ONNX."""
    import numpy as np

    output = layer.run()
    return np.moveaxis(output, -1, 1) if name.startswith(REFERENCE) else output


if __name__ == "__main__":
    main()
