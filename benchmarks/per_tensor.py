"""Per-tensor weights, and target litert: accuracy in ONNX Runtime and in the target's own integers.

    python benchmarks/per_tensor.py FOLDER [--tasks NAME ...] [--json FILE]

accuracy.py documents the layout of FOLDER. ``--json`` keeps the figures for the page docs/accuracy.md
(accuracy_tables.py).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accuracy import BATCH, Task, find_tasks, list_figures, quantize_task
from accuracy_tables import PER_TENSOR, format_result
from result_files import describe_code, write_result

from ptq.data.splits import has_free_batch
from ptq.evaluation.evaluate import evaluate_engines
from ptq.evaluation.runs.engines import make_session_engine, open_integer_engine
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session.exact_sums import has_exact_int8_sums
from ptq.model.session.session import Session

LITERT = "litert"
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "`--per-tensor`": {"per_tensor": True},
    "`--target litert`": {"target": LITERT},
    "`--target litert --per-tensor`": {"target": LITERT, "per_tensor": True},
}
"""Options of ``ptq.quantize``, by name of the row."""


def measure_task(task: Task) -> dict[str, Any]:
    """Quantize with each setting, and evaluate; return the task's figures as accuracy_tables.py reads them."""
    graph = Graph.load(task.model)
    engines = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, options in SETTINGS.items():
            path = Path(folder) / "int8.onnx"
            quantize_task(task, **options).save(path)
            made = Graph.load(path)
            integers = options.get("target") == LITERT
            engines[f"{name}, ONNX Runtime" if integers else name] = make_session_engine(
                Session(made, threads=1)
            )
            if integers:
                engines[f"{name}, LiteRT's integers"] = open_integer_engine(made, LITERT)
    found = evaluate_engines(
        make_session_engine(Session(graph, threads=1)),
        engines,
        task.open(task.evaluation),
        [get_name(output) for output in graph.outputs],
        batch=BATCH if has_free_batch(graph) else 1,
    )
    return list_figures(found, {}, {}, {}, len(list(task.open(task.calibration))), {})


def main() -> None:
    """Measure all tasks and print their tables."""
    if not has_exact_int8_sums():
        raise SystemExit(
            "the sums of this processor's int8 products are not exact; use one with VNNI"
        )
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--json", type=Path, help="put the figures into this file of results")
    options, code = parser.parse_args(), describe_code()
    with tempfile.TemporaryDirectory() as spare:
        for task in find_tasks(options.folder, options.tasks, Path(spare)):
            figures = measure_task(task)
            print(f"### {task.name}\n\n{format_result({'measured': code, **figures})}", flush=True)
            if options.json is not None:
                write_result(options.json, task.name + PER_TENSOR, figures, code)


if __name__ == "__main__":
    main()
