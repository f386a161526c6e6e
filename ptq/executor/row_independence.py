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
from ptq.executor.float_islands import Island
from ptq.executor.program import Program, Step

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Met:
    """A step, and what it met when it ran on a whole batch, as ONNX lays tensors out.

    Attributes:
        step: The step.
        arriving: Shape of each input that arrives, None for constants and absent ones.
        fixed: Each constant input, None for the others.
        result: Shape of the output.
        scales: What the integers of its input and its output mean, where they mean anything.
    """

    step: Step
    arriving: tuple[Shape | None, ...]
    fixed: tuple[NDArray[Any] | None, ...]
    result: Shape
    scales: tuple[QuantParams, ...]

    @property
    def alone(self) -> Shape | None:
        """Shape of input 0 where it is the only one that arrives."""
        first, *others = self.arriving
        return first if all(other is None for other in others) else None

    def whole_numbers(self, name: str) -> tuple[int, ...] | None:
        """A constant operand; None where it is absent or computed."""
        given = self.step.attrs.get(name)
        return None if given is None else tuple(int(value) for value in np.ravel(given))


Rule = Callable[[Met], bool]


def apart(
    step: Step | Island,
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
    if isinstance(step, Island):
        return step.name in tables
    around = (program.params.get(name or "") for name in (*step.inputs[:1], *step.outputs))
    met = Met(
        step,
        tuple(shapes[name] if name in names else None for name in step.inputs),
        tuple(program.constants.get(name or "") for name in step.inputs),
        shapes[step.outputs[0]],
        tuple(params for params in around if params is not None),
    )
    rule = RULES.get(step.op)
    return rule is not None and rule(met)


def _by_element(met: Met) -> bool:
    """Broadcast operands meet row by row if they have as many axes, constants if they have fewer or one row."""
    rank = len(met.result)
    return all(len(shape) == rank for shape in met.arriving if shape is not None) and all(
        c.ndim < rank or (c.ndim == rank and len(c) == 1) for c in met.fixed if c is not None
    )


def _sum(met: Met) -> bool:
    """ONNX Runtime's addition asks which operand is a scalar: of the batch only if nothing else has a size."""
    return _by_element(met) and prod(met.result[1:]) != 1


def _by_sample(met: Met) -> bool:
    """Whatever it does with a row, it is ONNX's batch axis."""
    return met.alone is not None


def _quantizer(met: Met) -> bool:
    rank = len(met.result)
    return met.alone is not None and all(
        params.axis is None or params.axis % rank != 0 for params in met.scales
    )


def _gemm(met: Met) -> bool:
    c = met.fixed[2] if len(met.fixed) > 2 else None
    turned = bool(met.step.attrs.get("transA", 0))
    return met.alone is not None and not turned and (c is None or c.ndim < 2 or len(c) == 1)


def _matmul(met: Met) -> bool:
    """Matrices along a batch axis; of the left operand's, its own rows too."""
    rank = len(met.result)
    for position, (shape, c) in enumerate(zip(met.arriving, met.fixed, strict=True)):
        if shape is not None:
            if len(shape) != rank or (rank == 2 and position == 1):
                return False
        elif c is None or not (
            c.ndim == 2 or 2 < c.ndim < rank or (2 < c.ndim == rank and len(c) == 1)
        ):
            return False
    return True


def _along(default: int) -> Rule:
    """One that runs along an axis, or from that axis on, but not along the first."""

    def rule(met: Met) -> bool:
        axis = int(met.step.attrs.get("axis", default))
        return met.alone is not None and axis % len(met.alone) != 0

    return rule


def _concat(met: Met) -> bool:
    rank = len(met.result)
    arrive = all(shape is not None and len(shape) == rank for shape in met.arriving)
    return arrive and int(met.step.attrs.get("axis", 0)) % rank != 0


def _over_axes(met: Met) -> bool:
    """One whose axes are named, and none is the first."""
    axes, shape = met.whole_numbers("axes"), met.alone
    return bool(axes) and shape is not None and all(a % len(shape) for a in axes or ())


def _unsqueeze(met: Met) -> bool:
    axes = met.whole_numbers("axes")
    return bool(axes) and met.alone is not None and all(a % len(met.result) for a in axes or ())


def _pad(met: Met) -> bool:
    pads, rank = met.whole_numbers("pads"), len(met.result)
    if pads is None or met.alone is None:
        return False
    if "axes" in met.step.attrs:
        return _over_axes(met)
    return len(pads) == 2 * rank and pads[0] == pads[rank] == 0


def _slice(met: Met) -> bool:
    known = all(met.whole_numbers(name) is not None for name in ("starts", "ends"))
    return known and _over_axes(met)


def _gather(met: Met) -> bool:
    """Of rows at constant places, or of a constant at the places that rows name."""
    data, places = met.arriving[:2]
    axis = int(met.step.attrs.get("axis", 0))
    if data is not None:
        return places is None and axis % len(data) != 0
    return met.fixed[0] is not None and places is not None and axis % met.fixed[0].ndim == 0


def _transpose(met: Met) -> bool:
    perm = met.whole_numbers("perm")
    return met.alone is not None and bool(perm) and perm is not None and perm[0] == 0


def _flatten(met: Met) -> bool:
    shape, axis = met.alone, int(met.step.attrs.get("axis", 1))
    return shape is not None and (axis + len(shape) if axis < 0 else axis) == 1


def _reshape(met: Met) -> bool:
    """The first size is kept, or what the rest, which is a row's, leaves."""
    shape, before = met.whole_numbers("shape"), met.alone
    if not shape or before is None or bool(met.step.attrs.get("allowzero", 0)):
        return False
    return shape[0] == 0 or (shape[0] == -1 and met.result[0] == before[0])


def _expand(met: Met) -> bool:
    shape = met.fixed[1] if len(met.fixed) > 1 else None
    rank = len(met.result)
    if met.alone is None or len(met.alone) != rank or shape is None:
        return False
    return len(shape) < rank or int(shape[0]) == 1


def _tile(met: Met) -> bool:
    repeats, shape = met.whole_numbers("repeats"), met.alone
    if not repeats or shape is None:
        return False
    return len(repeats) == len(shape) and repeats[0] == 1


def _resize(met: Met) -> bool:
    if met.alone is None:
        return False
    if "axes" in met.step.attrs:
        return _over_axes(met)
    sizes, scales = (np.ravel(met.step.attrs.get(name, ())) for name in ("sizes", "scales"))
    return not sizes.size and scales.size > 0 and bool(scales[0] == 1)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(UNARY, _by_element),
    **dict.fromkeys(("Div", "Identity", "Max", "Min", "Mul", "PRelu", "Sub", "Where"), _by_element),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), _by_element),
    **dict.fromkeys(("AveragePool", "Conv", "ConvTranspose", "DepthToSpace"), _by_sample),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization"), _by_sample),
    **dict.fromkeys(("MaxPool", "SpaceToDepth"), _by_sample),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear", "Requantize"), _quantizer),
    **dict.fromkeys(("LayerNormalization", "LogSoftmax", "LpNormalization", "Softmax"), _along(-1)),
    **dict.fromkeys(("ArgMax", "ArgMin", "Split"), _along(0)),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Squeeze"), _over_axes),
    **dict.fromkeys(("Resize linear", "Resize nearest"), _resize),
    "Add": _sum,
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
