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
    from ptq.api import calibrate, evaluate, quantize
    from ptq.calibration.merge import merge_statistics
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
    from ptq.evaluation.compare import Comparison, compare
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
    from ptq.optimization.benchmark import Benchmark, benchmark
    from ptq.optimization.effort import EffortName
    from ptq.optimization.frontier import frontier
    from ptq.optimization.inspect import inspect
    from ptq.optimization.mixed_precision.sensitivity import sensitivity
    from ptq.optimization.preference import PreferenceName
    from ptq.optimization.saved_frontier import Frontier
    from ptq.optimization.tune import Tuned, tune
    from ptq.rewrite.prepare.prepare import OpsetOption
    from ptq.rewrite.tflite.write import InputOutputType
    from ptq.solver.recipe import MethodName, QuantizedForm, RoundingMethod, WeightFormatOption
    from ptq.verification.lint_rules import Finding
    from ptq.verification.portability import Portability
    from ptq.verification.verbs import convert, lint, portability, verify
    from ptq.verification.verify import Verification

# ONNX Runtime reads this when it is loaded. Since 1.29 its Linux wheels collect usage data without it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# a library prints nothing unless its user asks for it
logging.getLogger("ptq").addHandler(logging.NullHandler())

_MODULES = {
    "ptq.api": "calibrate evaluate quantize",
    "ptq.calibration.merge": "merge_statistics",
    "ptq.core.errors": "BudgetError Cancelled DataError ModelError NoGainError PlanError PtqError StatsError "
    "UnknownOptionError UnsupportedError UnwrittenError UsageError",
    "ptq.core.plan": "Plan",
    "ptq.core.targets": "TargetName",
    "ptq.data": "AudioPreprocess Preprocess Sample Samples TextPreprocess open_samples",
    "ptq.evaluation.compare": "Comparison compare",
    "ptq.evaluation.runs.engines": "EngineName",
    "ptq.executor.runtimes.registry": "RuntimeName",
    "ptq.evaluation.exports.mlflow_run": "log_to_mlflow",
    "ptq.evaluation.exports.report": "Report",
    "ptq.evaluation.frontier": "FrontierPoint FrontierReport",
    "ptq.evaluation.report.inspection": "Inspection",
    "ptq.evaluation.measurements": "Evaluation",
    "ptq.evaluation.ranking": "NodeCost Ranking",
    "ptq.evaluation.result": "Result",
    "ptq.evaluation.tasks.task": "TaskName",
    "ptq.executor.arithmetics": "ArithmeticName",
    "ptq.model.converted": "Converted",
    "ptq.observers.calibration_file": "Calibration",
    "ptq.optimization.benchmark": "Benchmark benchmark",
    "ptq.optimization.effort": "EffortName",
    "ptq.optimization.inspect": "inspect",
    "ptq.optimization.frontier": "frontier",
    "ptq.optimization.mixed_precision.sensitivity": "sensitivity",
    "ptq.optimization.preference": "PreferenceName",
    "ptq.optimization.saved_frontier": "Frontier",
    "ptq.optimization.tune": "Tuned tune",
    "ptq.rewrite.prepare.prepare": "OpsetOption",
    "ptq.rewrite.tflite.write": "InputOutputType",
    "ptq.solver.recipe": "MethodName QuantizedForm RoundingMethod WeightFormatOption",
    "ptq.verification.lint_rules": "Finding",
    "ptq.verification.portability": "Portability",
    "ptq.verification.verbs": "convert lint portability verify",
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
