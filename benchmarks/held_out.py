"""Defaults on networks that no choice in ptq was made on: what each decides, how fast it is, what the report says.

    python benchmarks/wheels.py UNPACKED FOLDER --fonts FOLDER
    python benchmarks/held_out.py FOLDER --tasks NAME ... [--models FOLDER] [--only KIND] [--json FILE]

Each network is quantized twice with ``ptq.quantize``: with its defaults, and with ``prefer="speed"``, which leaves no
node float for accuracy. Both are measured on samples that no quantization saw:

* decisions that float makes and int8 changes, with their 95 % interval. A decision is that of ptq's task, or, where
  ptq recognizes none, that of unseen.py;
* exact lines of float and int8 where ``eval.txt`` labels the samples;
* SQNR; times of float, the defaults and ``prefer="speed"`` in turns, on one thread;
* float nodes, and the first line of the report.

Each row is checked, and what does not hold is printed below it (`list_failures`):

* no decision is lost, or the first line of the report names a loss, and the interval of that loss meets the
  measured one. A loss that is written as 0.00 points, or as no significant change, is none. Where no sample
  changed, the line must name a possible loss that is at least the measured one;
* the model is not slower than float, or the first line says so;
* it is at most 5 % slower than ``prefer="speed"``, or that one changes more decisions.

``--models`` keeps the quantized models, and beside each the commit that made it: a later run measures them again
without quantizing, and names both commits. ``--only`` makes one of the two and measures nothing. ``--json`` puts each
network into a file of results, for the page docs/accuracy.md (accuracy_tables.py).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from accuracy import Task, find_tasks
from numpy.typing import NDArray
from result_files import describe_code, read_commit, write_result
from unseen import decision_agreement

import ptq
from ptq.core.wording import format_change
from ptq.evaluation.drop import ERROR
from ptq.evaluation.intervals import bootstrap_means, compute_percentile_interval
from ptq.evaluation.presentation.verdict import describe_verdict
from ptq.evaluation.report.benefit_check import check_benefit
from ptq.model.graph import Graph
from ptq.model.session.session import Session
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
        quantized: The commit that made the two models.
        calibrated: Number of calibration samples.
        evaluated: Number of samples that it was measured on.
        changed: Decisions of float that int8 changes, in percent, with the ends of the interval.
        fast_changed: The same with ``prefer="speed"``.
        metric: What a decision is.
        lines: Figures against labels: ``exact`` lines of float and int8 in percent, their ``change`` in points with
            its interval, and ``characters`` that are wrong in percent; None without labels.
        sqnr_db: SQNR of the output that decides.
        fast_sqnr_db: The same with ``prefer="speed"``.
        speed: Time of float over that of the defaults, with its interval.
        fast_speed: The same with ``prefer="speed"``.
        float_nodes: Nodes in float, and all nodes.
        fast_float_nodes: Float nodes with ``prefer="speed"``.
        smaller: Size of the float file over that of the result.
        passes: Processor time of the quantization over that of one float run on each calibration sample.
        first_line: First line of the report after its title.
        said: Metric, points and interval of the drop that the report measured; empty metric without.
        slow: Whether the first line says that the model is no faster than float.
    """

    task: str
    quantized: str
    calibrated: int
    evaluated: int
    changed: tuple[float, float, float]
    fast_changed: tuple[float, float, float]
    metric: str
    lines: dict[str, tuple[float, ...]] | None
    sqnr_db: float
    fast_sqnr_db: float
    speed: tuple[float, float, float]
    fast_speed: tuple[float, float, float]
    float_nodes: tuple[int, int]
    fast_float_nodes: int
    smaller: float
    passes: float
    first_line: str
    said: tuple[str, float, float, float]
    slow: bool


def list_failures(row: Row) -> list[str]:
    """What the row shows that the rule forbids, in words."""
    failures = []
    if row.changed[1] > 0 and not names_loss(row):
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


def names_loss(row: Row) -> bool:
    """Whether the first line of the report names a loss that the measured one does not contradict."""
    if any(words in row.first_line for words in ("some loss is likely", "expect lost accuracy")):
        return True
    metric, points, low, high = row.said
    if f"a loss of up to {high:.2f} points is possible" in row.first_line:
        return high >= row.changed[0]
    written = format_change(-points)
    return (
        metric not in ("", ERROR)
        and written.startswith("−")
        and f"{written} points" in row.first_line
        and "no significant change" not in row.first_line
        and low <= row.changed[2]
        and high >= row.changed[1]
    )


