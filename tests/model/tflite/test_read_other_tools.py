"""Operators that TensorFlow's converter writes and ptq does not: their graph computes LiteRT's integers.

Each file is built from the objects of the schema.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptq.core.errors import UnsupportedError
from ptq.executor.executor import Executor
from ptq.model.node import name_of
from ptq.model.open import open_model
from ptq.verification.node_status import node_statuses

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

import flatbuffers

from ptq.model.tflite.interpreter import LitertModel
from ptq.model.tflite.schema import load_schema, tensor_type

RNG = np.random.default_rng(3)


class FileBuilder:
    """A file of one operator; int8 tensors have scale 0.05, and int32 biases the product of two."""

    def __init__(self) -> None:
        self.schema = load_schema()
        self.model = self.schema.ModelT()
        self.model.version = 3
        self.model.buffers = [self.schema.BufferT()]
        self.graph = self.schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []

    def tensor(
        self, name: str, shape: Any, dtype: Any = np.int8, content: Any = None, scale: float = 0
    ) -> int:
        tensor, dtype = self.schema.TensorT(), np.dtype(dtype)
        tensor.name, tensor.type = name.encode(), tensor_type(dtype)
        tensor.shape, tensor.shapeSignature = [abs(n) for n in shape], [*shape]
        if content is not None:
            tensor.buffer = len(self.model.buffers)
            self.model.buffers.append(self.schema.BufferT())
            data = np.frombuffer(np.asarray(content, dtype).tobytes(), np.uint8)
            self.model.buffers[-1].data = data
        if scale:
            tensor.quantization = self.schema.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.zeroPoint = [scale], [0]
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def build(self, builtin: str, inputs: list[int], outputs: list[int], options: Any) -> bytes:
        code, operator = self.schema.OperatorCodeT(), self.schema.OperatorT()
        code.builtinCode = getattr(self.schema.BuiltinOperator, builtin)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
        operator.inputs, operator.outputs = inputs, outputs
        if options is not None:
            kind = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, kind)
            operator.builtinOptions = options
        self.graph.operators = [operator]
        self.graph.inputs = [i for i in inputs if not self.graph.tensors[i].buffer]
        self.graph.outputs = outputs
        self.model.operatorCodes, self.model.subgraphs = [code], [self.graph]
        builder = flatbuffers.Builder()
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def _compare(content: bytes, feed: dict[str, Any], *, integers: bool = True) -> None:
    graph = open_model(content)
    found = Executor(graph, "litert").run(feed)
    for name, array in LitertModel(content, kernels="reference").run(feed).items():
        np.testing.assert_array_equal(found[name], array)
    if integers:
        assert "float" not in {s.runs for s in node_statuses(graph, "litert") if s.op == "Gemm"}
    assert {name_of(v) for v in graph.outputs} == {*found}


def _fully_connected(shape: tuple[int, ...], *, keeps: bool) -> bytes:
    b = FileBuilder()
    weight = RNG.integers(-127, 128, (4, 6))
    inputs = [
        b.tensor("x", shape, scale=0.05),
        b.tensor("w", (4, 6), content=weight, scale=0.01),
        b.tensor("b", (4,), np.int32, RNG.integers(-99, 99, 4), scale=0.0005),
    ]
    options = b.schema.FullyConnectedOptionsT()
    options.keepNumDims = keeps
    options.fusedActivationFunction = b.schema.ActivationFunctionType.RELU
    rows = -1 if -1 in shape else int(np.prod(shape[:-1]))
    result = (*shape[:-1], 4) if keeps else (rows, 4)
    return b.build("FULLY_CONNECTED", inputs, [b.tensor("y", result, scale=0.1)], options)


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("shape", [(-1, 5, 6), (1, 2, 5, 6)])
def test_a_product_of_several_axes_with_a_bias_is_an_integer_product_of_rows(
    shape: tuple[int, ...], keeps: bool
) -> None:
    given = tuple(3 if n == -1 else n for n in shape)
    feed = {"x": RNG.normal(0, 2, given).astype(np.float32)}
    _compare(_fully_connected(shape, keeps=keeps), feed)


def test_a_product_of_several_open_axes_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="several axes of y are open; fix the shape"):
        open_model(_fully_connected((-1, -1, 6), keeps=True))


@pytest.mark.parametrize("begin", [2, -1])
def test_a_slice_that_removes_an_axis_keeps_one_element_of_it(begin: int) -> None:
    b = FileBuilder()
    inputs = [b.tensor("x", (-1, 4, 6), scale=0.05)]
    for name, values in (("begin", (0, begin, 1)), ("end", (0, 0, 5)), ("step", (1, 1, 2))):
        inputs.append(b.tensor(name, (3,), np.int32, values))
    options = b.schema.StridedSliceOptionsT()
    options.beginMask, options.endMask, options.shrinkAxisMask = 1, 1, 2
    content = b.build("STRIDED_SLICE", inputs, [b.tensor("y", (-1, 2), scale=0.05)], options)
    _compare(content, {"x": RNG.normal(0, 2, (3, 4, 6)).astype(np.float32)})


@pytest.mark.parametrize("begin_mask", [1, 3])
def test_a_slice_that_removes_an_axis_by_a_negative_step_is_refused(begin_mask: int) -> None:
    b = FileBuilder()
    inputs = [b.tensor("x", (3, 4, 6), scale=0.05)]
    for name, values in (("begin", (0, 3, 0)), ("end", (0, 0, 6)), ("step", (1, -1, 1))):
        inputs.append(b.tensor(name, (3,), np.int32, values))
    options = b.schema.StridedSliceOptionsT()
    options.beginMask, options.endMask, options.shrinkAxisMask = begin_mask, 1, 2
    content = b.build("STRIDED_SLICE", inputs, [b.tensor("y", (3, 6), scale=0.05)], options)
    with pytest.raises(UnsupportedError, match="removes an axis by a negative step"):
        open_model(content)


def test_unpacked_parts_lose_their_axis() -> None:
    b = FileBuilder()
    options = b.schema.UnpackOptionsT()
    options.num, options.axis = 3, -2
    outputs = [b.tensor(f"y{k}", (-1, 4), scale=0.05) for k in range(3)]
    content = b.build("UNPACK", [b.tensor("x", (-1, 3, 4), scale=0.05)], outputs, options)
    _compare(content, {"x": RNG.normal(0, 2, (1, 3, 4)).astype(np.float32)})


def test_a_square_is_a_product_with_itself() -> None:
    b = FileBuilder()
    x, y = (b.tensor(name, (2, 4), np.float32) for name in "xy")
    feed = {"x": RNG.normal(0, 2, (2, 4)).astype(np.float32)}
    _compare(b.build("SQUARE", [x], [y], b.schema.SquareOptionsT()), feed, integers=False)


def test_comparisons_and_choices_are_read() -> None:
    b = FileBuilder()
    x, z, y = (
        b.tensor("x", (2, 3), np.int32),
        b.tensor("z", (2, 3), np.int32),
        b.tensor("y", (2, 3), np.bool_),
    )
    feed = {"x": np.int32([[1, 2, 3], [4, 5, 6]]), "z": np.int32([[1, 0, 3], [0, 5, 0]])}
    _compare(b.build("NOT_EQUAL", [x, z], [y], b.schema.NotEqualOptionsT()), feed, integers=False)
    b = FileBuilder()
    which = b.tensor("which", (2, 3), np.bool_)
    x, z, y = (b.tensor(name, (2, 3), np.float32) for name in "xzy")
    feed = {name: array.astype(np.float32) for name, array in feed.items()}
    feed["which"] = np.array([[True, False, True], [False, False, True]])
    options = b.schema.SelectOptionsT()
    _compare(b.build("SELECT", [which, x, z], [y], options), feed, integers=False)


@pytest.mark.parametrize("rows", [3, -1])
@pytest.mark.parametrize("kind", [np.float32, np.int8])
def test_a_condition_of_one_axis_chooses_whole_rows(rows: int, kind: Any) -> None:
    b = FileBuilder()
    which = b.tensor("which", (rows,), np.bool_)
    scale = 0.05 if kind is np.int8 else 0
    x, z, y = (b.tensor(name, (rows, 3, 2), kind, scale=scale) for name in "xzy")
    feed: dict[str, Any] = {n: RNG.normal(0, 2, (3, 3, 2)).astype(np.float32) for n in "xz"}
    feed["which"] = np.array([True, False, True])
    content = b.build("SELECT", [which, x, z], [y], b.schema.SelectOptionsT())
    _compare(content, feed, integers=False)


def test_a_choice_by_a_condition_of_another_shape_is_refused() -> None:
    b = FileBuilder()
    which = b.tensor("which", (3,), np.bool_)
    x, z, y = (b.tensor(name, (2, 3), np.float32) for name in "xzy")
    with pytest.raises(UnsupportedError, match="SELECT of y by a condition of another shape"):
        open_model(b.build("SELECT", [which, x, z], [y], b.schema.SelectOptionsT()))


def _options(b: FileBuilder, name: str, **given: Any) -> Any:
    options = getattr(b.schema, f"{name}OptionsT")()
    for field, value in given.items():
        setattr(options, field, value)
    return options


def test_the_factor_of_a_softmax_is_read() -> None:
    b = FileBuilder()
    x, y = b.tensor("x", (3, 11), np.float32), b.tensor("y", (3, 11), np.float32)
    content = b.build("SOFTMAX", [x], [y], _options(b, "Softmax", beta=0.5))
    feed = {"x": RNG.normal(0, 2, (3, 11)).astype(np.float32)}
    [expected] = LitertModel(content, kernels="reference").run(feed).values()
    [found] = Executor(open_model(content), "litert").run(feed).values()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("mode", [0, 1])
def test_a_mirror_pad_leaves_out_the_edge_or_repeats_it(mode: int) -> None:
    b = FileBuilder()
    paddings = b.tensor("paddings", (3, 2), np.int32, [[0, 0], [1, 2], [3, 0]])
    x, y = b.tensor("x", (2, 4, 5), scale=0.05), b.tensor("y", (2, 7, 8), scale=0.05)
    content = b.build("MIRROR_PAD", [x, paddings], [y], _options(b, "MirrorPad", mode=mode))
    _compare(content, {"x": RNG.normal(0, 2, (2, 4, 5)).astype(np.float32)})


def test_a_mirror_pad_of_an_open_axis_is_refused_where_it_repeats_the_edge() -> None:
    b = FileBuilder()
    paddings = b.tensor("paddings", (2, 2), np.int32, [[0, 0], [1, 2]])
    x, y = b.tensor("x", (2, -1), scale=0.05), b.tensor("y", (2, -1), scale=0.05)
    content = b.build("MIRROR_PAD", [x, paddings], [y], _options(b, "MirrorPad", mode=1))
    with pytest.raises(UnsupportedError, match="edges of x, whose size is open"):
        open_model(content)


def _gather(axis: int) -> bytes:
    b = FileBuilder()
    rows = b.tensor("rows", (2, 2), np.int32, [[0, 2], [2, 1]])
    x, y = b.tensor("x", (2, 3, 4), scale=0.05), b.tensor("y", (2, 2, 4), scale=0.05)
    options = _options(b, "Gather", axis=axis, batchDims=1)
    return b.build("GATHER", [x, rows], [y], options)


def test_a_gather_with_positions_for_each_sample_is_read_along_the_next_axis() -> None:
    _compare(_gather(1), {"x": RNG.normal(0, 2, (2, 3, 4)).astype(np.float32)})
    with pytest.raises(UnsupportedError, match="along axis 2 with batch_dims 1 is not read"):
        open_model(_gather(2))


@pytest.mark.parametrize(
    ("builtin", "kind", "option"),
    [("STRIDED_SLICE", "StridedSlice", {"offset": True}), ("L2_NORMALIZATION", "L2Norm",
     {"fusedActivationFunction": 1}), ("FULLY_CONNECTED", "FullyConnected", {"weightsFormat": 1}),
     ("CONCATENATION", "Concatenation", {"fusedActivationFunction": 1})],
)  # fmt: skip
def test_an_option_that_is_not_read_is_refused(builtin: str, kind: str, option: Any) -> None:
    b = FileBuilder()
    x, y = b.tensor("x", (2, 3), scale=0.05), b.tensor("y", (2, 3), scale=0.05)
    content = b.build(builtin, [x], [y], _options(b, kind, **option))
    with pytest.raises(
        UnsupportedError, match=rf"{builtin} \(tensor y\).* option {next(iter(option))} ="
    ):
        open_model(content)


def test_an_activation_on_numbers_that_are_not_quantized_is_refused() -> None:
    b = FileBuilder()
    x, y = (b.tensor(name, (2, 3), np.int32) for name in "xy")
    content = b.build("ADD", [x, x], [y], _options(b, "Add", fusedActivationFunction=1))
    with pytest.raises(UnsupportedError, match=r"activation RELU of y \(int32\) is not read"):
        open_model(content)


def test_two_options_for_the_positions_of_pixels_are_refused() -> None:
    b = FileBuilder()
    x, y = (b.tensor(name, (1, n, n, 1), scale=0.05) for name, n in (("x", 3), ("y", 5)))
    size = b.tensor("size", (2,), np.int32, (5, 5))
    both = {"alignCorners": True, "halfPixelCenters": True}
    options = _options(b, "ResizeNearestNeighbor", **both)
    content = b.build("RESIZE_NEAREST_NEIGHBOR", [x, size], [y], options)
    with pytest.raises(UnsupportedError, match="has align_corners and half_pixel_centers"):
        open_model(content)


def test_a_bias_of_32_bits_beside_int16_is_refused() -> None:
    b = FileBuilder()
    inputs = [
        b.tensor("x", (2, 6), np.int16, scale=0.05),
        b.tensor("w", (4, 6), content=np.ones((4, 6)), scale=0.01),
        b.tensor("b", (4,), np.int32, np.ones(4), scale=0.0005),
    ]
    y = b.tensor("y", (2, 4), np.int16, scale=0.1)
    content = b.build("FULLY_CONNECTED", inputs, [y], b.schema.FullyConnectedOptionsT())
    with pytest.raises(UnsupportedError, match="bias b of FULLY_CONNECTED on int16 is int32"):
        open_model(content)


def test_the_shape_of_a_reshape_may_be_an_option() -> None:
    b = FileBuilder()
    x, y = b.tensor("x", (2, 6), scale=0.05), b.tensor("y", (3, 4), scale=0.05)
    content = b.build("RESHAPE", [x], [y], _options(b, "Reshape", newShape=[3, 4]))
    _compare(content, {"x": RNG.normal(0, 2, (2, 6)).astype(np.float32)})
