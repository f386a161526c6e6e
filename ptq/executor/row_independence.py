"""Row independence: steps that give the same bits if they run on some rows of a batch at a time.

A step is row-independent if three things hold. Every input that is computed has one row for each sample along its
leading axis. So has the output. Row i of the output depends only on row i of the inputs, in the same way for any
number of rows. There is one rule for each operator, which reads the shapes of a run. Rules are sufficient, not
necessary. An operator without a rule is not row-independent, nor is an island that is not a table: ONNX Runtime's
float kernels round a row differently by its place in memory.
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
    """A step, and the shapes of its tensors in a run on a whole batch, in ONNX's layout.

    Attributes:
        step: The step.
        input_shapes: Shape of each computed input, None for constants and absent inputs.
        constants: Each constant input, None for the others.
        output_shape: Shape of the output.
        qparams: Parameters of its first input and its output, if they have any.
    """

    step: Step
    input_shapes: tuple[Shape | None, ...]
    constants: tuple[NDArray[Any] | None, ...]
    output_shape: Shape
    qparams: tuple[QuantParams, ...]

    @property
    def only_input_shape(self) -> Shape | None:
        """Shape of input 0 if no other input is computed; otherwise None."""
        first, *others = self.input_shapes
        return first if all(other is None for other in others) else None

    def integer_attribute(self, name: str) -> tuple[int, ...] | None:
        """Return an operand as integers; None if it is absent or computed."""
        given = self.step.attrs.get(name)
        return None if given is None else tuple(int(value) for value in np.ravel(given))


Rule = Callable[[StepShapes], bool]


def are_rows_independent(
    step: Step | FloatIsland,
    program: Program,
    tables: Collection[str],
    rows: int,
    shapes: Mapping[str, Shape],
) -> bool:
    """Return whether the step may run on some rows at a time, so that its outputs can be concatenated.

    Args:
        step: One of the program's steps.
        program: The program.
        tables: Names of the islands that are tables.
        rows: Size of the batch in a run.
        shapes: Shapes of all tensors in that run.
    """
    names = [name for name in step.inputs if name is not None and name not in program.constants]
    if any(shapes[name][:1] != (rows,) for name in (*names, *step.outputs)):
        return False
    if isinstance(step, FloatIsland):
        return step.name in tables
    around = (program.params.get(name or "") for name in (*step.inputs[:1], *step.outputs))
    step_shapes = StepShapes(
        step,
        tuple(shapes[name] if name in names else None for name in step.inputs),
        tuple(program.constants.get(name or "") for name in step.inputs),
        shapes[step.outputs[0]],
        tuple(params for params in around if params is not None),
    )
    rule = INDEPENDENCE_RULES.get(step.op)
    return rule is not None and rule(step_shapes)


def _is_rowwise_elementwise(shapes: StepShapes) -> bool:
    """Operands have the rank of the output; constants have a lower rank, or one row."""
    rank = len(shapes.output_shape)
    return all(len(shape) == rank for shape in shapes.input_shapes if shape is not None) and all(
        c.ndim < rank or (c.ndim == rank and len(c) == 1) for c in shapes.constants if c is not None
    )


def _is_rowwise_add(shapes: StepShapes) -> bool:
    """Elementwise, unless a row is one value: ONNX Runtime's addition treats a scalar operand differently."""
    return _is_rowwise_elementwise(shapes) and prod(shapes.output_shape[1:]) != 1


def _is_rowwise_by_sample(shapes: StepShapes) -> bool:
    """The leading axis is ONNX's batch axis; rows are never combined."""
    return shapes.only_input_shape is not None


def _is_rowwise_quantizer(shapes: StepShapes) -> bool:
    rank = len(shapes.output_shape)
    return shapes.only_input_shape is not None and all(
        params.axis is None or params.axis % rank != 0 for params in shapes.qparams
    )


def _is_rowwise_gemm(shapes: StepShapes) -> bool:
    c = shapes.constants[2] if len(shapes.constants) > 2 else None
    transposed = bool(shapes.step.attrs.get("transA", 0))
    return (
        shapes.only_input_shape is not None
        and not transposed
        and (c is None or c.ndim < 2 or len(c) == 1)
    )


def _is_rowwise_matmul(shapes: StepShapes) -> bool:
    """A leading batch axis of matrices; for the left operand also the rows of a matrix."""
    rank = len(shapes.output_shape)
    for position, (shape, c) in enumerate(zip(shapes.input_shapes, shapes.constants, strict=True)):
        if shape is not None:
            if len(shape) != rank or (rank == 2 and position == 1):
                return False
        elif c is None or not (
            c.ndim == 2 or 2 < c.ndim < rank or (2 < c.ndim == rank and len(c) == 1)
        ):
            return False
    return True


def _make_axis_rule(default: int) -> Rule:
    """Return the rule of operators that run along one axis, or from it on, which must not be the first."""

    def rule(shapes: StepShapes) -> bool:
        axis = int(shapes.step.attrs.get("axis", default))
        return shapes.only_input_shape is not None and axis % len(shapes.only_input_shape) != 0

    return rule


def _is_rowwise_concat(shapes: StepShapes) -> bool:
    rank = len(shapes.output_shape)
    same_rank = all(shape is not None and len(shape) == rank for shape in shapes.input_shapes)
    return same_rank and int(shapes.step.attrs.get("axis", 0)) % rank != 0


