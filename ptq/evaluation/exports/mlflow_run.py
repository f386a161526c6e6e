"""A result in MLflow: metrics, parameters, plan, report and model in one run."""

from __future__ import annotations

import math
import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from ptq.core.errors import UsageError
from ptq.core.option_checks import refuse_unknown_options
from ptq.core.plan import Plan
from ptq.evaluation.exports.report import Report


class Logged(Protocol):
    """What a run gets; a `Result` has it."""

    @property
    def report(self) -> Report:
        """The figures."""
        ...

    @property
    def plan(self) -> Plan:
        """Every scale with its reason."""
        ...

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model."""
        ...

    def to_html(self) -> str:
        """The report as a page."""
        ...


@refuse_unknown_options
def log_to_mlflow(result: Logged, *, folder: str = "ptq") -> str:
    """Log a result to the active run of MLflow, or to a new one.

    The run gets the figures of `Report.metrics` that are finite, the choices as parameters, and these artifacts:
    ``model.int8.onnx`` (with its file of weights, if it has one), ``plan.json``, ``report.json``, ``report.html`` and
    ``report.md``.

    Args:
        result: Result of ``ptq.quantize``.
        folder: Folder of the artifacts in the run.

    Returns:
        The id of the run.

    Raises:
        UsageError: MLflow is not installed, or the result is something else.
        PtqError: The model cannot be written to the temporary folder.
    """
    if not all(hasattr(result, name) for name in ("report", "plan", "save", "to_html")):
        raise UsageError(
            f"result of type {type(result).__name__} cannot be logged; give the result of ptq.quantize",
            "result",
        )
    try:
        import mlflow
    except ImportError:
        raise UsageError(
            "log_to_mlflow needs MLflow; install it with: pip install onnx-ptq[mlflow]"
        ) from None
    active = mlflow.active_run()
    if active is None:
        with mlflow.start_run():
            return log_to_mlflow(result, folder=folder)
    report = result.report
    mlflow.log_metrics({k: v for k, v in report.metrics().items() if math.isfinite(v)})
    mlflow.log_params(
        {
            "target": report.target,
            "method": report.method,
            "form": report.form,
            "arithmetic": report.arithmetic,
            "ptq_version": version("onnx-ptq"),
        }
    )
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        result.save(place / "model.int8.onnx")
        for file, text in {
            "plan.json": result.plan.to_json(),
            "report.json": report.to_json(),
            "report.html": result.to_html(),
            "report.md": report.to_markdown(),
        }.items():
            (place / file).write_text(text, encoding="utf-8")
        mlflow.log_artifacts(str(place), folder)
    return str(active.info.run_id)
