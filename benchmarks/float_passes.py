"""Float passes of a model in several processes at once: how much faster this machine runs on more cores.

Run: ``python benchmarks/float_passes.py MODEL [--processes 2] [--passes 200] [--runs 1]``. Each process has a session
of ONNX Runtime on one thread and random inputs, and shares nothing with the others but the processor and the memory.
``benchmarks/workers.py`` prints the ratio beside its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from statistics import median

_PASS = """
import sys, time
import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
types = {"float": "float32", "double": "float64"}
feed = {}
for one in session.get_inputs():
    shape, kind = [n if isinstance(n, int) else 1 for n in one.shape], one.type[len("tensor(") : -1]
    feed[one.name] = np.random.default_rng(0).random(shape).astype(types.get(kind, kind))
session.run(None, feed)
print("ready", flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(int(line)):
        session.run(None, feed)
    print(time.perf_counter() - start, flush=True)
"""


def measure_gain(model: str, processes: int, passes: int = 200) -> float:
    """How many times as fast the passes are when the processes share them as when one runs them all.

    One that starts after the others have ended would hide what they take from each other, so they start together.

    Args:
        model: The path of a model.
        processes: How many.
        passes: How many in all.
    """
    command = [sys.executable, "-c", _PASS, model]
    pipe = subprocess.PIPE
    children = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(processes)
    ]
    try:
        for child in children:
            if _read_line(child) != "ready":
                raise SystemExit(f"{model}: it does not run on random inputs")
        alone = _run_passes(children[:1], passes)
        return alone / _run_passes(children, passes // processes)
    finally:
        for child in children:
            child.kill()
            child.communicate()


def _run_passes(children: list[subprocess.Popen[str]], passes: int) -> float:
    """Seconds of the slowest of the processes, which run so many passes each."""
    for child in children:
        assert child.stdin is not None
        child.stdin.write(f"{passes}\n")
        child.stdin.flush()
    return max(float(_read_line(child)) for child in children)


def _read_line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def main() -> None:
    """Print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--passes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=1)
    given = parser.parse_args()
    gains = [measure_gain(given.model, given.processes, given.passes) for _ in range(given.runs)]
    spread = f" ({min(gains):.2f} to {max(gains):.2f})"
    print(f"{given.processes} processes: {median(gains):.2f} times as fast as one{spread}")


if __name__ == "__main__":
    main()