def _is_rowwise_by_axes(shapes: StepShapes) -> bool:
    """The axes are given, and the first axis is not one of them."""
    axes, shape = shapes.integer_attribute("axes"), shapes.only_input_shape
    return bool(axes) and shape is not None and all(a % len(shape) for a in axes or ())


def _is_rowwise_unsqueeze(shapes: StepShapes) -> bool:
    axes = shapes.integer_attribute("axes")
    return (
        bool(axes)
        and shapes.only_input_shape is not None
        and all(a % len(shapes.output_shape) for a in axes or ())
    )


def _is_rowwise_pad(shapes: StepShapes) -> bool:
    pads, rank = shapes.integer_attribute("pads"), len(shapes.output_shape)
    if pads is None or shapes.only_input_shape is None:
        return False
    if "axes" in shapes.step.attrs:
        return _is_rowwise_by_axes(shapes)
    return len(pads) == 2 * rank and pads[0] == pads[rank] == 0


def _is_rowwise_slice(shapes: StepShapes) -> bool:
    constant = all(shapes.integer_attribute(name) is not None for name in ("starts", "ends"))
    return constant and _is_rowwise_by_axes(shapes)


def _is_rowwise_gather(shapes: StepShapes) -> bool:
    """Rows gathered at constant indices along another axis, or a constant gathered at the indices of each row."""
    data, indices = shapes.input_shapes[:2]
    axis = int(shapes.step.attrs.get("axis", 0))
    if data is not None:
        return indices is None and axis % len(data) != 0
    return (
        shapes.constants[0] is not None
        and indices is not None
        and axis % shapes.constants[0].ndim == 0
    )


def _is_rowwise_transpose(shapes: StepShapes) -> bool:
    perm = shapes.integer_attribute("perm")
    return shapes.only_input_shape is not None and bool(perm) and perm is not None and perm[0] == 0


def _is_rowwise_flatten(shapes: StepShapes) -> bool:
    shape, axis = shapes.only_input_shape, int(shapes.step.attrs.get("axis", 1))
    return shape is not None and (axis + len(shape) if axis < 0 else axis) == 1


def _is_rowwise_reshape(shapes: StepShapes) -> bool:
    """The first size is kept, or is what the other sizes, those of a row, leave."""
    shape, before = shapes.integer_attribute("shape"), shapes.only_input_shape
    if not shape or before is None or bool(shapes.step.attrs.get("allowzero", 0)):
        return False
    return shape[0] == 0 or (shape[0] == -1 and shapes.output_shape[0] == before[0])


def _is_rowwise_expand(shapes: StepShapes) -> bool:
    shape = shapes.constants[1] if len(shapes.constants) > 1 else None
    rank = len(shapes.output_shape)
    if shapes.only_input_shape is None or len(shapes.only_input_shape) != rank or shape is None:
        return False
    return len(shape) < rank or int(shape[0]) == 1


def _is_rowwise_tile(shapes: StepShapes) -> bool:
    repeats, shape = shapes.integer_attribute("repeats"), shapes.only_input_shape
    if not repeats or shape is None:
        return False
    return len(repeats) == len(shape) and repeats[0] == 1


def _is_rowwise_resize(shapes: StepShapes) -> bool:
    if shapes.only_input_shape is None:
        return False
    if "axes" in shapes.step.attrs:
        return _is_rowwise_by_axes(shapes)
    sizes, scales = (np.ravel(shapes.step.attrs.get(name, ())) for name in ("sizes", "scales"))
    return not sizes.size and scales.size > 0 and bool(scales[0] == 1)


_ELEMENTWISE = (
    *("Div", "Equal", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mul"),
    *("PRelu", "Sub", "Where"),
)  # fmt: skip
_BY_SAMPLE = (
    *("AveragePool", "Conv", "ConvTranspose", "DepthToSpace", "GlobalAveragePool", "GlobalMaxPool"),
    *("InstanceNormalization", "MaxPool", "SpaceToDepth"),
)
INDEPENDENCE_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(UNARY, _is_rowwise_elementwise),
    **dict.fromkeys(_ELEMENTWISE, _is_rowwise_elementwise),
    **dict.fromkeys(_BY_SAMPLE, _is_rowwise_by_sample),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear", "Requantize"), _is_rowwise_quantizer),
    **dict.fromkeys(
        ("LayerNormalization", "LogSoftmax", "LpNormalization", "Softmax"), _make_axis_rule(-1)
    ),
    **dict.fromkeys(("ArgMax", "ArgMin", "Split"), _make_axis_rule(0)),
    **dict.fromkeys(
        ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Squeeze"), _is_rowwise_by_axes
    ),
    **dict.fromkeys(("Resize linear", "Resize nearest"), _is_rowwise_resize),
    "Add": _is_rowwise_add,
    "Concat": _is_rowwise_concat,
    "Expand": _is_rowwise_expand,
    "Flatten": _is_rowwise_flatten,
    "Gather": _is_rowwise_gather,
    "Gemm": _is_rowwise_gemm,
    "MatMul": _is_rowwise_matmul,
    "Pad": _is_rowwise_pad,
    "Reshape": _is_rowwise_reshape,
    "Slice": _is_rowwise_slice,
    "Tile": _is_rowwise_tile,
    "Transpose": _is_rowwise_transpose,
    "Unsqueeze": _is_rowwise_unsqueeze,
}
"""Rules by row of the operator table. Shape has none: it counts the rows."""
