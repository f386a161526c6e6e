"""Result of ``ptq.quantize``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from ptq.core.option_checks import require_path
from ptq.core.plan import Plan
from ptq.evaluation.exports.report import Report
from ptq.executor.tflite_export import encode_tflite
from ptq.model.graph import Graph
from ptq.model.save import save_apart, write_apart
from ptq.model.tflite.schema import SUFFIX
from ptq.observers.calibration_file import Calibration


@dataclass(frozen=True, eq=False)
class Result:
    """Result of ``ptq.quantize``. It can be pickled and copied: it holds no session and no open file.

    Attributes:
        graph: The quantized graph.
        plan: Every scale with its reason.
        report: Accuracy, errors, sizes.
        calibration: The statistics. With them, and the plan or the data, the model can be quantized again without
            calibration.
        source: File of the float model; None if it was in memory.
        tflite: The `.tflite` file, if form ``tflite`` was asked for.
    """

    graph: Graph
    plan: Plan
    report: Report
    calibration: Calibration
    source: Path | None = None
    tflite: bytes | None = None

    def __repr__(self) -> str:
        return f"Result({self.report!r})"

    def to_html(self, made: Sequence[tuple[str, str]] = ()) -> str:
        """The report as one self-contained HTML page, with the histograms of all tensors.

        Args:
            made: What else the page should say about the run: names with values.
        """
        from ptq.evaluation.presentation.html import render_page  # 0.02 s

        return render_page(self.report, made, plan=self.plan, statistics=self.calibration.tensors)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    @property
    def model(self) -> onnx.ModelProto:
        """The quantized model as an ONNX protobuf message."""
        return self.graph.to_proto()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model atomically: LiteRT's file if the path ends in ``.tflite``, else ONNX.

        Weights of more than 2 GB go into a second file, ``PATH.data``, or a similar unused name.

        Raises:
            UsageError: ``path`` is no path, or a file of the float model or of its weights.
            PtqError: A file cannot be written.
            UnsupportedError: An operator has no form in LiteRT, or ``ai-edge-litert`` is not installed.
        """
        require_path("path", path)
        if Path(path).suffix.lower() == SUFFIX:
            content = encode_tflite(self.graph).content if self.tflite is None else self.tflite
            write_apart(content, Path(path), self.source)
            return
        save_apart(self.graph, Path(path), self.source)