def quantize_task(task: Task, prefer: PreferenceName, path: Path) -> dict[str, Any]:
    """Quantize a network, unless its file exists, and return what its report says."""
    record = path.with_suffix(".json")
    if not record.exists():
        commit, start = read_commit(), process_time()  # files can change while it runs
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
            "commit": commit,
            "passes": passes,
            "nodes": count_float_nodes(result),
            "first_line": [*headlines, *describe_verdict(result.report)][0],
            "said": said,
            "slow": bool(headlines),
        }
        record.write_text(json.dumps(found), "utf-8")
    found = dict(json.loads(record.read_text("utf-8")))
    if "commit" not in found:
        raise SystemExit(f"{record} does not say which commit made the model; remove it and {path}")
    return found


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
    return Row(
        task=task.name,
        quantized=" and ".join(dict.fromkeys((found["commit"], other["commit"]))),
        calibrated=len(list(task.open(task.calibration))),
        evaluated=len(list(task.open(task.evaluation))),
        changed=own[0],
        fast_changed=fast[0],
        metric=own[1],
        lines=measure_labels(task, paths["balanced"]),
        sqnr_db=own[2],
        fast_sqnr_db=fast[2],
        speed=speeds[1],
        fast_speed=speeds[2],
        float_nodes=tuple(found["nodes"]),
        fast_float_nodes=other["nodes"][0],
        smaller=task.model.stat().st_size / paths["balanced"].stat().st_size,
        passes=found["passes"],
        first_line=found["first_line"],
        said=tuple(found["said"]),
        slow=found["slow"],
    )


def time_float(task: Task) -> float:
    """Return the processor time of float on each calibration sample."""
    session, samples = Session(Graph.load(task.model), threads=1), list(task.open(task.calibration))
    session.run(samples[0].feed)
    start = process_time()
    for sample in samples:
        session.run(sample.feed)
    return process_time() - start


def measure_decisions(task: Task, model: Path) -> tuple[tuple[float, float, float], str, float]:
    """Measure changed decisions with their interval, what a decision is, and SQNR."""
    plain = ptq.evaluate(model, str(task.evaluation), against=task.model, threads=1)
    form = plain.forms["int8"]
    assert form.drop is not None
    assert plain.task is not None
    changed = (form.drop.points, form.drop.lo, form.drop.hi)
    metric = form.drop.metric
    if plain.task.name == "none":
        metric = "decisions of unseen.py"
        changed = compare_decisions(task, model)
    return changed, metric, form.outputs[plain.head].sqnr_db


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
    lo, hi = compute_percentile_interval(bootstrap_means(rows)[:, 0])
    return float(rows.mean()), lo, hi


def measure_labels(task: Task, model: Path) -> dict[str, tuple[float, ...]] | None:
    """Exact lines and wrong characters of float and int8, as `Row` keeps them; None without labels."""
    texts = task.evaluation.with_suffix(".txt")
    if not texts.exists():
        return None
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
    exact, wrong = (
        tuple(100 * form.figures[k].value for form in found.forms.values()) for k in (0, 1)
    )
    change = (-drop.points, -drop.hi, -drop.lo)
    return {"exact": exact, "change": change, "characters": wrong}


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
        f"| {row.smaller:.2f} | {row.passes:.0f} | {'no' if list_failures(row) else 'yes'} |"
    )


def list_figures(row: Row) -> dict[str, Any]:
    """The row as network_tables.py reads it: figures with three decimals, and what does not hold."""
    failures = list_failures(row)
    figures = {key: _round(value) for key, value in asdict(row).items() if key != "task"}
    return {**figures, "failures": failures}


def _round(value: Any) -> Any:
    """Numbers with three decimals, also inside others."""
    if isinstance(value, dict):
        return {key: _round(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_round(one) for one in value]
    return round(value, 3) if isinstance(value, float) else value


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
    code, commit = describe_code(), read_commit()
    print(code)
    print(
        "| | decision | same as float, % | … `--prefer speed` | SQNR dB | … `--prefer speed` | × float speed "
        "| … `--prefer speed` | float nodes | … `--prefer speed` | times smaller | × float pass | holds |"
    )
    print("|" + "---|" * 13)
    with tempfile.TemporaryDirectory() as spare, tempfile.TemporaryDirectory() as models:
        folder = options.models or Path(models)
        folder.mkdir(parents=True, exist_ok=True)
        for task in find_tasks(options.folder, options.tasks, Path(spare)):
            if options.only is not None:
                prefer: PreferenceName = "speed" if options.only == "speed" else "balanced"
                quantize_task(task, prefer, folder / f"{task.name}.{options.only}.onnx")
                continue
            row = measure_task(task, folder)
            print(format_row(row), f"  {row.first_line}", f"  {row.lines}", sep="\n")
            print(*(f"  {failure}" for failure in list_failures(row)), sep="\n", flush=True)
            if options.json is not None:
                made = "" if row.quantized == commit else f", quantized by {row.quantized}"
                write_result(options.json, task.name, list_figures(row), code + made)


if __name__ == "__main__":
    main()
