"""Speed benchmark: CPU time of ``ptq quantize`` as a multiple of one plain float pass over the same samples.

    python benchmarks/speed.py [FOLDER] [--only NAME ...] [--runs 5] [--threads 1] [--json]

FOLDER has the networks that are not part of this project, laid out as for accuracy.py: NAME/model.onnx and
NAME/calib.npz. ``benchmarks/wheels.py`` writes both. Networks that FOLDER lacks are left out.

    efficientnet_lite0       128 images of 224 × 224          from FOLDER
    ocr_recognition_wide     PP-OCRv4, 64 lines of 48 × 480   from FOLDER
    bert_base                random weights, 32 texts of 64 tokens
    resnet50                 random weights, 64 images of 224 × 224
    light_vgg19              the onnx package's, 16 images of 224 × 224
    sample_data              the command of the README
    two_gigabytes            random weights of 2 GB, 16 rows; only with --only, for its peak memory

Each command runs in a process of its own. The operating system counts the CPU time of all its threads, and its peak
memory. Every column is the median of the runs.

* float pass: ONNX Runtime on all samples of NAME/calib.npz, one by one, without imports and opening of the model. For
  sample_data: the three evaluations of the report alone, and the imports.
* imports: ``import ptq.api`` alone, which loads every library.
* quantize: ``ptq quantize MODEL --data NAME/calib.npz`` with its imports; a fifth of the samples is held out for the
  report. ``--eval-samples N`` takes N of the samples for the report instead, and calibrates on all.
* ratio: quantize over float pass.
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
README = "sample_data"
BY_HAND = ("two_gigabytes",)
"""Networks that take many minutes: they are measured only if they are named."""


@dataclass(frozen=True)
class Row:
    """Medians of one network with one effort.

    Attributes:
        network: Name of the network.
        effort: ``default``, or the value of ``--effort``.
        base: CPU seconds of the float pass, or of the imports and the evaluations.
        imports: CPU seconds of ``import ptq.api``, which loads every library.
        quantize: CPU seconds of ``ptq quantize``.
        ratio: Median of the runs' ratios of the two.
        peak_mib: Peak memory of ``ptq quantize`` in MiB.
    """

    network: str
    effort: str
    base: float
    imports: float
    quantize: float
    ratio: float
    peak_mib: float


def list_efforts() -> tuple[str, ...]:
    """The efforts that this version of ptq has: its default, and ``fast`` if there is the option."""
    shown = run_python(["-m", "ptq", "quantize", "--help"], 1).printed
    return ("default", "fast") if "--effort" in shown else ("default",)


def measure_imports(threads: int) -> float:
    """CPU seconds of ``import ptq.api``, which loads every library."""
    return run_python(["-c", "import ptq.api"], threads).seconds


def measure_baseline(work: str, paths: Sequence[str], threads: int) -> float:
    """CPU seconds that speed_baselines.py prints."""
    arguments = [str(HERE / "speed_baselines.py"), work, *paths, str(threads)]
    return float(run_python(arguments, threads).printed)


def quantize(model: str, options: Sequence[str], effort: str, threads: int, output: str) -> Cost:
    """Run ``ptq quantize``."""
    chosen = () if effort == "default" else ("--effort", effort)
    arguments = ["-m", "ptq", "quantize", model, *options, *chosen]
    return run_python([*arguments, "--threads", str(threads), "-o", output], threads)


def measure_network(
    network: str, effort: str, asked: argparse.Namespace, measure: Callable[[], tuple[float, Cost]]
) -> Row:
    """Measure a network so many times, base and quantization in turn; return the medians."""
    imports, bases, costs = [], [], []
    for _ in range(asked.runs):
        imports.append(measure_imports(asked.threads))
        base, cost = measure()
        bases.append(base)
        costs.append(cost)
    return Row(
        network,
        effort,
        statistics.median(bases),
        statistics.median(imports),
        statistics.median(cost.seconds for cost in costs),
        statistics.median(cost.seconds / base for base, cost in zip(bases, costs, strict=True)),
        statistics.median(cost.peak_mib for cost in costs),
    )


def measure_pass(
    place: Path, effort: str, asked: argparse.Namespace, output: str
) -> tuple[float, Cost]:
    """Measure the float pass and the quantization of the network in a folder."""
    model, data = str(place / "model.onnx"), str(place / "calib.npz")
    options = ["--data", data]
    if asked.eval_samples:
        options += ["--eval", write_rows(data, output, asked.eval_samples)]
    base = measure_baseline("pass", [model, data], asked.threads)
    return base, quantize(model, options, effort, asked.threads, output)


def write_rows(data: str, output: str, rows: int) -> str:
    """Write the first rows of an .npz file beside the output; return the path."""
    path = f"{output}.npz"
    code = "import sys, numpy as np; a = np.load(sys.argv[1]); n = int(sys.argv[3]); "
    code += "np.savez(sys.argv[2], **{k: v[:n] for k, v in a.items()})"
    run_python(["-c", code, data, path, str(rows)], 1)
    return path


def measure_readme(effort: str, asked: argparse.Namespace, output: str) -> tuple[float, Cost]:
    """Measure the command of the README, and its imports and evaluations alone."""
    cost = quantize(README_MODEL, README_OPTIONS, effort, asked.threads, output)
    paths = [README_MODEL, output, str(SAMPLE / "images" / "evaluation")]
    base = measure_baseline("evaluations", paths, asked.threads) + measure_imports(asked.threads)
    return base, cost


def measure_all(asked: argparse.Namespace, spare: Path) -> Iterator[Row]:
    """Measure each network that is present, with each effort."""
    efforts, output = list_efforts(), str(spare / "int8.onnx")
    for network in asked.only or (*FROM_FOLDER, *BUILT):
        if network == README:
            continue
        built = network not in FROM_FOLDER
        place = (spare if built else asked.folder or spare) / network
        if built:
            run_python([str(HERE / "speed_networks.py"), network, str(place)], 1)
        if not (place / "model.onnx").exists():
            print(f"{network}: left out, the folder has no {network}/model.onnx", file=sys.stderr)
            continue
        for effort in efforts:
            yield measure_network(
                network, effort, asked, lambda p=place, e=effort: measure_pass(p, e, asked, output)
            )
    if not asked.only or README in asked.only:
        for effort in efforts:
            yield measure_network(
                README, effort, asked, lambda e=effort: measure_readme(e, asked, output)
            )


def format_row(row: Row) -> str:
    """Format a row of the Markdown table."""
    return (
        f"| {row.network} | {row.effort} | {row.base:.2f} | {row.imports:.2f} | {row.quantize:.2f} "
        f"| {row.ratio:.2f} | {row.peak_mib:.0f} |"
    )


def main() -> None:
    """Measure and print the table, or one JSON object a line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    names = (*FROM_FOLDER, *BUILT, *BY_HAND, README)
    parser.add_argument("--only", nargs="*", default=[], choices=names, metavar="NAME")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--eval-samples", type=int, default=0, metavar="N")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if not asked.json:
        print("| network | effort | float pass s | imports s | quantize s | ratio | peak MiB |")
        print("|---|---|---|---|---|---|---|", flush=True)
    measure_imports(asked.threads)  # compiles what has no bytecode yet
    with tempfile.TemporaryDirectory() as spare:
        for row in measure_all(asked, Path(spare)):
            print(json.dumps(asdict(row)) if asked.json else format_row(row), flush=True)


if __name__ == "__main__":
    main()
