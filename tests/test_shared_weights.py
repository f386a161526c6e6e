"""One weight of several nodes stays one weight. Oracles: ONNX Runtime, the float model, and rounding for each use."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from networks import build_network, gaussian_array
from networks_of_shared_weights import (
    initializer,
    quantize_shared,
    quantized_weight_names,
    random_samples,
    tied_layer_network,
    unrolled_recurrent_network,
)

import ptq
from ptq.core.plan import Plan
from ptq.model.graph import Graph
from ptq.model.machine.ort_version import INSTALLED
from ptq.model.session.exact_sums import split_shared_integers
from ptq.model.session.session import Session
from ptq.model.weights.shared_weights import find_weight_families

NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "unrolled": unrolled_recurrent_network,
    "tied": tied_layer_network,
}
_RESULTS: dict[str, ptq.Result] = {}

pytestmark = pytest.mark.usefixtures("native_sums_in_module")
"""With the option for exact sums, ONNX Runtime 1.32 refuses constants of several readers."""


def result_of(name: str) -> ptq.Result:
    """The network quantized with all techniques, once for all tests of a process."""
    if name not in _RESULTS:
        _RESULTS[name] = quantize_shared(NETWORKS[name]())
    return _RESULTS[name]


def uses(result: ptq.Result, part: str) -> list[str]:
    """The initializers with the integers of the weights of the nodes whose name has this part."""
    return [v for name, v in quantized_weight_names(result.model).items() if part in name]


def sqnr_of(result: ptq.Result) -> float:
    assert result.report.evaluation is not None
    return float(result.report.evaluation.forms["int8"].outputs["y"].sqnr_db)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_result_is_smaller_than_a_third_of_float(name):
    report = result_of(name).report
    assert report.int8_bytes < report.float_bytes / 3


@pytest.mark.parametrize(
    ("name", "part", "count"),
    [
        ("unrolled", "node_in", 5),
        ("unrolled", "node_state", 5),
        ("tied", "ub_", 4),
        ("tied", "db_", 4),
    ],
)
def test_all_uses_read_the_same_integers(name, part, count):
    found = uses(result_of(name), part)
    assert len(found) == count
    assert len(set(found)) == 1
    assert initializer(result_of(name).model, found[0]).dtype == np.int8


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_onnx_runtime_and_the_executor_compute_the_same_integers(name, form):
    model = result_of(name).model
    model = model if form == "qdq" else ptq.convert(model, "qoperator").model
    found = ptq.verify(model, random_samples(NETWORKS[name](), 8, seed=30), threads=1)
    assert found.equal


@pytest.mark.parametrize("name", NETWORKS)
def test_held_out_accuracy_is_that_of_a_rounding_for_each_use(name, monkeypatch):
    shared = sqnr_of(result_of(name))
    for place in (
        "ptq.solver.solve", "ptq.solver.rounding.gptq", "ptq.calibration.covariance_job",
        "ptq.rewrite.emit.bias_correction", "ptq.optimization.compensation",
    ):  # fmt: skip
        monkeypatch.setattr(f"{place}.find_weight_families", lambda graph: {})
    separate = sqnr_of(quantize_shared(NETWORKS[name]()))
    assert shared > separate - 0.5


def test_a_float_use_keeps_the_weight_in_both_forms_and_the_report_says_so():
    result = quantize_shared(unrolled_recurrent_network(), skip=["node_in_2"], effort="fast")
    names = quantized_weight_names(result.model)
    integers = {v for name, v in names.items() if "node_in" in name and name != "node_in_2"}
    assert len(integers) == 1
    assert names["node_in_2"] not in integers
    assert initializer(result.model, names["node_in_2"]).dtype == np.float32
    line = "shared weight w_in: stored in int8 and in float, because node_in_2 stays float"
    assert line in result.report.changes


def test_the_report_says_how_many_weights_are_shared():
    line = "shared weights: 2 weights of 10 layers stored once each"
    assert line in result_of("unrolled").report.changes


@pytest.mark.parametrize("options", [{"weights": "u8"}, {"per_tensor": True}, {"target": "litert"}])
def test_other_weight_formats_and_targets_share_too(options):
    result = quantize_shared(unrolled_recurrent_network(), effort="fast", **options)
    assert len(set(uses(result, "node_in"))) == 1
    assert result.report.int8_bytes < result.report.float_bytes / 3
    if options.get("target") == "litert":
        assert not ptq.lint(result.model)


def transposed_copies_network() -> onnx.ModelProto:
    """Each use has a Transpose or an Identity of one matrix of its own."""
    nodes = """
        t1 = Transpose <perm = [1, 0]> (w)
        t2 = Transpose <perm = [1, 0]> (w)
        i2 = Identity(t2)
        [first] a = MatMul(x, t1)
        b = Relu(a)
        [second] y = MatMul(b, i2)
    """
    w = gaussian_array(64, 64, seed=1, scale=0.15)
    return build_network(nodes, {"x": ("n", 64)}, w=w)


def test_copies_that_transpose_and_identity_make_of_one_weight_share_their_integers():
    found = quantized_weight_names(quantize_shared(transposed_copies_network()).model)
    assert len(set(found.values())) == 1


def test_a_matrix_used_by_rows_and_by_columns_is_stored_twice():
    nodes = """
        [encode] h = Gemm <transB = 1> (x, w)
        r = Relu(h)
        [decode] y = MatMul(r, w)
    """
    w = gaussian_array(48, 64, seed=1, scale=0.15)
    model = build_network(nodes, {"x": ("n", 64)}, w=w)
    result = quantize_shared(model, effort="fast")
    assert len(set(quantized_weight_names(result.model).values())) == 2
    assert ptq.verify(result.model, random_samples(model, 4, seed=3), threads=1).equal


def test_a_bias_too_large_for_one_use_widens_the_scales_of_all_uses():
    nodes = """
        [first] a = Gemm(x, w, small)
        b = Sigmoid(a)
        [second] y = Gemm(b, w, large)
    """
    w = gaussian_array(16, 16, seed=1, scale=1e-6)
    model = build_network(
        nodes, {"x": ("n", 16)}, w=w, small=np.zeros(16, np.float32), large=np.full(16, 30, np.float32)
    )  # fmt: skip
    plan = quantize_shared(model, effort="fast").plan
    assert plan.operands["first", 1] == plan.operands["second", 1]
    assert "share this weight" in plan.why["first[1]"].detail


@pytest.mark.parametrize("version", [1, 2])
def test_a_plan_with_scales_for_each_use_is_applied_unchanged(version):
    model = unrolled_recurrent_network()
    plan = result_of("unrolled").plan
    document: dict[str, Any] = json.loads(plan.to_json())
    entry = document["operands"]["node_in_1[1]"]
    entry["scale"] = [2 * scale for scale in entry["scale"]]
    if version == 1:
        document["format"] = 1
        document["shores"] = document.pop("boundaries")
        document["factors"] = document.pop("channel_factors")
    read = Plan.from_json(json.dumps(document))
    result = quantize_shared(model, plan=read)
    found = quantized_weight_names(result.model)
    assert found["node_in_0"] == found["node_in_2"] != found["node_in_1"]
    assert any("stored 2 times" in change for change in result.report.changes)
    assert ptq.verify(result.model, random_samples(model, 4, seed=3), threads=1).equal


def test_the_same_input_gives_the_same_bytes():
    again = quantize_shared(tied_layer_network())
    assert again.model.SerializeToString() == result_of("tied").model.SerializeToString()


def test_an_initializer_used_in_one_layout_is_one_family():
    graph = Graph.from_proto(unrolled_recurrent_network())
    families = find_weight_families(graph)
    assert families["node_in_0"] == tuple(f"node_in_{t}" for t in range(5))
    assert "head" not in families


@pytest.mark.parametrize("name", NETWORKS)
def test_sessions_that_add_exactly_read_no_integers_twice(name: str) -> None:
    graph = result_of(name).graph.copy()
    shared = [v for v in graph.model.graph.initializers.values() if v.dtype == ir.DataType.INT8]
    split = split_shared_integers(graph)
    own = [v for v in split.model.graph.initializers.values() if v.dtype == ir.DataType.INT8]
    assert max(len(v.uses()) for v in shared) > 1 == max(len(v.uses()) for v in own)
    samples = random_samples(NETWORKS[name](), 1, seed=4)
    feed = {key: values.astype(np.float32) for key, values in samples.items()}
    for expected, found in zip(
        *(Session(g, threads=1).run(feed) for g in (graph, split)), strict=True
    ):
        assert np.array_equal(expected, found)
    graph.target = "litert"
    with patch("ptq.model.session.exact_sums.has_exact_int8_sums", lambda: False):
        assert Session(graph, threads=1).computes_as_written == (INSTALLED >= (1, 32))
