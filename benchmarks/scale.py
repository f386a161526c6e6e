"""Calibration against the number of samples and of workers, and a model of more than was measured.

Run: ``python benchmarks/scale.py MODEL FOLDER [--samples 8,128,1024,10000] [--workers 1,2,4]``. FOLDER holds
images or .npz files; they are linked as often as needed, under other names. Each run is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

_RUN = """
import json, resource, sys, time
import ptq
if __name__ == "__main__":
    model, data, workers, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
    preprocess = ptq.Preprocess(**options) if options else None
    start = time.perf_counter()
    found = ptq.calibrate(model, data, preprocess=preprocess, threads=1, workers=workers)
    seconds = time.perf_counter() - start
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
    size = len(found.to_bytes())
    print(json.dumps({"seconds": seconds, "cpu": cpu, "mib": own.ru_maxrss / 1024, "statistics": size}))
"""


def fill_folder(source: Path, folder: Path, count: int) -> None:
    """Link the samples of a folder until there are ``count``."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    for number in range(count):
        file = files[number % len(files)]
        (folder / f"{number:07}{file.suffix}").symlink_to(file.resolve())


def measure(model: str, data: Path, workers: int, options: dict[str, object]) -> dict[str, float]:
    """Seconds, processor seconds, peak memory of the main process in MiB, and bytes of the statistics of one run."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "run.py"
        script.write_text(_RUN)
        command = [sys.executable, str(script), model, str(data), str(workers), json.dumps(options)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print one row for each number of samples and workers, then the estimate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", default="8,128,1024,10000")
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--mean", type=float)
    parser.add_argument("--std", type=float)
    given = parser.parse_args()
    options: dict[str, object] = {}
    if given.mean is not None:
        options = {"mean": (given.mean,), "std": (given.std or 1.0,)}
    rows: dict[tuple[int, int], dict[str, float]] = {}
    print("| samples | workers | s | processor s | MiB |")
    print("|---|---|---|---|---|")
    for count in map(int, given.samples.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            fill_folder(given.folder, Path(folder), count)
            for workers in map(int, given.workers.split(",")):
                row = rows[count, workers] = measure(given.model, Path(folder), workers, options)
                seconds = f"{row['seconds']:.1f} | {row['cpu']:.1f}"
                print(f"| {count} | {workers} | {seconds} | {row['mib']:.0f} |", flush=True)
    _print_estimate(rows)


def _print_estimate(rows: dict[tuple[int, int], dict[str, float]]) -> None:
    """What 10 million samples on 64 workers take: the processor time of a sample, on each worker."""
    samples = sorted({count for count, _ in rows})
    first, last = rows[samples[0], 1], rows[samples[-1], 1]
    each = (last["cpu"] - first["cpu"]) / (samples[-1] - samples[0])
    shards = 64 * 64
    print(f"\nfixed {first['cpu'] - each * samples[0]:.2f} s, each sample {1000 * each:.2f} ms")
    print(f"10 million samples on 64 workers: {1e7 * each / 64 / 3600:.1f} h of running")
    print(f"results: {shards} shards × {last['statistics'] / 1e6:.2f} MB to one scheduler")


if __name__ == "__main__":
    main()
