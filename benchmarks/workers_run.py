"""One run of ``benchmarks/workers.py``: a quantization in a process set up as that of the command.

Run: ``python benchmarks/workers_run.py MODEL DATA SAMPLES WORKERS PREPROCESS MADE``. PREPROCESS is a JSON object. It
prints what it measured as JSON. Worker processes load this file too, so that it loads ptq only in `main`: the file
that starts the command does the same.
"""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

Times = tuple[float, float, float]
"""Seconds by the clock, processor time of this process, and processor time of its workers (Linux)."""

_NO_TIME = (0.0, 0.0, 0.0)


def main() -> None:
    """Quantize, and print the times."""
    from ptq_cli.process import prepare_long_job, prepare_process

    prepare_process()
    import ptq
    import ptq.evaluation.build_report as build_report
    from ptq.api.quantize import quantize
    from ptq.data.workers.worker_pool import ProcessPool

    model, data, preprocess, made = *sys.argv[1:3], json.loads(sys.argv[5]), sys.argv[6]
    samples, workers = map(int, sys.argv[3:5])
    stages, ended = StageTimes(), [_NO_TIME]
    logging.getLogger("ptq").setLevel(logging.INFO)
    logging.getLogger("ptq").addHandler(stages)
    measure_speed, stop_pool = build_report.measure_speed, ProcessPool.stop

    def measure_speed_timed(*args, **options):  # type: ignore[no-untyped-def] # takes what the other does
        start = read_times()
        try:
            return measure_speed(*args, **options)
        finally:
            stages.add("timing", start)

    def stop(pool: ProcessPool) -> None:
        ended[0] = read_times()  # afterwards the workers are gone
        stop_pool(pool)

    build_report.measure_speed = measure_speed_timed
    ProcessPool.stop = stop  # type: ignore[method-assign]
    prepare_long_job()
    start, busy = read_times(), read_busy_time()
    result = quantize(
        model,
        data,
        samples=samples,
        preprocess=ptq.Preprocess(**preprocess) if preprocess else None,
        threads=1,
        workers=workers,
        force=True,
    )
    clock, own, _ = subtract(read_times(), start)
    whole = clock, own, ended[0][2]
    foreign = read_busy_time() - busy - own - whole[2]
    result.save(made)
    content = Path(made).read_bytes() + result.plan.to_json().encode()
    digest = hashlib.sha256(content).hexdigest()
    found = {"whole": whole, "stages": stages.times, "foreign": foreign, "digest": digest}
    print(json.dumps(found))


class StageTimes(logging.Handler):
    """Takes the times of the stages from the log.

    Attributes:
        times: By stage, all its runs together.
    """

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[str, Times] = defaultdict(lambda: _NO_TIME)
        self._started: dict[str, Times] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Take the start or the end of a stage."""
        if record.msg == "%s: started%s":
            self._started[record.args[0]] = read_times()  # type: ignore[index]
        if record.msg == "%s: done (%s, %.1f s)":
            self.add(record.args[0], self._started[record.args[0]])  # type: ignore[index]

    def add(self, stage: str, start: Times) -> None:
        """Add the time since a start."""
        spent = subtract(read_times(), start)
        known = self.times[stage]
        self.times[stage] = known[0] + spent[0], known[1] + spent[1], known[2] + spent[2]


def read_times() -> Times:
    """The times until now."""
    ticks = os.sysconf("SC_CLK_TCK")
    others = 0.0
    for process in multiprocessing.active_children():
        try:
            text = Path(f"/proc/{process.pid}/stat").read_text()
        except OSError:
            continue
        fields = text.rsplit(")", 1)[1].split()
        others += (int(fields[11]) + int(fields[12])) / ticks
    return time.perf_counter(), time.process_time(), others


def subtract(end: Times, start: Times) -> Times:
    """The times between two moments."""
    return end[0] - start[0], end[1] - start[1], end[2] - start[2]


def read_busy_time() -> float:
    """The processor time of all programs of this machine; 0 if it is not known."""
    try:
        [first, *_] = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(map(int, first.split()[1:4])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
