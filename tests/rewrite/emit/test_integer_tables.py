"""Embedding tables in int8: one scale for each column, DequantizeLinear behind the Gather."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from networks import (
    build_network,
    find_disagreements,
    gaussian_array,
    quantize_network,
    sqnr_db,
    worst_sqnr_db,
)
from onnx import TensorProto

from ptq.core.plan import Plan
from ptq.core.targets import TARGETS
from ptq.core.types import QuantParams
from ptq.model.graph import Graph
from ptq.model.node import get_attributes, get_constant
from ptq.model.session.session import Session
from ptq.rewrite.emit.to_qdq import to_qdq
from ptq.solver.recipe import Recipe
from ptq.solver.solve import solve

COLUMNS = np.geomspace(0.01, 10, 32).astype(np.float32)
TABLE = gaussian_array(2000, 32) * COLUMNS
IDS = [{"ids": np.array([[k, 7 * k, 1999, 0, -1]], np.int64)} for k in range(1, 9)]
LAYERS = "h = MatMul(e, w)\ny = Relu(h)"


def build(nodes: str, table: Any = TABLE, outputs: tuple[str, ...] = ("y",), **weights: Any) -> Any:
    return build_network(
        nodes,
        {"ids": [1, 5]},
        outputs,
        types={"ids": TensorProto.INT64},
        t=table,
        w=gaussian_array(32, 16, seed=1),
        **weights,
    )


def quantize(nodes: str, **options: Any) -> Any:
    keys = ("target", "per_tensor", "skip")
    chosen = {key: options.pop(key) for key in keys if key in options}
    return quantize_network(build(nodes, **options), IDS, **chosen)


def find(graph: Graph, op: str) -> list[Any]:
    return [node for node in graph.nodes if node.op_type == op]


def kind_of_table(graph: Graph) -> Any:
    [gather] = find(graph, "Gather")
    table = get_constant(gather.inputs[0])
    assert table is not None
    return table.dtype


def test_a_table_is_stored_in_int8_with_a_scale_for_each_column() -> None:
    done = quantize(f"e = Gather(t, ids)\n{LAYERS}")
    [gather] = find(done.qdq, "Gather")
    table = get_constant(gather.inputs[0])
    assert table is not None
    assert table.dtype == np.int8
    reader = next(iter(gather.outputs[0].uses())).node
    assert reader.op_type == "DequantizeLinear"
    assert get_attributes(reader)["axis"] == 2
    scale = get_constant(reader.inputs[1])
    assert scale is not None
    np.testing.assert_array_equal(scale, np.abs(TABLE).max(axis=0) / np.float32(127))
    np.testing.assert_array_equal(table, np.rint(TABLE / scale))
    assert done.float_reasons()["Gather"] == "reads rows of an int8 table, which become float"


def test_small_columns_keep_their_values() -> None:
    """One scale for all columns would round the small ones to 0."""
    done = quantize("e = Gather(t, ids)\ny = Relu(e)")
    [rows] = Session(done.qdq, threads=1).run(IDS[0])
    truth = np.maximum(TABLE[IDS[0]["ids"]], 0)
    worst = min(sqnr_db(truth[..., k], rows[..., k]) for k in range(0, 32, 5))
    assert worst > 25


def test_every_form_gives_the_same_bits() -> None:
    done = quantize(f"e = Gather(t, ids)\n{LAYERS}")
    assert find_disagreements(done) == []
    assert worst_sqnr_db(done) > 30


def test_rows_that_are_an_output_keep_its_name_and_type() -> None:
    done = quantize(f"e = Gather(t, ids)\n{LAYERS}", outputs=("e", "y"))
    assert [value.name for value in done.qdq.outputs] == ["e", "y"]
    rows, _ = Session(done.qdq, threads=1).run(IDS[0])
    assert rows.dtype == np.float32
    assert sqnr_db(TABLE[IDS[0]["ids"]], rows) > 30


def test_a_tied_matrix_has_integers_of_its_own() -> None:
    nodes = "e = Gather(t, ids)\nh = Reshape(e, rows)\ny = Gemm <transB=1>(h, t)"
    done = quantize(nodes, rows=np.array([5, 32]))
    stored = {v.name: get_constant(v) for node in done.qdq.nodes for v in node.inputs if v}
    kinds = [array.dtype for array in stored.values() if array is not None and array.size == 64000]
    assert kinds == [np.int8, np.int8]
    assert find_disagreements(done) == []


@pytest.mark.parametrize(
    ("nodes", "rows", "options"),
    [
        (f"e = Gather(t, ids)\n{LAYERS}", 2000, {"target": "litert"}),
        (f"e = Gather(t, ids)\n{LAYERS}", 400, {}),
        (f"e = Gather(t, ids)\n{LAYERS}", 2000, {"skip": ["Gather"]}),
        ("e = Gather(t, ids)\ns = ReduceMax(e)\ny = Mul(t, s)", 2000, {"skip": ["Mul"]}),
    ],
    ids=["another target", "a small table", "skipped", "a reader of its floats"],
)
def test_a_table_stays_float(nodes: str, rows: int, options: Any) -> None:
    ids = [{"ids": feed["ids"] % 400} for feed in IDS]
    done = quantize_network(build(nodes, TABLE[:rows]), ids, **options)
    assert kind_of_table(done.qdq) == np.float32


def test_a_table_stays_float_where_a_loud_row_would_silence_the_rest() -> None:
    loud = TABLE.copy()
    loud[3] *= 1000
    done = quantize(f"e = Gather(t, ids)\n{LAYERS}", table=loud)
    assert kind_of_table(done.qdq) == np.float32


def test_a_recipe_that_repeats_the_float_nodes_of_a_plan_keeps_the_table() -> None:
    """The self-check makes one before it searches for nodes that fail."""
    done = quantize(f"e = Gather(t, ids)\n{LAYERS}")
    recipe = Recipe("ort", "minmax").with_float_nodes(done.plan.floats)
    again = solve(done.prepared, done.calibration.tensors, TARGETS["ort"], recipe)
    assert again.operands.keys() == done.plan.operands.keys()
    skipped = recipe.with_float_nodes(dict.fromkeys(done.plan.floats, "on trial"))
    floats = solve(done.prepared, done.calibration.tensors, TARGETS["ort"], skipped)
    assert kind_of_table(to_qdq(done.prepared, floats)) == np.float32


def test_an_edited_plan_may_leave_another_node_in_float() -> None:
    """Its parameters stay in the plan; they are those of no table."""
    nodes = "y = MatMul(w, x)"
    model = build_network(nodes, {"x": [16, 4]}, w=gaussian_array(32, 16, seed=1))
    done = quantize_network(model)
    [multiply] = [node.name for node in done.prepared.nodes if node.op_type == "MatMul"]
    params = QuantParams.per_tensor(0.1, 0, TARGETS["ort"].weight)
    operands = {**done.plan.operands, (multiply, 0): params}
    edited = replace(done.plan, operands=operands, floats={multiply: "", **done.plan.floats})
    feed = {"x": gaussian_array(16, 4)}
    [float_result] = Session(done.prepared, threads=1).run(feed)
    [result] = Session(to_qdq(done.prepared, edited), threads=1).run(feed)
    assert sqnr_db(float_result, result) > 30


def test_a_plan_without_the_table_keeps_it_float() -> None:
    done = quantize(f"e = Gather(t, ids)\n{LAYERS}")
    again = Plan.from_json(done.plan.to_json())
    assert kind_of_table(to_qdq(done.prepared, again)) == np.int8
    tables = [key for key in again.operands if key[1] == 0]
    assert len(tables) == 1
    others = {key: params for key, params in again.operands.items() if key not in tables}
    earlier = replace(again, operands=others)
    assert kind_of_table(to_qdq(done.prepared, earlier)) == np.float32
