"""At which steps may the rows of a batch be run apart, to the same bits?

Where every tensor that arrives has a row for each sample along its leading axis, and so has the output, of which row
i depends on their rows i alone, in the same way whatever the number of rows. One rule an operator says so, given what
met there in a run. Rules are sufficient, not necessary; an operator without one, and an island that is no table, keep
the rows together. (ONNX Runtime's float kernels round a row by where it lies in memory, so that islands are not the
same to the bit.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.ops import UNARY
from ptq.core.types import QuantParams
from ptq.executor.float_islands import FloatIsland
from ptq.executor.program import Program, Step

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class StepShapes:
    """A step, and what it met when it ran on a whole batch, as ONNX lays tensors out.

    Attributes:
        step: The step.
        arriving: Shape of each input that arrives, None for constants and absent ones.
        fixed: Each constant input, None for the others.
        result: Shape of the output.
        scales: What the integers of its input and its output mean, where they mean anything.
    """

    step: Step
    input_shapes: tuple[Shape | None, ...]
    constants: tuple[NDArray[Any] | None, ...]
    output_shape: Shape
    qparams: tuple[QuantParams, ...]

    @property
    def only_input_shape(self) -> Shape | None:
        """Shape of input 0 where it is the only one that arrives."""
        first, *others = self.input_shapes
        return first if all(other is None for other in others) else None

    def integer_attribute(self, name: str) -> tuple[int, ...] | None:
        """A constant operand; None where it is absent or computed."""
        given = self.step.attrs.get(name)
        return None if given is None else tuple(int(value) for value in np.ravel(given))


Rule = Callable[[StepShapes], bool]


def rows_are_independent(
    step: Step | FloatIsland,
    program: Program,
    tables: Collection[str],
    rows: int,
    shapes: Mapping[str, Shape],
) -> bool:
    """Whether the step may be run on some of the rows at a time, and the pieces of its output be joined.

    Args:
        step: One of the program's.
        program: All steps.
        tables: Names of the islands that map one value to one value.
        rows: Size of the batch in a run.
        shapes: Of every tensor in that run.
    """
    names = [name for name in step.inputs if name is not None and name not in program.constants]
    if any(shapes[name][:1] != (rows,) for name in (*names, *step.outputs)):
        return False
    if isinstance(step, FloatIsland):
        return step.name in tables
    around = (program.params.get(name or "") for name in (*step.inputs[:1], *step.outputs))
    met = StepShapes(
        step,
        tuple(shapes[name] if name in names else None for name in step.inputs),
        tuple(program.constants.get(name or "") for name in step.inputs),
        shapes[step.outputs[0]],
        tuple(params for params in around if params is not None),
    )
    rule = INDEPENDENCE_RULES.get(step.op)
    return rule is not None and rule(met)


def _elementwise_rule(met: StepShapes) -> bool:
    """Broadcast operands meet row by row if they have as many axes, constants if they have fewer or one row."""
    rank = len(met.output_shape)
    return all(len(shape) == rank for shape in met.input_shapes if shape is not None) and all(
        c.ndim < rank or (c.ndim == rank and len(c) == 1) for c in met.constants if c is not None
    )


def _add(met: StepShapes) -> bool:
    """ONNX Runtime's addition asks which operand is a scalar: of the batch only if nothing else has a size."""
    return _elementwise_rule(met) and prod(met.output_shape[1:]) != 1


def _batch_axis_rule(met: StepShapes) -> bool:
    """Whatever it does with a row, it is ONNX's batch axis."""
    return met.only_input_shape is not None


def _quantizer_rule(met: StepShapes) -> bool:
    rank = len(met.output_shape)
    return met.only_input_shape is not None and all(
        params.axis is None or params.axis % rank != 0 for params in met.qparams
    )


def _gemm(met: StepShapes) -> bool:
    c = met.constants[2] if len(met.constants) > 2 else None
    turned = bool(met.step.attrs.get("transA", 0))
    return (
        met.only_input_shape is not None and not turned and (c is None or c.ndim < 2 or len(c) == 1)
    )


def _matmul(met: StepShapes) -> bool:
    """Matrices along a batch axis; of the left operand's, its own rows too."""
    rank = len(met.output_shape)
    for position, (shape, c) in enumerate(zip(met.input_shapes, met.constants, strict=True)):
        if shape is not None:
            if len(shape) != rank or (rank == 2 and position == 1):
                return False
        elif c is None or not (
            c.ndim == 2 or 2 < c.ndim < rank or (2 < c.ndim == rank and len(c) == 1)
        ):
            return False
    return True


