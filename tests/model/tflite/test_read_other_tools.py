"""Operators that TensorFlow's converter writes and ptq does not: their graph computes LiteRT's integers.

Each file is built from the objects of the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ptq.core.errors import ModelError, UnsupportedError
from ptq.executor.executor import Executor
from ptq.model.open import open_model

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

from tflite_file import FileBuilder, require_integers_of_litert

from ptq.model.tflite.interpreter import LitertModel
from ptq.model.tflite.sparse import to_dense

RNG = np.random.default_rng(3)


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
    require_integers_of_litert(_fully_connected(shape, keeps=keeps), feed)


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
    require_integers_of_litert(content, {"x": RNG.normal(0, 2, (3, 4, 6)).astype(np.float32)})


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
    require_integers_of_litert(content, {"x": RNG.normal(0, 2, (1, 3, 4)).astype(np.float32)})


def test_a_square_is_a_product_with_itself() -> None:
    b = FileBuilder()
    x, y = (b.tensor(name, (2, 4), np.float32) for name in "xy")
    feed = {"x": RNG.normal(0, 2, (2, 4)).astype(np.float32)}
    require_integers_of_litert(
        b.build("SQUARE", [x], [y], b.schema.SquareOptionsT()), feed, integers=False
    )


def test_comparisons_and_choices_are_read() -> None:
    b = FileBuilder()
    x, z, y = (
        b.tensor("x", (2, 3), np.int32),
        b.tensor("z", (2, 3), np.int32),
        b.tensor("y", (2, 3), np.bool_),
    )
    feed = {"x": np.int32([[1, 2, 3], [4, 5, 6]]), "z": np.int32([[1, 0, 3], [0, 5, 0]])}
    require_integers_of_litert(
        b.build("NOT_EQUAL", [x, z], [y], b.schema.NotEqualOptionsT()), feed, integers=False
    )
    b = FileBuilder()
    which = b.tensor("which", (2, 3), np.bool_)
    x, z, y = (b.tensor(name, (2, 3), np.float32) for name in "xzy")
    feed = {name: array.astype(np.float32) for name, array in feed.items()}
    feed["which"] = np.array([[True, False, True], [False, False, True]])
    options = b.schema.SelectOptionsT()
    require_integers_of_litert(b.build("SELECT", [which, x, z], [y], options), feed, integers=False)


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
    require_integers_of_litert(content, feed, integers=False)


def test_a_choice_by_a_condition_of_another_shape_is_refused() -> None:
    b = FileBuilder()
    which = b.tensor("which", (3,), np.bool_)
    x, z, y = (b.tensor(name, (2, 3), np.float32) for name in "xzy")
    with pytest.raises(UnsupportedError, match="SELECT of y by a condition of another shape"):
        open_model(b.build("SELECT", [which, x, z], [y], b.schema.SelectOptionsT()))


def test_a_code_of_an_old_converter_is_the_operator() -> None:
    b = FileBuilder()
    x, z, y = (b.tensor(name, (2, 4), np.float32) for name in "xzy")
    b.add("MUL", [x, z], [y], b.schema.MulOptionsT())
    b.model.operatorCodes[0].builtinCode = 0  # before TensorFlow 2.4, deprecatedBuiltinCode alone
    feed = {name: RNG.normal(0, 2, (2, 4)).astype(np.float32) for name in "xz"}
    require_integers_of_litert(b.pack(), feed, integers=False)


def _add_weight(b: FileBuilder, sparsity: Any) -> int:
    """A weight of float32 as converters write one of float16: DENSIFY and DEQUANTIZE make it of a constant."""
    content = RNG.normal(0, 1, 24 if sparsity is None else 8).astype(np.float16)
    half = b.tensor("half", (4, 6), np.float16, content)
    weight = b.tensor("weight", (4, 6), np.float32)
    if sparsity is not None:
        b.graph.tensors[half].sparsity = sparsity
        dense = b.tensor("dense", (4, 6), np.float16)
        b.add("DENSIFY", [half], [dense], b.schema.DensifyOptionsT())
        half = dense
    b.add("DEQUANTIZE", [half], [weight])
    return weight


def _describe_sparsity(b: FileBuilder, levels: list[Any], blocks: list[int]) -> Any:
    """Levels in their order, a number for a full one, else segments and positions."""
    found = b.schema.SparsityParametersT()
    found.traversalOrder, found.blockMap, found.dimMetadata = range(len(levels)), blocks, []
    for level in levels:
        kind = b.schema.DimensionMetadataT()
        if isinstance(level, int):
            kind.format, kind.denseSize = b.schema.DimensionType.DENSE, level
        else:
            kind.format = b.schema.DimensionType.SPARSE_CSR
            kind.arraySegments, kind.arrayIndices = b.schema.Int32VectorT(), b.schema.Int32VectorT()
            kind.arraySegments.values, kind.arrayIndices.values = map(np.int32, level)
            kind.arraySegmentsType = kind.arrayIndicesType = b.schema.SparseIndexVector.Int32Vector
        found.dimMetadata.append(kind)
    return found


SPARSE = {
    "dense": None,
    "rows": ([4, ([0, 3, 3, 7, 8], [0, 2, 5, 1, 2, 3, 4, 5])], []),
    "blocks": ([2, ([0, 1, 2], [1, 0]), 2, 2], [0, 1]),
}
"""Stored elements of a weight of 4 x 6: levels and the axes of blocks."""


@pytest.mark.parametrize("stored", SPARSE)
def test_a_weight_of_float16_is_a_constant(stored: str) -> None:
    b = FileBuilder()
    given = SPARSE[stored]
    weight = _add_weight(b, None if given is None else _describe_sparsity(b, *given))
    x, y = b.tensor("x", (2, 6), np.float32), b.tensor("y", (2, 4), np.float32)
    b.add("FULLY_CONNECTED", [x, weight], [y], b.schema.FullyConnectedOptionsT())
    feed = {"x": RNG.normal(0, 2, (2, 6)).astype(np.float32)}
    content = b.pack()
    [expected] = LitertModel(content).run(feed).values()
    [found] = Executor(open_model(content)).run(feed).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


ROWS: list[Any] = [4, ([0, 3, 3, 7, 8], [0, 2, 5, 1, 2, 3, 4, 5])]


def _with_segments(segments: list[int], places: list[int]) -> list[Any]:
    return [4, (segments, places)]


@pytest.mark.parametrize(
    ("levels", "blocks", "said"),
    [
        (_with_segments([0, 3, 3, 6, 7], [0, 2, 5, 1, 2, 3, 4]), [], "another number of elements"),
        (
            _with_segments([0, 3, 3, 7, 8], [0, 2, -1, 1, 2, 3, 4, 5]),
            [],
            "positions outside of its shape",
        ),
        (
            _with_segments([0, 3, 3, 7, 8], [0, 2, 6, 1, 2, 3, 4, 5]),
            [],
            "positions outside of its shape",
        ),
        (
            _with_segments([0, 3, 3, 7, 8], [0, 2, 2, 1, 2, 3, 4, 5]),
            [],
            "two elements at one position",
        ),
        (
            _with_segments([0, 3, 1, 7, 8], [0, 2, 5, 1, 2, 3, 4, 5]),
            [],
            "another number of positions",
        ),
        (
            _with_segments([0, 3, 3, 7, 9], [0, 2, 5, 1, 2, 3, 4, 5]),
            [],
            "another number of positions",
        ),
        (_with_segments([0, 3, 3, 7, 8], []), [], "another number of positions"),
        ([2, ([0, 4, 8], [0, 2, 5, 1, 2, 3, 4, 5])], [], "an axis of another size"),
        ([2**31 - 1, ROWS[1]], [], "an axis of another size"),
        ([2**16, 2**16 - 1], [], "an axis of another size"),
        ([-4, ROWS[1]], [], "an axis of another size"),
        ([8], [], "other axes than its shape"),
        ([2, ([0, 1, 2], [1, 0]), 2, 2], [], "other axes than its shape"),
        ([2, ([0, 1, 2], [1, 0]), 2, 2], [0, 5], "other axes than its shape"),
        ([2, ([0, 1, 2], [1, 0]), 2, 2], [0, -1], "other axes than its shape"),
        ([2, ([0, 1, 2], [1, 0]), 2, 2], [0, 0], "other axes than its shape"),
        ([2, 2, ([0, 1, 2, 3, 4], [0, 1, 0, 1]), 2], [0, 1], "blocks that are not stored in full"),
    ],
)
def test_a_sparse_constant_that_does_not_fit_is_damaged(
    levels: list[Any], blocks: list[int], said: str
) -> None:
    with pytest.raises(
        ModelError, match=rf"^the .tflite file is damaged \(a sparse constant has {said}"
    ):
        open_model(_pack_sparse(lambda b: _describe_sparsity(b, levels, blocks)))


@pytest.mark.parametrize("missing", ["arrayIndices", "arraySegments"])
def test_a_sparse_constant_without_its_lists_is_damaged(missing: str) -> None:
    def describe(b: FileBuilder) -> Any:
        found = _describe_sparsity(b, ROWS, [])
        setattr(found.dimMetadata[1], missing, None)
        setattr(found.dimMetadata[1], f"{missing}Type", 0)
        return found

    with pytest.raises(ModelError, match="another number of positions than its segments say"):
        open_model(_pack_sparse(describe))


def test_a_sparse_constant_of_a_huge_shape_is_refused() -> None:
    sparsity = _describe_sparsity(FileBuilder(), ROWS, [])
    with pytest.raises(ModelError, match=r"shape \[65536, 65536\], too large to convert"):
        to_dense(np.zeros(8, np.float16), (2**16, 2**16), sparsity)


def _pack_sparse(describe: Callable[[FileBuilder], Any]) -> bytes:
    """A file with a sparse weight, which no runtime needs to read."""
    b = FileBuilder()
    weight = _add_weight(b, describe(b))
    b.add(
        "FULLY_CONNECTED",
        [b.tensor("x", (2, 6), np.float32), weight],
        [b.tensor("y", (2, 4), np.float32)],
    )
    return b.pack()
