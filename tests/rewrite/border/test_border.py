"""Inputs and outputs of integers or halves, and a fixed batch, of the models of every target.

The oracle is the model with float inputs and outputs: the integers are those that its quantizers write and read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.core.errors import UnsupportedError, UsageError
from ptq.core.targets import TARGETS
from ptq.core.types import QType, QuantParams
from ptq.model.graph import Graph
from ptq.model.metadata import read_record
from ptq.model.node import get_dtype, get_shape
from ptq.model.session.session import Session
from ptq.rewrite.border.element_types import (
    BORDER,
    open_with_float_border,
    to_border_feed,
    with_float16_border,
    with_integer_border,
)
from ptq.rewrite.tflite.write import InputOutputType

SAME = "<pads = [1, 1, 1, 1]>"
MODEL = build_network(
    f"c = Conv{SAME}(x, u)\nr = Relu(c)\nd = Conv{SAME}(r, v)\ny = MaxPool<kernel_shape = [2, 2]>(d)",
    {"x": ("N", 3, 8, 8)},
    u=gaussian_array(8, 3, 3, 3, scale=0.2),
    v=gaussian_array(4, 8, 3, 3, seed=1, scale=0.1),
)
DATA = {"x": gaussian_array(16, 3, 8, 8, seed=5)}
FLOAT_OUTPUTS = {name for name, row in TARGETS.items() if row.quantizes_inputs_only}


def quantize(target: str, **options: Any) -> ptq.Result:
    return ptq.quantize(
        MODEL, DATA, eval_data=DATA, target=target, effort="fast", rounding="nearest", threads=1, force=True,
        **options,
    )  # type: ignore[arg-type] # fmt: skip


def params_of(entry: dict[str, Any]) -> QuantParams:
    dtype = np.dtype(entry["type"])
    info = np.iinfo(dtype)
    kind = QType(dtype.itemsize * 8, dtype.kind == "i", int(info.min), int(info.max))
    return QuantParams.per_tensor(entry["scale"], entry["zero_point"], kind)


@pytest.mark.parametrize("target", TARGETS)
def test_integer_inputs_and_outputs_are_those_of_the_plan(target: str) -> None:
    result = quantize(target, io="int8")
    plain = quantize(target, plan=result.plan)
    record = read_record(result.graph, BORDER)
    assert record is not None
    [x], [y] = result.graph.inputs, result.graph.outputs
    kind = TARGETS[target].activation.dtype
    assert (x.name, y.name, get_dtype(x)) == ("x", "y", kind)
    before, planned = params_of(record["inputs"]["x"]), result.plan.tensors["x"]
    assert (before.scale, before.zero_point) == (planned.scale, planned.zero_point)
    integers = before.quantize(DATA["x"])
    session = Session(result.graph, threads=1, optimize="basic")
    [found] = session.run({"x": integers})
    [expected] = Session(plain.graph, threads=1, optimize="basic").run(DATA)
    if target in FLOAT_OUTPUTS:
        assert record["outputs"] == {}
        np.testing.assert_array_equal(found, expected)
    else:
        assert found.dtype == kind == get_dtype(y)
        np.testing.assert_array_equal(params_of(record["outputs"]["y"]).dequantize(found), expected)
    assert any("x is " in line for line in result.report.changes)


@pytest.mark.parametrize("target", TARGETS)
def test_halves_are_cast_at_the_border(target: str) -> None:
    result, plain = quantize(target, io="float16"), quantize(target)
    assert {get_dtype(v) for v in (*result.graph.inputs, *result.graph.outputs)} == {
        np.dtype(np.float16)
    }
    half = DATA["x"].astype(np.float16)
    [found] = Session(result.graph, threads=1, optimize="basic").run({"x": half})
    session = Session(plain.graph, threads=1, optimize="basic")
    [expected] = session.run({"x": half.astype(np.float32)})
    np.testing.assert_array_equal(found, expected.astype(np.float16))


LARGE = {"x": 3e4 * DATA["x"]}
"""Some of these values are beyond the largest half."""


def sqnr(expected: np.ndarray, found: np.ndarray) -> float:
    error = np.square(expected.astype(np.float64) - found).sum()
    return float(10 * np.log10(np.square(expected.astype(np.float64)).sum() / error))


def quantize_small_weights(**options: Any) -> tuple[ptq.Result, np.ndarray]:
    """A model for `LARGE`, quantized; and the float outputs."""
    model = build_network("y = Gemm(x, w)", {"x": ("N", 64)}, w=gaussian_array(64, 8, scale=1e-6))
    data = {"x": LARGE["x"].reshape(-1, 64)}
    result = ptq.quantize(
        model, data, eval_data=data, effort="fast", threads=1, force=True, task="none", **options
    )
    [expected] = Session(Graph.from_proto(model), threads=1).run(data)
    return result, expected


def test_the_report_of_a_model_with_halves_is_that_of_the_file() -> None:
    result, expected = quantize_small_weights(target="qnn", io="float16")
    with np.errstate(over="ignore"):
        half = LARGE["x"].reshape(-1, 64).astype(np.float16)
    assert np.isinf(half).any()
    [found] = Session(result.graph, threads=1).run({"x": half})
    assert result.report.evaluation is not None
    forms = result.report.evaluation.forms
    for form in ("int8", "integers"):
        figure = forms[form].outputs["y"].sqnr_db
        assert figure == pytest.approx(sqnr(expected, found), abs=0.05), form
    plain, _ = quantize_small_weights(target="qnn")
    assert plain.report.evaluation is not None
    assert plain.report.evaluation.forms["int8"].outputs["y"].sqnr_db > 30 > figure


def test_the_report_of_a_tflite_file_with_halves_is_that_of_the_file() -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    from ptq.model.tflite.interpreter import LitertModel

    result, expected = quantize_small_weights(target="litert", io="float16", form="tflite")
    assert result.tflite is not None
    with np.errstate(over="ignore"):
        found = LitertModel(result.tflite).run({"x": LARGE["x"].reshape(-1, 64)})["y"]
    report = result.report
    assert report.evaluation is not None
    assert report.evaluation.runtime == "litert"
    figure = report.evaluation.forms["int8"].outputs["y"].sqnr_db
    assert figure == pytest.approx(sqnr(expected, found), abs=0.05)
    assert figure < 30


def test_litert_computes_the_values_of_the_executor_behind_halves() -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    report = quantize("litert", io="float16", form="tflite").report
    assert report.litert is not None
    assert all(kernels.elements for kernels in report.litert.kernels)
    assert [kernels.differing for kernels in report.litert.kernels] == [0, 0]


@pytest.mark.parametrize("target", TARGETS)
def test_a_fixed_batch_is_in_every_shape(target: str) -> None:
    graph = quantize(target, static_batch=2).graph
    assert [(get_shape(v) or ())[0] for v in (*graph.inputs, *graph.outputs)] == [2, 2]
    named = {n for node in graph.nodes for v in node.outputs for n in get_shape(v) or ()}
    assert all(isinstance(n, int | None) for n in named)
    [found] = Session(graph, threads=1).run({"x": DATA["x"][:2]})
    assert len(found) == 2


def test_ptq_feeds_float_samples_to_a_model_with_integer_inputs(tmp_path: Path) -> None:
    quantize("qnn", io="int8").save(tmp_path / "m.onnx")
    evaluation = ptq.evaluate(tmp_path / "m.onnx", DATA, against=MODEL, threads=1)
    [form] = [f for name, f in evaluation.forms.items() if name == "int8"]
    assert (form.outputs["y"].sqnr_db or 0) > 30
    verification = ptq.verify(tmp_path / "m.onnx", DATA, threads=1)
    assert verification.tensors
    assert all(tensor.differing == 0 for tensor in verification.tensors)


@pytest.mark.parametrize("io", ["int8", "float16"])
def test_a_model_is_measured_against_its_float_model_on_float_samples(
    io: InputOutputType, tmp_path: Path
) -> None:
    quantize("qnn", io=io).save(tmp_path / "m.onnx")
    plain = quantize("qnn").model
    for data in (DATA, {"x": DATA["x"].astype(np.float16)}):
        evaluation = ptq.evaluate(tmp_path / "m.onnx", data, against=MODEL, threads=1)
        assert (evaluation.forms["int8"].outputs["y"].sqnr_db or 0) > 30
    for old, new in ((plain, tmp_path / "m.onnx"), (tmp_path / "m.onnx", plain)):
        comparison = ptq.compare(old, new, DATA, threads=1)
        assert (comparison.outputs["y"].sqnr_db or 100) > 35
    timed = ptq.benchmark([MODEL, tmp_path / "m.onnx"], DATA, seconds=0.05, threads=1)
    assert len(timed.models) == 2
    made = ptq.benchmark([tmp_path / "m.onnx", MODEL], seconds=0.05, threads=1)
    assert made.shapes == {"x": (1, 3, 8, 8)}


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_a_model_of_another_float_type_is_measured_against_its_float32_model(
    kind: type, tmp_path: Path
) -> None:
    other = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    model = build_network(
        f"xf = Cast<to = 1>(x)\nc = Conv{SAME}(xf, u)\nyf = Relu(c)\ny = Cast<to = {other}>(yf)",
        {"x": ("N", 3, 8, 8)}, u=gaussian_array(8, 3, 3, 3, scale=0.2),
    )  # fmt: skip
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = other
    plain = build_network(
        f"c = Conv{SAME}(x, u)\ny = Relu(c)",
        {"x": ("N", 3, 8, 8)},
        u=gaussian_array(8, 3, 3, 3, scale=0.2),
    )
    for measured, against in ((model, plain), (plain, model)):
        evaluation = ptq.evaluate(measured, DATA, against=against, threads=1)
        [form] = [form for name, form in evaluation.forms.items() if name == "other"]
        assert form.outputs["y"].sqnr_db > 60


def test_the_casts_at_the_border_come_back() -> None:
    halves = with_float16_border(quantize("qnn").graph)
    again = open_with_float_border(halves.to_proto())
    assert BORDER not in again.metadata
    assert {get_dtype(v) for v in (*again.inputs, *again.outputs)} == {np.dtype(np.float32)}
    feed = {"x": DATA["x"][:2]}
    [found] = Session(again, threads=1, optimize="basic").run(feed)
    [expected] = Session(halves, threads=1, optimize="basic").run(to_border_feed(halves, feed))
    assert expected.dtype == np.float16
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_a_feed_of_integers_is_what_the_quantizers_write() -> None:
    graph = with_integer_border(quantize("qnn").graph)
    record = read_record(graph, BORDER)
    assert record is not None
    fed = to_border_feed(graph, DATA)["x"]
    np.testing.assert_array_equal(fed, params_of(record["inputs"]["x"]).quantize(DATA["x"]))
    assert to_border_feed(quantize("qnn").graph, DATA)["x"] is DATA["x"]


def test_the_quantizers_at_the_border_come_back(tmp_path: Path) -> None:
    graph = quantize("qnn-a16").graph
    again = open_with_float_border(with_integer_border(graph).to_proto())
    feed = {"x": DATA["x"][:2]}
    [found], [expected] = (
        Session(g, threads=1, optimize="basic").run(feed) for g in (again, graph)
    )
    np.testing.assert_array_equal(found, expected)


def test_a_damaged_record_of_the_border_is_named() -> None:
    graph = with_integer_border(quantize("qnn").graph)
    graph.metadata[BORDER] = '{"inputs":{"x":{"scale":1}},"outputs":{}}'
    with pytest.raises(ptq.ModelError, match=r"ptq\.io of the model's metadata is damaged"):
        open_with_float_border(graph)


def test_a_model_whose_border_is_float_has_no_integers_there() -> None:
    with pytest.raises(UnsupportedError, match="no input and no output"):
        with_integer_border(Graph.from_proto(MODEL))


def test_a_first_layer_that_is_faster_in_float_reads_integers() -> None:
    weights = {"w": gaussian_array(16, 1, 3, 3), "u": gaussian_array(16, 16, 3, 3)}
    nodes = f"c = Conv{SAME}(x, w)\nr = Relu(c)\nd = Conv{SAME}(r, u)\ny = Relu(d)"
    model = build_network(nodes, {"x": (1, 1, 256, 256)}, **weights)
    data = {"x": gaussian_array(4, 1, 256, 256)}
    given: dict[str, Any] = {
        "eval_data": data,
        "effort": "fast",
        "rounding": "nearest",
        "threads": 1,
        "force": True,
    }
    assert "Conv_c" in ptq.quantize(model, data, **given).plan.floats
    graph = ptq.quantize(model, data, io="int8", **given).graph
    assert [get_dtype(value) for value in (*graph.inputs, *graph.outputs)] == [np.uint8] * 2


def test_without_metadata_the_border_is_not_recorded() -> None:
    assert BORDER not in quantize("qnn", io="float16", metadata=False).graph.metadata
    result = quantize("qnn", io="int8", metadata=False)
    assert BORDER not in result.graph.metadata
    assert get_dtype(result.graph.inputs[0]) == np.uint8


def test_another_fixed_batch_is_refused_before_the_run() -> None:
    weights = {"u": gaussian_array(8, 3, 3, 3)}
    fixed = build_network("y = Conv(x, u)", {"x": (1, 3, 8, 8)}, **weights)
    stages: list[str] = []

    def note(stage: str, *_: Any) -> None:
        stages.append(stage)

    with pytest.raises(
        UsageError, match="input x has a batch of 1, not 2; leave `static_batch` out"
    ):
        ptq.quantize(fixed, DATA, static_batch=2, threads=1, progress=note)
    assert stages == []


@pytest.mark.parametrize("first", ["x", "table"])
@pytest.mark.parametrize("form", ["qdq", "tflite"])
@pytest.mark.parametrize("rows", [5, "K"])
def test_an_input_of_another_length_than_the_batch_keeps_it(
    first: str, form: str, rows: int | str, tmp_path: Path
) -> None:
    if form == "tflite":
        pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    inputs = {"x": ("N", 24), "table": (rows, 16)}
    model = build_network(
        "t = Transpose<perm = [1, 0]>(table)\nh = MatMul(x, w)\nr = Relu(h)\ny = MatMul(r, t)",
        {name: inputs[name] for name in sorted(inputs, key=lambda name: name != first)},
        w=gaussian_array(24, 16),
    )
    for at in range(12):
        np.savez(
            tmp_path / f"{at}.npz",
            x=gaussian_array(1, 24, seed=at),
            table=gaussian_array(5, 16, seed=at),
        )
    result = ptq.quantize(
        model, tmp_path, target="litert", static_batch=4, form=form, effort="fast", threads=1, force=True
    )  # type: ignore[call-overload] # fmt: skip
    shapes = {v.name: get_shape(v) for v in result.graph.inputs}
    assert shapes == {"x": (4, 24), "table": (5 if rows == 5 else None, 16)}
    if result.tflite is not None:
        from ptq.model.tflite.parsed import parse_tflite

        file = parse_tflite(result.tflite)
        found = {name: file.tensors[at].signature for name, at in file.inputs.items()}
        assert found == {"x": (4, 24), "table": (5, 16)}


def test_inputs_with_other_names_of_the_batch_have_it_too() -> None:
    model = build_network(
        "h = MatMul(x, w)\ny = Add(h, z)",
        {"x": ("N", 24), "z": ("M", 16)},
        w=gaussian_array(24, 16),
    )
    data = {"x": gaussian_array(12, 24), "z": gaussian_array(12, 16, seed=1)}
    result = ptq.quantize(model, data, static_batch=4, effort="fast", threads=1, force=True)
    assert [get_shape(v) for v in result.graph.inputs] == [(4, 24), (4, 16)]


@pytest.mark.parametrize("given", [{"io": "int8"}, {"io": "float16"}, {"static_batch": 2}], ids=str)
def test_the_onnx_model_of_a_tflite_result_has_the_border_that_is_asked_for(
    given: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    both = quantize("litert", form="tflite", **given)
    both.save(tmp_path / "m.onnx")
    both.save(tmp_path / "m.tflite")
    quantize("litert", **given).save(tmp_path / "alone.onnx")
    made, alone = (onnx.load(tmp_path / name) for name in ("m.onnx", "alone.onnx"))
    assert made.graph == alone.graph
    assert made.graph != quantize("litert").model.graph
    assert (tmp_path / "m.tflite").read_bytes() == both.tflite


@pytest.mark.parametrize("form", ["qdq", "tflite"])
def test_a_float_border_alone_is_refused_in_both_files(form: str) -> None:
    if form == "tflite":
        pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    with pytest.raises(
        UnsupportedError, match="because the nodes there stay float; leave `io` out"
    ):
        quantize("litert", io="int8", skip=["Conv", "Relu", "MaxPool"], form=form)


def test_the_report_of_a_tflite_file_says_which_side_is_float() -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    from ptq.model.tflite.parsed import parse_tflite

    result = quantize("litert", io="int8", skip=["MaxPool", "Conv_d"], form="tflite")
    assert result.tflite is not None
    file = parse_tflite(result.tflite)
    x, y = file.tensors[file.inputs["x"]], file.tensors[file.outputs["y"]]
    assert (x.dtype, y.dtype) == (np.int8, np.float32)
    assert x.params is not None
    note = (
        f"x is int8 (scale {float(x.params.scale):g}, zero point {int(x.params.zero_point)}); "
        "not quantized, so float: y"
    )
    assert note in result.report.changes


def test_integer_inputs_are_said_where_nothing_else_can_become_integers() -> None:
    nodes = "f = Cast<to = 1>(x)\nc = Conv(f, u)\ny = Relu(c)"
    model = build_network(nodes, {"x": (1, 3, 8, 8)}, u=gaussian_array(8, 3, 3, 3, scale=0.2))
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    data = {"x": np.random.default_rng(0).integers(0, 255, (8, 3, 8, 8), np.uint8)}
    said = "input x is uint8 already, and the nodes at y stay float; leave `io` out"
    with pytest.raises(UnsupportedError, match=said):
        ptq.quantize(
            model, data, target="openvino", io="int8", effort="fast", threads=1, force=True
        )


@pytest.mark.parametrize("kind", [np.float16, np.float64])
@pytest.mark.parametrize("target", ["ort", "qnn", "openvino", "litert"])
def test_integers_take_the_place_of_a_float16_or_float64_border(kind: type, target: str) -> None:
    model = build_network(
        f"xf = Cast<to = 1>(x)\nc = Conv{SAME}(xf, u)\nr = Relu(c)\nyf = MaxPool<kernel_shape = [2, 2]>(r)\n"
        f"y = Cast<to = {onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))}>(yf)",
        {"x": ("N", 3, 8, 8)}, u=gaussian_array(8, 3, 3, 3, scale=0.2),
    )  # fmt: skip
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    data = {"x": DATA["x"].astype(kind)}
    given: dict[str, Any] = {
        "eval_data": data, "target": target, "effort": "fast", "threads": 1, "force": True,
    }  # fmt: skip
    result = ptq.quantize(model, data, io="int8", **given)
    plain = ptq.quantize(model, data, plan=result.plan, **given)
    integer = TARGETS[target].activation.dtype
    [x], [y] = result.graph.inputs, result.graph.outputs
    record = read_record(result.graph, BORDER)
    assert record is not None
    assert (x.name, y.name, get_dtype(x)) == ("x", "y", integer)
    integers = params_of(record["inputs"]["x"]).quantize(data["x"].astype(np.float32))
    [found] = Session(result.graph, threads=1, optimize="basic").run({"x": integers})
    [expected] = Session(plain.graph, threads=1, optimize="basic").run(data)
    if target == "openvino":
        assert (get_dtype(y), record["outputs"]) == (kind, {})
        assert any("not quantized, so float: y" in line for line in result.report.changes)
    else:
        assert get_dtype(y) == integer
        found = params_of(record["outputs"]["y"]).dequantize(found).astype(kind)
    np.testing.assert_array_equal(found, expected)


def test_a_tflite_file_of_a_float16_model_has_integers() -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    from ptq.model.tflite.interpreter import LitertModel
    from ptq.model.tflite.parsed import parse_tflite

    halves = with_float16_border(Graph.from_proto(MODEL)).to_proto()
    result = ptq.quantize(
        halves, {"x": DATA["x"].astype(np.float16)}, target="litert", io="int8", form="tflite",
        effort="fast", threads=1, force=True,
    )  # fmt: skip
    assert result.tflite is not None
    file = parse_tflite(result.tflite)
    ends = (file.inputs["x"], file.outputs["y"])
    assert [file.tensors[number].dtype for number in ends] == [np.int8] * 2
    assert result.report.litert is not None
    assert [kernels.differing for kernels in result.report.litert.kernels] == [0, 0]
    found = LitertModel(result.tflite).run(DATA)["y"]
    [expected] = Session(Graph.from_proto(MODEL), threads=1).run(DATA)
    assert sqnr(expected, found) > 30


@pytest.mark.parametrize("target", ["ort", "portable", "qnn", "tensorrt"])
def test_no_inferred_shape_with_an_open_batch_is_written(target: str) -> None:
    written = quantize(target).model
    assert not [v.name for v in written.graph.value_info if has_open_axis(v)]
    onnx.shape_inference.infer_shapes(written, check_type=True, strict_mode=True)


def test_a_shape_that_the_given_model_declares_stays() -> None:
    given = onnx.ModelProto.FromString(MODEL.SerializeToString())
    given.graph.value_info.append(
        onnx.helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, ["N", 8, 8, 8])
    )
    skip = ["Conv", "Relu", "MaxPool"]
    written = ptq.quantize(given, DATA, skip=skip, effort="fast", threads=1, force=True).model
    assert [v.name for v in written.graph.value_info if has_open_axis(v)] == ["r"]


@pytest.mark.parametrize("batch", [1, 2])
def test_a_fixed_batch_leaves_no_shape_arithmetic(batch: int) -> None:
    model = build_network(
        "c = Conv(x, u)\nt = Flatten<axis = 2>(c)\ns = Shape(t)\n"
        "n = Slice(s, none, one)\nm = Concat<axis = 0>(n, one, four)\ne = Expand(token, m)\n"
        "y = MatMul(e, v)",
        {"x": ("N", 3, 2, 2)},
        u=gaussian_array(4, 3, 1, 1),
        v=gaussian_array(4, 8, seed=1),
        token=gaussian_array(1, 1, 4, seed=2),
        none=np.array([0]),
        one=np.array([1]),
        four=np.array([4]),
    )
    data = {"x": gaussian_array(8, 3, 2, 2, seed=5)}
    made = ptq.quantize(model, data, static_batch=batch, effort="fast", threads=1, force=True)
    left = {node.op_type for node in made.model.graph.node}
    assert not left & {"Shape", "Slice", "Expand", "Concat"}


def test_types_that_onnx_does_not_infer_stay_declared() -> None:
    """QGemm returns float here, as the Softmax behind it needs; ONNX has no rule for it."""
    model = build_network(
        "z = Gemm(x, w)\ny = Softmax(z)", {"x": ("N", 8)}, w=gaussian_array(8, 4, scale=0.3)
    )
    data = {"x": gaussian_array(16, 8, seed=5)}
    made = ptq.quantize(model, data, form="qoperator", effort="fast", threads=1, force=True)
    assert [node.op_type for node in made.model.graph.node] == [
        "QuantizeLinear",
        "QGemm",
        "Softmax",
    ]
    assert not any(found.differing for found in ptq.verify(made.model, data, threads=1).tensors)


def has_open_axis(value: onnx.ValueInfoProto) -> bool:
    return any(not side.HasField("dim_value") for side in value.type.tensor_type.shape.dim)
