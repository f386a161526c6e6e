"""Data movement in two arithmetics: operands from attributes, constants or the run. Oracle: numpy.

That of pools is ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from qlinear import onnxruntime_output

from ptq.core.errors import UnsupportedError
from ptq.core.types import INT8, QuantParams
from ptq.executor.arithmetics import litert, ort
from ptq.executor.arithmetics.node_site import KernelMaker, Site

ARITHMETICS = pytest.mark.parametrize(
    "kernels", [ort.KERNELS, litert.KERNELS], ids=["ort", "litert"]
)
P = QuantParams(np.float32(0.5), 3, INT8)
ROWS_AND_COLUMNS = [(0, 0), (1, 0), (0, 2), (0, 0)]
X = np.random.default_rng(0).integers(-128, 128, (2, 3, 4, 6)).astype(np.int8)
WHOLE = np.array([0, 1, 2, 3], np.int64)


def run(kernels: Mapping[str, KernelMaker], op: str, *operands: Any, **attrs: Any) -> Any:
    inputs = (P, *(None for _ in operands))
    site = Site(op, attrs, inputs, (P,), (None,) * len(inputs))
    return kernels[op](site)([X, *operands])


@ARITHMETICS
@pytest.mark.parametrize(
    ("op", "attrs", "expected"),
    [
        ("Reshape", {"shape": (0, -1)}, X.reshape(2, 72)),
        ("Flatten", {}, X.reshape(2, 72)),
        ("Transpose", {"perm": (0, 3, 1, 2)}, X.transpose(0, 3, 1, 2)),
        ("Transpose", {}, X.transpose()),
        ("Unsqueeze", {"axes": (0, -1)}, X[None, ..., None]),
        ("Slice", {"starts": (1,), "ends": (3,), "axes": (2,)}, X[:, :, 1:3]),
        ("Expand", {"shape": (5, 1, 1, 1, 1)}, np.broadcast_to(X, (5, *X.shape))),
        ("Pad", {"pads": (0, 1, 0, 0, 0, 0, 2, 0)}, np.pad(X, ROWS_AND_COLUMNS, constant_values=3)),
        ("Pad", {"pads": (1, 1), "axes": (3,), "value": 1.0},
         np.pad(X, [(0, 0)] * 3 + [(1, 1)], constant_values=5)),
        ("Identity", {}, X),
    ],
)  # fmt: skip
def test_a_movement_moves_as_numpy_does(
    kernels: Mapping[str, KernelMaker], op: str, attrs: dict[str, Any], expected: Any
) -> None:
    np.testing.assert_array_equal(run(kernels, op, **attrs), expected)


@ARITHMETICS
def test_operands_may_arrive_at_run_time(kernels: Mapping[str, KernelMaker]) -> None:
    shape = run(kernels, "Reshape", np.array([6, -1], np.int64))
    np.testing.assert_array_equal(shape, X.reshape(6, 24))
    gathered = run(kernels, "Gather", np.array([[1, 0], [-1, 2]]), axis=1)
    np.testing.assert_array_equal(gathered, X[:, [[1, 0], [-1, 2]]])
    padded = run(kernels, "Pad", np.array([0, 0, 1, 1]), -9 * np.ones(1, np.int8), axes=(0, 1))
    np.testing.assert_array_equal(
        padded, np.pad(X, [(0, 1), (0, 1), (0, 0), (0, 0)], constant_values=-9)
    )


@ARITHMETICS
def test_pads_may_arrive_as_a_matrix_of_one_row(kernels: Mapping[str, KernelMaker]) -> None:
    """As in opsets 2 to 13, and in ONNX Runtime to this day."""
    padded = run(kernels, "Pad", np.array([[0, 0, 0, 0, 1, 0, 0, 2]]))
    expected = np.pad(X, [(0, 1), (0, 0), (0, 0), (0, 2)], constant_values=3)
    np.testing.assert_array_equal(padded, expected)


@ARITHMETICS
def test_shapes_are_computed_without_scales(kernels: Mapping[str, KernelMaker]) -> None:
    shape = kernels["Shape"](Site("Shape", {}, (P,), (None,), (None,)))([X])
    assert shape.tolist() == [2, 3, 4, 6]
    first = Site("Gather", {"axis": 0}, (None, None), (None,), (None, np.array([0])))
    taken = kernels["Gather"](first)([shape, np.array([0])])
    joined = Site("Concat", {"axis": 0}, (None, None), (None,), (None, np.array([-1])))
    assert kernels["Concat"](joined)([taken, np.array([-1])]).tolist() == [2, -1]


@ARITHMETICS
def test_a_movement_without_its_operand_is_refused(kernels: Mapping[str, KernelMaker]) -> None:
    with pytest.raises(UnsupportedError, match="Reshape has no shape"):
        run(kernels, "Reshape")


def test_squeeze_removes_the_named_axes() -> None:
    site = Site("Squeeze", {"axes": (1,)}, (P,), (P,), (None,))
    assert litert.KERNELS["Squeeze"](site)([X[:, :1]]).shape == (2, 4, 6)


@ARITHMETICS
@pytest.mark.parametrize("kernel", [(1, 2), (3, 2)])
@pytest.mark.parametrize("strides", [(1, 2), (2, 1), (4, 5)])
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_a_dilated_pool_pads_as_onnxruntime_does(
    kernels: Mapping[str, KernelMaker],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    ceil_mode: int,
    auto_pad: str,
) -> None:
    attrs = {
        "kernel_shape": kernel, "strides": strides, "dilations": (2, 3), "auto_pad": auto_pad,
        "ceil_mode": ceil_mode,
    }  # fmt: skip
    _compare_max_pools(kernels, attrs, (9, 13))


def test_a_dilated_window_that_exceeds_the_image_is_one_output() -> None:
    attrs = {
        "kernel_shape": (4, 3), "strides": (5, 4), "dilations": (3, 3), "auto_pad": "SAME_UPPER",
    }  # fmt: skip
    _compare_max_pools(ort.KERNELS, attrs, (9, 13))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_positions_that_strides_skip_come_before_a_window_too_in_onnx_runtime(
    auto_pad: str,
) -> None:
    attrs = {
        "kernel_shape": (1, 2), "strides": (4, 5), "dilations": (1, 1), "auto_pad": auto_pad,
    }  # fmt: skip
    _compare_max_pools(ort.KERNELS, attrs, (7, 8))
    x = np.arange(56, dtype=np.int8).reshape(1, 7, 8, 1)
    pooled = litert.KERNELS["MaxPool"](Site("MaxPool", attrs, (P,), (P,), (None,)))([x])
    np.testing.assert_array_equal(pooled, x[:, ::4, 1::5])


def _compare_max_pools(
    kernels: Mapping[str, KernelMaker], attrs: Mapping[str, Any], sizes: tuple[int, int]
) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (1, 2, *sizes)).astype(np.int8)
    theirs = onnxruntime_output("MaxPool", "", ["x"], {"x": x}, ["x"], **attrs)
    pooled = kernels["MaxPool"](Site("MaxPool", attrs, (P,), (P,), (None,)))
    ours = pooled([np.moveaxis(x, 1, -1)])
    np.testing.assert_array_equal(np.moveaxis(ours, -1, 1), theirs)
