"""What belongs to a model on disk; the file that ONNX's own library writes is the oracle."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper, numpy_helper
from parts import W

from ptq.model.open import list_model_files


def _elsewhere(name: str) -> onnx.TensorProto:
    tensor = numpy_helper.from_array(W, name)
    onnx.external_data_helper.set_external_data(tensor, f"{name}.bin")
    tensor.ClearField("raw_data")
    return tensor


def _graph(nodes: list[onnx.NodeProto], *initializers: str) -> onnx.GraphProto:
    stored = [_elsewhere(name) for name in initializers]
    return helper.make_graph(nodes, "g", [], [], stored)


def _constant(name: str) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=_elsewhere(name))


@pytest.mark.parametrize(
    ("graph", "names"),
    [
        (_graph([], "a", "b"), ["a.bin", "b.bin"]),
        (_graph([_constant("c")]), ["c.bin"]),
        (
            _graph(
                [
                    helper.make_node(
                        "If",
                        ["x"],
                        ["y"],
                        then_branch=_graph([], "d"),
                        else_branch=_graph([_constant("e")]),
                    )
                ]
            ),
            ["d.bin", "e.bin"],
        ),
    ],
    ids=["initializers", "a constant node", "branches"],
)
def test_every_file_that_weights_lie_in_is_the_model_s(
    tmp_path: Path, graph: onnx.GraphProto, names: list[str]
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    assert set(list_model_files(path)) == {path, *(tmp_path / name for name in names)}


def test_a_function_s_constants_count(tmp_path: Path) -> None:
    function = helper.make_function(
        "own", "F", [], ["c"], [_constant("c")], [helper.make_opsetid("", 17)]
    )
    model = helper.make_model(_graph([]), functions=[function])
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert list_model_files(path) == [path, tmp_path / "c.bin"]


def test_a_file_that_is_no_model_is_named_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"no model")
    assert list_model_files(path) == [path]
