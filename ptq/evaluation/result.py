"""What quantize gives back."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import onnx

from ptq.core import files
from ptq.core.errors import UsageError
from ptq.core.plan import Plan
from ptq.evaluation.report import Report
from ptq.model.graph import Graph
from ptq.model.open import model_files
from ptq.model.save import save
from ptq.observers.calibration_file import Calibration


@dataclass(frozen=True, eq=False)
class Result:
    """What quantize makes.

    Attributes:
        graph: The quantized model.
        plan: Every scale with its reason.
        report: Accuracy, errors, sizes.
        calibration: The statistics, to solve again without running the model.
        source: The file of the float model; None where that was in memory.
    """

    graph: Graph
    plan: Plan
    report: Report
    calibration: Calibration
    source: Path | None = None

    @property
    def model(self) -> onnx.ModelProto:
        """The quantized model as ONNX's own message."""
        return self.graph.to_proto()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model; it appears complete or not at all.

        Weights of more than 2 GB go into a file beside it, ``PATH.data``, or a like name that is free.

        Raises:
            UsageError: It is the float model's own file, or one that its weights are in.
            PtqError: A file cannot be written.
        """
        place = Path(path)
        if self.source is not None and place.exists():
            for file in model_files(self.source):
                if files.is_same_file(place, file):
                    raise UsageError(
                        f"output {place} is the input {file} itself; give another name"
                    )
        save(self.graph, place)
