"""A result in MLflow: metrics, parameters, plan, report and model in one run."""

from __future__ import annotations

import math
import os
import posixpath
import tempfile
from collections.abc import Mapping
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
def log_to_mlflow(result: Logged, *, folder: str | None = "ptq") -> str:
    """Log a result to the active run of MLflow, or to a new one.

    A run holds one result: another one of other choices needs a run of its own.

    The run gets the figures of `Report.metrics` that are finite, the choices as parameters, and these artifacts:
    ``model.int8.onnx`` (with its file of weights, if it has one), ``plan.json``, ``report.json``, ``report.html`` and
    ``report.md``.

    Args:
        result: Result of ``ptq.quantize``.
        folder: Folder of the artifacts in the run; None for no folder.

    Returns:
        The id of the run.

    Raises:
        UsageError: MLflow is not installed, the result is something else, the folder is none inside a run, or the
            active run has another choice as parameter. Nothing is logged then.
        PtqError: The model cannot be written to the temporary folder.
    """
    if not all(hasattr(result, name) for name in ("report", "plan", "save", "to_html")):
        raise UsageError(
            f"result of type {type(result).__name__} cannot be logged; give the result of ptq.quantize",
            "result",
        )
    _require_folder(folder)
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
    choices = {
        "target": report.target,
        "method": report.method,
        "form": report.form,
        "arithmetic": report.arithmetic,
        "ptq_version": version("onnx-ptq"),
    }
    _require_own_run(choices, mlflow.get_run(active.info.run_id).data.params)
    mlflow.log_params(choices)
    mlflow.log_metrics({k: v for k, v in report.metrics().items() if math.isfinite(v)})
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


def _require_folder(folder: object) -> None:
    if folder is None or folder == "":
        return
    if not isinstance(folder, str):
        raise UsageError(
            f"folder of type {type(folder).__name__} is not the name of a folder", "folder"
        )
    if (
        posixpath.normpath(folder) != folder
        or folder.split("/")[0] in ("", ".", "..")
        or "\0" in folder
    ):
        raise UsageError(
            f"folder {folder!r} is no folder inside a run; give a name, such as 'ptq' or 'models/ptq'",
            "folder",
        )


def _require_own_run(choices: Mapping[str, str], known: Mapping[str, str]) -> None:
    """Refuse choices that differ from parameters of the run: MLflow changes none."""
    for name, value in choices.items():
        if known.get(name, value) != value:
            raise UsageError(
                f"the active run has the parameter {name}={known[name]!r}, and this result has {value!r}; "
                "log it in a run of its own: with mlflow.start_run(nested=True)"
            )
