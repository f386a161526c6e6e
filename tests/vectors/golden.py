"""Recorded outputs of runtimes, compared with the integer kernels.

A folder holds ``index.json`` and one ``.npz`` for each case of one operator: the operands with scales and zero
points, and ``output`` as the runtime computed it. Cases of LiteRT list their tensors, cases of ONNX Runtime their
node inputs. ``golden_litert`` and ``golden_ort`` convert them into sites.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import golden_litert
import golden_ort
import numpy as np
from golden_case import GoldenCase
from numpy.typing import NDArray

from ptq.core.errors import DataError, ModelError


@dataclass(frozen=True)
class OperatorScore:
    """Result of all cases of one operator.

    Attributes:
        op: Name of the operator in the runtime.
        cases: Number of cases.
        elements: Number of compared output elements.
        wrong: Number of elements that differ from the runtime's.
        refused: Reasons why cases could not run, one line each.
        failed: Names of the cases with wrong elements.
    """

    op: str
    cases: int = 0
    elements: int = 0
    wrong: int = 0
    refused: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def to_golden_cases(
    case: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], ort_arithmetic: str = ""
) -> list[GoldenCase]:
    """Convert a recorded case into sites with inputs and expected outputs.

    Args:
        case: The case's entry in the index.
        arrays: Its arrays by name.
        ort_arithmetic: Arithmetic of cases of ONNX Runtime; empty for that of the recorded version.

    Raises:
        ModelError: The operator of the case is unknown.
        UsageError: The arithmetic is unknown.
    """
    if "tensors" in case:
        return golden_litert.from_litert_case(case, arrays)
    return golden_ort.from_ort_case(case, arrays, ort_arithmetic)


def count_wrong_elements(case: GoldenCase) -> int:
    """Count output elements that differ from the expected ones; all, if the size differs.

    Raises:
        ModelError: The arithmetic cannot run the site.
    """
    output = case.run()
    if output.size != case.expected.size or output.dtype.kind != case.expected.dtype.kind:
        return case.expected.size
    return int(np.count_nonzero(output.reshape(case.expected.shape) != case.expected))


def run_golden_cases(
    folders: Iterable[Path], ops: frozenset[str] | None = None, ort_arithmetic: str = ""
) -> list[OperatorScore]:
    """Run all cases of the folders, or those of the given operators, in the order of the index.

    Args:
        folders: Folders of recorded cases.
        ops: Operators to run; None for all.
        ort_arithmetic: Arithmetic of cases of ONNX Runtime; empty for that of the version that each case names.

    Raises:
        UsageError: The arithmetic is unknown.
        DataError: A folder has no readable index, or the file of a case is missing.
    """
    scores: dict[str, OperatorScore] = {}
    for folder in folders:
        for case in _read_index(folder):
            op = str(case["op"])
            if ops is None or op in ops:
                scores[op] = _run_case(
                    scores.get(op, OperatorScore(op)), case, folder, ort_arithmetic
                )
    return list(scores.values())


def _read_index(folder: Path) -> list[Mapping[str, Any]]:
    try:
        cases: list[Mapping[str, Any]] = json.loads((folder / "index.json").read_text())["cases"]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{folder} has no readable index.json ({error}); give a folder of golden vectors"
        ) from error
    return cases


def _run_case(
    score: OperatorScore, case: Mapping[str, Any], folder: Path, ort_arithmetic: str
) -> OperatorScore:
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
        for golden in to_golden_cases(case, arrays, ort_arithmetic):
            wrong = count_wrong_elements(golden)
            score = replace(
                score,
                elements=score.elements + golden.expected.size,
                wrong=score.wrong + wrong,
                failed=score.failed + ((f"{name} ({golden.label})",) if wrong else ()),
            )
    except ModelError as error:
        score = replace(score, refused=(*score.refused, f"{name}: {error}"))
    return score
