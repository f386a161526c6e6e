"""Float operators that LiteRT says by several of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptq.core.errors import UnsupportedError
from ptq.core.types import FLOAT32
from ptq.kernels.real_functions import SELU_ALPHA, SELU_GAMMA
from ptq.rewrite.tflite.emitter import Emitter
from ptq.rewrite.tflite.operations import Operation
from ptq.rewrite.tflite.orders import Order, order_channels_last, order_naturally, permute_shape


class _Composition:
    """Float tensors of one shape and stored order, and the operators between them."""

    def __init__(self, e: Emitter, o: Operation, order: Order | None = None) -> None:
        self.e, self.x, self.y = e, str(o.inputs[0]), o.outputs[0]
        self.order = order or e.order(self.x) or order_naturally(e.rank(self.x))
        self.source = e.read(self.x, self.order)

    def temporary(self, what: str, reduced: Sequence[int] = ()) -> int:
        """A new tensor; stored axes in ``reduced`` have length 1."""
        shape, signature = (
            tuple(
                1 if at in reduced else n
                for at, n in enumerate(permute_shape(of(self.x), self.order))
            )
            for of in (self.e.shape, self.e.signature)
        )
        return self.e.temporary(f"{self.y}_{what}", shape, FLOAT32, signature=signature)

    def number(self, value: float, what: str) -> int:
        """A scalar constant."""
        return self.e.literal(np.float32(value), f"{self.y}_{what}")

    def result(self) -> int:
        """The tensor of the output."""
        return self.e.write(self.y, self.order)

    def binary(self, builtin: str, a: int, b: int, output: int) -> int:
        """Add an operator of two operands; return its output."""
        options = "".join(word.title() for word in builtin.split("_")) + "Options"
        fields = {} if builtin == "SQUARED_DIFFERENCE" else {"fusedActivationFunction": 0}
        self.e.op(builtin, [a, b], [output], options, **fields)
        return output

    def add_softplus(self, output: int) -> int:
        """max(x, 0) + log(1 + exp(−|x|)); return its output."""
        size, below, power, log, above = map(
            self.temporary, ("abs", "neg", "power", "log", "above")
        )
        self.e.op("ABS", [self.source], [size], "AbsOptions")
        self.e.op("NEG", [size], [below], "NegOptions")
        self.e.op("EXP", [below], [power], "ExpOptions")
        total = self.binary("ADD", power, self.number(1.0, "one"), self.temporary("sum"))
        self.e.op("LOG", [total], [log])
        self.e.op("RELU", [self.source], [above])
        return self.binary("ADD", above, log, output)

    def normalize(self, axes: Sequence[int], epsilon: float) -> int:
        """(x − mean) / sqrt(variance + epsilon) along stored axes."""
        numbers = self.e.integers(axes, f"{self.y}_axes")
        mean, variance = self.temporary("mean", axes), self.temporary("variance", axes)
        self.e.op("MEAN", [self.source, numbers], [mean], "ReducerOptions", keepDims=True)
        squares = self.binary("SQUARED_DIFFERENCE", self.source, mean, self.temporary("squares"))
        self.e.op("MEAN", [squares, numbers], [variance], "ReducerOptions", keepDims=True)
        shifted = self.temporary("shifted", axes)
        self.binary("ADD", variance, self.number(epsilon, "epsilon"), shifted)
        inverse = self.temporary("inverse", axes)
        self.e.op("RSQRT", [shifted], [inverse])
        centred = self.binary("SUB", self.source, mean, self.temporary("centred"))
        return self.binary("MUL", centred, inverse, self.temporary("normalized"))


def write_layer_normalization(e: Emitter, o: Operation) -> None:
    """LayerNormalization: MEAN, SQUARED_DIFFERENCE, RSQRT, MUL and ADD."""
    c = _Composition(e, o)
    rank = e.rank(c.x)
    first = int(o.attrs.get("axis", -1)) % rank
    normalized = range(first, rank)
    axes = [c.order.index(axis) for axis in normalized]
    unit = c.normalize(axes, float(o.attrs.get("epsilon", 1e-5)))
    if len([name for name in o.outputs if name]) > 1:
        raise UnsupportedError(f"LayerNormalization {o.name} also returns its mean; LiteRT cannot")
    _scale_and_shift(c, o, unit)


def _scale_and_shift(c: _Composition, o: Operation, unit: int) -> None:
    e, rank = c.e, len(c.order)
    has_shift = len(o.inputs) > 2 and o.inputs[2] is not None
    scale = e.read(str(o.inputs[1]), c.order, rank=rank)
    scaled = c.binary("MUL", unit, scale, c.temporary("scaled") if has_shift else c.result())
    if has_shift:
        shift = e.read(str(o.inputs[2]), c.order, rank=rank)
        c.binary("ADD", scaled, shift, c.result())


def write_instance_normalization(e: Emitter, o: Operation) -> None:
    """InstanceNormalization along the spatial axes; scale and shift run along the channels, stored last."""
    rank = e.rank(str(o.inputs[0]))
    c = _Composition(e, o, order_channels_last(rank))
    unit = c.normalize(range(1, rank - 1), float(o.attrs.get("epsilon", 1e-5)))
    scaled = c.binary("MUL", unit, e.read(str(o.inputs[1])), c.temporary("scaled"))
    c.binary("ADD", scaled, e.read(str(o.inputs[2])), c.result())


def write_batch_normalization(e: Emitter, o: Operation) -> None:
    """BatchNormalization as MUL and ADD along the channels, stored last."""
    constants = [e.constant(name) for name in o.inputs[1:5]]
    if any(array is None for array in constants):
        raise UnsupportedError(
            f"BatchNormalization {o.name} computes its statistics; LiteRT cannot"
        )
    scale, shift, mean, variance = (np.asarray(a, np.float64) for a in constants)
    factor = scale / np.sqrt(variance + float(o.attrs.get("epsilon", 1e-5)))
    c = _Composition(e, o, order_channels_last(e.rank(str(o.inputs[0]))))
    by = e.literal(factor.astype(np.float32), f"{c.y}_factor")
    plus = e.literal((shift - mean * factor).astype(np.float32), f"{c.y}_shift")
    c.binary("ADD", c.binary("MUL", c.source, by, c.temporary("scaled")), plus, c.result())


def write_hard_sigmoid(e: Emitter, o: Operation) -> None:
    """HardSigmoid: MUL, ADD, MAXIMUM, MINIMUM."""
    c = _Composition(e, o)
    alpha, beta = float(o.attrs.get("alpha", 0.2)), float(o.attrs.get("beta", 0.5))
    scaled = c.binary("MUL", c.source, c.number(alpha, "alpha"), c.temporary("scaled"))
    moved = c.binary("ADD", scaled, c.number(beta, "beta"), c.temporary("moved"))
    above = c.temporary("above")
    e.op("MAXIMUM", [moved, c.number(0.0, "zero")], [above], "MaximumMinimumOptions")
    e.op("MINIMUM", [above, c.number(1.0, "one")], [c.result()], "MaximumMinimumOptions")


def write_softplus(e: Emitter, o: Operation) -> None:
    """Softplus: RELU + LOG(1 + EXP(−ABS)). Its EXP is at most 1; EXP of x itself is infinite from 88.8 on."""
    c = _Composition(e, o)
    c.add_softplus(c.result())


def write_mish(e: Emitter, o: Operation) -> None:
    """Mish: x MUL TANH of Softplus."""
    c = _Composition(e, o)
    bounded = c.temporary("tanh")
    e.op("TANH", [c.add_softplus(c.temporary("softplus"))], [bounded])
    c.binary("MUL", c.source, bounded, c.result())


def write_exponential_unit(e: Emitter, o: Operation) -> None:
    """Elu, Celu and Selu: RELU(x) · γ + (EXP(MINIMUM(x, 0) / β) − 1) · α. ELU is Elu with α = 1."""
    selu, celu = o.op == "Selu", o.op == "Celu"
    alpha = float(o.attrs.get("alpha", SELU_ALPHA if selu else 1.0))
    gamma = float(o.attrs.get("gamma", SELU_GAMMA)) if selu else 1.0
    c = _Composition(e, o)
    if o.op == "Elu" and alpha == 1:
        e.op("ELU", [c.source], [c.result()])
        return
    below = c.temporary("below")
    e.op("MINIMUM", [c.source, c.number(0.0, "zero")], [below], "MaximumMinimumOptions")
    if celu:
        below = c.binary("MUL", below, c.number(1 / alpha, "inverse"), c.temporary("scaled"))
    power, above = c.temporary("exp"), c.temporary("relu")
    e.op("EXP", [below], [power], "ExpOptions")
    shifted = c.binary("SUB", power, c.number(1.0, "one"), c.temporary("shifted"))
    curve = c.binary("MUL", shifted, c.number(alpha * gamma, "factor"), c.temporary("curve"))
    e.op("RELU", [c.source], [above])
    if selu:
        above = c.binary("MUL", above, c.number(gamma, "gamma"), c.temporary("line"))
    c.binary("ADD", above, curve, c.result())


def write_softsign(e: Emitter, o: Operation) -> None:
    """Softsign: x DIV (1 + ABS)."""
    c = _Composition(e, o)
    size = c.temporary("abs")
    e.op("ABS", [c.source], [size], "AbsOptions")
    divisor = c.binary("ADD", size, c.number(1.0, "one"), c.temporary("sum"))
    c.binary("DIV", c.source, divisor, c.result())


def write_ceil(e: Emitter, o: Operation) -> None:
    """Ceil: NEG of FLOOR of NEG. LiteRT's reference kernels have no CEIL."""
    c = _Composition(e, o)
    below, floor = c.temporary("neg"), c.temporary("floor")
    e.op("NEG", [c.source], [below], "NegOptions")
    e.op("FLOOR", [below], [floor])
    e.op("NEG", [floor], [c.result()], "NegOptions")


def write_reciprocal(e: Emitter, o: Operation) -> None:
    """Reciprocal: 1 DIV x."""
    c = _Composition(e, o)
    c.binary("DIV", c.number(1.0, "one"), c.source, c.result())
