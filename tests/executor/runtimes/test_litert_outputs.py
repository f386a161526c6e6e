"""Files for LiteRT with unusual outputs and with float operators among integers: ptq reads what it wrote."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.core.errors import UnsupportedError

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is an extra: litert")

ROWS = {"x": gaussian_array(40, 6, seed=3)}
W = gaussian_array(6, 8)


def _quantize(model: Any, data: Any, **options: Any) -> ptq.Result:
    options = {"target": "litert", "form": "tflite", "effort": "fast", **options}
    return ptq.quantize(model, data, force=True, threads=1, **options)


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ("y = MatMul(x, w)\nz = Identity(y)", ("y", "z")),
        ("y = MatMul(x, w)\nz = Identity(x)", ("y", "z")),
        ("y = MatMul(x, w)\nz = Relu(y)\nu = Identity(z)", ("u", "z")),
    ],
)
def test_two_outputs_may_be_one_tensor(
    nodes: str, outputs: tuple[str, ...], tmp_path: Path
) -> None:
    model = build_network(nodes, {"x": ("n", 6)}, outputs, w=W)
    made = _quantize(model, ROWS)
    place = tmp_path / "m.tflite"
    made.save(place)
    found = ptq.evaluate(place, ROWS, against=model, threads=1).forms["int8"].outputs
    assert {*found} == {*outputs}
    assert min(fidelity.sqnr_db for fidelity in found.values()) > 25


def test_the_size_of_a_file_in_memory_is_that_of_the_file(tmp_path: Path) -> None:
    model = build_network("y = MatMul(x, w)", {"x": ("n", 6)}, w=W)
    place = tmp_path / "m.tflite"
    _quantize(model, ROWS).save(place)
    found = ptq.compare(model, place.read_bytes(), ROWS, threads=1)
    assert found.new_bytes == place.stat().st_size


def test_a_number_as_output_is_that_of_the_float_model(tmp_path: Path) -> None:
    model = build_network("m = MatMul(x, w)\ny = ReduceMean<keepdims = 0>(m)", {"x": (1, 6)}, w=W)
    rows = {"x": ROWS["x"] + 1}
    made = _quantize(model, rows)
    made.save(tmp_path / "m.tflite")
    found = ptq.evaluate(tmp_path / "m.tflite", rows, against=model, threads=1)
    assert found.forms["int8"].outputs["y"].sqnr_db > 20
    assert ptq.verify(tmp_path / "m.tflite", {"x": rows["x"][:8]}, threads=1).passed


def test_sequences_are_refused_in_one_line() -> None:
    nodes = (
        "m = MatMul(x, w)\ns = SplitToSequence<axis = 1>(m)\ny = ConcatFromSequence<axis = 1>(s)"
    )
    with pytest.raises(UnsupportedError, match="is a sequence, which has no form in LiteRT"):
        _quantize(build_network(nodes, {"x": ("n", 6)}, w=W), ROWS)


def test_a_float_operator_between_integers_is_read_as_one(tmp_path: Path) -> None:
    model = build_network(
        "c = Conv(x, w)\na = Relu(c)\np = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(a)\n"
        "d = Conv(p, v)\ny = Flatten(d)",
        {"x": ("n", 3, 8, 8)},
        w=gaussian_array(8, 3, 3, 3, scale=0.2),
        v=gaussian_array(8, 8, 2, 2, scale=0.2, seed=1),
    )
    data = {"x": gaussian_array(40, 3, 8, 8, seed=2)}
    made = _quantize(model, data, target="litert-xnnpack")
    assert "AveragePool" in {row.op for row in made.report.nodes if row.fate == "float"}
    made.save(tmp_path / "m.tflite")
    few = {"x": data["x"][:4]}
    assert ptq.verify(tmp_path / "m.tflite", few, arithmetic="litert-xnnpack", threads=1).passed
    found = ptq.evaluate(
        tmp_path / "m.tflite", few, against=model, engine="integer", arithmetic="litert-xnnpack",
        threads=1,
    )  # fmt: skip
    assert found.forms["integers"].outputs["y"].sqnr_db > 25
    assert "error" not in {finding.severity for finding in ptq.lint(tmp_path / "m.tflite")}


def test_a_division_at_an_integer_border_is_an_integer_one() -> None:
    model = build_network(
        "m = MatMul(x, w)\ns = Sigmoid(m)\no = Add(s, one)\ny = Div(m, o)",
        {"x": ("n", 6)},
        w=W,
        one=np.float32(1),
    )
    made = ptq.quantize(
        model, ROWS, target="litert", io="int8", effort="fast", force=True, threads=1
    )
    assert made.model.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.INT8


@pytest.mark.parametrize("io", ["int8", "float16"])
def test_a_converted_model_keeps_the_types_of_its_border(io: str, tmp_path: Path) -> None:
    model = build_network("m = MatMul(x, w)\ny = Relu(m)", {"x": ("n", 6)}, w=W)
    made = ptq.quantize(
        model, ROWS, target="litert", io=io, effort="fast", force=True, threads=1
    )  # fmt: skip
    made.save(tmp_path / "m.onnx")
    ptq.convert(tmp_path / "m.onnx", "tflite").save(tmp_path / "m.tflite")
    interpreter = importlib.import_module("ai_edge_litert.interpreter")
    opened = interpreter.Interpreter(str(tmp_path / "m.tflite"))
    (detail,) = opened.get_input_details()
    assert detail["dtype"].__name__ == io
    few = {"x": ROWS["x"][:8]}
    assert ptq.verify(tmp_path / "m.tflite", few, threads=1).passed


@pytest.mark.parametrize("counted", [0, 1])
def test_a_float_output_that_a_quantizer_reads_too_is_not_rounded(
    counted: int, tmp_path: Path
) -> None:
    pool = f"kernel_shape = [2, 2], strides = [1, 2], pads = [0, 1, 1, 0], count_include_pad = {counted}"
    model = build_network(
        f"c = Conv(x, w)\np = AveragePool<{pool}>(c)\ny = Conv(p, v)",
        {"x": ("n", 2, 8, 7)},
        ("p", "y"),
        w=gaussian_array(2, 2, 1, 1),
        v=gaussian_array(3, 2, 1, 1, seed=1),
    )
    data = {"x": gaussian_array(20, 2, 8, 7, seed=2)}
    _quantize(model, data).save(tmp_path / "m.tflite")
    assert ptq.verify(tmp_path / "m.tflite", {"x": data["x"][:4]}, threads=1).passed
