"""Defaults on networks that no choice in ptq was made on: what each decides, how fast it is, what the report says.

    python benchmarks/wheels.py UNPACKED FOLDER --fonts FOLDER
    python benchmarks/held_out.py FOLDER --tasks NAME ... [--models FOLDER] [--json FILE]

Each network is quantized twice with ``ptq.quantize``: with its defaults, and with ``prefer="speed"``, which leaves no
node float for accuracy. Both are measured on samples that no quantization saw:

* decisions that float makes and int8 changes, with their 95 % interval. A decision is that of ptq's task, or, where
  ptq recognizes none, that of unseen.py;
* exact lines of float and int8 where ``eval.txt`` labels the samples;
* SQNR; times of float, the defaults and ``prefer="speed"`` in turns, on one thread;
* float nodes, and the first line of the report.

Each row is checked, and what does not hold is printed below it (`list_failures`):

* no decision is lost, or the first line of the report names a loss, and its interval meets the measured one;
* the model is not slower than float, or the first line says so;
* it is at most 5 % slower than ``prefer="speed"``, or that one changes more decisions.

``--models`` keeps the quantized models: a later run measures them again without quantizing. ``--only`` makes one of
the two and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from accuracy import Task, find_tasks
from numpy.typing import NDArray
from unseen import decision_agreement

import ptq
from ptq.evaluation.benefit_check import check_benefit
from ptq.evaluation.drop import ERROR
from ptq.evaluation.intervals import bootstrap_sums, percentile_interval
from ptq.evaluation.presentation.verdict import describe_verdict
from ptq.model.graph import Graph
from ptq.model.session import Session
from ptq.optimization.preference import PreferenceName

ALPHABETS = {
    "ocr_recognition_svtr": "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "captcha_crnn": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
}
"""Characters of recognizers whose metadata lists none."""
SECONDS = 20.0
"""Time for all runs of each model."""
MOST_SLOWER = 0.05
"""How much slower than all in integers the defaults may be without a gain in decisions."""


@dataclass(frozen=True)
class Row:
    """One network.

    Attributes:
        task: Name of the task.
        changed: Decisions of float that int8 changes, in percent, with the ends of the interval.
        fast_changed: The same with ``prefer="speed"``.
        metric: What a decision is.
        labelled: Drop of the labelled figure in points with its interval, and the figures in words; empty without.
        sqnr_db: SQNR of the output that decides.
        fast_sqnr_db: The same with ``prefer="speed"``.
        speed: Time of float over that of the defaults, with its interval.
        fast_speed: The same with ``prefer="speed"``.
        float_nodes: Nodes in float, and all nodes.
        fast_float_nodes: Float nodes with ``prefer="speed"``.
        bytes: Size of the float file and of the result.
        passes: Processor time of the quantization over that of one float run on each calibration sample.
        first_line: First line of the report after its title.
        said: Metric, points and interval of the drop that the report measured; empty metric without.
        slow: Whether the first line says that the model is no faster than float.
    """

    task: str
    changed: tuple[float, float, float]
    fast_changed: tuple[float, float, float]
    metric: str
    labelled: str
    sqnr_db: float
    fast_sqnr_db: float
    speed: tuple[float, float, float]
    fast_speed: tuple[float, float, float]
    float_nodes: tuple[int, int]
    fast_float_nodes: int
    bytes: tuple[int, int]
    passes: float
    first_line: str
    said: tuple[str, float, float, float]
    slow: bool


def list_failures(row: Row) -> list[str]:
    """What the row shows that the rule forbids, in words."""
    failures = []
    metric, _, low, high = row.said
    lost = row.changed[1] > 0
    named = metric not in ("", ERROR) and low <= row.changed[2] and high >= row.changed[1]
    named |= any(
        words in row.first_line for words in ("some loss is likely", "expect lost accuracy")
    )
    if lost and not named:
        failures.append(
            f"decisions: {row.changed[0]:.1f} % ({row.changed[1]:.1f} … {row.changed[2]:.1f}) changed, and the "
            "first line does not say so"
        )
    if row.speed[2] < 1 and not row.slow:
        failures.append("speed: slower than float, and the first line does not say so")
    if (
        row.speed[0] < (1 - MOST_SLOWER) * row.fast_speed[0]
        and row.fast_changed[0] <= row.changed[0]
    ):
        failures.append(
            "speed: more than 5 % slower than all in integers, which changes no more decisions"
        )
    return failures


def quantize_task(task: Task, prefer: PreferenceName, path: Path) -> dict[str, Any]:
    """Quantize a network, unless its file exists, and return what its report says."""
    record = path.with_suffix(".json")
    if not record.exists():
        start = process_time()
        result = ptq.quantize(
            task.model,
            str(task.calibration),
            prefer=prefer,
            threads=1,
            force=True,  # type: ignore[arg-type]
        )
        passes = (process_time() - start) / time_float(task)
        result.save(path)
        headlines = [str(found) for found in check_benefit(result.report)]
        evaluation = result.report.evaluation
        drop = None if evaluation is None else evaluation.forms["int8"].drop
        said = ("", 0.0, 0.0, 0.0) if drop is None else (drop.metric, drop.points, drop.lo, drop.hi)
        found = {
            "passes": passes,
            "nodes": count_float_nodes(result),
            "first_line": [*headlines, *describe_verdict(result.report)][0],
            "said": said,
            "slow": bool(headlines),
        }
        record.write_text(json.dumps(found), "utf-8")
    found = json.loads(record.read_text("utf-8"))
    return dict(found)


def measure_task(task: Task, folder: Path) -> Row:
    """Quantize a network both ways, and measure."""
    paths: dict[PreferenceName, Path] = {
        "balanced": folder / f"{task.name}.default.onnx",
        "speed": folder / f"{task.name}.speed.onnx",
    }
    found, other = (quantize_task(task, prefer, path) for prefer, path in paths.items())
    own, fast = (measure_decisions(task, path) for path in paths.values())
    timed = ptq.benchmark(
        [task.model, *paths.values()],
        str(task.evaluation),
        seconds=SECONDS,
        memory=False,
        threads=1,
    )
    speeds = [(m.speed or 1.0, *(m.speed_interval or (1.0, 1.0))) for m in timed.models]
    sizes = task.model.stat().st_size, paths["balanced"].stat().st_size
    return Row(
        task.name, own[0], fast[0], own[1], own[2], own[3], fast[3], speeds[1], speeds[2],
        tuple(found["nodes"]), other["nodes"][0], sizes, found["passes"], found["first_line"],
        tuple(found["said"]), found["slow"],
    )  # fmt: skip


def time_float(task: Task) -> float:
    """Return the processor time of float on each calibration sample."""
    session, samples = Session(Graph.load(task.model), threads=1), list(task.open(task.calibration))
    session.run(samples[0].feed)
    start = process_time()
    for sample in samples:
        session.run(sample.feed)
    return process_time() - start


def measure_decisions(
    task: Task, model: Path
) -> tuple[tuple[float, float, float], str, str, float]:
    """Measure changed decisions with their interval, what a decision is, labelled figures in words, and SQNR."""
    plain = ptq.evaluate(model, str(task.evaluation), against=task.model, threads=1)
    form = plain.forms["int8"]
    assert form.drop is not None
    assert plain.task is not None
    changed = (form.drop.points, form.drop.lo, form.drop.hi)
    metric = form.drop.metric
    if plain.task.name == "none":
        metric = "decisions of unseen.py"
        changed = compare_decisions(task, model)
    return changed, metric, measure_labels(task, model), form.outputs[plain.head].sqnr_db


def compare_decisions(task: Task, model: Path) -> tuple[float, float, float]:
    """Share of changed decisions in percent, with a bootstrap interval over samples."""
    float_, int8 = (Session(Graph.load(path), threads=1) for path in (task.model, model))
    shares: list[Any] = [
        decision_agreement(
            task.name,
            [np.asarray(y) for y in float_.run(sample.feed)],
            [np.asarray(y) for y in int8.run(sample.feed)],
        )
        for sample in task.open(task.evaluation)
    ]
    rows: NDArray[np.float64] = 100 * (1 - np.asarray(shares, np.float64))[:, None]
    lo, hi = percentile_interval(bootstrap_sums(rows)[:, 0] / len(rows))
    return float(rows.mean()), lo, hi


def measure_labels(task: Task, model: Path) -> str:
    """Describe exact lines of float and int8 and their paired difference; empty without labels."""
    texts = task.evaluation.with_suffix(".txt")
    if not texts.exists():
        return ""
    with tempfile.TemporaryDirectory() as folder:
        alphabet = None
        if task.name in ALPHABETS:
            alphabet = Path(folder) / "alphabet.txt"
            alphabet.write_text("\n".join(ALPHABETS[task.name]), "utf-8")
        found = ptq.evaluate(
            model, str(task.evaluation), against=task.model, threads=1, transcripts=texts,
            alphabet=alphabet,
        )  # fmt: skip
    drop = found.forms["int8"].drop
    assert drop is not None
    lines = [form.figures[0].value for form in found.forms.values()]
    errors = [form.figures[1].value for form in found.forms.values()]
    return (
        f"exact lines {100 * lines[0]:.2f} → {100 * lines[1]:.2f} % "
        f"(−{drop.points:.2f}, {-drop.hi:+.2f} … {-drop.lo:+.2f}), "
        f"character error {100 * errors[0]:.2f} → {100 * errors[1]:.2f} %"
    )


def count_float_nodes(result: ptq.Result) -> tuple[int, int]:
    """Count float nodes, and all."""
    statuses = [row.fate for row in result.report.nodes]
    return statuses.count("float"), len(statuses)


def format_row(row: Row) -> str:
    """Format one row of the table."""
    changed, fast = row.changed, row.fast_changed
    return (
        f"| {row.task} | {row.metric} | {100 - changed[0]:.1f} ({100 - changed[2]:.1f} … {100 - changed[1]:.1f}) "
        f"| {100 - fast[0]:.1f} | {row.sqnr_db:.1f} | {row.fast_sqnr_db:.1f} "
        f"| {row.speed[0]:.2f} ({row.speed[1]:.2f} … {row.speed[2]:.2f}) | {row.fast_speed[0]:.2f} "
        f"| {row.float_nodes[0]} of {row.float_nodes[1]} | {row.fast_float_nodes} "
        f"| {row.bytes[0] / row.bytes[1]:.2f} | {row.passes:.0f} | {'no' if list_failures(row) else 'yes'} |"
    )


def main() -> None:
    """Measure all tasks, print their table, and write it as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--models", type=Path, metavar="FOLDER")
    parser.add_argument("--only", choices=("default", "speed"))
    options = parser.parse_args()
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    print(f"commit {commit.stdout.strip()}")
    print(
        "| | decision | same as float, % | … `--prefer speed` | SQNR dB | … `--prefer speed` | × float speed "
        "| … `--prefer speed` | float nodes | … `--prefer speed` | times smaller | × float pass | holds |"
    )
    print("|" + "---|" * 13)
    rows = []
    with tempfile.TemporaryDirectory() as spare, tempfile.TemporaryDirectory() as models:
        folder = options.models or Path(models)
        folder.mkdir(parents=True, exist_ok=True)
        for task in find_tasks(options.folder, options.tasks, Path(spare)):
            if options.only is not None:
                prefer: PreferenceName = "speed" if options.only == "speed" else "balanced"
                quantize_task(task, prefer, folder / f"{task.name}.{options.only}.onnx")
                continue
            rows.append(measure_task(task, folder))
            print(format_row(rows[-1]), f"  {rows[-1].first_line}", sep="\n")
            print(f"  {rows[-1].labelled}", *list_failures(rows[-1]), sep="\n  ", flush=True)
            if options.json is not None:
                document = {"commit": commit.stdout.strip(), "rows": [asdict(row) for row in rows]}
                options.json.write_text(json.dumps(document, indent=1, ensure_ascii=False), "utf-8")


if __name__ == "__main__":
    main()
