"""Do the integer kernels give a runtime's bytes? Recorded one-operator cases, run and counted.

A folder holds ``index.json`` and one ``.npz`` a case: the operands with their scales and zero points, and
``output`` as the runtime computed it. LiteRT's cases list their tensors, ONNX Runtime's their node inputs;
``golden_litert`` and ``golden_ort`` translate either kind into sites.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, ModelError
from ptq.verification import golden_litert, golden_ort
from ptq.verification.golden_case import GoldenCase


@dataclass(frozen=True)
class OperatorScore:
    """What became of one operator's cases.

    Attributes:
        op: The operator as the runtime calls it.
        cases: How many there were.
        elements: Output elements compared.
        wrong: Those that differ from the runtime's.
        refused: Why cases could not run, one line each.
        failed: Names of the cases with wrong elements.
    """

    op: str
    cases: int = 0
    elements: int = 0
    wrong: int = 0
    refused: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def to_golden_cases(
    case: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> list[GoldenCase]:
    """A case as sites with their inputs and expected outputs.

    Raises:
        ModelError: The case's operator is unknown.
    """
    translate = golden_litert.from_litert_case if "tensors" in case else golden_ort.from_ort_case
    return translate(case, arrays)


def count_wrong_elements(trial: GoldenCase) -> int:
    """How many elements of the output differ from the expected ones; all, if it has another size.

    Raises:
        ModelError: The arithmetic cannot run the site.
    """
    output = trial.run()
    if output.size != trial.expected.size or output.dtype.kind != trial.expected.dtype.kind:
        return trial.expected.size
    return int(np.count_nonzero(output.reshape(trial.expected.shape) != trial.expected))


def run_golden_cases(
    folders: Iterable[Path], ops: frozenset[str] | None = None
) -> list[OperatorScore]:
    """Run every case of the folders, or of the named operators, in the order of the index.

    Raises:
        DataError: A folder has no readable index, or a case's file is missing.
    """
    scores: dict[str, OperatorScore] = {}
    for folder in folders:
        for case in _read_index(folder):
            op = str(case["op"])
            if ops is None or op in ops:
                scores[op] = _run_case(scores.get(op, OperatorScore(op)), case, folder)
    return list(scores.values())


def _read_index(folder: Path) -> list[Mapping[str, Any]]:
    try:
        cases: list[Mapping[str, Any]] = json.loads((folder / "index.json").read_text())["cases"]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{folder} has no readable index.json ({error}); name a folder of vectors"
        ) from error
    return cases


def _run_case(score: OperatorScore, case: Mapping[str, Any], folder: Path) -> OperatorScore:
    try:
        with np.load(folder / str(case["file"]), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder / str(case['file'])} cannot be read ({error}); restore it"
        ) from error
    score = replace(score, cases=score.cases + 1)
    name = str(case.get("id", case["file"]))
    try:
        for trial in to_golden_cases(case, arrays):
            wrong = count_wrong_elements(trial)
            score = replace(
                score,
                elements=score.elements + trial.expected.size,
                wrong=score.wrong + wrong,
                failed=score.failed + ((f"{name} ({trial.label})",) if wrong else ()),
            )
    except ModelError as error:
        score = replace(score, refused=(*score.refused, f"{name}: {error}"))
    return score
