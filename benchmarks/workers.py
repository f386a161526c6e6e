"""``ptq quantize`` on one process and on several: seconds of each stage, and whether the bytes are the same.

Run: ``python benchmarks/workers.py MODEL DATA [--samples 512] [--workers 1,2] [--runs 1]``. DATA is a folder, or
arrays in an .npz. Each process computes on one thread. Each run is a process of its own; the fastest of the runs
counts. For figures of the wall clock the machine must have a free core for each worker.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

OVER_SAMPLES = (
    "measuring channels",
    "comparing forms",
    "calibrating",
    "choosing ranges",
    "rounding",
    "attributing the error",
    "evaluating",
)
"""Stages whose samples workers share."""

_RUN = """
import collections, hashlib, json, logging, sys, time
import ptq
import ptq.evaluation.assess as assess

stages = collections.Counter()


class Stages(logging.Handler):
    def emit(self, record):
        if record.msg == "%s: done (%s, %.1f s)":
            name, _, seconds = record.args
            stages[name] += seconds


def timed(measure):
    def run(*args, **options):
        start = time.perf_counter()
        try:
            return measure(*args, **options)
        finally:
            stages["timing"] += time.perf_counter() - start

    return run


if __name__ == "__main__":
    model, data, samples, workers, options = *sys.argv[1:3], *map(int, sys.argv[3:5]), json.loads(sys.argv[5])
    logging.getLogger("ptq").setLevel(logging.INFO)
    logging.getLogger("ptq").addHandler(Stages())
    assess.measure_speed = timed(assess.measure_speed)
    preprocess = ptq.Preprocess(**options) if options else None
    start = time.perf_counter()
    result = ptq.quantize(model, data, samples=samples, preprocess=preprocess, threads=1, workers=workers, force=True)
    seconds = time.perf_counter() - start
    result.save(sys.argv[6])
    content = open(sys.argv[6], "rb").read() + result.plan.to_json().encode()
    print(json.dumps({"seconds": seconds, "stages": stages, "digest": hashlib.sha256(content).hexdigest()}))
"""


def measure(model: str, data: str, samples: int, workers: int, options: str) -> dict[str, object]:
    """Seconds of a quantization, of its stages, and the digest of the model and the plan."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "run.py"
        script.write_text(_RUN)
        made = str(Path(folder) / "made.onnx")
        done = subprocess.run(
            [sys.executable, str(script), model, data, str(samples), str(workers), options, made],
            env={**os.environ, "PTQ_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print a table of the stages by number of workers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--samples", default="512")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--mean", type=float)
    parser.add_argument("--std", type=float)
    given = parser.parse_args()
    options = {} if given.mean is None else {"mean": (given.mean,), "std": (given.std or 1.0,)}
    for samples in map(int, given.samples.split(",")):
        rows = {}
        for workers in map(int, given.workers.split(",")):
            runs = [
                measure(given.model, given.data, samples, workers, json.dumps(options))
                for _ in range(given.runs)
            ]
            rows[workers] = min(runs, key=lambda run: float(str(run["seconds"])))
        _print_table(samples, rows)


def _print_table(samples: int, rows: dict[int, dict[str, object]]) -> None:
    times: dict[int, dict[str, float]] = {}
    for workers, row in rows.items():
        stages, whole = row["stages"], row["seconds"]
        assert isinstance(stages, dict)
        assert isinstance(whole, float)
        over = sum(stages.get(stage, 0.0) for stage in OVER_SAMPLES)
        rest = whole - stages.get("timing", 0.0)
        times[workers] = {
            **{stage: stages.get(stage, 0.0) for stage in OVER_SAMPLES},
            "**stages over samples**": over,
            "**the whole without timing**": rest,
        }
    print(f"\n{samples} samples\n")
    print(f"| stage | {' | '.join(f'{w} workers, s' for w in rows)} | faster |")
    print("|---" * (len(rows) + 2) + "|")
    first, last = min(rows), max(rows)
    for stage, alone in times[first].items():
        cells = " | ".join(f"{times[w][stage]:.1f}" for w in rows)
        print(f"| {stage} | {cells} | {alone / max(times[last][stage], 1e-9):.2f}× |")
    same = len({str(row["digest"]) for row in rows.values()}) == 1
    print(f"\nmodel and plan: {'the same bytes' if same else 'DIFFERENT BYTES'}", flush=True)


if __name__ == "__main__":
    main()
