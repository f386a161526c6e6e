"""Form of each JSON document, as dataclasses; scripts/schema makes cli/schema.json of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptq.api.benchmark import Benchmark
from ptq.evaluation.comparison import Comparison
from ptq.evaluation.frontier import FrontierReport
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.ranking import Ranking
from ptq.evaluation.report.inspection import Inspection
from ptq.evaluation.report.report_data import ReportData
from ptq.verification.lint_rules import Finding
from ptq.verification.node_status import NodeStatus
from ptq.verification.portability import NodeRisk
from ptq.verification.verify import TensorDifference, Verification

from ..operator_table import OpRow
from .document_header import ErrorDocument, Header


@dataclass(frozen=True)
class CalibrationSummary:
    """Result of ``ptq calibrate``; the statistics themselves are in the output file.

    Attributes:
        graph: Digest of the graph that the statistics belong to.
        samples: Number of samples counted.
        tensors: Number of tensors observed.
        preprocessing: Operations applied to images, audio or text; empty for arrays.
        skipped: Skipped bad samples, each with its reason.
        missing_shards: Shards of the samples that are not counted, each as ``1/3``.
        processors: The kinds of processor that the statistics were made on; empty if unknown.
        kept_samples: Number of samples that the file keeps.
    """

    graph: str
    samples: int
    tensors: int
    preprocessing: Mapping[str, Any]
    skipped: tuple[tuple[str, str], ...]
    missing_shards: tuple[str, ...] = ()
    processors: tuple[str, ...] = ()
    kept_samples: int = 0


@dataclass(frozen=True)
class ConversionSummary:
    """Result of ``ptq convert``.

    Attributes:
        form: ``qdq``, ``qoperator`` or ``tflite``.
        float_nodes: Operators that the converted model computes in float, each with its reason.
        load_failure: Why ONNX Runtime cannot load the converted model; empty if it can, and of a `.tflite` file.
        given_model_loads: False if ONNX Runtime loads neither the converted model nor the given one.
    """

    form: str
    float_nodes: tuple[NodeStatus, ...]
    load_failure: str = ""
    given_model_loads: bool = True


@dataclass(frozen=True)
class TuneSummary:
    """Result of ``ptq tune``; the table itself is in the output file.

    Attributes:
        version: Version of ONNX Runtime.
        processor: Kind of processor.
        threads: Threads of ONNX Runtime.
        digest: Digest of the table, as plans name it.
        timed: Number of kernels that were timed.
        left_out: Kernels that could not be timed, each with the reason.
    """

    version: str
    processor: str
    threads: int
    digest: str
    timed: int
    left_out: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class EvaluationEntries:
    """Further entries of ``ptq evaluate``.

    Attributes:
        preprocessing: Operations applied to images, audio or text.
    """

    preprocessing: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PortabilityEntries:
    """Risks on other processors.

    Attributes:
        samples: Number of samples.
        nodes: Nodes that sum products with constant weights, in execution order.
        bits_left: Smallest headroom of any node, for any input.
        ties: Number of accumulators exactly halfway between two integers.
        saturable: Nodes that can saturate int16 without VNNI.
        saturated: Nodes with integers that change on the samples without VNNI.
        remedies: Remedies against saturation; empty if no node can saturate.
    """

    samples: int
    nodes: tuple[NodeRisk, ...]
    bits_left: float
    ties: int
    saturable: tuple[str, ...]
    saturated: tuple[str, ...]
    remedies: tuple[str, ...]


@dataclass(frozen=True)
class VerificationEntries:
    """Further entries of ``ptq verify``.

    Attributes:
        equal: Whether all integers and all outputs are equal.
        passed: Whether the exit code is 0.
        first: The first tensor that differs; null if none does.
        explanations: Reasons for differences, by operator.
        portability: Risks on other processors; null with ``--no-portability``.
    """

    equal: bool
    passed: bool
    first: TensorDifference | None
    explanations: Mapping[str, str]
    portability: PortabilityEntries | None


DOCUMENTS: Mapping[str, tuple[type, ...]] = {
    "quantize": (Header, ReportData),
    "calibrate": (Header, CalibrationSummary),
    "inspect": (Header, Inspection),
    "evaluate": (Header, Evaluation, EvaluationEntries),
    "compare": (Header, Comparison),
    "benchmark": (Header, Benchmark),
    "tune": (Header, TuneSummary),
    "frontier": (Header, FrontierReport),
    "verify": (Header, Verification, VerificationEntries),
    "sensitivity": (Header, Ranking),
    "convert": (Header, ConversionSummary),
    "error": (ErrorDocument,),
}
"""The parts of each document, whose entries stand side by side, by command."""

ROWS: Mapping[str, type] = {"lint": Finding, "ops": OpRow}
"""Commands whose document is an array of rows without a header."""
