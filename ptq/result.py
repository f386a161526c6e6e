"""What quantize gives back."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import onnx

from ptq.graph import Graph
from ptq.observers.store import Calibration
from ptq.plan import Plan
from ptq.report import Report
from ptq.storing import save


@dataclass(frozen=True, eq=False)
class Result:
    """What quantize makes.

    Attributes:
        graph: The quantized model.
        plan: Every scale with its reason.
        report: Accuracy, errors, sizes.
        calibration: The statistics, to solve again without running the model.
    """

    graph: Graph
    plan: Plan
    report: Report
    calibration: Calibration

    @property
    def model(self) -> onnx.ModelProto:
        """The quantized model as ONNX's own message."""
        return self.graph.to_proto()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model; it appears complete or not at all.

        Weights of more than 2 GB go into a file beside it, ``PATH.data``, or a like name that is free.

        Raises:
            PtqError: A file cannot be written.
        """
        save(self.graph, Path(path))
