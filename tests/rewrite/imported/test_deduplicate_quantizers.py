"""Quantizers written twice: ONNX Runtime, which makes one of them before it chooses kernels, is the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from foreign_models import INPUT_QDQ, foreign_graph, random_integers, random_samples

from ptq.core.run_options import RunOptions
from ptq.model.graph import Graph
from ptq.model.node import get_operator
from ptq.rewrite.imported.normalize_qdq import normalize_qdq
from ptq.verification.verify import verify_graph

SHAPE = (2, 3, 8, 8)
WD = "wd = DequantizeLinear(w, w_scale, w_zero)\n"


def _duplicates(layer: str, zero: str = "y_zero", zero_point: object = None) -> Graph:
    """A layer whose result is quantized once for each of two readers."""
    second = zero_point is not None
    return foreign_graph(
        INPUT_QDQ
        + WD
        + f"r = {layer}\n"
        + f"q1 = QuantizeLinear(r, y_scale, y_zero)\nd1 = DequantizeLinear(q1, y_scale, y_zero)\n"
        f"q2 = QuantizeLinear(r, y_scale, {zero})\nd2 = DequantizeLinear(q2, y_scale, {zero})\n"
        "m = MaxPool<kernel_shape = [2, 2]>(d1)\na = Sigmoid(d2)\n"
        "ma = QuantizeLinear(m, y_scale, y_zero)\ny = DequantizeLinear(ma, y_scale, y_zero)\n"
        "aa = QuantizeLinear(a, w_scale, y_zero)\nz = DequantizeLinear(aa, w_scale, y_zero)",
        SHAPE,
        outputs={"y": 1, "z": 1},
        w=random_integers(8, 3, 3, 3),
        **({"other": zero_point} if second else {}),
    )


@pytest.mark.parametrize(
    ("layer", "op"),
    [
        ("AveragePool<kernel_shape = [2, 2], pads = [1, 1, 1, 1]>(xd)", "AveragePool"),
        ("Conv(xd, wd)", "Conv"),
    ],
)
def test_duplicate_quantizers_are_merged_and_their_layer_has_an_integer_kernel(layer, op):
    found = verify_graph(_duplicates(layer), random_samples(SHAPE), run=RunOptions(threads=1))
    assert found.intact
    assert found.equal, found.first
    assert {tensor.op for tensor in found.tensors} >= {op, "Sigmoid", "MaxPool"}


def test_quantizers_with_other_parameters_are_not_duplicates():
    graph = _duplicates("Conv(xd, wd)", "other", np.uint8(3))
    before = sum(get_operator(node) == "QuantizeLinear" for node in graph.nodes)
    after = sum(get_operator(node) == "QuantizeLinear" for node in normalize_qdq(graph).nodes)
    assert after == before
    assert verify_graph(graph, random_samples(SHAPE), run=RunOptions(threads=1)).equal


def test_a_duplicate_that_is_an_output_of_the_model_stays():
    graph = foreign_graph(
        INPUT_QDQ + "r = Sigmoid(xd)\nq1 = QuantizeLinear(r, w_scale, x_zero)\n"
        "y = QuantizeLinear(r, w_scale, x_zero)\nz = DequantizeLinear(q1, w_scale, x_zero)",
        SHAPE,
        outputs={"y": 2, "z": 1},
    )
    assert verify_graph(graph, random_samples(SHAPE), run=RunOptions(threads=1)).intact
    assert [value.name for value in normalize_qdq(graph).outputs] == ["y", "z"]
