"""Post-training quantization for ONNX models: observed ranges, a plan with reasons, and its cost measured.

import ptq

result = ptq.quantize("model.onnx", "images/")
result.save("model.int8.onnx")
"""

import logging
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptq.api.benchmark import Benchmark, benchmark
    from ptq.api.calibrate import calibrate
    from ptq.api.compare import compare
    from ptq.api.convert import convert
    from ptq.api.evaluate import evaluate
    from ptq.api.frontier import frontier
    from ptq.api.inspect import inspect
    from ptq.api.lint import lint
    from ptq.api.merge_statistics import merge_statistics
    from ptq.api.portability import portability
    from ptq.api.quantize import quantize
    from ptq.api.saved_frontier import Frontier
    from ptq.api.sensitivity import sensitivity
    from ptq.api.tune import Tuned, tune
    from ptq.api.verify import verify
    from ptq.core.errors import (
        BudgetError,
        Cancelled,
        DataError,
        ModelError,
        NoGainError,
        PlanError,
        PtqError,
        StatsError,
        UnknownOptionError,
        UnsupportedError,
        UnwrittenError,
        UsageError,
    )
    from ptq.core.plan import Plan
    from ptq.core.targets import TargetName
    from ptq.data import AudioPreprocess, Preprocess, Sample, Samples, TextPreprocess, open_samples
    from ptq.evaluation.comparison import Comparison
    from ptq.evaluation.exports.mlflow_run import log_to_mlflow
    from ptq.evaluation.exports.report import Report
    from ptq.evaluation.frontier import FrontierPoint, FrontierReport
    from ptq.evaluation.measurements import Evaluation
    from ptq.evaluation.ranking import NodeCost, Ranking
    from ptq.evaluation.report.inspection import Inspection
    from ptq.evaluation.result import Result
    from ptq.evaluation.runs.engines import EngineName
    from ptq.evaluation.tasks.task import TaskName
    from ptq.executor.arithmetics import ArithmeticName
    from ptq.executor.runtimes.registry import RuntimeName
    from ptq.model.converted import Converted
    from ptq.observers.calibration_file import Calibration
    from ptq.optimization.effort import EffortName
    from ptq.optimization.preference import PreferenceName
    from ptq.rewrite.prepare.prepare import OpsetOption
    from ptq.rewrite.tflite.write import InputOutputType
    from ptq.solver.recipe import MethodName, QuantizedForm, RoundingMethod, WeightFormatOption
    from ptq.verification.lint_rules import Finding
    from ptq.verification.portability import Portability
    from ptq.verification.verify import Verification

# ONNX Runtime reads this when it is loaded. Since 1.29 its Linux wheels collect usage data without it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# a library prints nothing unless its user asks for it
logging.getLogger("ptq").addHandler(logging.NullHandler())

_MODULES = {
    "ptq.api.benchmark": "Benchmark benchmark",
    "ptq.api.calibrate": "calibrate",
    "ptq.api.compare": "compare",
    "ptq.api.convert": "convert",
    "ptq.api.evaluate": "evaluate",
    "ptq.api.frontier": "frontier",
    "ptq.api.inspect": "inspect",
    "ptq.api.lint": "lint",
    "ptq.api.merge_statistics": "merge_statistics",
    "ptq.api.portability": "portability",
    "ptq.api.quantize": "quantize",
    "ptq.api.saved_frontier": "Frontier",
    "ptq.api.sensitivity": "sensitivity",
    "ptq.api.tune": "Tuned tune",
    "ptq.api.verify": "verify",
    "ptq.core.errors": "BudgetError Cancelled DataError ModelError NoGainError PlanError PtqError StatsError "
    "UnknownOptionError UnsupportedError UnwrittenError UsageError",
    "ptq.core.plan": "Plan",
    "ptq.core.targets": "TargetName",
    "ptq.data": "AudioPreprocess Preprocess Sample Samples TextPreprocess open_samples",
    "ptq.evaluation.comparison": "Comparison",
    "ptq.evaluation.exports.mlflow_run": "log_to_mlflow",
    "ptq.evaluation.exports.report": "Report",
    "ptq.evaluation.frontier": "FrontierPoint FrontierReport",
    "ptq.evaluation.measurements": "Evaluation",
    "ptq.evaluation.ranking": "NodeCost Ranking",
    "ptq.evaluation.report.inspection": "Inspection",
    "ptq.evaluation.result": "Result",
    "ptq.evaluation.runs.engines": "EngineName",
    "ptq.evaluation.tasks.task": "TaskName",
    "ptq.executor.arithmetics": "ArithmeticName",
    "ptq.executor.runtimes.registry": "RuntimeName",
    "ptq.model.converted": "Converted",
    "ptq.observers.calibration_file": "Calibration",
    "ptq.optimization.effort": "EffortName",
    "ptq.optimization.preference": "PreferenceName",
    "ptq.rewrite.prepare.prepare": "OpsetOption",
    "ptq.rewrite.tflite.write": "InputOutputType",
    "ptq.solver.recipe": "MethodName QuantizedForm RoundingMethod WeightFormatOption",
    "ptq.verification.lint_rules": "Finding",
    "ptq.verification.portability": "Portability",
    "ptq.verification.verify": "Verification",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
"""Module of each public name. A name is imported when it is first used: all of them take a second."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # 0.03 s

        value = version("onnx-ptq")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "ArithmeticName", "AudioPreprocess", "Benchmark", "BudgetError", "Calibration", "Cancelled", "Comparison",
    "Converted", "DataError",
    "EffortName", "EngineName", "Evaluation", "Finding", "Frontier", "FrontierPoint", "FrontierReport",
    "InputOutputType", "Inspection", "MethodName", "ModelError",
    "NoGainError", "NodeCost", "OpsetOption", "Plan", "PlanError", "Portability", "PreferenceName", "Preprocess",
    "PtqError", "QuantizedForm", "Ranking", "Report", "Result", "RoundingMethod", "RuntimeName", "Sample", "Samples",
    "StatsError", "TargetName", "TaskName", "TextPreprocess", "Tuned",
    "UnknownOptionError", "UnsupportedError", "UnwrittenError", "UsageError",
    "Verification",
    "WeightFormatOption", "__version__", "benchmark", "calibrate", "compare", "convert", "evaluate",
    "frontier",
    "inspect", "lint", "log_to_mlflow", "merge_statistics", "open_samples", "portability", "quantize",
    "sensitivity", "tune", "verify",
]  # fmt: skip
