"""What speed.py compares ptq with; each command prints its CPU seconds, without imports, and how many samples it ran.

    python benchmarks/speed_baselines.py pass MODEL DATA THREADS
    python benchmarks/speed_baselines.py opening MODEL DATA THREADS
    python benchmarks/speed_baselines.py evaluations FLOAT INT8 FOLDER THREADS

``pass`` runs the float model in plain ONNX Runtime on each row of an .npz file, one by one. The time of opening the
model and of reading the file does not count. ``opening`` counts the opening too.
``evaluations`` measures the float model, the quantized model and the integer executor on a folder of images, as the
report of ``ptq quantize`` does. The time of opening the models counts.
"""

from __future__ import annotations

import sys
import time
from functools import partial

import numpy as np
import onnxruntime


def time_float_pass(
    model: str, data: str, threads: int, *, opening: bool = False
) -> tuple[float, int]:
    """Return the CPU seconds of one run of each sample, and of the opening of the model if asked; and the samples."""
    first = time.process_time()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    opened = time.process_time() - first
    with np.load(data) as file:
        arrays = {i.name: file[i.name] for i in session.get_inputs()}
    rows = len(next(iter(arrays.values())))
    start = time.process_time()
    for row in range(rows):
        session.run(None, {name: array[row : row + 1] for name, array in arrays.items()})
    return time.process_time() - start + (opened if opening else 0.0), rows


def time_evaluations(
    float_model: str, int8_model: str, folder: str, threads: int
) -> tuple[float, int]:
    """Return the CPU seconds of the three evaluations of the report, and the number of samples."""
    from ptq.core.run_options import DEFAULT_RUN
    from ptq.data.splits import SampleOptions
    from ptq.evaluation.evaluate import evaluate_engines
    from ptq.evaluation.runs.engines import make_integer_engine, make_session_engine
    from ptq.model.node import get_name
    from ptq.model.open import open_model
    from ptq.model.session.session import Session
    from ptq.verification.ort_like_executor import build_ort_like_executor

    start = time.process_time()
    graph, quantized = open_model(float_model), open_model(int8_model)
    samples = SampleOptions().open(folder, quantized)  # prepared as the model records
    evaluate_engines(
        make_session_engine(Session(graph, threads=threads)),
        {
            "int8": make_session_engine(Session(quantized, threads=threads)),
            "integers": make_integer_engine(build_ort_like_executor(quantized, "ort"), quantized),
        },
        samples,
        [get_name(v) for v in graph.outputs],
        batch=DEFAULT_RUN.evaluation_batch,
    )
    return time.process_time() - start, len(samples)


def main() -> None:
    """Measure what the arguments name and print the seconds."""
    work, *paths, threads = sys.argv[1:]
    measures = {
        "pass": time_float_pass,
        "opening": partial(time_float_pass, opening=True),
        "evaluations": time_evaluations,
    }
    print(*measures[work](*paths, int(threads)))


if __name__ == "__main__":
    main()