def _axis_rule(default: int) -> Rule:
    """One that runs along an axis, or from that axis on, but not along the first."""

    def rule(met: StepShapes) -> bool:
        axis = int(met.step.attrs.get("axis", default))
        return met.only_input_shape is not None and axis % len(met.only_input_shape) != 0

    return rule


def _concat(met: StepShapes) -> bool:
    rank = len(met.output_shape)
    arrive = all(shape is not None and len(shape) == rank for shape in met.input_shapes)
    return arrive and int(met.step.attrs.get("axis", 0)) % rank != 0


def _axes_rule(met: StepShapes) -> bool:
    """One whose axes are named, and none is the first."""
    axes, shape = met.integer_attribute("axes"), met.only_input_shape
    return bool(axes) and shape is not None and all(a % len(shape) for a in axes or ())


def _unsqueeze(met: StepShapes) -> bool:
    axes = met.integer_attribute("axes")
    return (
        bool(axes)
        and met.only_input_shape is not None
        and all(a % len(met.output_shape) for a in axes or ())
    )


def _pad(met: StepShapes) -> bool:
    pads, rank = met.integer_attribute("pads"), len(met.output_shape)
    if pads is None or met.only_input_shape is None:
        return False
    if "axes" in met.step.attrs:
        return _axes_rule(met)
    return len(pads) == 2 * rank and pads[0] == pads[rank] == 0


def _slice(met: StepShapes) -> bool:
    known = all(met.integer_attribute(name) is not None for name in ("starts", "ends"))
    return known and _axes_rule(met)


def _gather(met: StepShapes) -> bool:
    """Of rows at constant places, or of a constant at the places that rows name."""
    data, places = met.input_shapes[:2]
    axis = int(met.step.attrs.get("axis", 0))
    if data is not None:
        return places is None and axis % len(data) != 0
    return met.constants[0] is not None and places is not None and axis % met.constants[0].ndim == 0


def _transpose(met: StepShapes) -> bool:
    perm = met.integer_attribute("perm")
    return met.only_input_shape is not None and bool(perm) and perm is not None and perm[0] == 0


def _flatten(met: StepShapes) -> bool:
    shape, axis = met.only_input_shape, int(met.step.attrs.get("axis", 1))
    return shape is not None and (axis + len(shape) if axis < 0 else axis) == 1


def _reshape(met: StepShapes) -> bool:
    """The first size is kept, or what the rest, which is a row's, leaves."""
    shape, before = met.integer_attribute("shape"), met.only_input_shape
    if not shape or before is None or bool(met.step.attrs.get("allowzero", 0)):
        return False
    return shape[0] == 0 or (shape[0] == -1 and met.output_shape[0] == before[0])


def _expand(met: StepShapes) -> bool:
    shape = met.constants[1] if len(met.constants) > 1 else None
    rank = len(met.output_shape)
    if met.only_input_shape is None or len(met.only_input_shape) != rank or shape is None:
        return False
    return len(shape) < rank or int(shape[0]) == 1


def _tile(met: StepShapes) -> bool:
    repeats, shape = met.integer_attribute("repeats"), met.only_input_shape
    if not repeats or shape is None:
        return False
    return len(repeats) == len(shape) and repeats[0] == 1


def _resize(met: StepShapes) -> bool:
    if met.only_input_shape is None:
        return False
    if "axes" in met.step.attrs:
        return _axes_rule(met)
    sizes, scales = (np.ravel(met.step.attrs.get(name, ())) for name in ("sizes", "scales"))
    return not sizes.size and scales.size > 0 and bool(scales[0] == 1)


INDEPENDENCE_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(UNARY, _elementwise_rule),
    **dict.fromkeys(
        ("Div", "Identity", "Max", "Min", "Mul", "PRelu", "Sub", "Where"), _elementwise_rule
    ),
    **dict.fromkeys(
        ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), _elementwise_rule
    ),
    **dict.fromkeys(("AveragePool", "Conv", "ConvTranspose", "DepthToSpace"), _batch_axis_rule),
    **dict.fromkeys(
        ("GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization"), _batch_axis_rule
    ),
    **dict.fromkeys(("MaxPool", "SpaceToDepth"), _batch_axis_rule),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear", "Requantize"), _quantizer_rule),
    **dict.fromkeys(
        ("LayerNormalization", "LogSoftmax", "LpNormalization", "Softmax"), _axis_rule(-1)
    ),
    **dict.fromkeys(("ArgMax", "ArgMin", "Split"), _axis_rule(0)),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Squeeze"), _axes_rule),
    **dict.fromkeys(("Resize linear", "Resize nearest"), _resize),
    "Add": _add,
    "Concat": _concat,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""By row of the operator table; a Shape, which counts the rows, has none."""
