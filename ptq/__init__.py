"""Post-training quantization for ONNX models: observed ranges, a plan with reasons, and its cost measured.

import ptq

result = ptq.quantize("model.onnx", "images/")
result.save("model.int8.onnx")
"""

from importlib.metadata import version

from ptq.api import calibrate, evaluate, inspect, quantize
from ptq.data import Preprocess, Sample, Samples, open_samples
from ptq.errors import (
    DataError,
    ModelError,
    PlanError,
    PtqError,
    StatsError,
    UnsupportedError,
    UsageError,
)
from ptq.evaluate import Evaluation
from ptq.inspection import Inspection
from ptq.lint_rules import Finding
from ptq.observers.store import Calibration
from ptq.parity.portability import Portability
from ptq.plan import Plan
from ptq.quantized import convert, lint, portability, verify
from ptq.ranking import NodeCost, Ranking, sensitivity
from ptq.report import Report
from ptq.result import Result
from ptq.verify import Verification

__version__ = version("onnx-ptq")

__all__ = [
    "Calibration",
    "DataError",
    "Evaluation",
    "Finding",
    "Inspection",
    "ModelError",
    "NodeCost",
    "Plan",
    "PlanError",
    "Portability",
    "Preprocess",
    "PtqError",
    "Ranking",
    "Report",
    "Result",
    "Sample",
    "Samples",
    "StatsError",
    "UnsupportedError",
    "UsageError",
    "Verification",
    "__version__",
    "calibrate",
    "convert",
    "evaluate",
    "inspect",
    "lint",
    "open_samples",
    "portability",
    "quantize",
    "sensitivity",
    "verify",
]
