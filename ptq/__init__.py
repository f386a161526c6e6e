"""Post-training quantization for ONNX models: observed ranges, a plan with reasons, and its cost measured.

import ptq

result = ptq.quantize("model.onnx", "images/")
result.save("model.int8.onnx")
"""

import logging
from importlib.metadata import version

from ptq.api import calibrate, evaluate, quantize
from ptq.core.errors import (
    BudgetError,
    Cancelled,
    DataError,
    ModelError,
    PlanError,
    PtqError,
    StatsError,
    UnsupportedError,
    UsageError,
)
from ptq.core.plan import Plan
from ptq.core.targets import TargetName
from ptq.data import AudioPreprocess, Preprocess, Sample, Samples, TextPreprocess, open_samples
from ptq.evaluation.compare import Comparison, compare
from ptq.evaluation.engines import EngineName
from ptq.evaluation.exports.mlflow_run import log_to_mlflow
from ptq.evaluation.exports.report import Report
from ptq.evaluation.inspection import Inspection
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.ranking import NodeCost, Ranking
from ptq.evaluation.result import Result
from ptq.executor.arithmetics import ArithmeticName
from ptq.model.converted import Converted
from ptq.observers.calibration_file import Calibration
from ptq.optimization.inspect import inspect
from ptq.optimization.mixed_precision.sensitivity import sensitivity
from ptq.rewrite.prepare.prepare import OpsetOption
from ptq.solver.recipe import MethodName, QuantizedForm, RoundingMethod, WeightFormatOption
from ptq.verification.lint_rules import Finding
from ptq.verification.portability import Portability
from ptq.verification.verbs import convert, lint, portability, verify
from ptq.verification.verify import Verification

__version__ = version("onnx-ptq")

# a library prints nothing unless its user asks for it
logging.getLogger("ptq").addHandler(logging.NullHandler())

__all__ = [
    "ArithmeticName", "AudioPreprocess", "BudgetError", "Calibration", "Cancelled", "Comparison", "Converted",
    "DataError",
    "EngineName", "Evaluation", "Finding", "Inspection", "MethodName", "ModelError",
    "NodeCost", "OpsetOption", "Plan", "PlanError", "Portability", "Preprocess", "PtqError",
    "QuantizedForm", "Ranking", "Report", "Result", "RoundingMethod", "Sample", "Samples",
    "StatsError", "TargetName", "TextPreprocess", "UnsupportedError", "UsageError", "Verification",
    "WeightFormatOption", "__version__", "calibrate", "compare", "convert", "evaluate",
    "inspect", "lint", "log_to_mlflow", "open_samples", "portability", "quantize",
    "sensitivity", "verify",
]  # fmt: skip
