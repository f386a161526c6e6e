"""The operator table of LiteRT's 8-bit quantization specification beside our rows and kernels.

Oracle: the table, transcribed below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from cases import quantized_case
from sites import int8_params, run_node

from ptq.core.errors import UnsupportedError
from ptq.core.ops import OPS
from ptq.core.opspec import FixedQParams, OpSpec, OutputRule, Role
from ptq.core.targets import TARGETS
from ptq.executor.arithmetics import litert
from ptq.executor.executor import Executor
from ptq.executor.float_islands import FloatIsland
from ptq.model.node import QUANTIZERS

TARGET = TARGETS["litert"]
SAME, FREE, NONE = "same scale/zero_point", "", "no output"


@dataclass(frozen=True)
class Row:
    """What the specification says of one operator; inputs and outputs are int8 in [-128, 127] per tensor.

    Attributes:
        kernel: Its name among the kernels of the ``litert`` arithmetic.
        restriction: SAME, FREE, NONE, or the output's (scale, zero_point).
        weight_dim: quantized_dimension of an int8 weight in [-127, 127] with zero_point 0.
    """

    kernel: str
    restriction: str | tuple[float, int] = FREE
    weight_dim: int | None = None


TABLE = {
    "ADD": Row("Add"),
    "AVERAGE_POOL_2D": Row("AveragePool", SAME),
    "CONCATENATION": Row("Concat", SAME),
    "CONV_2D": Row("Conv", weight_dim=0),
    "DEPTHWISE_CONV_2D": Row("Conv", weight_dim=3),
    "FULLY_CONNECTED": Row("Gemm", weight_dim=0),
    "L2_NORMALIZATION": Row("LpNormalization", (1.0 / 128.0, 0)),
    "LOGISTIC": Row("Sigmoid", (1.0 / 256.0, -128)),
    "MAX_POOL_2D": Row("MaxPool", SAME),
    "MUL": Row("Mul"),
    "RESHAPE": Row("Reshape", SAME),
    "RESIZE_BILINEAR": Row("Resize linear", SAME),
    "SOFTMAX": Row("Softmax", (1.0 / 256.0, -128)),
    "SPACE_TO_DEPTH": Row("SpaceToDepth", SAME),
    "TANH": Row("Tanh", (1.0 / 128.0, 0)),
    "PAD": Row("Pad", SAME),
    "GATHER": Row("Gather", SAME),
    "BATCH_TO_SPACE_ND": Row("BatchToSpaceND", SAME),
    "SPACE_TO_BATCH_ND": Row("SpaceToBatchND", SAME),
    "TRANSPOSE": Row("Transpose", SAME),
    "MEAN": Row("ReduceMean"),
    "SUB": Row("Sub"),
    "SUM": Row("ReduceSum"),
    "SQUEEZE": Row("Squeeze", SAME),
    "LOG_SOFTMAX": Row("LogSoftmax", (16.0 / 256.0, 127)),
    "MAXIMUM": Row("Max", SAME),
    "ARG_MAX": Row("ArgMax", NONE),
    "MINIMUM": Row("Min", SAME),
    "LESS": Row("Less", NONE),
    "PADV2": Row("Pad", SAME),
    "GREATER": Row("Greater", NONE),
    "GREATER_EQUAL": Row("GreaterOrEqual", NONE),
    "LESS_EQUAL": Row("LessOrEqual", NONE),
    "SLICE": Row("Slice", SAME),
    "EQUAL": Row("Equal", NONE),
    "NOT_EQUAL": Row("NotEqual", NONE),
    "SHAPE": Row("Shape", NONE),
    "QUANTIZE": Row("Requantize"),
}

OF_TABLE = [(spec, TABLE[spec.litert]) for spec in OPS.values() if spec.litert in TABLE]
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "AveragePool": {"kernel_shape": (1, 1)},
    "BatchToSpaceND": {"block": (1, 1), "crops": [[0, 0], [0, 0]]},
    "Concat": {"axis": 0},
    "MaxPool": {"kernel_shape": (1, 1)},
    "Pad": {"pads": [0] * 8},
    "Reshape": {"shape": [1, 2, 2, 1]},
    "Resize linear": {"sizes": (1, 1, 2, 2)},
    "Slice": {"starts": [0], "ends": [2]},
    "SpaceToBatchND": {"block": (1, 1), "paddings": [[0, 0], [0, 0]]},
    "SpaceToDepth": {"blocksize": 1},
    "Squeeze": {"axes": [0]},
}


@pytest.mark.parametrize(("spec", "row"), OF_TABLE, ids=[spec.op for spec, _ in OF_TABLE])
def test_the_row_of_the_operator_says_what_the_specification_says(spec: OpSpec, row: Row) -> None:
    rule = TARGET.output_rule(spec)
    expected: dict[Any, Any] = {
        FREE: (OutputRule.OBSERVED,),
        SAME: (OutputRule.SAME_AS_INPUT, OutputRule.ONE_GROUP),
        NONE: (OutputRule.NONE,),
    }
    if isinstance(row.restriction, tuple):
        assert rule == FixedQParams(*row.restriction)
    else:
        assert rule in expected[row.restriction]
    assert Role.ACTIVATION in spec.input_roles
    if row.weight_dim is not None:
        assert spec.input_roles[1:] == (Role.WEIGHT, Role.BIAS)


@pytest.mark.parametrize("name", TABLE)
def test_the_operator_has_a_kernel(name: str) -> None:
    assert TABLE[name].kernel in litert.KERNELS


PATTERNS = {
    "BATCH_TO_SPACE_ND": ("space to batch and back", ["Transpose", "Reshape", "Slice"]),
    "DEPTHWISE_CONV_2D": ("depthwise", ["Conv"]),
    "NOT_EQUAL": ("not equal", ["Equal", "Not"]),
    "PADV2": ("pad with a value", ["Pad"]),
    "QUANTIZE": ("concat with a sigmoid", ["Requantize"]),
    "SPACE_TO_BATCH_ND": ("space to batch and back", ["Pad", "Reshape", "Transpose"]),
}
"""What ONNX says with other operators: a network that does, and they in order."""


@pytest.mark.parametrize("name", TABLE)
def test_the_operator_has_a_row_or_a_pattern(name: str) -> None:
    assert (name in PATTERNS) != any(spec.litert == name for spec in OPS.values())


@pytest.mark.parametrize("name", PATTERNS)
def test_the_pattern_runs_in_integers(name: str) -> None:
    network_name, ops = PATTERNS[name]
    done = quantized_case(network_name, "litert")
    steps = Executor(done.qdq, "litert").program.steps
    ran = [op for s in steps for op in (s.ops if isinstance(s, FloatIsland) else (s.op,))]
    assert " ".join(ops) in " ".join(
        op for op in ran if op not in ("Conv", *QUANTIZERS) or op in ops
    )
    # truth values are no numbers: Not is left to ONNX Runtime
    assert [s.ops for s in steps if isinstance(s, FloatIsland) and s.ops != ("Not",)] == []


@pytest.mark.parametrize("name", [n for n, row in TABLE.items() if row.restriction == SAME])
def test_a_kernel_whose_tensors_must_share_a_scale_refuses_two(name: str) -> None:
    op = TABLE[name].kernel
    count = 2 if op in ("Max", "Min", "Concat") else 1
    x = np.arange(4, dtype=np.int8).reshape(1, 2, 2, 1)
    indices = [(np.array([0]), None)] if op == "Gather" else []
    operands = [*[(x, int8_params(0.5, 3))] * count, *indices]
    assert run_node("litert", op, operands, int8_params(0.5, 3), **ATTRIBUTES.get(op, {})).size
    for other in (int8_params(0.25, 3), int8_params(0.5, 4)):
        with pytest.raises(UnsupportedError, match="one scale"):
            run_node("litert", op, operands, other, **ATTRIBUTES.get(op, {}))


@pytest.mark.parametrize(
    "name", [n for n, row in TABLE.items() if isinstance(row.restriction, tuple)]
)
def test_a_kernel_whose_output_is_prescribed_refuses_another(name: str) -> None:
    row = TABLE[name]
    assert isinstance(row.restriction, tuple)
    scale, zero_point = row.restriction
    x = [(np.arange(4, dtype=np.int8)[None], int8_params(0.05, 3))]
    assert run_node("litert", row.kernel, x, int8_params(scale, zero_point)).shape == (1, 4)
    for other in (int8_params(scale / 2, zero_point), int8_params(scale, zero_point // 2 + 1)):
        with pytest.raises(UnsupportedError, match="output"):
            run_node("litert", row.kernel, x, other)
