"""Measurements of speed.py that are no multiple of a float pass of ``ptq quantize``; each with its limit.

calibration     counting histograms of EfficientNet-Lite0 over a float pass, from FOLDER; see calibration.py
growth          peak memory with 1,024 samples less that with 8, of calibrate and of both efforts of quantize
memory_limit    ``ptq calibrate --memory 300MB`` of light_densenet121: its peak, with the same bytes
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from speed_process import Cost, run_python

HERE = Path(__file__).parent
GROWING = HERE.parent / "sample_data" / "fashion_mobilenet.onnx"
FEW, MANY = 8, 1024
_MB = 2**20 / 1e6
_LIMIT_MB = 300


@dataclass(frozen=True)
class Check:
    """One measurement.

    Attributes:
        what: What was measured.
        figure: The median of the runs.
        unit: Its unit.
        limit: The largest figure that is allowed.
    """

    what: str
    figure: float
    unit: str
    limit: float


def check_calibration(folder: Path | None, spare: Path, runs: int) -> Iterator[Check]:
    """The cost of counting the tensors of EfficientNet-Lite0, over a float pass."""
    place = (folder or spare) / "efficientnet_lite0"
    if not (place / "model.onnx").exists():
        print("calibration: left out, the folder has no efficientnet_lite0", file=sys.stderr)
        return
    paths = [str(place / "model.onnx"), str(place / "calib.npz")]
    options = ["--runs", str(runs), "--ratio"]
    printed = run_python([str(HERE / "calibration.py"), *paths, *options], 1).printed
    yield Check("calibration, efficientnet_lite0", float(printed), "× float pass", 3.0)


def check_growth(folder: Path | None, spare: Path, runs: int) -> Iterator[Check]:
    """Peak memory with many samples less that with few, of the network of sample_data."""
    run_python([str(HERE / "speed_networks.py"), "growth", str(spare)], 1)
    evaluation = ["--eval", str(spare / f"{FEW}.npz")]
    for command in (["calibrate"], ["quantize", "--effort", "fast"], ["quantize"]):
        options = [*command[1:], *(evaluation if command[0] == "quantize" else ())]
        peaks = {
            count: statistics.median(
                _run_ptq(command[0], GROWING, spare / f"{count}.npz", spare, options).peak_mib
                for _ in range(runs)
            )
            for count in (FEW, MANY)
        }
        what = f"ptq {' '.join(command)}: peak with {MANY} samples less that with {FEW}"
        yield Check(what, (peaks[MANY] - peaks[FEW]) * _MB, "MB", 20)


def check_memory_limit(folder: Path | None, spare: Path, runs: int) -> Iterator[Check]:
    """The peak of a calibration with a limit of memory; if the limit is refused, the limit that would be taken.

    Raises:
        RuntimeError: The statistics differ from those without a limit, or the calibration fails.
    """
    run_python([str(HERE / "speed_networks.py"), "light_densenet121", str(spare)], 1)
    model, data, made = spare / "model.onnx", spare / "calib.npz", spare / "made"
    _run_ptq("calibrate", model, data, spare, [])
    whole, what = made.read_bytes(), f"ptq calibrate --memory {_LIMIT_MB}MB, light_densenet121"
    limit = ["--memory", f"{_LIMIT_MB}MB"]
    try:
        peaks = [_run_ptq("calibrate", model, data, spare, limit).peak_mib for _ in range(runs)]
    except RuntimeError as error:
        if (least := re.search(r"needs at least (\d+)MB", str(error))) is None:
            raise
        yield Check(f"{what}: refused, needs", float(least[1]), "MB", _LIMIT_MB)
        return
    if made.read_bytes() != whole:
        raise RuntimeError("the statistics with a limit of memory are not those without")
    yield Check(f"{what}: peak, same bytes", statistics.median(peaks) * _MB, "MB", _LIMIT_MB)


def _run_ptq(verb: str, model: Path, data: Path, spare: Path, options: list[str]) -> Cost:
    arguments = ["-m", "ptq", verb, str(model), "--data", str(data), *options]
    return run_python([*arguments, "--threads", "1", "-o", str(spare / "made")], 1)


CHECKS: Mapping[str, Callable[[Path | None, Path, int], Iterator[Check]]] = {
    "calibration": check_calibration,
    "growth": check_growth,
    "memory_limit": check_memory_limit,
}
