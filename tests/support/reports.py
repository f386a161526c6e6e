"""A report with figures that are set here."""

from __future__ import annotations

import math

from ptq.evaluation.exports.report import Report
from ptq.evaluation.measurements import Evaluation, FormMetrics
from ptq.evaluation.metrics import Accuracy, Fidelity
from ptq.evaluation.report.report_data import NodeRow, TensorRow

BEFORE, AFTER = Accuracy(0.9, 0.99, 200), Accuracy(0.885, 0.995, 200)
NEAR = {"scores": Fidelity(30.0, 0.999, 0.97), "boxes": Fidelity(math.inf, 1.0, None)}
EVALUATION = Evaluation(
    samples=250,
    head="scores",
    forms={
        "float": FormMetrics(BEFORE, {}),
        "int8": FormMetrics(AFTER, NEAR),
        "integers": FormMetrics(AFTER, NEAR),
    },
)
REPORT = Report(
    model="net.onnx",
    target="ort",
    method="mse",
    form="qdq",
    arithmetic="ort",
    changes=(),
    preprocessing={"channels": "BGR", "resize": 256, "crop": [224, 224], "mean": [0.4, 0.5, 0.6]},
    calibration_samples=64,
    evaluated_on="on evaluation samples",
    evaluation=EVALUATION,
    float_bytes=4_000_000,
    int8_bytes=1_000_000,
    speed=2.5,
    islands={"a": ("Erf",), "b": ("Erf",)},
    tensors=(TensorRow("t" * 90, "activation", 12.5, 0.75, 0.01, -1.0, 2.0, "observed: mse"),),
    nodes=(
        NodeRow("c", "Conv", "int8", ""),
        NodeRow("r", "Relu", "folded", "the requantization of c does its work"),
        NodeRow("e", "Erf", "float", "no integer form"),
        NodeRow("f", "Erf", "float", "no integer form"),
    ),
)
