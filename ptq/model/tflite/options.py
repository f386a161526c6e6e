"""The options of LiteRT's operators: a row reads each, or the tensors tell it; any other must have its default."""

from __future__ import annotations

from collections.abc import Mapping

from ptq.core.errors import UnsupportedError
from ptq.model.tflite.parsed import ParsedOperator

_WINDOW = "padding strideW strideH fusedActivationFunction"
_DILATION = "dilationWFactor dilationHFactor"
_RESIZE = "alignCorners halfPixelCenters"
_READ: Mapping[str, str] = {
    "Add": "fusedActivationFunction potScaleInt16",
    "BatchMatMul": "adjX adjY",
    "Concatenation": "axis",
    "Conv2D": f"{_WINDOW} {_DILATION}",
    "Cumsum": "exclusive reverse",
    "DepthToSpace": "blockSize",
    "DepthwiseConv2D": f"{_WINDOW} {_DILATION}",
    "Div": "fusedActivationFunction",
    "FullyConnected": "fusedActivationFunction keepNumDims",
    "Gather": "axis batchDims",
    "Gelu": "approximate",
    "LeakyRelu": "alpha",
    "MirrorPad": "mode",
    "Mul": "fusedActivationFunction",
    "Pool2D": f"{_WINDOW} filterWidth filterHeight",
    "Reducer": "keepDims",
    "Reshape": "newShape",
    "ResizeBilinear": _RESIZE,
    "ResizeNearestNeighbor": _RESIZE,
    "Softmax": "beta",
    "SpaceToDepth": "blockSize",
    "StridedSlice": "beginMask endMask ellipsisMask newAxisMask shrinkAxisMask",
    "Sub": "fusedActivationFunction potScaleInt16",
    "TransposeConv": "padding strideW strideH fusedActivationFunction",
    "Unpack": "axis",
}
"""Options that a row reads, by the schema's class without its ending."""
_KNOWN_FROM_TENSORS: Mapping[str, str] = {
    "ArgMax": "outputType",
    "ArgMin": "outputType",
    "Cast": "inDataType outDataType",
    "Conv2D": "quantizedBiasType",
    "DepthwiseConv2D": "depthMultiplier",
    "FullyConnected": "quantizedBiasType",
    "Split": "numSplits",
    "SplitV": "numSplits",
    "TransposeConv": "quantizedBiasType",
    "Unpack": "num",
}
_OF_FLOAT_PRODUCTS = "asymmetricQuantizeInputs"
"""How LiteRT rounds the float input of a product with integer weights; here such a product is float."""


def require_read_options(o: ParsedOperator, tensor: str) -> None:
    """Check that an operator has no option that its row leaves out.

    Args:
        o: The operator.
        tensor: Name of its first output.

    Raises:
        UnsupportedError: It has one that is not the default.
    """
    if o.options is None:
        return
    kind = type(o.options)
    name = kind.__name__.removesuffix("OptionsT")
    known = {
        _OF_FLOAT_PRODUCTS,
        *_READ.get(name, "").split(),
        *_KNOWN_FROM_TENSORS.get(name, "").split(),
    }
    defaults = vars(kind())
    for option, value in vars(o.options).items():
        if option not in known and value != defaults[option]:
            raise UnsupportedError(
                f"operator {o.builtin} (tensor {tensor}) of the .tflite file has the option {option} = {value}, "
                "which is not read"
            )
