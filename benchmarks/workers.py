"""``ptq quantize`` on one process and on several: seconds of each stage, and whether the bytes are the same.

Run: ``python benchmarks/workers.py MODEL DATA [--samples 512] [--workers 1,2] [--runs 1]``. DATA is a folder, or
arrays in an .npz. Each process computes on one thread. Each run is a process of its own, set up as that of the
command. The numbers of workers take turns, so that a machine whose speed changes is as fast for one as for the
other; each time and each ratio is the median over the turns. For figures of the wall clock the machine must have a
free core for each worker. Beside each time stands the processor time of the main process, and that of the others
(Linux): no stage is faster than the longer of the two. The last lines tell what other programs took of the processors
meanwhile, and how much faster plain float passes were in so many processes, which share nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from float_passes import measure_gain

OVER_SAMPLES = (
    "measuring channels",
    "comparing candidates",
    "calibrating",
    "choosing ranges",
    "rounding",
    "attributing the error",
    "evaluating",
)
"""Stages whose samples workers share."""

_RUN = Path(__file__).with_name("workers_run.py")


def measure(model: str, data: str, samples: int, workers: int, options: str) -> dict[str, Any]:
    """The times of a quantization and of its stages: by the clock, of the main process, of the others."""
    with tempfile.TemporaryDirectory() as folder:
        made = str(Path(folder) / "made.onnx")
        done = subprocess.run(
            [sys.executable, str(_RUN), model, data, str(samples), str(workers), options, made],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
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
    counts = [*map(int, given.workers.split(","))]
    for samples in map(int, given.samples.split(",")):
        turns, gains = [], []
        for _ in range(given.runs):
            turns.append(
                {
                    workers: measure(given.model, given.data, samples, workers, json.dumps(options))
                    for workers in counts
                }
            )
            gains.append(measure_gain(given.model, max(counts)))
        _print_table(samples, turns)
        print(
            f"plain float passes in {max(counts)} processes: {median(gains):.2f}× as fast "
            f"({min(gains):.2f} to {max(gains):.2f})",
            flush=True,
        )


def _list_times(run: dict[str, Any]) -> dict[str, list[float]]:
    """The times of each stage, and of several together."""
    none = [0.0, 0.0, 0.0]
    each = {stage: run["stages"].get(stage, none) for stage in OVER_SAMPLES}
    over = [sum(column) for column in zip(*each.values(), strict=True)]
    timing = run["stages"].get("timing", none)
    rest = [whole - part for whole, part in zip(run["whole"], timing, strict=True)]
    return {**each, "**stages over samples**": over, "**the whole without timing**": rest}


def _print_table(samples: int, turns: list[dict[int, dict[str, Any]]]) -> None:
    times = [{workers: _list_times(run) for workers, run in turn.items()} for turn in turns]
    print(f"\n{samples} samples, medians of {len(turns)}\n")
    heads = [f"{w} workers, s | processor s" for w in turns[0]]
    print(f"| stage | {' | '.join(heads)} | faster |")
    print("|---" * (2 * len(heads) + 2) + "|")
    first, last = min(turns[0]), max(turns[0])
    for stage in times[0][first]:
        cells = []
        for workers in turns[0]:
            columns = zip(*(turn[workers][stage] for turn in times), strict=True)
            wall, own, others = map(median, columns)
            cells.append(f"{wall:.1f} | {own:.1f} + {others:.1f}")
        gains = [turn[first][stage][0] / max(turn[last][stage][0], 1e-9) for turn in times]
        spread = f" ({min(gains):.2f} to {max(gains):.2f})" if len(gains) > 1 else ""
        print(f"| {stage} | {' | '.join(cells)} | {median(gains):.2f}×{spread} |")
    runs = [(workers, run) for turn in turns for workers, run in turn.items()]
    same = len({str(run["digest"]) for _, run in runs}) == 1
    print(f"\nmodel and plan: {'the same bytes' if same else 'DIFFERENT BYTES'}")
    foreign = ", ".join(
        f"{max(run['foreign'] for w, run in runs if w == workers):.1f} s with {workers}"
        for workers in turns[0]
    )
    print(f"processor time of other programs, at most: {foreign}", flush=True)


if __name__ == "__main__":
    main()
