"""Calibration against the number of samples and of workers, and a model of more than was measured.

Run: ``python benchmarks/scale.py MODEL FOLDER [--samples 8,128,1024,10000] [--workers 1,2,4] [--store URL]``. FOLDER
holds images or .npz files; they are linked as often as needed, under other names. Each run is a process of its own.
``--store`` names a copy of FOLDER in a store, whose reading is measured too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

_SAMPLES, _WORKERS = 10**7, 64
"""What the model is asked for."""
_SHARDS = 64 * _WORKERS
_IMAGE_BYTES = 20_000
"""An image of 224 × 224 as JPEG."""
_NETWORK_BYTES = 1.25e9
"""What one network card of 10 Gbit/s reads in a second."""

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
_PARTS = """
import json, sys, time
import ptq
from ptq.data.splits import SampleOptions
from ptq.model.open import open_model
if __name__ == "__main__":
    model, data, store, options = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
    preprocess = ptq.Preprocess(**options) if options else None
    reading, graph = SampleOptions(preprocess), open_model(model)

    def measure(work):
        start, before = time.perf_counter(), time.process_time()
        found = work()
        return found, time.perf_counter() - start, time.process_time() - before

    samples = reading.open(data, graph)
    count, read, read_cpu = measure(lambda: sum(1 for _ in samples))
    shards = [ptq.calibrate(model, data, preprocess=preprocess, shard=(k, 32), threads=1) for k in range(4)]
    _, merge, _ = measure(lambda: [shards[0].merge(other) for other in shards[1:]])
    found = {"read": read / count, "merge": merge / 3, "result": len(shards[0].to_bytes())}
    if store:
        remote = reading.open(store, graph)
        count, seconds, cpu = measure(lambda: sum(1 for _ in remote))
        found |= {"stored": count, "store": seconds / count, "store_cpu": cpu / count}
    print(json.dumps(found))
"""

_LISTING = """
import json, sys, time
import ptq
from ptq.calibration.identify import digest_listing
from ptq.data.splits import SampleOptions
from ptq.model.open import open_model
if __name__ == "__main__":
    options, graph = json.loads(sys.argv[3]), open_model(sys.argv[1])
    reading = SampleOptions(ptq.Preprocess(**options) if options else None)
    start = time.perf_counter()
    samples = reading.open(sys.argv[2], graph)
    digest_listing(samples)
    print(json.dumps({"listing": (time.perf_counter() - start) / len(samples)}))
"""


def fill_folder(source: Path, folder: Path, count: int) -> None:
    """Link the samples of a folder until there are ``count``."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    for number in range(count):
        file = files[number % len(files)]
        (folder / f"{number:07}{file.suffix}").symlink_to(file.resolve())


def run_script(script: str, *arguments: object) -> dict[str, float]:
    """The JSON that a script prints in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.py"
        path.write_text(script)
        command = [sys.executable, str(path), *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print one row for each number of samples and workers; of one worker the parts and the estimate too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", default="8,128,1024,10000")
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--store", default="")
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
                row = run_script(_RUN, given.model, folder, workers, json.dumps(options))
                rows[count, workers] = row
                seconds = f"{row['seconds']:.1f} | {row['cpu']:.1f}"
                print(f"| {count} | {workers} | {seconds} | {row['mib']:.0f} |", flush=True)
            listed = run_script(_LISTING, given.model, folder, json.dumps(options))
    print(f"listing: {1e6 * listed['listing']:.1f} µs a name ({count} names)")
    if len({count for count, workers in rows if workers == 1}) < 2:
        return
    parts = run_script(_PARTS, given.model, given.folder, given.store, json.dumps(options))
    print_estimate(rows, {**parts, **listed})


def print_estimate(rows: dict[tuple[int, int], dict[str, float]], parts: dict[str, float]) -> None:
    """What 10 million samples on 64 workers take, by the measured parts, and which part fills up first."""
    samples = sorted({count for count, workers in rows if workers == 1})
    first, last = rows[samples[0], 1], rows[samples[-1], 1]
    each = (last["cpu"] - first["cpu"]) / max(samples[-1] - samples[0], 1)
    fixed = first["cpu"] - each * samples[0]
    of_worker = _SAMPLES / _WORKERS
    reading = parts.get("store", 0.0)
    print(
        f"\nmeasured: start and load {fixed:.2f} s; a sample {1000 * each:.2f} ms with reading from a disk"
    )
    print(f"reading alone: {1000 * parts['read']:.2f} ms from a disk")
    if reading:
        share = f"{1000 * reading:.2f} ms, of which processor {1000 * parts['store_cpu']:.2f} ms"
        print(f"reading alone from the store: {share} ({parts['stored']:.0f} samples)")
    print(
        f"listing: {1e6 * parts['listing']:.1f} µs a name; merging: {1000 * parts['merge']:.1f} ms a shard"
    )
    run = max(each - parts["read"], 0.0) + max(reading, parts["read"])
    rate = _WORKERS / run
    print("\n10 million samples on 64 workers of one core:")
    print(f"  counting, on each worker: {of_worker * run / 60:.1f} min")
    print(
        f"  listing, in the process that merges: {_SAMPLES * parts['listing'] / 60:.1f} min before they start"
    )
    merged = f"{_SHARDS * parts['merge'] / 60:.1f} min, {_SHARDS * parts['result'] / 1e9:.1f} GB"
    print(f"  merging {_SHARDS} shards, meanwhile: {merged}")
    print(
        f"  the store gives {rate:.0f} samples a second: {rate * _IMAGE_BYTES / 1e6:.0f} MB/s of {_IMAGE_BYTES} bytes"
    )
    fills = {
        "the store's connections": rate * _IMAGE_BYTES / _NETWORK_BYTES,
        "the process that merges": parts["merge"] * _SHARDS / (of_worker * run),
    }
    for what, part in sorted(fills.items(), key=lambda item: -item[1]):
        print(f"  {what}: {100 * part:.0f} % busy, full at {_WORKERS / part:.0f} workers")


if __name__ == "__main__":
    main()
