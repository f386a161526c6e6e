"""Speed benchmark: CPU time of ``ptq quantize`` as a multiple of one plain float pass, with the limit of each figure.

    python benchmarks/speed.py [FOLDER] [--only NAME ...] [--runs 5] [--threads 1] [--json]

FOLDER has the networks that are not part of this project, laid out as for accuracy.py: NAME/model.onnx and
NAME/calib.npz. ``benchmarks/wheels.py`` writes both. Networks that FOLDER lacks are left out.

    efficientnet_lite0       128 images of 224 × 224          from FOLDER
    ocr_recognition_wide     PP-OCRv4, 64 lines of 48 × 480   from FOLDER
    bert_base                random weights, 32 texts of 64 tokens
    resnet50                 random weights, 64 images of 224 × 224
    light_vgg19              the onnx package's, 4 images of 224 × 224
    sample_data              the command of the README
    two_gigabytes            random weights of 2 GB, 16 rows; only with --only, for its peak memory
    calibration, growth, memory_limit: see ``speed_checks.py``

Each command runs in a process of its own. The operating system counts the CPU time of all its threads, and its peak
memory. Every figure is the median of the runs.

* float pass: ONNX Runtime on all samples of NAME/calib.npz, one by one, without imports and opening of the model. For
  light_vgg19 with the opening. For sample_data: the three evaluations of the report alone, and the imports.
* default, fast: ``ptq quantize MODEL --data NAME/calib.npz`` with its imports, over the float pass. A fifth of the
  samples is held out for the report if there are 50. ``--eval-samples N`` takes N of the samples for the report
  instead, and calibrates on all.
* peak: the larger one of both efforts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from speed_checks import CHECKS, Check
from speed_process import Cost, run_python

HERE = Path(__file__).parent
SAMPLE = HERE.parent / "sample_data"
README_MODEL = str(SAMPLE / "fashion_mobilenet.onnx")
README_OPTIONS = (
    "--data", str(SAMPLE / "images" / "calibration"), "--eval", str(SAMPLE / "images" / "evaluation"),
    "--mean", "0.2860", "--std", "0.3530",
)  # fmt: skip
FROM_FOLDER = ("efficientnet_lite0", "ocr_recognition_wide")
BUILT = ("bert_base", "resnet50", "light_vgg19")
OPENED = ("light_vgg19",)
"""Networks whose float pass includes the opening of the model: their weights are made there."""
README = "sample_data"
EFFORTS = ("default", "fast")


@dataclass(frozen=True)
class Limits:
    """What a network may cost; None for no limit.

    Attributes:
        default: Multiple of the float pass with the default effort.
        fast: The same with ``--effort fast``.
        peak_mb: Peak memory in MB.
    """

    default: float | None = None
    fast: float | None = None
    peak_mb: float | None = None


LIMITS = {
    "efficientnet_lite0": Limits(15, 8),
    "ocr_recognition_wide": Limits(20, 8),
    "bert_base": Limits(25, 8, 2500),
    "resnet50": Limits(12, 8),
    "light_vgg19": Limits(8),
    "sample_data": Limits(2.7),
    "two_gigabytes": Limits(None, None, 6442),
}


@dataclass(frozen=True)
class Row:
    """Medians of one network.

    Attributes:
        network: Name of the network.
        samples: Samples of the float pass.
        base: CPU seconds of the float pass, or of the imports and the evaluations.
        seconds: CPU seconds of ``ptq quantize`` for each effort.
        ratios: Median of the runs' ratios of the two, for each effort.
        peak_mb: Peak memory of ``ptq quantize`` in MB, the larger one of the efforts.
        limits: What is allowed.
    """

    network: str
    samples: int
    base: float
    seconds: dict[str, float]
    ratios: dict[str, float]
    peak_mb: float
    limits: Limits


def measure_imports(threads: int) -> float:
    """CPU seconds of ``import ptq.api.quantize``, which loads every library."""
    return run_python(["-c", "import ptq.api.quantize"], threads).seconds


def measure_baseline(work: str, paths: Sequence[str], threads: int) -> tuple[float, int]:
    """CPU seconds and number of samples that speed_baselines.py prints."""
    arguments = [str(HERE / "speed_baselines.py"), work, *paths, str(threads)]
    seconds, samples = run_python(arguments, threads).printed.split()
    return float(seconds), int(samples)


def quantize(model: str, options: Sequence[str], effort: str, threads: int, output: str) -> Cost:
    """Run ``ptq quantize``."""
    arguments = ["-m", "ptq", "quantize", model, *options, "--effort", effort]
    return run_python([*arguments, "--threads", str(threads), "-o", output, "--force"], threads)


def measure_network(
    network: str,
    runs: int,
    measure_base: Callable[[], tuple[float, int]],
    measure_effort: Callable[[str], Cost],
) -> Row:
    """Measure a network so many times, base and quantizations in turn; return the medians."""
    bases, costs, samples = [], dict[str, list[Cost]](), 0
    for _ in range(runs):
        for effort in EFFORTS:
            costs.setdefault(effort, []).append(measure_effort(effort))
        base, samples = measure_base()  # of sample_data, it needs the quantized model
        bases.append(base)
    return Row(
        network,
        samples,
        statistics.median(bases),
        {e: statistics.median(cost.seconds for cost in costs[e]) for e in EFFORTS},
        {
            e: statistics.median(c.seconds / b for c, b in zip(costs[e], bases, strict=True))
            for e in EFFORTS
        },
        max(statistics.median(c.peak_mib for c in costs[e]) for e in EFFORTS) * 2**20 / 1e6,
        LIMITS[network],
    )


def measure_place(network: str, place: Path, asked: argparse.Namespace, output: str) -> Row:
    """Measure the network in a folder."""
    model, data = str(place / "model.onnx"), str(place / "calib.npz")
    options = ["--data", data]
    if asked.eval_samples:
        options += ["--eval", write_rows(data, output, asked.eval_samples)]
    work = "opening" if network in OPENED else "pass"
    return measure_network(
        network,
        asked.runs,
        lambda: measure_baseline(work, [model, data], asked.threads),
        lambda effort: quantize(model, options, effort, asked.threads, output),
    )


def write_rows(data: str, output: str, rows: int) -> str:
    """Write the first rows of an .npz file beside the output; return the path."""
    path = f"{output}.npz"
    code = "import sys, numpy as np; a = np.load(sys.argv[1]); n = int(sys.argv[3]); "
    code += "np.savez(sys.argv[2], **{k: v[:n] for k, v in a.items()})"
    run_python(["-c", code, data, path, str(rows)], 1)
    return path


def measure_readme(asked: argparse.Namespace, output: str) -> Row:
    """Measure the command of the README, and its imports and evaluations alone."""
    paths = [README_MODEL, output, str(SAMPLE / "images" / "evaluation")]

    def measure_base() -> tuple[float, int]:
        seconds, samples = measure_baseline("evaluations", paths, asked.threads)
        return seconds + measure_imports(asked.threads), samples

    return measure_network(
        README,
        asked.runs,
        measure_base,
        lambda effort: quantize(README_MODEL, README_OPTIONS, effort, asked.threads, output),
    )


def measure_all(asked: argparse.Namespace, spare: Path) -> Iterator[Row]:
    """Measure each network that is present, with each effort."""
    output = str(spare / "int8.onnx")
    wanted = asked.only or (*FROM_FOLDER, *BUILT, README)
    for network in (name for name in wanted if name in LIMITS):
        if network == README:
            yield measure_readme(asked, output)
            continue
        built = network not in FROM_FOLDER
        place = (spare if built else asked.folder or spare) / network
        if built:
            run_python([str(HERE / "speed_networks.py"), network, str(place)], 1)
        if not (place / "model.onnx").exists():
            print(f"{network}: left out, the folder has no {network}/model.onnx", file=sys.stderr)
            continue
        yield measure_place(network, place, asked, output)


def format_row(row: Row) -> str:
    """Format a row of the Markdown table, the limit beside each figure."""
    cells = [row.network, str(row.samples), f"{row.base:.2f}"]
    for figure, digits, limit in (
        (row.ratios["default"], 1, row.limits.default),
        (row.ratios["fast"], 1, row.limits.fast),
        (row.peak_mb, 0, row.limits.peak_mb),
    ):
        cells += [f"{figure:.{digits}f}", "" if limit is None else f"{limit:g}"]
    return f"| {' | '.join(cells)} |"


def format_check(check: Check) -> str:
    """Format a row of the second Markdown table."""
    return f"| {check.what} | {check.figure:.1f} {check.unit} | {check.limit:g} |"


def main() -> None:
    """Measure and print the tables, or one JSON object a line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    names = (*LIMITS, *CHECKS)
    parser.add_argument("--only", nargs="*", default=[], choices=names, metavar="NAME")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--eval-samples", type=int, default=0, metavar="N")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if not asked.json:
        print(
            "| network | samples | float pass s | default × | limit | fast × | limit | peak MB | limit |"
        )
        print("|---|---|---|---|---|---|---|---|---|", flush=True)
    measure_imports(asked.threads)  # compiles what has no bytecode yet
    with tempfile.TemporaryDirectory() as spare:
        for row in measure_all(asked, Path(spare)):
            print(json.dumps(asdict(row)) if asked.json else format_row(row), flush=True)
        if not asked.json:
            print("\n| measurement | figure | limit |\n|---|---|---|", flush=True)
        for name in (name for name in CHECKS if not asked.only or name in asked.only):
            for check in CHECKS[name](asked.folder, Path(spare), asked.runs):
                print(json.dumps(asdict(check)) if asked.json else format_check(check), flush=True)


if __name__ == "__main__":
    main()
